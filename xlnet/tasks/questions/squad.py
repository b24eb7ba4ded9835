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

from xlnet.corpus.feature_spec import Feature, finetuning_features
from xlnet.corpus.offsets import Aligner, piece_span
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.tasks.features import encoding
from xlnet.tasks.files import forms, readers
from xlnet.tasks.task import Form, Row, Task

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


def read_json(task: Task, path: str, form: Form) -> Iterator[tuple[str, Any]]:
    """Yields (place, cells or error) of the questions of SQuAD's articles, or of the rows of a JSON
    list."""
    for place, value in forms.read(path, form, "questions"):
        if isinstance(value, str) or "paragraphs" not in value:
            yield place, forms.flattened(value)
            continue
        try:
            yield from _of_article(task, place, value)
        except (KeyError, TypeError, AttributeError) as e:
            yield place, f"not an article as in SQuAD ({type(e).__name__}: {e})"


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
            cells: dict[Any, Any] = dict(zip(columns.label, (answers, None)))
            cells[columns.text_a[0]] = paragraph["context"]
            cells[columns.text_b[0]] = question["question"]
            cells[columns.id] = question["id"]
            yield f"{place}, paragraph {p}, question {q}", cells


# ---- answers


def parse_answers(cells: list) -> tuple[GoldAnswer, ...]:
    """The answers; a ValueError says in words what is wrong.

    Args:
      cells: a text, empty if there is no answer, with its start, if that has a column; in JSON also
        a list of texts, or of SQuAD's objects with `text` and `answer_start`.
    """
    if not cells or cells[0] is None:
        raise ValueError("no answers")
    answers: Any = cells[0]
    start: Any = None
    if not isinstance(answers, list):
        start = cells[1] if len(cells) > 1 else None
        only = readers.to_text(answers)
        answers = [only] if only.strip() else []
    found = []
    for answer in answers:
        text = answer
        if isinstance(answer, dict):
            text, start = answer.get("text"), answer.get("answer_start")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"found {text!r} as an answer, expected a text")
        number = readers.to_number(readers.to_text(start))
        is_place = number.is_integer()  # pandas writes 9.0 where rows have gaps
        if start not in (None, "") and not is_place:
            raise ValueError(f"found {start!r} as answer_start, expected an integer")
        found.append(GoldAnswer(text, int(number) if is_place else None))
    return tuple(found)


def question_of(row: Row) -> Question:
    """The question of a row, and where the first of its answers is, without the spaces around
    it."""
    context, question = row.pairs[0]
    start, end = position_of(row)
    return Question(context, question, start, end)


def position_of(row: Row) -> tuple[int, int]:
    """The first of a question's answers as characters [start, end) of the context, without the
    spaces around it; (-1, -1): there is none, or where it is is not known."""
    if not row.label:
        return -1, -1
    context = row.pairs[0][0]
    text, given = row.label[0]
    occurrences = re.finditer(f"(?={re.escape(text)})", context)
    starts = [match.start() for match in occurrences]
    is_given = given is not None and given >= 0  # CMRC has -1 where it is not known
    if not starts or (len(starts) > 1 and not is_given):
        return -1, -1
    start = min(starts, key=lambda each: abs(each - (given or 0)))
    blanks = len(text) - len(text.lstrip())
    end = start + len(text.rstrip())
    return start + blanks, end


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
        # Integers, but a paragraph may have more characters than the ids of pieces allow.
        # char_start is -1 where no answer of this window begins: another one has more context
        # there, or there is no paragraph.
        Feature("char_start", (length,), "float"),
        Feature("char_end", (length,), "float"),
    )


def encode(
    questions: Sequence[Question], tokenizer: Tokenizer, length: int, options: Any
) -> tuple:
    """(dict of arrays [m, ...] by feature, with `encoding.TOKENS_READ` and `encoding.TOKENS`; int
    [n]: the windows of each question).

    Args:
      questions: n of them.
      tokenizer: of the vocabulary.
      length: T.
      options: `SpanOptions`, of which the pieces from one window to the next, and the pieces of a
        question that are kept.
    """
    # A paragraph is tokenized once, however many questions it has.
    contexts = list(dict.fromkeys(question.context for question in questions))
    paragraphs = dict(zip(contexts, Aligner(tokenizer).encode(contexts)))
    queries = tokenizer.encode_lines([question.question for question in questions])
    sep_id, cls_id = tokenizer.sep_id, tokenizer.cls_id
    rows, counts, tokens_read, tokens = [], [], [], []
    for question, query in zip(questions, queries):
        paragraph = paragraphs[question.context]
        pieces = len(paragraph.ids)
        tokens.append(len(query) + pieces)
        query = query[: options.max_query_length]
        tokens_read.append(len(query) + pieces)
        first, last = 0, -1  # there is no answer, or where it is is not known
        if question.start >= 0:
            first, last = piece_span(paragraph, question.start, question.end)
        room = length - len(query) - QUESTION_SPECIAL_TOKENS
        windows = encoding.windows_of(pieces, room, options.doc_stride)
        counts.append(len(windows))
        for start, end, widest_start, widest_end in windows:
            size = end - start
            ids = [*paragraph.ids[start:end], sep_id, *query, sep_id, cls_id]
            cls, padding = len(ids) - 1, length - len(ids)
            segments = (SEG_PARAGRAPH, SEG_QUESTION, SEG_CLS, SEG_PAD)
            lengths = (size + 1, len(query) + 1, 1, padding)
            starts = paragraph.starts[widest_start:widest_end]
            around = (widest_start - start, length - (widest_end - start))
            # The answer's position is that of <cls> unless the window has all of the answer.
            is_inside = start <= first <= last < end
            row = {
                "input_ids": np.pad(ids, (0, padding)),
                "input_mask": np.arange(length) > cls,
                "segment_ids": np.repeat(segments, lengths),
                "is_real_example": 1,
                "start_positions": first - start if is_inside else cls,
                "end_positions": last - start if is_inside else cls,
                "is_impossible": not is_inside,
                "cls_index": cls,
                "paragraph_len": size,
                "char_start": np.pad(starts, around, constant_values=-1),
                "char_end": np.pad(paragraph.ends[start:end], (0, length - size)),
            }
            rows.append(row)
    arrays = {}
    for feature in finetuning_features(length, window_features(length)):
        dtype = np.int32 if feature.dtype == "int" else np.float32
        arrays[feature.name] = np.array([row[feature.name] for row in rows], dtype)
    arrays[encoding.TOKENS_READ] = np.repeat(tokens_read, counts)
    arrays[encoding.TOKENS] = np.repeat(tokens, counts)
    return arrays, np.array(counts)
