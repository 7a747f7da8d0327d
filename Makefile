# make demo   read a page of text on a simulated RK3588
# make test   run the tests (ARGS='-k name' for some)     make nightly   those that take minutes
# make lint   types and style (make style corrects it)    make bench     benchmarks
# make conformance   against the vendor's simulator and the vendor's own runtime, as tables
# make site   the documents as pages in build/site (make pictures draws theirs anew)
# make oldest   tests with the oldest dependencies that the metadata allow (Python 3.10 or 3.11)
# make sanitize   native code and engines under sanitizers, and fuzzing (FUZZ=300 seconds of it)
# Each makes .venv and installs what it needs on the first run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Seconds for which fuzzers run under a sanitizer, and inputs of a night.
FUZZ ?= 300
INPUTS ?= 1000000
# What fuzzers begin with where each run is to try the same.
SAME := --seed 1000000

# How the tests are spread over processes; empty for one, such as for a debugger.
PROCESSES ?= -n 2 --dist worksteal

WATCH := $(BIN)/python -m tests.sanitize
PYTEST := $(BIN)/python -m pytest --capture=sys -q
WATCHED := tests/native tests/soft/engines tests/soft/formats tests/soft/viplite tests/soft/test_nbg.py \
	tests/soft/test_onnx_external.py tests/soft/test_onnx_limits.py tests/fuzz
THREADED := tests/native/test_steps.py tests/native/test_pump.py \
	tests/soft/engines/compiled/test_networks.py

OLDEST := build/oldest/bin
AGED := tests/soft/test_onnx_external.py tests/soft/test_onnx_limits.py tests/soft/test_calibration.py \
	tests/soft/formats tests/soft/engines/vip tests/fuzz tests/rknn tests/session/test_inference_session.py \
	tests/test_model.py tests/test_layouts.py

C_FILES := $(wildcard native/*.[ch] native/driver/*.[ch])
# What writes C headers from Python's declarations.
HEADERS := anynpu.native.header anynpu.soft.engines.rknpu.kernels.header anynpu.soft.engines.vip.header

.PHONY: demo test nightly conformance vendor-runtime vendor-runtime-tables lint style bench site pictures sanitize sanitize-briefly oldest clean

demo: $(VENV)/installed-demo
	$(BIN)/anynpu demo

test: $(VENV)/installed-conformance
	$(BIN)/python -m pytest $(PROCESSES) $(ARGS)

nightly: $(VENV)/installed-conformance $(VENV)/installed-ray
	$(BIN)/python -m pytest -m 'nightly or hypothesis' --hypothesis-profile random $(ARGS)
	$(BIN)/python -m tests.mutations
	$(BIN)/python -m tests.fuzz tasks --inputs $(INPUTS)
	$(BIN)/python -m tests.fuzz compiled --inputs $$(($(INPUTS) / 10))
	$(BIN)/python -m tests.fuzz nbg --inputs $$(($(INPUTS) / 10))
	$(BIN)/python -m tests.fuzz vip --inputs $$(($(INPUTS) / 10))
	$(BIN)/python -m tests.fuzz onnx --inputs $$(($(INPUTS) / 10))
	$(BIN)/python -m tests.fuzz rknn-calls --inputs $$(($(INPUTS) / 300))
	$(BIN)/python -m tests.fuzz viplite-calls --inputs $$(($(INPUTS) / 300))

oldest:
	$(PYTHON) -m venv build/oldest
	$(OLDEST)/python -m pip install --quiet uv
	$(OLDEST)/uv pip install --quiet --python $(OLDEST)/python --resolution lowest-direct \
		--reinstall-package anynpu '.[soft,cli]' 'pytest>=8' 'hypothesis>=6.100' 'psutil>=5.9'
	$(OLDEST)/python -m pytest -q $(ARGS) $(AGED)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	for header in $(HEADERS); do $(BIN)/python -m $$header --check || exit 1; done
	$(BIN)/mypy

style: $(VENV)/installed-dev
	for header in $(HEADERS); do $(BIN)/python -m $$header || exit 1; done
	$(BIN)/clang-format -i $(C_FILES)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

conformance: $(VENV)/installed-conformance vendor-runtime
	$(BIN)/python -m tests.conformance.rknn_files $(ARGS)
	$(BIN)/python -m tests.conformance.nbg_files

vendor-runtime: $(VENV)/installed-conformance
	-$(BIN)/python -m tests.conformance.vendor_runtime.sysroot
	$(BIN)/python -m pytest -m '' tests/conformance/vendor_runtime

vendor-runtime-tables: $(VENV)/installed-conformance
	$(BIN)/python -m tests.conformance.vendor_runtime --write

bench: $(VENV)/installed-conformance
	$(BIN)/python -m benchmarks $(ARGS)

site: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

pictures: $(VENV)/installed-dev
	for subject in layouts terminal detections trace; do $(BIN)/python -m docs.site.$$subject || exit 1; done

sanitize: $(VENV)/installed-sanitize
	$(WATCH) address $(PYTEST) $(WATCHED) $(ARGS)
	$(WATCH) thread $(PYTEST) $(THREADED) $(ARGS)
	$(WATCH) plain $(BIN)/python -m tests.fuzz compiled --gigabytes 0 --seconds $$(($(FUZZ) / 5))
	$(WATCH) address $(BIN)/python -m tests.fuzz nbg --gigabytes 0 --seconds $$(($(FUZZ) / 5))
	$(WATCH) address $(BIN)/python -m tests.fuzz vip --gigabytes 0 --seconds $$(($(FUZZ) / 5))
	$(WATCH) address $(BIN)/python -m tests.fuzz compiled --gigabytes 0 --seconds $$(($(FUZZ) / 5))
	$(WATCH) address $(BIN)/python -m tests.fuzz rknn-calls --gigabytes 0 --seconds $$(($(FUZZ) / 5))
	$(WATCH) address $(BIN)/python -m tests.fuzz viplite-calls --gigabytes 0 --seconds $$(($(FUZZ) / 5))
	$(WATCH) address $(BIN)/python -m tests.fuzz tasks --gigabytes 0 --seconds $$(($(FUZZ) * 2 / 5))

sanitize-briefly: $(VENV)/installed-sanitize
	$(WATCH) address $(PYTEST) tests/native/test_steps.py tests/native/test_pump.py \
		tests/soft/engines/rknpu/test_extents.py tests/fuzz
	$(WATCH) address $(BIN)/python -m tests.fuzz tasks --gigabytes 0 $(SAME) --inputs 4000
	$(WATCH) address $(BIN)/python -m tests.fuzz compiled --gigabytes 0 $(SAME) --inputs 400

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-%: pyproject.toml CMakeLists.txt $(wildcard native/*.[ch]) native/flags.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist
