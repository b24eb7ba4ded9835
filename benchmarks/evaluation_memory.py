"""Memory of a run that is evaluated often, as a picture: `python benchmarks/evaluation_memory.py`.

Trains a small network on records with an evaluation after each step, and draws the peak memory of
the process, which `training.csv` has. What an evaluation does not give back shows as a slope.
"""

import csv
import dataclasses
import os
import subprocess
import sys

import numpy as np
import repository

from xlnet import cli, files
from xlnet.settings.fields import Settings, required, setting

MIB = 1024      # of a GiB


@dataclasses.dataclass(frozen=True)
class MemorySettings(Settings):
    """Which records, how many evaluations, where the picture goes."""
    record_info_dir: str = required("training records, made by data_utils.py")
    eval_record_info_dir: str = required("held-out records")
    model_dir: str = required("directory of the run, new")
    num_layers: int = setting(12, "layers of the network, of width 32", minimum=1)
    evaluations: int = setting(200, "steps, each with an evaluation", minimum=20)
    png: str = setting("evaluation_memory.png", "file of the picture")


def main(settings):
    subprocess.run([
        sys.executable, os.path.join(repository.ROOT, "train_gpu.py"), "--device=cpu",
        "--record_info_dir=" + settings.record_info_dir, "--model_dir=" + settings.model_dir,
        "--eval_record_info_dir=" + settings.eval_record_info_dir, "--d_model=32", "--n_head=2",
        "--n_layer=%d" % settings.num_layers, "--d_head=16", "--d_inner=64", "--mem_len=16",
        "--num_predict=5", "--perm_size=16", "--train_batch_size=2", "--eval_steps=1",
        "--log_steps=1", "--max_save=1", "--train_steps=%d" % settings.evaluations], check=True)
    steps, mib = read(os.path.join(settings.model_dir, "training.csv"))
    slope = growth(steps, mib)
    draw(settings.png, steps, mib, "%d layers, evaluated after each step: %.3f MiB an evaluation "
         "over the second half" % (settings.num_layers, slope))
    print("%.1f MiB after step %d, %.1f after step %d; over the second half %.3f MiB an evaluation"
          % (mib[len(mib) // 2], steps[len(mib) // 2], mib[-1], steps[-1], slope))
    print("picture: %s" % settings.png)


def read(path):
    """Steps and the peak memory at each [MiB], from a run's `training.csv`."""
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    return (np.array([int(row["step"]) for row in rows]),
            np.array([float(row["memory_gib"]) * MIB for row in rows]))


def growth(steps, mib):
    """MiB that a step adds, by a straight line through the second half."""
    half = len(steps) // 2
    return float(np.polyfit(steps[half:], mib[half:], 1)[0])


def draw(path, steps, mib, title):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 3.2), dpi=110)
    axes.plot(steps, mib, color="#4c78a8")
    axes.set(xlabel="evaluations", ylabel="peak memory [MiB]", title=title,
             ylim=(0, 1.15 * mib.max()))
    axes.title.set_fontsize(9)
    figure.tight_layout()
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format="png")


if __name__ == "__main__":
    cli.run(main, MemorySettings, about="memory of a run that is evaluated often")
