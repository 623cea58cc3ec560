# Every target works as the only command typed on a fresh clone: it makes .venv from the lock first.

# The interpreter that makes .venv: the first of these that runs and is 3.11 or newer. `make PYTHON=... venv` overrides.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

BIN := .venv/bin
STAMP := .venv/.made-from-lock
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq
# The oldest release of Pydantic AI that is supported lies over the packages of .venv, which stay as they are.
OLDEST := .venv/oldest-pydantic-ai
# The benchmarks' peers have an environment of their own, which nothing else needs.
BENCH_BIN := .venv-bench/bin
BENCH_STAMP := .venv-bench/.made-from-lock
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-config $(UPGRADE) --custom-compile-command "make lock"
PACKAGES := dex_agents_model dex_agents_dex dex_agents_pydantic_ai
MODEL_TESTS := tests/rules tests/table tests/simulation tests/wire tests/folding
CODE := $(wildcard $(PACKAGES) tests examples benchmarks)

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-oldest sim sim-deep coverage mutation lint types rooms fmt docs docs-check chaos soak fuzz bench bench-full bench-memory flames bench-engine bench-model all lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP)  ## make .venv from requirements/dev.txt, once

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: found no Python 3.11 or newer; name one with PYTHON=" >&2; exit 1; }
	@test -x $(BIN)/pip || { echo "making .venv with $(PYTHON); this takes a minute or more" && "$(PYTHON)" -m venv .venv; }
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)  ## run examples/orders.py: one agent session, with its Worker killed twice
	@$(BIN)/python examples/orders.py

test: sim  ## run every test
	@$(BIN)/python -m pytest -n 3 --dist loadscope

$(OLDEST): requirements/oldest.txt $(STAMP)
	@rm -rf $@
	@$(PIP) --no-deps --require-hashes --target $@ -r requirements/oldest.txt

test-oldest: $(OLDEST)  ## run the adapter's tests, but for real processes, on the oldest Pydantic AI
	@PYTHONPATH=$(CURDIR):$(CURDIR)/$(OLDEST) $(BIN)/python -c 'import pydantic_ai; print(pydantic_ai.__file__)'
	@PYTHONPATH=$(CURDIR):$(CURDIR)/$(OLDEST) $(BIN)/python -m pytest -n 3 tests/adapter --ignore tests/adapter/test_real_stack.py

sim: $(STAMP)  ## search every interleaving of each session scenario, with one crash or redelivery
	@$(BIN)/python -m dex_agents_model.simulation explore --jobs 2

lint: $(STAMP)  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	@$(BIN)/mypy $(CODE)

rooms: $(STAMP)  ## import-linter: which room may import which
	@$(BIN)/lint-imports --no-logo

fmt: $(STAMP)  ## format the code and apply ruff's safe fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(STAMP)  ## write docs/transitions.md anew from the table, and docs/api.md from docstrings
	@$(BIN)/python -m dex_agents_model.docs
	@$(BIN)/python -m tests.docs.api_page

docs-check: $(STAMP)  ## fail when one of the two differs
	@$(BIN)/python -m dex_agents_model.docs --check
	@$(BIN)/python -m tests.docs.api_page --check

sim-deep: $(STAMP)  ## the same with two faults in a run
	@$(BIN)/python -m dex_agents_model.simulation explore --faults 2 --jobs 2

coverage: $(STAMP)  ## every branch of the model is taken by its own tests
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m coverage run -m pytest -q -n 2 $(MODEL_TESTS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

mutation: $(STAMP)  ## change every rule in turn, and count the changes that no test finds
	@$(BIN)/python -m tests.mutation

chaos: $(STAMP)  ## kill engines and Workers at random, 500 times
	@$(BIN)/python -m tests.engine.chaos --kills 500 --seed 1

soak: $(STAMP)  ## ten minutes of sessions, with Workers and clients that come and vanish
	@$(BIN)/python -m benchmarks.engine_soak --minutes 10

fuzz: $(STAMP)  ## the engine against nonsense and against an oracle; takes long
	@$(BIN)/python -m pytest tests/engine/test_fuzz.py tests/engine/test_against_oracle.py --hypothesis-profile=fuzz

bench-engine: $(STAMP)  ## time Steps and RPCs on the dev engine
	@$(BIN)/python -m benchmarks.engine_steps

bench-model: $(STAMP)  ## count transitions and searched edges a second
	@$(BIN)/python -m benchmarks.model

bench: $(STAMP)  ## time turns: a durable session next to plain Pydantic AI
	@$(BIN)/python -m benchmarks.turns

bench-full: $(BENCH_STAMP)  ## the same at length, next to DBOS too, with growth, takeover and a plot
	@$(BENCH_BIN)/python -m benchmarks.full

bench-memory: $(STAMP)  ## 2,000 turns of one session; fails when Worker or engine grows
	@$(BIN)/python -m benchmarks.memory

flames: $(BENCH_STAMP)  ## where the time of a turn goes, as flame graphs; may need root
	@$(BENCH_BIN)/python -m benchmarks.flames

$(BENCH_STAMP): requirements/bench.txt
	@test -n "$(PYTHON)" || { echo "make: found no Python 3.11 or newer; name one with PYTHON=" >&2; exit 1; }
	@test -x $(BENCH_BIN)/pip || "$(PYTHON)" -m venv .venv-bench
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BENCH_BIN)/python -m pip install -qq --require-hashes -r requirements/bench.txt
	@touch $@

all: lint types rooms docs-check test test-oldest  ## everything that must pass

lock: $(STAMP)  ## write requirements/*.txt from pyproject.toml; UPGRADE=--upgrade takes new releases
	@$(UV_COMPILE) --output-file requirements/model.txt pyproject.toml
	@$(UV_COMPILE) --extra dev --output-file requirements/dev.txt pyproject.toml
	@$(UV_COMPILE) --extra bench --output-file requirements/bench.txt pyproject.toml
	@$(UV_COMPILE) --no-deps --output-file requirements/oldest.txt requirements/oldest.in

clean:  ## remove .venv, .venv-bench and every cache
	@rm -rf .venv .venv-bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
