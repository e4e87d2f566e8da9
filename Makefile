# `make help` lists the targets. Only make and a Python >= 3.11 are needed; uv is used where it is installed.

VENV ?= .venv
PORT ?=
ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LAUNCH = exec $(BIN)/python -m nemo_airflow_provider.standalone
# They wait more than they compute.
UNIT = $(BIN)/python -m pytest -q -n 4 tests/unit
LAUNCH_OPTIONS = $(if $(PORT),--port $(PORT)) $(ARGS)

# The first of these that is new enough. python3 first: it is what its owner has chosen.
PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14
NEW_ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help install run serve test lint check bench kube-up kube-down clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(STAMP) ## make the virtual environment, which every other target does by itself

run serve: export AIRFLOW_HOME ?= $(CURDIR)/.airflow

run: $(STAMP) ## start Airflow, run the example job and end; PORT=<any free>
	@$(LAUNCH) run $(LAUNCH_OPTIONS)

serve: $(STAMP) ## Airflow and the jobs API until Ctrl-C; PORT=8080
	@$(LAUNCH) serve $(LAUNCH_OPTIONS)

test: $(STAMP) ## every test this machine can run; ARGS="-k name"
ifeq ($(ARGS),)
	@$(UNIT) && exec $(BIN)/python -m pytest --ignore tests/unit
else
	@exec $(BIN)/python -m pytest $(ARGS)
endif

lint: $(STAMP) ## style, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## lint and unit tests
	$(UNIT)

bench: $(STAMP) ## measure, and print one JSON document; see bench/README.md
	@exec $(BIN)/python -m bench $(ARGS)

kube-up: ## start a Kubernetes of one node for tests, as root; see tests/kube/README.md
	@kubeconfig=$$(tests/kube/up.sh) && echo "The cluster is up; tests use it after" && \
	    echo "    export NEMO_TEST_KUBECONFIG=$$kubeconfig"

kube-down: ## end it, and remove all that it wrote
	@tests/kube/down.sh

clean: ## remove the virtual environment, the local Airflow and caches
	rm -rf $(VENV) .airflow .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than pyproject.toml once everything in it is installed, so a second `make` installs nothing.
$(STAMP): pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	    echo "Installing into $(VENV) with uv …" && \
	    { [ -x $(BIN)/python ] || uv venv --quiet --python '>=3.11' $(VENV); } && \
	    uv pip install --quiet --python $(BIN)/python --group dev --editable '.[all]'; \
	else \
	    for candidate in $(PYTHONS); do \
	        if $$candidate -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "No Python 3.11 or newer with venv was found (tried: $(PYTHONS)); install one, or give PYTHON=<path>." >&2; \
	        exit 1; \
	    fi; \
	    echo "Installing into $(VENV) with $$python …" && \
	    { [ -x $(BIN)/python ] || $$python -m venv $(VENV); } && \
	    $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' && \
	    $(BIN)/python -m pip install --quiet --group dev --editable '.[all]'; \
	fi
	@touch $@
