# The two commands of the README are `make audit` and `make test`; both set everything up first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: audit test check e2e e2e-environments golden

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	@touch $@

audit: $(READY)
	$(BIN)/sampler-audit local --target builtin --combos all

test: $(READY)
	$(BIN)/python -m pytest -m "not e2e" -n auto

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

# Real engines, each in an environment of its own.
e2e-environments:
	PYTHON=$(PYTHON) bash tests/e2e/vllm_environment.sh .venv-vllm
	PYTHON=$(PYTHON) bash tests/e2e/transformers_environment.sh .venv-transformers
	bash tests/e2e/llama_cpp_environment.sh .venv-llama-cpp

e2e: $(READY) e2e-environments
	$(BIN)/python -m pytest -m e2e tests/e2e

golden: $(READY)
	$(BIN)/python -m pytest -m "not e2e" tests/reports tests/cli --update-golden
