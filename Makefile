# make demo: the main job on real signals, and a classification with its explanation.
# make check: linters, types and the fast tests, for daily work; about 2 minutes on two cores.
# make test: tests of every claim, notebooks and the site; about 10 minutes on two cores, with installation.
# make nightly: further cases of the claims that take longest.
# make test-versions: the fast tests with the oldest and the newest packages, on each Python.
# Each needs nothing but Python (3.11 or later) and make, and sets up .venv itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Workers take tests from each other, so that none waits while another has a long queue.
# tests/conftest.py puts the longest tests first.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal --durations=15

.PHONY: demo check test nightly lint test-gpu sanitize-gpu notebooks docs docs-look benchmark benchmark-gpu clean test-versions

demo: $(VENV)/demo.stamp
	$(BIN)/rescntk compare --out demo --overwrite
	$(BIN)/python tools/demo.py demo

# pytest has a worker for each core: threads of a worker, BLAS's or the engine's, would only
# wait for each other. Tests of threads name their number.
check test nightly test-gpu versions-%: export OPENBLAS_NUM_THREADS = 1
check: lint
	$(PYTEST) -m 'not slow'

test: $(VENV)/test.stamp
	$(MAKE) --no-print-directory lint
	$(PYTEST) --complete -m 'not nightly'

nightly: $(VENV)/test.stamp
	$(PYTEST) --complete -m nightly

