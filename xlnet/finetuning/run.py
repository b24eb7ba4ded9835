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
from xlnet.tasks.fields import Row

# Maximum number of different lengths of batches where XLA compiles the step, as it compiles a
# program for each length.
MOST_LENGTHS = 6


@dataclasses.dataclass(frozen=True)
class TaskRun:
    """A run of fine-tuning, evaluation or prediction once `resolve` has made it: nothing here or
    below knows what was given on the command line, and what is from the directory.

    Attributes:
      model: the network with the task's output layer, and its `tuned`: the task and the settings.
      optimization: the length of the training, its learning rate and optimizer.
      data: the files of the task, and the vocabulary.
      devices: those that the run computes on.
    """

    model: TaskModel
    optimization: OptimizationSettings
    data: TaskData
    devices: Devices


@dataclasses.dataclass(frozen=True)
class FineTuningRun(TaskRun, TrainingRun):
    """A training: rows are read and checked, its length and its intervals are in steps.

    Attributes, besides those of `TaskRun` and `TrainingRun`:
      settings: of the task and of the run, with a value for whatever was not given; those of
        `model`, too.
      document: the content of the run's `run.json`.
      rows: the examples to train on.
      records: the path of the TFRecord file of these rows.
      class_weights: floats [L], the weight of each of L labels in the loss; None: all 1.
    """

    settings: FineTuningSettings
    document: run_document.RunDocument
    rows: Sequence[Row]
    records: str
    class_weights: list[float] | None

    # -- the step

    def model_fn(self, features: Tensors) -> EstimatorSpec:
        """Builds a training step on one replica. features: this replica's part of a batch of
        `batches`, tensors [b,...] by name."""
        batch = ops.cast_integers(features)  # to the type that suits the device
        # The index in the global batch of this replica's first example. All features are [b,...].
        num_examples = batch["is_real_example"].shape.as_list()[0]  # b
        first_row = replica_index() * num_examples
        # Loss and gradients, means over the micro-batches. In float16 the loss is scaled, since
        # small gradients would become 0.
        scale = optimizer.LossScale() if self.network.precision == "fp16" else None
        # The third result is empty: no tensors are kept for the next step.
        loss, gradients, _ = optimizer.loss_and_gradients(
            self.micro_batch_loss,
            batch,
            first_row,
            self.settings.grad_accum_steps,
            scale,
            self.devices.xla,
        )
        # Means over the replicas.
        *gradients, loss = mean_over_replicas([*gradients, loss])
        # Clipping and update.
        update, scalars = optimizer.update_weights(
            self.optimization, gradients, self.config.n_layer, scale
        )
        return EstimatorSpec(loss, update, scalars)

    def micro_batch_loss(
        self, part: Tensors, first_row: Any
    ) -> tuple[tf.Tensor, Tensors]:
        """The mean loss of the examples of a micro-batch, float32 scalar; and {}: no tensors are
        kept for the next step, as fine-tuning has no memory.

        Args:
          part: the features of the micro-batch by name, [number of examples,...].
          first_row: the index in the global batch of its first example.
        """
        settings = self.settings
        options = LossOptions(settings.label_smoothing, self.class_weights)
        # 0: nothing is frozen, the embeddings neither.
        getter = frozen(settings.freeze_layers) if settings.freeze_layers else None
        # In pretraining, dropout masks are sampled for each batch element, so micro-batches have
        # the masks of one large batch. That needs shapes that are known when the graph is built.
        # Here a batch has the length of its longest text, so each micro-batch has a seed of its
        # own, and its masks differ from those of one large batch.
        step_seed = stateless_random.dropout_seed(
            settings.seed, tf.train.get_global_step()
        )
        seed = stateless_random.fold_in(step_seed, first_row)
        # The scope stays the same, and gets the getter.
        with tf.variable_scope(tf.get_variable_scope(), custom_getter=getter):
            losses = self.model.training_loss(
                part,
                seed,
                options,
                device="xla" if self.devices.xla else None,
            )
        # Micro-batches are equally large, so the mean of their means is that of the batch.
        return tf.reduce_mean(losses), {}

    # -- what the loop needs besides, see `estimator.TrainingRun`

    def batches(self, start: int) -> tf.data.Dataset:
        """Shuffled batches of the records, without end, from the step `start` on: features by name,
        [B,...].

        The seed and the number of a step alone decide which records it has: a resumed run does not
        read the batches before.
        """
        tuned, length = self.model.tuned, self.settings.max_seq_length
        padding = tuned.task.padding
        multiple = padding.multiple
        if self.devices.xla:  # fewer lengths, as each takes a compilation
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
        """Writes `run.json`, the architecture and the vocabulary into the model directory."""
        run_document.write(
            self.settings.model_dir, self.document, self.config, self.data.tokenizer
        )

    def banner(self) -> dict[str, str]:
        """What is trained on what: lines by their names, for the log."""
        settings, task, data = self.settings, self.model.tuned.task, self.data
        held_out = ""
        # Counted, since a hash of its text decides whether a row is held out: of few rows, the
        # ratio of those that are may differ much from `dev_share`.
        if task.files.dev_share:
            count = len(data.rows_of_split("dev", need_labels=True)["dev"])
            held_out = f"; {count:,} more of the file held out as dev"
        labels = "none" if task.target_shape is None else "scores"
        if task.labels:
            labels = task.counts_in_words(data.rows_of_train_file())
        epochs = (
            self.optimization.train_steps * settings.train_batch_size / len(self.rows)
        )
        return {
            "task": f"{task.name}: {len(self.rows):,} examples{held_out}",
            "labels": labels,
            "rate": f"{self.optimization.learning_rate:g}",
            "length": f"{settings.max_seq_length} tokens",
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
    are at most `MOST_LENGTHS` lengths. It is itself a multiple of `multiple`.

    >>> compiled_multiple(128, 8)   # 24, 48, 72, 96, 120 and 128
    24
    """
    least = math.ceil(max_seq_length / MOST_LENGTHS)
    return multiple * math.ceil(least / multiple)


def frozen(count: int) -> Callable[..., Any]:
    """A `custom_getter` of a variable scope that freezes the embeddings, the `count` lowest layers,
    and what is kept in one variable for all layers: the biases of attention and `seg_embed`."""
    outside_layers = "transformer/(word_embedding/|mask_emb/|r_[wrs]_bias$|seg_embed$)"

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        layer = layer_of(name)  # the lowest one is 0
        if layer is None:
            # an embedding, a variable of all layers, or of the output layer
            is_frozen = bool(re.search(outside_layers, name))
        else:
            is_frozen = layer < count
        if is_frozen:
            kwargs["trainable"] = False
        return getter(name, *args, **kwargs)

    return get
