"""Learning-rate schedules, AdamW, and the step from a loss to new weights."""

import re

import tensorflow.compat.v1 as tf
from tensorflow.python.training import training_ops  # the fused kernels that tf.train uses

BETA1, BETA2 = 0.9, 0.999


def learning_rate(settings, step):
    """float32 scalar for int64 `step` (0 is the first): linear warm-up from 0, then decay.

    The decay runs from the end of the warm-up to `train_steps` and ends at `min_lr_ratio` of the
    highest rate: "poly" along a line, "cos" along half a cosine; "constant" stays.
    """
    highest = settings.learning_rate
    after = tf.cast(step - settings.warmup_steps, tf.float32)
    steps = max(settings.train_steps - settings.warmup_steps, 1)
    if settings.decay_method == "poly":
        rate = tf.train.polynomial_decay(highest, after, steps, highest * settings.min_lr_ratio)
    elif settings.decay_method == "cos":
        rate = tf.train.cosine_decay(highest, after, steps, alpha=settings.min_lr_ratio)
    else:
        rate = tf.constant(highest, tf.float32)
    if not settings.warmup_steps:
        return rate
    rising = tf.cast(step, tf.float32) / settings.warmup_steps * highest
    return tf.where(step < settings.warmup_steps, rising, rate)


class AdamW(tf.train.Optimizer):
    """Adam with decoupled weight decay (https://arxiv.org/abs/1711.05101), algorithm 2.

    Slots are named as Adam's, `<variable>/Adam` and `<variable>/Adam_1`. Bias correction counts
    from `step`, so nothing else need be saved.

    Args:
      rate: float32 scalar, learning rate.
      step: int64 scalar, number of updates made before.
      epsilon, weight_decay: floats; no decay for biases and layer norms.
      bias_correction: False for the reference's rule with weight decay.
      share: function from a variable's name to its share of the learning rate.
    """

    def __init__(self, rate, step, *, epsilon, weight_decay=0., bias_correction=True,
                 share=lambda name: 1.):
        super().__init__(use_locking=False, name="Adam")
        self._rate = rate
        self._epsilon = epsilon
        self._weight_decay = weight_decay
        self._share = share
        updates = tf.cast(step + 1, tf.float32)
        # A power of 0 makes the fused kernel's correction factor 1.
        self._powers = (BETA1 ** updates, BETA2 ** updates) if bias_correction else (0., 0.)

    def _create_slots(self, var_list):
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _resource_apply_dense(self, grad, var):
        name = re.sub(r":0$", "", var.name)
        rate = self._rate * self._share(name)
        decayed = []
        if self._weight_decay and not re.search("LayerNorm|bias", name):
            decayed = [var.assign_sub(rate * self._weight_decay * var.read_value())]
        with tf.control_dependencies(decayed):
            return training_ops.resource_apply_adam(
                var.handle, self.get_slot(var, "m").handle, self.get_slot(var, "v").handle,
                self._powers[0], self._powers[1], rate, BETA1, BETA2, self._epsilon, grad)

    def _resource_apply_sparse(self, grad, var, indices):
        raise ValueError("gradient of %s is sparse; make it dense first" % var.name)


def layer_share(decay_rate, n_layer):
    """Share of the learning rate by variable name: top layer and heads 1, embedding the least.

    The stacked biases (`r_w_bias` and its like, `seg_embed`) belong to all layers: share 1.
    """
    def share(name):
        layer = re.search(r"transformer/layer_(\d+)/", name)
        if layer:
            return decay_rate ** (n_layer - 1 - int(layer.group(1)))
        return decay_rate ** n_layer if "word_embedding" in name or "mask_emb" in name else 1.
    return share


def _legacy_layer_share(decay_rate, n_layer):
    """The reference's layer decay: embeddings left out."""
    share = layer_share(decay_rate, n_layer)
    return lambda name: share(name) if "/layer_" in name else 1.


def minimize(loss, settings, step, gradients_and_variables=None):
    """One update of all trainable variables.

    Args:
      loss: float32 scalar. settings: `OptimizationSettings`. step: the global step variable.
      gradients_and_variables: in place of those of `loss`, for tests.

    Returns:
      train_op (also advances `step`), {"learning_rate", "gradient_norm"} scalars; the norm is that
      before clipping.
    """
    rate = learning_rate(settings, step)
    pairs = gradients_and_variables or [
        (gradient, variable) for gradient, variable
        in zip(tf.gradients(loss, tf.trainable_variables()), tf.trainable_variables())]
    lost = [variable.op.name for gradient, variable in pairs if gradient is None]
    if lost:
        raise ValueError("no gradient reaches %s" % ", ".join(lost))
    gradients = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
    variables = [variable for _, variable in pairs]
    gradients, norm = tf.clip_by_global_norm(gradients, settings.clip)
    names = [variable.op.name for variable in variables]
    n_layer = len({m.group() for m in (re.search(r"/layer_\d+/", n) for n in names) if m})
    share = layer_share(settings.lr_layer_decay_rate, n_layer)
    legacy = settings.legacy_optimizer
    if legacy:
        shares = _legacy_layer_share(settings.lr_layer_decay_rate, n_layer)
        gradients = [g * shares(name) for g, name in zip(gradients, names)]
        share = lambda name: 1.  # noqa: E731
    optimizer = AdamW(rate, step, epsilon=settings.adam_epsilon,
                      weight_decay=settings.weight_decay, share=share,
                      bias_correction=not (legacy and settings.weight_decay))
    train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    return train_op, {"learning_rate": rate, "gradient_norm": norm}
