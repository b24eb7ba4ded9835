"""The network with the output layer of a task, and the one predictor: rows, features, batches of
near lengths, outputs, rows again in order. `RowPredictor` is that of a loaded model; evaluation
and --do_predict run the batches on all devices of a run (`evaluate.Evaluator`).

Shape letters as in `modeling`; n rows, m records, T tokens of a record, C choices.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus import record_files
from xlnet.corpus.input_pipeline import POOL_BATCHES
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import train_step
from xlnet.engine.estimator import in_order
from xlnet.model import heads, modeling
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks import encoding
from xlnet.tasks.contract import LossOptions, Predictions
from xlnet.tasks.encoding import IDS, TokenCounts, batches_by_length
from xlnet.tasks.task import Row

Arrays = dict[str, np.ndarray]  # by name, [m, ...]

# What of a batch to predict says to which rows its records belong, and how many tokens these have.
OF_ROWS = ("index", "is_first", "tokens_read", "tokens")
_DTYPES = {"int": tf.int32, "float": tf.float32}
_BATCHES_AT_ONCE = 8  # that a call of a loaded model waits for, at most


@dataclasses.dataclass(frozen=True)
class TaskModel:
    """A network and the output layer of a task.

    Features of all methods are a dict of tensors [B, ...] as in `record_files.finetuning_features`;
    ids may have any length.
    """

    config: XLNetConfig
    tuned: FineTunedTask
    network: NetworkSettings

    def outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the task's head: dict of tensors [B, ...]. Labels are not
        read. A feature `token_scale`, float32 [B,T], multiplies the embeddings (one
        choice)."""
        with self._scope():
            nn, logits = self._logits(features)
            return self.tuned.task.outputs(nn, logits, features)

    def outputs_of_records(
        self, features: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """`outputs` with the `loss` of each record and the row that it belongs to
        (`OF_ROWS`), [B], for evaluation and prediction files. The loss of a record
        without a label is that of label 0: not read."""
        with self._scope():
            (nn, logits), task = self._logits(features), self.tuned.task
            return dict(
                task.outputs(nn, logits, features),
                loss=task.loss(nn, logits, features, LossOptions()),
                **{name: features[name] for name in OF_ROWS},
            )

    def training_loss(
        self,
        features: dict[str, tf.Tensor],
        seed: tf.Tensor,
        options: LossOptions,
        device: str | None = None,
    ) -> tf.Tensor:
        """The training loss of each record, float32 [B]. seed: of dropout, uint64 [1]; device: see
        `RunConfig`."""
        with train_step.model_scope():
            nn, logits = self._logits(features, seed, device)
            return self.tuned.task.loss(nn, logits, features, options)

    def _scope(self) -> contextlib.AbstractContextManager:
        """The variable scope of inference."""
        return train_step.model_scope(kept_in=self.network.run_config(False).precision)

    def _logits(
        self,
        features: dict[str, tf.Tensor],
        seed: tf.Tensor | None = None,
        device: str | None = None,
    ) -> tuple[heads.HeadBuilder, Any]:
        """(`heads.HeadBuilder` on the network's output, the output layer's logits); seed None:
        inference."""
        settings, task = self.tuned.settings, self.tuned.task
        is_training = seed is not None
        run = self.network.run_config(is_training, device=device)
        ids, segments, padding = self._texts(features, is_training)
        # Read at once: each token sees all others.
        sequence = modeling.transformer_xl(
            self.config,
            run,
            input_ids=ids,
            seg_ids=segments,
            mask=padding[:, None] > 0,
            seed=seed,
            token_scale=features.get("token_scale"),
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

    def _texts(
        self, features: dict[str, tf.Tensor], is_training: bool = False
    ) -> list[tf.Tensor]:
        """ids, segments, padding: [B*C,T], the choices of an example one after the other."""
        count = self.tuned.task.num_choices(is_training)
        texts = []
        for name in ("input_ids", "segment_ids", "input_mask"):
            x = features[name]
            if count > 1:
                x = tf.reshape(x, [-1, modeling.shape_of(x)[1] // count])
            texts.append(x)
        return texts


# ---- rows to batches


def batches_of_rows(
    rows: Sequence[Row],
    tuned: FineTunedTask,
    tokenizer: Tokenizer,
    batch_size: int,
    most_tokens: int | None = None,
) -> Iterator[Arrays]:
    """Yields batches of the records of rows, of about equal length. Each record has its number,
    `index`, whether it `is_first` of its row, and the counts of the row's tokens (`OF_ROWS`).

    Args:
      batch_size: B, at most.
      most_tokens: as of `batches_by_length`.
    """
    task, layout = tuned.task, tuned.layout
    rest = iter(rows)
    first = 0
    # Some rows at a time: their features take more memory than their outputs.
    while block := list(itertools.islice(rest, POOL_BATCHES * batch_size)):
        records, windows, counts = task.encode(block, tokenizer, layout)
        records["tokens_read"] = np.repeat(counts.read, windows)
        records["tokens"] = np.repeat(counts.total, windows)
        records["is_first"] = np.zeros(windows.sum(), np.int32)
        records["is_first"][np.cumsum(windows) - windows] = 1
        for numbers, batch in batches_by_length(
            records, layout.max_seq_length, tuned.padding, batch_size, most_tokens
        ):
            yield dict(batch, index=first + numbers)
        first += windows.sum()


def features_to_predict(tuned: FineTunedTask) -> dict[str, tf.TensorSpec]:
    """What `batches_of_rows` yields, by name: for any batch size, and for any length where there is
    one value for each token."""
    task, length = tuned.task, tuned.layout.max_seq_length
    specs = {}
    for name, shape, dtype in record_files.finetuning_features(
        length, task.features(length), task.num_choices(False)
    ):
        if name in (*IDS, *task.token_features):
            shape = (None,)
        specs[name] = tf.TensorSpec([None, *shape], _DTYPES[dtype], name)
    del specs["is_real_example"]  # of records to train on
    for name in OF_ROWS:
        specs[name] = tf.TensorSpec([None], tf.int64, name)
    return specs


def placeholders(tuned: FineTunedTask) -> dict[str, tf.Tensor]:
    """The features of a record that predictions depend on."""
    targets = (*OF_ROWS, *tuned.task.target_features)
    inputs = {}
    for name, spec in features_to_predict(tuned).items():
        if name not in targets:
            inputs[name] = tf.placeholder(spec.dtype, spec.shape, name)
    return inputs


# ---- outputs to rows


def join(
    parts: Sequence[Arrays], tuned: FineTunedTask
) -> tuple[Predictions, TokenCounts]:
    """The predictions of n rows, and the counts of their tokens, int [n], from the outputs of their
    batches, which have what `batches_of_rows` says of their rows, too."""
    outputs = in_order(parts)
    starts = np.flatnonzero(outputs.pop("is_first"))
    read, total = outputs.pop("tokens_read"), outputs.pop("tokens")
    counts = TokenCounts(read[starts], total[starts])
    # A row may have several records; `join` makes one prediction of their outputs.
    windows = np.diff(starts, append=len(outputs["loss"]))
    has_windows = encoding.has_windows(tuned.layout)
    predictions = tuned.task.join(outputs, windows if has_windows else None)
    return predictions, counts


# ---- a loaded model


class Network(Protocol):
    """What computes the outputs of a batch."""

    def outputs(self, features: Mapping[str, np.ndarray]) -> Arrays:
        """From features by name, [B, ...], to `TaskModel.outputs` by name, [B, ...]."""


class RowPredictor:
    """Predicts rows with a fine-tuned network.

    Args:
      tuned: its task, with the settings of the run.
      tokenizer: that of its vocabulary.
      network: computes the outputs of a batch.
      batch_size: records that go through the network together, at most.
      most_tokens: tokens that do, at most, but at least one record; None: any number.

    Attributes:
      at_once: rows that a call of a loaded model predicts together, at most.
    """

    def __init__(
        self,
        tuned: FineTunedTask,
        tokenizer: Tokenizer,
        network: Network,
        batch_size: int,
        most_tokens: int | None = None,
    ) -> None:
        self._tuned, self._tokenizer, self._network = tuned, tokenizer, network
        self._batch_size, self._most_tokens = batch_size, most_tokens
        self.at_once = _BATCHES_AT_ONCE * batch_size

    def values(self, rows: Sequence[Row]) -> tuple[Any, TokenCounts]:
        """The `Predictions.values` of n rows, and the counts of their tokens, int [n]."""
        parts = []
        for batch in batches_of_rows(
            rows, self._tuned, self._tokenizer, self._batch_size, self._most_tokens
        ):
            outputs = self._network.outputs(batch)
            # Without labels.
            outputs["loss"] = np.zeros(len(batch["index"]), np.float32)
            for name in OF_ROWS:
                outputs[name] = batch[name]
            parts.append(outputs)
        predictions, counts = join(parts, self._tuned)
        return predictions.values, counts
