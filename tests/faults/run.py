"""The fault tests in full: `python tests/faults/run.py damage`, `killed`, `disks`, `folders` or
`clocks`.

damage: --count mutations, spread over all subjects of `helpers.subjects` (or --only one), from
  --seed on. The others: each program of `helpers.programs` (or --only those of such a name) is
  disturbed --times (`helpers.trials`): killed, on a disk that is too small, in a folder that
  vanishes, by a clock that jumps. --at_calls: at a call about files, not at a random time; with
  --times=0 once at each place of the library that makes such calls (not for several hosts, of
  which one would hold up the others).

Prints what was tried and the outcomes; the exit status is 1 if something was found.
"""

import argparse
import collections
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent), str(TESTS.parent / "scripts")]


def damage(arguments):
    """Prints a line for each subject; returns how many cases were found to be wrong."""
    from helpers import damage
    from helpers.subjects import SUBJECTS
    names = chosen(arguments.only, [subject.name for subject in SUBJECTS])
    total, wrong = collections.Counter(), 0
    for subject in SUBJECTS:
        if subject.name not in names:
            continue
        began = time.time()
        with tempfile.TemporaryDirectory() as folder:
            laboratory = damage.Laboratory(subject, pathlib.Path(folder) / "made", arguments.seed)
            counts = collections.Counter()
            for outcome in damage.try_cases(laboratory, laboratory.cases(
                    -(-arguments.count // len(names))), subject.is_native):
                counts[outcome.what] += 1
                if outcome.what not in damage.GOOD:
                    wrong += 1
                    print("WRONG %s %s" % (outcome.case, outcome.file), outcome.what,
                          outcome.detail[-2000:], sep="\n  ", flush=True)
        total.update(counts)
        print("| %s | %d | %s | %.0f s |" % (subject.name, sum(counts.values()), ", ".join(
            "%s %d" % item for item in counts.most_common()), time.time() - began), flush=True)
    print("| all | %d | %s |" % (sum(total.values()), ", ".join(
        "%s %d" % item for item in total.most_common())))
    return wrong


def trials(arguments):
    from helpers import programs, trials
    names = chosen(arguments.only, [program.name for program in programs.PROGRAMS
                                    if program.hosts == 1 or not arguments.at_calls])
    return trials.try_all(trials.KINDS[arguments.what], names, arguments.times, arguments.seed,
                          arguments.at_calls)


def chosen(only, names):
    """Those of the names that --only means: the one that it is, or all that it is a part of."""
    found = [name for name in names if name == only] or [
        name for name in names if not only or only in name]
    return found or sys.exit("run.py: --only=%s: expected a part of one of: %s" % (
        only, ", ".join(names)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("damage", "killed", "disks", "folders", "clocks"))
    parser.add_argument("--count", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--at_calls", action="store_true")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    if arguments.at_calls and arguments.what not in ("killed", "disks", "folders"):
        parser.error("--at_calls is for killed, disks and folders")
    if not arguments.times and not arguments.at_calls:
        parser.error("--times=0 is for --at_calls")
    sys.exit(bool((damage if arguments.what == "damage" else trials)(arguments)))


if __name__ == "__main__":
    main()
