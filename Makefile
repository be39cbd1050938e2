# Weir's commands. `make run` and `make test` need CPython 3.11 or newer and nothing else; the rest says what it needs.

PYTHON ?= python3
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet

# Without a Chromium the pages cannot be looked at; .ci/run installs one.
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
MARKS    := not slow and not spark$(if $(CHROMIUM),, and not browser)

.DEFAULT_GOAL := help
.PHONY: help run test check house format bench demo image-test test-clients test-pipeline jars test-all clean

help:
	@echo "make run [ARGS=...]    install what is needed and start the broker and its console"
	@echo "make test              checks, then every test but the slow ones"
	@echo "make check             format, lint, types, import contracts, house rules, Dockerfile"
	@echo "make test-clients      Kafka's own tools and its Java client (needs Java 17, Maven)"
	@echo "make test-pipeline     the Spark pipeline (needs Java 17, Maven)"
	@echo "make jars              what Spark needs beside itself, into pipeline/jars (needs Maven)"
	@echo "make test-all          make test with the slow tests too"
	@echo "make demo              a broker with greedy, patient, polite and storming tenants, to look at in the console"
	@echo "make bench [ARGS=...]  Weir beside Kafka, kfake and tansu (needs cc, Java 17, Maven, Go)"
	@echo "make image-test        build the container image and use it (needs root and Debian)"

# A stamp is older than pyproject.toml when a dependency may have changed.
$(VENV)/runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Weir needs CPython 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

$(VENV)/dev: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Weir needs CPython 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/runtime

run: $(VENV)/runtime
	@exec $(BIN)/weir serve $(ARGS)

# Off: ASYNC114, which wants every startable function named on the command line; ASYNC124, because Quart runs a plain
# function in a thread; ASYNC128, which does not see a task status that is handed on; ASYNC9xx, which ask for a
# checkpoint on every path.
ASYNC_OFF := ASYNC9,ASYNC114,ASYNC124,ASYNC128

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/flake8-async --disable $(ASYNC_OFF) $$(grep -rlE 'async |await ' broker webui --include='*.py')
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; \
	else echo "No hadolint for this machine: the Dockerfile is not linted."; fi
	$(MAKE) --no-print-directory house

house: $(VENV)/dev
	$(BIN)/pytest -q tests/house

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check
	$(if $(CHROMIUM),,@echo "No Chromium here: the browser tests are left out.")
	$(BIN)/pytest -m "$(MARKS)" $(ARGS)

test-clients: $(VENV)/dev
	$(BIN)/python -m benchmarks.install kafka
	$(BIN)/pytest tests/endtoend/test_clients_kafka_tools*.py

$(VENV)/pipeline: pyproject.toml $(VENV)/dev
	$(PIP) --editable '.[dev,pipeline]'
	@touch $@

pipeline/jars: pipeline/pom.xml
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$@
	@touch $@

jars: pipeline/jars

test-pipeline: $(VENV)/pipeline pipeline/jars
	$(BIN)/pytest -m "spark and not slow" tests/pipeline $(ARGS)

test-all: check
	$(BIN)/pytest $(ARGS)

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks.run $(ARGS)

demo: $(VENV)/dev
	@exec $(BIN)/python -m demo $(ARGS)

image-test: $(VENV)/dev
	tests/image/run

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build benchmarks/build
