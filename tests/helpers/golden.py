"""Golden values of the original implementation, and the tolerance."""

import json

import numpy as np
import tensorflow.compat.v1 as tf

from helpers.paths import GOLDEN
from xlnet.model import heads


class Golden:
    """One golden file: `settings`, and arrays under in/, var/, out/ by the rest of their name."""

    def __init__(self, name):
        with np.load(GOLDEN / (name + ".npz"), allow_pickle=True) as arrays:
            self.settings = json.loads(str(arrays["settings"]))
            self._arrays = {name: arrays[name] for name in arrays if name != "settings"}

    def group(self, prefix):
        names = [name for name in self._arrays if name.startswith(prefix)]
        return {name[len(prefix) :]: self._arrays[name] for name in names}

    def __getitem__(self, key):
        return self._arrays[key]


_ROUNDING = 1e-6  # smaller gradients are zero except for rounding


def assert_close(actual, expected, name="", rtol=1e-5):
    """Largest difference at most `rtol` of the tensor's largest expected magnitude."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (name, actual.shape, expected.shape)
    scale = np.abs(expected).max(initial=0)
    if scale < _ROUNDING:
        assert np.abs(actual).max(initial=0) < _ROUNDING, f"{name}: expected zero"
        return
    error = np.abs(actual - expected).max(initial=0) / scale
    assert error <= rtol, f"{name}: relative error {error:.2e}"


def load(session, values):
    """Sets variables, {variable: value}, in one run."""
    session.run(
        [variable.initializer for variable in values],
        {variable.initializer.inputs[1]: value for variable, value in values.items()},
    )


def constants(values):
    return {name: tf.constant(value) for name, value in values.items()}


def pretraining_losses(model, inputs):
    """Per-target losses [P,B] and their mean, as in the original implementation."""
    target = inputs["target"] if "target" in inputs else inputs["input_ids"]
    output = tf.transpose(model.get_sequence_output(), [1, 0, 2])
    with tf.variable_scope("model"):
        losses = heads.lm_loss(
            output, tf.transpose(target), model.get_embedding_table()
        )
    losses = tf.transpose(losses)
    weights = inputs["target_mask"] if "target" in inputs else inputs["inp_q"]
    return losses, tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
