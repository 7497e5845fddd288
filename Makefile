# Needs Python 3.11 or newer and make; everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench scale coverage clean

demo: $(VENV)/.demo
	$(BIN)/python examples/review.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist loadfile --max-worker-restart 0

lint: $(VENV)/.test $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

scale: $(VENV)/.bench
	$(BIN)/python benchmarks/scale.py

coverage: $(VENV)/.bench
	$(BIN)/python -m benchmarks.coverage

# A stamp says that an extra is installed as pyproject.toml lists it.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

clean:
	rm -rf $(VENV) build dist examples/out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
