"""Everything that is reached in private TensorFlow, in versions 2.15.1 to 2.21.0, and why.

Private names change without a word: look here first after an update of TensorFlow. Nothing else in
the library imports `tensorflow.python`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import kernels, op_def_registry, ops


def check_host_answers(name: str, seconds: int) -> None:
    """Asks the host `name` ("/job:worker/replica:0/task:1") for a sign of life.

    `context.context().check_collective_ops_peer_health`: only the context knows the hosts that sum
    together, and no public function asks one of them.

    Raises:
      tf.errors.OpError: no answer within this time.
    """
    context.context().check_collective_ops_peer_health(name, timeout_in_ms=1000 * seconds)


@contextlib.contextmanager
def gradients_forgotten() -> Iterator[None]:
    """The gradients of `tf.custom_gradient`s that are made inside are forgotten behind it, so that
    the graph which they belong to can go; what is inside ends with the use of these gradients.

    `ops.gradient_registry._registry`: each use of a custom gradient in a graph adds an entry, whose
    closure has tensors of the graph, and TensorFlow never removes one: every graph stays for ever.
    """
    registry = ops.gradient_registry._registry
    before = set(registry)
    try:
        yield
    finally:
        for name in [name for name in registry if name not in before]:
            del registry[name]


def registered_kernels(op_type: str) -> list[Any]:
    """The `KernelDef`s of an operation: those for CUDA too, whether there is a GPU or not.

    `kernels.get_registered_kernels_for_op`: no public function says which of an operation's tensors
    a kernel has in the memory of the host.
    """
    return list(kernels.get_registered_kernels_for_op(op_type).kernel)


def op_definition(op_type: str) -> Any:
    """The `OpDef` of an operation, None for a function's call by its name.

    `op_def_registry.get`: the names of an operation's inputs and outputs.
    """
    return op_def_registry.get(op_type)


def function_graphs(graph: Any) -> dict[str, Any]:
    """The functions that a graph may call: name to `tf.Graph` with `inputs` and `outputs`.

    `graph._get_function`: the graph that a function was made from, with all of its shapes; what a
    `GraphDef` has of it lacks those behind calls.
    """
    return {function.signature.name: graph._get_function(function.signature.name).graph
            for function in graph.as_graph_def().library.function}
