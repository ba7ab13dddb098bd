# Each target installs what it needs on first use: Python >= 3.11 and make are enough.
PYTHON ?= python3
BIN := .venv/bin
# Two processes for two cores. A file stays in one of them, for its fixtures; tests/conftest.py says which go first.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: bundles demo test test-slow test-extras test-gpu test-gpu-simulator test-ray test-nojit check bench images docs docs-serve clean attack
.DELETE_ON_ERROR:

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cmcts needs Python >= 3.11, got " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# A browser of the system. Where there is none and we may install one, as in a container, it is Debian's.
.venv/browser: .venv/installed
	@command -v chromium || command -v google-chrome || command -v google-chrome-stable \
	  || (apt-get update -q && apt-get install -q -y --no-install-recommends chromium) \
	  || (echo "expected Chromium or Chrome, got none, and it could not be installed"; exit 1)
	@touch $@

demo: .venv/installed  ## train, plan and compare on small tasks; writes runs/demo
	$(BIN)/cmcts demo

test: .venv/installed  ## the default test run
	$(PYTEST)

test-slow: .venv/installed  ## the long tests as well
	$(PYTEST) -m 'not extras'

test-extras: .venv/browser .venv/ray .venv/zoo test-gpu-simulator  ## what needs more than Python: an environment for the wheel, a browser, numba-cuda, Ray, the zoo
	CMCTS_BROWSER=required $(BIN)/python -m pytest -m 'extras and not slow'

.venv/gpu: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gpu]'
	@touch $@

test-gpu: .venv/gpu  ## the search on a GPU, for a machine with one
	$(BIN)/python -m pytest tests/test_gpu.py tests/test_devices.py

test-gpu-simulator: .venv/gpu  ## the same on a simulated GPU
	NUMBA_ENABLE_CUDASIM=1 $(BIN)/python -m pytest tests/test_gpu.py

.venv/ray: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	@touch $@

.venv/zoo: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[zoo]'
	@touch $@

test-ray: .venv/ray  ## Ray on two nodes, with kills and lost drivers; minutes
	$(BIN)/python -m pytest -m extras tests/test_ray.py tests/test_ray_nodes.py

test-nojit: .venv/installed  ## the same sources, uncompiled
	NUMBA_DISABLE_JIT=1 $(PYTEST)

check: .venv/installed  ## style, types, and who leans on whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/installed  ## simulations per second, compile time, memory
	$(BIN)/cmcts bench

attack: .venv/installed  ## kills, damage, garbage and a million decisions; hours, resumable; writes docs/reliability.md
	$(BIN)/python benchmarks/attack $(ATTACK)

images: .venv/browser .venv/zoo  ## the pictures in the docs
	for script in docs/images/*.py; do $(BIN)/python $$script || exit 1; done

docs: .venv/installed  ## the documentation site, into site/
	$(SITE) build --strict

docs-serve: .venv/installed  ## the same on http://localhost:8000, rebuilt when a page changes
	$(SITE) serve --strict

# Material for MkDocs prints a notice about its own future at every build; it is no concern of a reader.
SITE = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

TASKS := safe-gridworld rocksample-5-7 rocksample-7-8 rocksample-11-11 rocksample-15-15

bundles: .venv/installed  ## train what ships with the library; long
	rm -rf runs/bundles
	for task in $(TASKS); do \
	  $(BIN)/cmcts train $$task --seed 0 --out runs/bundles/$$task || exit 1; \
	  mkdir -p src/cmcts/critic/shipped/$$task; \
	  cp runs/bundles/$$task/*.safetensors runs/bundles/$$task/bundle.json src/cmcts/critic/shipped/$$task/; \
	done

clean:
	rm -rf .venv runs site .pytest_cache .mypy_cache .ruff_cache
