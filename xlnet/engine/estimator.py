"""An Estimator with the interface of `tf.estimator`, which ended with TensorFlow 2.15.

On TensorFlow 2.15.1 every variable has the same bits as with `tf.estimator`
(`tests/engine/test_estimator.py`). When a run saves, evaluates and stops is in `loop`.
`CheckpointOutputs` predicts, on all devices of a run.

Shape letters: m examples, B batch.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint
from xlnet.engine.devices import (
    Devices,
    divide_cores,
    local_parts,
    local_variable,
    mean_over_replicas,
    set_value,
    without_registered_gradients,
)
from xlnet.engine.multi_host import HostMonitor
from xlnet.settings.training import OptimizationSettings, RunSettings
from xlnet.support import errors


class EstimatorSpec(NamedTuple):
    """What a `model_fn` returns.

    Attributes:
      loss: float32 [], of the global batch.
      train_op: the operation of one step.
      scalars: further values of the step by name, float32 [], that are reported.
      memory: a variable of each replica that is saved with each checkpoint; None: without.
    """

    loss: tf.Tensor
    train_op: tf.Operation
    scalars: Mapping[str, tf.Tensor]
    memory: Any = None


class TrainingRun(Protocol):
    """What the engine needs of a run: of `pretraining.run.PretrainingRun` or of
    `finetuning.run.FineTuningRun`.

    Attributes:
      settings: of the run.
      optimization: the length of training among them.
      devices: of the run.
      unit: what throughput counts, and how many of them a step has.
    """

    @property
    def settings(self) -> RunSettings: ...
    @property
    def optimization(self) -> OptimizationSettings: ...
    @property
    def devices(self) -> Devices: ...
    @property
    def unit(self) -> tuple[str, int]: ...

    def model_fn(self, features: dict[str, tf.Tensor]) -> EstimatorSpec:
        """The training step of a replica: the loss, its gradients, the update."""

    def micro_batch_loss(
        self, part: dict[str, tf.Tensor], first_row: Any
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The loss of a part of a batch, float32 scalar, and tensors of its elements to keep;
        first_row: the index of its first one in the global batch."""

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's batches from the batch `start` on, counted over the run: one for each of its
        replicas in turn."""

    def banner(self) -> dict[str, str]:
        """What is trained on what, in lines by their names."""

    def write_document(self) -> None:
        """Writes what the run is into the model directory."""

    def check_host(self) -> None:
        """Raises UserError if this host has other settings than the first one, which has written
        the document."""


@dataclasses.dataclass
class Training:
    """A training that has started.

    Attributes:
      monitored: the session with hooks, which see steps alone.
      saver: writes all variables; each host has a part of it on its own devices.
      fetches: of a step: by name, the values of this host's replicas.
      memory: this host's parts of `EstimatorSpec.memory`, one of each replica; empty without.
      stop: this host's parts of the variable that says whether it is to stop.
      host_monitor: watches the other hosts.
      step: the number of steps so far, those before a resumption included.
    """

    monitored: tf.train.SingularMonitoredSession
    saver: tf.train.Saver
    fetches: dict[str, Any]
    memory: Sequence[Any]
    stop: Sequence[Any]
    host_monitor: HostMonitor
    step: int

    @property
    def session(self) -> tf.Session:
        """The session of the training, without hooks."""
        return self.monitored.raw_session()

    def run_step(self, stops: bool = False) -> dict[str, Any]:
        """Makes a step on the next batch, which the graph reads itself.

        Args:
          stops: whether this host is to stop.

        Returns:
          The scalars of the step by name, with `loss`, and `stop` (above 0: some host is to stop).

        Raises:
          UserError: there is no batch.
        """
        if stops:
            for part in self.stop:
                set_value(self.session, part, 1.0)
        self.host_monitor.is_waiting = True
        try:
            values = self.monitored.run(self.fetches)
        except tf.errors.OutOfRangeError as e:
            if not is_end_of_data(e):
                raise
            found = (
                f"the end of the data at step {self.step}: a batch could not be read"
            )
            expected = "batches without end"
            raise errors.wrong("records", found, expected, "xlnet data verify") from e
        self.host_monitor.is_waiting = False
        # Counted here: the graph may read its own count before or after the update.
        self.step += 1
        return {name: of_replicas[0] for name, of_replicas in values.items()}


class Estimator:
    """Trains what the `model_fn` of a run builds, on each of its replicas.

    Args:
      run: what is trained; the newest checkpoint of its model directory is continued, if it has
        one.
      hooks: TensorFlow's, such as a profiler.
    """

    def __init__(self, run: TrainingRun, hooks: Sequence[tf.train.SessionRunHook] = ()):
        self._run, self._hooks = run, hooks

    @contextlib.contextmanager
    def started(self, first: int) -> Iterator[Training]:
        """Builds the step on all replicas and restores the newest checkpoint; yields the
        `Training`, whose session ends with the block. first: the batch that it begins with.

        Raises:
          UserError: the checkpoint lacks a variable that the network needs, a host is lost, the
            data is bad, or a checkpoint cannot be written.
        """
        run, devices = self._run, self._run.devices
        model_dir = run.settings.model_dir
        strategy = devices.strategy or tf2.distribute.get_strategy()
        variables = []  # (memory, stop): each replica has its part of these

        def batches(context: tf2.distribute.InputContext) -> tf.data.Dataset:
            with tf.device("/cpu:0"):
                return run.batches(first)

        def step(features: Any) -> dict[str, tf.Tensor]:
            spec = run.model_fn(features)
            # Several hosts must stop in the same step, so all must see the same number: a host that
            # is to stop sets its variable, and the next step takes the mean over all.
            stop = local_variable("stop_asked_here", [])
            (mean,) = mean_over_replicas([stop.read_value()])
            variables.append((spec.memory, stop))
            with tf.control_dependencies([spec.train_op]):
                loss, stop_mean = tf.identity(spec.loss), tf.identity(mean)
            return dict(spec.scalars, loss=loss, stop=stop_mean)

        host_monitor, several = HostMonitor(), devices.hosts > 1
        with (
            errors.translated_errors(model_dir=model_dir),
            without_registered_gradients(),
            host_monitor.running() if several else contextlib.nullcontext(),
            tf.Graph().as_default(),
            strategy.scope(),
        ):
            # Build the graph: each replica makes a step on its part of the host's next batch.
            tf.set_random_seed(run.settings.seed)
            iterator = strategy.make_input_fn_iterator(batches)
            begin = tf.group(iterator.initialize())
            tf.train.create_global_step()
            of_replicas = strategy.run(step, args=(iterator.get_next(),))
            fetches = {}
            for name, value in of_replicas.items():
                fetches[name] = strategy.experimental_local_results(value)
            memory, stop = variables[0]
            saver = tf.train.Saver(sharded=True)

            # The session runs on the TensorFlow server of this host if there are several, or on
            # that of a TPU. Unlike that of `MonitoredSession`, it is not created again after a host
            # is lost: interrupted sums over hosts do not recover until the program is restarted.
            resolver = strategy.cluster_resolver
            config = devices.session_config(is_training=True)
            prefix = checkpoint.newest(model_dir)
            host_monitor.is_waiting = True
            local_init = tf.group(
                tf.local_variables_initializer(), tf.tables_initializer(), begin
            )
            try:
                session = tf.train.SingularMonitoredSession(
                    hooks=self._hooks,
                    scaffold=tf.train.Scaffold(saver=saver, local_init_op=local_init),
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
                host_monitor.is_waiting = False
                parts = local_parts(memory) if memory is not None else ()
                stops = local_parts(stop)
                begun = session.raw_session().run(tf.train.get_global_step())
                yield Training(
                    session, saver, fetches, parts, stops, host_monitor, int(begun)
                )


def is_end_of_data(error: tf.errors.OutOfRangeError) -> bool:
    """Whether a data set has no more batches. Failures to write or read a file, such as "File too
    large" of a checkpoint, are of the same class."""
    return "End of sequence" in error.message


