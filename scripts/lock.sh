#!/usr/bin/env bash
# Chooses the version of every package anew, the newest that go together, for Python 3.9 to 3.11 and
# all systems, and writes them with the checksums of their files to scripts/locked/: what setup.sh
# installs. Needs the network. Run all tests before you commit what it wrote.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/locked"

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9

# lock INPUT OUTPUT [flags]
lock() {
    "$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.9 \
        --generate-hashes --no-annotate --no-emit-index-url \
        --custom-compile-command scripts/lock.sh "$@"
}

# The checks' packages are added to the programs' environment, so these are the versions of both.
lock ../../requirements-dev.txt --output-file dev.txt
lock programs.in --constraints dev.txt --output-file programs.txt
echo "lock: $(grep -c == dev.txt) packages in scripts/locked/"
