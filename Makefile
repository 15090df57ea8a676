# Needs Python 3.11+ and make. Everything else goes into .venv, at the versions locked in requirements/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS_AT_ONCE := -n 2 --dist worksteal  # a half each; who is done first takes over from the other's half

.PHONY: help up env test test-slow fuzz check bench docs reference lock clean
.DEFAULT_GOAL := help

help:
	@echo "make up         set up and run a short comparison"
	@echo "make env        set up all extras, as the tests need them"
	@echo "make test       set up and run the tests, but for the slow ones"
	@echo "make test-slow  run the slow ones: trainings, long comparisons, real models"
	@echo "make fuzz       try damaged and hostile input files, ten minutes for each type of file"
	@echo "make check      lint, types, import directions, docs (what CI runs, with all tests)"
	@echo "make bench      run the benchmarks"
	@echo "make docs       build the docs site into site/"
	@echo "make reference  write the generated reference pages anew"
	@echo "make lock       lock the versions anew"

# The environments: .core is what a user gets, with reports and the gym; .dev adds what tests and checks need.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11+ is needed, this is %d.%d; set PYTHON=..." % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.core: $(VENV)/.made requirements/core.txt pyproject.toml
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/core.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/build.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

up: $(VENV)/.core
	@echo "Comparing the policies on full-edge (the first run compiles the engine, about a minute) ..."
	@$(BIN)/fairlead compare full-edge --seeds 5 --report fairlead-report.html
	@echo "Open fairlead-report.html in a browser. More: $(BIN)/fairlead --help"

env: $(VENV)/.dev

test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow" $(TESTS_AT_ONCE)

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow $(TESTS_AT_ONCE)

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.serving
	$(BIN)/python -m benchmarks.gym
	$(BIN)/python -m benchmarks.agents
	$(BIN)/python -m benchmarks.tasks
	$(BIN)/python -m benchmarks.detect
	$(BIN)/python -m benchmarks.predict

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

reference: $(VENV)/.dev
	$(BIN)/python docs/reference/make.py

lock: $(VENV)/.made
	cd requirements && for name in uv build; do \
	  ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header $$name.in -o $$name.txt; done
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra report --extra gym --extra profile pyproject.toml -o requirements/core.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev -c requirements/core.txt pyproject.toml -o requirements/dev.txt

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
