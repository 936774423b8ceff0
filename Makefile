# Everything runs in .venv, which `make setup` makes from uv.lock. One thing else on the machine may be touched: where there is
# no Chromium, `make test` installs it by apt-get for the browser tests, and says so.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup run ui pictures check test coverage distributed chaos docs bench clean

help:            ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(READY)  ## make the virtual environment .venv; .venv/bin/noetl is the command

$(READY): pyproject.toml uv.lock
	@PYTHON=$(PYTHON) sh scripts/setup
	@touch $(READY)

run: $(READY)    ## the main job: orders of a moody shop, page by page, to a report in .noetl/
	@sh scripts/run

ui: $(READY)     ## build the web UI into the package
	@sh scripts/ui

pictures: $(READY) ## make the pictures of the UI in the docs anew
	@sh scripts/browser
	@$(BIN)/python -m scripts.screenshots

check: $(READY)  ## format, lint, wording, types, imports
	@sh scripts/check

test: $(READY)   ## all tests but those of distributed and chaos
	@sh scripts/test

coverage: $(READY) ## all tests, and which lines of src/noetl none of them ran
	@sh scripts/coverage

distributed: $(READY) ## the same playbooks on servers and workers, PostgreSQL and NATS
	@sh scripts/test distributed

chaos: $(READY)  ## kill and starve real processes, embedded and distributed, for about ten minutes
	@sh scripts/chaos

docs: $(READY)   ## write the generated reference pages anew and build the site into site/
	@sh scripts/docs

bench: $(READY)  ## measure the figures that the issues and docs name; PEERS=1 (or quick) also others
	@PEERS=$(PEERS) sh scripts/bench

clean:           ## remove what make made
	rm -rf .venv .venv-docs .bench .noetl site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage dist ui/node_modules src/noetl/server/static
