# make demo: set up and run the main job.  make test: set up and run the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNTIME := .venv-runtime
TOOLS := .venv-release

.PHONY: demo test check docs links sbom audit clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/cipherdag demo

test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/architecture.py --gate

docs: $(READY)
	$(BIN)/python docs/errors_page.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build

# follows the links that lead elsewhere; needs the network, so it is no part of the gate
links: $(READY)
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

# what users get with every extra, and what makes a release; neither is the environment of the tests
$(RUNTIME)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RUNTIME)
	$(RUNTIME)/bin/python -m pip install --quiet --constraint constraints.txt '.[bfv,flare,plot,parquet,excel,duckdb,sql]'
	$(RUNTIME)/bin/python -m pip uninstall --quiet --yes setuptools pip
	touch $@

$(TOOLS)/.ready: constraints.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --constraint constraints.txt cyclonedx-bom pip-audit
	touch $@

# the bill of materials of a release, in CycloneDX
sbom: $(RUNTIME)/.ready $(TOOLS)/.ready
	mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file dist/cipherdag.cdx.json $(RUNTIME)/bin/python

# known vulnerabilities of every pinned version; needs the network, so it is no part of the gate
audit: $(TOOLS)/.ready
	$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

clean:
	rm -rf $(VENV) $(RUNTIME) $(TOOLS) build dist docs/_build
