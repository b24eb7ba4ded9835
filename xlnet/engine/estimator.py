"""What a run is for the engine, and the steps of a training: in place of `tf.estimator`, which
ended with TensorFlow 2.15. `Estimator.started` builds the step once, as a graph; each `run_step`
runs it.

On TensorFlow 2.15.1 every variable has the same bits as with `tf.estimator`
(`tests/engine/test_estimator.py`). When a run saves, evaluates and stops is in `loop`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.corpus import input_pipeline
from xlnet.engine import checkpoint
from xlnet.engine.devices import (
    Devices,
    local_parts,
    local_variable,
    mean_over_replicas,
    set_value,
    unregistering_gradients,
)
from xlnet.engine.multi_host import HostMonitor
from xlnet.model.ops import Tensors
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import OptimizationSettings, RunSettings
from xlnet.support import errors


class EstimatorSpec(NamedTuple):
    """What a `model_fn` returns.

    Attributes:
      loss: float32 [], of the global batch.
      train_op: the update of the weights, the number of steps and the memory.
      scalars: further values of the step by name, float32 [], that are reported.
      memory: a variable of each replica that is saved with each checkpoint; None: without.
    """

    loss: tf.Tensor
    train_op: tf.Operation
    scalars: Tensors
    memory: Any = None


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """What the engine needs of a run: of `pretraining.run.PretrainingRun` or of
    `finetuning.run.FineTuningRun`.

    Attributes:
      settings: of the run.
      optimization: the length of training among them.
      config: the architecture.
      devices: of the run.
      network: how the network is run, such as its precision and dropout.
      weights: the prefix of the checkpoint with the weights to start from, or to evaluate; None: a
        training has random ones, or those of the run that it resumes.
    """

    settings: RunSettings
    optimization: OptimizationSettings
    config: XLNetConfig
    devices: Devices
    network: NetworkSettings
    weights: str | None

    @property
    def unit(self) -> tuple[str, int]:
        """What throughput counts, in the plural, and how many of them a step has. Pretraining has
        tokens instead."""
        return "examples", self.settings.train_batch_size

    def model_fn(self, features: Tensors) -> EstimatorSpec:
        """Builds the training step of a replica: the loss, its gradients, the update. features:
        the replica's part of a batch of `batches`."""
        raise NotImplementedError

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's part of each batch, from the step `start` of the run on, without end."""
        raise NotImplementedError

    def banner(self) -> dict[str, str]:
        """What is trained on what, for the log: texts by the names of their lines."""
        raise NotImplementedError

    def write_document(self) -> None:
        """Writes what the run is into the model directory."""
        raise NotImplementedError

    def check_host(self) -> None:
        """Raises UserError if this host has other settings than the first one, which has written
        the document. Fine-tuning, which has one host, has nothing to check."""


