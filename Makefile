# `make help` lists the targets. Everything runs from .venv, which the first target builds.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TOOLS  := .tools
# The index of pip, which uv does not read from pip's configuration.
INDEX   = $${PIP_INDEX_URL:-$$($(TOOLS)/bin/pip config get global.index-url 2> /dev/null || echo https://pypi.org/simple)}
COMPILE = uv pip compile --quiet --no-config --no-annotate --universal --default-index "$(INDEX)" \
  --generate-hashes -c constraints.txt
LOCKED  = $$(sed -n 's/==.*//p' requirements.lock)

.DEFAULT_GOAL := help
.PHONY: help install demo dev unit test fuzz test-retries test-cockroach test-postgresql check lint types imports docs \
  client messages pictures sql bench lock licences sbom dist audit clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

unit: $(STAMP)  ## run the tests that need no server
	$(BIN)/pytest -n 3 --dist loadfile tests/unit $(OPTIONS)

test: $(STAMP)  ## run the whole test suite on real servers
	$(BIN)/pytest -n 4 --dist loadfile

fuzz: $(STAMP)  ## run all malformed values and interleavings; `make test` runs a choice
	TEST_FUZZ=1 $(BIN)/pytest -n 2 -m "fuzz or sampled or hypothesis"

# Folders of the next three targets, such as TESTS=tests/contract/store.
TESTS ?= tests/contract tests/integration

test-retries: $(STAMP)  ## run the tests of work in the database while statements and COMMITs fail at random
	$(BIN)/python -m pytest -p tests.restarts -n 3 --dist loadfile $(TESTS) -m "not fuzz"

test-cockroach: $(STAMP)  ## run the same tests as on CockroachDB, on a PostgreSQL that stands in for it
	TEST_AS=cockroachdb $(BIN)/pytest -n 3 --dist loadfile $(TESTS) -m "not fuzz"

POSTGRESQL ?= /usr/lib/postgresql/15/bin

test-postgresql: $(STAMP)  ## run contract and integration tests on the oldest supported PostgreSQL, in $$POSTGRESQL
	TEST_POSTGRESQL_BIN=$(POSTGRESQL) $(BIN)/pytest -n 3 --dist loadfile $(TESTS) -m "not fuzz"

check: lint types imports docs test  ## lint, types, import contracts, the site of the documents, tests

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy --strict
	$(BIN)/mypy

imports: $(STAMP)  ## import-linter
	$(BIN)/lint-imports
	cd receiver && $(abspath $(BIN))/lint-imports

# Without --quiet, with which MkDocs counts no warnings and a broken link passes.
docs: $(STAMP)  ## build the site of the documents in .site/, and test it; a broken link or anchor fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	TEST_SITE=.site $(BIN)/pytest -q tests/unit/test_site.py

client: $(STAMP)  ## write the client's generated modules anew, after a change of the API
	@TE_DATABASE_URL=postgresql://nobody@127.0.0.1:1/none $(BIN)/flask --app app openapi print | $(BIN)/python -m client.generator

sql: $(STAMP)  ## print a statement as it runs: make sql NAME=executions.claim_1; without a name, list them
	@$(BIN)/python -m app.dev.statements $(NAME)

messages: $(STAMP)  ## write docs/reference/messages.md, after a change of an error code or a log line
	$(BIN)/python -m app.dev.messages

pictures: $(STAMP)  ## write docs/pictures: the console after a made-up story; needs chromium
	$(BIN)/python -m tests.browser.pictures

bench: $(STAMP)  ## measure beside other task queues in the same run; bench-publish writes the tables of documents
	$(BIN)/python -m benchmarks all --keep

bench-%: $(STAMP)
	$(BIN)/python -m benchmarks $* --keep

lock: $(TOOLS)/.installed  ## write requirements.lock, the hashes of what the image installs, anew
	echo setuptools | $(TOOLS)/bin/$(COMPILE) --python-version 3.11 --custom-compile-command 'make lock' --extra all \
	  -o requirements.lock pyproject.toml -

$(TOOLS)/.installed: Makefile
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check build==1.6.1 cyclonedx-bom==7.5.0 \
	  pip-audit==2.10.1 pip-licenses==5.5.5 twine==7.0.0 uv==0.13.9
	@touch $@

licences: $(STAMP) $(TOOLS)/.installed  ## write docs/reference/licences.md, the licences of what requirements.lock names, anew
	@(sed '/^|/,$$d' docs/reference/licences.md; \
	  $(TOOLS)/bin/pip-licenses --python $(BIN)/python --format markdown --packages $(LOCKED)) > docs/reference/licences.new
	@mv docs/reference/licences.new docs/reference/licences.md

sbom: $(TOOLS)/.installed  ## write dist/*.cdx.json (CycloneDX): dependencies of all distributions, with hashes
	@mkdir -p dist
	@bom() { $(TOOLS)/bin/cyclonedx-py requirements --pyproject $$1/pyproject.toml --output-reproducible --validate \
	    -o dist/$$2.cdx.json $$3; }; \
	lock() { $(TOOLS)/bin/$(COMPILE) --python-version 3.11 $$2 $$1/pyproject.toml -o $$locked/$$1; }; \
	set -e; locked=$$(mktemp -d); trap "rm -rf $$locked" EXIT; \
	lock client "--extra async"; lock receiver --all-extras; lock actor_kit "--extra postgresql"; \
	bom . task-executor requirements.lock; \
	for part in client receiver; do bom $$part task-executor-$$part $$locked/$$part; done; \
	bom actor_kit task-executor-dramatiq $$locked/actor_kit

# From the last commit: setuptools would also take what earlier builds left beside the sources.
dist: $(TOOLS)/.installed  ## build wheels and sdists of all distributions in dist/, with SBOMs and hashes
	@rm -rf dist
	@set -e; source=$$(mktemp -d); trap "rm -rf $$source" EXIT; git archive HEAD | tar -x -C $$source; \
	for part in . client receiver actor_kit; do \
	  SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(TOOLS)/bin/python -m build --outdir dist $$source/$$part \
	    > $$source/log 2>&1 || { cat $$source/log; exit 1; }; \
	done
	$(TOOLS)/bin/twine check --strict dist/*
	@$(MAKE) --no-print-directory sbom
	cd dist && sha256sum * > SHA256SUMS

# --strict, since a package that pypi.org does not know counts as sound without it: of a mirror without advisories, all do.
audit: $(TOOLS)/.installed  ## look for known vulnerabilities of what requirements.lock names; asks pypi.org
	@log=$$(mktemp); $(TOOLS)/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip \
	  -r requirements.lock 2> $$log; status=$$?; tail -5 $$log >&2; \
	if grep -q 'requests.exceptions\|ServiceError\|ConnectionError\|could not be audited' $$log; then \
	  echo "make audit: the advisories at pypi.org can't be read, so NOTHING was checked" >&2; status=3; fi; \
	rm $$log; exit $$status

clean:  ## remove what these targets made
	rm -rf $(VENV) .venv-* $(TOOLS) .dev .site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist *.egg-info
