"""Rows as arrays of records, and these in batches.

A row has one record, in which a text that is too long is cut; a question or a sentence to tag may
have several, one for each window, the part of its text that a record has. A record has a sequence
of T tokens for each choice, one after the other: `A <sep> <cls>` or `A <sep> B <sep> <cls>`.

Shape letters: T = `max_seq_length` tokens of one choice, C choices (1 but in multiple choice and
in the training of rankings), n rows, m records, B batch.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer

# Segment ids: of the first text, the second text, <cls>, padding on the right and on the left.
SEG_A, SEG_B, SEG_CLS, SEG_PAD_RIGHT, SEG_PAD_LEFT = 0, 1, 2, 3, 4
IDS = ("input_ids", "input_mask", "segment_ids")  # what the network reads, [B,C*T]

# How texts are laid out: T; whether the first text is cut before the second one.
Layout = collections.namedtuple("Layout", "max_seq_length cut_first", defaults=(False,))


class TokenCounts(NamedTuple):
    """Numbers of tokens of n rows, without special tokens, int [n] each.

    Attributes:
      read: those that are in the records of a row.
      total: those of the texts of a row.
    """

    read: np.ndarray
    total: np.ndarray

    @property
    def is_cut(self) -> np.ndarray:
        """Whether each row lost some of its text, bool [n]."""
        return self.read < self.total


# ---- what fits ----


def fit_to_length(ids_a: list[int], ids_b: list[int] | None, layout: Layout) -> tuple:
    """The first ids of a text or a pair, (ids_a, ids_b or None), that fit into T with their special
    tokens.

    The longer text is cut until both are equally long, then both in turn, the second one first: of
    a budget of 10 ids, lengths of (8, 6) become (5, 5), and (8, 3) become (7, 3). With `cut_first`
    the first text is cut before the second one.
    """
    num_special = 2 if ids_b is None else 3  # <sep> after each text, <cls>
    budget = layout.max_seq_length - num_special
    # The first text keeps its first `least_a` ids, even if the second one fills the budget.
    least_a = 1 if layout.cut_first else budget - budget // 2
    length_b = len(ids_b or ())
    length_a = min(len(ids_a), max(budget - length_b, least_a))
    return ids_a[:length_a], None if ids_b is None else ids_b[: budget - length_a]


class Window(NamedTuple):
    """A window of a text of which each piece (subword token) is predicted in one window.

    Attributes:
      start, end: it has the pieces from `start` to before `end`.
      widest_start, widest_end: those from `widest_start` to before `widest_end` have more context
        in this window than in any other; they are predicted here.
    """

    start: int
    end: int
    widest_start: int
    widest_end: int


def windows_of(count: int, room: int, stride: int) -> list[Window]:
    """The windows of a text of `count` pieces: of at most `room` pieces, each beginning `stride`
    pieces, but at most `room`, after the one before; one, perhaps empty, if all pieces fit.

    With 10 pieces, a room of 6 and a stride of 2, and * from `widest_start` to `widest_end`:

        piece      0  1  2  3  4  5  6  7  8  9
        window 0   *  *  *  *  .  .
        window 1         .  .  *  *  .  .
        window 2               .  .  *  *  *  *
    """
    windows, start, widest_start = [], 0, 0
    while start + room < count:
        # As in the original, the context of a piece is the number of pieces on its shorter side,
        # plus a hundredth of the length of the window. The widest context is in this window until
        # the first piece that has more context in the next one.
        end, next_start = start + room, start + min(room, stride)
        next_end = min(next_start + room, count)
        in_both = np.arange(next_start, end)
        context = np.minimum(in_both - start, end - 1 - in_both) + 0.01 * room
        shorter_side = np.minimum(in_both - next_start, next_end - 1 - in_both)
        next_context = shorter_side + 0.01 * (next_end - next_start)
        # True for the first piece after this window, if none before has more context there.
        is_wider_there = [*(next_context > context), True]
        widest_end = next_start + int(np.argmax(is_wider_there))
        windows.append(Window(start, end, widest_start, widest_end))
        start, widest_start = next_start, widest_end
    windows.append(Window(start, count, widest_start, count))
    return windows


# ---- arrays ----


def lay_out(
    pairs: Sequence[tuple],
    max_seq_length: int,
    tokenizer: Tokenizer,
    side: str,
) -> dict[str, np.ndarray]:
    """Lays out pairs of texts as `A <sep> B <sep> <cls>`, or without B as `A <sep> <cls>`.

    With the ids 21 and 22 of A, 31 of B and a length of 8, padded on the left:

        input_ids     0   0  21  22  <sep>  31  <sep>  <cls>
        input_mask    1   1   0   0      0   0      0      0
        segment_ids   4   4   0   0      0   1      1      2

    Args:
      pairs: tuples (A, B or None) of lists of ids that fit.
      max_seq_length: T.
      tokenizer: has the ids of <sep> and <cls>.
      side: of the padding, "left" or "right".

    Returns:
      a dict of `input_ids` int32, `input_mask` float32, 1 for padding, and `segment_ids` int32,
      each [number of pairs,T].
    """
    shape = len(pairs), max_seq_length
    input_ids = np.zeros(shape, np.int32)
    input_mask = np.ones(shape, np.float32)
    padding = SEG_PAD_LEFT if side == "left" else SEG_PAD_RIGHT
    segment_ids = np.full(shape, padding, np.int32)
    for number, (ids_a, ids_b) in enumerate(pairs):
        ids = [*ids_a, tokenizer.sep_id]
        segments = [SEG_A] * len(ids)
        if ids_b is not None:
            ids += [*ids_b, tokenizer.sep_id]
            segments += [SEG_B] * (len(ids_b) + 1)
        ids.append(tokenizer.cls_id)
        segments.append(SEG_CLS)
        begin = max_seq_length - len(ids) if side == "left" else 0
        positions = slice(begin, begin + len(ids))
        input_ids[number, positions] = ids
        input_mask[number, positions] = 0
        segment_ids[number, positions] = segments
    return {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": segment_ids,
    }


def encode_pairs(
    pairs_of_rows: Sequence[tuple],
    labels: np.ndarray,
    tokenizer: Tokenizer,
    layout: Layout,
) -> tuple:
    """Tokenizes and encodes n rows, one record for each, padded on the left.

    Args:
      pairs_of_rows: the `Row.pairs` of each: one tuple (text_a, text_b or None), or C of them.
      labels: those of the rows as numbers, [n, ...].
      tokenizer: of the vocabulary.
      layout: which tokens fit.

    Returns:
      (dict of arrays: `IDS` [n,C*T], the choices one after the other, and `label_ids` [n, ...];
      int [n], the number of records of each row, which is 1; `TokenCounts` of the rows).
    """
    # All texts are tokenized in one call, which is faster than one for each.
    texts = []
    for pairs in pairs_of_rows:
        for pair in pairs:
            texts += [text for text in pair if text is not None]
    ids_of_texts = iter(tokenizer.encode_lines(texts))

    sequences: list[tuple] = []  # (ids_a, ids_b or None) of each choice of each row
    tokens_read, tokens_total = [], []  # of each row
    for pairs in pairs_of_rows:
        read = total = 0
        for _, text_b in pairs:
            ids_a = next(ids_of_texts)
            ids_b = None if text_b is None else next(ids_of_texts)
            total += len(ids_a) + len(ids_b or ())
            ids_a, ids_b = fit_to_length(ids_a, ids_b, layout)
            read += len(ids_a) + len(ids_b or ())
            sequences.append((ids_a, ids_b))
        tokens_read.append(read)
        tokens_total.append(total)

    # [n*C,T] each
    arrays = lay_out(sequences, layout.max_seq_length, tokenizer, "left")
    for name, values in arrays.items():
        arrays[name] = values.reshape(len(pairs_of_rows), -1)
    arrays["label_ids"] = labels
    num_records = np.ones(len(pairs_of_rows), np.int64)
    counts = TokenCounts(np.array(tokens_read), np.array(tokens_total))
    return arrays, num_records, counts


# ---- batches in memory


class Padding(NamedTuple):
    """Where records are padded. A batch leaves out the padding that all of its records have.

    Attributes:
      side: "left" or "right" of the text.
      token_features: names of the features of the task with a value per token, [T], which lose the
        same positions as the ids.
      multiple: the length of a batch is a multiple of it, or T [tokens].
    """

    side: str = "left"
    token_features: tuple[str, ...] = ()
    multiple: int = 8


def batches_by_length(
    records: dict[str, np.ndarray],
    max_seq_length: int,
    padding: Padding,
    batch_size: int,
    most_tokens: int | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of records of about equal length, the shortest first: a dict of arrays [B,
    ...], without the positions that are padding in all of them; also `index`, int [B], the indices
    of the batch's records among all.

    Args:
      records: by name `IDS` and the features per token, [m,C*T], others [m, ...].
      max_seq_length: T.
      padding: where it is.
      batch_size: B, at most.
      most_tokens: tokens of a batch, B * C * the length of its longest text, at most, unless it is
        a single record; None: any number.
    """
    # All texts of a batch are as long as its longest one. Sorted by length, they need little
    # padding for that.
    by_token = (*IDS, *padding.token_features)
    input_mask = records["input_mask"]
    choices = input_mask.shape[1] // max_seq_length
    # [m,C,T]; the mask is 1 for padding.
    is_text = input_mask.reshape(-1, choices, max_seq_length) < 1
    lengths = is_text.sum(axis=2).max(axis=1)  # [m], of choices that of the longest
    order = np.argsort(lengths, kind="stable")
    begin = 0
    while begin < len(order):
        end = begin + 1
        # The batch grows by one record at a time, the longest so far: all others get its length.
        while end < min(begin + batch_size, len(order)):
            tokens = (end + 1 - begin) * choices * int(lengths[order[end]])
            if most_tokens is not None and tokens > most_tokens:
                break
            end += 1
        index = order[begin:end]
        begin = end
        # Rounded up to a multiple, so that batches have few different shapes.
        longest = int(lengths[index[-1]])
        rounded = math.ceil(longest / padding.multiple) * padding.multiple
        length = min(rounded, max_seq_length)
        kept = slice(None, length) if padding.side == "right" else slice(-length, None)
        batch = {"index": index}
        for name, values in records.items():
            batch[name] = values[index]
            if name in by_token:
                by_choice = batch[name].reshape(-1, choices, max_seq_length)
                batch[name] = by_choice[:, :, kept].reshape(len(index), -1)
        yield batch
