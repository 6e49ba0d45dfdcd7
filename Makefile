# `make` alone says what there is. Everything runs in .venv, which `make setup` fills from constraints.txt.

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOOPS := $(shell grep -rlE '^@(njit|compiled)$$' --include='*.py' schemas rules archive batch stream)
KAFKA := .kafka
COLLECTOR := .collector
TEXTWORLD := .textworld
WORKERS ?= 2
# Their tests mostly wait, for brokers, processes and browsers.
WAITING_TESTS := tests/kafka tests/serve tests/browser tests/docker
SEVERAL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
EVERY_DAY := not alone and not exhaustive and not collector and not frameworks and not storm
FAST_TESTS := tests/unit tests/snapshots tests/conformance tests/kafka/test_client_contract.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some images set it: then every process that a test starts would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo pipeline check lint types quick-types fast test waiting computing alone loops kafka soak kills bench papers exhaustive generated lock clean pictures test-collector test-frameworks test-storm

help: ## show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with the locked dependencies and tracline itself

# Python compiles what it imports: most of what is installed never is.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "make: the dependencies are locked for Python 3.11: set PYTHON to one" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes -r constraints.txt
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## simulate a support bot's sessions, audit them, say what was found
	@$(BIN)/tracline demo

pipeline: setup kafka ## the Kafka pipeline with the simulated bot in it: what it finds, the spike's alert; under 90 s
	@$(BIN)/python -m tracline.examples.pipeline

check: setup ## lint, format, types by Pyrefly, fast tests: under a minute
	@$(MAKE) --no-print-directory lint quick-types fast

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Seconds, where Pyright takes most of a minute; it finds most of what Pyright finds.
quick-types: setup
	$(BIN)/pyrefly check --min-severity warn

# Most of what it allocates is garbage soon: with more room for that it is collected less often.
types: quick-types ## types by Pyrefly and, more strictly, by Pyright; continuous integration runs both
	NODE_OPTIONS=--max-semi-space-size=64 $(BIN)/pyright

fast: setup
	$(BIN)/python -m pytest -n 2 $(FAST_TESTS) -m "not slow and not exhaustive"

test: setup loops ## every test, with the time each folder took against its budget
	-@$(MAKE) --no-print-directory kafka
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target waiting computing
	@$(MAKE) --no-print-directory alone

waiting: setup ## the tests of `make test` that wait for brokers, processes and browsers, by WORKERS=2 processes
	$(BIN)/python -m pytest -o cache_dir=.pytest_cache/$@ $(SEVERAL) $(WAITING_TESTS) -m "$(EVERY_DAY)"

# Computing gives way: what a waiting test waits for must not wait for a processor, too.
computing: setup ## all others, by WORKERS=2 processes of low priority
	nice -n 10 $(BIN)/python -m pytest -o cache_dir=.pytest_cache/$@ $(SEVERAL) tests $(WAITING_TESTS:%=--ignore=%) -m "$(EVERY_DAY)"

alone: setup ## the tests that need the machine for themselves; `make test` runs them, too
	$(BIN)/python -m pytest -o cache_dir=.pytest_cache/$@ $$(grep -rl --include='test_*.py' 'mark\.alone' tests) -m alone

loops: $(VENV)/.loops ## compile the product's loops, once for all processes of a test run

$(VENV)/.loops: $(LOOPS) | $(READY)
	$(BIN)/python -m tests.simulation.compile_loops
	@touch $@

kafka: $(KAFKA)/.ready ## fetch Apache Kafka's jars for tests/kafka, with Maven

$(KAFKA)/.ready: tests/kafka/pom.xml | $(READY)
	rm -rf $(KAFKA)
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA)/libs
	$(BIN)/python -m tracline.examples.local_kafka
	@touch $@

test-collector: setup kafka $(COLLECTOR)/otelcol ## the tests of a real OpenTelemetry collector, which Go builds first
	$(BIN)/python -m pytest tests/collector -m collector

