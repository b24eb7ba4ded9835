"""Killed programs in full: `python tests/faults/run.py`.

Each program of `helpers.programs` (or --only those of such a name) is killed --times
(`helpers.trials`). --at_calls: at a call about files, not at a random time; with --times=0 once at
each place of the library that makes such calls (not for several hosts, of which one would hold up
the others).

Prints what was tried and the outcomes; the exit status is 1 if something was found.
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent), str(TESTS.parent / "scripts")]


def main():
    from helpers import programs, trials

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--at_calls", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    if not arguments.times and not arguments.at_calls:
        parser.error("--times=0 is for --at_calls")
    names = [
        program.name
        for program in programs.PROGRAMS
        if program.hosts == 1 or not arguments.at_calls
    ]
    chosen = [name for name in names if name == arguments.only] or [
        name for name in names if arguments.only in name
    ]
    if not chosen:
        parser.error(
            "--only={}: expected a part of one of: {}".format(
                arguments.only, ", ".join(names)
            )
        )
    sys.exit(
        bool(
            trials.try_all(chosen, arguments.times, arguments.seed, arguments.at_calls)
        )
    )


if __name__ == "__main__":
    main()
