# Pinion: the commands. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Debian's own interpreter first: an interpreter of a version manager may lack venv or be another version in each folder.
PYTHON = $(firstword $(wildcard /usr/bin/python3) python3)
SITE ?= lab
# What `up` cannot do without; the rest is obtained by whoever asks for it (tools/obtain.py NAME waits for one tool).
UP_TOOLS := pulumi etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy helm kubectl step-ca
# More options for pytest: make test PYTEST='-m "not lab" -x'
PYTEST ?=
# What needs no rack comes first, and waits more than it works; then what has a rack, a NetBox or an API server of its own.
QUICK_TESTS := tests/unit tests/errors tests/golden
QUICK_WORKERS := 4
WORKERS := 3
RUN := bin/pinion-env

.PHONY: help up down test image-packages test-vm lint lint-ruff lint-types lint-imports lint-yaml lint-ansible lint-charts lock env host bootstrap tools shell clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

up: host env  ## the rack in a box, from nothing to the report (as root; SITE=lab)
	@$(PYTHON) tools/obtain.py $(UP_TOOLS) & builder=$$!; trap 'kill $$builder 2>/dev/null' EXIT; \
	$(RUN) pinion up $(SITE) || exit $$?; wait $$builder

down: env  ## take it down; leaves no process, mount, namespace or link (SITE=lab)
	@$(RUN) pinion down $(SITE)

test: host image-packages env tools  ## all tests, in a lab instance of their own (PYTEST='-k name' for some)
ifdef PYTEST
	@$(RUN) python -m pytest -rs $(PYTEST)
else
	@failed=0; \
	$(RUN) python -m pytest -rs -q -n $(QUICK_WORKERS) --dist loadscope --durations=10 $(QUICK_TESTS) || failed=1; \
	$(RUN) python -m pytest -rs -v -n $(WORKERS) --dist loadscope --durations=25 $(addprefix --ignore=,$(QUICK_TESTS)) || failed=1; \
	exit $$failed
endif

test-vm: host env  ## builds the Pis' image and starts it under emulation (as root; half an hour)
	@CI_FULL=1 $(RUN) python -m pytest -rs -v -m vm tests/image $(PYTEST)

lint: env  ## ruff, mypy, import-linter, yamllint, ansible-lint, helm lint; all of them even when one fails
	@$(MAKE) --no-print-directory --keep-going lint-ruff lint-types lint-imports lint-yaml lint-ansible lint-charts

lint-ruff:
	@echo "lint: ruff" && .venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check .

lint-types:
	@echo "lint: mypy" && .venv/bin/mypy --no-error-summary

lint-imports:
	@echo "lint: import-linter" && PATH=$(CURDIR)/.venv/bin:$$PATH .venv/bin/lint-imports --no-logo

lint-yaml:
	@echo "lint: yamllint" && .venv/bin/yamllint --strict .

# ansible-lint looks for its siblings on PATH; offline: no Galaxy.
lint-ansible:
	@echo "lint: ansible-lint"; set -- $(wildcard playbooks roles); \
	if (($$#)); then $(RUN) .venv/bin/ansible-lint --offline --strict -q "$$@"; fi

lint-charts:
	@echo "lint: helm"; set -- $(dir $(wildcard charts/*/Chart.yaml)); \
	if (($$#)); then $(PYTHON) tools/obtain.py helm >/dev/null && $(RUN) helm lint --strict --quiet "$$@"; fi

lock:  ## compile requirements/*.in into the hashed lock files, then env (UPGRADE=1: newest versions)
	@test -x .venv/bin/uv || $(MAKE) --no-print-directory env
	@.venv/bin/python tools/lock.py $(if $(UPGRADE),--upgrade)
	@$(MAKE) --no-print-directory env

env: bootstrap  ## make or refresh .venv from the lock files
	@$(PYTHON) tools/python_env.py --venv .venv

tools: bootstrap  ## obtain the outside programs (the first time may build for 20 minutes)
	@$(PYTHON) tools/obtain.py

image-packages: bootstrap
	@$(PYTHON) tools/obtain.py debian --packages tools/image-packages.txt

host: bootstrap  ## install the Debian packages that the host lacks (as root)
	@$(PYTHON) tools/obtain.py debian

bootstrap:
	@bash tools/bootstrap.sh

shell: env  ## a shell at the lab's management host, where pulumi, ansible-playbook and kubectl work (SITE=lab)
	@$(RUN) pinion lab exec --site $(SITE) -- bash

clean:  ## remove .venv and what tests and linters left; tools, images and state stay
	rm -rf .venv .venv.lock build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .ansible src/*.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