@dataclasses.dataclass
class Estimator:
    """A training that has started: runs the step that the `model_fn` of a run has built.

    Attributes:
      monitored: the session with hooks. They see the steps, not what `session` runs.
      saver: writes all variables; each host has a part of it on its own devices.
      fetches: of a step: by name, the values of this host's replicas. Fetching the loss updates the
        weights.
      memory: this host's parts of `EstimatorSpec.memory`, one of each replica; empty without.
      stop_asked: this host's parts of a float32 variable: 1 if this host is to stop, else 0.
      host_monitor: watches the other hosts.
      step: the number of steps so far, those before a resumption included.
    """

    monitored: tf.train.SingularMonitoredSession
    saver: tf.train.Saver
    fetches: dict[str, Any]
    memory: Sequence[Any]
    stop_asked: Sequence[Any]
    host_monitor: HostMonitor
    step: int

    @property
    def session(self) -> tf.Session:
        """The session of the training, without hooks."""
        return self.monitored.raw_session()

    @classmethod
    @contextlib.contextmanager
    def started(
        cls,
        run: TrainingRun,
        start: int,
        hooks: Sequence[tf.train.SessionRunHook] = (),
    ) -> Iterator[Estimator]:
        """Builds the step on all replicas and restores the newest checkpoint; yields the
        estimator, whose session ends with the block.

        Args:
          run: what is trained; the newest checkpoint of its model directory is continued, if it has
            one.
          start: the step of that checkpoint, whose number the first batch has; 0 without.
          hooks: TensorFlow's, such as a profiler.

        Raises:
          UserError: the checkpoint lacks a variable that the network needs, a host is lost, the
            data is bad, or a checkpoint cannot be written.
        """
        devices, model_dir = run.devices, run.settings.model_dir
        # The default strategy has one replica.
        strategy = devices.strategy or tf2.distribute.get_strategy()
        # (memory, stop_asked), the variables of the step: each replica appends the same ones, of
        # which it has a part.
        variables = []

        def batches(context: tf2.distribute.InputContext) -> tf.data.Dataset:
            # The strategy calls this once a host, and gives the batches to its replicas in turn.
            with tf.device("/cpu:0"):
                return input_pipeline.for_replicas(run.batches(start), devices.per_host)

        def replica_step(features: Any) -> Tensors:
            spec = run.model_fn(features)
            # Several hosts must stop in the same step, so all must see the same number: a host that
            # is to stop sets its variable, and the next step takes the mean over all.
            stop_asked = local_variable("stop_asked_here", [])
            (mean,) = mean_over_replicas([stop_asked.read_value()])
            variables.append((spec.memory, stop_asked))
            # So a session that fetches the loss runs the update.
            with tf.control_dependencies([spec.train_op]):
                loss, stop_mean = tf.identity(spec.loss), tf.identity(mean)
            return dict(spec.scalars, loss=loss, stop=stop_mean)

        host_monitor = HostMonitor()
        with (
            errors.translated_errors(model_dir=model_dir),
            unregistering_gradients(),
            host_monitor.running() if devices.hosts > 1 else contextlib.nullcontext(),
            tf.Graph().as_default(),
            strategy.scope(),
        ):
            # Build the graph: each replica makes a step on its part of the host's next batch.
            tf.set_random_seed(run.settings.seed)
            iterator = strategy.make_input_fn_iterator(batches)
            begin_data = tf.group(iterator.initialize())
            tf.train.create_global_step()
            of_replicas = strategy.run(replica_step, args=(iterator.get_next(),))
            fetches = {}
            for name, value in of_replicas.items():
                fetches[name] = local_parts(value)
            memory, stop_asked = variables[0]
            saver = tf.train.Saver(sharded=True)

            # The session runs on the TensorFlow server of this host if there are several, or on
            # that of a TPU. Unlike that of `MonitoredSession`, it is not created again after a host
            # is lost: interrupted sums over hosts do not recover until the program is restarted.
            resolver = strategy.cluster_resolver
            config = devices.session_config(is_training=True)
            prefix = checkpoint.newest(model_dir)
            host_monitor.is_waiting = True  # a lost host ends the program
            local_init = tf.group(
                tf.local_variables_initializer(), tf.tables_initializer(), begin_data
            )
            try:
                session = tf.train.SingularMonitoredSession(
                    hooks=hooks,
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
                restored = session.raw_session().run(tf.train.get_global_step())
                yield cls(
                    monitored=session,
                    saver=saver,
                    fetches=fetches,
                    memory=local_parts(memory) if memory is not None else (),
                    stop_asked=local_parts(stop_asked),
                    host_monitor=host_monitor,
                    step=int(restored),
                )

    def run_step(self, stops: bool = False) -> dict[str, Any]:
        """Runs a step on the next batch, which the graph reads itself.

        Args:
          stops: whether this host is to stop; the others learn it in this step.

        Returns:
          NumPy scalars by name: `EstimatorSpec.scalars`, `loss`, and `stop` (above 0: some host is
          to stop).

        Raises:
          UserError: there is no batch.
        """
        if stops:
            for copy in self.stop_asked:
                set_value(self.session, copy, 1.0)
        self.host_monitor.is_waiting = True
        try:
            values = self.monitored.run(self.fetches)
        except tf.errors.OutOfRangeError as e:
            # Failures to write or read a file, such as "File too large", are of the same class.
            if "End of sequence" not in e.message:
                raise
            found = (
                f"the end of the data at step {self.step}: a batch could not be read"
            )
            expected = "batches without end"
            raise errors.wrong("records", found, expected, "xlnet data verify") from e
        self.host_monitor.is_waiting = False
        # Counted here: the graph may read its own count before or after the update.
        self.step += 1
        # All replicas have the same scalars: those of the first are returned.
        return {name: of_replicas[0] for name, of_replicas in values.items()}
