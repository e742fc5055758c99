# Every target works on a fresh Debian 12 with: make git python3 python3-venv ca-certificates
# The distribution's interpreter is built with profile-guided optimisation: a CreateContainer takes 13 % less time than with
# an interpreter built without (make bench, medians of three runs side by side). PYTHON=… overrides.
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Tests that read the tree's own files: language, sizes, names, and the tests that documents name.
FORM   := $(addprefix tests/unit/test_,$(addsuffix .py,assertions class_sizes faults_table layout module_sizes \
          plain_english positional_records security_doc test_names wall_clock))

# Empty is not set. Without bytecode files an interpreter compiles the daemon at each start, a quarter of a second of CPU
# time, and a test run starts a thousand interpreters.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup run test test-fast test-all test-vm test-cluster cluster cluster-down soak soak-pushes soak-cluster soak-pressure check check-code check-fuzz bench bench-hook bench-colocation lock generate

setup: $(STAMP)

$(STAMP): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV): about half a minute."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

run: setup
	$(BIN)/nri-coloc demo

# CI runs both parts at once: make -j2 --output-sync check
check: check-code check-fuzz

check-code: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python api/generate.py --check
	$(BIN)/python -m pytest -q $(FORM)

check-fuzz: setup
	$(BIN)/python -m pytest -q tests/fuzz --fuzz-inputs=100000

# Pure and simulated tests, two minutes on two CPUs. The tiers are in tests/tiers.py.
test-fast: setup
	$(BIN)/python -m pytest --tier=fast $(ARGS)

# Adds the newest containerd on this machine, as root: 16 minutes on two CPUs.
test: setup
	$(BIN)/python -m pytest --tier=test $(ARGS)

# Every test: adds the other containerd, every NRI version, emulated machines and a real Kubernetes node, as root.
test-all: setup
	$(BIN)/python -m pytest --tier=all $(ARGS)

# The emulated machines alone. One scenario: make test-vm ARGS="-k numa"
test-vm: setup
	$(BIN)/python -m pytest tests/vm $(ARGS)

# A real Kubernetes node, as root: compiles kubelet and control plane the first time (half an hour for each pair of versions).
# One scenario: make test-cluster ARGS="-k 'test_drain and 1.35'". All combinations of versions: make test-cluster MATRIX=full
test-cluster: setup
	MATRIX=$(MATRIX) $(BIN)/python -m pytest tests/cluster --ignore-glob='tests/cluster/test_soak*.py' $(ARGS)

# A real Kubernetes node to try things on, as root: it stays until make cluster-down. kubeconfig: build/cluster/kubeconfig
cluster: setup
	$(BIN)/python -m tests.cluster up

# Also removes the leftovers of a killed test run.
cluster-down: setup
	$(BIN)/python -m tests.cluster down

# An hour of pods that come and go, as root. Figures: build/soak.json
soak: setup
	$(BIN)/python -m pytest tests/soak/test_soak.py --soak-seconds=3600 $(ARGS)

# Ten thousand pushes beside containers that come and go, on each containerd, as root. Figures: build/pushes.json
soak-pushes: setup
	$(BIN)/python -m pytest tests/soak/test_pushes.py --pushes=10000 $(ARGS)

# Ten idle minutes of a real Kubernetes node, the pace of sixty pods with and without the plugin, restarts in many orders, and
# tokens that the kubelet renews, as root. The restarts alone: make soak-cluster ARGS="-k restarts"
soak-cluster: setup
	$(BIN)/python -m pytest tests/cluster/test_soak*.py $(ARGS)

# A reclaimed pod that saturates the disk is limited and set free, on an idle machine, as root: a minute.
soak-pressure: setup
	$(BIN)/python -m pytest tests/containerd/test_pressure.py $(ARGS)

bench: setup
	$(BIN)/python -m benchmarks

# The daemon beside the official Go stub, both called by the official Go adaptation, in one run.
bench-hook: setup
	$(BIN)/python -m benchmarks side-by-side

# A real server beside offline work: alone, with a plain kubelet, and with the plugin: five minutes, as root.
# Longer: make bench-colocation ARGS="--rounds 3 --seconds 20 --work busy"
bench-colocation: setup
	$(BIN)/python -m benchmarks colocation $(ARGS)

# Re-pins the dependencies; the lock files name no registry.
lock: setup
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header -o requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --extra dev -o requirements-dev.lock pyproject.toml

generate: setup
	$(BIN)/python api/generate.py
