"""Times this library and others' XLNets on the same work: tables for benchmarks/README.md.

    python benchmarks/run.py
    bash scripts/setup_benchmark.sh huggingface kerashub
    python benchmarks/run.py --huggingface=.venv-benchmark/bin/python --compiled \\
        --kerashub=.venv-kerashub/bin/python
    python benchmarks/run.py --device=gpu --precisions=bf16 --batch=32 --xla --peak_tflops=312 \\
        --huggingface=.venv-benchmark/bin/python

Each measurement has a process of its own; the systems take turns.
"""

import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from typing import Optional

import costs
from repository import ROOT
from work import WORKS

from xlnet.commands import cli
from xlnet.settings.fields import Settings, setting
from xlnet.settings.network import XLNetConfig
from xlnet.support.errors import UserError, wrong

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
PRECISIONS = ("fp32", "bf16")
OURS = "this library"


class BenchmarkSettings(Settings):
    """run.py: what to time, how often."""

    model_config_path: str = setting(
        "base",
        "architecture: a JSON file, or a name in configs/model.json; weights are random",
    )
    works: str = setting(
        "pretrain,finetune,infer", "comma-separated, of: " + ", ".join(WORKS)
    )
    precisions: str = setting("fp32", "comma-separated, of: " + ", ".join(PRECISIONS))
    recompute: bool = setting(False, "also time this library with --recompute")
    n_layer: Optional[int] = setting(None, "layers, in place of the file's", minimum=1)
    batch: Optional[int] = setting(None, "rows, in place of the work's", minimum=1)
    length: Optional[int] = setting(
        None, "tokens of a row, in place of the work's", minimum=1
    )
    huggingface: Optional[str] = setting(
        None,
        "Python with torch and transformers, see scripts/setup_benchmark.sh; none: only "
        "this library",
    )
    compiled: bool = setting(
        False, "also time Hugging Face's model as torch.compile makes it"
    )
    kerashub: Optional[str] = setting(
        None,
        "Python with keras-hub, TensorFlow and JAX, from the same script; it has no pretraining",
    )
    halves: bool = setting(
        False,
        "also time inference as two halves of a batch side by side, each "
        "on half of the cores, as run_classifier.py answers on a CPU",
    )
    xla: bool = setting(False, "also time training steps of this library with --xla")
    device: str = setting(
        "cpu",
        "of all systems; gpu: the first one that is visible",
        choices=("cpu", "gpu"),
    )
    peak_tflops: Optional[float] = setting(
        None,
        "of the GPU, in the precision, from its data sheet: the tables have the fraction "
        "that the model uses (model FLOP utilisation)",
        minimum=0,
    )
    repeats: int = setting(5, "steps that are timed", minimum=1)
    warm_up: int = setting(2, "steps before them", minimum=0)


def main(settings):
    """Prints the table; wrong settings are refused before anything is timed."""
    for name in ("huggingface", "kerashub"):
        python = getattr(settings, name)
        if python and not os.access(python, os.X_OK):
            raise wrong(name, python, "a program")
    if settings.compiled and not settings.huggingface:
        raise wrong("compiled", "no huggingface", "--huggingface")
    if settings.device == "gpu" and (settings.kerashub or settings.halves):
        raise wrong("device", "gpu", "cpu, as of --kerashub and --halves")
    if settings.device == "cpu" and settings.peak_tflops:
        raise wrong("peak_tflops", "device cpu", "--device=gpu")
    names = chosen("works", settings.works, WORKS)
    precisions = chosen("precisions", settings.precisions, PRECISIONS)
    architecture = XLNetConfig(json_path=settings.model_config_path).to_dict()
    architecture["n_layer"] = settings.n_layer or architecture["n_layer"]
    on_device = device(settings.device)
    print(
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, on "
        f"{on_device}, {architecture['n_layer']} layers, d_model {architecture['d_model']}; "
        f"medians of {settings.repeats} steps"
    )
    print(
        "| work | system | wall s | CPU s | tokens/s | peak GiB | utilization |\n"
        "|---|---|---|---|---|---|---|",
        flush=True,
    )
    versions = set()
    for name in names:
        work = WORKS[name]
        batch, length = settings.batch or work.batch, settings.length or work.length
        work = dataclasses.replace(work, batch=batch, length=length)
        if settings.halves and work.kind == "infer" and batch % 2:
            raise wrong("halves", f"{batch} rows", "an even number")
        for precision in precisions:
            title = f"{name} {work.batch} × {work.length}, {precision}"
            versions |= compare(title, work, precision, architecture, settings)
    print("\n" + "; ".join(sorted(versions)))


