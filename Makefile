# Everything a developer or CI runs. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# MkDocs has its own environment: nothing else needs it.
DOCS_VENV ?= .venv-docs
SITE ?= site
# The installed dependencies: dev and lowest are locked in requirements/*.txt; newest are the registry's newest releases.
DEPENDENCIES ?= dev
# Parallel test workers. Most tests wait for a control plane: six of them keep two cores busy.
WORKERS ?= 6
export PYTHONPATH :=
# Without this, each test worker and each command started by a test would compile changed modules again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test test-all test-fast test-lowest test-newest mutants lint fmt golden schemas generators control-plane sandbox bench docs translations site version release clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t16

$(VENV)/.ready: pyproject.toml $(wildcard requirements/$(DEPENDENCIES).txt)
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing; gpuctl needs Python 3.10 or newer" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
ifeq ($(DEPENDENCIES),newest)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade --editable '.[test]'
else
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/$(DEPENDENCIES).txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endif
	@# Compiled modules start faster, also if the environment prevents Python from writing them.
	@$(BIN)/python -m compileall -q compiler/gpuctl server/gpuctl_server server/gpuctl_usage
	@touch $@

setup: $(VENV)/.ready ## Install gpuctl and the development tools into .venv, from requirements/dev.txt

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-emit-index-url --custom-compile-command 'make lock'
lock: setup ## Update requirements/*.txt to the newest releases that pyproject.toml allows, with hashes
	$(LOCK) --upgrade --generate-hashes pyproject.toml requirements/build.in --extra dev -o requirements/dev.txt
	$(LOCK) --upgrade --generate-hashes pyproject.toml requirements/build.in -c requirements/dev.txt -o requirements/cli.txt
	$(LOCK) --upgrade --generate-hashes pyproject.toml requirements/build.in --extra server --extra postgresql \
	  -c requirements/dev.txt -o requirements/server.txt
	$(LOCK) --upgrade --generate-hashes pyproject.toml requirements/build.in requirements/release.in \
	  -c requirements/cli.txt -c requirements/dev.txt -o requirements/release.txt
	$(LOCK) --upgrade --generate-hashes requirements/docs.in -o requirements/docs.txt
	@# The oldest release of each direct dependency, with the newest test tools that work with them.
	$(LOCK) --resolution lowest --no-deps --strip-extras --no-annotate --no-header pyproject.toml \
	  --extra server --extra postgresql --extra usage | \
	  $(LOCK) --upgrade --generate-hashes pyproject.toml requirements/build.in --extra test -c - -o requirements/lowest.txt

EXAMPLE := examples/tour/finetune.yaml
# The parts of a Job that come from the document.
SHORTENED := -e 's/labels:$$/& .../;s/env:$$/& .../;s/volumeMounts:$$/& .../' -e '1,/labels:/p;/^spec:/p;/^  template:/p' \
  -e '/^    spec:/,/ env:/p;/^        resources:/,/volumeMounts:/p;/^      nodeSelector:/,/gpu-type/p'
