# make demo: set up and run the main job.  make test: set up and run the fast tests.  make test-all: every test.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := $(VENV)/.demo
RUNTIME := .venv-runtime
TOOLS := .venv-release

# a worker or process that may keep nothing of what it compiled compiles it again: half of collecting all tests
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-rest test-all laws durations check docs links sbom audit lock release sign clean
.DEFAULT_GOAL := demo

# PIP_FLAGS is the reader's own: a mirror, or --extra-index-url of torch's CPU build
# what is never imported need not be compiled, which is half of the files of the demo's packages
INSTALL = $(BIN)/python -m pip install --no-compile --constraint constraints.txt $(PIP_FLAGS)
# where the recipe began, and what it came to
CLOCK = began=$$(date +%s)
COST = $$(($$(date +%s) - began)) s

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# what the demo needs, and no tool of the tests
$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV), once: about 1 GB, most of it torch."
	@$(CLOCK); $(INSTALL) --editable '.[bfv]' && touch $@ && \
		echo "Set up in $(COST): $$(du -sm $(VENV) | cut -f 1) MB in $(VENV)."

# everything; tests take warnings for errors, so packages are compiled before the first import
$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --quiet --editable '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # some packages carry files of other Pythons
	touch $(DEMO) $@

demo: $(DEMO)
	@$(CLOCK); $(BIN)/cipherdag demo && echo "The demo took $(COST)."

# tests/durations.json says which tests are slow or start processes; tests/support/costs.py sets the markers
TESTS = $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: $(READY)
	$(TESTS) --hypothesis-profile fast -m "not slow and not process"

# what `make test` leaves out, and with all examples the laws of which it took few
test-rest: $(READY)
	$(TESTS) -m "slow or process or law"

test-all: test test-rest

# examples that no run before has tried: what they find is told by a blob to repeat it
laws: $(READY)
	$(TESTS) --hypothesis-profile "new examples" -m law

# every test once, and what it costs into tests/durations.json
durations: $(READY)
	$(TESTS) --record-durations

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/architecture.py --gate

docs: $(READY)
	$(BIN)/python docs/errors_page.py
	$(BIN)/python docs/tables_page.py
	$(BIN)/python docs/disclosures.py
	$(BIN)/python docs/catalogues.py
	$(BIN)/python docs/plain_words.py
	$(BIN)/python docs/json_page.py
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
	$(TOOLS)/bin/python -m pip install --quiet --constraint constraints.txt build cyclonedx-bom pip-audit sigstore uv
	touch $@

# the bill of materials of a release, in CycloneDX
sbom: $(RUNTIME)/.ready $(TOOLS)/.ready
	mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file dist/cipherdag.cdx.json $(RUNTIME)/bin/python

# what a site installs, every file of it by its SHA-256, for all systems and Pythons
lock: $(TOOLS)/.ready
	$(TOOLS)/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
		--python-version 3.11 --constraint constraints.txt --extra flare --extra bfv \
		--output-file deploy/requirements.txt pyproject.toml

# wheel and sdist, built twice to the same bytes and checked, the bill of materials, and their digests
release: $(READY) sbom
	.ci/package dist
	cp deploy/requirements.txt dist/requirements.txt
	cd dist && sha256sum *.whl *.tar.gz cipherdag.cdx.json requirements.txt >SHA256SUMS

# a person signs in, and everybody can check who it was; needs the network
sign: $(TOOLS)/.ready
	$(TOOLS)/bin/sigstore sign dist/*.whl dist/*.tar.gz dist/SHA256SUMS

# known vulnerabilities of every pinned version; needs the network, so it is no part of the gate
audit: $(TOOLS)/.ready
	$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

clean:
	rm -rf $(VENV) $(RUNTIME) $(TOOLS) build dist docs/_build
