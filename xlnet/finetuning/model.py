"""The network with the output layer of a task, and the one predictor: rows, features, batches of
near lengths, outputs, rows again in order. Evaluation, --do_predict, `xlnet predict`, `xlnet.load`
and the server predict by it.

Shape letters as in `modeling`; n rows, m records, T tokens of a record, C choices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine.session import RestoredSession, in_parallel
from xlnet.model import heads, modeling, parameters
from xlnet.model.ops import Arrays, Tensors
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks.contract import LossOptions, Predictions, mean_over_records
from xlnet.tasks.encoding import IDS, TokenCounts, batches_by_length
from xlnet.tasks.fields import Row

# Batches whose rows are encoded, and then sorted by length, together.
_BLOCK_BATCHES = 32


@dataclasses.dataclass(frozen=True)
class TaskModel:
    """A network and the output layer of a task, as a graph of TensorFlow.

    All methods take the features of a batch: a dict of tensors [B,...] of token ids, padding,
    segment ids, [B,C*T] each for any T, and what the task type adds, such as labels; see
    `record_files.finetuning_features`.

    Attributes:
      config: the architecture.
      tuned: the task, and the settings of the run.
      network: how the network is run, such as its dropout and precision.
    """

    config: XLNetConfig
    tuned: FineTunedTask
    network: NetworkSettings

    def prediction_graph(self) -> tuple[Tensors, Tensors]:
        """Builds what a `Predictor` runs on a device: placeholders of the features by name, and
        `outputs` of these, with the loss, which evaluations need."""
        features = {}
        with tf.device("/cpu:0"):  # batches are fed on the host
            inputs = placeholders(self.tuned, with_targets=True)
            # TensorFlow's graph optimizer ignores the shapes of placeholders.
            for name, tensor in inputs.items():
                features[name] = tf.ensure_shape(tensor, tensor.shape)
        return inputs, self.outputs(features, with_loss=True)

    def outputs(self, features: Tensors, with_loss: bool = False) -> Tensors:
        """The outputs of the task's head in inference, tensors [B,...] by the names that the task
        type gives them, such as `values`. with_loss: also the `loss` of each record, [B], for which
        the features have the labels; a record without a label has the label 0."""
        task = self.tuned.task
        run_config = self.network.run_config(is_training=False)
        # Matrices are stored in the precision of the matmuls, which would round them anyway.
        with parameters.model_scope(kept_in=run_config.precision):
            nn, logits = self._logits(features)
            outputs = task.outputs(nn, logits, features)
            if with_loss:
                loss = task.loss(nn, logits, features, LossOptions())
                outputs = {**outputs, "loss": loss}
        return outputs

    def training_loss(
        self,
        features: Tensors,
        seed: tf.Tensor,
        options: LossOptions,
        device: str | None = None,
    ) -> tf.Tensor:
        """The training loss of each record, float32 [B].

        Args:
          seed: of dropout, uint64 [1].
          options: how labels are smoothed and weighted in the loss.
          device: "xla" where XLA compiles the graph; None: kernels are chosen for the device that
            is found.
        """
        with parameters.model_scope():
            nn, logits = self._logits(features, seed, device)
            return self.tuned.task.loss(nn, logits, features, options)

    def _logits(
        self,
        features: Tensors,
        seed: tf.Tensor | None = None,
        device: str | None = None,
    ) -> tuple[heads.HeadBuilder, Any]:
        """(The builder of the head, on the network's output; the logits of the output layer, of the
        shape that the task type gives them, such as [B,L]). seed: of dropout; None: inference."""
        settings, task = self.tuned.settings, self.tuned.task
        is_training = seed is not None
        run_config = self.network.run_config(is_training, device=device)
        # Each choice of an example is an input of the network: [B,C*T] to [B*C,T].
        num_choices = task.num_choices(is_training)
        inputs = []
        for name in IDS:
            x = features[name]
            if num_choices > 1:
                length = modeling.shape_of(x)[1] // num_choices  # T
                x = tf.reshape(x, [-1, length])
            inputs.append(x)
        ids, padding, segments = inputs  # in the order of `IDS`
        # Padding alone is masked: each token sees all others.
        sequence = modeling.transformer_xl(
            self.config,
            run_config,
            input_ids=ids,
            seg_ids=segments,
            mask=padding[:, None] > 0,  # [B*C,1,T]
            seed=seed,
        ).sequence  # [B*C,T,D]
        nn = heads.HeadBuilder(
            self.config,
            run_config,
            task.scope(settings.cls_scope),
            sequence,
            padding,
            settings.summary_type,
            settings.use_summ_proj,
            seed,
        )
        return nn, task.logits(nn, features, is_training)


# ---- features of records


def placeholders(tuned: FineTunedTask, with_targets: bool = False) -> Tensors:
    """A placeholder for each feature of records, by name, for any batch size, and for any length
    where a feature has a value for each token. with_targets: also for the features that the loss
    alone depends on, such as the labels."""
    task = tuned.task
    left_out = () if with_targets else task.target_features
    inputs = {}
    for name, shape, dtype in tuned.features(is_training=False):
        if name in (*IDS, *task.padding.token_features):  # a value for each token
            shape = (None,)
        # `is_real_example` is 1 in all records, and nothing is computed from it.
        if name not in ("is_real_example", *left_out):
            # "int32" or "float32", from "int" or "float"
            inputs[name] = tf.placeholder(dtype + "32", [None, *shape], name)
    return inputs


# ---- the predictor


class Predictor:
    """Predicts rows with a fine-tuned network, of which each device of a session has a copy. Any
    number of threads may use it.

    Args:
      model: the network, with the output layer of its task.
      tokenizer: that of its vocabulary.
      restored: the session that has the weights, or will have them when rows are predicted.
      batch_size: maximum number of records of a batch.
      most_tokens: maximum number of tokens of a batch of two or more records; None: any number.
    """

    def __init__(
        self,
        model: TaskModel,
        tokenizer: Tokenizer,
        restored: RestoredSession,
        batch_size: int,
        most_tokens: int | None = None,
    ) -> None:
        self._tuned, self._tokenizer = model.tuned, tokenizer
        self._batch_size, self._most_tokens = batch_size, most_tokens
        # One for each of the batches that are computed in parallel.
        self._copies = restored.copies("task", model.prediction_graph)

    def predict(
        self, rows: Sequence[Row], advance: Callable[[int], object] | None = None
    ) -> tuple[Predictions, TokenCounts]:
        """The predictions of n > 0 rows, and the counts of their tokens, int [n].

        Args:
          advance: moves a progress bar by a number of rows.
        """
        task, layout = self._tuned.task, self._tuned.layout
        outputs_of_blocks: list[Arrays] = []  # of the records, [records,...] by name
        # int [rows] each: the number of records of each row, and its `TokenCounts`
        counts_of_blocks: list[tuple] = []
        block_size = _BLOCK_BATCHES * self._batch_size
        # A block of rows at a time, as the features of rows take more memory than their outputs.
        for begin in range(0, len(rows), block_size):
            block = rows[begin : begin + block_size]
            records, num_records, counts = task.encode(block, self._tokenizer, layout)
            counts_of_blocks.append((num_records, *counts))
            first_records = np.cumsum(num_records) - num_records  # [rows]
            batches = batches_by_length(
                records,
                layout.max_seq_length,
                task.padding,
                self._batch_size,
                self._most_tokens,
            )
            of_batches = []
            for batch, outputs in in_parallel(self._copies, batches):
                of_batches.append({**outputs, "index": batch["index"]})
                # A row counts as done when its first record is.
                if advance:
                    advance(int(np.isin(batch["index"], first_records).sum()))
            outputs_of_blocks.append(in_order(of_batches))
        of_records = concatenated(outputs_of_blocks)  # [m,...]
        num_records, read, total = np.concatenate(counts_of_blocks, axis=1)  # [3,n]
        # A row may have several records; the task's `join` makes one prediction of their outputs.
        loss = mean_over_records(of_records.pop("loss"), num_records)
        values = task.join(of_records, num_records)
        return Predictions(values, loss), TokenCounts(read, total)


def in_order(batches: Sequence[Arrays]) -> Arrays:
    """Joins batches, arrays [B,...] by name, to arrays [m,...] by name, in the order of the array
    `index`, int [B], which is left out."""
    of_all = concatenated(batches)
    order = np.argsort(of_all.pop("index"), kind="stable")
    return {name: values[order] for name, values in of_all.items()}


def concatenated(parts: Sequence[Arrays]) -> Arrays:
    """Joins parts, dicts of arrays by the same names, along the first axis: [m,...] each."""
    of_all = {}
    for name in parts[0]:
        of_all[name] = np.concatenate([part[name] for part in parts])
    return of_all
