"""One step of training: an update with the gradient of the global batch, for any number of replicas
and micro-batches (gradient accumulation).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, optimizer
from xlnet.engine.devices import mean_over_replicas
from xlnet.network import kernels_tuned, ops, parameters, stateless_random
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import OptimizationSettings, RunSettings

# The matrices of the network, by the name of the variable.
_MATRIX = re.compile("/transformer/.*(/kernel|/lookup_table)$")

_STEP = "training_step"  # the graph's collection of `Step`s, one of each replica


def dropout_seed(seed: int, step: tf.Tensor) -> tf.Tensor:
    """The seed of a step, a function of the run's seed and the step. In the type of the device, see
    `stateless_random`."""
    dtype = tf.uint32 if kernels_tuned.device_here() == "tpu" else tf.uint64
    of_step = stateless_random.seed_of(seed, step, dtype)  # of the low 32 bits of the seed
    return stateless_random.fold_in(of_step, seed >> 32) if seed >> 32 else of_step


def on_device(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Integer features in the type of the device.

    int64, as TensorFlow computes int32 on the host, where it is used for shapes, and would copy the
    results to the GPU in every step. int32 on a TPU, which computes int64 in two parts.
    """
    if kernels_tuned.device_here() == "tpu":
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in features.items()
        }
    return {
        name: tf.cast(value, tf.int64) if value.dtype == tf.int32 else value
        for name, value in features.items()
    }


def model_scope(kept_in: Optional[str] = None) -> tf.variable_scope:
    """The variable scope of the network. The initial value of a weight depends only on its name and
    the seed of the graph: it is the same for any devices and micro-batches.

    Args:
      kept_in: the precision in which the matrices are stored, for inference only: that of the
        matmuls, which would round them in each step. Biases, norms and the output layer's matrix
        stay float32. None: float32.
    """

    # The variables are reused: replicas, micro-batches and a compiled step use the same ones.
    def named(
        getter: Callable[..., Any], name: str, *args: Any, initializer: Any = None, **kwargs: Any
    ) -> Any:
        # Each weight has a seed of its own, a function of its name.
        if isinstance(initializer, (tf.initializers.random_normal, tf.initializers.random_uniform)):
            initializer = type(initializer).from_config(
                dict(initializer.get_config(), seed=zlib.crc32(name.encode()) >> 1)
            )
        if kept_in not in (None, "fp32") and _MATRIX.search(name):
            kwargs["dtype"] = parameters.DTYPES[kept_in]
            initializer = _rounding(initializer)
        return getter(name, *args, initializer=initializer, **kwargs)

    return tf.variable_scope("model", custom_getter=named, reuse=tf.AUTO_REUSE)


