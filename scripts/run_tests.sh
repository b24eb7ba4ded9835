#!/usr/bin/env bash
# Runs the quick tests in .venv, which is made first if need be (scripts/setup.sh: TENSORFLOW, PYTHON
# and VENV choose another); with --full all tests, also those marked `slow`. Each of some processes, one
# more than there are cores, runs a file at a time, as tests wait for others that they start. Other
# arguments go to pytest.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
cores=$("$venv/bin/python" -c 'import os; print(min(len(os.sched_getaffinity(0)), 3))')
run=("$venv/bin/python" -m pytest -n $((cores + 1)) --dist loadfile)
if [ "${1:-}" = --full ]; then
    exec "${run[@]}" "${@:2}"
fi
status=0
"${run[@]}" -m "not slow" "$@" || status=$?
echo "run_tests.sh: this was the quick suite; for all tests: bash scripts/run_tests.sh --full"
exit $status
