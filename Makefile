# `make` lists the targets. Variables, given as in `make demo TORCH=torch==2.11.0`:
PYTHON ?= python3
# The environment that set-up creates. Empty: use PYTHON's own environment as it is and install nothing.
VENV ?= .venv
# What pip installs where neither VENV nor PYTHON has torch >= 2.10. Given explicitly, it is installed in any case.
TORCH ?= torch==2.13.0
# Test processes; 0: all in one, as on a machine with a GPU, where tests that fill its memory must not meet.
TEST_WORKERS ?= $(if $(GPU_ARCHS),0,$(shell n=$$(nproc); echo $$((n < 8 ? n : 8))))
# More arguments for pytest and for scripts/gpu_check.sh.
PYTEST_ARGS ?=
GPU_CHECK_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Nothing below imports convt3d in the root of the repository, where Python finds the source folder first, which leaves its
# place to the installed package only where it was not built itself.
PY := $(if $(VENV),$(abspath $(VENV))/bin/python,$(if $(findstring /,$(PYTHON)),$(abspath $(PYTHON)),$(shell command -v $(PYTHON))))
PIP_INSTALL := $(PY) -m pip install --disable-pip-version-check
TOOLS := PATH="$(dir $(PY)):$$PATH"

HAS_TORCH := import torch; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 10)
# The compute capabilities of the GPUs at hand, as setup.py wants them: "80;90a". Empty without a GPU.
GPU_ARCHS := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
    grep -xE '[0-9]+\.[0-9]+' | tr -d . | sed 's/^90$$/90a/' | sort -u | paste -sd';')

PYTHON_SOURCES := $(shell find convt3d demo tests -name '*.py' -o -name '*.pyi')
# Without what an example has compiled (examples/output/).
CPP_SOURCES := $(shell find benchmarks csrc examples scripts tests -name output -prune -o \
    \( -name '*.cpp' -o -name '*.cu' -o -name '*.h' -o -name '*.cuh' \) -print)

# Threads of several test processes would wait for each other.
TEST_THREADS = $(if $(filter-out 0,$(TEST_WORKERS)),OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1})

# Stamps: each says that VENV has something.
TORCH_STAMP := $(VENV)/.torch-$(shell tr -c 'A-Za-z0-9.\n' _ <<< '$(TORCH)')
PACKAGE_STAMP := $(VENV)/.convt3d
DEV_STAMP := $(VENV)/.dev
# The site needs neither torch nor the package: an environment of its own.
DOCS_VENV := $(if $(VENV),$(VENV)-docs)
DOCS_STAMP := $(DOCS_VENV)/.docs-$(shell md5sum < pyproject.toml | cut -c1-8)

.PHONY: help
help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(if $(VENV),$(PACKAGE_STAMP))  ## Set up, then double the resolution of an MRI volume (output/)
	cd demo && $(PY) -m mri_superresolution --output '$(CURDIR)/output'

.PHONY: test
test: $(if $(VENV),$(PACKAGE_STAMP))  ## Set up, then run the tests that this machine can run
	@cd tests && $(PY) -c 'import convt3d, torch; print("testing", convt3d.__file__, "with torch", torch.__version__)'
	cd tests && $(TEST_THREADS) $(PY) -m pytest -n $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

.PHONY: build
build: $(if $(VENV),$(TORCH_STAMP))  ## Build a wheel into dist/ (CONVT3D_CUDA_ARCHS picks the architectures)
	rm -rf build/lib* build/bdist*
	$(PY) -m pip wheel --no-build-isolation --no-deps --wheel-dir dist .

.PHONY: lint
lint: $(if $(VENV),$(DEV_STAMP))  ## Check style and types
	$(TOOLS) ruff check .
	$(TOOLS) ruff format --check .
	$(TOOLS) mypy --strict convt3d
	$(TOOLS) clang-format --dry-run --Werror $(CPP_SOURCES)

