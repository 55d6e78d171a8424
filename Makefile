# Every target sets itself up: it needs Python 3.10 or later and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers

export TF_CPP_MIN_LOG_LEVEL := 3

.DEFAULT_GOAL := help
.PHONY: help demo test test-all gpflow-suite tfp-suite lint bench bench-quick notebooks docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/demos ## Search 336,776 flights naively in 1 GB of memory
	@$(BIN)/python -m tf_memsafe.demos.knn --memory-limit 1GB

# In two parts, because TensorFlow keeps all programs of a process (tests/conftest.py).
test: $(VENV)/test ## Run the tests, but for the slow ones
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/*/
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/*.py

test-all: test ## Run all tests
	$(BIN)/python -m pytest -n 2 -m slow

gpflow-suite: $(VENV)/test ## Run GPflow's own tests (DIR=a checkout), with a limit and without
	$(BIN)/python -m tests.suites.compare $(DIR) --limit 50MB -- tests/gpflow

tfp-suite: $(VENV)/test ## The same for TensorFlow Probability's tests in DIR=.../math/psd_kernels
	$(BIN)/python -m tests.suites.compare $(DIR) --limit 50MB -- .

lint: $(VENV)/lint ## Check style, types and imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# It goes on where it was interrupted; `rm -r build/benchmarks` makes it start anew.
bench: $(VENV)/bench $(PEERS)/ready ## Compare with other libraries: benchmarks/RESULTS.md
	@$(BIN)/python benchmarks/run.py

bench-quick: $(VENV)/bench $(PEERS)/ready ## The same on less data
	@$(BIN)/python benchmarks/run.py --size quick

notebooks: $(VENV)/notebooks ## Run the notebooks anew, in place
	@cd notebooks && TF_MEMSAFE_PROGRESS=0 $(CURDIR)/$(BIN)/jupyter execute --inplace \
		--NotebookClient.extra_arguments=--IPKernelApp.capture_fd_output=False *.ipynb

docs: $(VENV)/docs ## Build the documentation in build/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/mkdocs.yml

clean: ## Remove the environment and all that was built
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# $(VENV)/NAME is a stamp: the package is installed in place, with the extra NAME.
$(VENV)/demos $(VENV)/test $(VENV)/lint $(VENV)/bench $(VENV)/notebooks $(VENV)/docs: $(VENV)/%: $(VENV)/python setup.py setup.cfg
	@echo "Installing tf_memsafe[$*] in $(VENV); the first time takes a few minutes"
	@$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

# What the benchmarks compare with: its requirements and TensorFlow's need not agree.
$(PEERS)/ready: benchmarks/peers.txt | $(VENV)/python
	@echo "Installing what to compare with in $(PEERS); the first time takes a few minutes"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers.txt
	@touch $@

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("tf_memsafe needs Python 3.10 or later")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@
