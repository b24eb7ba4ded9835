"""All uses of private TensorFlow, in versions 2.15.1 to 2.21.0, with the reason for each.

Private names may change without notice: look here first after an update of TensorFlow. Nothing else
in the library imports `tensorflow.python`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import kernels, op_def_registry, ops


def check_host_answers(name: str, seconds: int) -> None:
    """Checks that the host `name` ("/job:worker/replica:0/task:1") answers.

    `context.context().check_collective_ops_peer_health`: only the context knows the hosts of a
    collective operation, and no public function checks one of them.

    Raises:
      tf.errors.OpError: no answer within this time.
    """
    context.context().check_collective_ops_peer_health(name, timeout_in_ms=1000 * seconds)


@contextlib.contextmanager
def gradients_forgotten() -> Iterator[None]:
    """Unregisters at its end the custom gradients that were registered inside, so that their graph
    can be freed. They must not be used afterwards.

    `ops.gradient_registry._registry`: each use of a custom gradient in a graph adds an entry, whose
    closure holds tensors of the graph. TensorFlow never removes entries: no graph would be freed.
    """
    registry = ops.gradient_registry._registry
    before = set(registry)
    try:
        yield
    finally:
        for name in [name for name in registry if name not in before]:
            del registry[name]


def registered_kernels(op_type: str) -> list[Any]:
    """The `KernelDef`s of an operation, those for CUDA included, also without a GPU.

    `kernels.get_registered_kernels_for_op`: no public function tells which tensors of an operation
    a kernel expects in host memory.
    """
    return list(kernels.get_registered_kernels_for_op(op_type).kernel)


def op_definition(op_type: str) -> Any:
    """The `OpDef` of an operation, None for a call of a function by name.

    `op_def_registry.get`: no public function has the names of inputs and outputs.
    """
    return op_def_registry.get(op_type)


def function_graphs(graph: Any) -> dict[str, Any]:
    """The functions of a graph: dict of name to `tf.Graph` with `inputs` and `outputs`.

    `graph._get_function`: the graph that a function was made from, with all shapes; a `GraphDef`
    lacks those of the results of calls.
    """
    return {function.signature.name: graph._get_function(function.signature.name).graph
            for function in graph.as_graph_def().library.function}
