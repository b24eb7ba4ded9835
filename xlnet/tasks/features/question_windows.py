"""Questions on paragraphs as arrays: overlapping windows of a paragraph, each with the question.

With the pieces p and q of a paragraph and a question, a window is

    input_ids     p3  p4  p5  <sep>  q0  q1  <sep>  <cls>  0  0
    segment_ids    0   0   0      0   1   1      1      2  3  3
    input_mask     0   0   0      0   0   0      0      0  1  1

If the network has a memory, segments of the same form precede a window with the text before it; the
first one is padded on the left.

Shape letters: n questions, m windows, T tokens of a window, S segments including the window, P
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
from xlnet.tasks.features import encoding
from xlnet.tokenization.offsets import Aligned, Aligner, piece_span
from xlnet.tokenization.tokenizer import Tokenizer

SEG_PARAGRAPH, SEG_QUESTION, SEG_CLS, SEG_PAD = 0, 1, 2, 3

# Of a token: its characters in the context.
TOKEN_FEATURES = ("char_start", "char_end")

# start, end: the answer's characters in the context; -1 where there is none.
Question = collections.namedtuple("Question", "context question start end")


def window_features(length: int) -> tuple[Feature, ...]:
    """The features of a window of T = `length` tokens, in addition to its ids."""
    return (
        Feature("start_positions", (), "int"),  # the answer's first token; <cls>: no answer
        Feature("end_positions", (), "int"),  # its last token
        Feature("is_impossible", (), "float"),  # 1: the answer is not in the window
        Feature("cls_index", (), "int"),
        Feature("paragraph_len", (), "int"),
        Feature("widest_start", (), "int"),  # tokens from here to before widest_end have
        Feature("widest_end", (), "int"),  # more context than in any other window
        # Integers, but a paragraph may have more characters than the ids of pieces allow.
        Feature("char_start", (length,), "float"),
        Feature("char_end", (length,), "float"),
    )


class ParagraphWindow(NamedTuple):
    """Pieces `start` to before `end` of a paragraph; those from `widest_start` to before
    `widest_end` have more context in this window than in any other."""

    start: int
    end: int
    widest_start: int
    widest_end: int


@functools.lru_cache(maxsize=4096)
def windows_of(count: int, room: int, stride: int) -> tuple[ParagraphWindow, ...]:
    """The windows of a paragraph of P = `count` pieces: of at most `room` pieces, each beginning
    `stride` pieces after the one before; one, perhaps empty, if all pieces fit.

    With 10 pieces, a room of 6 and a stride of 2, and * for the widest context:

        piece      0  1  2  3  4  5  6  7  8  9
        window 0   *  *  *  *  .  .
        window 1         .  .  *  *  .  .
        window 2               .  .  *  *  *  *
    """
    starts = [0]
    while starts[-1] + room < count:
        starts.append(starts[-1] + min(room, stride))
    spans = [(start, min(start + room, count)) for start in starts]

    def context(index: np.ndarray, start: int, end: int) -> np.ndarray:
        # As in the original, the context of a piece is the number of pieces on its shorter side,
        # plus a hundredth of the length of the window.
        return np.minimum(index - start, end - 1 - index) + 0.01 * (end - start)

    # The border to the next window is the first piece that has more context there.
    borders = [0]
    for (start, end), (next_start, next_end) in zip(spans, spans[1:]):
        both = np.arange(next_start, end)
        is_wider = context(both, next_start, next_end) > context(both, start, end)
        borders.append(next_start + int(np.argmax(is_wider)) if is_wider.any() else end)
    borders.append(count)
    return tuple(
        ParagraphWindow(*span, *widest) for span, widest in zip(spans, zip(borders, borders[1:]))
    )


# ---- arrays


def encode(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    length: int,
    *,
    stride: int,
    max_query_length: int,
    segments: int = 1,
) -> tuple:
    """(dict of arrays [m, ...] by feature, with `encoding.TOKENS_READ` and `encoding.TOKENS`; int
    [n]: the windows of each question).

    Ids, segment ids and masks are [m,S*T], the window at the end; all else is of the window.
    length: T; stride: pieces from one window to the next; max_query_length: pieces of a question
    that are kept; segments: S.
    """
    # A paragraph is tokenized once, however many questions it has.
    contexts = list(dict.fromkeys(question.context for question in questions))
    paragraphs = dict(zip(contexts, _aligner(tokenizer).encode(contexts)))
    laid_out, counts, tokens_read, tokens = [], [], [], []
    for question, query in zip(
        questions, tokenizer.encode_lines([question.question for question in questions])
    ):
        paragraph = paragraphs[question.context]
        tokens.append(len(query) + len(paragraph.ids))
        query = query[:max_query_length]
        tokens_read.append(len(query) + len(paragraph.ids))
        windows = windows_of(
            len(paragraph.ids), length - len(query) - QUESTION_SPECIAL_TOKENS, stride
        )
        laid_out += [(paragraph, query, window, question) for window in windows]
        counts.append(len(windows))

    # All arrays begin as padding; the windows are then written one after the other.
    count, total = len(laid_out), segments * length
    arrays = {
        feature.name: np.zeros(
            (count, *feature.shape), np.int32 if feature.dtype == "int" else np.float32
        )
        for feature in window_features(length)
    }
    arrays.update(
        input_ids=np.zeros((count, total), np.int32),
        input_mask=np.ones((count, total), np.float32),
        segment_ids=np.full((count, total), SEG_PAD, np.int32),
        is_real_example=np.ones(count, np.int32),
        **{
            encoding.TOKENS_READ: np.repeat(tokens_read, counts),
            encoding.TOKENS: np.repeat(tokens, counts),
        },
    )
    for i, (paragraph, query, window, question) in enumerate(laid_out):
        _fill(arrays, i, paragraph, query, window, tokenizer, length)
        _mark_answer(arrays, i, paragraph, window, question)
    return arrays, np.array(counts)


_aligner = functools.lru_cache(maxsize=1)(Aligner)


def _fill(
    arrays: dict[str, np.ndarray],
    i: int,
    paragraph: Aligned,
    query: Sequence[int],
    window: ParagraphWindow,
    tokenizer: Tokenizer,
    length: int,
) -> None:
    """Lays out one window and, as far as there is text, the segments before it."""
    # The window itself is the last segment; all positions of the answer are relative to its
    # beginning.
    size = window.end - window.start
    begin, end = arrays["input_ids"].shape[1] - length, window.start
    _lay_out(arrays, i, begin, paragraph.ids[end : window.end], query, tokenizer)
    arrays["cls_index"][i], arrays["paragraph_len"][i] = size + len(query) + 2, size
    arrays["widest_start"][i] = window.widest_start - window.start
    arrays["widest_end"][i] = window.widest_end - window.start
    arrays["char_start"][i, :size] = paragraph.starts[window.start : window.end]
    arrays["char_end"][i, :size] = paragraph.ends[window.start : window.end]
    # Fill the segments before it from right to left, until the beginning of the paragraph.
    room = length - len(query) - QUESTION_SPECIAL_TOKENS
    while begin > 0 and end > 0:
        size = min(room, end)
        _lay_out(
            arrays,
            i,
            begin - size - length + room,
            paragraph.ids[end - size : end],
            query,
            tokenizer,
        )
        begin, end = begin - length, end - size


def _lay_out(
    arrays: dict[str, np.ndarray],
    i: int,
    begin: int,
    pieces: np.ndarray,
    query: Sequence[int],
    tokenizer: Tokenizer,
) -> None:
    """Writes `pieces <sep> question <sep> <cls>` into example i, from the token `begin` on."""
    size = len(pieces)
    cls = size + len(query) + 2
    ids, segments, padding = (
        arrays[name][i, begin : begin + cls + 1]
        for name in ("input_ids", "segment_ids", "input_mask")
    )
    ids[:size] = pieces
    ids[size] = ids[cls - 1] = tokenizer.sep_id
    ids[size + 1 : cls - 1] = query
    ids[cls] = tokenizer.cls_id
    segments[: size + 1] = SEG_PARAGRAPH
    segments[size + 1 : cls] = SEG_QUESTION
    segments[cls] = SEG_CLS
    padding[:] = 0


def _mark_answer(
    arrays: dict[str, np.ndarray],
    i: int,
    paragraph: Aligned,
    window: ParagraphWindow,
    question: Question,
) -> None:
    """Writes the position of the answer in a window: that of <cls> unless the window has the
    complete answer."""
    first, last = 0, -1  # no pieces: there is no answer, or its position is not known
    if question.start >= 0:
        first, last = piece_span(paragraph, question.start, question.end)
    if window.start <= first <= last < window.end:
        positions = first - window.start, last - window.start
    else:
        positions = (int(arrays["cls_index"][i]),) * 2
        arrays["is_impossible"][i] = 1
    arrays["start_positions"][i], arrays["end_positions"][i] = positions
