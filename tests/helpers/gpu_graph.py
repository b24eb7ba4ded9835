"""What of a training step has no GPU kernel, and what it would copy between GPU and host.

No GPU is needed: TensorFlow's wheel for Linux knows its CUDA kernels everywhere, and each says
which of its tensors are in the memory of the host. Where one operation leaves a tensor in the
GPU's memory and another one wants it on the host, TensorFlow copies it, in every step; a copy to
the host makes the host wait until the GPU has done all before it.

The analysis takes the graph as it is built, on one GPU: each operation that has a CUDA kernel runs
there. TensorFlow's rewriting of the graph removes operations, and so copies, but adds none.
"""

import collections
import dataclasses
import functools
import math
from typing import Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels, op_def_registry

from helpers.matmuls import ancestors, function_graphs

SMALL = 4096  # bytes that may go to the GPU in a step: scalars and shapes

# No kernels are asked for: calls of functions, whose insides are looked at by themselves, and what
# a function is called with.
_CALLS = (
    *("While", "StatelessWhile", "If", "StatelessIf"),
    *("PartitionedCall", "StatefulPartitionedCall"),
)
_GIVEN = ("Placeholder", "_Arg")
_ON_HOST = (tf.int32, tf.string, tf.resource)  # where a function takes or returns them


@dataclasses.dataclass(frozen=True)
class Copy:
    """A tensor that one operation leaves where another one cannot read it.

    size: bytes; None where the shape is not known before the step.
    """

    source: str
    readers: tuple
    dtype: str
    shape: tuple
    size: Optional[int]

    def __str__(self):
        readers = ", ".join(self.readers)
        return f"{self.dtype} {list(self.shape)} of {self.source}, read by {readers}"


@dataclasses.dataclass(frozen=True)
class Analysis:
    """The operations of a step, those without a CUDA kernel; the `Copy`s to the host and to the
    device, those of the batch apart."""

    operations: list
    without_kernel: list
    to_host: list
    to_device: list
    batch: list


def analyse(fetches) -> Analysis:
    """The `Analysis` of what `fetches`, operations or tensors, make run."""
    graph = fetches[0].graph
    functions = function_graphs(graph)
    found = Analysis([], [], [], [], [])
    waiting = [("", graph, [getattr(fetch, "op", fetch) for fetch in fetches])]
    seen = set()
    while waiting:
        part = _Part(*waiting.pop())
        part.analyse(found)
        for name in sorted(part.called() - seen):
            body = functions[name]
            stateful = [op for op in body.get_operations() if op.op_def.is_stateful]
            ends = [end.op for end in body.outputs] + stateful
            waiting.append((name + "/", body, ends))
        seen |= part.called()
    return found


class _Part:
    """A graph, or that of a function: the operations that have to run for its `ends`."""

    def __init__(self, where, graph, ends):
        self._where = where
        self._nodes = {node.name: node for node in graph.as_graph_def().node}
        self.operations = sorted(ancestors(ends), key=lambda op: op.name)

    def called(self):
        """Names of functions that are called, but for those compiled by XLA: they are one kernel
        each."""
        found = set()
        for op in self.operations:
            attr = self._nodes[op.name].attr
            if op.type in _CALLS and not attr["_XlaMustCompile"].b:
                names = {"cond", "body", "then_branch", "else_branch", "f"} & set(attr)
                found |= {attr[name].func.name for name in names}
        return found

    def analyse(self, found):
        """Adds to the lists of an `Analysis`."""
        found.operations.extend(self.operations)
        for op in self.operations:
            if op.type not in (*_CALLS, *_GIVEN) and self._kernel(op) is None:
                tensors = (*op.inputs, *op.outputs)
                dtypes = sorted({tensor.dtype.base_dtype.name for tensor in tensors})
                name = f"{op.type} of {', '.join(dtypes)} ({self._where + op.name})"
                found.without_kernel.append(name)
        for tensor, on_host, ops in self._readings():
            copy = self._copy(tensor, ops)
            if not self._where and tensor.op.type == "Placeholder":
                # of the batch: in the GPU's memory, or on the way to it
                (found.to_host if on_host else found.batch).append(copy)
            elif on_host and not self._is_left_on_host(tensor):
                found.to_host.append(copy)
            elif not on_host and self._is_left_on_host(tensor):
                found.to_device.append(copy)

    def _readings(self):
        """(tensor, whether it is read on the host, the operations that do) of each place."""
        readers = collections.defaultdict(list)
        for op in self.operations:
            for tensor, on_host in zip(op.inputs, self._places(op, "input_arg")):
                readers[tensor.ref(), on_host].append(op)
        return [
            (tensor.deref(), *rest, ops) for (tensor, *rest), ops in readers.items()
        ]

    def _copy(self, tensor, readers):
        shape = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
        dtype = tensor.dtype.base_dtype
        return Copy(
            f"{tensor.op.type} ({self._where + tensor.op.name})",
            tuple(sorted({f"{op.type} ({self._where + op.name})" for op in readers})),
            dtype.name,
            tuple(shape),
            size=None if None in shape else math.prod(shape) * dtype.size,
        )

    def _is_left_on_host(self, tensor):
        return self._places(tensor.op, "output_arg")[tensor.value_index]

    def _places(self, op, side):
        """Whether each input or output of an operation is in the memory of the host."""
        tensors = op.inputs if side == "input_arg" else op.outputs
        if op.type in (*_CALLS, *_GIVEN):
            return [tensor.dtype.base_dtype in _ON_HOST for tensor in tensors]
        kernel, attr = self._kernel(op), self._nodes[op.name].attr
        if kernel is None:
            return [True] * len(tensors)
        places = []
        for argument in getattr(op_def_registry.get(op.type), side):
            count = 1
            if argument.number_attr:
                count = attr[argument.number_attr].i
            elif argument.type_list_attr:
                count = len(attr[argument.type_list_attr].list.type)
            places += count * [argument.name in kernel.host_memory_arg]
        return places

    def _kernel(self, op):
        """The CUDA kernel of an operation, a `KernelDef`; None if it has to run on the CPU."""
        attr, found = self._nodes[op.name].attr, []
        for kernel in _kernels(op.type):
            for one in kernel.constraint:
                dtypes = attr[one.name].list.type or (attr[one.name].type,)
                if not set(dtypes) <= set(one.allowed_values.list.type):
                    break
            else:
                found.append(kernel)
        # "DEFAULT" is for any device; a kernel of the GPU goes before it.
        order = lambda kernel: (kernel.device_type == "GPU", kernel.priority)
        return max(found, key=order, default=None)


@functools.cache
def _kernels(op_type):
    """The `KernelDef`s of an operation for CUDA, also without a GPU: no public function tells which
    tensors a kernel expects in host memory."""
    found = kernels.get_registered_kernels_for_op(op_type).kernel
    return [kernel for kernel in found if kernel.device_type in ("GPU", "DEFAULT")]


# ---- a step


def faults(analysis):
    """What a step must not do, in words: operations that only a CPU has, copies to the host, copies
    to the GPU that are larger than `SMALL` or of unknown size."""
    is_large = lambda copy: copy.size is None or copy.size > SMALL
    return [
        *("no CUDA kernel: " + operation for operation in analysis.without_kernel),
        *(f"to the host: {copy}" for copy in analysis.to_host),
        *(f"to the GPU: {copy}" for copy in filter(is_large, analysis.to_device)),
    ]
