"""A fine-tuning run: its training step on each replica, its batches, what it reports. `TaskRun` is
what it has in common with an evaluation and a prediction.

Shape letters as in `modeling`; b examples of this replica.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from xlnet.corpus import input_pipeline
from xlnet.engine import optimizer
from xlnet.engine.devices import Devices, mean_over_replicas, replica_index
from xlnet.engine.estimator import EstimatorSpec, TrainingRun
from xlnet.engine.optimizer import layer_of
from xlnet.finetuning.data import TaskData
from xlnet.finetuning.model import TaskModel
from xlnet.model import ops, stateless_random
from xlnet.model.ops import Tensors
from xlnet.runs import run_document
from xlnet.settings.finetuning import FineTuningSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.contract import LossOptions
from xlnet.tasks.task import Row

# Of batches, where XLA compiles the step: it makes a program for each length.
MOST_LENGTHS = 6


@dataclasses.dataclass(frozen=True)
class TaskRun:
    """A run of fine-tuning, evaluation or prediction once `resolve` has made it: nothing here or
    below knows what was given on the command line, and what is from the directory.

    Attributes:
      model: the network with the task's output layer; the task and the settings.
      optimization: of the optimizer.
      data: the files of the task, and the vocabulary.
      devices: of the run.
    """

    model: TaskModel
    optimization: OptimizationSettings
    data: TaskData
    devices: Devices


@dataclasses.dataclass(frozen=True)
class FineTuningRun(TaskRun, TrainingRun):
    """A training: rows are read and checked, lengths are in steps.

    Attributes, besides those of `TaskRun` and `TrainingRun`:
      settings: of the task, and of the run.
      document: what the model directory says of the run.
      rows: to train on.
      records: the path of the TFRecord file of these rows.
      class_weights: floats [L], weights of the examples by their label; None: all 1.
    """

    settings: FineTuningSettings
    document: run_document.RunDocument
    rows: Sequence[Row]
    records: str
    class_weights: list[float] | None

    # -- the step

    def model_fn(self, features: Tensors) -> EstimatorSpec:
        """A training step on one replica; features: those of `batches`, [b,...]."""
        batch = ops.on_device(features)
        # The index of the first example in the global batch; any feature has its size.
        first_row = replica_index() * batch["is_real_example"].shape.as_list()[0]
        # Loss and gradients, of each micro-batch. In float16 the loss is scaled, since small
        # gradients would become 0.
        scale = optimizer.LossScale() if self.network.precision == "fp16" else None
        parts, xla = self.settings.grad_accum_steps, self.devices.xla
        loss, gradients, _ = optimizer.loss_and_gradients(
            self, batch, first_row, parts, scale, xla
        )
        # Means over the replicas.
        *gradients, loss = mean_over_replicas([*gradients, loss])
        # Clipping and update.
        update, scalars = optimizer.minimize(
            self.optimization, gradients, self.config.n_layer, scale
        )
        return EstimatorSpec(loss, update, scalars)

    def micro_batch_loss(
        self, part: Tensors, first_row: Any
    ) -> tuple[tf.Tensor, Tensors]:
        """The loss of a micro-batch, the mean over its examples, and no tensors to keep, as
        fine-tuning has no memory. first_row: the index of its first example in the global batch."""
        settings = self.settings
        options = LossOptions(settings.label_smoothing, self.class_weights)
        getter = frozen(settings.freeze_layers) if settings.freeze_layers else None
        # In pretraining, dropout masks are sampled for each batch element, so micro-batches have
        # the masks of one large batch. That needs shapes that are known when the graph is built.
        # Here a batch has the length of its longest text, so each micro-batch has a seed of its
        # own, and its masks differ from those of one large batch.
        seed = stateless_random.dropout_seed(settings.seed, tf.train.get_global_step())
        with tf.variable_scope(tf.get_variable_scope(), custom_getter=getter):
            losses = self.model.training_loss(
                part,
                stateless_random.fold_in(seed, first_row),
                options,
                device="xla" if self.devices.xla else None,
            )
        # All parts are equally large, so the mean of their means is that of the batch.
        return tf.reduce_mean(losses), {}

    # -- what the loop needs besides, see `estimator.TrainingRun`

    def batches(self, start: int) -> tf.data.Dataset:
        """Shuffled batches of the records from the step `start` on.

        Which rows a step has follows from the seed and its number alone: a resumed run does not
        read the batches before.
        """
        tuned, length = self.model.tuned, self.settings.max_seq_length
        padding = tuned.task.padding
        multiple = padding.multiple
        if self.devices.xla:
            multiple = compiled_multiple(length, multiple)
        return input_pipeline.finetuning_batches(
            self.records,
            tuned.features(is_training=True),
            row_length=length,
            multiple=multiple,
            pads=padding.side,
            token_features=padding.token_features,
            batch_size=self.settings.train_batch_size,
            shuffle_seed=self.settings.seed,
            start_step=start,
        )

    def write_document(self) -> None:
        run_document.write(
            self.settings.model_dir, self.document, self.config, self.data.tokenizer
        )

    def banner(self) -> dict[str, str]:
        settings, task, data = self.settings, self.model.tuned.task, self.data
        held_out = ""
        # which decides by a hash: of few rows it is another share
        if task.files.dev_share:
            count = len(data.rows_of_split("dev", True)["dev"])
            held_out = f"; {count:,} more of the file held out as dev"
        labels = "scores"
        if task.labels:
            labels = task.counts_in_words(data.rows_of_train_file())
        epochs = (
            self.optimization.train_steps * settings.train_batch_size / len(self.rows)
        )
        return {
            "task": f"{task.name}: {len(self.rows):,} examples{held_out}",
            "labels": labels,
            "rate": f"{self.optimization.learning_rate:g}",
            "length": f"{settings.max_seq_length} tokens, {settings.long_document}",
            "epochs": (
                f"{epochs:,.1f}; evaluated every {settings.eval_steps:,} steps (0: never), saved "
                f"every {settings.save_steps:,}, the last {settings.max_save} kept (0: all)"
            ),
            "settings": run_document.changed(
                (settings, self.network, self.optimization)
            ),
        }


def compiled_multiple(max_seq_length: int, multiple: int) -> int:
    """The number of tokens to whose multiples the lengths of batches are rounded up, so that there
    are at most `MOST_LENGTHS` lengths.

    >>> compiled_multiple(128, 8)   # 24, 48, 72, 96, 120 and 128
    24
    """
    step = math.ceil(max_seq_length / MOST_LENGTHS)
    return multiple * math.ceil(step / multiple)


def frozen(count: int) -> Callable[..., Any]:
    """A variable scope's getter that freezes the embeddings, the `count` lowest layers, and what is
    kept in one variable for all layers: the biases of attention and `seg_embed`."""
    of_all_layers = "transformer/(word_embedding/|mask_emb/|r_[wrs]_bias$|seg_embed$)"

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        layer = layer_of(name)
        if layer is None:
            is_frozen = bool(re.search(of_all_layers, name))
        else:
            is_frozen = layer < count
        if is_frozen:
            kwargs["trainable"] = False
        return getter(name, *args, **kwargs)

    return get