demo: setup ## Render the examples to demo-out/, and print one of them
	@rm -rf demo-out && mkdir demo-out
	@for example in examples/*/; do \
	  name=$$(basename $$example); \
	  $(BIN)/gpuctl render -f $$example > demo-out/$$name.yaml 2> demo-out/$$name.log || { cat demo-out/$$name.log >&2; exit 1; }; \
	done
	@find demo-out -empty -delete
	@echo "# $(EXAMPLE)"; cat $(EXAMPLE)
	@echo; echo "# gpuctl render --no-shared -f $(EXAMPLE), shortened"
	@$(BIN)/gpuctl render --no-shared -f $(EXAMPLE) 2>/dev/null | sed -n $(SHORTENED)
	@echo; echo "# All manifests of examples/NAME: demo-out/NAME.yaml; the notes about them: demo-out/NAME.log"

test: setup ## Run the tests that are not marked slow, in parallel (WORKERS=1: one after another)
	@PYTHONPATH=tests $(BIN)/python -m support.report
	GPUCTL_PROPERTIES=$${GPUCTL_PROPERTIES:-0.2} $(BIN)/python -m pytest -n $(WORKERS) -m 'not slow'

test-all: setup ## Run all tests, with all random cases and kill points
	@PYTHONPATH=tests $(BIN)/python -m support.report
	$(BIN)/python -m pytest -n $(WORKERS)

test-fast: setup ## Run the tests without a control plane, with few random cases
	GPUCTL_PROPERTIES=0.1 $(BIN)/python -m pytest -n $(WORKERS) -m 'not slow' tests/unit tests/golden tests/properties --ignore tests/unit/test_ci_kit.py

test-lowest: ## Run test-fast with the oldest releases of the dependencies that pyproject.toml allows
	$(MAKE) test-fast VENV=.venv-lowest DEPENDENCIES=lowest

test-newest: ## Run test-fast with the newest releases, locked or not
	$(MAKE) test-fast VENV=.venv-newest DEPENDENCIES=newest

mutants: setup ## Count how many of 100 mutants the tests notice (COUNT=, SEED=, ONLY=path:line)
	PYTHONPATH=tests $(BIN)/python -m mutants --workers $(WORKERS) --count $(or $(COUNT),100) --seed $(or $(SEED),1) \
	  $(if $(ONLY),--only $(ONLY))

lint: setup ## Run ruff, mypy (--strict for the product) and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=tests:benchmarks $(BIN)/mypy --config-file= --follow-imports silent --ignore-missing-imports --disable-error-code misc benchmarks tools
	PYTHONPATH=compiler:server $(BIN)/lint-imports

fmt: setup ## Format the Python code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

golden: setup ## Accept the current output of the golden cases (CASE=name for one); review the difference
	$(BIN)/python tests/golden/cases.py accept $(CASE)

schemas: setup ## Generate schemas/, the SDKs' types, and the Kubernetes schemas the compiler validates against
	$(BIN)/python tools/kubernetes_schemas.py
	$(BIN)/python tools/schemas.py
	$(BIN)/python tools/openapi.py
	$(BIN)/python tools/sdk.py
	$(BIN)/python tools/monitoring.py

docs: setup ## Generate the field reference and the list of diagnostics; list texts without a Chinese translation
	$(BIN)/python tools/schemas.py
	$(BIN)/python tools/diagnostic_docs.py
	$(BIN)/python tools/translations.py

translations: setup ## Fail if a text has no Chinese translation: a part of a release
	$(BIN)/python tools/translations.py --release

$(DOCS_VENV)/.ready: requirements/docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/docs.txt
	@touch $@

site: $(DOCS_VENV)/.ready ## Build the documentation as a web site in site/, which works from files
	@rm -rf $(SITE)
	$(DOCS_VENV)/bin/python tools/site/build.py --strict --output $(SITE)
	@echo "open $(SITE)/index.html"

version: setup ## Write a new version to every text that names it (VERSION=0.2.0)
	$(BIN)/python tools/set_version.py $(VERSION)
	$(BIN)/python tools/openapi.py

release: translations ## Build a release into dist/: wheels, sources, program, chart, bills of materials, checksums
	$(BIN)/python tools/make_release.py

generators: ## Install the tools with which tests check the OpenAPI document, in a cache outside the tree
	tests/generators/build

control-plane: ## Build the Kubernetes control plane for tests, in a cache outside the tree
	tests/binaries/build

sandbox: setup ## Run a Kubernetes with simulated GPU nodes until Ctrl-C
	@PYTHONPATH=tests $(BIN)/python -m control_plane.sandbox

bench: setup ## Run the benchmarks; results are ratios within one run
	$(BIN)/python benchmarks/run.py

clean: ## Remove everything that make created in the tree
	rm -rf .venv .venv-lowest .venv-newest .venv-docs demo-out build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
