"""The Estimator compared with TensorFlow's own, where there is one, and how a training ends."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.pretraining import train

from xlnet.engine import loop
from xlnet.engine.devices import Devices
from xlnet.engine.estimator import Estimator, EstimatorSpec


class Saved(tf.train.SessionRunHook):
    """Saves a checkpoint at the end."""

    def __init__(self, directory):
        self._prefix = str(directory / "model.ckpt")

    def end(self, session):
        tf.get_collection(tf.GraphKeys.SAVERS)[0].save(
            session, self._prefix, global_step=tf.train.get_global_step()
        )


@pytest.mark.skipif(
    not hasattr(tf2, "estimator"), reason="this TensorFlow has no Estimator"
)
@pytest.mark.parametrize(
    "changes", (dict(), dict(num_core_per_host=2), dict(grad_accum_steps=2))
)
@pytest.mark.slow
def test_training_is_that_of_tensorflows_bit_for_bit(
    place, tmp_path, monkeypatch, changes
):
    """20 steps with dropout and memories: ours, and TensorFlow's of the same model function."""
    runs = []
    monkeypatch.setattr(loop, "fit", lambda run, *_: runs.append(run))
    train(place, tmp_path / "unused", train_steps=20, **changes)
    (run,) = runs
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    Estimator(run.model_fn, str(ours), run.devices).train(
        lambda: run.batches(0), max_steps=20, hooks=[Saved(ours)]
    )
    tf2.estimator.Estimator(
        lambda features: tf2.estimator.EstimatorSpec(
            tf2.estimator.ModeKeys.TRAIN,
            loss=(spec := run.model_fn(features)).loss,
            train_op=spec.train_op,
        ),
        str(theirs),
        tf2.estimator.RunConfig(
            tf_random_seed=0,
            session_config=run.devices.session_config(is_training=True),
            train_distribute=run.devices.strategy,
        ),
    ).train(lambda: run.batches(0), max_steps=20)
    expected = tf.train.load_checkpoint(str(theirs / "model.ckpt-20"))
    found = tf.train.load_checkpoint(str(ours / "model.ckpt-20"))
    names = expected.get_variable_to_shape_map()
    assert set(found.get_variable_to_shape_map()) == set(names) and len(names) > 30
    for name in names:
        np.testing.assert_array_equal(
            found.get_tensor(name), expected.get_tensor(name), name
        )


class Steps(tf.train.SessionRunHook):
    """The global step after each step; requests a stop after `stop_at`."""

    def __init__(self, stop_at=None):
        self.seen, self._stop_at = [], stop_at

    def after_run(self, run_context, run_values):
        self.seen.append(int(run_context.session.run(tf.train.get_global_step())))
        if self.seen[-1] == self._stop_at:
            run_context.request_stop()


def count(features):
    """A model that sums its data."""
    total = tf.get_variable("total", [], tf.float32, tf.initializers.zeros())
    added = total.assign_add(tf.reduce_sum(features), read_value=False)
    with tf.control_dependencies([added]):
        step = tf.train.get_global_step().assign_add(1, read_value=False)
    return EstimatorSpec(tf.reduce_sum(features), step)


def numbers(count):
    return tf.data.Dataset.range(count).map(lambda number: tf.cast(number, tf.float32))


@pytest.mark.parametrize(
    "batches, max_steps, stop_at, last",
    (
        (9, 4, None, 4),  # by max_steps
        (3, 9, None, 3),  # by the end of the data
        (9, 9, 2, 2),  # by a hook
    ),
)
def test_when_training_ends(tmp_path, batches, max_steps, stop_at, last):
    hook = Steps(stop_at)
    Estimator(count, str(tmp_path), Devices(None)).train(
        lambda: numbers(batches), max_steps=max_steps, hooks=[hook]
    )
    assert hook.seen == list(range(1, last + 1))


def test_a_run_that_has_all_its_steps_trains_no_more(tmp_path):
    """As TensorFlow's, which returns before it makes a session."""
    estimator, hook = Estimator(count, str(tmp_path), Devices(None)), Steps()
    for max_steps, hooks in ((3, [Saved(tmp_path)]), (3, [hook]), (5, [hook])):
        estimator.train(lambda: numbers(9), max_steps=max_steps, hooks=hooks)
    assert hook.seen == [4, 5]


@pytest.mark.parametrize("error", (tf.errors.AbortedError, tf.errors.OutOfRangeError))
def test_an_error_that_is_not_the_end_of_the_data_ends_the_training(tmp_path, error):
    """TensorFlow's own would make another session, or take EFBIG of a checkpoint for the end."""

    class Failing(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise error(None, None, "lost")

    with pytest.raises(tf.errors.OpError, match="lost"):
        Estimator(count, str(tmp_path), Devices(None)).train(
            lambda: numbers(9), max_steps=3, hooks=[Failing()]
        )