test-frameworks: setup ## real agent frameworks against a scripted model: FRAMEWORKS="NAME NAME", RECORD=1
	FRAMEWORKS="$(FRAMEWORKS)" RECORD="$(RECORD)" $(BIN)/python -m pytest tests/frameworks/test_frameworks.py -m frameworks

$(COLLECTOR)/otelcol: tests/collector/builder.yaml
	go run go.opentelemetry.io/collector/cmd/builder@v0.158.0 --config $<
	@touch $@

test-storm: setup .storm/.ready ## the probabilities of chains against the model checker Storm, which PyPI has (GPL)
	$(BIN)/python -m pytest tests/storm -m storm -s

.storm/.ready:
	$(PYTHON) -m venv .storm
	.storm/bin/python -m pip install --quiet stormpy==2.0.0
	@touch $@

soak: setup ## the pipeline under simulated faults: SEEDS=2000, FROM=1
	SIMULATION_SEEDS=$(or $(SEEDS),2000) SIMULATION_FROM=$(or $(FROM),1) $(BIN)/python -m pytest tests/simulation -s

kills: setup kafka ## two processes of each kind on a real Kafka, killed at random: KILLS=80, SEED=1
	KILLS=$(or $(KILLS),80) SEED=$(or $(SEED),1) $(BIN)/python -m pytest tests/kafka/test_kills.py -m exhaustive -s

exhaustive: setup ## the differential sets that are too large for every day
	$(BIN)/python -m pytest tests/differential -m exhaustive

bench: setup ## the measurements in benchmarks/, one after another; EVENTS=10000000 for their full size
	@for bench in $$(grep -lr __main__ benchmarks --include=*.py | sort); do echo "== $$bench"; PYTHONPATH=. $(BIN)/python $$bench $(EVENTS) || exit; done

papers: setup $(TEXTWORLD)/facts.json ## the papers' figures of prediction, computed again into docs/papers.md: MODEL=URL of a model to ask
	$(BIN)/python -m tracline.examples.papers docs/papers.md $(TEXTWORLD)/facts.json $(MODEL)

# A game of TextWorld, which has a Python environment of its own; its program must admit the same commands.
$(TEXTWORLD)/facts.json: examples/papers/environments/game_facts.py
	test -x $(TEXTWORLD)/bin/python || $(PYTHON) -m venv $(TEXTWORLD)
	$(TEXTWORLD)/bin/python -m pip install --quiet textworld==1.7.0
	$(TEXTWORLD)/bin/tw-make tw-cooking --recipe 4 --take 4 --cook --cut --open --go 6 --seed 3 --force --output $(TEXTWORLD)/game.z8
	$(TEXTWORLD)/bin/python $< $(TEXTWORLD)/game.json $@ $(TEXTWORLD)/game.z8

pictures: setup ## take the pictures of the README with Chromium: the demo's report, and the console
	$(BIN)/python -m tests.browser.pictures

generated: setup ## rewrite the generated files: the grammar's parse table, the packs' JSON Schema
	$(BIN)/python -c 'from tracline.rules.language import syntax; from tracline.rules.packs import json_schema; syntax.TABLE_FILE.write_text(syntax.table()); \
	  json_schema.SCHEMA_FILE.write_text(json_schema.json_schema())'

lock: setup ## write constraints.txt and the image's part of it again: newest versions in bounds, with hashes
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
	  --extra pdf --extra predict --extra stream --extra timestamp --extra test --extra lock --all-build-deps --allow-unsafe --no-annotate \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --output-file constraints.txt pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes --strip-extras \
	  --extra stream --all-build-deps --allow-unsafe --no-annotate --constraint constraints.txt \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --output-file docker/requirements.txt pyproject.toml

clean: ## remove .venv, caches and what the demo made
	rm -rf $(VENV) $(KAFKA) $(COLLECTOR) $(TEXTWORLD) .frameworks .storm build dist tracline-demo *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
