#!/usr/bin/env bash
# Runs the tests in .venv, which is made first if need be. Arguments go to pytest.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec .venv/bin/python -m pytest "$@"
