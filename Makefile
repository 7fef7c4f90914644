# Each target sets up what it needs by itself: `make demo` and `make test` work on a fresh machine.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CHAIN := $(if $(FULL),demo_full,demo)
# `make demo OPTIONS="..."` hands further overrides to the chain.
OPTIONS ?=
# Whole files go to a worker, for tests of one file share what they built. Some tests only wait: three workers keep two
# cores busy, and more would queue, since tests start ranks of their own.
TEST_WORKERS ?= 3

.PHONY: install demo demo-translation test test-full lint docs clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed, but $(PYTHON) is $$($(PYTHON) -V 2>&1): name another, as in make install PYTHON=python3.12"; exit 2; }
	@echo "Installing the project and the versions of constraints.txt into $(VENV) (2 GB): about two minutes, in which pip says nothing."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat -e '.[dev]'
	@touch $(STAMP)
	@echo "Installed: $(BIN)/python runs every command; source $(BIN)/activate makes it the python of this shell."

demo: $(STAMP)
	$(BIN)/python -m slurm.submit chain=$(CHAIN) cluster=local $(OPTIONS)

demo-translation: $(STAMP)
ifndef FULL
	$(BIN)/python -m slurm.submit chain=demo_translation cluster=local $(OPTIONS)
else
	@set -e; runs=runs/demo_translation_full; for language in de zh; do \
		for seed in 0 1 2; do \
			$(BIN)/python -m slurm.submit chain=demo_translation_full cluster=local chain.target_language=$$language \
				chain.seed=$$seed run_dir=$$runs/$$language-$$seed $(OPTIONS); \
		done; \
		arms=; for arm in bitext_only forward_1 untagged sampled mass both; do \
			arms="$$arms,$$arm:$$runs/$$language-*/test_$$arm"; \
		done; \
		$(BIN)/python -m pretrain.compare_translations "arms={$${arms#,}}" language=$$language output=$$runs/$$language \
			reference=$$runs/$$language-0/data/test.jsonl bitext=$$runs/$$language-0/data/bitext.tsv \
			group_key=names cluster_key=frame; \
	done
endif

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m "not full"

test-full: lint
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile

docs: $(STAMP)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build dist *.egg-info site .pytest_cache .mypy_cache .ruff_cache .hypothesis
