"""An Estimator with the interface of `tf.estimator`, which ended with TensorFlow 2.15.

It only trains: `Actions` save, evaluate and report (see `trainer`). On TensorFlow 2.15.1 every
variable has the same bits as with `tf.estimator` (`tests/engine/test_estimator.py`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import errors
from xlnet.engine import checkpoint, multi_host
from xlnet.engine.devices import Devices, without_registered_gradients


class EstimatorSpec(NamedTuple):
    """What a `model_fn` returns: loss, float32 []; train_op, the operation of one step."""

    loss: tf.Tensor
    train_op: tf.Operation


class CompiledStepFailed(Exception):
    """The first step failed, not for its data, and nobody had asked that XLA compiles it: try it
    without."""


class Actions:
    """The actions of a run before, between and after the steps of `Estimator.train`, which calls
    these methods in this order. The methods of this class do nothing; `RunActions` has those of the
    trainer."""

    def graph_is_built(self) -> dict[str, Any]:
        """Returns what to fetch in each step: a nest of tensors, by name."""
        return {}

    def start(self, session: tf.Session, step: int) -> None:
        """The checkpoint is restored; step: the global step, 0 for initial weights."""

    def before_step(self, session: tf.Session) -> None:
        """Another step follows."""

    def data_have_ended(self) -> None:
        """There is no batch for this step, and no other one follows."""

    def report(self, step: int, fetched: dict[str, Any]) -> None:
        """A step was run; fetched: its values."""

    def is_save_due(self, step: int) -> bool:
        """Whether a checkpoint of this step is saved."""
        return False

    def save(self, session: tf.Session, step: int) -> None:
        """Saves it."""

    def is_evaluation_due(self, step: int) -> bool:
        """Whether the checkpoint of this step, which is saved, is evaluated."""
        return False

    def evaluate(self, step: int) -> None:
        """Evaluates it."""

    def is_stop_asked(self) -> bool:
        """Whether no more steps follow."""
        return False

    def finish(self, session: tf.Session, step: int) -> None:
        """Called after the last step if there was no error; step: the number of that step."""


class Estimator:
    """Trains what a `model_fn` builds, on each replica of a run.

    Args:
      model_fn: function of the features of a batch that returns an `EstimatorSpec`; called once for
        each replica.
      model_dir: directory whose newest checkpoint the training continues from, if it has one.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str,
        devices: Devices,
        seed: int = 0,
    ):
        self._model_fn = model_fn
        self._model_dir = model_dir
        self._devices = devices
        self._seed = seed

    def train(
        self,
        input_fn: Callable[[], tf.data.Dataset],
        actions: Optional[Actions] = None,
        *,
        max_steps: int,
        hooks: Sequence[tf.train.SessionRunHook] = (),
    ) -> None:
        """Trains until the global step is `max_steps`, the data ends, or actions or hooks ask for a
        stop.

        On several hosts each of them calls this; an error of the session ends the training.

        Args:
          input_fn: function that returns this host's batches, one for each replica of the host in
            turn.
          actions: what is done between steps; None: nothing.
          max_steps: the last step; does nothing if the newest checkpoint is of this step or later.
          hooks: TensorFlow's, such as a profiler.

        Raises:
          UserError: the checkpoint to resume from lacks a variable that the network needs, a host
            is lost, the data is bad, or a checkpoint cannot be written.
          CompiledStepFailed: see there.
        """
        if checkpoint.step_of(self._model_dir) >= max_steps:
            return
        actions = actions or Actions()
        strategy = self._devices.strategy or tf2.distribute.get_strategy()
        # Find the TensorFlow server for the session: that of this host if there are several, or
        # that of a TPU.
        resolver = strategy.cluster_resolver
        master = resolver.master(rpc_layer="grpc") if resolver else ""
        with (
            errors.translated_errors(model_dir=self._model_dir),
            without_registered_gradients(),
            multi_host.monitored(self._devices.hosts, self._model_dir) as monitors,
            tf.Graph().as_default(),
            strategy.scope(),
        ):
            # Build the graph: each replica makes a step on its part of the host's next batch.
            losses = self._build(strategy, input_fn)
            fetches = actions.graph_is_built()

            # Create the session. Unlike that of `MonitoredSession`, it is not created again after a
            # host is lost: interrupted sums over hosts do not recover until the program is
            # restarted.
            with (
                tf.train.SingularMonitoredSession(
                    hooks=[*monitors, *hooks],
                    master=master,
                    checkpoint_dir=self._model_dir,
                    config=strategy.update_config_proto(
                        self._devices.session_config(is_training=True)
                    ),
                ) as monitored,
                failures_not_silent(),
            ):
                session = monitored.raw_session()  # the hooks see steps alone
                first = step = int(session.run(tf.train.get_global_step()))
                actions.start(session, step)

                while step < max_steps and not monitored.should_stop():
                    # Read the next batch and run the step; both are one call, as the graph reads
                    # the batch itself. The steps are counted here, since the graph may read its own
                    # count before or after the update.
                    actions.before_step(session)
                    try:
                        _, fetched = monitored.run([losses, fetches])
                    except tf.errors.OutOfRangeError as e:
                        if not is_end_of_data(e):
                            raise
                        actions.data_have_ended()
                        break
                    except tf.errors.OpError as e:
                        may_give_way = step == first and self._devices.xla_gives_way
                        if may_give_way and not is_of_data(e):
                            raise CompiledStepFailed(errors.reason(e)) from e
                        raise
                    step += 1
                    actions.report(step, fetched)

                    # Save if that is due.
                    if actions.is_save_due(step):
                        actions.save(session, step)

                    # Evaluate what was saved if that is due.
                    if actions.is_evaluation_due(step):
                        actions.evaluate(step)

                    # Stop if a signal or early stopping requests it.
                    if actions.is_stop_asked():
                        break

                actions.finish(session, step)

    def _build(
        self, strategy: tf2.distribute.Strategy, input_fn: Callable[[], tf.data.Dataset]
    ) -> Sequence[tf.Tensor]:
        """Builds the step on all replicas; returns the loss of each of this host, float32 [], once
        its step is done."""

        def on_cpu(context: tf2.distribute.InputContext) -> tf.data.Dataset:
            with tf.device("/cpu:0"):
                return input_fn()

        def on_replica(features: Any) -> tf.Tensor:
            spec = self._model_fn(features)
            with tf.control_dependencies([spec.train_op]):
                return tf.identity(spec.loss)

        tf.set_random_seed(self._seed)
        iterator = strategy.make_input_fn_iterator(on_cpu)
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, tf.group(iterator.initialize()))
        tf.train.create_global_step()
        loss = strategy.run(on_replica, args=(iterator.get_next(),))
        # The saver is sharded: each host has a part of it on its own devices.
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(sharded=True))
        return strategy.experimental_local_results(loss)


@contextlib.contextmanager
def failures_not_silent() -> Iterator[None]:
    """Turns an OutOfRangeError inside, of a step, a save or an evaluation, into an UnknownError.

    TensorFlow's session takes any error of that class for the end of the data: it would end without
    an error, and the run as if it had all of its steps.
    """
    try:
        yield
    except tf.errors.OutOfRangeError as e:
        raise tf.errors.UnknownError(e.node_def, e.op, e.message) from e


def is_end_of_data(error: tf.errors.OutOfRangeError) -> bool:
    """Whether a data set has no more batches. Failures to write or read a file, such as "File too
    large" of a checkpoint, are of the same class."""
    return "End of sequence" in error.message


# The node that reads a batch, as an error lists it among those that it passed through:
# [[{{node IteratorGetNext}}]] or [[IteratorGetNext]]. [[IteratorGetNext/_3]] is something else, a
# copy of the batch to another device that was waited for.
_READS_BATCH = re.compile(r"\[\[(\{\{node )?IteratorGetNext(_\d+)?(\}\})?\]\]")


def is_of_data(error: tf.errors.OpError) -> bool:
    """Whether a step failed as its batch could not be read, as with a damaged record."""
    return bool(_READS_BATCH.search(error.message))
