"""The training engine of pretraining and fine-tuning: Estimator, start, one step.

It serves any number of devices (see `devices`). A step is one update with the gradient of the
global batch, for any number of replicas and micro-batches (gradient accumulation).
"""

from __future__ import annotations

import dataclasses
import os
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import errors, files
from xlnet.engine import checkpoint, multi_host, optimizer
from xlnet.engine.devices import Devices, gradients_forgotten, mean_over_replicas
from xlnet.engine.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from xlnet.errors import UserError
from xlnet.network import noise, ops, parameters
from xlnet.settings.network import CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.settings.training import OptimizationSettings
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer

# The matrices of the network, by the name of the variable.
_MATRIX = re.compile("/transformer/.*(/kernel|/lookup_table)$")

_STEP = "training_step"    # the graph's collection of `Step`s, one of each replica


# ---- Estimator ----

def make_estimator(model_fn: Callable[..., EstimatorSpec], *, model_dir: str, seed: int,
                   devices: Devices) -> Estimator:
    """Returns an Estimator. It saves nothing itself: see `trainer.Saving`."""
    return Estimator(model_fn, model_dir, RunConfig(
        tf_random_seed=seed, train_distribute=devices.strategy,
        session_config=devices.session_config(is_training=True)))


def train(estimator: Estimator, input_fn: Callable[[], tf.data.Dataset], *,
          max_steps: int, hooks: list, devices: Devices) -> None:
    """Trains to step `max_steps`; on several hosts, together with them.

    Raises:
      UserError: the checkpoint to resume from lacks a variable that these settings need, a host is
        lost, or the data is bad.
    """
    with errors.explained(), gradients_forgotten():
        _train(estimator, input_fn, max_steps, hooks, devices)


def _train(estimator, input_fn, max_steps, hooks, devices):
    try:
        if devices.hosts == 1:
            estimator.train(input_fn, max_steps=max_steps, hooks=hooks)
            return
        with multi_host.together() as watch:
            estimator.train(input_fn, max_steps=max_steps, hooks=[watch, *hooks])
    except tf.errors.NotFoundError as e:
        missing = re.search(r"Key (\S+) not found in checkpoint", e.message)
        if not missing:
            raise
        raise UserError("model_dir: the run in %s was begun with other settings, its checkpoint "
                        "has no %s; give them again, or another model_dir"
                        % (estimator.model_dir, missing.group(1))) from None


# ---- start ----

def check_directory(model_dir: str, config: XLNetConfig, tokenizer: Tokenizer) -> None:
    """Compares with the run in `model_dir`, if there is one.

    Raises:
      UserError: it has another architecture or vocabulary, or its text was cleaned in another way.
    """
    path = os.path.join(model_dir, CONFIG_NAME)
    spiece = os.path.join(model_dir, SPIECE_NAME)
    if not checkpoint.newest(model_dir):
        return
    if os.path.exists(path):
        checkpoint.check_same_architecture(XLNetConfig(json_path=path), config, path)
    if os.path.exists(spiece):
        if files.sha256(spiece) != tokenizer.sha256:
            raise UserError("model_dir: %s differs from %s; a run keeps its vocabulary"
                            % (spiece, tokenizer.path))
        Tokenizer(spiece, tokenizer.uncased, tokenizer.keep_accents)    # raises if they differ


def keep_architecture(model_dir: str, config: XLNetConfig, tokenizer: Tokenizer) -> None:
    """Writes `xlnet_config.json`, `spiece.model` and its description into `model_dir`."""
    config.to_json(os.path.join(model_dir, CONFIG_NAME))
    tokenizer.save(os.path.join(model_dir, SPIECE_NAME))


def dropout_seed(seed: int, step: tf.Tensor) -> tf.Tensor:
    """The seed of a step, uint64 [1]: a function of the run's seed and the step."""
    of_step = noise.seed_of(seed, step)     # of the low 32 bits of the seed
    return noise.fold_in(of_step, seed >> 32) if seed >> 32 else of_step


