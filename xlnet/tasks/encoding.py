"""Rows as arrays of records, and these in batches.

Shape letters: T = `max_seq_length` tokens of one choice, C choices (1 unless multiple choice),
n rows, m records, B batch.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer

# Segment ids: of the first text, the second text, <cls>, padding on the right and on the left.
SEG_A, SEG_B, SEG_CLS, SEG_PAD_RIGHT, SEG_PAD = 0, 1, 2, 3, 4
IDS = ("input_ids", "input_mask", "segment_ids")  # what the network reads, [B,C*T]

# How texts are laid out: T; whether only the first text is cut; the setting `long_document`, by
# which a row is one record ("truncate"), or may be several ("sliding").
Layout = collections.namedtuple(
    "Layout", "max_seq_length cut_first long_document", defaults=(False, "truncate")
)


class TokenCounts(NamedTuple):
    """How many tokens the texts of rows have, and how many of these are in their records; without
    special tokens, int [n] each."""

    read: np.ndarray
    total: np.ndarray

    @property
    def is_cut(self) -> np.ndarray:
        """Whether a row lost some of its text, bool [n]."""
        return self.read < self.total


# ---- what fits ----


def fit_to_length(ids_a: list, ids_b: list | None, layout: Layout) -> list:
    """The windows of a text or a pair: a list of (ids_a, ids_b or None) that fit.

    The longer text is cut until both are equally long, then both in turn, the second one first. In
    closed form, of a budget of 10 ids: lengths of (8, 6) become (5, 5), (8, 3) become (7, 3). With
    `cut_first` the first text is cut before the second one. A text that is too long loses its end
    ("truncate"), or has several windows ("sliding").
    """
    num_special = 2 if ids_b is None else 3
    budget = layout.max_seq_length - num_special
    least = budget - budget // 2  # to which the first text may be cut
    if layout.cut_first:
        # Windows of a few ids would be as many as the text has ids.
        least = max(budget // 4, 1) if layout.long_document == "sliding" else 1
    length_b = len(ids_b or ())
    length_a = min(len(ids_a), max(budget - length_b, least))
    length_b = min(length_b, budget - length_a)
    windows_a = _windows(ids_a, length_a, layout)
    windows_b = [None] if ids_b is None else _windows(ids_b, length_b, layout)
    pairs = []
    for number in range(max(len(windows_a), len(windows_b))):
        pairs.append((_nth(windows_a, number), _nth(windows_b, number)))
    return pairs


def _windows(ids: list, length: int, layout: Layout) -> list:
    """The windows of one text, of `length` ids each."""
    num_too_many = len(ids) - length
    if num_too_many <= 0 or layout.long_document == "truncate":
        return [ids[:length]]
    # Each window begins in the middle of the one before; the last one ends with the text.
    stride = max(length // 2, 1)
    starts = [*range(0, num_too_many, stride), num_too_many]
    return [ids[start : start + length] for start in starts]


def _nth(windows: list, number: int) -> Any:
    """The window of a number; the last one again of texts that have fewer windows than others."""
    return windows[min(number, len(windows) - 1)]


class Window(NamedTuple):
    """Pieces `start` to before `end` of a text; those from `widest_start` to before
    `widest_end` have more context in this window than in any other."""

    start: int
    end: int
    widest_start: int
    widest_end: int


def windows_of(count: int, room: int, stride: int) -> list[Window]:
    """The windows of a text of `count` pieces: of at most `room` pieces, each beginning
    `stride` pieces after the one before; one, perhaps empty, if all pieces fit.

    With 10 pieces, a room of 6 and a stride of 2, and * for the widest context:

        piece      0  1  2  3  4  5  6  7  8  9
        window 0   *  *  *  *  .  .
        window 1         .  .  *  *  .  .
        window 2               .  .  *  *  *  *
    """
    found, start, border = [], 0, 0
    while start + room < count:
        # As in the original, the context of a piece is the number of pieces on its shorter side,
        # plus a hundredth of the length of the window. The border to the next window is the first
        # piece that has more context there.
        end, following = start + room, start + min(room, stride)
        next_end = min(following + room, count)
        piece = np.arange(following, end)
        here = np.minimum(piece - start, end - 1 - piece) + 0.01 * room
        there = np.minimum(piece - following, next_end - 1 - piece)
        is_wider = there + 0.01 * (next_end - following) > here
        next_border = following + int(np.argmax([*is_wider, True]))
        found.append(Window(start, end, border, next_border))
        start, border = following, next_border
    found.append(Window(start, count, border, count))
    return found


# ---- arrays ----


def lay_out(
    pairs: Sequence[tuple],
    max_seq_length: int,
    tokenizer: Tokenizer,
    pads: str = "left",
) -> dict[str, np.ndarray]:
    """Lays out `A <sep> <cls>` (no B) or `A <sep> B <sep> <cls>`.

    With the ids 21 and 22 of A, 31 of B and a length of 8, padded on the left:

        input_ids     0   0  21  22  <sep>  31  <sep>  <cls>
        input_mask    1   1   0   0      0   0      0      0
        segment_ids   4   4   0   0      0   1      1      2

    Args:
      pairs: n tuples of lists of ids (A, B or None) that fit.
      max_seq_length: T.
      tokenizer: has the ids of <sep> and <cls>.
      pads: the side of the padding, "left" or "right".

    Returns:
      a dict of `input_ids` int32, `input_mask` float32 and `segment_ids` int32, each [n,T].
    """
    shape = len(pairs), max_seq_length
    input_ids = np.zeros(shape, np.int32)
    input_mask = np.ones(shape, np.float32)
    padding = SEG_PAD if pads == "left" else SEG_PAD_RIGHT
    segment_ids = np.full(shape, padding, np.int32)
    for number, (ids_a, ids_b) in enumerate(pairs):
        ids = [*ids_a, tokenizer.sep_id]
        segments = [SEG_A] * len(ids)
        if ids_b is not None:
            ids += [*ids_b, tokenizer.sep_id]
            segments += [SEG_B] * (len(ids_b) + 1)
        ids.append(tokenizer.cls_id)
        segments.append(SEG_CLS)
        begin = max_seq_length - len(ids) if pads == "left" else 0
        place = slice(begin, begin + len(ids))
        input_ids[number, place] = ids
        input_mask[number, place] = 0
        segment_ids[number, place] = segments
    return {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": segment_ids,
    }


def arrays_of(
    rows: Sequence[tuple], labels: np.ndarray, tokenizer: Tokenizer, layout: Layout
) -> tuple:
    """Arrays of some rows.

    Args:
      rows: of each of n the pairs of texts, as of `Row`: one, or one for each choice.
      labels: those of records, [n, ...].
      tokenizer: of the vocabulary.
      layout: which tokens fit.

    Returns:
      (dict of arrays [m, ...], as `record_files.finetuning_features` lists them, the texts of all
      choices joined, [m,C*T]; int [n], the windows of each row, whose sum is m; `TokenCounts`).
    """
    # All texts are tokenized in one call, which is faster than one for each.
    texts = []
    for choices in rows:
        for pair in choices:
            texts += [text for text in pair if text is not None]
    ids = iter(tokenizer.encode_lines(texts))

    pairs: list[tuple] = []  # of all choices of all records
    counts, tokens_read, tokens = [], [], []  # of each row
    for choices in rows:
        of_choices, total = [], 0  # the windows of each choice
        for _, text_b in choices:
            ids_a = next(ids)
            ids_b = None if text_b is None else next(ids)
            total += len(ids_a) + len(ids_b or ())
            of_choices.append(fit_to_length(ids_a, ids_b, layout))
        first, count = len(pairs), max(map(len, of_choices))
        for number in range(count):
            pairs += [_nth(windows, number) for windows in of_choices]
        # A single window may have lost some of the text; several have all of it, some of it twice.
        read = sum(len(ids_a) + len(ids_b or ()) for ids_a, ids_b in pairs[first:])
        counts.append(count)
        tokens.append(total)
        tokens_read.append(min(read, total))

    arrays = lay_out(pairs, layout.max_seq_length, tokenizer)
    for name, values in arrays.items():
        arrays[name] = values.reshape(sum(counts), -1)
    arrays["label_ids"] = np.repeat(labels, counts, axis=0)
    read_of_all = TokenCounts(np.array(tokens_read), np.array(tokens))
    return arrays, np.array(counts), read_of_all


# ---- batches in memory


class Padding(NamedTuple):
    """The padding of records, of which batches leave out what all of theirs have.

    Attributes:
      side: "left" or "right" of the text.
      token_features: features of the task [T], which are shortened as the ids are.
      multiple: what the length of batches is a multiple of [tokens].
    """

    side: str = "left"
    token_features: tuple[str, ...] = ()
    multiple: int = 8


def batches_by_length(
    records: dict[str, np.ndarray],
    row_length: int,
    padding: Padding,
    batch_size: int,
    most_tokens: int | None = None,
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
    by_token = (*IDS, *padding.token_features)
    input_mask = records["input_mask"]
    choices = input_mask.shape[1] // row_length
    is_text = input_mask.reshape(-1, choices, row_length) < 1  # [m,C,T]
    lengths = is_text.sum(axis=2).max(axis=1)  # [m], of choices that of the longest
    order = np.argsort(lengths, kind="stable")
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
                by_choice = batch[name].reshape(-1, choices, row_length)
                batch[name] = by_choice[:, :, kept].reshape(len(numbers), -1)
        yield numbers, batch
