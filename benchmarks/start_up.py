"""How long programs take before they do anything: `python benchmarks/start_up.py`.

With --record_info_dir, records of `data_utils.py`, also from launch to the first pretraining step,
of configs/model/tiny.json and --model_config_path; with --model_dir, of a fine-tuned classifier, to
its first answer.
"""

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import Optional

from repository import ROOT

from xlnet import cli, files
from xlnet.errors import UserError
from xlnet.settings.fields import Settings, as_in, setting
from xlnet.settings.network import NetworkSettings

# How lines begin that a program prints when it is done with a part of its start. A training says in
# the last one how much of the time the step itself took.
TRAINS = {"devices": "import and graph", "first step after": "weights"}
ANSWERS = {"imported": "import", "loaded": "graph and weights", "answered": "first answer"}
ANSWER = """
import sys, xlnet, xlnet.api
print("imported", flush=True)
with xlnet.load(sys.argv[1]) as model:
    print("loaded", flush=True)
    model.classify("Give the logger a handler and a level.")
    print("answered", flush=True)
"""


@dataclasses.dataclass(frozen=True)
class StartUp(Settings):
    """start_up.py: how often, and with which records."""
    record_info_dir: Optional[str] = setting(None, "records to make a training step of")
    model_config_path: Optional[str] = setting(None, "JSON with another architecture for that step")
    precision: Optional[str] = as_in(NetworkSettings, "precision")
    model_dir: Optional[str] = setting(None, "a fine-tuned classifier to ask")
    repeats: int = setting(3, "runs of each; the table has the quickest", minimum=1)


def commands(settings, directory):
    """What is started: yields names, command lines, and the parts to look for, see `TRAINS`."""
    for program in ("data_utils.py", "train_gpu.py", "run_classifier.py"):
        yield program + " --help", [program, "--help"], {}
    yield "import xlnet", ["-c", "import xlnet"], {}
    yield "import xlnet.api, with TensorFlow", ["-c", "import xlnet.api"], {}
    if settings.record_info_dir:
        for path in filter(None, ("configs/model/tiny.json", settings.model_config_path)):
            yield "first pretraining step, " + os.path.basename(path), [
                "train_gpu.py", "--config=configs/pretrain/tiny.json", "--train_steps=1",
                "--warmup_steps=0", "--warmup_share=0",
                *(["--precision=" + settings.precision] if settings.precision else []),
                *("--%s=%d" % item for item in sizes(settings).items()),
                "--model_config_path=" + os.path.abspath(path),
                "--record_info_dir=" + os.path.abspath(settings.record_info_dir),
                "--model_dir=" + os.path.join(directory, "model%d" % time.time_ns())], TRAINS
    if settings.model_dir:
        yield "first answer", ["-c", ANSWER, os.path.abspath(settings.model_dir)], ANSWERS


def sizes(settings):
    """Settings that the records decide."""
    path = os.path.join(settings.record_info_dir, "manifest.json")
    manifest = files.read_json(path, "record_info_dir")
    length, reused = manifest["seq_len"], manifest["reuse_len"]
    return dict(n_token=manifest["vocab_size"], seq_len=length, reuse_len=reused, perm_size=reused,
                mem_len=3 * length // 4, num_predict=length // 6, mask_alpha=6, mask_beta=1,
                train_batch_size=manifest["num_streams"])


def measure(name, command, parts):
    """Runs a process to its end, or to the last of `parts`.

    Returns:
      Seconds of the processor; at which second, by the clock, it was over; the seconds of the
      parts by their names.
    """
    began, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [sys.executable, "-u", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=ROOT))
    seconds, missing = {}, list(parts.items())
    for line in process.stdout:
        if not missing or not line.startswith(missing[0][0]):
            continue
        _, part = missing.pop(0)
        seconds[part] = time.perf_counter() - began - sum(seconds.values())
        of_step = re.match(r"first step after ([\d.]+) s", line)
        if of_step:
            seconds["first step"] = float(of_step[1])
            seconds[part] -= seconds["first step"]
        if not missing:
            process.kill()
    if process.wait() > 0 or missing:
        raise UserError("%s: ended with status %d" % (name, process.returncode))
    after, clock = os.times(), sum(seconds.values()) or time.perf_counter() - began
    return (after.children_user + after.children_system - before.children_user
            - before.children_system), clock, seconds


def main(settings):
    print("| what | clock [s] | processor [s] | of the clock |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for name, command, parts in commands(settings, directory):
            processor, clock, seconds = min((measure(name, command, parts) for _ in range(
                settings.repeats)), key=lambda run: run[1])
            print("| %s | %.2f | %.2f | %s |" % (name, clock, processor, ", ".join(
                "%s %.1f" % part for part in seconds.items())), flush=True)


if __name__ == "__main__":
    cli.run(main, StartUp, about="seconds until programs begin")