# coefficients.h is written by tools/polynomials.py.
CXX_SOURCES := $(filter-out %/coefficients.h,$(shell find rescntk tests -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.c'))

lint: $(VENV)/test.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES)
	$(BIN)/mypy
	$(BIN)/codespell

# The fast tests with the oldest packages that pyproject.toml admits, on the first of PYTHONS, and with the
# newest packages on each of PYTHONS that is installed. Each environment stays in build/versions.
PYTHONS ?= 3.11 3.12 3.13
test-versions:
	@found=versions-oldest-$(firstword $(PYTHONS)); for v in $(PYTHONS); do \
	  if PYENV_VERSION=$$v python$$v -c ''; then found="$$found versions-newest-$$v"; \
	  else echo "make: Python $$v is not installed, its tests are left out"; fi; done; \
	$(MAKE) --no-print-directory --keep-going $$found

# One environment, as versions-newest-3.12.
versions-%: build/versions/%/stamp
	$(PYTEST:$(BIN)/%=$(<D)/bin/%) -m 'not slow'

.PRECIOUS: build/versions/%/stamp
SPLIT = $(subst -, ,$*)
build/versions/%/stamp: pyproject.toml tests/constraints/oldest.txt tests/constraints/newest.txt
	PYENV_VERSION=$(lastword $(SPLIT)) python$(lastword $(SPLIT)) -m venv --clear --upgrade-deps $(@D)
	$(@D)/bin/python -m pip install --quiet --no-compile --constraint tests/constraints/$(firstword $(SPLIT)).txt \
	  --editable '.[plot,datasets,learn,stored,jax,finite,test]'
	touch $@

# The next three targets need a CUDA device, and go on where their last run stopped. The GPU's driver
# decides which CuPy fits: CUDA=cuda12 for drivers of CUDA 12. The targets install packages from the
# network into .venv. On a machine without network, BIN=FOLDER takes the Python of a folder as it is
# and installs nothing. That Python needs CuPy with NVRTC, numpy, scipy, opt_einsum and mpmath; and for
# test-gpu pytest, pytest-xdist and hypothesis, for benchmark-gpu pandas, scikit-learn and JAX.
CUDA ?= cuda13
test-gpu sanitize-gpu benchmark-gpu: export PYTHONPATH := $(CURDIR)
GIVEN := $(filter command,$(origin BIN))
SOURCES := $(shell find rescntk tests -name '*.py' -o -name '*.h' -o -name '*.cu')
SELF_CHECK = import sys, rescntk; state = rescntk.engines.available()["cuda"]; sys.exit(None if state is True else state)

# Tests of the engine "cuda": fast tests first, each named when it ends. The engine's check of itself
# is compiled before several workers need it. Tests compile some 500
# kernels of one to two seconds, as tests ask for them; CuPy keeps kernels for the next run. The
# tests' oracle is several times slower without gmpy2. MARK='gpu and not slow' leaves out slow tests.
# Tests that passed are left out until a source changes; with no test left, pytest's status is 5.
GPU_TESTS := tests/engines tests/test_derivative.py
MARK ?= gpu
test-gpu: $(if $(GIVEN),,$(VENV)/$(CUDA).stamp) build/gpu/passed
	$(BIN)/python -c '$(SELF_CHECK)'
	$(BIN)/python -m pytest -n auto --dist load --maxschedchunk 1 --durations=15 -v -m '$(MARK)' --passed build/gpu/passed $(GPU_TESTS) || test $$? = 5

build/gpu/passed: $(SOURCES)
	mkdir -p $(@D) && : > $@

# The engine's check of itself under NVIDIA's Compute Sanitizer, which comes with the CUDA toolkit.
# CuPy's pool of memory would hide what is written behind an array.
SANITIZER ?= compute-sanitizer
sanitize-gpu: $(patsubst %,build/gpu/%.log,memcheck racecheck synccheck)
build/gpu/%.log: $(SOURCES) | $(if $(GIVEN),,$(VENV)/$(CUDA).stamp)
	mkdir -p $(@D)
	$(SANITIZER) --tool $* --kernel-name kns=rows --report-api-errors no --error-exitcode 1 \
	  $(BIN)/python -c 'import cupy; cupy.cuda.set_allocator(None); $(SELF_CHECK)' > $@.new 2>&1; \
	  status=$$?; cat $@.new; test $$status = 0 && mv $@.new $@

# Errors, equal bits and times of the engine "cuda", and others beside it. After eight minutes no row
# is begun: the next run goes on from there. OPTIONS='--limit 1200' takes longer, OPTIONS=--quick is
# a trial at toy sizes. Results are in build/gpu.
OPTIONS ?=
benchmark-gpu: $(if $(GIVEN),,$(VENV)/jax-$(CUDA).stamp)
	$(BIN)/python benchmarks/gpu.py --out build/gpu $(OPTIONS)

# Run the notebooks and keep their outputs.
notebooks: $(VENV)/test.stamp
	$(BIN)/python notebooks/run.py --write

# The documentation as a site: build/site/index.html. A warning is an error. Over an older site, the
# search would lose the index entries of pages that have not changed.
docs: $(VENV)/test.stamp
	rm -rf docs/api/generated build/site
	$(BIN)/python -m sphinx -W --keep-going -n -q -j auto docs build/site

# The site in a browser: formulas, widths, search, and screenshots in build/look. CHROMIUM=PATH
# names the browser; without it playwright downloads its own.
CHROMIUM ?= $(shell command -v chromium)
docs-look: docs $(VENV)/look.stamp
	$(if $(CHROMIUM),,$(BIN)/python -m playwright install chromium)
	CHROMIUM=$(CHROMIUM) $(BIN)/python tools/look.py build/site build/look

benchmark: $(VENV)/test.stamp
	$(BIN)/python benchmarks/cpu.py

# A comma as such would part the arguments of $(call).
COMMA := ,

# Modules are compiled when they are first imported, and kept: pip would compile all, of which half
# are used.
unexport PYTHONDONTWRITEBYTECODE
define install
	$(BIN)/python -m pip install --quiet --no-compile --editable '$(1)'
endef

# The environments. A stamp is newer than pyproject.toml once its packages are installed.
$(VENV)/demo.stamp: pyproject.toml
	$(MAKE) --no-print-directory $(VENV)/python.stamp
	$(call install,.[plot$(COMMA)datasets$(COMMA)learn])
	touch $@

$(VENV)/test.stamp: pyproject.toml
	$(MAKE) --no-print-directory $(VENV)/python.stamp
	$(call install,.[all])
	touch $@ $(VENV)/demo.stamp

$(VENV)/look.stamp: $(VENV)/test.stamp
	$(call install,.[look])
	touch $@

$(VENV)/$(CUDA).stamp: $(VENV)/test.stamp
	$(call install,.[$(CUDA)])
	touch $@

$(VENV)/jax-$(CUDA).stamp: $(VENV)/$(CUDA).stamp
	$(call install,.[jax-$(CUDA)])
	touch $@

# Today's pip installs in two fifths of the processor time that Python 3.11's own takes.
$(VENV)/python.stamp:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("rescntk needs Python 3.11 or later; say which with make PYTHON=…")'
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	touch $@

clean:
	rm -rf $(VENV) demo build *.egg-info docs/api/generated docs/project/results
	rm -rf docs/gallery/thumbnails docs/gallery/*.ipynb
