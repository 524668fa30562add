# Every target sets up the .venv it needs: a bare clone is enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# The tests' tensors are tiny: threads would wait for each other.
TEST_ENV := OMP_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-gpu lint types format bench ledger clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

venv: $(READY)  ## set up .venv with everything the other targets need

demo: $(READY)  ## the main job on the embedded data: a table and a page, in about three minutes
	$(BIN)/tacit demo

test: $(READY)  ## the whole test suite
	$(TEST_ENV) $(BIN)/python -m pytest -n 2

test-gpu: $(READY)  ## the tests that need a GPU
	$(BIN)/python -m pytest -m gpu

lint: $(READY)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy --strict over src
	$(BIN)/mypy

format: $(READY)  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## measure every claim of speed against its peer; writes docs/benchmarks.md
	$(BIN)/python benchmarks/run.py

ledger: $(READY)  ## docs/results/ledger.md, the headers of recipes and the figures on methods' pages, from docs/results/data
	$(BIN)/tacit table --ledger docs/results/ledger.md
	$(BIN)/python tools/make_recipes.py
	$(BIN)/python tools/quote_results.py

clean:  ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache build dist
