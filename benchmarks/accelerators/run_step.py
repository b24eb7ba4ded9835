"""Runs the program that export_step.py wrote, with JAX: no TensorFlow needed.

In benchmarks/accelerators:

    python run_step.py steps/check                        compares the outputs
    python run_step.py steps/pretrain --peak_tflops=989   times the step

The status is 1 if outputs are not those of TensorFlow, up to rounding.

What is timed is loss and gradients of a step, as the XLA of the installed JAX compiles them, with
random weights. The update (norm, clipping, AdamW) is not in this program.
"""

import argparse
import io
import json
import os
import sys
import time

import jax
import numpy as np
from jax._src.interpreters import mlir as internal
from jax._src.lib.mlir import ir
from jax.extend import mlir

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

jax.config.update("jax_enable_x64", True)  # token ids are int64, seeds uint64

# How far outputs may be apart that are the same up to rounding, by precision: of the largest value.
# Measured: 1.2e-3 on an H100, whose float32 is TF32; 0.023 in bfloat16.
TOLERANCES = {"fp32": 5e-3, "bf16": 0.05, "fp16": 0.05}

DTYPES = {
    "f32": "f4",
    "bf16": "bfloat16",
    "f16": "f2",
    "i64": "i8",
    "i32": "i4",
    "ui64": "u8",
    "i1": "?",
}


def stablehlo(directory):
    """The program in JAX's form."""
    with open(os.path.join(directory, "step.hlo.pb"), "rb") as file:
        return without_tilings(mlir.hlo_to_stablehlo(file.read()))


def without_tilings(program):
    """The program without an attribute of custom calls that is empty, and that the format which
    compilers are given does not have yet."""
    if b"xla.gpu.ptx" not in program:
        return program

    def remove(operation):
        if "result_tilings" in operation.attributes:
            del operation.attributes["result_tilings"]
        return ir.WalkResult.ADVANCE

    with internal.make_ir_context():
        module = ir.Module.parse(program)
        module.operation.walk(remove)
        written = io.BytesIO()
        module.operation.write_bytecode(written)
        return written.getvalue()


def parameters(text):
    """Shape and dtype of each parameter of the main function."""
    with internal.make_ir_context():
        module = ir.Module.parse(text)
        for main in module.body.operations:
            if str(main.attributes["sym_name"]) == '"main"':
                break
        types = [ir.RankedTensorType(each) for each in main.type.inputs]
        return [(tuple(each.shape), DTYPES[str(each.element_type)]) for each in types]


def compare(directory, executable, shapes, tolerance):
    """Prints the largest relative difference of loss, gradients and memories to TensorFlow's;
    returns whether it is within `tolerance`."""
    values = np.load(os.path.join(directory, "values.npz"))
    # Inputs that are constants for XLA are not parameters: they are left out here.
    kept, number = [], 0
    for shape, dtype in shapes:
        while values[f"in{number}"].shape != shape:
            number += 1
        kept.append(values[f"in{number}"].astype(dtype))
        number += 1
    outputs = run(executable, placed(kept))
    wanted = [values[f"out{i}"] for i in range(len(outputs))]
    differences = []
    for a, b in zip(outputs, wanted):
        largest = np.abs(np.asarray(a, "f8") - b).max()
        differences.append(largest / (np.abs(b).max() + 1e-30))
    # NumPy's maximum, as Python's leaves out a NaN that is not the first number.
    worst = np.max(differences)
    print(
        f"{directory}: loss {outputs[0]:.7f}, TensorFlow's {wanted[0]:.7f}; largest difference of "
        f"{len(outputs)} outputs: {worst:.2g} of the largest value"
    )
    return worst <= tolerance  # which NaN is not


def random_inputs(shapes, work, config):
    """Token ids and ranks of `work`, random weights of standard deviation 0.02."""
    import work as works

    random, arrays = np.random.RandomState(0), works.batch(work, config["n_token"])
    inputs = []
    for shape, dtype in shapes:
        name = next((name for name in arrays if arrays[name].shape == shape), None)
        if dtype in ("f4", "bfloat16", "f2"):
            is_norm = shape == (config["d_model"],)
            values = np.ones(shape) if is_norm else 0.02 * random.randn(*shape)
        else:
            values = arrays.pop(name) if name else np.ones(shape)
        inputs.append(np.asarray(values).astype(dtype))
    return inputs


def placed(inputs):
    return [jax.device_put(x, jax.devices()[0]) for x in inputs]


def run(executable, arrays):
    """The outputs of a call, once they are there."""
    found = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    return [output[0].block_until_ready() for output in found]


def timed(executable, arrays, steps, warm_up):
    """Median seconds of a call, and the loss."""
    seconds = []
    for call in range(warm_up + steps):
        start = time.perf_counter()
        loss = float(run(executable, arrays)[0])
        if call >= warm_up:
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), loss


def main():
    import costs
    import work as works

    flags = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    flags.add_argument("directory")
    flags.add_argument(
        "--peak_tflops", type=float, help="of the device, from its data sheet"
    )
    given = flags.parse_args()
    directory = given.directory
    client = jax.devices()[0].client
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")
    with open(os.path.join(directory, "step.json"), encoding="utf-8") as file:
        about = json.load(file)
    text, start = stablehlo(directory), time.perf_counter()
    executable = client.compile_and_load(text, client.devices()[:1])
    print(f"{directory}: compiled in {time.perf_counter() - start:.1f} s")
    shapes, work = parameters(text), works.Work(**about["work"])
    if os.path.exists(os.path.join(directory, "values.npz")):
        tolerance = TOLERANCES[about["precision"]]
        return 0 if compare(directory, executable, shapes, tolerance) else 1
    arrays = placed(random_inputs(shapes, work, about["config"]))
    seconds, loss = timed(executable, arrays, steps=10, warm_up=3)
    used = costs.step_operations(about["config"], work) / seconds / 1e12
    share = ""
    if given.peak_tflops:
        share = f", {100 * used / given.peak_tflops:.1f} % of the peak"
    stats = jax.devices()[0].memory_stats() or {}
    memory = stats.get("peak_bytes_in_use", 0) / 2**30
    print(
        f"{work.kind} {work.batch} x {work.length}, {about['precision']}: {seconds:.4f} s, "
        f"{work.tokens / seconds:.0f} tokens/s, {used:.1f} TFLOP/s{share}, loss {loss:.3f}, "
        f"peak {memory:.2f} GiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
