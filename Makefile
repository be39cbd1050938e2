# Weir's commands. `make run` and `make test` need CPython 3.11 or newer and nothing else; the rest says what it needs.

PYTHON ?= python3
# Those for which make wheel compiles, as paths or names.
PYTHONS ?= $(PYTHON)
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet
# What takes longer than some seconds shows what it does: SHOWN TEXT COMMAND.
SHOWN    := $(PYTHON) -m deploy.shown
PIP_LOUD := env PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --progress-bar off
MVN      := mvn --batch-mode -Dstyle.color=never

# Without a Chromium the pages cannot be looked at; .ci/run installs one.
CHROMIUM := $(shell command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome)
MARKS    := not slow and not timed and not spark and not image$(if $(CHROMIUM),, and not browser)

# Four processes where there are two cores or more: half of the time a test waits, for a disk, a broker or a browser. Each
# takes a file after the other (tests/support/processes.py). What compares real seconds with a limit is apart, in
# test-timed. `make test PARALLEL=` runs one after the other, as a debugger needs it.
CORES    := $(shell getconf _NPROCESSORS_ONLN)
PARALLEL := $(if $(filter-out 1,$(CORES)),--processes 4)

# Of cases that are computed, as seeds are, a quarter runs at each commit: tests/support/rotation.py. ROTATION=all runs
# all, and ROTATION=2 the quarter that said so when it failed. CI_ALL=1 is for .ci/run.
ROTATION ?= $(if $(CI_ALL),all,commit)
export ROTATION

# Spark, or Apache Kafka, in each of two processes: a file's tests share its tables, or its brokers.
BY_FILE  := $(if $(filter-out 1,$(CORES)),--processes 2)

# A module is compiled once, not in each of the hundreds of processes that the tests start.
export PYTHONDONTWRITEBYTECODE :=

# A test that waits for ever fails, and tells where it waited. The longest test takes half a minute.
TIMEOUT  := --timeout 300

# The time in archives is that of the commit, so that the same sources make the same bytes.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH

# Two at a time. What one of them says comes together, when it has ended.
CHECKS   := types style async imports dockerfile conventions

.DEFAULT_GOAL := help
.PHONY: help run test check $(CHECKS) format compiled interpreted wheel dist test-compiled lock audit bench bench-quick demo demo-gateway docs pictures sbom soak image-test test-timed test-clients test-clients-more test-gateway test-pipeline pipeline jars jars-s3 test-all upstream clean

help:
	@echo "make run [ARGS=...]    install what is needed and start the broker and its console; compiles for the next start"
	@echo "make compiled          compile the hot modules of this checkout (needs a C compiler and Python's headers)"
	@echo "make interpreted       remove what make compiled and make run built"
	@echo "make wheel [PYTHONS=...]  a wheel with compiled modules for each Python, into dist (needs what make compiled needs)"
	@echo "make dist              a source distribution, and a wheel for every machine, into dist"
	@echo "make sbom              what a broker consists of, in CycloneDX's format, into dist"
	@echo "make test              checks, then every test but the slow ones, and of computed cases a quarter at each commit"
	@echo "make test-timed        the tests of how long a piece of work takes; on a quiet machine"
	@echo "make test-compiled     the tests of the hot packages on compiled modules, which it removes afterwards"
	@echo "make check             format, lint, types, import contracts, conventions, Dockerfile"
	@echo "make test-clients      Kafka's own tools, the examples, and records through the gateway (needs Java 17, Maven)"
	@echo "make test-clients-more clients in Go, JavaScript and Rust, Streams, Connect, MirrorMaker 2, Flink and Java 25, and 500 steps of Kafka's tools (leaves out what is not there)"
	@echo "make test-gateway      the gateway before three Kafka brokers: clients, faults, limits (needs Java 17, Maven)"
	@echo "make test-pipeline     the Spark pipeline (needs Java 17, Maven)"
	@echo "make pipeline          install what weir pipeline needs: PySpark and, where Maven is, the jars (needs Java 17)"
	@echo "make jars              what Spark needs beside itself, into pipeline/jars (needs Maven; with a JDK, commits cost less)"
	@echo "make jars-s3           what a warehouse on S3 needs beside them, into pipeline/jars/s3 (needs Maven and a JDK)"
	@echo "make test-all          make test with the slow tests and all computed cases too"
	@echo "make demo              a broker with greedy, patient, polite and storming tenants, to look at in the console"
	@echo "make demo-gateway      the same tenants on two gateways before three Kafka brokers (needs Java 17, Maven)"
	@echo "make docs              this documentation as a site, into site; a broken link is an error"
	@echo "make pictures          the pictures of this documentation, of a running demo (needs a Chromium)"
	@echo "make bench [ARGS=...]  Weir beside Kafka, kfake and tansu (needs cc, Java 17, Maven, Go)"
	@echo "make bench-quick BASE=COMMIT  this checkout beside a commit, in five minutes (needs cc)"
	@echo "make soak [ARGS=...]   30 minutes of mixed load with kill -9, full disks and clock steps: is anything lost?"
	@echo "make lock              write the locked versions and hashes of what pyproject.toml pins anew"
	@echo "make upstream          what the newest Kafka changes against the one that Weir follows (needs Java 17, Maven, the network)"
	@echo "make audit             look the locked versions up among known vulnerabilities (needs the network)"
	@echo "make image-test        build the container images and use them (needs a Docker daemon, or root on Debian)"
	@echo "                       ARGS=broker leaves out the pipeline's"

