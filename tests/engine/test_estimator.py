"""The Estimator compared with TensorFlow's own, where there is one."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.pretraining import train

from xlnet.engine import trainer
from xlnet.engine.devices import Devices, connect
from xlnet.engine.estimator import Actions, CompiledStepFailed, Estimator, EstimatorSpec
from xlnet.errors import UserError
from xlnet.settings.devices import DeviceSettings

RUN = dict(train_steps=20, save_steps=10, max_save=0, eval_steps=0)


class TensorFlows:
    """`tf.estimator.Estimator` with the arguments and the model functions of ours."""

    def __init__(self, model_fn, model_dir, devices, seed):
        self._estimator = tf2.estimator.Estimator(
            lambda features: tf2.estimator.EstimatorSpec(
                tf2.estimator.ModeKeys.TRAIN, **model_fn(features)._asdict()
            ),
            model_dir,
            tf2.estimator.RunConfig(
                save_checkpoints_steps=None,
                save_checkpoints_secs=None,
                save_summary_steps=None,
                log_step_count_steps=None,
                tf_random_seed=seed,
                session_config=devices.session_config(is_training=True),
                train_distribute=devices.strategy,
            ),
        )

    def train(self, input_fn, actions, max_steps):
        self._estimator.train(input_fn, [AsHook(actions)], max_steps=max_steps)


class AsHook(tf.train.SessionRunHook):
    """Calls `Actions` in the order of `Estimator.train`, from the loop of TensorFlow's."""

    def __init__(self, actions):
        self._actions = actions

    def begin(self):
        self._fetches = self._actions.graph_is_built()

    def after_create_session(self, session, coord):
        self._step = int(session.run(tf.train.get_global_step()))
        self._actions.start(session, self._step)

    def before_run(self, run_context):
        self._actions.before_step(run_context.session)
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        actions, session = self._actions, run_context.session
        self._step += 1
        actions.report(self._step, run_values.results)
        if actions.is_save_due(self._step):
            actions.save(session, self._step)
        if actions.is_evaluation_due(self._step):
            actions.evaluate(self._step)
        if actions.is_stop_asked():
            run_context.request_stop()

    def end(self, session):
        self._actions.finish(session, self._step)


