"""Gradients over micro-batches, then the update of the weights: its learning rate, AdamW, and the
scale of the loss in float16."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine.devices import base_name, zeros
from xlnet.model import ops
from xlnet.model.ops import Tensors
from xlnet.settings.training import OptimizationSettings

BETA1, BETA2 = 0.9, 0.999  # the decay of Adam's two moments in a step
AVERAGE = "average"  # the slot with the EMA of a weight: <variable>/average
FIRST_SCALE = 2.0**15  # of the loss in float16; halved until the gradients are finite
STEPS_BETWEEN_DOUBLINGS = 2000


def loss_and_gradients(
    micro_batch_loss: Callable[[Tensors, Any], tuple[tf.Tensor, Tensors]],
    batch: Tensors,
    first_row: Any,
    micro_batches: int,
    scale: LossScale | None = None,
    xla: bool = False,
) -> tuple[tf.Tensor, list[tf.Tensor], Tensors]:
    """The loss of a replica's batch and its gradients, means over micro-batches that are computed
    one after the other (gradient accumulation).

    This is everything that a replica computes on its own, and what XLA compiles.

    Args:
      micro_batch_loss: function of (a micro-batch, the index of its batch element 0 in the global
        batch) that builds its loss, float32 scalar, and returns also tensors by name that the step
        needs of its elements besides, such as their new memory.
      batch: tensors [b,...] by name, with a static shape; `micro_batches` divides b.
      first_row: an int or a scalar, the index of batch element 0 in the global batch.
      micro_batches: their number; 1: off.
      scale: the returned gradients are multiplied by its value; None: by nothing.
      xla: whether to compile, once for each shape of the batch.

    Returns:
      The loss, float32 scalar, not scaled; a gradient for each of `tf.trainable_variables()`; what
      `micro_batch_loss` keeps of all batch elements, such as `memory` [b,...], {} without one.
    """
    if xla:
        # A compiled function cannot make the variables: building this loss, which is never run,
        # makes them.
        micro_batch_loss(batch, first_row)

        def compute(batch: Tensors) -> Any:
            return loss_and_gradients(
                micro_batch_loss, batch, first_row, micro_batches, scale
            )

        return tf2.function(compute, jit_compile=True, autograph=False)(batch)
    if micro_batches == 1:
        loss, kept = micro_batch_loss(batch, first_row)
        return loss, gradients_of(loss, scale), kept

    # The first micro-batch is computed outside of the loop, as variables cannot be made within it.
    # Example: of eight batch elements, two micro-batches have the elements 0 to 3 and 4 to 7.
    batch_size, *_ = next(iter(batch.values())).shape.as_list()
    rows = batch_size // micro_batches  # batch elements of a micro-batch
    parts, first_part = {}, {}
    for name, value in batch.items():
        shape = [micro_batches, rows, *ops.shape_of(value)[1:]]
        parts[name] = tf.reshape(value, shape)
        first_part[name] = parts[name][0]
    loss, kept = micro_batch_loss(first_part, first_row)
    gradients = gradients_of(loss, scale)

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
        """Adds the micro-batch `index` to the sums and arrays; returns the next arguments."""
        part = {name: values[index] for name, values in parts.items()}
        more_loss, kept = micro_batch_loss(part, first_row + index * rows)
        more_gradients = gradients_of(more_loss, scale)
        sums = [a + b for a, b in zip(gradients, more_gradients)]
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
        shape = [-1, *value.shape.as_list()[1:]]  # [b,...] of [micro_batches,rows,...]
        kept[name] = tf.reshape(arrays[name].stack(), shape)
    # The results are means over micro-batches, as they are over replicas: the mean of their losses
    # is the loss of the batch.
    gradients = [gradient / micro_batches for gradient in gradients]
    return loss / micro_batches, gradients, kept


def gradients_of(loss: tf.Tensor, scale: LossScale | None = None) -> list[tf.Tensor]:
    """The gradients of `loss`, times the value of `scale` if there is one: a dense tensor for each
    of `tf.trainable_variables()`; a ValueError names the variables that no gradient reaches."""
    if scale:
        loss = loss * scale.value
    variables = tf.trainable_variables()
    dense, unreached = [], []
    for gradient, variable in zip(ops.gradients(loss, variables), variables):
        if gradient is None:
            unreached.append(base_name(variable))
        else:
            dense.append(tf.convert_to_tensor(gradient))  # that of a gather is sparse
    if unreached:
        raise ValueError(f"no gradient reaches {', '.join(unreached)}")
    return dense


def update_weights(
    settings: OptimizationSettings,
    gradients: Sequence[tf.Tensor],
    n_layer: int,
    loss_scale: LossScale | None = None,
) -> tuple[tf.Operation, dict[str, Any]]:
    """Clips the gradients, and updates all trainable variables once.

    Args:
      settings: of the optimizer.
      gradients: a tensor for each of `tf.trainable_variables()`: the gradients of the global batch,
        equal on every replica.
      n_layer: the number of layers of the network.
      loss_scale: by whose value the gradients are multiplied; None: by nothing.

    Returns:
      The operation, which also increments the global step; a dict of float32 scalars:
      learning_rate, gradient_norm (before clipping) and gradient_scale.
    """
    # Clipping, of the gradients without the loss scale. Where one overflowed, the norm is not
    # finite: the update changes nothing then, and the scale is halved.
    if loss_scale:
        gradients = [gradient / loss_scale.value for gradient in gradients]
    clipped, norm = tf.clip_by_global_norm(gradients, settings.clip)
    is_valid = tf.is_finite(norm) if loss_scale else None

    # The update.
    step = tf.train.get_global_step()
    rate = learning_rate(settings, step)
    updates_before = loss_scale.updates_before if loss_scale else step
    adam = AdamW(settings, rate, updates_before, n_layer, is_valid)
    pairs = zip(clipped, tf.trainable_variables())
    train_op = adam.apply_gradients(pairs, global_step=step)
    if loss_scale:
        train_op = tf.group(train_op, loss_scale.update(is_valid))
    return train_op, {
        "learning_rate": rate,
        "gradient_norm": norm,
        "gradient_scale": loss_scale.value if loss_scale else tf.constant(1.0),
    }


def learning_rate(settings: OptimizationSettings, step: tf.Tensor) -> tf.Tensor:
    """The learning rate of a step, float32 scalar: linear warm-up from 0, then decay. step: int64
    scalar, 0 is the first.

    The rate decays from the end of the warm-up to `train_steps`, to `min_lr_ratio` of the peak:
    "poly" linearly, "cos" along half a cosine; "constant" does not decay.
    """
    peak, warmup = settings.learning_rate, settings.warmup_steps
    after_warmup = tf.cast(step - warmup, tf.float32)
    decay_steps = max(settings.train_steps - warmup, 1)
    if settings.decay_method == "poly":
        rate = tf.train.polynomial_decay(
            peak, after_warmup, decay_steps, peak * settings.min_lr_ratio
        )
    elif settings.decay_method == "cos":
        rate = tf.train.cosine_decay(
            peak, after_warmup, decay_steps, alpha=settings.min_lr_ratio
        )
    else:
        rate = tf.constant(peak, tf.float32)
    if not warmup:
        return rate
    # The first step has the rate 0, as in the original implementation.
    rising = tf.cast(step, tf.float32) / warmup * peak
    return tf.where(step < warmup, rising, rate)


class AdamW(tf.train.Optimizer):
    """Adam with decoupled weight decay (https://arxiv.org/abs/1711.05101), algorithm 2.

    The slots have Adam's names, `<variable>/Adam` and `<variable>/Adam_1`. Bias correction and the
    EMA are functions of `updates_before`, so no other state is saved. Under a strategy all replicas
    pass the same gradients: those of the global batch, reduced and clipped.

    Args:
      settings: `weight_decay` (see `has_weight_decay`), `adam_epsilon`, `ema_decay`,
        `lr_layer_decay_rate`; `legacy_optimizer`: the rules of the original implementation, which
        with weight decay has no bias correction.
      rate: the learning rate of the step, float32 scalar.
      updates_before: scalar, number of updates before this one, skipped ones not counted.
      n_layer: the number of layers of the network, for `layer_rate_factor`.
      is_valid: bool scalar; False skips the update, whatever the gradients are. None: always valid.
    """

    def __init__(
        self,
        settings: OptimizationSettings,
        rate: tf.Tensor,
        updates_before: tf.Tensor,
        n_layer: int,
        is_valid: tf.Tensor | None,
    ):
        super().__init__(use_locking=False, name="Adam")
        self._settings = settings
        self._n_layer = n_layer
        self._is_valid = is_valid
        self._updates = tf.cast(updates_before + 1, tf.float32)  # with this one
        power1, power2 = BETA1**self._updates, BETA2**self._updates
        if settings.legacy_optimizer and settings.weight_decay:
            # The kernel's factor √(1 - beta2_power) / (1 - beta1_power) is 1 then.
            power1, power2 = tf.constant(0.0), tf.constant(0.0)
        beta1, beta2 = tf.constant(BETA1), tf.constant(BETA2)
        if is_valid is not None:  # betas of 1 and a rate of 0 change nothing
            rate = tf.where(is_valid, rate, tf.zeros_like(rate))
            beta1 = tf.where(is_valid, beta1, 1.0)
            beta2 = tf.where(is_valid, beta2, 1.0)
        self._rate = rate
        # Arguments of the kernel of Adam that are the same for all weights.
        self._scalars = {
            "beta1_power": power1,
            "beta2_power": power2,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": tf.constant(settings.adam_epsilon),
        }

    def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
        # (key of `get_slot`, name in checkpoints): the two moments have the names of TensorFlow's
        # Adam, which makes the second one `Adam_1`.
        slots = [("m", self._name), ("v", self._name)]
        if self._settings.ema_decay:
            slots.append((AVERAGE, AVERAGE))
        for variable in var_list:
            dtype = variable.dtype.base_dtype
            for slot, name in slots:
                self._get_or_make_slot_with_initializer(
                    variable, zeros, variable.shape, dtype, slot, name
                )

    def _distributed_apply(
        self,
        distribution: Any,
        grads_and_vars: Sequence[tuple[tf.Tensor, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """As in the base class, but without its sum over replicas: the gradients are reduced
        already. Returns the operation that updates all weights, then increments `global_step`.

        The base class calls it under a strategy; on one device it calls `_resource_apply_dense`
        itself."""
        extended = distribution.extended
        with tf.init_scope():
            self._create_slots([variable for _, variable in grads_and_vars])

        # Each replica updates its own copy of a variable, all of them alike.
        def update(variable: tf.Variable, gradient: tf.Tensor) -> tf.Operation:
            return self._resource_apply_dense(gradient, variable)

        updates = []
        for gradient, variable in grads_and_vars:
            updates.append(extended.update(variable, update, args=(gradient,)))
        with tf.control_dependencies(updates):
            return extended.update(
                global_step, lambda step: step.assign_add(1, read_value=False)
            )

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        """The update of the weight `var`, with weight decay before it and the EMA after it; `grad`
        is its gradient."""
        name, rate = base_name(var), self._rate
        # Layer-wise decay multiplies learning rates. The rule of the original implementation
        # multiplies gradients instead, and only those of weights of one layer.
        layer_decay = self._settings.lr_layer_decay_rate
        factor = layer_rate_factor(name, layer_decay, self._n_layer)
        if not self._settings.legacy_optimizer:
            rate *= factor
        elif layer_of(name) is not None:
            grad *= factor
        if self._is_valid is not None:  # 0 times infinity would be NaN
            grad = tf.where(self._is_valid, grad, tf.zeros_like(grad))
        decayed = []
        weight_decay = self._settings.weight_decay
        if weight_decay and has_weight_decay(name):
            # After the gradient: all reads of the weight in this step are done by then, and the
            # variable changes in place, as nothing holds its old value.
            with tf.control_dependencies([grad]):
                change = rate * weight_decay * var.read_value()
                decayed = [var.assign_sub(change, read_value=False)]
        # The fused kernel of tf.train, with gradient g, betas b1 and b2, update t:
        #
        #     m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g²
        #     w = w - rate √(1 - b2^t) / (1 - b1^t) · m / (√v + epsilon)
        with tf.control_dependencies(decayed):
            update = tf.raw_ops.ResourceApplyAdam(
                var=var.handle,
                m=self.get_slot(var, "m").handle,
                v=self.get_slot(var, "v").handle,
                lr=rate,
                grad=grad,
                **self._scalars,
            )
        return self._average(var, update) if self._settings.ema_decay else update

    def _average(self, var: tf.Variable, update: tf.Operation) -> tf.Operation:
        """Updates the EMA of the weight `var` after `update`, with bias correction: the mean of its
        values after each update so far, in which older values count less, by the factor `ema_decay`
        for each step of age."""
        decay = self._settings.ema_decay
        average = self.get_slot(var, AVERAGE)
        # After n updates, the mean of w_1 ... w_n with the factors decay^(n - i), step by step:
        # average += (1 - decay) / (1 - decay^n) · (w_n - average). Its first value is w_1.
        # `expm1` computes 1 - decay^n: a difference in float32 would be 0 for the first n of
        # 0.99999999.
        one_minus_power = -tf.math.expm1(self._updates * math.log(decay))
        newest_fraction = tf.where(
            self._updates > 1.0, (1.0 - decay) / one_minus_power, 1.0
        )
        if self._is_valid is not None:
            newest_fraction = tf.where(self._is_valid, newest_fraction, 0.0)
        with tf.control_dependencies([update]):
            change = newest_fraction * (var.read_value() - average.read_value())
            return average.assign_add(change, read_value=False)


def has_weight_decay(name: str) -> bool:
    """Whether weight decay applies to a variable: not to biases, nor to scale and shift of layer
    norms, by the last part of the name.

    It applies to `r_w_bias`, `r_r_bias` and `r_s_bias`, as in the original implementation. They are
    vectors that are added to queries (u and v of Transformer-XL), not offsets of an output.
    """
    last = name.rpartition("/")[2]
    if last in ("r_w_bias", "r_r_bias", "r_s_bias"):
        return True
    return not (last.endswith("bias") or last in ("gamma", "beta"))


def layer_of(name: str) -> int | None:
    """The index of the layer of a variable, by its name; None: it belongs to no layer or to all."""
    match = re.search(r"transformer/layer_(\d+)/", name)
    return int(match[1]) if match else None


def layer_rate_factor(name: str, layer_decay: float, n_layer: int) -> float:
    """Layer-wise decay: the factor of the learning rate of a variable. The top layer and the heads
    have 1; each layer below has `layer_decay` times that of the layer above, and the embedding has
    the lowest.

    The stacked biases (`r_w_bias`, ..., `seg_embed`) belong to all layers: factor 1.
    """
    # For three layers and a `layer_decay` of 0.5: layer 2 and heads 1, layer 1 0.5, layer 0 0.25,
    # embedding 0.125.
    layer = layer_of(name)
    if layer is not None:
        return layer_decay ** (n_layer - 1 - layer)
    if "word_embedding" in name or "mask_emb" in name:
        return layer_decay**n_layer
    return 1.0


class LossScale:
    """A factor that keeps float16 gradients in range: halved when they overflow, doubled after
    `STEPS_BETWEEN_DOUBLINGS` good steps (https://arxiv.org/abs/1710.03740, section 3.2).

    Three variables, which checkpoints have: the factor, the number of good steps in a row, and the
    number of updates. They change when the operation of `update` runs.

    Attributes:
      value: float32 scalar, the factor in this step.
      updates_before: float32 scalar, the number of updates before this step: steps whose gradients
        overflow make none.
    """

    def __init__(self) -> None:
        with tf.variable_scope("loss_scale", reuse=tf.AUTO_REUSE):
            self._scale = _scalar_variable("scale", FIRST_SCALE)
            self._good_steps = _scalar_variable("good_steps", 0.0)
            self._updates = _scalar_variable("updates", 0.0)
        # Read once: all uses in a step have the values from before `update`.
        self.updates_before = tf.identity(self._updates.read_value())
        self.value = tf.identity(self._scale.read_value())

    def update(self, is_valid: tf.Tensor) -> tf.Operation:
        """The operation that adjusts the scale after a step. is_valid: bool scalar, whether the
        gradients were finite."""
        # Twice as large after STEPS_BETWEEN_DOUBLINGS good steps in a row, half as large, but not
        # below 1, after a bad one.
        good = tf.where(is_valid, self._good_steps.read_value() + 1.0, 0.0)
        doubles = good >= STEPS_BETWEEN_DOUBLINGS
        if_valid = tf.where(doubles, self.value * 2.0, self.value)
        if_not_valid = tf.maximum(self.value / 2.0, 1.0)
        scale = tf.where(is_valid, if_valid, if_not_valid)
        updates = self.updates_before + tf.cast(is_valid, tf.float32)
        return tf.group(
            self._scale.assign(scale, read_value=False),
            self._good_steps.assign(tf.where(doubles, 0.0, good), read_value=False),
            self._updates.assign(updates, read_value=False),
        )


def _scalar_variable(name: str, value: float) -> tf.Variable:
    """A float32 scalar variable of the optimizer, with its initial value. All replicas have the
    gradients of the global batch and assign the same value; that of the first is taken."""
    return tf.get_variable(
        name,
        [],
        tf.float32,
        tf.initializers.constant(value),
        trainable=False,
        use_resource=True,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
