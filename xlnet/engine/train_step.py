"""Parts of a training step: the scope of the network, dropout's seed, and gradients over
micro-batches. The step itself is `model_fn` in `pretraining.run` and `finetuning.run`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import optimizer
from xlnet.engine.estimator import TrainingRun
from xlnet.model import kernels_tuned, ops, stateless_random
from xlnet.settings.network import DTYPES

# The matrices of the network, by the name of the variable.
_MATRIX = re.compile("/transformer/.*(/kernel|/lookup_table)$")
_RANDOM = (tf.initializers.random_normal, tf.initializers.random_uniform)


def dropout_seed(seed: int, step: tf.Tensor) -> tf.Tensor:
    """The seed of a step, a function of the run's seed and the step. In the type of the device, see
    `stateless_random`."""
    dtype = tf.uint32 if kernels_tuned.device_here() == "tpu" else tf.uint64
    return stateless_random.seed_of(seed, step, dtype)


def on_device(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Integer features in the type of the device.

    int64, as TensorFlow computes int32 on the host, where it is used for shapes, and would copy the
    results to the GPU in every step. int32 on a TPU, which computes int64 in two parts.
    """
    other, own = tf.int32, tf.int64
    if kernels_tuned.device_here() == "tpu":
        other, own = own, other
    cast = {}
    for name, value in features.items():
        cast[name] = tf.cast(value, own) if value.dtype == other else value
    return cast


def model_scope(kept_in: str | None = None) -> tf.variable_scope:
    """The variable scope of the network. The initial value of a weight depends only on its name and
    the seed of the graph: it is the same for any devices and micro-batches.

    Args:
      kept_in: the precision in which the matrices are stored, for inference only: that of the
        matmuls, which would round them in each step. Biases, norms and the output layer's matrix
        stay float32. None: float32.
    """

    # The variables are reused: replicas, micro-batches and a compiled step use the same ones.
    def named(
        getter: Callable[..., Any],
        name: str,
        *args: Any,
        initializer: Any = None,
        **kwargs: Any,
    ) -> Any:
        # Each weight has a seed of its own, a function of its name.
        if isinstance(initializer, _RANDOM):
            seed = zlib.crc32(name.encode()) >> 1
            values = dict(initializer.get_config(), seed=seed)
            initializer = type(initializer).from_config(values)
        if kept_in not in (None, "fp32") and _MATRIX.search(name):
            kwargs["dtype"] = tf.as_dtype(DTYPES[kept_in])
            initializer = _rounding(initializer)
        return getter(name, *args, initializer=initializer, **kwargs)

    return tf.variable_scope("model", custom_getter=named, reuse=tf.AUTO_REUSE)


def _rounding(initializer: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """An initializer that samples in float32, then casts to the type of the variable."""
    return lambda shape, dtype: tf.cast(initializer(shape, tf.float32), dtype)


def loss_and_gradients(
    run: TrainingRun,
    batch: dict[str, tf.Tensor],
    first_row: Any,
    micro_batches: int,
    scale: optimizer.LossScale | None = None,
    xla: bool = False,
) -> tuple[tf.Tensor, list[tf.Tensor], dict[str, tf.Tensor]]:
    """The mean loss and its gradients over micro-batches, computed in turn (gradient accumulation).

    This is everything that a replica computes on its own, and what XLA compiles.

    Args:
      run: whose `micro_batch_loss` it computes.
      batch: dict of tensors [b,...]; `micro_batches` divides b.
      first_row: the index of batch element 0 in the global batch.
      micro_batches: their number; 1: off.
      scale: by which the gradients are multiplied, or None.
      xla: whether to compile, once for each shape of the batch.

    Returns:
      loss, gradients for `tf.trainable_variables()`, the dict of tensors for all batch elements.
    """
    if xla:
        # never run: a compiled function cannot make the variables
        run.micro_batch_loss(batch, first_row)
        compiled = tf2.function(
            lambda batch: loss_and_gradients(
                run, batch, first_row, micro_batches, scale
            ),
            jit_compile=True,
            autograph=False,
        )
        return compiled(batch)
    if micro_batches == 1:
        loss, kept = run.micro_batch_loss(batch, first_row)
        return loss, _gradients(loss, scale), kept

    # The first micro-batch is computed outside of the loop, as variables cannot be made within it.
    # Example: of eight batch elements, two micro-batches have the elements 0 to 3 and 4 to 7.
    rows = next(iter(batch.values())).shape.as_list()[0] // micro_batches
    parts, first = {}, {}
    for name, value in batch.items():
        shape = [micro_batches, rows, *ops.shape_of(value)[1:]]
        parts[name] = tf.reshape(value, shape)
        first[name] = parts[name][0]
    loss, kept = run.micro_batch_loss(first, first_row)
    gradients = _gradients(loss, scale)

    # The others follow one after the other, so that memory holds the activations of one at a time.
    # Their losses and gradients are summed; the tensors to keep are collected.
    arrays = {}
    for name, value in kept.items():
        array = tf.TensorArray(value.dtype, micro_batches, element_shape=value.shape)
        arrays[name] = array.write(0, value)

    def add(
        index: tf.Tensor,
        loss: tf.Tensor,
        gradients: list[tf.Tensor],
        arrays: dict[str, tf.TensorArray],
    ) -> tuple[Any, ...]:
        part = {name: values[index] for name, values in parts.items()}
        more_loss, kept = run.micro_batch_loss(part, first_row + index * rows)
        more = _gradients(more_loss, scale)
        sums = [a + b for a, b in zip(gradients, more)]
        collected = {}
        for name, value in kept.items():
            collected[name] = arrays[name].write(index, value)
        return index + 1, loss + more_loss, sums, collected

    _, loss, gradients, arrays = tf.while_loop(
        lambda index, *_: index < micro_batches,
        add,
        [1, loss, gradients, arrays],
        parallel_iterations=1,
        maximum_iterations=micro_batches - 1,
    )
    for name, value in kept.items():
        shape = [-1, *value.shape.as_list()[1:]]
        kept[name] = tf.reshape(arrays[name].stack(), shape)
    # The results are means over micro-batches, as they are over replicas: the mean of their losses
    # is the loss of the batch.
    gradients = [gradient / micro_batches for gradient in gradients]
    return loss / micro_batches, gradients, kept


def _gradients(loss: tf.Tensor, scale: optimizer.LossScale | None) -> list[tf.Tensor]:
    return optimizer.gradients_of(loss * scale.value if scale else loss)