# ---- outputs of a checkpoint


class CheckpointOutputs:
    """A copy of the network on each device, built once for all data and checkpoints of a run.

    Each device takes the next batch as soon as it is free: the batches, and with them the outputs,
    are those of a single device. EMA weights are used where a checkpoint has them.

    Args:
      outputs: function from a batch, a dict of tensors, to a dict of tensors [B,...]: the network
        and what is computed of it. Its local variables, such as a memory, are zero at the start of
        the batches and carried from one to the next: for one device.
      input_fn: function that returns the batches; each call of the predictor reads them from their
        start.
      used: the devices.
      seed: of the initial weights.
      at_once: batches that each device predicts in parallel, each on its part of the cores, see
        `Devices.parallel_batches`; 1 where local variables are carried or the process also trains.
    """

    def __init__(
        self,
        outputs: Callable[[dict[str, tf.Tensor]], dict[str, Any]],
        input_fn: Callable[[], tf.data.Dataset],
        used: Devices,
        seed: int = 0,
        at_once: int = 1,
    ):
        strategy = used.strategy or tf2.distribute.get_strategy()
        with (
            without_registered_gradients(),
            tf.Graph().as_default() as graph,
            strategy.scope(),
        ):
            tf.set_random_seed(seed)
            with tf.device("/cpu:0"):
                iterator = tf.data.make_initializable_iterator(input_fn())

            def copy() -> dict[str, Any]:
                with tf.device("/cpu:0"):
                    batch = iterator.get_next()
                return outputs(batch)  # the network

            of_replicas = strategy.extended.call_for_each_replica(copy)
            self._copies = strategy.experimental_local_results(of_replicas)
            local = tf.local_variables_initializer()
            self._begin = tf.group(local, iterator.initializer)
            self._initialize = tf.global_variables_initializer()
        config = used.session_config()
        if at_once > 1:
            divide_cores(config, at_once)
        self._at_once = at_once
        self._strategy = strategy
        self._session = tf.Session(graph=graph, config=config)

    def __call__(
        self, prefix: str | None, init_checkpoint: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yields the outputs for each batch, a dict of arrays.

        Args:
          prefix: of a checkpoint, a UserError if it is not complete; None: the initial weights.
          init_checkpoint: where the initial weights are from; None: they are random.
        """
        with self._session.graph.as_default(), self._strategy.scope():
            if prefix is not None:
                checkpoint.restore(self._session, prefix, tf.global_variables())
            else:
                self._session.run(self._initialize)
            if prefix is None and init_checkpoint:
                checkpoint.start_from(self._session, init_checkpoint)
        self._session.run(self._begin)
        # Each device has as many batches in work as it predicts at once, until there are no more.
        # Example: two devices with two batches in parallel each are 0, 1, 0, 1.
        copies = self._at_once * list(self._copies)
        with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
            running: collections.deque[Any] = collections.deque()
            for fetches in copies:
                running.append((fetches, pool.submit(self._session.run, fetches)))
            while running:
                fetches, future = running.popleft()
                try:
                    outputs = future.result()
                except tf.errors.OutOfRangeError as e:
                    if not is_end_of_data(e):
                        raise
                    continue
                running.append((fetches, pool.submit(self._session.run, fetches)))
                yield outputs


def in_order(parts: Sequence[dict]) -> dict:
    """Joins batches: dict of arrays [m,...] in the order of `index`, which is left out."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined.pop("index"), kind="stable")
    return {name: values[order] for name, values in joined.items()}
