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

    def outputs(self, features: Tensors, with_loss: bool = False) -> Tensors:
        """The outputs of the task's head in inference, tensors [B,...] by the names that the task
        type gives them, such as `values`. with_loss: also the `loss` of each record, [B], for which
        the features have the labels; a record without a label has the label 0."""
        task = self.tuned.task
        run = self.network.run_config(is_training=False)
        # Matrices are stored in the precision of the matmuls, which would round them anyway.
        with parameters.model_scope(kept_in=run.precision):
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
        run = self.network.run_config(is_training, device=device)
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
            run,
            input_ids=ids,
            seg_ids=segments,
            mask=padding[:, None] > 0,  # [B*C,1,T]
            seed=seed,
        ).sequence  # [B*C,T,D]
        nn = heads.HeadBuilder(
            run,
            task.scope(settings.cls_scope),
            sequence,
            padding,
            # `nn.summary`, which not all task types call
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

        def build() -> tuple[Tensors, Tensors]:
            """The inputs and the outputs on a device, by name."""
            features = {}
            with tf.device("/cpu:0"):  # batches are fed on the host
                inputs = placeholders(model.tuned, with_targets=True)
                # TensorFlow's graph optimizer ignores the shapes of placeholders.
                for name, tensor in inputs.items():
                    features[name] = tf.ensure_shape(tensor, tensor.shape)
            return inputs, model.outputs(features, with_loss=True)

        # One for each of the batches that are computed in parallel.
        self._copies = restored.copies("task", build)

    def predict(
        self, rows: Sequence[Row], advance: Callable[[int], object] | None = None
    ) -> tuple[Predictions, TokenCounts]:
        """The predictions of n > 0 rows, and the counts of their tokens, int [n].

        Args:
          advance: moves a progress bar by a number of rows.
        """
        of_batches = []
        blocks: list[tuple] = []  # filled by `_batches` while it yields
        batches = self._batches(rows, blocks)
        for batch, outputs in in_parallel(self._copies, batches):
            of_batches.append({**outputs, "index": batch["index"]})
            if advance:
                # A row counts when its first record is done.
                advance(int(batch["is_first"].sum()))
        of_records = in_order(of_batches)  # [m,...]
        # int [n] each: the number of records of each row, and its `TokenCounts`
        windows, read, total = np.concatenate(blocks, axis=1)
        # A row may have several records; the task's `join` makes one prediction of their outputs.
        loss = mean_over_windows(of_records.pop("loss"), windows)
        values = self._tuned.task.join(of_records, windows)
        return Predictions(values, loss), TokenCounts(read, total)

    def _batches(self, rows: Sequence[Row], blocks: list[tuple]) -> Iterator[Arrays]:
        """Yields batches of the records of rows, features [B,...] by name; the records of a batch
        have about the same length. Two features are added: the `index` of a record among those of
        all rows, and `is_first`, 1 for the first record of a row.

        Adds to `blocks` a tuple for each block of rows, of three arrays int [rows]: the number of
        records of each row, the number of its tokens that these have, and of all of its tokens.
        """
        task, layout = self._tuned.task, self._tuned.layout
        remaining = iter(rows)
        block_size = POOL_BATCHES * self._batch_size
        begin = 0  # the index of the block's first record
        # A block of rows at a time, as the features of rows take more memory than their outputs.
        while block := list(itertools.islice(remaining, block_size)):
            # records: features [m,...] by name; windows: int [rows], records of each row
            records, windows, counts = task.encode(block, self._tokenizer, layout)
            blocks.append((windows, *counts))
            first_records = np.cumsum(windows) - windows  # [rows], indices in the block
            records["is_first"] = np.zeros(windows.sum(), np.int32)
            records["is_first"][first_records] = 1
            # numbers: int [B], the indices in the block of the records of a batch
            for numbers, batch in batches_by_length(
                records,
                layout.max_seq_length,
                task.padding,
                self._batch_size,
                self._most_tokens,
            ):
                yield dict(batch, index=begin + numbers)
            begin += windows.sum()


def in_order(batches: Sequence[Arrays]) -> Arrays:
    """Joins batches, arrays [B,...] by name, to arrays [m,...] by name, in the order of the array
    `index`, int [B], which is left out."""
    index = np.concatenate([batch["index"] for batch in batches])  # [m]
    order = np.argsort(index, kind="stable")
    joined = {}
    for name in batches[0]:
        if name != "index":
            values = np.concatenate([batch[name] for batch in batches])
            joined[name] = values[order]
    return joined