def _rounding(initializer: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """An initializer that samples in float32, then casts to the type of the variable."""
    return lambda shape, dtype: tf.cast(initializer(shape, tf.float32), dtype)


def start_from(init_checkpoint: Optional[str], config: XLNetConfig, model_dir: str) -> None:
    """Starts from the weights of `init_checkpoint` unless the run in `model_dir` has a
    checkpoint."""
    if init_checkpoint and not checkpoint.newest(model_dir):
        checkpoint.warm_start(checkpoint.resolve(init_checkpoint), config)


def loss_and_gradients(
    compute: Callable[..., tuple[tf.Tensor, dict[str, tf.Tensor]]],
    inputs: dict[str, tf.Tensor],
    micro_batches: int,
    scale: Optional[optimizer.LossScale] = None,
    xla: bool = False,
) -> tuple[tf.Tensor, list[tf.Tensor], dict[str, tf.Tensor]]:
    """The mean loss and its gradients over micro-batches, computed in turn (gradient accumulation).

    This is everything that a replica computes on its own, and what XLA compiles.

    Args:
      compute: function of (a part of `inputs`, the index of its first batch element) that returns
        (loss float32 scalar, dict of tensors of these batch elements).
      inputs: dict of tensors [b,...]; `micro_batches` divides b.
      scale: by which the gradients are multiplied, or None.
      xla: whether to compile, once for each shape of the inputs.

    Returns:
      loss, gradients for `tf.trainable_variables()`, the dict of tensors for all batch elements.
    """
    rows = next(iter(inputs.values())).shape.as_list()[0] // micro_batches

    def over_micro_batches(inputs: dict[str, tf.Tensor]) -> tuple[Any, ...]:
        # Example: of eight batch elements, two micro-batches have the elements 0 to 3 and 4 to 7.
        parts = {
            name: tf.reshape(value, [micro_batches, rows] + ops.shape_of(value)[1:])
            for name, value in inputs.items()
        }

        def micro_batch(index: Any) -> tuple[tf.Tensor, list[tf.Tensor], dict[str, tf.Tensor]]:
            part = {name: values[index] for name, values in parts.items()}
            loss, kept = compute(part, index * rows)  # the caller's: the network and its loss
            return loss, optimizer.gradients_of(loss * scale.value if scale else loss), kept

        # The first micro-batch is computed outside of the loop, as variables cannot be made within
        # it.
        loss, gradients, kept = micro_batch(0)
        if micro_batches == 1:
            return loss, gradients, kept

        # The others follow one after the other, so that memory holds the activations of one at a
        # time. Their losses and gradients are summed; the tensors to keep are collected.
        arrays = {
            name: tf.TensorArray(value.dtype, micro_batches, element_shape=value.shape).write(
                0, value
            )
            for name, value in kept.items()
        }

        def body(
            index: tf.Tensor,
            loss: tf.Tensor,
            gradients: list[tf.Tensor],
            arrays: dict[str, tf.TensorArray],
        ) -> tuple[Any, ...]:
            more_loss, more, kept = micro_batch(index)
            return (
                index + 1,
                loss + more_loss,
                [a + b for a, b in zip(gradients, more)],
                {name: arrays[name].write(index, value) for name, value in kept.items()},
            )

        _, loss, gradients, arrays = tf.while_loop(
            lambda index, *_: index < micro_batches,
            body,
            [1, loss, gradients, arrays],
            parallel_iterations=1,
            maximum_iterations=micro_batches - 1,
        )
        kept = {
            name: tf.reshape(arrays[name].stack(), [-1] + value.shape.as_list()[1:])
            for name, value in kept.items()
        }
        # The results are means over micro-batches, as they are over replicas: the mean of the
        # losses of `compute` is the loss of the batch.
        return loss / micro_batches, [g / micro_batches for g in gradients], kept

    if not xla:
        return over_micro_batches(inputs)
    compute(inputs, 0)  # never run: it makes the variables, which a compiled function cannot
    return tf2.function(over_micro_batches, jit_compile=True, autograph=False)(inputs)


class Step(NamedTuple):
    """The tensors of a training step that hooks read, and the variable that requests a stop."""

    # loss, learning_rate, gradient_norm and gradient_scale, float32 [], of the global batch
    scalars: dict[str, tf.Tensor]
    # float32 []: above 0 as soon as `stop_asked`, a local variable of each replica, is in one
    stop: tf.Tensor
    stop_asked: Any


def step_of_graph() -> Step:
    """The `Step` of this graph's model function, on the first replica."""
    return tf.get_collection(_STEP)[0]


def training_step(
    compute: Callable[..., tuple[tf.Tensor, dict[str, tf.Tensor]]],
    features: dict[str, tf.Tensor],
    *,
    config: XLNetConfig,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    settings: RunSettings,
    xla: bool,
    frozen_rows: Callable[[str], int] = lambda name: 0,
) -> tuple[tf.Tensor, tf.Operation, dict[str, tf.Tensor]]:
    """A training step on the replica whose graph is being built: loss, then gradients, then update.
    Hooks read its results from the `Step` that `step_of_graph` returns.

    Args:
      compute: as for `loss_and_gradients`; the mean of its losses over all replicas is minimized.
      settings: of the run; in a new one the weights start from its `init_checkpoint`.
      frozen_rows: see `optimizer.AdamW`.

    Returns:
      The loss of the global batch, the operation of the update, and the tensors that `compute`
      returned, for all batch elements of this replica.
    """
    # Compute loss and gradients of this replica's batch elements. In float16 the loss is scaled,
    # since small gradients would become 0.
    scale = optimizer.LossScale() if network.precision == "fp16" else None
    loss, gradients, kept = loss_and_gradients(
        compute, features, settings.grad_accum_steps, scale, xla
    )

    # The variables exist now: set where they start.
    start_from(settings.init_checkpoint, config, settings.model_dir)

    # Take means over the replicas of all hosts. Whether a host is to stop is averaged along with
    # them.
    stop_asked = tf.get_variable(
        "stop_asked_here",
        [],
        tf.float32,
        tf.initializers.zeros(),
        trainable=False,
        use_resource=True,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
    *gradients, loss, stop = mean_over_replicas(gradients + [loss, stop_asked.read_value()])

    # Update the weights: clipping, learning rate, AdamW.
    update, scalars = optimizer.minimize(
        loss,
        optimization,
        tf.train.get_global_step(),
        list(zip(gradients, tf.trainable_variables())),
        scale,
        frozen_rows,
    )
    tf.add_to_collection(
        _STEP, Step({"loss": tf.identity(loss), **scalars}, tf.identity(stop), stop_asked)
    )
    return loss, update, kept
