"""Compiles a program of `fused_attention` to PTX, as a process of its own.

    python -m xlnet.model.compile_attention < request.json > program.json

Triton and TensorFlow each bring an LLVM, and a process that loads both can end there. The request
has the arguments of `compile_program`; the answer is what it returns.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Union


def compile_program(
    name: str,
    types: list[str],
    constants: dict[str, Union[int, bool]],
    capability: int,
    warps: int,
    stages: int,
    ptx_version: int,
) -> dict[str, Any]:
    """Compiles one program; needs no GPU.

    Args:
      name: of the program in `fused_attention`.
      types: Triton's types of its pointers, such as "*bf16", in their order.
      constants: values of its constants; it has those that it names.
      capability: of the GPU, 90 for an H100.
      warps: 32 threads each, that run a block together.
      stages: how many iterations of a loop load their data at once.
      ptx_version: 85 for PTX 8.5.

    Returns:
      name: of the entry. ptx: the code. threads and shared_bytes: of a block. num_parameters: how
      many pointers the entry takes.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from xlnet.model import fused_attention

    function = getattr(fused_attention, name)
    signature, values, alignment = {}, {}, {}
    pointer_types = iter(types)
    for index, argument in enumerate(function.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
            values[(index,)] = constants[argument]
        else:
            signature[argument] = next(pointer_types)
            alignment[(index,)] = [["tt.divisibility", 16]]  # XLA aligns its buffers
    kernel = triton.compile(
        ASTSource(fn=function, signature=signature, constexprs=values, attrs=alignment),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": warps, "num_stages": stages, "ptx_version": ptx_version},
    )
    ptx = kernel.asm["ptx"]
    start = ptx.index(".entry")
    entry = ptx[start : ptx.index(")", start)]
    return {
        "name": kernel.metadata.name,
        "ptx": ptx,
        "threads": 32 * kernel.metadata.num_warps,
        "shared_bytes": kernel.metadata.shared,
        "num_parameters": entry.count(".param"),
    }


if __name__ == "__main__":
    json.dump(compile_program(**json.load(sys.stdin)), sys.stdout)
