"""An Estimator with the interface of `tf.estimator`, which ended with TensorFlow 2.15.

On TensorFlow 2.15.1 every variable has the same bits as with `tf.estimator`
(`tests/engine/test_estimator.py`). When a run saves, evaluates and stops is in `loop`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, multi_host, stop_signal
from xlnet.engine.devices import Devices, without_registered_gradients
from xlnet.support import errors


class EstimatorSpec(NamedTuple):
    """What a `model_fn` returns.

    Attributes:
      loss: float32 [], of the global batch.
      train_op: the operation of one step.
      scalars: further values of the step by name, float32 [], that are reported.
    """

    loss: tf.Tensor
    train_op: tf.Operation
    scalars: Mapping[str, tf.Tensor] = MappingProxyType({})


class Training:
    """A training that has started; `step` counts the steps.

    Attributes:
      session: the session of the training.
      saver: writes all variables; each host has a part of it on its own devices.
      step: the global step.
    """

    def __init__(
        self, monitored: tf.train.SingularMonitoredSession, fetches: dict[str, Any]
    ):
        self._monitored = monitored
        self._fetches = fetches
        self.session: tf.Session = monitored.raw_session()  # the hooks see steps alone
        self.saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        self.step = int(self.session.run(tf.train.get_global_step()))

    def run_step(self) -> Optional[dict[str, Any]]:
        """Reads the next batch, which the graph does itself, and makes a step on it.

        Returns:
          The scalars of the step by name, with `loss`, and `stop` (above 0: a signal has come to
          any host); None: there is no batch, or a hook has requested a stop.
        """
        if self._monitored.should_stop():
            return None
        try:
            values = self._monitored.run(self._fetches)
        except tf.errors.OutOfRangeError as e:
            if not is_end_of_data(e):
                raise
            return None
        # Counted here: the graph may read its own count before or after the update.
        self.step += 1
        return {name: of_replicas[0] for name, of_replicas in values.items()}


class Estimator:
    """Trains what a `model_fn` builds, on each replica of a run.

    Args:
      model_fn: function of the features of a batch that returns an `EstimatorSpec`; called once for
        each replica.
      model_dir: directory whose newest checkpoint the training continues from, if it has one.
      devices: of the run.
      seed: of the initial weights.
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
        *,
        max_steps: int,
        hooks: Sequence[tf.train.SessionRunHook] = (),
    ) -> None:
        """Trains until the global step is `max_steps`, the data ends, or a hook asks for a stop.

        Args:
          input_fn: function that returns this host's batches, one for each replica of the host in
            turn.
          max_steps: the last step; does nothing if the newest checkpoint is of this step or later.
          hooks: TensorFlow's, such as a profiler; they save and report.
        """
        if checkpoint.step_of(self._model_dir) >= max_steps:
            return
        with self.started(input_fn, hooks) as training:
            while training.step < max_steps and training.run_step() is not None:
                pass

    @contextlib.contextmanager
    def started(
        self,
        input_fn: Callable[[], tf.data.Dataset],
        hooks: Sequence[tf.train.SessionRunHook] = (),
    ) -> Iterator[Training]:
        """Builds the step on all replicas and restores the newest checkpoint; yields the
        `Training`, whose session ends with the block.

        Raises:
          UserError: the checkpoint lacks a variable that the network needs, a host is lost, the
            data is bad, or a checkpoint cannot be written.
        """
        strategy = self._devices.strategy or tf2.distribute.get_strategy()

        def on_cpu(context: tf2.distribute.InputContext) -> tf.data.Dataset:
            with tf.device("/cpu:0"):
                return input_fn()

        def on_replica(features: Any) -> dict[str, tf.Tensor]:
            spec = self._model_fn(features)
            stop = stop_signal.seen_by_all_hosts()
            with tf.control_dependencies([spec.train_op]):
                return dict(spec.scalars, loss=tf.identity(spec.loss), stop=stop)

        with (
            errors.translated_errors(model_dir=self._model_dir),
            without_registered_gradients(),
            multi_host.monitored(self._devices.hosts) as monitors,
            tf.Graph().as_default(),
            strategy.scope(),
        ):
            # Build the graph: each replica makes a step on its part of the host's next batch.
            tf.set_random_seed(self._seed)
            iterator = strategy.make_input_fn_iterator(on_cpu)
            tf.add_to_collection(
                tf.GraphKeys.TABLE_INITIALIZERS, tf.group(iterator.initialize())
            )
            tf.train.create_global_step()
            of_replicas = strategy.run(on_replica, args=(iterator.get_next(),))
            fetches = {}
            for name, value in of_replicas.items():
                fetches[name] = strategy.experimental_local_results(value)
            tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(sharded=True))

            with (
                self._session(strategy, monitors, hooks) as monitored,
                failures_not_silent(),
            ):
                yield Training(monitored, fetches)

    def _session(
        self,
        strategy: tf2.distribute.Strategy,
        monitors: Sequence[tf.train.SessionRunHook],
        hooks: Sequence[tf.train.SessionRunHook],
    ) -> tf.train.SingularMonitoredSession:
        """The session, with the values of the newest checkpoint."""
        # Find the TensorFlow server for the session: that of this host if there are several, or
        # that of a TPU.
        resolver = strategy.cluster_resolver
        config = self._devices.session_config(is_training=True)
        prefix = checkpoint.newest(self._model_dir)
        # Unlike that of `MonitoredSession`, it is not created again after a host is lost:
        # interrupted sums over hosts do not recover until the program is restarted.
        try:
            return tf.train.SingularMonitoredSession(
                hooks=[*monitors, *hooks],
                master=resolver.master(rpc_layer="grpc") if resolver else "",
                config=strategy.update_config_proto(config),
                checkpoint_filename_with_path=prefix,
            )
        except (tf.errors.OutOfRangeError, tf.errors.DataLossError) as e:
            raise errors.wrong(
                f"checkpoint {prefix}",
                errors.reason(e),
                "all of its bytes",
                "remove it: the run resumes from the one before",
            ) from e


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
