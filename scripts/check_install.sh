#!/usr/bin/env bash
# Tries the package as strangers install it: builds the source distribution, and the wheel from it,
# and for each Python installs the wheel with the lowest versions that requirements.txt and the extras
# allow, then with the newest, and runs the smoke suite (tests/smoke.txt) of the source distribution
# against it. scripts/locked/ plays no part. Needs the network, uv's Pythons or those on PATH.
#
#   bash scripts/check_install.sh                 all Pythons, lowest and newest
#   bash scripts/check_install.sh 3.9 3.13        these Pythons
#   VERSIONS=lowest bash scripts/check_install.sh 3.9
#
# WORK=DIRECTORY keeps what was made there; pytest reads PYTEST_ADDOPTS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pythons=("${@:-3.9 3.10 3.11 3.12 3.13}")
read -ra pythons <<< "${pythons[*]}"
read -ra versions <<< "${VERSIONS:-lowest newest}"
for each in "${versions[@]}"; do
    case $each in
        lowest | newest) ;;
        *) echo "check_install.sh: VERSIONS has '$each', expected lowest, newest or both" >&2; exit 2 ;;
    esac
done
if [ -n "${WORK:-}" ]; then
    mkdir -p "$WORK"
    work=$(cd "$WORK" && pwd)
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

"${PYTHON:-python3}" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet --disable-pip-version-check \
    uv==0.13.9 build==1.3.0 twine==6.2.0
uv=$work/tools/bin/uv

# Without --wheel or --sdist the wheel is built from the source distribution: what is missing there is
# missing here, too.
rm -rf "$work/dist" "$work/source"
"$work/tools/bin/python" -m build --outdir "$work/dist" . > "$work/build.log" 2>&1 || {
    cat "$work/build.log" >&2
    exit 1
}
"$work/tools/bin/python" -m twine check --strict "$work"/dist/*
mkdir "$work/source"
tar -xzf "$work"/dist/*.tar.gz --strip-components=1 -C "$work/source"
# Without the library in it, the tests use the one that is installed.
rm -r "$work/source/xlnet"
wheel=$(echo "$work"/dist/*.whl)

# The requirements of the wheel as requirements of their own: the lowest versions are chosen of those
# that are asked for directly, not of what they need.
extras='serve|parquet|tensorboard|test'
sed -nE 's/^Requires-Dist: //p' "$work/source/PKG-INFO" |
    sed -E "s/(;| and) extra == \"($extras)\"\$//" | grep -v 'extra ==' > "$work/requirements.txt"

failed=()
for python in "${pythons[@]}"; do
    for each in "${versions[@]}"; do
        name="Python $python, $each versions"
        echo "== $name"
        environment=$work/$python-$each
        resolution=highest
        [ "$each" = newest ] || resolution=lowest-direct
        # Only wheels: an old NumPy would otherwise be built for a Python that it does not know.
        if "$uv" venv --quiet --clear --python "$python" "$environment" &&
            "$uv" pip install --quiet --python "$environment" --resolution "$resolution" \
                --only-binary :all: "$wheel" --requirements "$work/requirements.txt" &&
            "$uv" pip check --quiet --python "$environment"; then
            "$uv" pip freeze --python "$environment" > "$work/$python-$each.txt"
            grep -E "^(tensorflow|numpy|scipy|scikit-learn|keras)==" "$work/$python-$each.txt" |
                tr '\n' ' '
            echo
        else
            failed+=("$name: not installed")
            continue
        fi
        (cd "$work/source" && PATH=$environment/bin:$PATH \
            "$environment/bin/python" -m pytest -q @tests/smoke.txt) || failed+=("$name: tests")
    done
done
for each in ${failed[@]+"${failed[@]}"}; do
    echo "check_install.sh: $each failed, see above" >&2
done
[ ${#failed[@]} = 0 ]