# A stamp is older than pyproject.toml when a dependency may have changed. What is installed is what is locked: every
# file that comes from a registry has one of the hashes in requirements/. `make lock` writes them anew.
LOCKED := --require-hashes --requirement

# An environment has its pip last: one whose making was interrupted is made again.
define INSTALL
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Weir needs CPython 3.11 or newer")'
@test -x $(BIN)/pip || $(SHOWN) "Making a Python environment in $(VENV)" $(PYTHON) -m venv $(VENV)
@$(SHOWN) "Installing the packages that $(1) locks" $(PIP_LOUD) $(LOCKED) requirements/build.txt $(LOCKED) $(1)
@$(SHOWN) "Installing Weir into $(VENV)" $(PIP_LOUD) --no-deps --no-build-isolation --editable .
endef

$(VENV)/runtime: pyproject.toml requirements/runtime.txt
	$(call INSTALL,requirements/runtime.txt)
	@touch $@

$(VENV)/dev: pyproject.toml requirements/dev.txt
	$(call INSTALL,requirements/dev.txt)
	@touch $@ $(VENV)/runtime

# The first start is interpreted, and does not wait for the build that the next one uses.
run: $(VENV)/runtime
	@(nice -n 19 $(BIN)/python -m deploy.compiled_build </dev/null &); exec $(BIN)/weir serve $(ARGS)

# An environment of its own: the broker runs while it is installed.
$(VENV)-compile/ready: requirements/build.txt requirements/compile.txt
	@$(BIN)/python -m venv $(VENV)-compile
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)-compile/bin/pip install --quiet $(LOCKED) requirements/build.txt $(LOCKED) requirements/compile.txt
	@touch $@

$(VENV)/compile: pyproject.toml requirements/compile.txt $(VENV)/runtime
	$(PIP) $(LOCKED) requirements/compile.txt
	@touch $@

# The build is as old as its beginning: it is older than a source that is changed meanwhile. broker/server/compiled.py compares.
compiled: $(VENV)/compile interpreted
	@mkdir -p build && touch build/began
	WEIR_COMPILED=1 $(BIN)/python setup.py --quiet build_ext --inplace
	@find broker -name '*.so' -exec touch -r build/began {} +

interpreted:
	@rm -rf build
	@[ ! -d $(VENV)/compiled ] || $(BIN)/python -m deploy.compiled_build --remove
	@find broker -name '*.so' -delete

