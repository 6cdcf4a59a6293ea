# `make help` lists the targets. Everything runs from .venv, which the first target builds.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo dev test check lint types imports bench lock clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Task Executor needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(STAMP)  ## create .venv and install the project with its development extras

demo: $(STAMP)  ## start the whole stack, run jobs of every trigger and transport, show what arrived
	@$(BIN)/python -m app.dev demo

dev: $(STAMP)  ## start the same stack without the scripted jobs
	@$(BIN)/python -m app.dev serve

test: $(STAMP)  ## run the whole test suite on real servers
	$(BIN)/pytest -n 3 --dist loadfile

check: lint types imports test  ## lint, types, import contracts, tests

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy --strict
	$(BIN)/mypy

imports: $(STAMP)  ## import-linter
	$(BIN)/lint-imports

bench: $(STAMP)  ## measure beside other task queues in the same run; bench-drain, bench-create … measure one thing
	$(BIN)/python -m benchmarks all --keep

bench-%: $(STAMP)
	$(BIN)/python -m benchmarks $* --keep

lock: $(STAMP)  ## write requirements.lock, the hashes of what the image installs, anew
	$(BIN)/pip install --quiet --disable-pip-version-check uv==0.13.9
	echo setuptools | $(BIN)/uv pip compile --quiet --no-config --no-annotate --universal --python-version 3.12 \
	  --default-index https://pypi.org/simple --generate-hashes -c constraints.txt \
	  --custom-compile-command 'make lock' --extra all -o requirements.lock pyproject.toml -

clean:  ## remove what these targets made
	rm -rf $(VENV) .dev .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info
