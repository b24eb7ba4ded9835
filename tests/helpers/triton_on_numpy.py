"""Runs the programs of `fused_attention` on NumPy arrays, in a process of their own, as Triton and
TensorFlow do not go together in one: no GPU is needed.

Triton's interpreter takes anything that looks like a PyTorch tensor. It knows float32 and float16;
a bfloat16 product is wrong there.
"""

import os
import pickle
import subprocess
import sys
import threading

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


class Worker:
    """The process. Use it in a `with` statement."""

    def __enter__(self):
        self._lock = threading.Lock()
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ, TRITON_INTERPRET="1", PYTHONPATH=paths),
        )
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        self._process.wait()

    def run(self, name, grid, inputs, outputs, sizes):
        """Calls a program on arrays and returns its outputs.

        outputs: (shape, dtype) of each; it is filled with NaN before. sizes: its constants.
        """
        with self._lock:  # TensorFlow calls from several threads
            pickle.dump((name, grid, inputs, outputs, sizes), self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)


def answer(name, grid, inputs, outputs, sizes):
    from xlnet.model import fused_attention

    fused_attention.set_sizes(sizes)
    arrays = [np.full(shape, np.nan, dtype) for shape, dtype in outputs]
    contiguous = [np.ascontiguousarray(array) for array in inputs]
    program = getattr(fused_attention, name)
    program[grid](*map(Tensor, contiguous), *map(Tensor, arrays))
    return arrays


def main():
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(*request), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