$(VENV)-wheels/ready: requirements/wheels.txt
	@test -x $(VENV)-wheels/bin/pip || $(PYTHON) -m venv $(VENV)-wheels
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)-wheels/bin/pip install --quiet $(LOCKED) requirements/wheels.txt
	@touch $@

wheel: $(VENV)-wheels/ready
	@$(VENV)-wheels/bin/python -m deploy.compiled_wheel $(PYTHONS)

dist: $(VENV)/runtime
	@$(BIN)/python -c 'from setuptools.build_meta import build_sdist; build_sdist("dist")' >/dev/null
	@$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/weir_broker-*.tar.gz

# Off: ASYNC114, which wants every startable function named on the command line; ASYNC124, because Quart runs a plain
# function in a thread; ASYNC128, which does not see a task status that is handed on; ASYNC9xx, which ask for a
# checkpoint on every path; ASYNC100, which ruff has.
ASYNC_OFF := ASYNC9,ASYNC100,ASYNC114,ASYNC124,ASYNC128
ASYNC_FILES = $$(grep -rlE 'async |await ' broker webui weir --include='*.py')

check: $(VENV)/dev
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target $(CHECKS)

types: $(VENV)/dev
	$(BIN)/mypy

style: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# All files take a minute of a core, and it keeps no results itself: only files are read that are newer than the last run
# without an error.
async: $(VENV)/dev
	@touch $(VENV)/async-began
	@newer=; [ $(VENV)/async -nt $(VENV)/dev ] && [ $(VENV)/async -nt Makefile ] && newer="-newer $(VENV)/async"; \
	files=$$(find $(ASYNC_FILES) $$newer); [ -z "$$files" ] || $(BIN)/flake8-async --disable $(ASYNC_OFF) $$files
	@mv $(VENV)/async-began $(VENV)/async

imports: $(VENV)/dev
	$(BIN)/lint-imports

dockerfile: $(VENV)/dev
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; \
	else echo "No hadolint for this machine: the Dockerfile is not linted."; fi

conventions: $(VENV)/dev
	$(BIN)/pytest -q tests/conventions

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What `check` has run, and what is marked as a whole.
APART := $(addprefix --ignore tests/,conventions pipeline image)

test: check
	$(if $(CHROMIUM),,@echo "No Chromium here: the browser tests are left out.")
	$(BIN)/pytest $(PARALLEL) $(TIMEOUT) $(APART) $(if $(HOT_APART),$(addprefix --ignore ,$(HOT_TESTS))) -m "$(MARKS)" $(ARGS)

# One after the other: beside anything else, a limit in seconds says more about the machine than about Weir. Collecting
# all files would take most of a minute.
test-timed: $(VENV)/dev
	$(BIN)/pytest $(TIMEOUT) -m "timed and not slow" $(shell grep -rl 'mark\.timed' tests --include='test_*.py') $(ARGS)

# These packages have the compiled modules, and every kind of bad input.
HOT_TESTS := $(addprefix tests/,server/test_compiled.py metrics purgatory records protocol log partitions coordinator/test_group_service.py coordinator/test_offsets_log.py coordinator/transaction/test_producer_ids.py api network gateway)

# What replaces a method is left out there, and runs afterwards.
test-compiled: export WEIR_OPT_LEVEL := 0
test-compiled: $(VENV)/dev compiled
	@trap '$(MAKE) --no-print-directory interpreted' EXIT; $(BIN)/pytest $(PARALLEL) $(TIMEOUT) -m "$(MARKS)" $(HOT_TESTS) $(ARGS)$(if $(CI), || .ci/again $$?)
	$(BIN)/pytest $(PARALLEL) $(TIMEOUT) -m "$(MARKS)" $(shell grep -rl replace_method tests --include='test_*.py') $(ARGS)

test-clients: $(VENV)/dev
	$(BIN)/python -m benchmarks.install kafka
	$(BIN)/pytest $(BY_FILE) tests/endtoend/test_clients_kafka_tools*.py tests/endtoend/test_clients_kafka_answers.py tests/endtoend/test_clients_share_dead_letters.py tests/endtoend/test_clients_streams_groups.py tests/endtoend/test_clients_examples.py tests/endtoend/gateway/test_clients_records.py tests/examples/test_gateway.py tests/upstream $(ARGS)

