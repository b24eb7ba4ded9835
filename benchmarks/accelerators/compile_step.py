"""Compiles the program that export_step.py wrote for a GPU or a TPU, on a machine without one: what
its compiler says of memory, operations and bytes.

    pip install "jax[cuda13]==0.11.2"       for h100
    pip install "jax[tpu]==0.10.2"          for v5e, v6e, v5p: brings libtpu, the compiler of TPUs
    python benchmarks/accelerators/compile_step.py steps/pretrain v5e --output=compiled.txt

Nothing runs. A program that does not fit the memory is refused. For h100 XLA's flags are read
from XLA_FLAGS, so their effect on the kernels can be seen; give --xla_gpu_autotune_level=0, as
kernels cannot be timed.
"""

import argparse
import math
import os
import re
import time
from typing import NamedTuple

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


def compiled(directory, chip):
    """(the compiled program, the name of the chip, the seconds that it took)."""
    devices = devices_of(chip)[:1]
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from run_step import stablehlo

    with mlir.make_ir_context():
        module = ir.Module.parse(stablehlo(directory))
        began = time.time()
        found = devices[0].client.compile(
            module, xla_client.DeviceList(tuple(devices)), xla_client.CompileOptions()
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
        "compiler counts"
    )


def print_traffic(module, top):
    """Prints what the kernels of a compiled program read and write, and those that do most.

    The operands and the results of each kernel, without workspaces. A kernel that reads an operand
    twice, or finds it in a cache, is counted once; what stays in a TPU's fast memory, space 1 and
    above, is not counted.
    """
    kernels = kernels_of(module)
    read = sum(kernel.read for kernel in kernels)
    written = sum(kernel.written for kernel in kernels)
    cycles = sum(kernel.cycles for kernel in kernels)
    print(
        f"{len(kernels)} kernels and copies read {read / 1e9:.1f} GB and write "
        f"{written / 1e9:.1f} GB, {(read + written) / 1e9:.1f} GB together"
    )
    # a TPU's compiler estimates them, but not those of copies between memories
    if cycles:
        print(f"{cycles:.3g} cycles, as the compiler estimates")
    kernels.sort(key=lambda one: -one.read - one.written)
    for one in kernels[:top]:
        size = (one.read + one.written) / 1e6
        print(f"{size:8.1f} MB  {one.name}  {one.shape[:80]}")


class Kernel(NamedTuple):
    """A kernel or a copy: bytes that it reads and writes; its cycles, as the compiler of TPUs
    estimates."""

    read: int
    written: int
    cycles: int
    name: str
    shape: str


def kernels_of(module):
    """The `Kernel`s of a program: it has no loops."""
    entry = module[module.index("\nENTRY ") :].split("\n}")[0]
    sizes, kernels = {}, []
    for line in entry.splitlines():
        found = re.match(
            r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)", line
        )
        if not found:
            continue
        name, shape, kind, rest = found.groups()
        sizes[name] = 0 if kind in ASYNCHRONOUS else bytes_of(shape)
        if kind in ("bitcast", "get-tuple-element", "parameter", "tuple", "constant"):
            continue
        operands = set(re.findall(r"%([\w.\-]+)", rest.split("), ")[0]))
        read = sum(sizes.get(operand, 0) for operand in operands)
        cycles = re.search(r'"estimated_cycles":"(\d+)"', rest)
        estimate = int(cycles.group(1)) if cycles else 0
        kernels.append(Kernel(read, sizes[name], estimate, name, shape))
    return kernels


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
    flags.add_argument("--output", help="file for the compiled program, as text")
    flags.add_argument("--top", type=int, default=40, help="kernels to list")
    given = flags.parse_args()
    try:
        program, name, seconds = compiled(given.directory, given.chip)
    except Exception as error:  # JAX's: the classes differ between its versions
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        print(
            f"{given.directory}: refused for {given.chip}: {str(error).splitlines()[0]}"
        )
        return
    print(f"{given.directory}: compiled for {name} in {seconds:.0f} s")
    print_costs(program, given.chip)
    module = program.hlo_modules()[0].to_string()
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            file.write(module)
    print_traffic(module, given.top)


if __name__ == "__main__":
    main()
