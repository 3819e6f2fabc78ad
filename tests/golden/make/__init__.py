"""Golden data made again from the libraries' repositories: ``python -m tests.golden.make``. See README.md."""