def chosen(flag, value, known):
    """The names in the comma-separated `value` of a flag, all of them `known`."""
    names = value.split(",")
    for name in names:
        if name not in known:
            raise wrong(flag, name, ", ".join(known))
    return names


def device(name):
    """A description of the device that is timed; a UserError if there is no GPU."""
    if name == "cpu":
        return "the CPU"
    import tensorflow as tf2

    from xlnet.engine import devices

    found = tf2.config.list_physical_devices("GPU")[:1]
    if not found:
        raise wrong("device", devices.NO_GPU, "a GPU")
    return devices.gpu_names(found)


def compare(title, work, precision, architecture, settings):
    """Times one work on all systems, prints their rows and ratios; returns the versions."""
    base = dict(
        config=architecture,
        precision=precision,
        repeats=settings.repeats,
        warm_up=settings.warm_up,
        recompute=False,
        compiled=False,
        device=settings.device,
    )
    results = {}
    for system, python, worker, options in systems(work.kind, settings):
        try:
            results[system] = measure(python, worker, work, dict(base, **options))
        except UserError as error:
            if system.startswith(OURS):
                raise
            print(f"| {title} | {system} | {error} |", flush=True)
    operations = costs.step_operations(architecture, work)
    for system, result in results.items():
        utilization = ""
        if settings.peak_tflops:
            rate = operations / result["wall"] / 1e12
            utilization = f"{100 * rate / settings.peak_tflops:.1f} %"
        print(
            f"| {title} | {system} | {result['wall']:.4f} | {result['processor']:.4f} | "
            f"{work.tokens / result['wall']:.0f} | {result['peak_gib']:.2f} | {utilization} |"
        )
    ours = results[OURS]
    for system, other in list(results.items())[1:]:
        ratios = []
        for name in ("wall", "processor", "peak_gib"):
            ratios.append(f"{other[name] / ours[name]:.2f}")
        wall, processor, peak = ratios
        title_of_ratio = f"ratio {system} / this library"
        print(f"| {title} | {title_of_ratio} | {wall} | {processor} | | {peak} | |")
    sys.stdout.flush()
    return {result["version"] for result in results.values()}


def systems(kind, settings):
    """The systems that do a kind of work, this library first: (name, Python, worker, its options).
    JAX has threads that cannot be limited here: it does not answer halves."""
    found = [(OURS, sys.executable, "time_xlnet.py", {})]
    if settings.recompute and kind != "infer":
        options = {"recompute": True}
        found.append((OURS + ", recompute", sys.executable, "time_xlnet.py", options))
    if settings.xla and kind != "infer":
        found.append((OURS + ", XLA", sys.executable, "time_xlnet.py", {"xla": True}))
    rival = settings.huggingface
    if rival:
        found.append(("Hugging Face", rival, "time_huggingface.py", {}))
    if settings.compiled:
        options = {"compiled": True}
        found.append(("Hugging Face, compiled", rival, "time_huggingface.py", options))
    if settings.kerashub and kind != "pretrain":
        for backend in ("tensorflow", "jax"):
            name, options = "KerasHub on " + backend, {"backend": backend}
            found.append((name, settings.kerashub, "time_kerashub.py", options))
    if not settings.halves or kind != "infer":
        return found
    with_halves = []
    for name, python, worker, options in found:
        with_halves.append((name, python, worker, options))
        if options.get("backend") != "jax":
            halves = dict(options, at_once=2)
            with_halves.append((name + ", two halves", python, worker, halves))
    return with_halves


def measure(python, worker, work, options):
    """Runs one worker; returns its measurements, the times as medians.

    It does its part of the work's rows `at_once` times side by side, each on its part of the cores.
    """
    at_once = options.get("at_once", 1)
    part = dataclasses.replace(work, batch=work.batch // at_once)
    request = json.dumps(dict(options, work=dataclasses.asdict(part)))
    environment = dict(os.environ)
    if at_once > 1:
        threads = str(max(1, os.cpu_count() // at_once))
        environment.update(TF_NUM_INTRAOP_THREADS=threads, OMP_NUM_THREADS=threads)
    if options["device"] == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
    done = subprocess.run(
        [python, os.path.join(ROOT, "benchmarks", worker), request],
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"{worker} with {python} failed: {reason}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    for clock in ("wall", "processor"):
        result[clock] = statistics.median(result[clock])
    return result


if __name__ == "__main__":
    with cli.command(BenchmarkSettings, about="times training and inference") as line:
        main(*line.settings)