def on_device(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Casts int32 features to int64: TensorFlow computes int32 on the host, where it is used for
    shapes, and would copy the results to the GPU in every step."""
    return {name: tf.cast(value, tf.int64) if value.dtype == tf.int32 else value
            for name, value in features.items()}


def model_scope(kept_in: Optional[str] = None) -> tf.variable_scope:
    """The variable scope of the network. The initial value of a weight depends only on its name and
    the seed of the graph: it is the same for any devices and micro-batches.

    Args:
      kept_in: the precision in which the matrices are stored, for inference only: that of the
        matmuls, which would round them in each step. Biases, norms and the output layer's matrix
        stay float32. None: float32.
    """
    def named(getter, name, *args, initializer=None, **kwargs):
        if isinstance(initializer, (tf.initializers.random_normal,
                                    tf.initializers.random_uniform)):
            initializer = type(initializer).from_config(
                dict(initializer.get_config(), seed=zlib.crc32(name.encode()) >> 1))
        if kept_in not in (None, "fp32") and _MATRIX.search(name):
            kwargs["dtype"] = parameters.DTYPES[kept_in]
            initializer = _rounding(initializer)
        return getter(name, *args, initializer=initializer, **kwargs)
    return tf.variable_scope("model", custom_getter=named, reuse=tf.AUTO_REUSE)


def _rounding(initializer):
    """An initializer that samples in float32, then casts to the type of the variable."""
    def sample(shape, dtype):
        return tf.cast(initializer(shape, tf.float32), dtype)
    return sample


def start_from(init_checkpoint: Optional[str], config: XLNetConfig, model_dir: str) -> None:
    """Starts from the weights of `init_checkpoint` unless the run in `model_dir` has a
    checkpoint."""
    if init_checkpoint and not checkpoint.newest(model_dir):
        checkpoint.warm_start(checkpoint.resolve(init_checkpoint), config)


# ---- one step ----

def loss_scale(network: NetworkSettings, model_dir: str) -> Optional[optimizer.LossScale]:
    """The `optimizer.LossScale` for fp16; None for other precisions.

    Args:
      network: has the precision.
      model_dir: of the run; its newest checkpoint shows whether updates are counted.
    """
    if network.precision != "fp16":
        return None
    newest = checkpoint.newest(model_dir)
    return optimizer.LossScale(not newest or checkpoint.UPDATES in checkpoint.names(newest))


def accumulate(compute: Callable[..., tuple[tf.Tensor, dict[str, tf.Tensor]]],
               inputs: dict[str, tf.Tensor], micro_batches: int,
               scale: Optional[optimizer.LossScale] = None, xla: bool = False
               ) -> tuple[tf.Tensor, list[tf.Tensor], dict[str, tf.Tensor]]:
    """Gradient accumulation: gradients of the mean loss over micro-batches, computed in turn.

    This is everything that a replica computes on its own, and what XLA compiles.

    Args:
      compute: function of (a part of `inputs`, the index of its first batch element) that returns
        (loss float32 scalar, dict of tensors of these batch elements).
      inputs: dict of tensors [b,...].
      micro_batches: divides b.
      scale: `optimizer.LossScale` by which the gradients are multiplied, or None.
      xla: whether to compile, once for each shape of the inputs.

    Returns:
      loss, gradients for `tf.trainable_variables()`, the dict of tensors for all batch elements.
    """
    def run(inputs):
        return _accumulate(compute, inputs, micro_batches, scale)

    if not xla:
        return run(inputs)
    compute(inputs, 0)      # makes the variables, which a compiled function cannot; is never run
    return tf2.function(run, jit_compile=True, autograph=False)(inputs)


def _accumulate(compute, inputs, micro_batches, scale):
    rows = next(iter(inputs.values())).shape.as_list()[0] // micro_batches
    parts = {name: tf.reshape(value, [micro_batches, rows] + ops.shape_of(value)[1:])
             for name, value in inputs.items()}

    def one(index):
        loss, kept = compute({name: part[index] for name, part in parts.items()}, index * rows)
        return loss, optimizer.gradients_of(loss * scale.value if scale else loss), kept

    loss, gradients, kept = one(0)   # makes the variables too
    if micro_batches == 1:
        return loss, gradients, kept
    return _add_the_rest(one, micro_batches, loss, gradients, kept)


def _add_the_rest(one, micro_batches, loss, gradients, kept):
    arrays = {name: tf.TensorArray(value.dtype, micro_batches, element_shape=value.shape)
              .write(0, value) for name, value in kept.items()}

    def body(index, loss, gradients, arrays):
        more_loss, more, kept = one(index)
        return (index + 1, loss + more_loss, [a + b for a, b in zip(gradients, more)],
                {name: arrays[name].write(index, value) for name, value in kept.items()})
    _, loss, gradients, arrays = tf.while_loop(
        lambda index, *_: index < micro_batches, body, [1, loss, gradients, arrays],
        parallel_iterations=1, maximum_iterations=micro_batches - 1)
    kept = {name: tf.reshape(arrays[name].stack(), [-1] + value.shape.as_list()[1:])
            for name, value in kept.items()}
    return loss / micro_batches, [g / micro_batches for g in gradients], kept


@dataclasses.dataclass(frozen=True)
class Step:
    """The tensors of a training step that hooks read, and the variable that requests a stop.

    Attributes:
      loss, learning_rate, gradient_norm, gradient_scale: float32 [], of the global batch.
      stop: float32 [], above 0 as soon as `stop_asked` of a replica is.
      stop_asked: float32 [], a local variable of each replica.
    """
    loss: tf.Tensor
    learning_rate: tf.Tensor
    gradient_norm: tf.Tensor
    gradient_scale: tf.Tensor
    stop: tf.Tensor
    stop_asked: Any

    def scalars(self) -> dict[str, tf.Tensor]:
        """The tensors to report, by name."""
        return {name: getattr(self, name)
                for name in ("loss", "learning_rate", "gradient_norm", "gradient_scale")}


def step_of_graph() -> Step:
    """The `Step` of this graph's model function, on the first replica."""
    return tf.get_collection(_STEP)[0]


def training_spec(loss: tf.Tensor, optimization_settings: OptimizationSettings,
                  gradients: Optional[list[tf.Tensor]] = None,
                  scale: Optional[optimizer.LossScale] = None,
                  updates: Sequence[tf.Operation] = (),
                  **more: Any) -> EstimatorSpec:
    """The part of a training step that all tasks share; `step_of_graph` returns its scalars.

    Args:
      loss: float32 scalar, the mean over this replica's batch.
      optimization_settings: of the update.
      gradients: of `loss` times `scale.value`, for `tf.trainable_variables()`; None: computed here.
      scale: `optimizer.LossScale` of the gradients, or None.
      updates: other operations of the step.
      more: arguments of `optimizer.minimize`.
    """
    if gradients is None:
        gradients = optimizer.gradients_of(loss)
    stop_asked = _stop_variable()
    *gradients, loss, stop = mean_over_replicas(
        gradients + [loss, stop_asked.read_value()])
    train_op, scalars = optimizer.minimize(
        loss, optimization_settings, tf.train.get_global_step(),
        list(zip(gradients, tf.trainable_variables())), scale, **more)
    tf.add_to_collection(_STEP, Step(loss=tf.identity(loss), stop=tf.identity(stop),
                                     stop_asked=stop_asked, **scalars))
    return EstimatorSpec(ModeKeys.TRAIN, loss=loss, train_op=tf.group(train_op, *updates))


def _stop_variable():
    return tf.get_variable(
        "stop_asked_here", [], tf.float32, tf.initializers.zeros(), trainable=False,
        use_resource=True, collections=[tf.GraphKeys.LOCAL_VARIABLES],
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
