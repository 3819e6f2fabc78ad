"""Policy optimisation for language models, from importance sampling to DPPO.

Importing this package is cheap: nothing heavy is loaded until a submodule is imported.

- ``rlnotes.estimators``: baselines, advantages and divergence estimators, on NumPy or torch arrays
- ``rlnotes.objectives``: policy losses, each a choice of five parts
- ``rlnotes.lm``: a tiny transformer, a sampler, token tasks with verifiable rewards, a trainer
- ``rlnotes.gpu``: what makes a tiny model fast on a GPU; importing it hands it over
- ``rlnotes.logs``: the log of a run, read by the course
- ``rlnotes.notebook``: what the chapters show: live plots and exercise checks
"""

__version__ = "0.1.0"
