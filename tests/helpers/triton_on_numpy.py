"""Runs the programs of `fused_attention` on NumPy arrays: no GPU is needed.

Triton's interpreter takes anything that looks like a PyTorch tensor. It knows float32 and float16;
a bfloat16 product is wrong there.
"""

import importlib.util
import os

import numpy as np
from helpers.paths import ROOT


class Tensor:
    """A NumPy array with the attributes of a tensor on the CPU that the interpreter reads."""

    device = type("Device", (), {"type": "cpu"})()

    def __init__(self, array):
        assert array.flags.c_contiguous
        self.array = array

    @property
    def dtype(self):
        return self.array.dtype

    def data_ptr(self):
        return self.array.ctypes.data

    # The interpreter copies a tensor's storage to the CPU and back: this one is there already.
    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def copy_(self, other):
        pass

    def new_empty(self, *size, **options):
        return self

    def set_(self, *storage):
        return self

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return ()


def interpreted():
    """The module `fused_attention` with programs that run on NumPy arrays."""
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        path = ROOT / "xlnet" / "network" / "fused_attention.py"
        spec = importlib.util.spec_from_file_location("interpreted_attention", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before


def run(program, grid, inputs, outputs, **constants):
    """Calls a program on arrays; outputs: (shape, dtype) of each, filled with NaN before."""
    arrays = [np.full(shape, np.nan, dtype) for shape, dtype in outputs]
    contiguous = [np.ascontiguousarray(array) for array in inputs]
    program[grid](*map(Tensor, contiguous), *map(Tensor, arrays), **constants)
    return arrays
