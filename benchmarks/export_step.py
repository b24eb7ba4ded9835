"""Writes the program that `--xla` compiles, loss and gradients of a step, for compile_step.py: its
HLO.

    python benchmarks/export_step.py steps/pretrain '{"work": "pretrain", "batch": 32}'

Needs no GPU: TensorFlow makes the same HLO for a CPU, before any optimization. The network is that
of benchmarks/time_xlnet.py. The process ends as soon as the HLO is there.
"""

import dataclasses
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time


def run(text):
    """Builds the step and runs it once; XLA writes its HLO while it compiles."""
    import tensorflow.compat.v1 as tf
    import time_xlnet
    import work as works

    from xlnet.settings.network import XLNetConfig

    defaults = {
        "work": "pretrain",
        "precision": "bf16",
        "config": "configs/model/base.json",
        "recompute": False,
    }
    options = dict(defaults, **json.loads(text), xla=True, device="cpu")
    sizes = {}
    for name in ("batch", "length", "memory", "targets"):
        if name in options:
            sizes[name] = options.pop(name)
    work = dataclasses.replace(works.WORKS[options.pop("work")], **sizes)
    config = XLNetConfig(json_path=options.pop("config"))

    tf.disable_eager_execution()
    fetches, feed, session_config = time_xlnet.build(work, config, options)
    with tf.Session(config=session_config) as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches, feed)


def main(directory, text):
    """Runs this file again with XLA's flag for dumps, and keeps the module of the step."""
    dump = os.path.join(directory, "dump")
    os.makedirs(dump, exist_ok=True)
    environment = dict(
        os.environ,
        XLNET_EXPORT="1",
        CUDA_VISIBLE_DEVICES="",
        XLA_FLAGS=f"--xla_dump_to={dump} --xla_dump_hlo_as_proto",
    )
    command = [sys.executable, os.path.abspath(__file__), directory, text]
    process = subprocess.Popen(command, env=environment)
    # Files that are there and do not grow any more.
    before: dict[str, int] = {}
    found: dict[str, int] = {}
    while process.poll() is None and (not found or found != before):
        before = found
        time.sleep(5)
        names = glob.glob(os.path.join(dump, "*before_optimizations*.hlo.pb"))
        found = {name: os.path.getsize(name) for name in names}
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not found:
        sys.exit("the step was not compiled; the message of the process is above")
    target = os.path.join(directory, "step.hlo.pb")
    os.replace(max(found, key=found.__getitem__), target)
    shutil.rmtree(dump)
    print(f"{directory}: {os.path.getsize(target)} bytes of HLO")


if __name__ == "__main__":
    if os.environ.get("XLNET_EXPORT"):
        run(sys.argv[2])
    else:
        main(*sys.argv[1:3])