def variables(model_dir):
    """All values of the last checkpoint, optimizer slots and step included."""
    reader = tf.train.load_checkpoint(str(model_dir / "model.ckpt-20"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.skipif(not hasattr(tf2, "estimator"), reason="this TensorFlow has no Estimator")
@pytest.mark.parametrize(
    "changes",
    (dict(), dict(num_core_per_host=2), dict(grad_accum_steps=2)),
    ids=("one", "replicas", "micro_batches"),
)
@pytest.mark.slow
def test_training_is_that_of_tensorflows_bit_for_bit(place, tmp_path, monkeypatch, changes):
    """20 steps with dropout and memories, and 10 steps after the other's checkpoint of step 10."""

    def run(name):
        done = train(place, tmp_path / name, **RUN, **changes)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def interrupted(name, at):
        shutil.copytree(tmp_path / name, tmp_path / at)
        for path in (tmp_path / at).glob("*-20*"):
            path.unlink()

    run("ours")
    interrupted("ours", "ours_then_theirs")
    monkeypatch.setattr(trainer, "Estimator", TensorFlows)
    run("theirs")
    assert "10 to 20" in run("ours_then_theirs")
    monkeypatch.undo()
    interrupted("theirs", "theirs_then_ours")
    assert "10 to 20" in run("theirs_then_ours")
    expected = variables(tmp_path / "theirs")
    assert expected["global_step"] == 20 and len(expected) > 30
    for name in ("ours", "ours_then_theirs", "theirs_then_ours"):
        found = variables(tmp_path / name)
        assert set(found) == set(expected)
        for variable, value in expected.items():
            np.testing.assert_array_equal(found[variable], value, f"{name}: {variable}")


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


@pytest.mark.parametrize(
    "batches, max_steps, stop_at, last",
    (
        (9, 4, None, 4),  # by max_steps
        (3, 9, None, 3),  # by the end of the data
        (9, 9, 2, 2),
    ),
)  # by a hook
def test_when_training_ends(tmp_path, batches, max_steps, stop_at, last):
    hook = Steps(stop_at)
    Estimator(count, str(tmp_path), Devices(None)).train(
        lambda: tf.data.Dataset.range(batches).map(float_of), max_steps=max_steps, hooks=[hook]
    )
    assert hook.seen == list(range(1, last + 1))


def test_a_run_that_has_all_its_steps_trains_no_more(tmp_path):
    """As TensorFlow's, which returns before it makes a session."""
    estimator = Estimator(count, str(tmp_path), Devices(None))
    saved, hook = Saved(tmp_path), Steps()

    def train(max_steps, hook):
        estimator.train(
            lambda: tf.data.Dataset.range(9).map(float_of), max_steps=max_steps, hooks=[hook]
        )

    train(3, saved)
    train(3, hook)
    train(2, hook)
    assert hook.seen == []
    train(5, hook)
    assert hook.seen == [4, 5]


class Saved(tf.train.SessionRunHook):
    """Saves a checkpoint at the end."""

    def __init__(self, directory):
        self._prefix = str(directory / "model.ckpt")

    def end(self, session):
        tf.get_collection(tf.GraphKeys.SAVERS)[0].save(
            session, self._prefix, global_step=tf.train.get_global_step()
        )


def float_of(number):
    return tf.cast(number, tf.float32)


class Failing(tf.train.SessionRunHook):
    """Raises an error in the first step, as a session does whose host is lost."""

    def __init__(self, error):
        self.sessions, self._error = 0, error

    def after_create_session(self, session, coord):
        self.sessions += 1

    def after_run(self, run_context, run_values):
        if self.sessions < 3:
            raise self._error(None, None, "lost")


@pytest.mark.parametrize(
    "error", (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.UnknownError)
)
def test_an_error_of_the_session_ends_the_training(tmp_path, error):
    """Where TensorFlow's own would make another session."""
    hook = Failing(error)
    with pytest.raises(error, match="lost"):
        Estimator(count, str(tmp_path), Devices(None)).train(
            lambda: tf.data.Dataset.range(9).map(float_of), max_steps=3, hooks=[hook]
        )
    assert hook.sessions == 1


def test_an_end_that_is_not_that_of_the_data_is_an_error(tmp_path):
    """TensorFlow reports EFBIG of a checkpoint as the class of error with which data ends."""

    def failing(features):
        spec = count(features)
        with tf.control_dependencies([spec.train_op]):
            return spec._replace(train_op=tf.raw_ops.ReadFile(filename="/dev/null/x").op)

    for model_fn, hooks in ((count, [Failing(tf.errors.OutOfRangeError)]), (failing, [])):
        with pytest.raises(tf.errors.OpError):
            Estimator(model_fn, str(tmp_path), Devices(None)).train(
                lambda: tf.data.Dataset.range(9).map(float_of), max_steps=3, hooks=hooks
            )


@pytest.mark.parametrize("where", ("start", "save", "evaluate", "finish"))
def test_a_failure_between_the_steps_is_an_error(tmp_path, where):
    """Also where it is of the class with which data ends, as EFBIG of a checkpoint is."""

    def fail(self, *arguments):
        raise tf.errors.OutOfRangeError(None, None, f"{where}: End of sequence")

    always = {name: lambda self, step: True for name in ("is_save_due", "is_evaluation_due")}
    actions = type("Failing", (Actions,), {**always, where: fail})()
    with pytest.raises(tf.errors.UnknownError, match=where):
        Estimator(count, str(tmp_path), Devices(None)).train(
            lambda: tf.data.Dataset.range(9).map(float_of), actions, max_steps=3
        )


def test_replicas_end_with_the_data(tmp_path):
    def read(features):
        return EstimatorSpec(tf.reduce_sum(features), tf.no_op())

    hook, devices = Steps(), connect(DeviceSettings(device="cpu", num_core_per_host=2))
    Estimator(read, str(tmp_path), devices).train(
        lambda: tf.data.Dataset.range(6).map(float_of), max_steps=9, hooks=[hook]
    )
    assert len(hook.seen) == 3


def damaged_records(directory):
    """Records of which the first one does not have its checksum."""
    path = directory / "damaged.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(9):
            writer.write(b"0.5")
    content = bytearray(path.read_bytes())
    content[12] ^= 1
    path.write_bytes(content)
    return tf.data.TFRecordDataset(str(path)).map(tf.strings.to_number)


def of_no_number(number):
    return tf.strings.to_number(tf.strings.join(["x", tf.strings.as_string(number)]))


def of_bad_row(number):
    def fail(value):
        raise ValueError("bad row")

    return tf.py_func(fail, [number], tf.float32)


@pytest.mark.parametrize("replicas", (1, 2))
@pytest.mark.parametrize(
    "data",
    (
        damaged_records,
        lambda directory: tf.data.TFRecordDataset(str(directory / "gone")).map(
            tf.strings.to_number
        ),
        lambda directory: tf.data.Dataset.range(9).map(of_no_number),
        lambda directory: tf.data.Dataset.range(9).map(of_bad_row),
    ),
    ids=("damaged", "gone", "no number", "python"),
)
def test_bad_data_in_the_first_step_are_no_fault_of_xla(tmp_path, data, replicas):
    """They were tried again without XLA, which took minutes and said the same."""
    devices = connect(DeviceSettings(device="cpu", num_core_per_host=replicas))
    devices = dataclasses.replace(devices, xla_gives_way=True)
    estimator, actions = Estimator(summed, str(tmp_path), devices), Actions()
    ends = []
    actions.data_have_ended = lambda: ends.append(True)
    try:
        estimator.train(lambda: data(tmp_path), actions, max_steps=3)
    except (tf.errors.OpError, UserError):
        return
    # Of two replicas only one gets the error. The other one gets the end of the data, perhaps
    # earlier: `trainer`, which is told, says then that it is too early.
    assert replicas == 2 and ends


@pytest.mark.parametrize("replicas", (1, 2))
def test_a_step_that_is_not_compiled_is_the_fault_of_xla(tmp_path, replicas):
    @tf2.function(jit_compile=True)
    def not_compiled(x):
        return tf.strings.to_number(tf.as_string(x))

    devices = connect(DeviceSettings(device="cpu", num_core_per_host=replicas))
    devices = dataclasses.replace(devices, xla_gives_way=True)
    with pytest.raises(CompiledStepFailed, match="unsupported operations"):
        Estimator(lambda x: summed(not_compiled(x)), str(tmp_path), devices).train(
            lambda: tf.data.Dataset.range(6).map(float_of), max_steps=3
        )


def summed(features):
    return EstimatorSpec(tf.reduce_sum(features), tf.no_op())
