"""Questions from files: SQuAD's JSON, or tables with a question in each row; gold answers, and
where they are.

A gold answer is a text and its start in the context. If the context does not have it there, the
occurrence nearest to that start counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from xlnet.tasks.files import forms
from xlnet.tasks.task import Columns, Form, Row


class GoldAnswer(NamedTuple):
    """A text, and its first character in the context; None: not given."""

    text: str
    start: int | None


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
            cells = {
                columns.text_a[0]: paragraph["context"],
                columns.text_b[0]: question["question"],
                columns.label[0]: answers,
                columns.id: question["id"],
            }
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
