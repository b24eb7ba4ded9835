"""Questions on paragraphs as arrays: overlapping windows of a paragraph, each with the question.

With the pieces p and q of a paragraph and a question, a window is

    input_ids     p3  p4  p5  <sep>  q0  q1  <sep>  <cls>  0  0
    segment_ids    0   0   0      0   1   1      1      2  3  3
    input_mask     0   0   0      0   0   0      0      0  1  1

Shape letters: n questions, m windows, T tokens of a window, P pieces of a paragraph.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlnet.corpus.feature_spec import Feature
from xlnet.corpus.offsets import Aligner, piece_span
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.tasks.features import encoding

SEG_PARAGRAPH, SEG_QUESTION, SEG_CLS, SEG_PAD = 0, 1, 2, 3

# Of a token: its characters in the context.
TOKEN_FEATURES = ("char_start", "char_end")

# start, end: the answer's characters in the context; -1 where there is none.
Question = collections.namedtuple("Question", "context question start end")


def window_features(length: int) -> tuple[Feature, ...]:
    """The features of a window of T = `length` tokens, in addition to its ids."""
    return (
        Feature(
            "start_positions", (), "int"
        ),  # the answer's first token; <cls>: no answer
        Feature("end_positions", (), "int"),  # its last token
        Feature("is_impossible", (), "float"),  # 1: the answer is not in the window
        Feature("cls_index", (), "int"),
        Feature("paragraph_len", (), "int"),
        Feature(
            "widest_start", (), "int"
        ),  # tokens from here to before widest_end have
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


def windows_of(count: int, room: int, stride: int) -> list[ParagraphWindow]:
    """The windows of a paragraph of P = `count` pieces: of at most `room` pieces, each beginning
    `stride` pieces after the one before; one, perhaps empty, if all pieces fit.

    With 10 pieces, a room of 6 and a stride of 2, and * for the widest context:

        piece      0  1  2  3  4  5  6  7  8  9
        window 0   *  *  *  *  .  .
        window 1         .  .  *  *  .  .
        window 2               .  .  *  *  *  *
    """

    def context(index: np.ndarray, start: int) -> np.ndarray:
        # As in the original, the context of a piece is the number of pieces on its shorter side,
        # plus a hundredth of the length of the window.
        end = min(start + room, count)
        return np.minimum(index - start, end - 1 - index) + 0.01 * (end - start)

    found, start, border = [], 0, 0
    while start + room < count:
        # The border to the next window is the first piece that has more context there.
        end, following = start + room, start + min(room, stride)
        both = np.arange(following, end)
        is_wider = context(both, following) > context(both, start)
        next_border = following + int(np.argmax(is_wider)) if is_wider.any() else end
        found.append(ParagraphWindow(start, end, border, next_border))
        start, border = following, next_border
    found.append(ParagraphWindow(start, count, border, count))
    return found


def encode(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    aligner: Aligner,
    length: int,
    *,
    stride: int,
    max_query_length: int,
) -> tuple:
    """(dict of arrays [m, ...] by feature, with `encoding.TOKENS_READ` and `encoding.TOKENS`; int
    [n]: the windows of each question).

    Args:
      questions: n of them.
      tokenizer: of the vocabulary.
      aligner: the `Aligner` of the tokenizer.
      length: T.
      stride: pieces from one window to the next.
      max_query_length: pieces of a question that are kept.
    """
    # A paragraph is tokenized once, however many questions it has.
    contexts = list(dict.fromkeys(question.context for question in questions))
    paragraphs = dict(zip(contexts, aligner.encode(contexts)))
    queries = tokenizer.encode_lines([question.question for question in questions])
    laid_out, counts, tokens_read, tokens = [], [], [], []
    for question, query in zip(questions, queries):
        paragraph = paragraphs[question.context]
        size = len(paragraph.ids)
        tokens.append(len(query) + size)
        query = query[:max_query_length]
        tokens_read.append(len(query) + size)
        windows = windows_of(
            size, length - len(query) - QUESTION_SPECIAL_TOKENS, stride
        )
        counts.append(len(windows))
        for window in windows:
            laid_out.append((question, query, paragraph, window))

    # All arrays begin as padding; the windows are then written one after the other.
    count = len(laid_out)
    arrays = {
        "input_ids": np.zeros((count, length), np.int32),
        "input_mask": np.ones((count, length), np.float32),
        "segment_ids": np.full((count, length), SEG_PAD, np.int32),
        "is_real_example": np.ones(count, np.int32),
        encoding.TOKENS_READ: np.repeat(tokens_read, counts),
        encoding.TOKENS: np.repeat(tokens, counts),
    }
    for feature in window_features(length):
        dtype = np.int32 if feature.dtype == "int" else np.float32
        arrays[feature.name] = np.zeros((count, *feature.shape), dtype)
    for i, (question, query, paragraph, window) in enumerate(laid_out):
        size = window.end - window.start
        cls = size + len(query) + 2
        ids, segments = arrays["input_ids"][i], arrays["segment_ids"][i]
        ids[:size] = paragraph.ids[window.start : window.end]
        ids[size] = ids[cls - 1] = tokenizer.sep_id
        ids[size + 1 : cls - 1] = query
        ids[cls] = tokenizer.cls_id
        segments[: size + 1] = SEG_PARAGRAPH
        segments[size + 1 : cls] = SEG_QUESTION
        segments[cls] = SEG_CLS
        arrays["input_mask"][i, : cls + 1] = 0
        arrays["cls_index"][i] = cls
        arrays["paragraph_len"][i] = size
        arrays["widest_start"][i] = window.widest_start - window.start
        arrays["widest_end"][i] = window.widest_end - window.start
        arrays["char_start"][i, :size] = paragraph.starts[window.start : window.end]
        arrays["char_end"][i, :size] = paragraph.ends[window.start : window.end]

        # The answer's position is that of <cls> unless the window has all of the answer.
        first, last = (
            0,
            -1,
        )  # no pieces: there is no answer, or where it is is not known
        if question.start >= 0:
            first, last = piece_span(paragraph, question.start, question.end)
        is_inside = window.start <= first <= last < window.end
        arrays["start_positions"][i] = first - window.start if is_inside else cls
        arrays["end_positions"][i] = last - window.start if is_inside else cls
        arrays["is_impossible"][i] = not is_inside
    return arrays, np.array(counts)
