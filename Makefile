# Everything works from Python 3.11, make and the package registries.
PYTHON ?= python3.11
EXTRA  ?= cpu
BIN    := .venv/bin
STAMP  := .venv/.synced-$(EXTRA)

.PHONY: setup demo test test-fast lint bench clean

setup: $(STAMP)

# uv goes into the environment first: pip knows no dependency overrides (see [tool.uv] in pyproject.toml). Bytecode is
# made at once: where processes may not write it, each one of them would compile torch and vLLM anew, for ten seconds.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv==0.9.*'
	$(BIN)/uv sync --quiet --no-install-package uv --inexact --extra $(EXTRA) --python $(BIN)/python \
		--compile-bytecode
	rm -f uv.lock
	touch $@

demo: setup
	$(BIN)/videorl demo --out demo

# Two at a time; a file stays in one process, for its engine, and the slow ones begin.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: setup
	$(PYTEST)

test-fast: setup
	$(PYTEST) -m "not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: setup
	$(BIN)/videorl bench

clean:
	rm -rf .venv demo runs
