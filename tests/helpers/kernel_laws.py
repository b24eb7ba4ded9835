"""What tests of kernels share: random sizes, and the comparison of a form with the plain one."""

import os

import numpy as np
import tensorflow.compat.v1 as tf
from hypothesis import settings

from xlnet.model.kernels import ACTIVATIONS, Weights
from xlnet.model.ops import dense

EXAMPLES = 200 if os.environ.get("XLNET_TEST_ALL") else 12
laws = settings(max_examples=EXAMPLES, deadline=None, derandomize=True)


def attention_weights(r_w, r_r, r_s=None, seg_embed=None):
    """`Weights` of which attention reads these."""
    others = dict.fromkeys(Weights._fields)
    return Weights(**dict(others, r_w=r_w, r_r=r_r, r_s=r_s, seg_embed=seg_embed))


def plain_feed_forward(x, inner, outer, activation):
    return dense(ACTIVATIONS[activation](dense(x, *inner)), *outer)


def values_and_gradients(function, arrays, weight_seed=1):
    """What function(*tensors) gives, and the gradients of a random sum of it; each a NumPy array
    in float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.constant(x) for x in arrays]
        y = function(*inputs)
        weight = np.random.RandomState(weight_seed).randn(*y.shape.as_list())
        gradients = tf.gradients(y * tf.constant(weight, y.dtype), inputs)
        return session.run([tf.cast(x, tf.float32) for x in [y, *gradients]])


def compare(ours, plain, arrays, rtol=1e-5):
    names = "value", *(f"gradient {i}" for i in range(len(arrays)))
    for name, mine, wanted in zip(
        names, values_and_gradients(ours, arrays), values_and_gradients(plain, arrays)
    ):
        # Gradients that cancel, as of a query with one visible key, are sums of numbers around 1.
        atol = rtol * max(np.abs(wanted).max(initial=0), 0.1)
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=atol, err_msg=name)