test-clients-more: $(VENV)/dev
	$(BIN)/python -m benchmarks.install kafka || echo "No Apache Kafka here: Kafka Streams is not compared, nor are its tools."
	$(BIN)/pytest -m "" $(addprefix tests/endtoend/test_clients_,go.py js.py rust.py streams.py streams_brokers.py mirrormaker.py connect.py flink.py java_25.py tool_steps.py) $(ARGS)

test-gateway: $(VENV)/dev
	$(BIN)/python -m benchmarks.install kafka
	$(BIN)/pytest tests/endtoend/gateway $(ARGS)

$(VENV)/pipeline: requirements/pipeline.txt requirements/notebook.txt $(VENV)/dev
	@$(SHOWN) "Installing PySpark" $(PIP_LOUD) $(LOCKED) requirements/pipeline.txt $(LOCKED) requirements/notebook.txt
	@touch $@

$(VENV)/spark: requirements/pipeline.txt $(VENV)/runtime
	@$(SHOWN) "Installing PySpark" $(PIP_LOUD) $(LOCKED) requirements/build.txt $(LOCKED) requirements/pipeline.txt
	@touch $@

# Without Maven, Spark fetches the jars itself when it starts.
pipeline: $(VENV)/spark
	@if command -v mvn >/dev/null; then $(MAKE) --no-print-directory jars; \
	else echo "No Maven: Spark fetches its jars from Maven Central when it first starts."; fi
	@command -v java >/dev/null || echo "No Java on PATH: Spark needs Java 17."

pipeline/jars: pipeline/pom.xml
	@$(SHOWN) "Fetching Spark's jars" $(MVN) --file $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$@
	@touch $@

