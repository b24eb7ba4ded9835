"""How well settings train: the same records and network, several seeds each, losses side by side.

The question that it was written for: runs of a small network stay for hundreds of steps at the loss
of token frequencies, and when they leave that plateau differs from seed to seed. What helps?
`VARIANTS` has the settings that were tried. Runs that are done already are not repeated.
"""

import concurrent.futures
import csv
import dataclasses
import os
import statistics
import subprocess
import sys

import repository  # finds the library and recipes
from recipes import ROOT, chosen, print_table

from xlnet import cli
from xlnet.errors import UserError
from xlnet.settings.fields import required, setting

# By name: the flags in which a variant differs from COMMON.
VARIANTS = {
    "none": {"position_dropout": "none"},
    "row": {"position_dropout": "row"},
    "no dropout": {"dropout": 0, "dropatt": 0},
    "no attention dropout": {"dropatt": 0},
    "no hidden dropout": {"dropout": 0},
    "init_std 0.05": {"init_std": 0.05},
    "init_std 1/sqrt(d)": {"init_std": 0.088},
    "warm-up 300": {"warmup_steps": 300},
    "warm-up 50": {"warmup_steps": 50},
    "causal": {"objective": "causal"},
    "bf16": {"precision": "bf16"},
    "token": {"mask_mode": "token"},
    "legacy": {"mask_mode": "legacy"},      # the original's rule
}
COMMON = dict(train_batch_size=16, mem_len=96, perm_size=64, num_predict=21, learning_rate=1e-3,
              warmup_steps=150, dropout=0.1, dropatt=0.1, init_std=0.02, log_steps=50,
              save_steps=1 << 30)


@dataclasses.dataclass(frozen=True)
class TrainingComparison:
    """compare_training.py: the records, the network, what is compared."""
    record_info_dir: str = required("records, of data_utils.py or of import_records.py")
    model_config_path: str = required("JSON with the architecture")
    out_dir: str = setting("comparison_run", "directory for the runs")
    variants: str = setting("none,row", "variants, comma-separated")
    seeds: str = setting("0,1,2,3,4", "seeds, comma-separated")
    steps_shown: str = setting("750,1050,1500", "steps of the table, comma-separated multiples of "
                                                "50")
    train_steps: int = setting(1500, "steps of each run", minimum=1)
    jobs: int = setting(1, "runs at a time, a core for each if there are several", minimum=1)
    reference: str = setting("", "TSV with columns step and loss of another trainer on the same "
                                 "records, for a last line")


def main(settings):
    names = chosen("variants", settings.variants, "variant", list(VARIANTS))
    seeds = [int(seed) for seed in settings.seeds.split(",")]
    steps = [int(step) for step in settings.steps_shown.split(",")]
    with concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool:
        runs = {(name, seed): pool.submit(train, settings, name, seed)
                for seed in seeds for name in names}
        curves = {key: run.result() for key, run in runs.items()}
    rows = []
    for name in names:
        rows.append([name] + [summary([curves[name, seed].get(step) for seed in seeds])
                              for step in steps])
    if settings.reference:
        losses = curve(settings.reference, "\t")
        rows.append(["the original implementation"] + ["%.2f" % losses[step] for step in steps])
    print_table(["loss at step"] + ["%d: mean, worst (each seed)" % step for step in steps], rows)


def train(settings, name, seed):
    """Trains one variant with one seed unless it is done; returns its `curve`."""
    folder = os.path.join(settings.out_dir, "%s-%d" % (name.replace(" ", "_").replace("/", "_"),
                                                       seed))
    path = os.path.join(folder, "training.csv")
    if not os.path.exists(path) or settings.train_steps not in curve(path):
        flags = dict(COMMON, record_info_dir=settings.record_info_dir, model_dir=folder, seed=seed,
                     model_config_path=settings.model_config_path,
                     train_steps=settings.train_steps, **VARIANTS[name])
        print("training %s, seed %d, in %s" % (name, seed, folder), flush=True)
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "train_gpu.py")]
            + ["--%s=%s" % item for item in flags.items()], capture_output=True, text=True,
            check=False)
        if done.returncode:
            raise UserError("train_gpu.py failed: %s" % done.stderr.strip().split("\n")[-1])
    return curve(path)


def curve(path, delimiter=","):
    """Loss by step: the mean over the steps since the line before, in nats."""
    with open(path, newline="", encoding="utf-8") as f:
        return {int(row["step"]): float(row["loss"]) for row in csv.DictReader(
            f, delimiter=delimiter)}


def summary(losses):
    """Mean, worst, and each of some losses."""
    return "%.2f, %.2f (%s)" % (statistics.mean(losses), max(losses),
                                " ".join("%.2f" % loss for loss in losses))


if __name__ == "__main__":
    cli.run(main, TrainingComparison, about="trains a small network with several settings and "
                                            "seeds and compares the losses",
            examples=("--record_info_dir=records --model_config_path=model.json --seeds=0,1",))
