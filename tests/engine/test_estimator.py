"""The Estimator compared with TensorFlow's own, where there is one, and how a training ends."""

import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.pretraining import complete

from xlnet.corpus import input_pipeline
from xlnet.engine import loop
from xlnet.engine.devices import Devices
from xlnet.engine.estimator import Estimator, EstimatorSpec
from xlnet.support.errors import UserError


@pytest.mark.skipif(
    not hasattr(tf2, "estimator"), reason="this TensorFlow has no Estimator"
)
@pytest.mark.parametrize(
    "changes", (dict(), dict(num_core_per_host=2), dict(grad_accum_steps=2))
)
@pytest.mark.slow
def test_training_has_the_bits_of_tensorflows(place, tmp_path, monkeypatch, changes):
    """20 steps with dropout and memories: ours, and TensorFlow's of the same model function."""
    runs, fit = [], loop.fit

    def watched(run, *others):
        runs.append(run)
        fit(run, *others)

    monkeypatch.setattr(loop, "fit", watched)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    complete(place, ours, train_steps=20, **changes)
    (run,) = runs

    def batches():
        return input_pipeline.for_replicas(run.batches(0), run.devices.per_host)

    def model_fn(features):
        spec = run.model_fn(features)
        how = dict(loss=spec.loss, train_op=spec.train_op)
        return tf2.estimator.EstimatorSpec(tf2.estimator.ModeKeys.TRAIN, **how)

    config = tf2.estimator.RunConfig(
        tf_random_seed=0,
        session_config=run.devices.session_config(is_training=True),
        train_distribute=run.devices.strategy,
    )
    estimator = tf2.estimator.Estimator(model_fn, str(theirs), config)
    estimator.train(batches, max_steps=20)
    expected = tf.train.load_checkpoint(str(theirs / "model.ckpt-20"))
    found = tf.train.load_checkpoint(str(ours / "model.ckpt-20"))
    names = expected.get_variable_to_shape_map()
    assert set(found.get_variable_to_shape_map()) == set(names) and len(names) > 30
    for name in names:
        value = expected.get_tensor(name)
        np.testing.assert_array_equal(found.get_tensor(name), value, name)


class Counting:
    """A run that sums its data, three batches."""

    devices = Devices(None)

    def __init__(self, folder):
        self.settings = types.SimpleNamespace(model_dir=str(folder), seed=0)

    def batches(self, start):
        return tf.data.Dataset.from_tensor_slices([0.0, 1.0, 2.0]).skip(start)

    def model_fn(self, features):
        total = tf.get_variable("total", [], tf.float32, tf.initializers.zeros())
        added = total.assign_add(tf.reduce_sum(features), read_value=False)
        with tf.control_dependencies([added]):
            step = tf.train.get_global_step().assign_add(1, read_value=False)
        return EstimatorSpec(tf.reduce_sum(features), step, {})


def train_to_the_end(folder, *hooks):
    """Trains until there are no more batches."""
    with Estimator.started(Counting(folder), 0, hooks) as training:
        while training.run_step():
            pass


def test_data_that_end_are_an_error(tmp_path):
    with pytest.raises(UserError, match="the end of the data at step 3: "):
        train_to_the_end(tmp_path)


@pytest.mark.parametrize("error", (tf.errors.AbortedError, tf.errors.OutOfRangeError))
def test_an_error_that_is_not_the_end_of_the_data_ends_the_training(tmp_path, error):
    """TensorFlow's own would make another session, or take EFBIG of a checkpoint for the end."""

    class Hook(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise error(None, None, "lost")

    with pytest.raises(tf.errors.OpError, match="lost"):
        train_to_the_end(tmp_path, Hook())
