"""Memory of run_classifier.py by the number of labels: a table for benchmarks/README.md.

    python benchmarks/labels.py --spiece_model_file=spiece.model

Each line is a process of its own that trains one step, evaluates and predicts made-up rows, as many
for any number of labels, with a network of one narrow layer.
"""

import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time

from repository import ROOT

from xlnet import cli
from xlnet.settings.fields import required, setting
from xlnet.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """labels.py: which numbers of labels, on how many rows."""
    spiece_model_file: str = required("SentencePiece model")
    labels: str = setting("2,40,300,1000,5000", "numbers of labels, comma-separated")
    rows: int = setting(10000, "rows of the train file, a tenth of them is held out", minimum=100)


def main(settings):
    print("| labels | seconds | peak memory [MB] | picture | table [KB] | predictions [KB] |")
    print("|---|---|---|---|---|---|")
    for count in map(int, settings.labels.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            print("| %s | %s |" % ("{:,}".format(count), " | ".join(
                measure(folder, settings, count))), flush=True)


def measure(folder, settings, count):
    """The cells of a line."""
    write_rows(os.path.join(folder, "rows.tsv"), count, settings.rows)
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump({"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 16,
                   "ff_activation": "gelu", "untie_r": True,
                   "n_token": Tokenizer(settings.spiece_model_file).vocab_size}, f)
    model_dir, began = os.path.join(folder, "model"), time.time()
    process = subprocess.Popen(
        [sys.executable, os.path.join(ROOT, "run_classifier.py"), "--task_name=custom",
         "--data_dir=" + os.path.join(folder, "rows.tsv"), "--model_dir=" + model_dir,
         "--output_dir=" + os.path.join(folder, "records"), "--model_config_path=" + config,
         "--spiece_model_file=" + settings.spiece_model_file, "--text_a_column=text",
         "--do_train=True", "--do_eval=True", "--do_predict=True", "--predict_split=dev",
         "--max_seq_length=16", "--train_steps=1", "--data_workers=1"], stdout=subprocess.DEVNULL)
    peak = wait(process)
    names = ("confusion_dev.png", "eval_table_dev.txt", "predictions_custom_dev.tsv")
    picture, table, predictions = (os.path.join(model_dir, name) for name in names)
    return ("%.0f" % (time.time() - began), "%.0f" % (peak / 1e6), "%d x %d" % size_of(picture),
            *("{:,.0f}".format(os.path.getsize(path) / 1e3) for path in (table, predictions)))


def write_rows(path, count, rows):
    """Each label as often as any other, in texts of a few words."""
    rng = random.Random(0)
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        for i in range(rows):
            f.write("%s\tlabel %d\n" % (" ".join(rng.choices("one two three four".split(), k=5)),
                                        i % count))


def wait(process):
    """Waits for a process to end; returns its peak memory [bytes]."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("run_classifier.py ended with status %d" % process.returncode)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def size_of(path):
    """Width and height of a PNG [pixels]."""
    with open(path, "rb") as f:
        header = f.read(24)
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")


if __name__ == "__main__":
    cli.run(main, BenchmarkSettings, about="measures memory by the number of labels")
