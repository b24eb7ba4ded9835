# What to type, as `make help` lists it. Each line is one script, which says more.
.PHONY: help setup test test-all lint docs sample

help:        ## show these lines
	@sed -nE 's/^([a-z-]+): +## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup:       ## make .venv with everything that checks need
	bash scripts/setup.sh --dev

test:        ## run the quick tests, two minutes
	bash scripts/run_tests.sh

test-all:    ## run all that a change must pass, half an hour
	.ci/run

lint:        ## linter, formatter, types
	.venv/bin/ruff check
	.venv/bin/ruff format
	.venv/bin/python -m mypy

docs:        ## build the site of the documents in site/
	.venv/bin/mkdocs build --strict

sample:      ## run the sample, from text to predictions, five minutes
	bash scripts/run_sample.sh
