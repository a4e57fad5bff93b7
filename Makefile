# make demo: set up and run the main job.  make test: set up and run the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check docs links clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/cipherdag demo

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/python docs/errors_page.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build

# follows the links that lead elsewhere; needs the network, so it is no part of the gate
links: $(READY)
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

clean:
	rm -rf $(VENV) build dist docs/_build
