"""Small pretraining runs for tests: a folder of data, and train_gpu.py started on it."""

import contextlib
import csv
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import types

import numpy as np

from helpers import command, finetuning, vocabulary
from helpers.networks import sizes
from helpers.paths import ROOT

TINY = sizes(layers=2, width=8, heads=2, inner=16)
ROWS, LENGTH, SLOTS, VOCABULARY = 4, 32, 5, 50  # of `features`
WORDS = ["kamat", "telok", "rokmi", "solkat", "mitel", "dakar", "nokla", "laskit"]


def make_text(path, seed, sentences=300):
    rng = random.Random(seed)
    lines = []
    for i in range(sentences):
        words = " ".join(rng.choices(WORDS, k=rng.randint(3, 9)))
        lines.append("" if i and i % 20 == 0 else f"{words} {rng.randint(1, 99)}.")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


def make_place(folder):
    """Fills `folder` with records of a generated text, a held-out part, and a tiny model config."""
    lines = make_text(folder / "train.txt", seed=0)
    make_text(folder / "heldout.txt", seed=1)
    vocabulary.train(folder / "sp.model", lines, 60, hard_vocab_limit=False)
    for split, streams in (("train", 4), ("heldout", 2)):
        command.succeed(
            "data_utils.py",
            input_glob=folder / (split + ".txt"),
            save_dir=folder / split,
            sp_path=folder / "sp.model",
            seq_len=32,
            reuse_len=16,
            num_streams=streams,
        )
    manifest = json.loads((folder / "train" / "manifest.json").read_text())
    config = dict(TINY, n_token=manifest["vocab_size"])
    (folder / "tiny.json").write_text(json.dumps(config))


def flags_of(place, model_dir, **changes):
    """The flags of a small run; a value of None leaves a flag out."""
    flags = dict(
        dict(
            record_info_dir=place / "train",
            model_dir=place / model_dir,
            model_config_path=place / "tiny.json",
            train_batch_size=4,
            mem_len=8,
            perm_size=16,
            num_predict=5,
            train_steps=4,
            log_steps=1,
            save_steps=100,
            warmup_steps=2,
            learning_rate=1e-2,
            device="cpu",
        ),
        **changes,
    )
    return command.flags(flags)


def train(place, model_dir, **changes):
    """Runs train_gpu.py within this process; returns `command.Done`."""
    return command.run("train_gpu.py", *flags_of(place, model_dir, **changes))


def complete(place, model_dir, **changes):
    """`train`, which must end with status 0."""
    return command.succeed("train_gpu.py", *flags_of(place, model_dir, **changes))


def start(place, model_dir, environment=(), before=lambda: None, **changes):
    """Starts train_gpu.py as a process of its own, which hears Ctrl-C though the tests may not.
    `before` is called in the process before the program starts."""
    return subprocess.Popen(
        [sys.executable, "train_gpu.py"] + flags_of(place, model_dir, **changes),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL), before()),
        env=dict(os.environ, **dict(environment)),
    )


def start_host(place, model_dir, addresses, index, **changes):
    """A process, as one of the machines of these addresses would run it."""
    task = {"type": "worker", "index": index}
    cluster = {"cluster": {"worker": addresses}, "task": task}
    environment = {"PYTHONUNBUFFERED": "1", "TF_CONFIG": json.dumps(cluster)}
    return start(place, model_dir, environment, num_hosts=len(addresses), **changes)


def start_hosts(place, model_dir, **changes):
    """Two processes, as two machines would run them."""
    addresses = local_addresses(2)
    return [start_host(place, model_dir, addresses, i, **changes) for i in range(2)]


def local_addresses(count):
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def free_ports(count):
    with contextlib.ExitStack() as stack:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [stack.enter_context(each).getsockname()[1] for each in servers]


def features():
    """A batch like the input pipeline's, as constants."""
    import tensorflow.compat.v1 as tf

    rng = np.random.RandomState(0)
    positions = [np.sort(rng.permutation(LENGTH - 3)[:SLOTS]) for _ in range(ROWS)]
    values = dict(
        input_ids=rng.randint(10, VOCABULARY, (ROWS, LENGTH)),
        positions=np.stack(positions),
        seg_ids=np.zeros((ROWS, LENGTH)),
        rank=rng.randint(-1, 16, (ROWS, LENGTH)),
        direction=np.array([0, 1] * (ROWS // 2)),
        starts_stream=np.zeros(ROWS),
        label=np.array([0, 1] * (ROWS // 2)),
    )
    batch = {name: tf.constant(value, tf.int32) for name, value in values.items()}
    return dict(batch, weights=tf.ones([ROWS, SLOTS]))


def run_of(
    config, network, settings, optimization=None, reuse_len=16, devices=None, **parts
):
    """A `PretrainingRun` without records, for `features`; network, settings: dicts; config: what
    differs from `TINY`, or an `XLNetConfig`; parts: further attributes of the run."""
    from xlnet.engine.devices import Devices
    from xlnet.pretraining import objectives
    from xlnet.pretraining.run import PretrainingRun
    from xlnet.settings.network import NetworkSettings, XLNetConfig
    from xlnet.settings.pretraining import PretrainingSettings
    from xlnet.settings.training import OptimizationSettings

    if isinstance(config, dict):
        config = XLNetConfig(**dict(TINY, n_token=VOCABULARY, **config))
    short = dict(learning_rate=0.01, train_steps=10, warmup_steps=1)
    where = dict(record_info_dir="", model_dir="")
    settings = PretrainingSettings(**{**where, **settings})
    return PretrainingRun(
        settings,
        optimization or OptimizationSettings(**short),
        config,
        network=NetworkSettings(**network),
        weights=None,
        sampling=settings,
        objective=objectives.find(settings.objective),
        tokenizer=types.SimpleNamespace(sep_id=4, cls_id=3, mask_id=6),
        manifest=types.SimpleNamespace(reuse_len=reuse_len),
        held_out=types.SimpleNamespace(num_streams=1, windows_per_stream=1),
        devices=devices or Devices(None),
        document=None,
        **parts,
    )


def losses_of_steps(model, steps=3):
    """The losses of the first steps of a `PretrainingRun` on `features`."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)
        tf.train.get_or_create_global_step()
        spec = model.model_fn(features())
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        return [session.run([spec.loss, spec.train_op])[0] for _ in range(steps)]


def weights(place, model_dir):
    return finetuning.weights(place / model_dir)


def losses(text):
    return re.findall(r"^step (\d+)/\d+  loss +(\S+)", text, re.MULTILINE)


def wait_for_step(process, step):
    """Reads a run's output up to the line of `step`; returns it."""
    printed = []
    for line in process.stdout:
        printed.append(line)
        if re.match(rf"step +{step}/", line):
            break
    return "".join(printed)


def curve(place, model_dir):
    """step, loss and gradient norm of each line of a run's CSV file: float [lines,3]."""
    with open(place / model_dir / "training.csv", newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    names = ("step", "loss", "gradient_norm")
    return np.array([[float(row[name]) for name in names] for row in rows])
