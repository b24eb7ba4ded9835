"""How a layer enters TensorFlow's graph: computed again in the backward pass (gradient
checkpointing), and built once for all layers, as a function.

The numbers are those of plain calls of the layer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model.ops import gradients
from xlnet.model.parameters import LayerContext
from xlnet.model.stateless_random import fold_in


def wrapped(layer: Callable[..., Any], net: LayerContext) -> Callable[..., Any]:
    """`layer(net, **inputs)` as a function `(number, **inputs)`, in the form of the run.

    Args:
      layer: reads no variables, so that it can run again and be traced once; its inputs are nests
        of tensors and of other values. It gets a context of its own, whose dropout depends on the
        number of the layer.
      net: the context of the network.
    """
    run = net.run

    def with_context(seed: Any, first_row: Any, inputs: dict[str, Any]) -> Any:
        return layer(LayerContext(net.config, run, seed, first_row), **inputs)

    function: Callable[..., Any] = with_context
    is_compiled = run.device in ("xla", "tpu")
    if run.is_training and run.recompute:
        function = functools.partial(recomputed, function, is_compiled)
    # Not for XLA: if shapes go from a function to its gradient, it takes all inputs of the function
    # for constants, and would compile for each batch.
    if run.traced_once and not is_compiled:
        function = traced_once(function)

    def call(number: int, **inputs: Any) -> Any:
        seed = None if net.seed is None else fold_in(net.seed, -1 - number)
        return function(seed, net.first_row, inputs)

    return call


def not_constant(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """Tensors behind XLA's optimization barrier.

    TensorFlow and XLA compute beforehand what follows from constants, and compute once what is
    written twice; they do not look behind it.
    """
    from tensorflow.compiler.tf2xla.python import xla  # a part that others do not need

    return list(xla.optimization_barrier(*tensors))


def recomputed(function: Callable[..., Any], is_compiled: bool, *inputs: Any) -> Any:
    """Gradient checkpointing: `function(*inputs)` without keeping its intermediate tensors.

    The backward pass runs `function` again, so it must depend on its inputs, nests of tensors and
    other values, alone: it reads no variables, and its dropout masks come from a seed among them.
    Its outputs are a nest of tensors and None. is_compiled: whether XLA compiles it.
    """
    leaves = tf.nest.flatten(inputs)
    indices = [i for i, leaf in enumerate(leaves) if tf.is_tensor(leaf)]
    structures = []  # of the outputs, once they are known

    def call(tensors: Any) -> list[tf.Tensor]:
        """The outputs that are tensors."""
        filled = dict(zip(indices, tensors))
        given = [filled.get(i, leaf) for i, leaf in enumerate(leaves)]
        outputs = function(*tf.nest.pack_sequence_as(inputs, given))
        structures.append(outputs)
        return [output for output in tf.nest.flatten(outputs) if output is not None]

    @tf.custom_gradient
    def forward(*tensors: tf.Tensor) -> Any:
        def gradient(*dys: tf.Tensor) -> Any:
            # Not before the backward pass, and not merged with the forward pass.
            if is_compiled:
                behind = not_constant(*tensors, *dys)
                again, dys_behind = behind[: len(tensors)], behind[len(tensors) :]
            else:
                with tf.control_dependencies(dys):
                    again = [tf.identity(x) for x in tensors]
                dys_behind = list(dys)
            with tf.name_scope("recomputed"):
                return gradients(call(again), again, dys_behind)

        return call(tensors), gradient

    computed = iter(forward(*(leaves[i] for i in indices)))
    return tf.nest.map_structure(
        lambda output: None if output is None else next(computed), structures[0]
    )


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, traced once together with its gradient for all calls with inputs of the same
    shapes, and the same values where they are no tensors.

    It must depend on its inputs, nests of tensors, alone; a variable among them would be that of
    the first call in all calls. Each call is one operation, which the session inlines: see
    `devices.Devices.session_config`.
    """
    return tf2.function(lambda *inputs: function(*inputs), autograph=False)
