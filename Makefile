# `make lab` opens the workbench, `make test` checks everything. Both make .venv first; nothing outside it is touched.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
TRACE  ?=
ARGS   ?=
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist loadfile

# FULL=1 brings torch and Triton, FULL=0 leaves them out; unsaid, what is installed already and the NVIDIA driver decide.
HAS_DRIVER = $(shell $(PYTHON) -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null && echo 1 || echo 0)
FULL ?= $(if $(wildcard $(VENV)/.installed-full $(VENV)/.installed-test),1,$(HAS_DRIVER))
ifeq ($(FULL),1)
SET := full
else
SET := light
endif

.PHONY: help lab report doctor test test-gpu compile-all lint format lock sizes clean
.DEFAULT_GOAL := help

help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

lab: $(VENV)/.installed-$(SET) ## open JupyterLab on the home notebook (FULL=1 adds torch and Triton)
ifneq ($(SET),full)
	@echo "No NVIDIA driver here, or FULL=0: this is the light set (explorer, report, lessons, compiler)."
	@echo "make lab FULL=1 adds torch and Triton, to run operators; see README for the size of that download."
endif
	$(PY) -m workbench lab

report: $(VENV)/.installed-$(SET) ## write the report of a trace (TRACE=path; the shipped sample without it)
	$(PY) -m workbench report $(if $(TRACE),"$(TRACE)")

doctor: $(VENV)/.installed-$(SET) ## say what this machine has and what each absent part disables
	$(PY) -m workbench doctor

test: lint ## everything CI runs: lint, types, tests, notebooks, browser, wheel
	$(PY) -m pytest $(PYTEST_ARGS)

test-gpu: ## the tests that need an NVIDIA GPU
	@$(PYTHON) -c 'import ctypes; raise SystemExit(ctypes.CDLL("libcuda.so.1").cuInit(0))' 2>/dev/null || \
		{ echo "No usable NVIDIA GPU on this machine: nothing to run. make test covers what needs none."; exit 1; }
	@$(MAKE) --no-print-directory $(VENV)/.installed-test
	$(PY) -m pytest -m gpu

compile-all: $(VENV)/.installed-test ## compile every configuration of the kernels (hours; ARGS="router --terms 3" for a part)
	$(PY) tools/compile_all.py $(or $(ARGS),all)

lint: $(VENV)/.installed-test ## style, formatting and types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

format: $(VENV)/.installed-test ## rewrite the sources as `make lint` wants them
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

lock: $(VENV)/.installed-test ## resolve the dependencies anew into requirements/
	$(PY) -m pip install --quiet uv
	$(PY) tools/lock.py

sizes: $(VENV)/.installed-test ## print how much each set downloads, from the index's metadata
	$(PY) -m pip install --quiet uv
	@$(PY) tools/download_sizes.py

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; name one with make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "This Python cannot make environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The package is built by the locked hatchling, so no install resolves anything by itself.
$(VENV)/.installed-%: requirements/%.txt requirements/light.txt pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --disable-pip-version-check -r $<
	$(PY) -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@
