#!/usr/bin/env bash
# Runs the quick tests in .venv, which is made first if need be (scripts/setup.sh: TENSORFLOW, PYTHON
# and VENV choose another); with --full all tests, also those marked `slow`, with the extras that some
# need (setup.sh --dev). One process for each core, at most four, runs a file at a time. Other arguments
# go to pytest.
set -euo pipefail
setup=() suite=(-m "not slow")
if [ "${1:-}" = --full ]; then
    setup=(--dev) suite=()
    shift
fi
"$(dirname "${BASH_SOURCE[0]}")/setup.sh" ${setup[@]+"${setup[@]}"}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
cores=$("$venv/bin/python" -c 'import os; print(min(len(os.sched_getaffinity(0)), 4))')
status=0
"$venv/bin/python" -m pytest -n "$cores" --dist loadfile ${suite[@]+"${suite[@]}"} "$@" ||
    status=$?
if [ ${#suite[@]} -gt 0 ]; then
    echo "run_tests.sh: this was the quick suite; for all tests: bash scripts/run_tests.sh --full"
fi
exit $status
