"""Predictions of a fine-tuned network for rows, in memory: rows, features, batches of near lengths,
outputs, rows again in order.

Shape letters: n rows, m records, B batch, T tokens of a record, C choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.records import feature_spec
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import IDS, batches_by_length
from xlnet.tasks.features.encoding import TokenCounts
from xlnet.tasks.task import Row
from xlnet.tokenization.tokenizer import Tokenizer

Arrays = dict[str, np.ndarray]  # by name, [m, ...]

_DTYPES = {"int": tf.int32, "float": tf.float32}
_BATCHES_AT_ONCE = 8  # rows of about equal length are batched out of so many batches


class Network(Protocol):
    """What computes the outputs of a batch."""

    def outputs(self, features: Mapping[str, np.ndarray]) -> Arrays:
        """From features by name, [B, ...], to `TaskModel.outputs` by name, [B, ...]."""


class Predictor:
    """Predicts rows with a fine-tuned network.

    Args:
      tuned: its task, with the settings of the run.
      tokenizer: that of its vocabulary.
      network: computes the outputs of a batch.
      batch_size: records that go through the network together, at most.
      most_tokens: tokens that do, at most, but at least one record; None: any number.
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
        """The `contract.Predictions.values` of n rows, and the counts of their tokens, int [n]."""
        # Some rows at a time: their features take more memory than their outputs.
        parts: list[Arrays] = []
        windows: list[np.ndarray] = []  # records of each row
        read: list[np.ndarray] = []
        total: list[np.ndarray] = []
        for begin in range(0, len(rows), self.at_once):
            some = rows[begin : begin + self.at_once]
            outputs, windows_of_rows, counts = self._outputs(some)
            parts.append(outputs)
            windows.append(windows_of_rows)
            read.append(counts.read)
            total.append(counts.total)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        joined["loss"] = np.zeros(sum(map(sum, windows)), np.float32)  # without labels
        has_windows = encoding.has_windows(self._tuned.layout)
        predictions = self._tuned.task.head.join(
            joined, np.concatenate(windows) if has_windows else None
        )
        return predictions.values, TokenCounts(np.concatenate(read), np.concatenate(total))

    def _outputs(self, rows: Sequence[Row]) -> tuple[Arrays, np.ndarray, TokenCounts]:
        """(the outputs of the m records of n rows, int [n] how many records each row has, the
        counts of the rows' tokens)."""
        reader, layout = self._tuned.task.reader, self._tuned.layout
        records, windows = reader.encode(list(reader.examples(rows)), self._tokenizer, layout)
        counts = encoding.pop_token_counts(records)
        numbers: list[np.ndarray] = []
        parts: list[Arrays] = []
        for numbers_of_batch, batch in batches_by_length(
            records,
            layout.max_seq_length,
            self._tuned.padding,
            self._batch_size,
            self._most_tokens,
        ):
            numbers.append(numbers_of_batch)
            parts.append(self._network.outputs(batch))
        # The batches are in the order of lengths; the outputs are put in that of the records.
        order = np.argsort(np.concatenate(numbers))
        outputs = {}
        for name in parts[0]:
            outputs[name] = np.concatenate([part[name] for part in parts])[order]
        first = np.cumsum(windows) - windows
        return outputs, windows, TokenCounts(counts.read[first], counts.total[first])


def placeholders(tuned: FineTunedTask) -> dict[str, tf.Tensor]:
    """The features of a record that predictions depend on, for any batch size, and for any length
    where there is one value for each token."""
    task = tuned.task
    length = tuned.layout.max_seq_length
    features = feature_spec.finetuning_features(
        length, task.head.features(length), task.head.num_choices(False)
    )
    inputs = {}
    for name, shape, dtype in features:
        if name not in ("is_real_example", *task.head.targets):
            sizes = [None if name in IDS or size == length else size for size in shape]
            inputs[name] = tf.placeholder(_DTYPES[dtype], [None, *sizes], name)
    return inputs
