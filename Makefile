# make demo   read a page of text on a simulated RK3588
# make test   run the tests (ARGS='-k name' for some)     make nightly   those that take minutes
# make lint   types and style                             make bench     benchmarks
# make conformance   compiled files against the vendor's simulator
# Each makes .venv and installs what it needs on the first run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test nightly conformance lint bench clean

demo: $(VENV)/installed-demo
	$(BIN)/anynpu demo

test: $(VENV)/installed-conformance
	$(BIN)/python -m pytest $(ARGS)

nightly: $(VENV)/installed-conformance
	$(BIN)/python -m pytest -m nightly $(ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

conformance: $(VENV)/installed-conformance
	$(BIN)/python -m tests.conformance.rknn_files $(ARGS)

bench: $(VENV)/installed-conformance
	$(BIN)/python -m benchmarks $(ARGS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-%: pyproject.toml CMakeLists.txt $(wildcard native/*.c) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist
