"""Compiles the program that export_step.py wrote for a GPU or a TPU, on a machine without one: what
its compiler says of memory, operations and bytes.

    pip install "jax[cuda13]==0.11.2"       for h100
    pip install "jax[tpu]==0.10.2"          for v5e, v6e, v5p: brings libtpu, the compiler of TPUs
    python benchmarks/accelerators/compile_step.py steps/pretrain v5e --output=compiled.txt

Nothing runs. A program that does not fit the memory is refused. For h100 XLA's flags are read
from XLA_FLAGS, so their effect on the kernels can be seen; give --xla_gpu_autotune_level=0, as
kernels cannot be timed. With --replicas=4 the loss and the gradients are summed over four chips, as
tf.distribute does after this program.
"""

import argparse
import json
import math
import os
import re
import time
from typing import NamedTuple

import numpy as np

H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
# The smallest topology of a chip, and the accelerator type that libtpu reads from the environment.
TPUS = {
    "v5e": ("v5e:2x2", "v5litepod-4", {"chips_per_host_bounds": (2, 2, 1)}),
    "v6e": ("v6e:2x2", "v6e-4", {}),
    "v5p": ("v5p:2x2x1", "v5p-8", {}),
}
BYTES = {
    "f32": 4,
    "bf16": 2,
    "f16": 2,
    "u32": 4,
    "s32": 4,
    "u64": 8,
    "s64": 8,
    "u16": 2,
    "pred": 1,
}
# They name their operands twice: where they start and where they end.
ASYNCHRONOUS = (
    "copy-start",
    "slice-start",
    "dynamic-slice-start",
    "all-reduce-start",
    "fusion-start",
)


def devices_of(chip):
    """The devices of a machine that is not there."""
    if chip == "h100":
        os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
        arguments = dict(
            platform="cuda", topology_name="", target_config=H100, topology="1x1x1"
        )
    else:
        name, accelerator, bounds = TPUS[chip]
        os.environ.update(
            TPU_SKIP_MDS_QUERY="1",
            TPU_ACCELERATOR_TYPE=accelerator,
            TPU_WORKER_HOSTNAMES="localhost",
            TPU_WORKER_ID="0",
        )
        arguments = dict(platform="tpu", topology_name=name, **bounds)
    from jax.experimental import topologies

    return topologies.get_topology_desc(**arguments).devices


def sum_results(module, replicas, kept):
    """Sums over replicas what the program returns, loss and gradients; but not the last `kept`
    results."""
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    for main in module.body.operations:
        if ir.StringAttr(main.attributes["sym_name"]).value == "main":
            break
    block = main.regions[0].blocks[0]
    done = list(block.operations)[-1]
    groups = ir.DenseElementsAttr.get(
        np.arange(replicas, dtype="int64").reshape(1, replicas)
    )
    for index, value in enumerate(list(done.operands)[: len(done.operands) - kept]):
        kind = ir.RankedTensorType(value.type)
        with ir.InsertionPoint(done), ir.Location.unknown():
            total = hlo.AllReduceOp([kind], [value], groups)
            scalar = ir.RankedTensorType.get([], kind.element_type)
            adder = total.regions[0].blocks.append(scalar, scalar)
            with ir.InsertionPoint(adder):
                hlo.return_([hlo.add(*adder.arguments)])
        done.operands[index] = total.results[0]


def compiled(directory, chip, replicas):
    """(the compiled program, the name of the chip, the seconds that it took)."""
    devices = devices_of(chip)
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from run_step import stablehlo

    options = xla_client.CompileOptions()
    options.num_replicas = replicas
    assignment = np.arange(replicas).reshape(replicas, 1)
    with mlir.make_ir_context():
        module = ir.Module.parse(stablehlo(directory))
        if replicas > 1:
            with open(os.path.join(directory, "step.json"), encoding="utf-8") as file:
                has_memory = json.load(file)["work"]["memory"] > 0
            sum_results(
                module, replicas, int(has_memory)
            )  # each replica has its own memory
            options.device_assignment = xla_client.DeviceAssignment.create(assignment)
        began = time.time()
        found = devices[0].client.compile(
            module, xla_client.DeviceList(tuple(devices[:replicas])), options
        )
    return found, devices[0].device_kind, time.time() - began


def print_costs(program, chip):
    """Prints what the compiler says of the program: its memory; for a TPU also its estimate of the
    work, which that of GPUs does not give."""
    memory = program.get_compiled_memory_stats()
    print(
        f"memory: arguments {memory.argument_size_in_bytes / 1e9:.2f} GB, results "
        f"{memory.output_size_in_bytes / 1e9:.2f} GB, temporaries "
        f"{memory.temp_size_in_bytes / 1e9:.2f} GB, program "
        f"{memory.generated_code_size_in_bytes / 1e6:.1f} MB"
    )
    if chip == "h100":
        return
    cost = program.cost_analysis()
    print(
        f"{cost['flops']:.3g} operations, {cost['bytes accessed'] / 1e9:.1f} GB accessed, as its "
        "compiler counts: of a loop it counts one turn"
    )


def print_traffic(module, top):
    """Prints what the kernels of a compiled program read and write, and those that do most; those
    of a loop as often as it runs.

    The operands and the results of each kernel, without workspaces. A kernel that reads an operand
    twice, or finds it in a cache, is counted once; what stays in a TPU's fast memory, space 1 and
    above, is not counted. Of a stacked tensor only the slice that a kernel reads or writes counts.
    """
    kernels = kernels_of(computations_of(module), "ENTRY")
    count = read = written = cycles = 0
    for kernel in kernels:
        count += kernel.times
        read += kernel.times * kernel.read
        written += kernel.times * kernel.written
        cycles += kernel.times * kernel.cycles
    print(
        f"{count} kernels and copies, of {len(kernels)} in the "
        f"program, read {read / 1e9:.1f} GB and write {written / 1e9:.1f} GB, "
        f"{(read + written) / 1e9:.1f} GB together"
    )
    # a TPU's compiler estimates them, but not those of copies between memories
    if cycles:
        print(f"{cycles:.3g} cycles, as the compiler estimates")
    kernels.sort(key=lambda one: -one.times * (one.read + one.written))
    for one in kernels[:top]:
        size = (one.read + one.written) / 1e6
        print(f"{one.times:3} x {size:8.1f} MB  {one.name}  {one.shape[:80]}")
    reduced = re.findall(r"= (\(.*?\)|\S+) all-reduce(?:-start)?\(", module)
    if reduced:
        total = sum(bytes_of(shape) for shape in reduced)
        print(f"{len(reduced)} all-reduces of {total / 1e6:.0f} MB together")


def computations_of(module):
    """The lines of each computation of a program, by its name; of the first one by "ENTRY"."""
    computations, lines = {}, None
    for line in module.splitlines():
        found = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if found:
            lines = computations["ENTRY" if found.group(1) else found.group(2)] = []
        elif lines is not None:
            lines.append(line)
    return computations


def operations_of(lines):
    """(name, shape, kind, names of the operands, the rest) of each operation of a computation."""
    for line in lines:
        found = re.match(
            r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)", line
        )
        if found:
            name, shape, kind, rest = found.groups()
            operands = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
            yield name, shape, kind, operands, rest


class Kernel(NamedTuple):
    """A kernel or a copy: how often a step runs it; bytes that it reads and writes each time; its
    cycles, as the compiler of TPUs estimates."""

    times: int
    read: int
    written: int
    cycles: int
    name: str
    shape: str


def kernels_of(computations, computation):
    """The `Kernel`s of a computation and of its loops."""
    sizes, kernels, old = {}, [], {}  # old: bytes of a result that are not written
    for name, shape, kind, operands, rest in operations_of(computations[computation]):
        sizes[name] = 0 if kind in ASYNCHRONOUS else bytes_of(shape)
        if kind in ("bitcast", "get-tuple-element", "parameter", "tuple", "constant"):
            continue
        if kind == "while":
            times, body = loop_of(computations, rest)
            inner = kernels_of(computations, body)
            kernels += [kernel._replace(times=times * kernel.times) for kernel in inner]
            continue
        reads = {operand: sizes.get(operand, 0) for operand in operands}
        written = sizes[name]
        if kind == "dynamic-slice":
            reads[operands[0]] = written
        elif kind == "dynamic-update-slice":
            written = reads[operands[1]]
            reads[operands[0]] = 0
        elif kind in ("fusion", "fusion-start"):
            inner = re.search(r"calls=%?([\w.\-]+)", rest).group(1)
            of_slices, old[name] = slices_of(computations[inner])
            reads.update({operands[index]: size for index, size in of_slices.items()})
        if kind in ("fusion", "fusion-done"):
            written -= old[operands[0] if kind == "fusion-done" else name]
        found = re.search(r'"estimated_cycles":"(\d+)"', rest)
        cycles = int(found.group(1)) if found else 0
        kernels.append(Kernel(1, sum(reads.values()), written, cycles, name, shape))
    return kernels


def loop_of(computations, rest):
    """How often a loop runs, and the name of its body. The network's loops count from 0 to a
    constant; the compiler of GPUs writes the number down."""
    condition = re.search(r"condition=%?([\w.\-]+)", rest).group(1)
    body = re.search(r"body=%?([\w.\-]+)", rest).group(1)
    lines = "\n".join(computations[condition])
    found = re.search(r'"known_trip_count":\{"n":"(\d+)"', rest) or re.search(
        r" s32\[\]\S* constant\((\d+)\)", lines
    )
    return int(found.group(1)), body


def slices_of(lines):
    """Of a fused computation: the bytes that are read of each parameter of which only slices are,
    by its index; and the bytes of results that are not written, as only a slice of them is new."""
    sizes, parameters, users, old = {}, {}, {}, 0
    for name, shape, kind, operands, rest in operations_of(lines):
        sizes[name] = bytes_of(shape)
        if kind == "parameter":
            parameters[int(rest.split(")")[0])] = name
        if kind == "dynamic-update-slice":
            old += sizes[name] - sizes[operands[1]]
        for index, operand in enumerate(operands):
            users.setdefault(operand, []).append((kind, index, name))

    of_slices = {}
    for index, parameter in parameters.items():
        of_it = users.get(parameter, [])
        if all(kind.startswith("dynamic-") and not place for kind, place, _ in of_it):
            # An update of a slice reads nothing of the tensor that it is put into.
            read = [sizes[user] for kind, _, user in of_it if kind == "dynamic-slice"]
            of_slices[index] = sum(read)
    return of_slices, old


def bytes_of(shape):
    """The bytes in main memory of a shape, or of a tuple of shapes, without int8: those are
    workspaces."""
    total = 0
    for dtype, dimensions, layout in re.findall(
        r"\b(\w+)\[([\d,]*)\](\{[^}]*\})?", shape
    ):
        if re.search(r"S\([1-9]", layout):
            continue
        numbers = [int(number) for number in dimensions.split(",") if number]
        total += BYTES.get(dtype, 0) * math.prod(numbers)
    return total


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    flags.add_argument("directory")
    flags.add_argument("chip", choices=["h100", *TPUS])
    flags.add_argument(
        "--replicas", type=int, default=1, help="chips that sum their gradients"
    )
    flags.add_argument("--output", help="file for the compiled program, as text")
    flags.add_argument("--top", type=int, default=40, help="kernels to list")
    given = flags.parse_args()
    try:
        program, name, seconds = compiled(given.directory, given.chip, given.replicas)
    except Exception as error:  # JAX's: the classes differ between its versions
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        print(
            f"{given.directory}: refused for {given.chip}: {str(error).splitlines()[0]}"
        )
        return
    print(
        f"{given.directory}: compiled for {name} x {given.replicas} in {seconds:.0f} s"
    )
    print_costs(program, given.chip)
    module = program.hlo_modules()[0].to_string()
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            file.write(module)
    print_traffic(module, given.top)


if __name__ == "__main__":
    main()
