"""Questions on paragraphs as arrays: overlapping windows of a paragraph, the question behind each.

A window is `paragraph <sep> question <sep> <cls>`, padded on the right. A paragraph is cut into
pieces once, however many questions it has. Where the network is to remember what stands before a
window, there are segments of the same form before it, the first one padded on the left.

Shape letters: n questions, m windows, T tokens of a window, S segments, the window among them, P
pieces of a paragraph.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlnet.records.feature_spec import Feature
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.tokenization.offsets import Aligned, Aligner, piece_span
from xlnet.tokenization.tokenizer import Tokenizer

SEG_PARAGRAPH, SEG_QUESTION, SEG_CLS, SEG_PAD = 0, 1, 2, 3

# Of a token: where it stands in the context.
TOKEN_FEATURES = ("char_start", "char_end")

# start, end: the answer's characters in the context; -1 where there is none.
Question = collections.namedtuple("Question", "context question start end")


def window_features(length: int) -> tuple[Feature, ...]:
    """What a window of T = `length` tokens has beside its ids."""
    return (
        Feature("start_positions", (), "int"),      # the answer's first token; <cls>: it has none
        Feature("end_positions", (), "int"),        # its last one
        Feature("is_impossible", (), "float"),      # 1: the answer is not in the window
        Feature("cls_index", (), "int"),
        Feature("paragraph_len", (), "int"),
        Feature("widest_start", (), "int"),         # the tokens from here ...
        Feature("widest_end", (), "int"),           # ... to before here have most context here
        # Whole numbers all the same: a paragraph may have more characters than a piece's id can be.
        Feature("char_start", (length,), "float"),
        Feature("char_end", (length,), "float"),
    )


class Window(NamedTuple):
    """Pieces `start` to before `end` of a paragraph; of these the ones from `widest_start` to
    before `widest_end` have more context in this window than in any other."""
    start: int
    end: int
    widest_start: int
    widest_end: int


@functools.lru_cache(maxsize=4096)
def windows_of(count: int, room: int, stride: int) -> tuple[Window, ...]:
    """The windows of a paragraph of P = `count` pieces: of at most `room` pieces, each beginning
    `stride` pieces after the one before; one, which may be empty, where all pieces fit."""
    starts = [0]
    while starts[-1] + room < count:
        starts.append(starts[-1] + min(room, stride))
    spans = [(start, min(start + room, count)) for start in starts]
    borders = [0, *(_border(*one, *next) for one, next in zip(spans, spans[1:])), count]
    return tuple(Window(*span, *widest) for span, widest in zip(spans, zip(borders, borders[1:])))


def _border(start, end, next_start, next_end):
    """The first piece that has more context in the next window than in this one.

    A piece's context is the pieces on its shorter side, and a hundredth of the window's length. The
    difference between two windows never rises from left to right.
    """
    both = np.arange(next_start, end)
    gain = _context(both, next_start, next_end) - _context(both, start, end)
    return next_start + int(np.argmax(gain > 0)) if (gain > 0).any() else end


def _context(place, start, end):
    return np.minimum(place - start, end - 1 - place) + 0.01 * (end - start)


# ---- arrays

def encode(questions: Sequence[Question], tokenizer: Tokenizer, length: int, *, stride: int,
           max_query_length: int, segments: int = 1) -> tuple:
    """Returns (dict of arrays [m, ...] by feature, int [n]: the windows of each question).

    Ids, segment ids and masks are [m,S*T], the window at the end; all else is of the window.

    Args:
      length: T. stride: pieces from one window to the next. max_query_length: pieces of a question
        that are kept. segments: S.
    """
    contexts = list(dict.fromkeys(question.context for question in questions))
    paragraphs = dict(zip(contexts, _aligner(tokenizer).encode(contexts)))
    queries = tokenizer.encode_lines([question.question for question in questions])
    laid_out = []
    for question, query in zip(questions, queries):
        query = query[:max_query_length]
        paragraph = paragraphs[question.context]
        laid_out.append([(paragraph, query, window, question) for window in windows_of(
            len(paragraph.ids), length - len(query) - QUESTION_SPECIAL_TOKENS, stride)])
    arrays = _empty_arrays(sum(map(len, laid_out)), length, segments)
    for row, (paragraph, query, window, question) in enumerate(
            each for windows in laid_out for each in windows):
        _fill(arrays, row, paragraph, query, window, tokenizer, length)
        _fill_before(arrays, row, paragraph, query, window, tokenizer, length)
        _mark_answer(arrays, row, paragraph, window, question)
    return arrays, np.array(list(map(len, laid_out)))


_aligner = functools.lru_cache(maxsize=1)(Aligner)


def _empty_arrays(count, length, segments):
    arrays = {feature.name: np.zeros((count, *feature.shape),
                                     np.int32 if feature.dtype == "int" else np.float32)
              for feature in window_features(length)}
    total = segments * length
    return dict(arrays, input_ids=np.zeros((count, total), np.int32),
                input_mask=np.ones((count, total), np.float32),
                segment_ids=np.full((count, total), SEG_PAD, np.int32),
                is_real_example=np.ones(count, np.int32))


def _fill(arrays, row, paragraph: Aligned, query, window: Window, tokenizer, length):
    """Lays out one window."""
    size = window.end - window.start
    begin = arrays["input_ids"].shape[1] - length
    _lay_out(arrays, row, begin, paragraph.ids[window.start:window.end], query, tokenizer)
    arrays["cls_index"][row], arrays["paragraph_len"][row] = size + len(query) + 2, size
    arrays["widest_start"][row] = window.widest_start - window.start
    arrays["widest_end"][row] = window.widest_end - window.start
    arrays["char_start"][row, :size] = paragraph.starts[window.start:window.end]
    arrays["char_end"][row, :size] = paragraph.ends[window.start:window.end]


def _fill_before(arrays, row, paragraph, query, window, tokenizer, length):
    """Lays out the segments before a window, as far as there is text: the last one ends where the
    window begins."""
    room, end = length - len(query) - QUESTION_SPECIAL_TOKENS, window.start
    begin = arrays["input_ids"].shape[1] - length
    while begin > 0 and end > 0:
        size = min(room, end)
        _lay_out(arrays, row, begin - size - length + room, paragraph.ids[end - size:end], query,
                 tokenizer)
        begin, end = begin - length, end - size


def _lay_out(arrays, row, begin, pieces, query, tokenizer):
    """Writes `pieces <sep> question <sep> <cls>` into a row, from the token `begin` on."""
    size = len(pieces)
    cls = size + len(query) + 2
    ids, segments, padding = (arrays[name][row, begin:begin + cls + 1] for name in
                              ("input_ids", "segment_ids", "input_mask"))
    ids[:size] = pieces
    ids[size] = ids[cls - 1] = tokenizer.sep_id
    ids[size + 1:cls - 1] = query
    ids[cls] = tokenizer.cls_id
    segments[:size + 1] = SEG_PARAGRAPH
    segments[size + 1:cls] = SEG_QUESTION
    segments[cls] = SEG_CLS
    padding[:] = 0


def _mark_answer(arrays, row, paragraph, window, question):
    """Where the answer is in a window: at <cls> where the window does not hold the whole of it."""
    first, last = piece_span(paragraph, question.start, question.end) \
        if question.start >= 0 else (0, -1)
    if window.start <= first <= last < window.end:
        positions = first - window.start, last - window.start
    else:
        positions = (int(arrays["cls_index"][row]),) * 2
        arrays["is_impossible"][row] = 1
    arrays["start_positions"][row], arrays["end_positions"][row] = positions
