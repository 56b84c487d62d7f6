# Everything runs in .venv, which is made and installed into when it is missing or when pyproject.toml has changed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
ARGS ?=
WORKERS ?= 2
BIN := .venv/bin

.PHONY: help demo test lint format bench clean

help:  ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 10
	@echo "variables: PYTHON (3.11 or newer: $(PYTHON)), ARGS (handed on), WORKERS of the tests ($(WORKERS))"

demo: .venv/installed  ## install, then run the quickstart: ARGS="seed=1" are its overrides
	$(BIN)/toolsavvy $(ARGS)

test: .venv/installed-dev  ## install with the test tools, then run all tests: ARGS="-k bm25" are pytest's
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: .venv/installed-dev  ## format check, rules, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: .venv/installed-dev  ## format, and mend what ruff can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: .venv/installed-dev  ## measure speed and memory against the targets: ARGS="cli trie" chooses
	$(BIN)/python tests/bench/run.py $(ARGS)

clean:  ## remove .venv and tool caches; outputs/ and the shared cache stay
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
	find src tests conf -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last: an install that was cut off is done again.
.venv/installed: pyproject.toml $(BIN)/python
	$(call install,.)
	@touch $@

.venv/installed-dev: pyproject.toml $(BIN)/python
	$(call install,.[dev])
	@touch .venv/installed $@

$(BIN)/python:
	$(make_venv)

define install
@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo ".venv is incomplete and is made again"; $(PYTHON) -m venv --clear .venv; }
$(BIN)/python -m pip install --disable-pip-version-check -e '$(1)'
endef

define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "toolsavvy needs Python 3.11 or newer; choose one: make PYTHON=python3.12 ..." >&2; exit 1; }
$(PYTHON) -m venv --clear .venv || \
  { rm -rf .venv; echo "no virtual environment could be made (on Debian: install python3-venv)" >&2; exit 1; }
endef
