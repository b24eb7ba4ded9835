"""Files of questions: SQuAD's JSON, or tables with a question in each row.

A gold answer is a text and its start in the context. If the context does not have it there, the
occurrence nearest to that start counts.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from xlnet.tasks.files import decoding, forms, readers
from xlnet.tasks.task import Task

# start: of the text in its context, in characters; None: not given.
GoldAnswer = collections.namedtuple("GoldAnswer", "text start")


# ---- SQuAD's JSON


def read_json(task: Task, path: str, lines: decoding.Lines) -> forms.Table:
    """The questions of SQuAD's articles, or the rows of a JSON list."""

    def rows() -> Iterator[tuple[str, forms.Cells]]:
        for place, value in forms.json_items(path, lines):
            if not isinstance(value, dict) or "paragraphs" not in value:
                yield place, forms.plain_object(value)
                continue
            try:
                yield from _of_article(task, place, value)
            except (KeyError, TypeError, AttributeError) as e:
                yield place, f"not an article as in SQuAD ({type(e).__name__}: {e})"

    return forms.Table(None, rows())


def _of_article(
    task: Task, place: str, article: dict[str, Any]
) -> Iterator[tuple[str, forms.Cells]]:
    """Yields (place, cells by the task's columns) of every question of an article:
    {"paragraphs": [{"context": ..., "qas": [{"id", "question", "answers", "is_impossible"}]}]}."""
    columns = task.columns
    for p, paragraph in enumerate(article["paragraphs"], 1):
        for q, question in enumerate(paragraph["qas"], 1):
            is_impossible, answers = (
                question.get("is_impossible"),
                question.get("answers"),
            )
            if is_impossible:  # answers, if there are any, are only plausible ones
                answers = []
            elif answers == [] and is_impossible is False:  # withheld, as in test sets
                answers = None
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
        number = readers.to_number(
            readers.to_text(start)
        )  # pandas writes 9.0 where rows have gaps
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
    is_given = start is not None and start >= 0
    if not is_given or not context.startswith(text, start):
        starts = [
            match.start() for match in re.finditer(f"(?={re.escape(text)})", context)
        ]
        if not starts or (len(starts) > 1 and not is_given):
            return -1, -1
        start = (
            min(starts, key=lambda found: abs(found - start)) if is_given else starts[0]
        )
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())
