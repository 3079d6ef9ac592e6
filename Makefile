# Two commands do everything on a machine with only Python 3.10+ and make: `make demo`, `make test`.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.10; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN = $(VENV)/bin

# What `make test` leaves to `make test-all` (pyproject.toml says what the markers mean).
LEFT_OUT = slow or torch or spark or postgres or browser
# One BLAS thread per test process: two of them spin against each other on two cores.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
MANY = SHIFTGAUGE_KILLS=$${SHIFTGAUGE_KILLS:-20} SHIFTGAUGE_DAMAGED=$${SHIFTGAUGE_DAMAGED:-2000}

.PHONY: demo monitor test test-all test-rest test-versions check format bench mutate docs clean

demo: $(VENV)/.package
	$(BIN)/shiftgauge demo

# The monitor, filled with 60 days of a model whose data change: open the address that it prints.
# PORT=8200 chooses another port, PORT=0 a free one.
monitor: $(VENV)/.monitor
	$(BIN)/shiftgauge monitor --demo --store .monitor-demo $(if $(PORT),--port $(PORT))

# What a newcomer runs: no torch, Spark, PostgreSQL or browser, within 5 minutes on two cores.
# COVERAGE="--cov --cov-report=term" shows which lines of each file it runs, and takes half as long again.
test: $(VENV)/.dev
	$(PYTEST) $(COVERAGE) -m "not ($(LEFT_OUT))"

# Everything on this Python, with coverage (which adds three quarters to the time on Python 3.11).
# Tests whose part is not installed skip and say so.
test-all: $(VENV)/.dev-all
	$(MANY) $(PYTEST) --cov --cov-report=term -rs

# What test-all runs beyond test: after `make test`, the two together are `make test-all`.
test-rest: $(VENV)/.dev-all
	$(MANY) $(PYTEST) -m "$(LEFT_OUT) or extended" -rs

# Every Python from 3.10 to 3.13 that is found, then the lowest versions that pyproject.toml allows.
test-versions:
	scripts/test_versions

check: $(VENV)/.dev $(VENV)/.docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The documentation site, in site/: open site/index.html.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Each claim of speed or coverage against a named opponent, in a short form; see benchmarks/ for the long ones.
bench: $(VENV)/.bench
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script --quick; done

# Do the tests notice when the code is broken on purpose? Within an hour on two cores; goes on where it was killed.
mutate: $(VENV)/.dev-all
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

# The solver is compiled here once, for both types of scores, rather than by each test process.
$(VENV)/.dev: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -c "from shiftgauge.transport import warm_up; warm_up(('float64', 'float32'))"
	touch $@

$(VENV)/.docs: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)/.dev-all: $(VENV)/.dev
	scripts/install_torch $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev-all]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev-all
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) .venvs .monitor-demo .mutants build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
