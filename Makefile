# Tideover: one command each. `make help` lists them.

PYTHON  ?= python3
VENV    ?= .venv
SPARK   ?= 4.2.0
LOCK    := conf/locks/pyspark-$(SPARK).lock
BIN     := $(VENV)/bin
SITE    := .venv-site
STAMP   := $(VENV)/.installed-$(SPARK)
FAULT   ?= kill
RESUME  ?= auto
MINUTES ?= 30
SEED    ?= 1
COUNT   ?= 66
WORKERS ?= 2 # processes for the real tests, a file each; 0: this one. Each needs half a core on average and 3 GB at most
COMPILE := uv pip compile --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate -q
CORES   := $(shell getconf _NPROCESSORS_ONLN)
PYTEST  := $(BIN)/python -m pytest -p no:cacheprovider
REAL    := $(PYTEST) -n $(strip $(WORKERS)) --dist loadfile --no-loadscope-reorder
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
unexport PYTHONDONTWRITEBYTECODE # hundreds of short processes need not compile us again, each

.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the virtual environment from the hashed lock file

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) or sys.platform != "linux")' || \
	  { echo "Tideover needs Linux and Python 3.11 or newer. Name another one: make $(firstword $(MAKECMDGOALS) setup) PYTHON=python3.11" >&2; exit 2; }
	@echo "setting up $(VENV) from $(LOCK) (once; Spark is 400 MB)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.installed-*; touch $@

java: $(STAMP) ## find Java 17, or install it by the system's package manager where that is allowed
	@PYTHON=$(BIN)/python conf/ensure-java

companion: $(STAMP) ## build the jar that Spark loads, unless it is there: with the JDK that is found, or installed as Java is
	@PYTHON=$(BIN)/python conf/ensure-java jdk
	@$(BIN)/python -m streaming.companion >/dev/null

prometheus: ## find promtool and prometheus, or take them out of Debian's package, for the tests of the alert rules
	@conf/ensure-prometheus

browser: ## find Chromium and its driver, or install them by the system's package manager where that is allowed
	@conf/ensure-browser

demo: java ## the main job on real parts: kill the primary under load, fail over, read the verdict (FAULT=kill|freeze, RESUME=auto|carry|switch, AUTO=1, RETURN=1, KEEP=1; WRONG=1: a query that a move makes wrong; JOB=examples/plain_job.py: an application as it is)
	-@$(MAKE) --no-print-directory companion
	$(if $(JOB),$(BIN)/python -m lab.own_job $(JOB) --dir build/own-job,$(if $(WRONG),$(BIN)/python -m lab.wrong --dir build/wrong,$(BIN)/python -m lab.demo --fault $(FAULT) --resume $(RESUME) $(if $(AUTO),--auto) $(if $(RETURN),--return) $(if $(KEEP),--keep) --dir build/demo))

check: $(STAMP) ## a minute: format, lint, types, import rules, unit and contract tests
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint types unit

