"""The whole training step compiled by XLA: static shapes everywhere, the plain graph's numbers."""

import re

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.pretraining import complete, curve, features, run_of

from xlnet.settings.training import OptimizationSettings

pytestmark = pytest.mark.slow


def losses(model, compile_it, steps=4):
    """Losses of some steps of the model function's training operation, and the last weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)
        tf.train.get_or_create_global_step()

        def step():
            spec = model.model_fn(features())
            with tf.control_dependencies([spec.train_op]):
                return tf.identity(spec.loss)

        loss = step()
        if compile_it:  # built once more; the first time has made the variables
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                loss = tf2.function(step, jit_compile=True, autograph=False)()
        session.run(
            [tf.global_variables_initializer(), tf.local_variables_initializer()]
        )
        found = [session.run(loss) for _ in range(steps)]
        weights = session.run(tf.trainable_variables())
        return np.array(found), np.concatenate([np.ravel(weight) for weight in weights])


@pytest.mark.parametrize(
    "objective,changes",
    (("permutation", dict(grad_accum_steps=2)), ("masked", {}), ("causal", {})),
)
def test_the_step_compiles_to_the_same_numbers(objective, changes):
    """Dropout off."""
    model = run_of(
        {},
        dict(dropout=0.0, dropatt=0.0),
        dict(mem_len=8, objective=objective, **changes),
        OptimizationSettings(
            learning_rate=0.01, train_steps=10, warmup_steps=1, weight_decay=0.1
        ),
    )
    plain, weights = losses(model, compile_it=False)
    compiled, compiled_weights = losses(model, compile_it=True)
    assert plain[-1] < plain[0] - 0.05
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    # Together: Adam blows the rounding of a gradient near zero up to the size of a step.
    assert np.linalg.norm(compiled_weights - weights) < 1e-5 * np.linalg.norm(weights)


def model_of(objective, dropout, recompute=False, **settings):
    """Of two layers: with `recompute` the first one is in a loop."""
    return run_of(
        {},
        dict(dropout=dropout, dropatt=dropout, recompute=recompute, init_std=0.1),
        dict(mem_len=8, objective=objective, next_segment_loss=1.0, **settings),
    )


def test_dropout_masks_belong_to_batch_elements():
    """Half of everything is dropped, so that other masks would be seen: micro-batches have the same
    masks, another seed has others, and recomputed layers have those of the forward pass."""
    whole, parts, again, other = (
        losses(model_of("permutation", 0.5, **changes), compile_it=True)[0]
        for changes in (
            {},
            dict(grad_accum_steps=2),
            dict(recompute=True),
            dict(seed=1),
        )
    )
    np.testing.assert_allclose(parts, whole, rtol=2e-5)
    np.testing.assert_allclose(again, whole, rtol=2e-5)
    assert np.abs(other / whole - 1).max() > 1e-3


def test_the_flag_changes_no_number(place):
    """Dropout off: compiled, its masks are others."""
    run = dict(train_steps=6, log_steps=1, next_segment_loss=1.0, dropout=0, dropatt=0)
    for name, xla in (("plain", False), ("compiled", True)):
        done = complete(place, name, xla=xla, **run)
    speeds = list(map(int, re.findall(r"(\d+) tokens/s", done.stdout)))
    assert speeds[-1] > 10 * speeds[0], f"every step is compiled again: {done.stdout}"
    np.testing.assert_allclose(
        curve(place, "compiled"), curve(place, "plain"), rtol=1e-5
    )
    assert (curve(place, "compiled") != curve(place, "plain")).any(), (
        "it was not compiled"
    )
