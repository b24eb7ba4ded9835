#!/usr/bin/env bash
# Runs the tests in .venv, which is made first if need be (scripts/setup.sh: TENSORFLOW, PYTHON and VENV
# choose another): a file at a time in each of some processes, one more than there are cores, as tests
# wait for others that they start. Arguments go to pytest.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
cores=$("$venv/bin/python" -c 'import os; print(min(len(os.sched_getaffinity(0)), 3))')
exec "$venv/bin/python" -m pytest -n $((cores + 1)) --dist loadfile "$@"
