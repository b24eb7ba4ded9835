"""Records in memory as batches of about equal length.

Shape letters: m records, B of a batch, T tokens of one of the C texts of a record.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xlnet.model_directory.task_settings import Padding
from xlnet.serving.session import IDS

Arrays = dict[str, np.ndarray]      # by name, [m, ...]


def by_length(records: Arrays, row_length: int, padding: Padding,
              batch_size: int) -> Iterator[tuple[np.ndarray, Arrays]]:
    """Yields batches of about equal length, the shortest first: the numbers of the records, int
    [B], and the records without the columns that are padding in all of them.

    Args:
      records: `session.IDS` and the features by token [m,C*T], others [m,...].
      row_length: T.
    """
    def split(values):                                                              # [m,C,T]
        return values.reshape(len(values), -1, row_length)
    by_token = (*IDS, *padding.token_features)
    lengths = _extents(split(records["input_mask"]) < 1, padding.side).max(axis=1)     # [m]
    order = np.argsort(lengths, kind="stable")
    for begin in range(0, len(order), batch_size):
        numbers = order[begin:begin + batch_size]
        longest = -(-int(lengths[numbers[-1]]) // padding.multiple) * padding.multiple
        length = min(longest, row_length)
        kept = slice(None, length) if padding.side == "right" else slice(-length, None)
        yield numbers, {
            name: split(values[numbers])[:, :, kept].reshape(len(numbers), -1)
            if name in by_token else values[numbers] for name, values in records.items()}


def _extents(is_text, side):
    """The length of each text, from its first token to the end of the row or, if padding is on the
    right, from the beginning to its last token: bool [m,C,T] -> int [m,C]."""
    is_text = is_text[:, :, ::-1] if side == "right" else is_text
    return is_text.shape[2] - is_text.argmax(axis=2)
