"""The laws of `hostile`, with draws that atheris steers into code that no draw has been in yet.

    python tests/helpers/coverage.py LAW SECONDS

tries one, as `try_for` does with each: atheris takes over its process, and ends it.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

_RUNS, _COVERED = re.compile(r"^Done (\d+) runs in", re.M), re.compile(r"DONE\s+cov: (\d+)")


def try_for(seconds, names):
    """Tries each law for its share of the time; prints what was tried, returns how many laws were
    broken."""
    broken = 0
    for name in names:
        began = time.time()
        with tempfile.TemporaryDirectory() as folder:     # libFuzzer leaves what broke the law
            done = subprocess.run(
                [sys.executable, os.path.abspath(__file__), name, str(int(seconds / len(names)))],
                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="backslashreplace")
        runs, covered = (pattern.search(done.stdout) for pattern in (_RUNS, _COVERED))
        is_broken = done.returncode != 0 or not runs or not covered
        broken += is_broken
        if is_broken:
            print("BROKEN", name, done.stdout[-4000:], sep="\n")
        print("| %s | %s | %s | %s | %.0f s |" % (
            name, *(match[1] if match else "?" for match in (runs, covered)),
            "broken" if is_broken else "holds", time.time() - began), flush=True)
    return broken


def main():
    name, seconds = sys.argv[1:]
    tests = pathlib.Path(__file__).resolve().parent.parent
    sys.path[:0] = [str(tests), str(tests.parent)]
    import atheris
    with atheris.instrument_imports(include=["xlnet"]):
        from helpers import hostile
    draws = hostile.draws(name, hostile.Place(), examples=1)
    atheris.Setup([name, "-max_total_time=" + seconds, "-seed=1", "-max_len=4096", "-timeout=60",
                   "-rss_limit_mb=2048", "-verbosity=1"], draws.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
