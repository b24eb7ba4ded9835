"""How long programs take before they do anything: `python benchmarks/start_up.py`.

With --record_info_dir, records of `data_utils.py`, also a pretraining of one step, from launch to
the end, with the network of configs/model/tiny.json.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from typing import Optional

from repository import ROOT

from xlnet import cli, files
from xlnet.config import Settings, setting


@dataclasses.dataclass(frozen=True)
class StartUp(Settings):
    """start_up.py: how often, and with which records."""
    record_info_dir: Optional[str] = setting(None, "records to make a training step of")
    repeats: int = setting(3, "runs of each; the table has the quickest", minimum=1)


def commands(settings, directory):
    """What is started, by name."""
    for program in ("data_utils.py", "train_gpu.py", "run_classifier.py"):
        yield program + " --help", [program, "--help"]
    yield "import xlnet", ["-c", "import xlnet"]
    yield "import xlnet.api, with TensorFlow", ["-c", "import xlnet.api"]
    if settings.record_info_dir:
        yield "one pretraining step", [
            "train_gpu.py", "--config=configs/pretrain/tiny.json", "--train_steps=1",
            "--warmup_steps=0", "--warmup_share=0", "--n_token=%d" % vocabulary(settings),
            "--record_info_dir=" + os.path.abspath(settings.record_info_dir),
            "--model_dir=" + os.path.join(directory, "model%d" % time.time_ns())]


def vocabulary(settings):
    """Pieces of the records' vocabulary."""
    path = os.path.join(settings.record_info_dir, "manifest.json")
    return files.read_json(path, "record_info_dir")["vocab_size"]


def measure(command):
    """Seconds by the clock, and of the processor, of a process that ends well."""
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=ROOT))
    after = os.times()
    return time.perf_counter() - began, (
        after.children_user + after.children_system
        - before.children_user - before.children_system)


def main(settings):
    print("| what | clock [s] | processor [s] |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        found = {}
        for _ in range(settings.repeats):
            for name, command in commands(settings, directory):
                found.setdefault(name, []).append(measure(command))
        for name, times in found.items():
            clock, processor = (min(column) for column in zip(*times))
            print("| %s | %.2f | %.2f |" % (name, clock, processor), flush=True)


if __name__ == "__main__":
    cli.run(main, StartUp, about="seconds until programs begin")
