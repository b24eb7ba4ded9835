#!/usr/bin/env bash
# Chooses the newest version of every package that fits each supported TensorFlow, for all of its
# Pythons and all systems, and writes them with the checksums of their files to scripts/locked/: what
# setup.sh installs. Needs the network. Run all tests before you commit what it wrote.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/locked"

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9

# tensorflow-hub, which tensorflow-text 2.15 imports, brings a second Keras from 0.16 on.
CONSTRAINTS='tensorflow-hub<0.16'

# lock TENSORFLOW OLDEST_PYTHON INPUT OUTPUT [flags]
lock() {
    "$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version "$2" \
        --generate-hashes --no-annotate --no-emit-index-url \
        --custom-compile-command scripts/lock.sh --constraints <(printf 'tensorflow==%s\n%s\n' "$1" "$CONSTRAINTS") \
        "$3" --output-file "$4" "${@:5}"
}

# TensorFlow and the oldest Python of its list. The checks' packages are added to the programs'
# environment, so these are the versions of both.
while read -r tensorflow python; do
    list=${tensorflow%.*}
    lock "$tensorflow" "$python" ../../requirements-dev.txt "dev-$list.txt"
    lock "$tensorflow" "$python" programs.in "programs-$list.txt" --constraints "dev-$list.txt"
    echo "lock: $(grep -c == "dev-$list.txt") packages for TensorFlow $tensorflow"
done <<'END'
2.15.1 3.9
2.21.0 3.10
END