lint: companion
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYTHONPATH=. $(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.java check

types: $(STAMP)
	$(BIN)/mypy

unit: companion
	$(PYTEST) -q -n $$(($(CORES) * 2)) --dist worksteal -m "not real and not long" tests/unit tests/contract # some only wait

simulate: $(STAMP) ## two minutes: the whole product against clusters, Spark and a clock that are simulated
	$(PYTEST) -q -n auto -m "not real and not long" tests/simulation

archives: java ## a minute or two, once: archive the classes of Kafka and Spark, so that tests and demo start them in half the time
	$(BIN)/python -m lab archive

test: check java prometheus browser archives ## 12 minutes: check, then the simulation beside one test of each promise on real brokers, Spark, PostgreSQL and Chromium
	$(MAKE) --no-print-directory -j 2 core beside

test-all test-long: export TIDEOVER_TESTS = all
test-all: check java prometheus browser archives ## most of an hour: every test but the long ones, on real parts and in the simulation
	$(MAKE) --no-print-directory -j 2 real beside

core:
	$(REAL) -m "core and not long" tests/real

real:
	$(REAL) -m "real and not long"

beside: # the real tests wait for most of their time, and go first where they do not
	nice $(MAKE) --no-print-directory --output-sync=target simulate

test-long: java ## hours: every long test; pages go to build/reports/COMMIT, make reports publishes
	TIDEOVER_FAULTS_REPORT=1 $(PYTEST) -m long --timeout 14400

test-matrix: ## the core of it on Spark 3.4.4, 3.5.7, 4.0.0 and 4.1.2, each in its own virtual environment
	conf/test-matrix 3.5.7 4.0.0 4.1.2
	conf/test-matrix 3.4.4 -- tests/real/test_companion.py tests/real/test_spark_builds.py tests/real/test_switch.py tests/real/test_hdfs.py tests/real/test_object_store.py tests/real/test_data_lake.py tests/real/test_cloud_storage.py tests/real/test_stores.py tests/real/test_same_offsets.py tests/real/test_msk.py tests/real/test_tokens.py tests/real/test_kerberos.py

bench: java ## measure us and the alternative side by side; writes build/bench/report.md
	$(BIN)/python -m bench --dir build/bench

wheel: companion ## build dist/tideover-VERSION-py3-none-any.whl (by way of the sdist: what lies in build/ gets into neither)
	@rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist

chaos: $(STAMP) ## faults in the compose environment, needs Docker: all, or SCENARIO=name, SECURED=1; writes build/chaos
	$(BIN)/python -m chaos run $(if $(SECURED),--secured --dir build/chaos-secured) $(SCENARIO)

chaos-soak: $(STAMP) ## random faults for MINUTES=30 with SEED=1 in the compose environment, then a failover
	$(BIN)/python -m chaos soak $(if $(SECURED),--secured --dir build/chaos-secured) --minutes $(MINUTES) --seed $(SEED)

reports: java ## two hours: the reports of one clean commit; ONLY=chaos,bench makes these, ONLY=all every one in 8 hours (RUNS=30)
	$(BIN)/python -m reports run --only "$(ONLY)" --runs "$(RUNS)"

docs: $(STAMP) ## print the page of verbs, the page of messages, the chapter on phases, the desk's runbook and the table of faults again
	$(BIN)/python -m orchestrator.cli.reference write docs
	$(BIN)/python -m tests.desk_runbook write
	$(BIN)/python -m tests.simulation.faults.table
	$(BIN)/python -m tests.simulation.restored write
	$(BIN)/python -m tests.support write
	$(BIN)/python -m tests.messages_page write

pictures: $(STAMP) java browser ## ten minutes: the pictures of docs/images, taken by Chromium of a real run
	$(BIN)/python -m tests.desk_pictures docs/images

recording: java ## two minutes: play the demo and write its recording, docs/images/demo.svg
	$(BIN)/python -m tests.demo_recording docs/images/demo.svg

site: $(SITE)/.installed ## the documentation as pages with a search, in build/site
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file conf/site/mkdocs.yml
	@echo "read it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site"

$(SITE)/.installed: conf/locks/site.lock
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r conf/locks/site.lock
	@touch $@

lock: ## make the lock files again (needs uv)
	@mkdir -p build; for version in 3.4.4 3.5.7 4.0.0 4.1.2 4.2.0; do \
	  echo "pyspark==$$version" > build/constraint.txt; \
	  $(COMPILE) pyproject.toml --extra dev --constraint build/constraint.txt -o conf/locks/pyspark-$$version.lock; done
	@echo "setuptools>=77" > build/image-build.in; printf "confluent-kafka\npyarrow\n" > build/image-lab.in
	@echo "mkdocs-material" > build/site.in; $(COMPILE) build/site.in -o conf/locks/site.lock
	@$(COMPILE) pyproject.toml --extra notify --extra otel --constraint $(LOCK) -o conf/locks/image.lock
	@for part in image-build image-lab; do \
	  $(COMPILE) build/$$part.in --constraint $(LOCK) -o conf/locks/$$part.lock; done

mutants: $(STAMP) ## an hour: mutants of verdict, gates, lease, fence, carry, resume, store and judges (SEED=1, COUNT=66)
	$(BIN)/python -m tests.mutants --seed $(SEED) --count $(COUNT)

clean: ## remove what was built (not the caches of jars)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache spark-warehouse

.PHONY: help setup java browser pictures recording site companion prometheus archives demo check lint types unit simulate test test-all core real beside test-long test-matrix bench wheel chaos chaos-soak reports docs lock mutants clean
