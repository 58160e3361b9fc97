# make demo: the main job on real signals.   make test: every check there is.
# Both need nothing but Python (3.11 or later) and make; they set up .venv themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-gpu notebooks benchmark benchmark-gpu clean

demo: $(VENV)/demo.stamp
	$(BIN)/rescntk compare --out demo

# pytest has a worker for each core: a worker's BLAS threads would only wait for each other.
test: export OPENBLAS_NUM_THREADS = 1
test: $(VENV)/test.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --complete

# What needs a CUDA device: the engine "cuda" through the tests of all engines. CuPy has to be
# chosen by the GPU's driver: make test-gpu CUDA=cuda12 for versions below 13. Kernels are compiled
# as tests ask for them, several thousand; CuPy keeps them for the next run.
CUDA ?= cuda13
test-gpu: $(VENV)/$(CUDA).stamp
	@$(BIN)/python -c 'import sys, rescntk; state = rescntk.engines.available()["cuda"]; sys.exit(None if state is True else f"make test-gpu: {state}")'
	$(BIN)/python -m pytest -n auto -m gpu

# With options: make benchmark-gpu OPTIONS='--limit 500'. It goes on where it was left.
OPTIONS :=
benchmark-gpu: $(VENV)/jax-$(CUDA).stamp
	$(BIN)/python benchmarks/gpu.py $(OPTIONS)

# Run the notebooks and keep their outputs.
notebooks: $(VENV)/test.stamp
	$(BIN)/python notebooks/run.py --write

benchmark: $(VENV)/test.stamp
	$(BIN)/python benchmarks/cpu.py

$(VENV)/demo.stamp: pyproject.toml
	$(MAKE) --no-print-directory $(VENV)/python.stamp
	$(BIN)/python -m pip install --quiet --editable '.[plot,datasets]'
	touch $@

$(VENV)/test.stamp: pyproject.toml
	$(MAKE) --no-print-directory $(VENV)/python.stamp
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@ $(VENV)/demo.stamp

$(VENV)/$(CUDA).stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet --editable '.[$(CUDA)]'
	touch $@

$(VENV)/jax-$(CUDA).stamp: $(VENV)/$(CUDA).stamp
	$(BIN)/python -m pip install --quiet --editable '.[jax-$(CUDA)]'
	touch $@

$(VENV)/python.stamp:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("rescntk needs Python 3.11 or later; say which with make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	touch $@

clean:
	rm -rf $(VENV) demo build *.egg-info
