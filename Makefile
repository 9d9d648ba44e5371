# All targets use .venv, which the first target that needs it creates (tools/setup.sh).
.DEFAULT_GOAL := help
.PHONY: help install run check test lint style types fix docs pictures lock dist demo bench chaos soak fuzz clean
SHELL := /bin/sh
PYTHON ?=
export PYTHON
# Empty means off: without bytecode files every worker and command compiles what it imports, 8 s for each worker.
export PYTHONDONTWRITEBYTECODE =

BIN := .venv/bin
LOCKS := pyproject.toml tools/setup.sh tools/system-certs.sh $(wildcard locks/*.txt)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

.venv/.run: $(LOCKS)
	@sh tools/setup.sh run

.venv/.dev: $(LOCKS)
	@sh tools/setup.sh dev

.venv/.fuzz: $(LOCKS)
	@sh tools/setup.sh fuzz

install: .venv/.run ## make .venv with the locked dependencies and the `corral` command

run: .venv/.run ## serve on http://127.0.0.1:3000 (simulated provider unless NOVITA_API_KEY is set)
	@exec $(BIN)/corral serve

# $(call tests,OPTIONS) runs pytest beside the type checkers, whose findings are printed after those of the tests. A fixed
# hash seed, because the order of sets is random too, and a failing history should fail again.
tests = $(MAKE) -s types >.venv/types.log 2>&1 & types=$$!; \
	PYTHONHASHSEED=0 $(BIN)/pytest --dist worksteal $(1); tests=$$?; \
	wait $$types; types=$$?; cat .venv/types.log; exit $$((tests | types))

check: style ## lint, layers, then the types and the unit, property and self-tests: under two minutes, for daily work
	@$(call tests,-n 2 --hypothesis-profile check tests/unit tests/property tests/selftest)

# More workers than two cores: tests of whole processes wait half of their time, and others run meanwhile.
test: style ## lint, layers, then every test and the types
	@$(call tests,-n 4)

lint: style types ## ruff, import-linter, mypy, pyright

style: .venv/.dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports

types: .venv/.dev
	@$(BIN)/pyright & pyright=$$!; $(BIN)/mypy; mypy=$$?; wait $$pyright && exit $$mypy

fix: .venv/.dev ## format, and apply safe lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: .venv/.dev ## measure Corral, alone and beside simpler things, into bench/RESULTS.md
	@$(BIN)/python -m bench

chaos: .venv/.dev ## kill, freeze, cut off, restore and deceive for two minutes, then check the invariants (SECONDS=, SEED=, RUNS=, RULES=)
	@PYTHONPATH=tests $(BIN)/python -m support.chaos --seconds $(or $(SECONDS),120) --runs $(or $(RUNS),1) $(if $(SEED),--seed $(SEED)) $(if $(RULES),--rules $(RULES))

soak: .venv/.dev ## ten minutes of 10,000 instances on 100 provider calls a minute, checked (SECONDS=, INSTANCES=, CALLS=, LEASES=, SEED=)
	@PYTHONPATH=tests $(BIN)/python -m support.soak --seconds $(or $(SECONDS),600) --instances $(or $(INSTANCES),10000) \
	    --calls-per-minute $(or $(CALLS),100) --leases $(or $(LEASES),0) --seed $(or $(SEED),1)

fuzz: .venv/.fuzz ## read hostile bytes wherever bytes come in, guided by coverage, for five minutes (SECONDS=, TARGETS=)
	@PYTHONPATH=tests $(BIN)/python -m support.fuzz --seconds $(or $(SECONDS),300) $(TARGETS)

demo: .venv/.run ## serve a dashboard full of simulated activity on a free port, beside `make run`
	@exec $(BIN)/python tools/demo.py

docs: .venv/.dev ## regenerate docs/reference from the program's own tables
	@$(BIN)/python tools/reference.py

pictures: .venv/.dev ## recreate the pictures in docs/images (needs Chromium)
	@$(BIN)/python tools/screenshots.py
	@$(BIN)/python tools/recording.py

lock: .venv/.dev ## resolve the dependencies into locks/
	@sh tools/lock.sh

dist: .venv/.run ## build wheels and sdists of `corral` and `corral-client` into dist/
	@sh tools/dist.sh && ls dist

clean: ## remove .venv, dist and what tools leave behind (never .corral: that is your data)
	@rm -rf .venv .fuzz dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .setup.lock
