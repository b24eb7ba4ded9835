#!/usr/bin/env bash
# Makes .venv in the repository root, with everything the programs and the tests need: the packages of
# scripts/locked/, which scripts/lock.sh writes, each compared with its checksum.
# Does nothing when that is done already. PYTHON=... chooses the Python. --dev adds what the checks
# of .ci/run need: linter, formatter, type checker, Apache Beam, tensorflow-text.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "$*" in
    ""|--dev) ;;
    *) echo "setup.sh: unknown argument '$*', expected nothing or --dev" >&2; exit 2 ;;
esac

VERSION='import sys; print("%d.%d" % sys.version_info[:2])'

# Prints the first Python that runs and that TensorFlow 2.15 has packages for. A name on PATH may
# be a shim that fails, so each is run, not just looked up.
find_python() {
    local candidate version found=""
    local candidates=(python3.11 python3.10 python3.9 python3 python)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        version=$("$candidate" -c "$VERSION" 2>/dev/null) || continue
        case $version in
            3.9|3.10|3.11) echo "$candidate"; return ;;
        esac
        found="$found $candidate ($version)"
    done
    echo "setup.sh: TensorFlow 2.15 needs Python 3.9, 3.10 or 3.11; found:${found:- none};" \
        "set PYTHON=/path/to/python" >&2
    return 1
}

make_venv() {
    local python
    python=$(find_python)
    echo "setup: making .venv with $python" >&2
    rm -rf .venv
    if ! "$python" -m venv .venv >/dev/null 2>&1; then
        rm -rf .venv
        echo "setup.sh: $python cannot make a virtual environment; install its venv package" \
            "(Debian, Ubuntu: apt-get install python3-venv) or set PYTHON=/path/to/python" >&2
        return 1
    fi
}

# Installs what a locked list has, unless a stamp says that this was done: its checksum, kept at the
# end, so that an environment left half-made has none. One line for each package: the largest takes a
# minute or more.
install() {
    local locked=scripts/locked/$1.txt stamp=.venv/$1.cksum
    cmp -s <(cksum < "$locked") "$stamp" && return
    .venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r "$locked" |
        while IFS= read -r line; do
            case $line in
                Collecting*) echo "setup: ${line%% (from*}" >&2 ;;
                Installing*) echo "setup: installing" >&2 ;;
            esac
        done
    cksum < "$locked" > "$stamp"
}

# An environment that was left half-made often has no pip.
.venv/bin/python -c 'import pip' 2>/dev/null || make_venv
install programs
if [ "${1:-}" = --dev ]; then
    install dev
fi
