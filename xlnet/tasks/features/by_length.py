"""Batches of fine-tuning records of about equal length, in memory.

Shape letters: m records, B batch, T tokens of a record, C choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np

IDS = ("input_ids", "input_mask", "segment_ids")  # features of any number of tokens


class Padding(NamedTuple):
    """The padding that batches leave out."""

    side: str  # "left" or "right"
    # Features [T] of the head that are truncated like the ids.
    token_features: tuple[str, ...]
    multiple: int  # the length of batches is a multiple of it [tokens]


def batches_by_length(
    records: dict[str, np.ndarray],
    row_length: int,
    padding: Padding,
    batch_size: int,
    most_tokens: Optional[int] = None,
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yields batches of about equal length, the shortest first: the numbers of the records, int
    [B], and the records without the columns that are padding in all of them.

    Args:
      records: `IDS` and the features by token [m,C*T], others [m,...].
      row_length: T.
      batch_size: B, at most.
      most_tokens: B*C*T of a batch, at most, unless it is a single record; None: any number.
    """

    # Sorted by length, texts next to each other have little padding: the work of a batch is its
    # longest text's.
    def split(values: np.ndarray) -> np.ndarray:  # [m,C,T]
        return values.reshape(len(values), -1, row_length)

    by_token = (*IDS, *padding.token_features)
    # The length of each text: from its first token to the end of the row or, if padding is on the
    # right, from the beginning to its last token. Of choices that of the longest.
    is_text = split(records["input_mask"]) < 1  # [m,C,T]
    is_text = is_text[:, :, ::-1] if padding.side == "right" else is_text
    lengths = (row_length - is_text.argmax(axis=2)).max(axis=1)  # [m]
    order = np.argsort(lengths, kind="stable")
    choices = is_text.shape[1]
    begin = 0
    while begin < len(order):
        end = begin + 1
        # The longest one comes last: with it a batch has as many tokens as rows of its length.
        while end < min(begin + batch_size, len(order)):
            tokens = (end + 1 - begin) * choices * int(lengths[order[end]])
            if most_tokens is not None and tokens > most_tokens:
                break
            end += 1
        numbers = order[begin:end]
        begin = end
        # The columns that are padding in all texts of the batch go, up to a multiple: so batches
        # have few different shapes.
        longest = -(-int(lengths[numbers[-1]]) // padding.multiple) * padding.multiple
        length = min(longest, row_length)
        kept = slice(None, length) if padding.side == "right" else slice(-length, None)
        batch = {}
        for name, values in records.items():
            batch[name] = values[numbers]
            if name in by_token:
                batch[name] = split(batch[name])[:, :, kept].reshape(len(numbers), -1)
        yield numbers, batch
