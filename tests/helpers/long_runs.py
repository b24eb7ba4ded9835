"""Long runs, watched: memory, open files and threads of a process, and the time of a step, from the
first tenth on. What grows shows as a slope.
"""

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
Slope = collections.namedtuple("Slope", "mean growth error")     # over all that is looked at

_BLOCKS = 20             # of samples, in the place of each: what follows is alike
_LARGEST = 0.02          # share of the mean by which a measure may grow
_TENTH = 0.1


# ---- what is watched

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
    """The same over a large text, as often as `steps` ask for, without evaluations."""
    place = pretraining.make_place(folder)
    lines = (place / "train.txt").read_text()
    with open(place / "large.txt", "w", encoding="utf-8") as f:
        while f.tell() < 100e6:
            f.write(lines)
    done = command.run("data_utils.py", "--input_glob=%s" % (place / "large.txt"),
                       "--save_dir=%s" % (place / "large"), "--seq_len=512", "--reuse_len=256",
                       "--sp_path=%s" % (place / "sp.model"), "--num_streams=64")
    assert done.returncode == 0, done.stderr
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
    """Answers of a loaded model to one text after the other."""
    finetuning.make_workspace(folder).succeed("--do_train=True")
    yield from watched(subprocess.Popen(
        [sys.executable, "-c", _ASK, str(folder / "model"), str(count)], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT))


RUNS = {"training": (training, 20000), "epochs": (epochs, 7500),
        "predictions": (predictions, 20000)}


def watched(process):
    """Yields a `Sample` whenever a process says that it has done so many steps."""
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


# ---- what comes of it

def slopes(samples):
    """The `Slope` of each measure behind the first tenth."""
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
    """Whether a measure grows by more than noise explains, and by more than a little."""
    return slope.growth > 3 * slope.error and slope.growth > _LARGEST * slope.mean


def draw(path, name, samples):
    from matplotlib.figure import Figure

    from xlnet.plots import pictures
    figure = Figure(figsize=(9, 5), dpi=110)
    for number, (measure, title) in enumerate(MEASURES.items(), 1):
        axes = figure.add_subplot(2, 2, number)
        values = [getattr(sample, measure) for sample in samples]
        axes.plot([sample.done for sample in samples], values, color="#4c78a8", linewidth=1)
        axes.set_title(title, fontsize=9)
        axes.set_ylim(0, 1.25 * np.percentile(values, 98))
        axes.tick_params(labelsize=8)
    figure.suptitle("%s: %s steps" % (name, "{:,}".format(samples[-1].done)), fontsize=10)
    figure.tight_layout()
    pictures.save(figure, path)


def try_all(names, share, pictures_dir):
    """Runs those of `RUNS`, of so long a `share` of their length; prints a table, writes the
    pictures, returns how many measures grow."""
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
        os.makedirs(pictures_dir, exist_ok=True)
        draw(os.path.join(pictures_dir, "long_%s.png" % name), name, samples)
    return wrong


def goes_on_alike(place, steps):
    """Whether the last steps, done once more from the checkpoint before the last, give the same
    weights."""
    from xlnet.engine import checkpoint
    shutil.copytree(place / "m", place / "again")
    _, last = checkpoint.all_prefixes(str(place / "again"))[-1]
    for path in pathlib.Path(last).parent.glob(pathlib.Path(last).name + ".*"):
        path.unlink()
    assert list(_trained(place, "again", steps))[-1].done == steps
    one, other = (pretraining.weights(place, name) for name in ("m", "again"))
    return all(np.array_equal(one[name], other[name]) for name in one)
