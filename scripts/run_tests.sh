#!/usr/bin/env bash
# Runs the tests in .venv, which is made first if need be, a file at a time on each core. Arguments
# go to pytest.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec .venv/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile "$@"
