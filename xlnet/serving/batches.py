"""Records in memory as batches of about equal length.

Shape letters: m records, B of a batch, T tokens of one of the C texts of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]      # by name, [m, ...]


class Shape(NamedTuple):
    """The layout of records in arrays.

    Attributes:
      row_length: T.
      pads: "left" or "right", where padding is.
      by_token: names of the arrays [m,C*T].
      multiple: batches are as long as their longest text, rounded up to a multiple of it [tokens].
    """
    row_length: int
    pads: str
    by_token: tuple[str, ...]
    multiple: int


def by_length(records: Arrays, shape: Shape,
              batch_size: int) -> Iterator[tuple[np.ndarray, Arrays]]:
    """Yields batches of about equal length, the shortest first: the numbers of the records, int
    [B], and the records without the columns that are padding in all of them."""
    lengths = _extents(_split(records["input_mask"], shape) < 1, shape.pads).max(axis=1)     # [m]
    order = np.argsort(lengths, kind="stable")
    for begin in range(0, len(order), batch_size):
        numbers = order[begin:begin + batch_size]
        longest = -(-int(lengths[numbers[-1]]) // shape.multiple) * shape.multiple
        length = min(longest, shape.row_length)
        kept = slice(None, length) if shape.pads == "right" else slice(-length, None)
        yield numbers, {
            name: _split(values[numbers], shape)[:, :, kept].reshape(len(numbers), -1)
            if name in shape.by_token else values[numbers] for name, values in records.items()}


def _extents(is_text, pads):
    """The length of each text, from its first token to the end of the row or, if padding is on the
    right, from the beginning to its last token: bool [m,C,T] -> int [m,C]."""
    is_text = is_text[:, :, ::-1] if pads == "right" else is_text
    return is_text.shape[2] - is_text.argmax(axis=2)


def _split(values, shape):
    """[m,C*T] -> [m,C,T]."""
    return values.reshape(len(values), -1, shape.row_length)


def in_order(numbers: Sequence[np.ndarray], parts: Sequence[Arrays]) -> Arrays:
    """The outputs of all batches, in the order of the records."""
    order = np.argsort(np.concatenate(numbers), kind="stable")
    return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