.PHONY: format
format: $(if $(VENV),$(DEV_STAMP))  ## Format Python and C++
	$(TOOLS) ruff check --fix .
	$(TOOLS) ruff format .
	$(TOOLS) clang-format -i $(CPP_SOURCES)

.PHONY: gpu-check
gpu-check: $(if $(VENV),$(PACKAGE_STAMP))  ## GPU tests, compute-sanitizer, random calls and benchmark (needs a GPU; gpu_check_out/)
	PYTHON='$(PY)' scripts/gpu_check.sh --stages tests,sanitizer,fuzz,benchmark $(GPU_CHECK_ARGS)

.PHONY: docs
docs: $(if $(VENV),$(DOCS_STAMP))  ## Build the documentation site into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(if $(VENV),$(DOCS_VENV)/bin/python,$(PY)) -m mkdocs build --strict

.PHONY: clean
clean:  ## Remove builds, caches and outputs (not the environment)
	rm -rf build dist output examples/output *.egg-info .mypy_cache .ruff_cache .pytest_cache tests/.pytest_cache .hypothesis tests/.hypothesis
	rm -f convt3d/*.so
	find convt3d demo tests -name __pycache__ -prune -exec rm -rf {} +

# A PYTHON that has torch shares it with the new environment. `venv` can share the base installation only; a virtual
# environment's packages, as where one is activated, come in by a .pth file, behind those of the new environment.
SHARED := import site; print(*("import site; site.addsitedir(%r)" % folder for folder in site.getsitepackages()), sep="\n")
$(TORCH_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo 'convt3d needs Python >= 3.10; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || \
	    if ! $(PYTHON) -c '$(HAS_TORCH)' 2>/dev/null; then \
	      echo 'creating $(VENV)'; $(PYTHON) -m venv $(VENV); \
	    elif echo 'creating $(VENV), which shares the torch of $(PYTHON)'; \
	      $(PYTHON) -c 'import sys; sys.exit(sys.prefix != sys.base_prefix)'; then \
	      $(PYTHON) -m venv --system-site-packages $(VENV); \
	    else \
	      $(PYTHON) -m venv $(VENV); \
	      $(PYTHON) -c '$(SHARED)' > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"; \
	    fi
ifeq ($(origin TORCH),file)
	@$(PY) -c '$(HAS_TORCH)' 2>/dev/null || { echo 'installing $(TORCH)'; $(PIP_INSTALL) '$(TORCH)'; }
else
	$(PIP_INSTALL) '$(TORCH)'
endif
	@$(PIP_INSTALL) --quiet 'setuptools>=77.0.3,<82' wheel ninja numpy
	@touch $@

# For the GPU at hand, else for the CPU only: kernels for all architectures take long to compile, and nothing here would run
# them. build/lib* would carry modules that were deleted since, and a library that was built for another torch.
BUILD_FOR := $(if $(CONVT3D_CUDA_ARCHS),,$(if $(GPU_ARCHS),CONVT3D_CUDA_ARCHS='$(GPU_ARCHS)',CONVT3D_CPU_ONLY=1))

$(PACKAGE_STAMP): $(TORCH_STAMP) setup.py pyproject.toml $(filter convt3d/%,$(PYTHON_SOURCES)) $(filter csrc/%,$(CPP_SOURCES))
	@rm -rf build/lib* build/bdist*
	@echo 'building and installing convt3d $(BUILD_FOR)'
	@$(BUILD_FOR) $(PIP_INSTALL) --quiet --no-build-isolation '.[demo,test]'
	@touch $@

$(DEV_STAMP): $(PACKAGE_STAMP)
	@$(PIP_INSTALL) --quiet 'convt3d[dev]'
	@touch $@

$(DOCS_STAMP): pyproject.toml
	$(PYTHON) -m venv $(DOCS_VENV)
	@packages=$$(sed -n 's/^docs = \[\(.*\)\]$$/\1/p' pyproject.toml | tr -d '",') && \
	    $(DOCS_VENV)/bin/python -m pip install --disable-pip-version-check --quiet $${packages:?pyproject.toml has no extra docs}
	@touch $@
