"""Predictions of a fine-tuned network for rows, in memory: rows, features, batches of near lengths,
outputs, rows again in order. `RowPredictor` is that of a loaded model; evaluation and --do_predict
run the batches on all devices of a run (`evaluate.Evaluator`).

Shape letters: n rows, m records, B batch, T tokens of a record, C choices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus import feature_spec
from xlnet.corpus.input_pipeline import POOL_BATCHES
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine.estimator import in_order
from xlnet.runs.task_settings import FineTunedTask
from xlnet.tasks.features import encoding
from xlnet.tasks.features.encoding import (
    IDS,
    TOKENS,
    TOKENS_READ,
    TokenCounts,
    batches_by_length,
)
from xlnet.tasks.task import Row
from xlnet.tasks.types.contract import Predictions

Arrays = dict[str, np.ndarray]  # by name, [m, ...]

_DTYPES = {"int": tf.int32, "float": tf.float32}
_BATCHES_AT_ONCE = 8  # that a call of a loaded model waits for, at most
# What of a batch says to which rows its records belong.
OF_ROWS = ("index", "is_first", TOKENS_READ, TOKENS)


class Network(Protocol):
    """What computes the outputs of a batch."""

    def outputs(self, features: Mapping[str, np.ndarray]) -> Arrays:
        """From features by name, [B, ...], to `TaskModel.outputs` by name, [B, ...]."""


class Predicted(NamedTuple):
    """The predictions of n rows, and the counts of their tokens, int [n]."""

    predictions: Predictions
    counts: TokenCounts


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
        most_tokens: Optional[int] = None,
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
        predicted = join(parts, self._tuned)
        return predicted.predictions.values, predicted.counts


def batches_of_rows(
    rows: Sequence[Row],
    tuned: FineTunedTask,
    tokenizer: Tokenizer,
    batch_size: int,
    most_tokens: Optional[int] = None,
) -> Iterator[Arrays]:
    """Yields batches of the records of rows, of about equal length. Each record has its number,
    `index`, whether it `is_first` of its row, and the counts of the row's tokens, `TOKENS_READ` and
    `TOKENS`.

    Args:
      batch_size: B, at most.
      most_tokens: as of `batches_by_length`.
    """
    reader, layout = tuned.task.reader, tuned.layout
    rest = iter(rows)
    first = 0
    # Some rows at a time: their features take more memory than their outputs.
    while block := list(itertools.islice(rest, POOL_BATCHES * batch_size)):
        records, windows = reader.encode(
            list(reader.examples(block)), tokenizer, layout
        )
        counts = encoding.pop_token_counts(records)
        records[TOKENS_READ], records[TOKENS] = counts.read, counts.total
        records["is_first"] = np.zeros(len(counts.read), np.int32)
        records["is_first"][np.cumsum(windows) - windows] = 1
        for numbers, batch in batches_by_length(
            records, layout.max_seq_length, tuned.padding, batch_size, most_tokens
        ):
            yield dict(batch, index=first + numbers)
        first += len(counts.read)


def join(parts: Sequence[Arrays], tuned: FineTunedTask) -> Predicted:
    """The predictions of rows from the outputs of their batches, which have what `batches_of_rows`
    says of their rows, too."""
    outputs = in_order(parts)
    starts = np.flatnonzero(outputs.pop("is_first"))
    counts = TokenCounts(outputs.pop(TOKENS_READ)[starts], outputs.pop(TOKENS)[starts])
    # A row may have several records; `join` makes one prediction of their outputs.
    windows = np.diff(starts, append=len(outputs["loss"]))
    has_windows = encoding.has_windows(tuned.layout)
    return Predicted(
        tuned.task.head.join(outputs, windows if has_windows else None), counts
    )


def features_to_predict(tuned: FineTunedTask) -> dict[str, tf.TensorSpec]:
    """What `batches_of_rows` yields, by name: for any batch size, and for any length where there is
    one value for each token."""
    head, length = tuned.task.head, tuned.layout.max_seq_length
    specs = {}
    for name, shape, dtype in feature_spec.finetuning_features(
        length, head.features(length), head.num_choices(False)
    ):
        if name in (*IDS, *head.token_features):
            shape = (None,)
        specs[name] = tf.TensorSpec([None, *shape], _DTYPES[dtype], name)
    for name in OF_ROWS:
        specs[name] = tf.TensorSpec([None], tf.int64, name)
    return specs


def placeholders(tuned: FineTunedTask) -> dict[str, tf.Tensor]:
    """The features of a record that predictions depend on."""
    targets = ("is_real_example", *OF_ROWS, *tuned.task.head.targets)
    inputs = {}
    for name, spec in features_to_predict(tuned).items():
        if name not in targets:
            inputs[name] = tf.placeholder(spec.dtype, spec.shape, name)
    return inputs
