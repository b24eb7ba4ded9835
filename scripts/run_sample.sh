#!/usr/bin/env bash
# The whole road on the embedded sample, in .venv, which is made first if need be.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec .venv/bin/python scripts/run_sample.py "$@"
