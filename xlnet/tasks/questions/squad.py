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

import collections
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.feature_spec import Feature
from xlnet.corpus.offsets import Aligner, piece_span
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.tasks.features import encoding
from xlnet.tasks.files import forms
from xlnet.tasks.task import Columns, Form, Row

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


def read_json(columns: Columns, path: str, form: Form) -> forms.Records:
    """Yields (place, cells or error) of the questions of SQuAD's articles, or of the rows of a JSON
    list."""
    for place, value in forms.read(path, form, "questions"):
        if isinstance(value, str) or "paragraphs" not in value:
            yield place, forms.flattened(value)
            continue
        try:
            yield from _of_article(columns, place, value)
        except (KeyError, TypeError, AttributeError) as e:
            yield place, f"not an article as in SQuAD ({type(e).__name__}: {e})"


def _of_article(columns: Columns, place: str, article: dict) -> forms.Records:
    """Yields (place, cells by the task's columns) of every question of an article:
    {"paragraphs": [{"context": ..., "qas": [{"id", "question", "answers", "is_impossible"}]}]}."""
    for p, paragraph in enumerate(article["paragraphs"], 1):
        for q, question in enumerate(paragraph["qas"], 1):
            answers = question.get("answers")
            if question.get("is_impossible"):  # its answers are only plausible ones
                answers = []
            elif answers == [] and question.get("is_impossible") is False:
                answers = None  # withheld, as in test sets
            yield (
                f"{place}, paragraph {p}, question {q}",
                {
                    columns.text_a[0]: paragraph["context"],
                    columns.text_b[0]: question["question"],
                    columns.label[0]: answers,
                    columns.id: question["id"],
                },
            )


# ---- answers


def parse_answers(cells: list) -> tuple[GoldAnswer, ...]:
    """The answers; a ValueError says in words what is wrong.

    Args:
      cells: a text, empty if there is no answer, with its start, if that has a column; in JSON also
        a list of texts, or of SQuAD's objects with `text` and `answer_start`.
    """
    if not cells or cells[0] is None:
        raise ValueError("no answers")
    answers = cells[0]
    if not isinstance(answers, list):
        only = {"text": answers, "answer_start": cells[-1] if len(cells) > 1 else None}
        answers = [only] if forms.to_text(answers).strip() else []
    found = []
    for answer in answers:
        if not isinstance(answer, dict):
            answer = {"text": answer}
        text = forms.to_text(answer.get("text"))
        start = forms.to_text(answer.get("answer_start"))
        number = forms.to_number(start)
        if not text.strip():
            raise ValueError("found an empty answer, expected a text")
        if start and not number.is_integer():  # pandas writes 9.0 where rows have gaps
            raise ValueError(f"found {start!r} as answer_start, expected an integer")
        found.append(GoldAnswer(text, int(number) if start else None))
    return tuple(found)


def position_of(row: Row) -> tuple[int, int]:
    """The first of a question's answers as characters [start, end) of the context, without the
    spaces around it; (-1, -1): there is none, or where it is is not known."""
    if not row.label:
        return -1, -1
    text, given = row.label[0].text.strip(), row.label[0].start
    occurrences = re.finditer(f"(?={re.escape(text)})", row.pairs[0][0])
    starts = [match.start() for match in occurrences]
    if given is None or given < 0:  # CMRC has -1 where it is not known
        given = 0
        starts = starts if len(starts) == 1 else []
    if not starts:
        return -1, -1
    start = min(starts, key=lambda each: abs(each - given))
    return start, start + len(text)


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
    pairs: list[tuple] = []
    counts, tokens_read, tokens = [], [], []
    found: dict[str, list] = collections.defaultdict(list)  # by feature, of windows
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
            pairs.append((paragraph.ids[start:end].tolist(), query))
            cls = end - start + len(query) + QUESTION_SPECIAL_TOKENS - 1
            # The answer's position is that of <cls> unless the window has all of the answer.
            is_inside = start <= first <= last < end
            found["start_positions"].append(first - start if is_inside else cls)
            found["end_positions"].append(last - start if is_inside else cls)
            found["is_impossible"].append(not is_inside)
            found["cls_index"].append(cls)
            found["paragraph_len"].append(end - start)
            starts = paragraph.starts[widest_start:widest_end]
            around = (widest_start - start, length - (widest_end - start))
            found["char_start"].append(np.pad(starts, around, constant_values=-1))
            ends = paragraph.ends[start:end]
            found["char_end"].append(np.pad(ends, (0, length - (end - start))))
    arrays = encoding.lay_out(
        pairs, length, tokenizer.cls_id, tokenizer.sep_id, pads="right"
    )
    for feature in window_features(length):
        dtype = np.int32 if feature.dtype == "int" else np.float32
        arrays[feature.name] = np.array(found[feature.name], dtype)
    arrays["is_real_example"] = np.ones(len(pairs), np.int32)
    arrays[encoding.TOKENS_READ] = np.repeat(tokens_read, counts)
    arrays[encoding.TOKENS] = np.repeat(tokens, counts)
    return arrays, np.array(counts)
