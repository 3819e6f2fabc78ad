# make lab      open the course in JupyterLab
# make quick    in a minute or so, while you work: lint, types, one fast test of every room, one chapter
# make test     lint, types, unit tests, notebooks: everything a machine with Python, pip and make can test
# make check    what needs more, Node and Chromium among it: the book, browser tests, extras, the wheel in a clean place;
#               and what takes longer: chapters without torch
# make refresh  run the notebooks and store what they print
# make book     build the static book, .book/html, from the stored outputs (needs npm, for MathJax)
# make bench    measure speed against peers, write benchmarks/results/ (use a quiet machine)
# make audit    for an hour: every bound and estimator on thousands of exact models, attacks on every bound, other seeds
#               of each loop, and whether tests see a function that is 1 % off
# make weights  train the shipped warm starts again
# make pins     write constraints.txt anew from the newest versions that go together, and Binder's requirements from it
# make binder   write Binder's requirements only
#
# Tests run in as many processes as there are processors, at most 8, each on whole files: WORKERS says another number.
# PY is the interpreter; LAB_EXTRA are more options for JupyterLab (--allow-root in a container), PIP_EXTRA for pip.
# For a CPU build of torch where the default is CUDA:
#   make lab PIP_EXTRA="--extra-index-url https://download.pytorch.org/whl/cpu"

PY        ?= python3
PIP_EXTRA ?=
LAB_EXTRA ?=
VENV      ?= .venv
BIN       := $(VENV)/bin
PIP       := -m pip install --quiet --disable-pip-version-check $(PIP_EXTRA)
NOTEBOOKS := $(wildcard course/*.ipynb) course/book/template.ipynb
DEEPER    := $(wildcard course/deeper/*.ipynb) course/book/deeper/template.ipynb
CHAPTER   := course/02_performance_difference.ipynb
ROOMS     := $(addprefix tests/,bounds/test_result.py bridge/test_import.py chapters/test_exercises_14.py control/test_networks.py \
	course/test_notebooks.py estimators/test_returns.py exact/test_tokens.py lm/test_clip_and_warm_up.py logs/test_settings.py \
	notebook/test_live.py objectives/test_gates.py studies/test_power.py gpu/test_stacked.py golden/test_make.py test_repository.py)
TYPED     := trl|transformers|accelerate|datasets|tokenizers|stable_baselines3|sb3_contrib|reasoning_gym|playwright
LONGEST   := tests/test_wheel.py tests/test_cli_properties.py
MARKED     = $(shell grep -rlE "mark\.(extras|slow)" --include="test_*.py" tests)
WORKERS   ?= logical
PYTEST    := $(BIN)/python -m pytest -q -n $(WORKERS) --maxprocesses=8 --dist loadfile --max-worker-restart=0
EXTRAS    := lab,test,book,tasks,peers,bridge,real
# one thread a process: the models are too small to share, and a second thread that waits costs more than it brings
export OMP_NUM_THREADS ?= 1

.PHONY: lab quick rooms chapter test check alltypes extras lint types unit notebooks refresh book bench audit weights pins binder

lab: $(VENV)/.installed
	$(BIN)/jupyter lab course --ip=127.0.0.1 $(LAB_EXTRA)

quick: $(VENV)/.installed
	$(MAKE) --no-print-directory --jobs=2 lint types rooms chapter

rooms: $(VENV)/.installed
	$(BIN)/python -m pytest -q $(ROOMS)

chapter: $(VENV)/.installed
	$(BIN)/python -m pytest -q --nbval-lax --nbval-cell-timeout=180 $(CHAPTER)

test: lint types unit notebooks

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/pyright rlnotes tests

unit: $(VENV)/.installed
	PYTHONWARNDEFAULTENCODING=1 $(PYTEST)

# In a folder that holds nothing else, as some editors start them: what they need comes with the package, and they leave
# nothing behind. A chapter and its deeper page have one name, so the deeper ones keep a folder of their own.
notebooks: $(VENV)/.installed
	rm -rf .notebooks && mkdir -p .notebooks/deeper && cp $(NOTEBOOKS) .notebooks && cp $(DEEPER) .notebooks/deeper
	$(PYTEST) --nbval-lax --nbval-cell-timeout=180 .notebooks/*.ipynb .notebooks/deeper/*.ipynb
	@left=$$(find .notebooks -type f ! -name '*.ipynb'); \
		[ -z "$$left" ] || { echo "notebooks left $$left behind in .notebooks"; exit 1; }

check: book
	$(MAKE) --no-print-directory --jobs=2 alltypes extras

# The files that use what only now is there; the others have been looked at.
alltypes: $(VENV)/.everything
	$(BIN)/pyright benchmarks $(shell grep -rlE "^ *(from|import) ($(TYPED))" --include=*.py rlnotes tests)

extras: $(VENV)/.everything
	RLNOTES_BOOK=.book/html $(PYTEST) --no-loadscope-reorder -m "extras or slow" \
		--override-ini addopts="-ra --import-mode=importlib --strict-markers" $(LONGEST) $(filter-out $(LONGEST),$(MARKED))

refresh: $(VENV)/.installed
	$(BIN)/ruff format course
	$(BIN)/python -m rlnotes.notebook.refresh $(NOTEBOOKS) $(DEEPER)

book: $(VENV)/.everything .book/static/mathjax/tex-chtml.js
	$(BIN)/sphinx-build -W --keep-going --quiet -b html -c course/book -d .book/doctrees course .book/html
	@echo "open .book/html/index.html"

# Of MathJax only what pages load. The same package.json brings the browser tests their driver.
.book/static/mathjax/tex-chtml.js: tests/browser/package.json tests/browser/package-lock.json
	@command -v npm > /dev/null || { echo "make book needs npm. It comes with Node.js 20 or newer: https://nodejs.org"; exit 1; }
	mkdir -p $(@D) && cp $^ .book
	npm ci --prefix .book --ignore-scripts --no-audit --no-fund --silent
	tar -C .book/node_modules/mathjax -cf - LICENSE -C es5 tex-chtml.js input/tex/extensions output/chtml/fonts/woff-v2 \
		| tar -C $(@D) -xf -
	touch $@

bench: $(VENV)/.everything
	$(BIN)/python -m benchmarks

audit: $(VENV)/.installed
	RLNOTES_CASES=2000 $(PYTEST) tests/exact tests/bounds tests/estimators
	$(BIN)/rlnotes audit
	$(PYTEST) -m sweep tests/course

weights: $(VENV)/.installed
	$(BIN)/python -m rlnotes.lm.make_weights

# A stamp file says that an environment fits these files. torch goes first and alone: pip then never replaces it.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PY) -m venv $(VENV)
	$(BIN)/python $(PIP) torch -c constraints.txt
	$(BIN)/python $(PIP) -e ".[lab,test]" -c constraints.txt
	$(BIN)/python -m rlnotes.notebook.settings
	touch $@

$(VENV)/.everything: $(VENV)/.installed
	$(BIN)/python $(PIP) -e ".[$(EXTRAS)]" -c constraints.txt
	touch $@

pins:
	rm -rf .pins && $(PY) -m venv .pins
	.pins/bin/python $(PIP) "torch==2.13.0"
	.pins/bin/python $(PIP) -e ".[$(EXTRAS)]" "torch==2.13.0"
	.pins/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt
	.pins/bin/python -m rlnotes.notebook.binder
	rm -rf .pins

binder: $(VENV)/.installed
	$(BIN)/python -m rlnotes.notebook.binder
