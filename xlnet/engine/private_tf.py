"""Everything that is reached in private TensorFlow, as of version 2.15.1, and why.

Private names change without a word: look here first after an update of TensorFlow. Nothing else in
the library imports `tensorflow.python`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import function_def_to_graph, kernels, op_def_registry, ops
from tensorflow.python.training import monitored_session


def check_host_answers(name: str, seconds: int) -> None:
    """Asks the host `name` ("/job:worker/replica:0/task:1") for a sign of life.

    `context.context().check_collective_ops_peer_health`: only the context knows the hosts that sum
    together, and no public function asks one of them.

    Raises:
      tf.errors.OpError: no answer within this time.
    """
    context.context().check_collective_ops_peer_health(name, timeout_in_ms=1000 * seconds)


@contextlib.contextmanager
def lost_sessions_are_errors() -> Iterator[None]:
    """Inside, a session that lost a host is an error of the training.

    `monitored_session._PREEMPTION_ERRORS`: the errors after which a `MonitoredSession` makes a new
    session, again and again; there is no public way to turn that off, and sums over hosts that
    were cut off stay so until the program is started again.
    """
    before = monitored_session._PREEMPTION_ERRORS
    monitored_session._PREEMPTION_ERRORS = ()
    try:
        yield
    finally:
        monitored_session._PREEMPTION_ERRORS = before


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
    """The functions of a graph, as loops and branches call them: name to `tf.Graph` with `inputs`
    and `outputs`.

    `function_def_to_graph`: the way from what a graph keeps of a function to its operations.
    """
    return {function.signature.name: function_def_to_graph.function_def_to_graph(function)
            for function in graph.as_graph_def().library.function}
