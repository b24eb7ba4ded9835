"""The fault tests in full: `python tests/faults/run.py damage`, `text`, `coverage`, `killed`,
`disks`, `folders`, `slow`, `clocks`, `twice` or `long`.

damage: --count mutations, spread over all subjects of `helpers.subjects` (or --only one), from
  --seed on. text: the laws of `test_hostile_text.py` for --minutes; coverage: the same by atheris,
  which has to be installed. long: --share of each long run of `helpers.long_runs` (or of --only
  one), pictures to --pictures. The others: each program of `helpers.programs` (or --only those of
  such a name) is disturbed --times (`helpers.trials`): killed, on a disk that is too small, in a
  folder that vanishes, in one that answers late, by a clock that jumps; or just started again.

Prints what was tried and what came of it; the exit status is 1 where something was found.
"""

import argparse
import collections
import importlib.util
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
    chosen = [subject for subject in SUBJECTS if arguments.only in (None, subject.name)]
    total, wrong = collections.Counter(), 0
    for subject in chosen:
        began = time.time()
        with tempfile.TemporaryDirectory() as folder:
            laboratory = damage.Laboratory(subject, pathlib.Path(folder) / "made", arguments.seed)
            counts = collections.Counter()
            for outcome in damage.try_cases(laboratory, laboratory.cases(
                    -(-arguments.count // len(chosen))), subject.is_native):
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


def text(arguments):
    """Tries the laws in turn, each time with as many examples, until the time is over."""
    from helpers import hostile
    return hostile.try_for(60 * arguments.minutes, arguments.only)


def coverage(arguments):
    """The same laws, for a share of the time each, with draws that atheris chooses."""
    from helpers import coverage
    if not importlib.util.find_spec("atheris"):
        sys.exit("run.py: coverage needs atheris, which is not installed; pip install atheris")
    return coverage.try_for(60 * arguments.minutes, arguments.only)


def trials(arguments):
    from helpers import trials
    return trials.try_all(trials.KINDS[arguments.what], arguments.times, arguments.seed,
                          arguments.only)


def long(arguments):
    from helpers import long_runs
    return long_runs.try_all(arguments.only, arguments.share, arguments.pictures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=(
        "damage", "text", "coverage", "killed", "disks", "folders", "slow", "clocks", "twice",
        "long"))
    parser.add_argument("--count", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--share", type=float, default=1)
    parser.add_argument("--pictures", default="long_runs")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    try_it = {"damage": damage, "text": text, "coverage": coverage, "long": long}.get(
        arguments.what, trials)
    sys.exit(bool(try_it(arguments)))


if __name__ == "__main__":
    main()
