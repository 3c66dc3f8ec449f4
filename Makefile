# Everything a developer or CI runs. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests side by side. Most of them wait for a control plane, so that two cores do for three.
WORKERS ?= 3
export PYTHONPATH :=
# Each worker of the tests would compile all of them anew, and each command that a test starts what has changed of gpuctl.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast mutants lint fmt golden schemas control-plane sandbox bench docs clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t16

$(VENV)/.ready: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing; gpuctl needs Python 3.10 or newer" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@# Compiled modules start faster, also where the environment keeps Python from writing them.
	@$(BIN)/python -m compileall -q compiler/gpuctl server/gpuctl_server server/gpuctl_usage
	@touch $@

setup: $(VENV)/.ready ## Install gpuctl and what development needs into .venv

demo: setup ## Render the examples to standard output and to demo-out/
	@rm -rf demo-out && mkdir demo-out
	@for example in examples/*/; do \
	  name=$$(basename $$example); \
	  echo "# gpuctl render -f $$example"; \
	  $(BIN)/gpuctl render -f $$example > demo-out/$$name.yaml || exit 1; \
	  cat demo-out/$$name.yaml; \
	done
	@echo "The manifests are in demo-out/: $$(ls demo-out | tr '\n' ' ')" >&2

test: setup ## Run all tests, side by side (WORKERS=1: one after the other)
	@PYTHONPATH=tests $(BIN)/python -m support.report
	$(BIN)/python -m pytest -n $(WORKERS)

test-fast: setup ## Run what needs no control plane, with few examples: for while you write
	GPUCTL_PROPERTIES=0.2 $(BIN)/python -m pytest -n $(WORKERS) tests/unit tests/golden tests/properties --ignore tests/unit/test_ci_kit.py

mutants: setup ## Which of 100 small mistakes the tests notice (COUNT=, SEED=, ONLY=path:line)
	PYTHONPATH=tests $(BIN)/python -m mutants --workers $(WORKERS) --count $(or $(COUNT),100) --seed $(or $(SEED),1) \
	  $(if $(ONLY),--only $(ONLY))

lint: setup ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=compiler:server $(BIN)/lint-imports

fmt: setup ## Format the Python code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

golden: setup ## Accept what golden cases print now (CASE=name for one); review the difference
	$(BIN)/python tests/golden/cases.py accept $(CASE)

schemas: setup ## Generate schemas/, the SDKs' types, and the Kubernetes schemas the compiler validates against
	$(BIN)/python tools/kubernetes_schemas.py
	$(BIN)/python tools/schemas.py
	$(BIN)/python tools/openapi.py
	$(BIN)/python tools/sdk.py
	$(BIN)/python tools/monitoring.py

docs: setup ## Generate the field reference and the list of diagnostics
	$(BIN)/python tools/schemas.py
	$(BIN)/python tools/diagnostics.py

control-plane: ## Build the Kubernetes control plane for tests, in a cache outside the tree
	tests/binaries/build

sandbox: setup ## Run a Kubernetes with simulated GPU nodes to try gpuctl on, until Ctrl-C
	@PYTHONPATH=tests $(BIN)/python -m control_plane.sandbox

bench: setup ## Measure, as ratios within one run
	$(BIN)/python benchmarks/run.py

clean: ## Remove what make has made in the tree
	rm -rf $(VENV) demo-out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
