SHELL := bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What set-up found and made: JAVA_HOME, LEAN_OPS_CACHE, and .venv/bin at the head of PATH.
IN_ENV := . .venv/lean-ops.env &&

# Another hash seed every run, one for all its workers: `make test PYTHONHASHSEED=123` repeats a run.
ifeq ($(filter-out random,$(PYTHONHASHSEED)),)
PYTHONHASHSEED := $(shell od -An -N2 -tu2 /dev/urandom | tr -d ' ')
endif
export PYTHONHASHSEED

PYTEST = $(IN_ENV) echo "PYTHONHASHSEED=$(PYTHONHASHSEED)" && pytest
WORKERS ?= 2
RECORDS ?= 2000
SEED ?= 1
ARGS ?=

LOCAL_EXTRAS := cli lambdas spark airflow bridge local dev
COMPILE = $(IN_ENV) uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-header \
	--no-annotate --generate-hashes $(if $(UPGRADE),--upgrade) -c locks/airflow-3.2.1-constraints.txt

.PHONY: help setup demo up test test-faults test-stack bench check lint types walls format lock lock-cdk lock-bridge lock-dlt clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Find Python and Java, fill .venv and the jar cache; nothing to do when nothing changed
	@scripts/bootstrap

demo: setup ## Days of production on this machine, compared with their truth (RECORDS=2000 SEED=1)
	@$(IN_ENV) lean-ops emulate full --records $(RECORDS) --seed $(SEED) $(ARGS)
	@echo "next: make up (Airflow's page, live traffic); docs/first-hour.md"

up: setup ## The same stack with Airflow's page and traffic without end, until Ctrl-C (ARGS="--port airflow=8080")
	@$(IN_ENV) exec lean-ops local up --airflow --traffic $(ARGS)

test: setup ## The tests, under 10 minutes (ARGS="-k lease" passes arguments to pytest)
	@$(PYTEST) -n $(WORKERS) --dist loadgroup -m "not faults and not stack" $(ARGS)

test-stack: setup ## The whole pipeline with Airflow and Spark, end to end
	@$(PYTEST) -m "stack and not faults" $(ARGS)

test-faults: setup ## The long fault-injection suites
	@$(PYTEST) -m faults $(ARGS)

bench: setup .cache/dlt ## The benchmarks, with the limits they have to keep
	@$(PYTEST) benchmarks -s $(ARGS)

.cache/dlt: locks/dlt.txt | setup
	@rm -rf $@ && $(IN_ENV) uv pip install --quiet --target $@ --require-hashes --no-deps -r $< && touch $@

check: lint types walls test ## What every commit passes; CI adds test-stack (.ci/run)

lint: setup ## ruff: lint and format, changing nothing
	@$(IN_ENV) ruff check && ruff format --check

types: setup ## mypy, strict
	@$(IN_ENV) mypy

walls: setup ## import-linter: which room may import what
	@$(IN_ENV) lint-imports --no-cache

format: setup ## ruff: format, and fix what can be fixed
	@$(IN_ENV) ruff check --fix && ruff format

lock: setup ## Compile all locks from pyproject.toml (UPGRADE=1: newest versions)
	@$(COMPILE) $(LOCAL_EXTRAS:%=--extra %) --output-file locks/local.txt
	@$(MAKE) lock-cdk lock-bridge lock-dlt

lock-cdk: setup ## Compile locks/cdk.txt only, agreeing with locks/local.txt
	@$(COMPILE) -c locks/local.txt --extra cdk --output-file locks/cdk.txt

lock-bridge: setup ## Compile locks/bridge.txt only, agreeing with locks/local.txt
	@$(COMPILE) -c locks/local.txt --extra bridge --output-file locks/bridge.txt

lock-dlt: setup ## Compile locks/dlt.txt only, agreeing with locks/local.txt
	@$(COMPILE) -c locks/local.txt --extra dlt --output-file locks/dlt.txt

clean: ## Remove everything that was set up or generated here
	rm -rf .venv .venv.lock .cache .lean-ops build dist *.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
