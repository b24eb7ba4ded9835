"""How a layer enters TensorFlow's graph: computed again in the backward pass (gradient
checkpointing), and built once for all layers, as a function or as a loop.

The numbers are those of plain calls of the layer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model.kernels import Weights
from xlnet.model.ops import gradients
from xlnet.model.parameters import LayerContext
from xlnet.model.stateless_random import folding


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
    # Compiled, all layers but the last are `looped`. The last is the first one of the backward
    # pass, which needs its intermediate tensors at once.
    if run.is_training and run.recompute and not is_compiled:
        function = functools.partial(recomputed, function)
    # Not for XLA: if shapes go from a function to its gradient, it takes all inputs of the function
    # for constants, and would compile for each batch.
    if run.traced_once and not is_compiled:
        function = traced_once(function)
    fold = None if net.seed is None else folding(net.seed)

    def call(number: int, **inputs: Any) -> Any:
        seed = None if fold is None else fold(-1 - number)
        return function(seed, net.first_row, inputs)

    return call


def looped_layers(net: LayerContext) -> int:
    """How many layers, from the first one on, `looped` runs: all but the last of a compiled run
    with gradient checkpointing. 0: none."""
    run = net.run
    # XLA compiles functions. Outside of one, in the call that makes the variables and is not run,
    # TensorFlow would take a loop apart, and finds no kernels for operations that only XLA has.
    is_compiled = run.device == "tpu" or (
        run.device == "xla" and tf.get_default_graph().building_function
    )
    if not (is_compiled and run.is_training and run.recompute):
        return 0
    return (
        net.config.n_layer - 1
    )  # the last layer is another program: it makes no new h


def looped(
    layer: Callable[..., Any],
    net: LayerContext,
    weights: Sequence[Weights],
    memories: Sequence[Optional[tf.Tensor]],
    h: tf.Tensor,
    g: Optional[tf.Tensor],
    same: dict[str, Any],
) -> tuple[list[tf.Tensor], tf.Tensor, Optional[tf.Tensor]]:
    """The first layers of a network as one loop, with gradient checkpointing, for XLA.

    A loop in TensorFlow is a loop in XLA's program, which so has one layer and one layer's
    gradients, however many run. Of each only its inputs are kept, and the backward pass, a second
    loop, computes the rest again. Four layers, of which three are here, in the order of time:

        forward     layer 0     layer 1     layer 2     layer 3, after the loop
        kept        its h, g    its h, g    its h, g    what its gradients need
        backward                                        its gradients
                                            layer 2 again, its gradients
                                layer 1 again, its gradients
                    layer 0 again, its gradients

    XLA does not merge what is computed again with the forward pass, as these are two loops.

    Args:
      layer: as in `wrapped`; its outputs h and g have the shapes of its inputs.
      weights: of each layer of the loop.
      memories: of each layer [B,M,D], without gradients; all of them or none are None.
      h: [B,Q,D], the input of the first layer.
      g: [B,P,D], the same; or None.
      same: the other inputs, the same for all layers and without gradients.

    Returns:
      The h that each layer got; then h and g of the layer after the loop.
    """
    count = len(weights)
    # What differs from layer to layer is stacked along a new first axis. One index reads it.
    flat_weights = [tf.nest.flatten(each) for each in weights]
    has_weight = [
        weight is not None for weight in flat_weights[0]
    ]  # no segments, no weights
    stacked = [tf.stack(kind) for kind in zip(*flat_weights) if kind[0] is not None]
    memory = None  # [layers,B,M,D]
    if memories[0] is not None:
        memory = tf.stack([net.cast(each) for each in memories])
    seeds = None
    if net.seed is not None:
        fold = folding(net.seed)
        seeds = tf.stack([fold(-1 - number) for number in range(count)])

    # All tensors that a layer reads are arguments of `run_all`: TensorFlow looks for the variables
    # behind others, and finds those of the memory.
    constants = (seeds, memory, net.first_row, same)
    leaves = tf.nest.flatten(constants)
    indices = [i for i, leaf in enumerate(leaves) if tf.is_tensor(leaf)]

    def run_layer(
        number: tf.Tensor,
        streams: Sequence[tf.Tensor],
        own: Sequence[tf.Tensor],
        without_gradients: Sequence[tf.Tensor],
    ) -> list[tf.Tensor]:
        """The streams after a layer, of those before it and its own weights."""
        filled = dict(zip(indices, without_gradients))
        seeds, memory, first_row, same = tf.nest.pack_sequence_as(
            constants, [filled.get(i, leaf) for i, leaf in enumerate(leaves)]
        )
        given = iter(own)
        outputs = layer(
            LayerContext(
                net.config, net.run, None if seeds is None else seeds[number], first_row
            ),
            weights=tf.nest.pack_sequence_as(
                weights[0], [next(given) if exists else None for exists in has_weight]
            ),
            h=streams[0],
            g=streams[1] if len(streams) > 1 else None,
            memory=None if memory is None else memory[number],
            is_last_layer=False,
            **same,
        )
        # The third output, the probabilities, is None here.
        return [stream for stream in outputs if stream is not None]

    def arrays_for(tensors: Sequence[tf.Tensor]) -> list[tf.TensorArray]:
        """For one tensor of each layer, of these shapes."""
        return [tf.TensorArray(x.dtype, count, element_shape=x.shape) for x in tensors]

    def written(
        arrays: Sequence[tf.TensorArray], number: tf.Tensor, values: Sequence[tf.Tensor]
    ) -> list[tf.TensorArray]:
        return [array.write(number, value) for array, value in zip(arrays, values)]

    @tf.custom_gradient
    def run_all(*tensors: tf.Tensor) -> Any:
        streams, others = tensors[:num_streams], tensors[num_streams:]
        stacked, without_gradients = others[:num_weights], others[num_weights:]

        def forward(number: tf.Tensor, streams: Any, kept: Any) -> tuple[Any, ...]:
            own = [kind[number] for kind in stacked]
            outputs = run_layer(number, streams, own, without_gradients)
            return number + 1, outputs, written(kept, number, streams)

        _, outputs, arrays = tf.while_loop(
            lambda number, *_: number < count,
            forward,
            [0, list(streams), arrays_for(streams)],
        )
        kept = [array.stack() for array in arrays]  # [layers,B,Q,D], [layers,B,P,D]

        # The gradients of what was kept are not read: it becomes memory, whose gradient stops.
        def gradient(*dys: tf.Tensor) -> list[Optional[tf.Tensor]]:
            def backward(done: tf.Tensor, dys: Any, found: Any) -> tuple[Any, ...]:
                number = count - 1 - done
                inputs = [kind[number] for kind in kept]
                own = [kind[number] for kind in stacked]
                with tf.name_scope("recomputed"):
                    outputs = run_layer(number, inputs, own, without_gradients)
                    dxs = gradients(outputs, inputs + own, dys)
                return (
                    done + 1,
                    dxs[:num_streams],
                    written(found, number, dxs[num_streams:]),
                )

            _, dxs, found = tf.while_loop(
                lambda done, *_: done < count,
                backward,
                [0, list(dys[:num_streams]), arrays_for([kind[0] for kind in stacked])],
            )
            return dxs + [array.stack() for array in found] + [None] * len(indices)

        return outputs + kept, gradient

    streams = [h] if g is None else [h, g]
    num_streams, num_weights = len(streams), len(stacked)
    results = run_all(*streams, *stacked, *(leaves[i] for i in indices))
    kept_h = results[num_streams]
    return tf.unstack(kept_h), results[0], None if g is None else results[1]


def not_constant(tensors: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Two tensors behind XLA's optimization barrier.

    TensorFlow and XLA compute beforehand what follows from constants; they do not look behind it.
    """
    from tensorflow.compiler.tf2xla.python import xla  # a part that others do not need

    first, second = xla.optimization_barrier(*tensors)
    return first, second


def recomputed(function: Callable[..., Any], *inputs: Any) -> Any:
    """Gradient checkpointing: `function(*inputs)` without keeping its intermediate tensors. Not for
    XLA, which would merge both runs.

    The backward pass runs `function` again, so it must depend on its inputs, nests of tensors and
    other values, alone: it reads no variables, and its dropout masks come from a seed among them.
    Its outputs are a nest of tensors and None.
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
            with tf.control_dependencies(dys):  # not before the backward pass
                again = [tf.identity(x) for x in tensors]
            with tf.name_scope("recomputed"):
                return gradients(call(again), again, list(dys))

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
    made = tf2.function(lambda *inputs: function(*inputs), autograph=False)

    def call(*inputs: Any) -> Any:
        assert not any(
            isinstance(leaf, tf2.Variable) for leaf in tf.nest.flatten(inputs)
        )
        return made(*inputs)

    return call
