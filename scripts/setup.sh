#!/usr/bin/env bash
# Makes .venv in the repository root, with everything the programs and the tests need.
# Does nothing when that is done already. PYTHON=... chooses the Python. --dev adds what the checks
# of .ci/run need: linter, formatter, type checker, Apache Beam, tensorflow-text.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "$*" in
    ""|--dev) ;;
    *) echo "setup.sh: unknown argument '$*', expected nothing or --dev" >&2; exit 2 ;;
esac

VERSION='import sys; print("%d.%d" % sys.version_info[:2])'
STAMP=.venv/requirements.sha256
DEV_STAMP=.venv/requirements-dev.sha256

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

# One line for each package: the largest takes a minute or more.
install() {
    .venv/bin/python -m pip install --disable-pip-version-check "$@" |
        while IFS= read -r line; do
            case $line in
                Collecting*) echo "setup: ${line%% (from*}" >&2 ;;
                Installing*) echo "setup: installing" >&2 ;;
            esac
        done
}

# An environment is complete when its stamp is the checksum of what it was made from; one that was
# left half-made has no stamp and often no pip.
test_packages=('pytest>=7' 'pytest-xdist>=3' 'hypothesis>=6.100')
wanted=$( (cat requirements.txt; echo "${test_packages[@]}") | cksum)
if [ "$(cat "$STAMP" 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
    install -r requirements.txt "${test_packages[@]}"
    echo "$wanted" > "$STAMP"
fi

wanted=$(cat requirements.txt requirements-dev.txt | cksum)
if [ "${1:-}" = --dev ] && [ "$(cat "$DEV_STAMP" 2>/dev/null)" != "$wanted" ]; then
    install -r requirements-dev.txt
    echo "$wanted" > "$DEV_STAMP"
fi