# Without a JDK Hadoop starts a process for each file that it writes; all else is the same.
pipeline/jars/weir/stamp: pipeline/java/pom.xml $(wildcard pipeline/java/*.java) | pipeline/jars
	@$(SHOWN) "Compiling pipeline/java" $(MVN) --file $< package
	@touch $@

jars: pipeline/jars $(if $(shell command -v javac),pipeline/jars/weir/stamp)

# The folder is older than its stamp, which is written when Maven has ended well.
pipeline/jars/s3/stamp: pipeline/s3/pom.xml pipeline/s3/ConditionalLogStore.java | pipeline/jars
	@$(SHOWN) "Fetching the jars for S3" $(MVN) --file $< package
	@touch $@

jars-s3: pipeline/jars/s3/stamp

# A change of a table or of an event's format fails in these first; all of tests/pipeline takes a quarter of an hour more.
PIPELINE_TESTS := $(if $(QUICK),$(patsubst %,tests/pipeline/test_%.py,run silver gold_minutes gold_limits gold_advice otlp_tables quota_events earlier_version gold_latency push_end_to_end),tests/pipeline)

test-pipeline: $(VENV)/pipeline jars pipeline/jars/s3/stamp
	$(BIN)/pytest $(BY_FILE) --timeout 600 -m "spark and not slow" $(PIPELINE_TESTS) $(ARGS)

test-all: check
	ROTATION=all $(BIN)/pytest $(ARGS)

# For those who change a dependency. Of what is locked already only that is changed which pyproject.toml changed;
# UPGRADE=--upgrade takes the newest of everything that it does not pin.
LOCK := UV_NO_CONFIG=1 $(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

lock: $(VENV)-lock/tools
	@printf '%s\n' $(BUILD_REQUIRES) | $(LOCK) --output-file requirements/build.txt - >/dev/null
	@$(LOCK) --output-file requirements/runtime.txt pyproject.toml >/dev/null
	@$(LOCK) --constraint requirements/runtime.txt --extra dev --output-file requirements/dev.txt pyproject.toml >/dev/null
	@$(LOCK) --constraint requirements/dev.txt --extra compile --output-file requirements/compile.txt pyproject.toml >/dev/null
	@$(LOCK) --constraint requirements/dev.txt --extra insights --output-file requirements/insights.txt pyproject.toml >/dev/null
	@$(LOCK) --constraint requirements/dev.txt --extra pipeline --output-file requirements/pipeline.txt pyproject.toml >/dev/null
	@$(LOCK) --constraint requirements/dev.txt --constraint requirements/pipeline.txt --extra notebook --output-file requirements/notebook.txt pyproject.toml >/dev/null
	@printf '%s\n' $(call EXTRA,docs) | $(LOCK) --constraint requirements/dev.txt --output-file requirements/docs.txt - >/dev/null
	@printf '%s\n' $(call EXTRA,wheels) | $(LOCK) --constraint requirements/dev.txt --output-file requirements/wheels.txt - >/dev/null
	@printf '%s\n' $(call EXTRA,sbom) | $(LOCK) --constraint requirements/dev.txt --output-file requirements/sbom.txt - >/dev/null

EXTRA          = $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$(1)"])')
BUILD_REQUIRES = $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')

# Asks about each locked version, so it needs the network, and is no part of `make test`.
audit: $(VENV)/dev
	$(BIN)/python requirements/audit.py requirements/*.txt

# Once a week. ARGS=4.3.0 compares that version, ARGS="4.1.1 4.3.0" the second with the first.
upstream: $(VENV)/dev
	@$(BIN)/python -m tests.upstream $(ARGS)

$(VENV)-lock/tools: Makefile
	@test -x $(VENV)-lock/bin/python || $(PYTHON) -m venv $(VENV)-lock
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)-lock/bin/pip install --quiet uv==0.13.9
	@touch $@

# An environment of its own: nothing of it is needed to run Weir or to test it.
$(VENV)-docs/ready: requirements/docs.txt
	@test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)-docs/bin/pip install --quiet $(LOCKED) requirements/docs.txt
	@touch $@

docs: $(VENV)-docs/ready
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict $(ARGS)

pictures: $(VENV)/dev
	$(BIN)/python -m demo.pictures $(ARGS)
	$(BIN)/python -m demo.quota_pictures

# What a broker's environment consists of, installed for it in an environment of its own.
$(VENV)-sbom/ready: requirements/sbom.txt requirements/runtime.txt pyproject.toml
	@test -x $(VENV)-sbom/bin/python || $(PYTHON) -m venv $(VENV)-sbom
	@test -x $(VENV)-sbom/weir/bin/python || $(PYTHON) -m venv --without-pip $(VENV)-sbom/weir
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)-sbom/bin/pip install --quiet $(LOCKED) requirements/sbom.txt
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)-sbom/bin/pip --python $(VENV)-sbom/weir/bin/python install --quiet $(LOCKED) requirements/runtime.txt
	@touch $@

sbom: $(VENV)-sbom/ready
	@mkdir -p dist
	$(VENV)-sbom/bin/cyclonedx-py environment $(SBOM_OPTIONS) --output-file dist/weir.cdx.json $(VENV)-sbom/weir/bin/python

# The Dockerfile has the same.
SBOM_OPTIONS := --pyproject pyproject.toml --output-reproducible --output-format JSON

soak: $(VENV)/dev
	$(BIN)/python -m benchmarks.soak $(ARGS)

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks.run $(ARGS)

bench-quick: $(VENV)/dev
	@test -n "$(BASE)" || { echo "make bench-quick BASE=COMMIT: the commit to compare with"; exit 2; }
	$(BIN)/python -m benchmarks.paired $(BASE) $(ARGS)

demo: $(VENV)/dev
	@exec $(BIN)/python -m demo $(ARGS)

demo-gateway: $(VENV)/dev
	$(BIN)/python -m benchmarks.install kafka
	@exec $(BIN)/python -m demo --gateways $(ARGS)

image-test: $(VENV)/dev
	tests/image/run $(ARGS)

clean: interpreted
	rm -rf $(VENV) $(VENV)-compile $(VENV)-docs $(VENV)-sbom $(VENV)-wheels site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build benchmarks/build
