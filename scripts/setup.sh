#!/usr/bin/env bash
# Makes .venv in the repository root, with everything the programs and the tests need.
# Does nothing when that is done already. PYTHON=... chooses the Python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION='import sys; print("%d.%d" % sys.version_info[:2])'

# Prints the first Python that runs and that TensorFlow 2.15 has packages for. A name on PATH may
# be a shim that fails, so each is run, not just looked up.
find_python() {
    local candidate version found=""
    for candidate in ${PYTHON:-python3.11 python3.10 python3.9 python3 python}; do
        version=$("$candidate" -c "$VERSION" 2>/dev/null) || continue
        case $version in
            3.9|3.10|3.11) echo "$candidate"; return ;;
        esac
        found="$found $candidate=$version"
    done
    echo "setup.sh: TensorFlow 2.15 needs Python 3.9, 3.10 or 3.11; found:${found:- none}" \
        "(set PYTHON=/path/to/python)" >&2
    return 1
}

make_venv() {
    local python
    python=$(find_python)
    echo "setup: making .venv with $("$python" --version)" >&2
    # Made under another name first: a half-made .venv would be taken for a whole one.
    rm -rf .venv.partial
    if ! "$python" -m venv .venv.partial >/dev/null 2>&1; then
        rm -rf .venv.partial
        echo "setup.sh: $python cannot make a virtual environment; install its venv package" \
            "(Debian, Ubuntu: apt-get install python3-venv) or set PYTHON=/path/to/python" >&2
        return 1
    fi
    mv .venv.partial .venv
}

[ -x .venv/bin/python ] || { rm -rf .venv; make_venv; }

# An environment is complete when its stamp is the checksum of what it was made from.
wanted=$(.venv/bin/python -c 'import hashlib
print(hashlib.sha256(open("requirements.txt", "rb").read() + b"pytest>=7").hexdigest())')
if [ "$(cat .venv/requirements.sha256 2>/dev/null || true)" != "$wanted" ]; then
    echo "setup: installing the packages of requirements.txt and pytest (some minutes)" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        -r requirements.txt 'pytest>=7'
    echo "$wanted" > .venv/requirements.sha256
fi
