"""The network with the output layer of a task, and the one predictor: rows, features, batches of
near lengths, outputs, rows again in order. Evaluation, --do_predict, `xlnet predict`, `xlnet.load`
and the server predict by it.

Shape letters as in `modeling`; n rows, m records, T tokens of a record, C choices.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus.input_pipeline import POOL_BATCHES
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine.session import RestoredSession, in_parallel
from xlnet.model import heads, modeling, parameters
from xlnet.model.ops import Arrays, Tensors
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks.contract import LossOptions, Predictions, mean_over_windows
from xlnet.tasks.encoding import IDS, TokenCounts, batches_by_length
from xlnet.tasks.task import Row


@dataclasses.dataclass(frozen=True)
class TaskModel:
    """A network and the output layer of a task, as a graph of TensorFlow.

    Features of all methods are a dict of tensors [B, ...] as in `record_files.finetuning_features`;
    ids may have any length.

    Attributes:
      config: the architecture.
      tuned: the task and the settings.
      network: how the network is run, such as its dropout and precision.
    """

    config: XLNetConfig
    tuned: FineTunedTask
    network: NetworkSettings

    def outputs(self, features: Tensors, with_loss: bool = False) -> Tensors:
        """The outputs of the task's head: dict of tensors [B, ...]. with_loss: also the `loss` of
        each record, [B], for which labels are read; without a label it is that of label 0."""
        task = self.tuned.task
        with parameters.model_scope(kept_in=self.network.run_config(False).precision):
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
        """The training loss of each record, float32 [B]. seed: of dropout, uint64 [1]; device: see
        `RunConfig`."""
        with parameters.model_scope():
            nn, logits = self._logits(features, seed, device)
            return self.tuned.task.loss(nn, logits, features, options)

    def _logits(
        self,
        features: Tensors,
        seed: tf.Tensor | None = None,
        device: str | None = None,
    ) -> tuple[heads.HeadBuilder, Any]:
        """(`heads.HeadBuilder` on the network's output, the output layer's logits). seed: of
        dropout; None: inference."""
        settings, task = self.tuned.settings, self.tuned.task
        is_training = seed is not None
        run = self.network.run_config(is_training, device=device)
        # The choices of an example, one after the other: [B*C,T].
        count = task.num_choices(is_training)
        texts = []
        for name in IDS:
            x = features[name]
            if count > 1:
                x = tf.reshape(x, [-1, modeling.shape_of(x)[1] // count])
            texts.append(x)
        ids, padding, segments = texts
        # Read at once: each token sees all others.
        sequence = modeling.transformer_xl(
            self.config,
            run,
            input_ids=ids,
            seg_ids=segments,
            mask=padding[:, None] > 0,
            seed=seed,
        ).sequence
        nn = heads.HeadBuilder(
            run,
            self.tuned.scope,
            sequence,
            padding,
            lambda: heads.summarize(
                self.config,
                run,
                sequence,
                summary_type=settings.summary_type,
                padding=padding,
                use_proj=settings.use_summ_proj,
                seed=seed,
            ),
            seed,
        )
        return nn, task.logits(nn, features, is_training)


# ---- features of records


def placeholders(tuned: FineTunedTask, with_targets: bool = False) -> Tensors:
    """The features of records, by name: for any batch size, and for any length where there is one
    value for each token. with_targets: also those that the loss alone depends on."""
    task = tuned.task
    left_out = () if with_targets else task.target_features
    inputs = {}
    for name, shape, dtype in tuned.features(is_training=False):
        if name in (*IDS, *task.padding.token_features):
            shape = (None,)
        # `is_real_example` is 1 in all records.
        if name not in ("is_real_example", *left_out):
            inputs[name] = tf.placeholder(dtype + "32", [None, *shape], name)
    return inputs


# ---- the predictor


class Predictor:
    """Predicts rows with a fine-tuned network, of which each device of a session has a copy. Any
    number of threads may use it.

    Args:
      model: the network, with the output layer of its task.
      tokenizer: that of its vocabulary.
      restored: has the weights.
      batch_size: records that go through the network together, at most.
      most_tokens: tokens that do, at most, but at least one record; None: any number.
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

        def build() -> tuple[Tensors, Tensors]:
            features = {}
            with tf.device("/cpu:0"):
                inputs = placeholders(model.tuned, with_targets=True)
                # Shapes of what is fed are unknown to TensorFlow's optimizer.
                for name, tensor in inputs.items():
                    features[name] = tf.ensure_shape(tensor, tensor.shape)
            return inputs, model.outputs(features, with_loss=True)

        self._copies = restored.copies("task", build)

    def predict(
        self, rows: Sequence[Row], advance: Callable[[int], object] | None = None
    ) -> tuple[Predictions, TokenCounts]:
        """The predictions of n rows, and the counts of their tokens, int [n].

        Args:
          advance: moves a progress bar by a number of rows.
        """
        parts = []
        blocks: list[tuple] = []  # which `_batches` fills
        for batch, outputs in in_parallel(self._copies, self._batches(rows, blocks)):
            parts.append({**outputs, "index": batch["index"]})
            if advance:
                advance(int(batch["is_first"].sum()))
        outputs = in_order(parts)
        windows, read, total = np.concatenate(blocks, axis=1)  # int [n] each
        # A row may have several records; the task's `join` makes one prediction of their outputs.
        loss = mean_over_windows(outputs.pop("loss"), windows)
        values = self._tuned.task.join(outputs, windows)
        return Predictions(values, loss), TokenCounts(read, total)

    def _batches(self, rows: Sequence[Row], blocks: list[tuple]) -> Iterator[Arrays]:
        """Yields batches of the records of rows, of about equal length. Each record has its number,
        `index`, and whether it `is_first` of its row. Adds to `blocks`, for some rows at a time,
        how many records each has, and its `TokenCounts`: a tuple of three arrays, int [rows]."""
        task, layout = self._tuned.task, self._tuned.layout
        rest = iter(rows)
        begin = 0  # the number of the block's first record
        # Some rows at a time: their features take more memory than their outputs.
        while block := list(itertools.islice(rest, POOL_BATCHES * self._batch_size)):
            records, windows, counts = task.encode(block, self._tokenizer, layout)
            blocks.append((windows, *counts))
            records["is_first"] = np.zeros(windows.sum(), np.int32)
            records["is_first"][np.cumsum(windows) - windows] = 1
            for numbers, batch in batches_by_length(
                records,
                layout.max_seq_length,
                task.padding,
                self._batch_size,
                self._most_tokens,
            ):
                yield dict(batch, index=begin + numbers)
            begin += windows.sum()


def in_order(parts: Sequence[Arrays]) -> Arrays:
    """Joins batches: arrays [m,...] by name, in the order of `index`, which is left out."""
    order = np.argsort(np.concatenate([part["index"] for part in parts]), kind="stable")
    joined = {}
    for name in parts[0]:
        if name != "index":
            joined[name] = np.concatenate([part[name] for part in parts])[order]
    return joined
