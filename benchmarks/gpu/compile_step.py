"""Compiles the program that export_step.py wrote for an H100, on a machine without a GPU, and lists
its largest tensors: what a step reads and writes.

    pip install "jax[cuda13]==0.11.2"
    JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 XLA_FLAGS="--xla_gpu_autotune_level=0" \\
        python benchmarks/gpu/compile_step.py steps/pretrain compiled.txt

XLA's flags are read from XLA_FLAGS, so their effect on the kernels can be seen without a GPU.
"""

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
    sizes = []
    for line in module[module.index("ENTRY ") :].splitlines():
        if found := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (\S+?)\{.*? ([\w\-]+)\(", line):
            name, shape, kind = found.groups()
            dtype, _, numbers = shape.strip("(").partition("[")
            count = BYTES.get(dtype, 0)
            for number in re.findall(r"\d+", numbers.partition("]")[0]):
                count *= int(number)
            if kind not in ("bitcast", "get-tuple-element", "parameter", "tuple"):
                sizes.append((count, name, shape))
    print(f"{len(sizes)} kernels and copies")
    for count, name, shape in sorted(sizes, reverse=True)[:40]:
        print(f"{count / 1e6:8.1f} MB  {name}  {shape}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
