# Two commands do everything on a machine with only Python 3.10+ and make: `make demo`, `make test`.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.10; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo monitor test test-all check format bench mutate docs clean

demo: $(VENV)/.package
	$(BIN)/shiftgauge demo

# The monitor, filled with 60 days of a model whose world changes: open the address that it prints.
monitor: $(VENV)/.monitor
	$(BIN)/shiftgauge monitor --demo --data .monitor-demo

# One BLAS thread per test process: two of them spin against each other on two cores.
test: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The documentation site, in site/: open site/index.html.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every Python from 3.10 to 3.13 that is found, then the lowest versions that pyproject.toml allows.
test-all:
	scripts/test_all

# Each claim of speed or coverage against a named opponent, in a short form; see benchmarks/ for the long ones.
bench: $(VENV)/.bench
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script --quick; done

# Do the tests notice when the code is broken on purpose? Within an hour on two cores; goes on where it was killed.
mutate: $(VENV)/.dev
	$(BIN)/python scripts/mutate.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The environment is made anew whenever pyproject.toml changes.
$(VENV)/.package: pyproject.toml
	@test -n "$(PYTHON)" || { echo "shiftgauge needs Python 3.10 or newer"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.monitor: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --editable '.[monitor]'
	touch $@

$(VENV)/.dev: $(VENV)/.package
	scripts/install_torch $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) .venvs .monitor-demo .mutants build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
