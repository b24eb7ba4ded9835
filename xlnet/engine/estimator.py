"""An Estimator with the interface of `tf.estimator`, which ended with TensorFlow 2.15.

On TensorFlow 2.15.1 every variable has the same bits as with `tf.estimator`
(`tests/engine/test_estimator.py`). When a run saves, evaluates and stops is in `loop`.
`CheckpointOutputs` predicts, on all devices of a run.

Shape letters: m examples, B batch.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, multi_host, stop_signal
from xlnet.engine.devices import (
    Devices,
    divide_cores,
    replica_index,
    without_registered_gradients,
)
from xlnet.settings.network import XLNetConfig
from xlnet.settings.training import OptimizationSettings, RunSettings
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


class TrainingRun(Protocol):
    """What the loop needs of a run: of `pretraining.run.PretrainingRun` or of
    `finetuning.run.FineTuningRun`.

    Attributes:
      settings: of the run.
      optimization: the length of training among them.
      config: the architecture.
      devices: of the run.
      unit: what throughput counts, and how many of them a step has.
      with_perplexity: whether the loss is in nats per token, so that there is a perplexity.
    """

    @property
    def settings(self) -> RunSettings: ...
    @property
    def optimization(self) -> OptimizationSettings: ...
    @property
    def config(self) -> XLNetConfig: ...
    @property
    def devices(self) -> Devices: ...
    @property
    def unit(self) -> tuple[str, int]: ...
    @property
    def with_perplexity(self) -> bool: ...

    def model_fn(self, features: dict[str, tf.Tensor]) -> EstimatorSpec:
        """The training step of a replica."""

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's batches from the batch `start` on, counted over the run, divided among its
        replicas."""

    def banner(self) -> dict[str, str]:
        """What is trained on what, in lines by their names."""

    def write_document(self) -> None:
        """Writes what the run is into the model directory."""

    def check_host(self) -> None:
        """Raises UserError if this host has other settings than the first one, which has written
        the document."""


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

            # The session runs on the TensorFlow server of this host if there are several, or on
            # that of a TPU. Unlike that of `MonitoredSession`, it is not created again after a host
            # is lost: interrupted sums over hosts do not recover until the program is restarted.
            resolver = strategy.cluster_resolver
            config = self._devices.session_config(is_training=True)
            prefix = checkpoint.newest(self._model_dir)
            try:
                session = tf.train.SingularMonitoredSession(
                    hooks=[*monitors, *hooks],
                    master=resolver.master(rpc_layer="grpc") if resolver else "",
                    config=strategy.update_config_proto(config),
                    checkpoint_filename_with_path=prefix,
                )
            except (tf.errors.OutOfRangeError, tf.errors.DataLossError) as e:
                where, found = f"checkpoint {prefix}", errors.reason(e)
                remedy = "remove it: the run resumes from the one before"
                raise errors.wrong(where, found, "all of its bytes", remedy) from e
            # Not by the session's own `with`, which takes a failure to write a file, an
            # OutOfRangeError, for the end of the data, and ends without an error.
            with contextlib.closing(session):
                yield Training(session, fetches)


def is_end_of_data(error: tf.errors.OutOfRangeError) -> bool:
    """Whether a data set has no more batches. Failures to write or read a file, such as "File too
    large" of a checkpoint, are of the same class."""
    return "End of sequence" in error.message


# ---- outputs of a checkpoint


class CheckpointOutputs:
    """A copy of the network on each device, built once for all data and checkpoints of a run.

    With one source of batches, each device takes the next batch as soon as it is free: the batches,
    and with them the outputs, are those of a single device. With a source for each device, local
    variables, such as a memory, are zero at the start and carried from batch to batch. EMA weights
    are used where a checkpoint has them.

    Args:
      outputs: function from a batch, a dict of tensors, to a dict of tensors [B,...]: the network
        and what is computed of it.
      sources: functions that make a `tf.data.Dataset` of batches: one for all devices, or one for
        each. Each call of the predictor reads them from their start.
      used: the devices.
      seed: of the initial weights.
      at_once: batches that each device predicts in parallel, each on its part of the cores, see
        `Devices.parallel_batches`; 1 where local variables are carried or the process also trains.
    """

    def __init__(
        self,
        outputs: Callable[[dict[str, tf.Tensor]], dict[str, Any]],
        sources: Sequence[Callable[[], tf.data.Dataset]],
        used: Devices,
        seed: int = 0,
        at_once: int = 1,
    ):
        self._at_once = at_once
        strategy = used.strategy or tf2.distribute.get_strategy()
        with (
            without_registered_gradients(),
            tf.Graph().as_default() as graph,
            strategy.scope(),
        ):
            tf.set_random_seed(seed)
            iterators = []
            with tf.device("/cpu:0"):
                for make in sources:
                    iterators.append(tf.data.make_initializable_iterator(make()))

            def copy() -> dict[str, Any]:
                # Either all devices share one source of batches (fine-tuning), or each has its own
                # text streams.
                iterator = iterators[replica_index() % len(iterators)]
                with tf.device("/cpu:0"):
                    batch = iterator.get_next()
                return outputs(batch)  # the network

            self._copies = strategy.experimental_local_results(
                strategy.extended.call_for_each_replica(copy)
            )
            starts = [iterator.initializer for iterator in iterators]
            self._begin = tf.group(tf.local_variables_initializer(), *starts)
            self._initialize = tf.global_variables_initializer()
        config = used.session_config()
        if at_once > 1:
            divide_cores(config, at_once)
        self._strategy = strategy
        self._session = tf.Session(graph=graph, config=config)

    def __call__(self, prefix: Optional[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields (index of a device, dict of arrays: its outputs for its next batch). prefix: of a
        checkpoint, a UserError if it is not complete; None: the initial weights."""
        if prefix is None:
            self._session.run(self._initialize)
        else:
            with self._session.graph.as_default(), self._strategy.scope():
                variables = tf.global_variables()
                checkpoint.restore(self._session, prefix, variables)
        self._session.run(self._begin)
        # Each device takes the next batch as soon as it is done with one, until there are no more.
        # Example: two devices with two batches in parallel each are 0, 1, 0, 1.
        numbers = self._at_once * list(range(len(self._copies)))
        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
            running: dict[concurrent.futures.Future, int] = {}

            def start(number: int) -> None:
                running[pool.submit(self._session.run, self._copies[number])] = number

            for number in numbers:
                start(number)
            while running:
                done, _ = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in done:
                    number = running.pop(future)
                    try:
                        outputs = future.result()
                    except tf.errors.OutOfRangeError as e:
                        if not is_end_of_data(e):
                            raise
                        continue
                    start(number)
                    yield number, outputs


def in_order(parts: Sequence[dict]) -> dict:
    """Joins batches: dict of arrays [m,...] in the order of `index`, which is left out."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined.pop("index"), kind="stable")
    return {name: values[order] for name, values in joined.items()}
