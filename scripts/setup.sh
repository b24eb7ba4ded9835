#!/usr/bin/env bash
# Makes .venv in the repository root, with everything the programs and the tests need: the packages
# of scripts/locked/, which scripts/lock.sh writes, each compared with its checksum, and the library
# itself as it is in this clone (editable). Does nothing when that is done already. --dev adds what the checks
# of .ci/run need: linter, formatter, type checker, Apache Beam, tensorflow-text.
#
# TENSORFLOW=2.15 or 2.21 chooses the TensorFlow; without it, that of .venv stays, and a new .venv
# gets the newest. PYTHON=... chooses the Python of a new .venv; without it, that is the newest that
# fits. VENV=... is another directory than .venv. Status 4: no Python fits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}

case "$*" in
    ""|--dev) ;;
    *) echo "setup.sh: unknown argument '$*', expected nothing or --dev" >&2; exit 2 ;;
esac

PYTHONS_2_21="3.13 3.12 3.11 3.10"
PYTHONS_2_15="3.11 3.10 3.9"
case "${TENSORFLOW:-}" in
    "") pythons="$PYTHONS_2_21 3.9" ;;
    2.21) pythons=$PYTHONS_2_21 ;;
    2.15) pythons=$PYTHONS_2_15 ;;
    *) echo "setup.sh: TENSORFLOW is '$TENSORFLOW', expected 2.15 or 2.21" >&2; exit 2 ;;
esac

VERSION='import sys; print("%d.%d" % sys.version_info[:2])'
# An environment that was left half-made often has no pip, or no TensorFlow.
INSTALLED='import importlib.metadata, pip
print(*importlib.metadata.version("tensorflow").split(".")[:2], sep=".")'

# Prints the newest Python that fits. A name on PATH may be a shim that fails, so each is run, not
# just looked up.
find_python() {
    local candidate version found=""
    local candidates
    read -ra candidates <<< "${pythons// 3./ python3.} python3 python"
    candidates[0]=python${candidates[0]}
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        version=$("$candidate" -c "$VERSION" 2>/dev/null) || continue
        case " $pythons " in
            *" $version "*) echo "$candidate"; return ;;
        esac
        found="$found $candidate ($version)"
    done
    echo "setup.sh: TensorFlow ${TENSORFLOW:-2.15 to 2.21} needs Python ${pythons##* } to" \
        "${pythons%% *}; found:${found:- none}; get one (uv python install ${pythons%% *}, conda," \
        "pyenv) or set PYTHON=/path/to/python" >&2
    return 4
}

make_venv() {
    local python
    python=$(find_python)
    echo "setup: making $venv with $python" >&2
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        rm -rf "$venv"
        echo "setup.sh: $python cannot make a virtual environment; install its venv package" \
            "(Debian, Ubuntu: apt-get install python3-venv) or set PYTHON=/path/to/python" >&2
        return 1
    fi
}

# Installs what a locked list has, unless a stamp says that this was done: its checksum, kept at the
# end, so that an environment left half-made has none. One line for each package: the largest takes a
# minute or more.
install() {
    local locked=scripts/locked/$1-$tensorflow.txt stamp=$venv/$1.cksum
    cmp -s <(cksum < "$locked") "$stamp" && return
    "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$locked" |
        while IFS= read -r line; do
            case $line in
                Collecting*) echo "setup: ${line%% (from*}" >&2 ;;
                Installing*) echo "setup: installing" >&2 ;;
            esac
        done
    cksum < "$locked" > "$stamp"
}

tensorflow=$("$venv/bin/python" -c "$INSTALLED" 2>/dev/null) || tensorflow=""
if [ ! -f "scripts/locked/programs-$tensorflow.txt" ] ||
        [ "$tensorflow" != "${TENSORFLOW:-$tensorflow}" ]; then
    make_venv
    tensorflow=${TENSORFLOW:-2.21}
    [ "$("$venv/bin/python" -c "$VERSION")" != 3.9 ] || tensorflow=2.15
fi
install programs
if [ "${1:-}" = --dev ]; then
    install dev
fi

# The library itself, as `pip install --editable` without its requirements: `import xlnet` and the
# command `xlnet` from everywhere, and the metadata that importlib.metadata reads. In the mode
# "compat" it is a plain path, which type checkers and editors follow, too. Done again where the
# metadata may have changed, or the clone has moved.
install_project() {
    local stamp=$venv/project.cksum now
    now="$(pwd) $(cat pyproject.toml requirements.txt xlnet/__init__.py | cksum)"
    [ "$now" != "$(cat "$stamp" 2>/dev/null)" ] && [ -w "$venv" ] || return 0
    echo "setup: installing this clone" >&2
    rm -f "$venv"/lib/python*/site-packages/xlnet.pth     # what earlier versions wrote
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
        --no-build-isolation --config-settings editable_mode=compat --editable .
    echo "$now" > "$stamp"
}
install_project
