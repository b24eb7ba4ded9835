"""Questions from files to records: SQuAD's JSON, or tables with a question in each row; gold
answers; overlapping windows of a paragraph, each with the question.

A gold answer is a text and its start in the context. If the context does not have it there, the
occurrence nearest to that start counts. With the pieces p and q of a paragraph and a question, a
window is

    input_ids     p3  p4  p5  <sep>  q0  q1  <sep>  <cls>  0  0
    segment_ids    0   0   0      0   1   1      1      2  3  3
    input_mask     0   0   0      0   0   0      0      0  1  1

Shape letters: n questions, m windows, T tokens of a window, P pieces of a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.feature_spec import Feature
from xlnet.corpus.offsets import Aligner, piece_span
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.tasks.features import encoding
from xlnet.tasks.files import forms, readers
from xlnet.tasks.task import Form, Task

SEG_PARAGRAPH, SEG_QUESTION, SEG_CLS, SEG_PAD = 0, 1, 2, 3

# Of a token: its characters in the context.
TOKEN_FEATURES = ("char_start", "char_end")


class GoldAnswer(NamedTuple):
    """A text, and its first character in the context; None: not given."""

    text: str
    start: Optional[int]


class Question(NamedTuple):
    """A question, and the characters of its answer in the context; -1 where there is none."""

    context: str
    question: str
    start: int
    end: int


# ---- SQuAD's JSON


def read_json(task: Task, path: str, form: Form) -> forms.Table:
    """The questions of SQuAD's articles, or the rows of a JSON list."""

    def rows() -> Iterator[tuple[str, Any]]:
        for place, value in forms.objects(path, form, "questions"):
            if not isinstance(value, dict) or "paragraphs" not in value:
                yield place, forms.flattened(value)
                continue
            try:
                yield from _of_article(task, place, value)
            except (KeyError, TypeError, AttributeError) as e:
                yield place, f"not an article as in SQuAD ({type(e).__name__}: {e})"

    return forms.Table(None, rows())


def _of_article(
    task: Task, place: str, article: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yields (place, cells by the task's columns) of every question of an article:
    {"paragraphs": [{"context": ..., "qas": [{"id", "question", "answers", "is_impossible"}]}]}."""
    columns = task.columns
    for p, paragraph in enumerate(article["paragraphs"], 1):
        for q, question in enumerate(paragraph["qas"], 1):
            answers = question.get("answers")
            if question.get("is_impossible"):  # its answers are only plausible ones
                answers = []
            elif answers == [] and question.get("is_impossible") is False:
                answers = None  # withheld, as in test sets
            cells: dict[str, Any] = dict.fromkeys(columns.label)
            cells[columns.text_a[0]] = paragraph["context"]
            cells[columns.text_b[0]] = question["question"]
            if columns.id:
                cells[columns.id] = question["id"]
            if columns.label:
                cells[columns.label[0]] = answers
            yield f"{place}, paragraph {p}, question {q}", cells


# ---- answers


def parse_answers(cells: list) -> tuple:
    """(tuple of `GoldAnswer`, None) or (None, error).

    Args:
      cells: a text, empty if there is no answer, with its start, if that has a column; in JSON also
        a list of texts, or of SQuAD's objects with `text` and `answer_start`.
    """
    if not cells or cells[0] is None:
        return None, "no answers"
    if isinstance(cells[0], list):
        answers, start_cell = cells[0], None
    else:
        answers = [cells[0]] if readers.to_text(cells[0]).strip() else []
        start_cell = cells[1] if len(cells) > 1 else None
    found = []
    for answer in answers:
        text, start = answer, start_cell
        if isinstance(answer, dict):
            text, start = answer.get("text"), answer.get("answer_start")
        if not isinstance(text, str) or not text.strip():
            return None, f"found {text!r} as an answer, expected a text"
        if start in (None, ""):
            found.append(GoldAnswer(text, None))
            continue
        # Pandas writes 9.0 where rows have gaps.
        number = readers.to_number(readers.to_text(start))
        if not number.is_integer():
            return None, f"found {start!r} as answer_start, expected an integer"
        found.append(GoldAnswer(text, int(number)))
    return tuple(found), None


def position_of(
    context: str, answers: Optional[Sequence[GoldAnswer]]
) -> tuple[int, int]:
    """The first of a question's answers as characters [start, end) of the context, without the
    spaces around it; (-1, -1): there is none, or where it is is not known."""
    if not answers:
        return -1, -1
    text, start = answers[0]
    if start is not None and start < 0:
        start = None
    if start is None or not context.startswith(text, start):
        starts = []
        for match in re.finditer(f"(?={re.escape(text)})", context):
            starts.append(match.start())
        if not starts or (len(starts) > 1 and start is None):
            return -1, -1
        distances = np.abs(np.array(starts) - (start or 0))
        start = starts[int(np.argmin(distances))]
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())


# ---- windows


def window_features(length: int) -> tuple[Feature, ...]:
    """The features of a window of T = `length` tokens, in addition to its ids."""
    return (
        # The answer's first and last token; <cls>: no answer.
        Feature("start_positions", (), "int"),
        Feature("end_positions", (), "int"),
        Feature("is_impossible", (), "float"),  # 1: the answer is not in the window
        Feature("cls_index", (), "int"),
        Feature("paragraph_len", (), "int"),
        # Tokens from widest_start to before widest_end have more context than in any other window.
        Feature("widest_start", (), "int"),
        Feature("widest_end", (), "int"),
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
      length: T.
      stride: pieces from one window to the next.
      max_query_length: pieces of a question that are kept.
    """
    # A paragraph is tokenized once, however many questions it has.
    contexts = list(dict.fromkeys(question.context for question in questions))
    paragraphs = dict(zip(contexts, Aligner(tokenizer).encode(contexts)))
    queries = tokenizer.encode_lines([question.question for question in questions])
    laid_out, counts, tokens_read, tokens = [], [], [], []
    for question, query in zip(questions, queries):
        paragraph = paragraphs[question.context]
        size = len(paragraph.ids)
        tokens.append(len(query) + size)
        query = query[:max_query_length]
        tokens_read.append(len(query) + size)
        room = length - len(query) - QUESTION_SPECIAL_TOKENS
        windows = windows_of(size, room, stride)
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
