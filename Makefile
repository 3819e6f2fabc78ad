# make lab      open the course in JupyterLab
# make test     lint, types, unit tests, notebooks: everything a machine with Python, pip and make can test
# make check    what needs more than that: every extra installed, a clean install of the wheel
# make refresh  run the notebooks and store their outputs
# make bench    measure speed against peers, write benchmarks/results/
#
# PY picks the interpreter, PIP_EXTRA adds pip options:
#   make lab PY=python3.12 PIP_EXTRA="--extra-index-url <an index with the torch build you want>"

PY        ?= python3
PIP_EXTRA ?=
VENV      ?= .venv
BIN       := $(VENV)/bin
INSTALL   := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_EXTRA)
NOTEBOOKS := $(wildcard course/*.ipynb)
# one thread: the tiny models are too small to share, and a second thread that waits costs more than it brings
export OMP_NUM_THREADS ?= 1

.PHONY: lab test check lint types unit notebooks refresh weights bench constraints clean

lab: $(VENV)/.installed
	$(BIN)/jupyter lab course --ip=127.0.0.1

test: lint types unit notebooks

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/pyright

unit: $(VENV)/.installed
	$(BIN)/python -m pytest -q

notebooks: $(VENV)/.installed
	$(BIN)/python -m pytest -q --nbval-lax --nbval-cell-timeout=180 $(NOTEBOOKS)
