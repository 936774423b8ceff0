# Everything runs in .venv, which `make setup` creates from uv.lock. Only `make test-all` changes anything else on the machine:
# it installs Chromium and BusyBox with apt-get if they are missing and it may.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup run ui vscode pictures check test test-all coverage distributed chaos docs bench clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(READY)  ## create the virtual environment .venv; .venv/bin/noetl is the command

$(READY): pyproject.toml uv.lock scripts/setup plugins/container/pyproject.toml plugins/snowflake/pyproject.toml
	@PYTHON=$(PYTHON) sh scripts/setup
	@touch $(READY)

run: $(READY)    ## read orders from a mock shop API that fails intermittently, and write a report to .noetl/
	@sh scripts/run

ui: $(READY)     ## build the web UI into the package
	@sh scripts/ui

vscode: $(READY) ## check, test and package the extension for Visual Studio Code: editors/vscode/noetl.vsix
	@sh scripts/vscode

pictures: $(READY) ## regenerate the screenshots of the UI in the docs
	@sh scripts/browser
	@$(BIN)/python -m scripts.screenshots

check: $(READY)  ## format, lint, wording, types, imports
	@sh scripts/check

test: $(READY)   ## the quick tests, at most 3 minutes: no services, browser or Node.js
	@sh scripts/test

test-all: $(READY) ## all tests at full size: services, browser, distributed; not chaos
	@sh scripts/test all
	@sh scripts/test distributed

coverage: $(READY) ## all tests, and the lines of src/noetl that none of them ran
	@sh scripts/coverage

distributed: $(READY) ## the same playbooks on servers and workers, PostgreSQL and NATS
	@sh scripts/test distributed

chaos: $(READY)  ## kill and starve real processes, embedded and distributed: about ten minutes
	@sh scripts/chaos

docs: $(READY)   ## regenerate the reference pages and build the site into site/
	@sh scripts/docs

bench: $(READY)  ## measure the published figures; PEERS=1 (or quick) also measures other engines; SMOKE=1 only tries all, at most 3 minutes
	@PEERS=$(PEERS) SMOKE=$(SMOKE) sh scripts/bench

clean:           ## remove everything that make created
	rm -rf .venv .venv-docs .bench .noetl site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage dist ui/node_modules src/noetl/server/static editors/vscode/node_modules editors/vscode/dist editors/vscode/noetl.vsix
