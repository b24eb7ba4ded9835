"""Long runs: growth of memory, open files, threads and the time of a step after the first tenth."""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from helpers import command, finetuning, pretraining
from helpers.paths import ROOT

MEASURES = {"mib": "resident memory [MiB]", "files": "open files", "threads": "threads",
            "ms": "time of a step [ms]"}
Sample = collections.namedtuple("Sample", ("done", *MEASURES))
Slope = collections.namedtuple("Slope", "mean growth error")     # of all samples but the first

_BLOCKS = 20             # neighbouring samples depend on each other: means of blocks are used
_LARGEST = 0.02          # growth allowed, as a fraction of the mean
_TENTH = 0.1


# ---- the runs

def training(folder, steps):
    """A micro network that is evaluated and saved every 200 steps; yields `Sample`s."""
    pretraining.make_place(folder)
    yield from _trained(folder, "m", steps)


def _trained(place, model_dir, steps):
    return watched(pretraining.start(
        place, model_dir, {"PYTHONUNBUFFERED": "1"}, train_steps=steps, save_steps=200, max_save=2,
        log_steps=200, eval_steps=200, eval_record_info_dir=place / "heldout", n_layer=1,
        warmup_steps=100, learning_rate=1e-3))


def epochs(folder, steps):
    """The same over a large text, without evaluations."""
    place = pretraining.make_place(folder)
    lines = (place / "train.txt").read_text()
    with open(place / "large.txt", "w", encoding="utf-8") as f:
        while f.tell() < 100e6:
            f.write(lines)
    command.succeed("data_utils.py", input_glob=place / "large.txt", save_dir=place / "large",
                    sp_path=place / "sp.model", seq_len=512, reuse_len=256, num_streams=64)
    yield from watched(pretraining.start(
        place, "m", {"PYTHONUNBUFFERED": "1"}, record_info_dir=place / "large", n_layer=1,
        train_batch_size=64, perm_size=256, num_predict=85, train_steps=steps, log_steps=50,
        save_steps=1000, max_save=2))


_ASK = """
import sys, xlnet
model = xlnet.load(sys.argv[1])
count = int(sys.argv[2])
for number in range(count):
    model.classify([("kamat %d" % number, "telok rokmi " * (1 + number % 9))])
    if (number + 1) % (count // 100) == 0:
        print("step %d/%d" % (number + 1, count), flush=True)
"""


def predictions(folder, count):
    """Predictions of a loaded model, one text after another."""
    finetuning.make_workspace(folder).succeed("--do_train=True")
    yield from watched(subprocess.Popen(
        [sys.executable, "-c", _ASK, str(folder / "model"), str(count)], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT))


RUNS = {"training": (training, 20000), "epochs": (epochs, 7500),
        "predictions": (predictions, 20000)}


def watched(process):
    """Yields a `Sample` for each line of a process that counts steps."""
    printed, before = [], (0, time.monotonic())
    for line in process.stdout:
        printed.append(line)
        found = re.match(r"step +(\d+)/", line)
        if found:
            done, now = int(found[1]), time.monotonic()
            yield Sample(done, *_taken(process.pid), 1000 * (now - before[1]) / (done - before[0]))
            before = done, now
    assert process.wait() == 0, "".join(printed)[-2000:]


def _taken(pid):
    """Memory [MiB], open files and threads of a process."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as f:
        status = dict(line.split(":", 1) for line in f)
    return (int(status["VmRSS"].split()[0]) / 1024, len(os.listdir("/proc/%d/fd" % pid)),
            int(status["Threads"]))


# ---- the results

def slopes(samples):
    """The `Slope` of each measure after the first tenth."""
    done = np.array([sample.done for sample in samples])
    behind = [sample for sample in samples if sample.done > _TENTH * done[-1]]
    blocks = np.array_split(np.array(behind, np.float64), min(_BLOCKS, len(behind)))
    means = np.array([block.mean(axis=0) for block in blocks])
    x = means[:, 0] - means[:, 0].mean()
    found = {}
    for column, name in enumerate(MEASURES, 1):
        y = means[:, column]
        slope = (x * (y - y.mean())).sum() / (x * x).sum()
        rest = y - y.mean() - slope * x
        error = np.sqrt((rest ** 2).sum() / (len(x) - 2) / (x * x).sum())
        span = x[-1] - x[0]
        found[name] = Slope(y.mean(), slope * span, error * span)
    return found


def grows(slope):
    """Whether a measure grows significantly, and by more than a little."""
    return slope.growth > 3 * slope.error and slope.growth > _LARGEST * slope.mean


def try_all(names, share):
    """Runs these `RUNS` for a fraction `share` of their length; prints a table, returns the number
    of measures that grow."""
    wrong = 0
    print("| run | steps | measure | mean | growth behind the first tenth |\n|---|---|---|---|---|")
    for name in names:
        run, length = RUNS[name]
        with tempfile.TemporaryDirectory() as folder:
            samples = list(run(pathlib.Path(folder), int(share * length)))
            if name == "training":
                assert goes_on_alike(pathlib.Path(folder), samples[-1].done)
        for measure, slope in slopes(samples).items():
            wrong += grows(slope)
            print("| %s | %d | %s | %.2f | %+.2f ± %.2f%s |" % (
                name, samples[-1].done, MEASURES[measure], *slope,
                " **grows**" if grows(slope) else ""), flush=True)
    return wrong


def goes_on_alike(place, steps):
    """Whether the last steps, repeated from the checkpoint before the last, give the same
    weights."""
    from xlnet.engine import checkpoint
    shutil.copytree(place / "m", place / "again")
    _, last = checkpoint.all_prefixes(str(place / "again"))[-1]
    for path in pathlib.Path(last).parent.glob(pathlib.Path(last).name + ".*"):
        path.unlink()
    assert list(_trained(place, "again", steps))[-1].done == steps
    one, other = (pretraining.weights(place, name) for name in ("m", "again"))
    return all(np.array_equal(one[name], other[name]) for name in one)
