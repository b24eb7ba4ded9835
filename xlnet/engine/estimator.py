"""An Estimator with the interface of `tf.estimator`, which ended with TensorFlow 2.15.

It only trains: hooks save, evaluate and report (see `trainer`). On TensorFlow 2.15.1 every variable
has the same bits as with `tf.estimator` (`tests/engine/test_estimator.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import errors
from xlnet.engine import checkpoint, multi_host
from xlnet.engine.devices import Devices, gradients_forgotten


class EstimatorSpec(NamedTuple):
    """What a `model_fn` returns: loss, float32 []; train_op, the operation of one step."""

    loss: tf.Tensor
    train_op: tf.Operation


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
        *,
        max_steps: int,
        hooks: Sequence[tf.train.SessionRunHook] = (),
    ) -> None:
        """Trains until the global step is `max_steps`, the data ends or a hook requests a stop.

        On several hosts each of them calls this; an error of the session ends the training.

        Args:
          input_fn: function that returns this host's batches, one for each replica of the host in
            turn.
          max_steps: the last step; does nothing if the newest checkpoint is of this step or later.

        Raises:
          UserError: the checkpoint to resume from lacks a variable that the network needs, a host
            is lost, the data is bad, or a checkpoint cannot be written.
        """
        if checkpoint.step_of(self._model_dir) >= max_steps:
            return
        strategy = self._devices.strategy or tf2.distribute.get_strategy()
        # The TensorFlow server for the session: this host's, of several, or a TPU's.
        resolver = strategy.cluster_resolver
        master = resolver.master(rpc_layer="grpc") if resolver else ""

        def on_cpu(context):
            with tf.device("/cpu:0"):
                return input_fn()

        def on_replica(features):
            """Builds the step of a replica; its loss, float32 [], once the step is done."""
            spec = self._model_fn(features)
            with tf.control_dependencies([spec.train_op]):
                return tf.identity(spec.loss)

        with (
            errors.explained(model_dir=self._model_dir),
            gradients_forgotten(),
            multi_host.monitored(self._devices.hosts, self._model_dir) as monitors,
            tf.Graph().as_default(),
            strategy.scope(),
        ):
            # The graph: on each replica a step on its part of the host's next batch.
            tf.set_random_seed(self._seed)
            iterator = strategy.make_input_fn_iterator(on_cpu)
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, tf.group(iterator.initialize()))
            tf.train.create_global_step()
            loss = strategy.run(on_replica, args=(iterator.get_next(),))
            # Sharded: each host has a part of the saver on devices of its own.
            tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(sharded=True))

            # The steps. Unlike `MonitoredSession`, this session is not created again after a host
            # is lost: interrupted sums over hosts do not recover until the program is restarted.
            with tf.train.SingularMonitoredSession(
                hooks=[*monitors, *hooks, tf.train.StopAtStepHook(last_step=max_steps)],
                master=master,
                checkpoint_dir=self._model_dir,
                config=strategy.update_config_proto(self._devices.session_config(is_training=True)),
            ) as session:
                while not session.should_stop():
                    try:
                        session.run(strategy.experimental_local_results(loss))
                    except tf.errors.OutOfRangeError as e:
                        if is_end_of_data(e):
                            break
                        # The session would end without an error at one of this class.
                        raise tf.errors.UnknownError(e.node_def, e.op, e.message) from e


def is_end_of_data(error: tf.errors.OutOfRangeError) -> bool:
    """Whether a data set has no more batches. Failures to write or read a file, such as "File too
    large" of a checkpoint, are of the same class."""
    return "End of sequence" in error.message
