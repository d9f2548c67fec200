# Two commands do everything: `make demo` and `make test`. Both can be run again at any time.
.PHONY: help demo experiments test lint templates unit guest e2e bench setup setup-dev docs bpf clean
.DEFAULT_GOAL := help

BIN := .venv/bin
JOBS ?= $(shell nproc)
# a file of tests shares one machine, so a file is what a worker takes
WORKERS := -n $(JOBS) --dist loadfile
ORDERS := examples/orders/experiments
# The demo keeps to three minutes; `make experiments` runs all of them.
DEMO := $(addprefix $(ORDERS)/,$(addsuffix .yaml, \
	slow-database-first slow-database-fixed dark-database-first dark-database-fixed refused-database-first \
	full-aof-first full-aof-fixed full-wal-fixed killed-database-first killed-database-fixed \
	clock-forward-first clock-forward-fixed squeezed-database-fixed lossy-network-fixed \
	hung-database-fixed two-troubles-fixed no-names-fixed power-cut-fixed))

help:
	@echo "make demo    run the experiments of examples/orders in real microVMs"
	@echo "make test    lint, types, layers and all three tiers of tests"
	@echo "make bench   measure speed and memory, as ratios inside one run"
	@echo "make unit    the tests that need no microVM"
	@echo "make docs    write again what is generated from the code"

setup:
	@sh scripts/setup.sh

setup-dev:
	@sh scripts/setup.sh dev

# A failed experiment is a finding, not a broken demo: only void, unknown and bad input end with an error here.
demo: setup
	@$(BIN)/stormcell run --jobs $(JOBS) $(DEMO) || [ $$? -eq 1 ]

experiments: setup
	@$(BIN)/stormcell run --jobs $(JOBS) $(sort $(wildcard $(ORDERS)/*.yaml)) || [ $$? -eq 1 ]

test: setup-dev lint templates
	$(BIN)/pytest $(WORKERS)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

templates: setup
	@$(BIN)/stormcell template build base examples/orders/template.yaml
	@$(BIN)/stormcell template build --sealed base

unit: setup-dev
	$(BIN)/pytest $(WORKERS) tests/unit

guest: setup-dev templates
	$(BIN)/pytest $(WORKERS) tests/guest

e2e: setup-dev templates
	$(BIN)/pytest tests/e2e

bench: setup templates
	$(BIN)/python -m bench

docs: setup-dev
	$(BIN)/python -m stormcell.faults.docs --write

# Needs clang and llvm; users need neither, the compiled objects are committed.
bpf: setup-dev
	$(BIN)/python -m tests.unit.faults.bpf_objects --write

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
