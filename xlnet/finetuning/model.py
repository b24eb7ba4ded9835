"""A training step of a network with the output layer of a task, and its frozen layers."""

import dataclasses
import re
from typing import Callable, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import devices, train_step
from xlnet.engine.estimator import EstimatorSpec
from xlnet.engine.optimizer import layer_of
from xlnet.models.task_model import TaskModel
from xlnet.network.stateless_random import fold_in
from xlnet.settings.network import XLNetConfig
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.types.contract import LossOptions


@dataclasses.dataclass(frozen=True)
class TrainingModel:
    """A `TaskModel` in training.

    Args:
      model: the network and its output layer.
      optimization: learning rate and optimizer.
      class_weights: floats [L], weights of the rows by their label; None: all 1.
      xla: whether a step is compiled.
    """
    model: TaskModel
    optimization: OptimizationSettings
    class_weights: Optional[list] = None
    xla: bool = False

    def model_fn(self, features: dict) -> EstimatorSpec:
        """The Estimator's; features: this replica's part of `input_pipeline.finetuning_batches`."""
        settings = self.model.settings
        first_row = devices.replica_index() * features["is_real_example"].shape.as_list()[0]
        loss, update, _ = train_step.training_step(
            lambda part, row: (self._loss(part, first_row + row), {}),
            train_step.on_device(features), config=self.model.config, network=self.model.network,
            optimization=self.optimization, settings=settings, xla=self.xla,
            frozen_rows=lambda name: frozen_rows(name, self.model.config, settings.freeze_layers))
        return EstimatorSpec(loss, update)

    def _loss(self, features, first_row):
        """The mean loss of rows from index `first_row` of the global batch."""
        settings = self.model.settings
        step_seed = train_step.dropout_seed(settings.seed, tf.train.get_global_step())
        options = LossOptions(settings.label_smoothing, self.class_weights)
        with tf.variable_scope(tf.get_variable_scope(), custom_getter=frozen(
                self.model.config, settings.freeze_layers)):
            loss = self.model.training_loss(features, fold_in(step_seed, first_row), options,
                                            device="xla" if self.xla else None)
        return tf.reduce_mean(loss)


# ---- frozen layers ----

def is_frozen(name: str, config: XLNetConfig, count: int) -> bool:
    """Whether a variable belongs only to the embeddings and the `count` lowest layers.

    Without `untie_r`, `r_w_bias`, `r_r_bias` and `r_s_bias` belong to all layers: they are trained
    unless all layers are frozen.
    """
    layer = layer_of(name)
    if layer is not None:
        return layer < count
    return count > 0 and bool(re.search(r"transformer/(word_embedding|mask_emb)/", name)) or (
        count == config.n_layer and bool(re.search("transformer/(r_[wrs]_bias|seg_embed)$", name)))


def frozen_rows(name: str, config: XLNetConfig, count: int) -> int:
    """The number of a variable's first rows that belong to the `count` lowest layers: `count` if it
    stacks all layers [L,...], as `seg_embed` does, and the biases with `untie_r`; else 0."""
    biases = "r_[wrs]_bias|" * config.untie_r
    return count if re.search("transformer/(%sseg_embed)$" % biases, name) else 0


def frozen(config: XLNetConfig, count: int) -> Callable:
    """A variable scope's getter that freezes the embeddings and the `count` lowest layers; 0: none.

    No gradient reaches the rows of frozen layers in a stacked variable.
    """
    def get(getter, name, *args, **kwargs):
        if is_frozen(name, config, count):
            return getter(name, *args, **dict(kwargs, trainable=False))
        variable, rows = getter(name, *args, **kwargs), frozen_rows(name, config, count)
        return tf.concat([tf.stop_gradient(variable[:rows]), variable[rows:]],
                         axis=0) if rows else variable
    return get
