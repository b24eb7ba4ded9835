"""Writes the program that `--xla` compiles, loss and gradients of a step, for run_step.py: its HLO,
and for a small network also its inputs and outputs.

    python benchmarks/accelerators/export_step.py steps/pretrain '{"work": "pretrain", "batch": 32}'
    python benchmarks/accelerators/export_step.py steps/check '{"work": "pretrain", "batch": 2,
        "length": 32, "memory": 16, "targets": 6, "config": "tiny",
        "precision": "fp32"}'

Needs no GPU: TensorFlow makes the same HLO for a CPU, before any optimization. The network is that
of benchmarks/time_xlnet.py. With "config" of a large network give "values": false (default for
Base): the process ends as soon as the HLO is there.
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))


def options_of(text):
    """The work, the architecture and the options of time_xlnet.build."""
    import repository  # finds the library
    import work as works

    from xlnet.settings.network import XLNetConfig

    given = dict(
        {"work": "pretrain", "precision": "bf16", "config": "base"},
        **json.loads(text),
    )
    sizes = {}
    for name in ("batch", "length", "memory", "targets"):
        if name in given:
            sizes[name] = given.pop(name)
    work = dataclasses.replace(works.WORKS[given.pop("work")], **sizes)
    config = XLNetConfig(json_path=given.pop("config")).to_dict()
    config["n_layer"] = given.pop("n_layer", config["n_layer"])
    values = given.pop("values", config["d_model"] < 256)
    return (
        work,
        config,
        values,
        dict(given, recompute=given.get("recompute", False), xla=True, device="cpu"),
    )


def run(directory, text):
    """Builds the step and runs it once; XLA writes its HLO while it compiles."""
    import numpy as np
    import tensorflow.compat.v1 as tf
    import time_xlnet

    from xlnet.settings.network import XLNetConfig

    work, config, values, options = options_of(text)
    tf.disable_eager_execution()
    fetches, feed, session_config = time_xlnet.build(
        work, XLNetConfig(**config), options
    )
    graph = tf.get_default_graph()
    for call in graph.get_operations():
        if "_XlaMustCompile" in call.node_def.attr and call.get_attr("_XlaMustCompile"):
            break
    variables = {v.handle.name: v for v in tf.global_variables()}
    readable = []
    for x in call.inputs:
        is_variable = x.dtype == tf.resource
        readable.append(variables[x.name].read_value() if is_variable else x)
    with tf.Session(config=session_config) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(readable, feed) if values else None
        outputs = session.run(list(call.outputs), feed)
    if values:
        np.savez(
            os.path.join(directory, "values.npz"),
            **{f"in{i}": np.asarray(x) for i, x in enumerate(before)},
            **{f"out{i}": np.asarray(x, "f4") for i, x in enumerate(outputs)},
        )


def main(directory, text):
    """Runs this file again with XLA's flag for dumps, and keeps the module of the step."""
    from tensorflow.compiler.xla.service import hlo_pb2

    work, config, values, options = options_of(text)
    dump = os.path.join(directory, "dump")
    os.makedirs(dump, exist_ok=True)
    environment = dict(
        os.environ,
        XLNET_EXPORT="1",
        CUDA_VISIBLE_DEVICES="",
        XLA_FLAGS=f"--xla_dump_to={dump} --xla_dump_hlo_as_proto",
    )
    process = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), directory, text], env=environment
    )
    # Files that are there and do not grow any more.
    before: dict[str, int] = {}
    found: dict[str, int] = {}
    while process.poll() is None and (values or not found or found != before):
        before = found
        time.sleep(5)
        names = glob.glob(os.path.join(dump, "*before_optimizations*.hlo.pb"))
        found = {name: os.path.getsize(name) for name in names}
    if not values:
        process.send_signal(signal.SIGKILL)
    elif process.returncode:
        sys.exit(process.returncode)
    names = glob.glob(os.path.join(dump, "*before_optimizations*.hlo.pb"))
    largest = max(names, key=os.path.getsize)
    with open(largest, "rb") as file:
        module = hlo_pb2.HloProto.FromString(file.read()).hlo_module
    with open(os.path.join(directory, "step.hlo.pb"), "wb") as file:
        file.write(module.SerializeToString())
    shutil.rmtree(dump)
    with open(os.path.join(directory, "step.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "work": dataclasses.asdict(work),
                "config": config,
                "precision": options["precision"],
                "recompute": options["recompute"],
                "dropout": options.get("dropout", 0.1),
            },
            file,
        )
    print(
        "{}: {} bytes of HLO".format(
            directory, os.path.getsize(os.path.join(directory, "step.hlo.pb"))
        )
    )


if __name__ == "__main__":
    (run if os.environ.get("XLNET_EXPORT") else main)(*sys.argv[1:3])
