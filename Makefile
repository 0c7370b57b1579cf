# Pinion: the commands. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)

.PHONY: help env
help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

env:  ## make or refresh .venv from the hashed lock files
	@$(PYTHON) tools/python_env.py --venv .venv
