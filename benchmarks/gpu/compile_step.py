"""Compiles the program that export_step.py wrote for an H100, on a machine without a GPU, and lists
what its kernels read and write.

    pip install "jax[cuda13]==0.11.2"
    JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 XLA_FLAGS="--xla_gpu_autotune_level=0" \\
        python benchmarks/gpu/compile_step.py steps/pretrain compiled.txt

XLA's flags are read from XLA_FLAGS, so their effect on the kernels can be seen without a GPU.
"""

import math
import re
import sys

import jax
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies
from run_step import stablehlo

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
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "u16": 2, "pred": 1}


def main(directory, output):
    jax.config.update("jax_enable_x64", True)
    topology = topologies.get_topology_desc(
        platform="cuda", topology_name="", target_config=H100, topology="1x1x1"
    )
    devices = topology.devices
    with mlir.make_ir_context():
        module = (
            devices[0]
            .client.compile(
                ir.Module.parse(stablehlo(directory)),
                xla_client.DeviceList(tuple(devices)),
                xla_client.CompileOptions(),
            )
            .hlo_modules()[0]
            .to_string()
        )
    with open(output, "w", encoding="utf-8") as file:
        file.write(module)
    print_traffic(module)


def print_traffic(module):
    """Prints what the kernels of a compiled program read and write, and those that do most.

    The operands and the results of each kernel, without workspaces. A kernel that reads an operand
    twice, or finds it in a cache, is counted once.
    """
    sizes, kernels = {}, []
    for line in module[module.index("ENTRY ") :].splitlines()[1:]:
        found = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)", line)
        if not found:
            continue
        name, shape, kind, rest = found.groups()
        sizes[name] = bytes_of(shape)
        if kind in ("bitcast", "get-tuple-element", "parameter", "tuple", "constant"):
            continue
        operands = dict.fromkeys(re.findall(r"%([\w.\-]+)", rest.split("), ")[0]))
        read = sum(sizes.get(operand, 0) for operand in operands)
        kernels.append((read, sizes[name], name, shape))
    read, written = (sum(kernel[part] for kernel in kernels) for part in (0, 1))
    print(
        f"{len(kernels)} kernels and copies read {read / 1e9:.1f} GB and write {written / 1e9:.1f} "
        f"GB, {(read + written) / 1e9:.1f} GB together"
    )
    for read, written, name, shape in sorted(kernels, key=lambda one: -one[0] - one[1])[:40]:
        print(f"{(read + written) / 1e6:8.1f} MB  {name}  {shape[:80]}")


def bytes_of(shape):
    """The bytes of a shape, or of a tuple of shapes, without int8: those are workspaces."""
    total = 0
    for dtype, dimensions in re.findall(r"\b(\w+)\[([\d,]*)\]", shape):
        numbers = [int(number) for number in dimensions.split(",") if number]
        total += BYTES.get(dtype, 0) * math.prod(numbers)
    return total


if __name__ == "__main__":
    main(*sys.argv[1:3])
