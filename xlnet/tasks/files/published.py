"""What only the files of published sets have: IMDB's folders, RACE's articles, rows that are not of
the task."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from xlnet.support.errors import UserError
from xlnet.tasks.files.forms import Table, lines, parsed
from xlnet.tasks.files.readers import declared_form, to_text
from xlnet.tasks.task import Row, Task


def read(task: Task, path: str) -> Optional[Table]:
    """The records of a directory of a published set, or of an article; None: `path` is a table."""
    form = task.files.directory_form
    named = task.columns
    texts = [*named.text_a, *named.text_b, *named.choices]
    if form == "folders" and os.path.isdir(path):
        columns = [named.id or "", *named.label, *texts]
        rows = _in_folders(task, path)
    elif form == "race" and os.path.isdir(path):
        columns = [named.id or "", *texts, *named.label]
        rows = _in_race(task, path)
    elif declared_form(task, path).name == "race":
        columns = [named.id or "", *texts, *named.label]
        rows = _race_questions(path, "\n".join(lines(path, f"task {task.name}")))
    else:
        return None
    return Table(columns, _by_names(columns, rows))


def _by_names(
    columns: list[str], rows: Iterator[tuple[str, Any]]
) -> Iterator[tuple[str, Any]]:
    for place, cells in rows:
        yield place, cells if isinstance(cells, str) else dict(zip(columns, cells))


def _in_folders(task: Task, path: str) -> Iterator[tuple[str, Any]]:
    """A text in each file, in folders named after the labels: LABEL/NAME.txt."""
    for label in task.class_names:
        for file in _texts_in(os.path.join(path, label), task):
            name = os.path.basename(file)[: -len(".txt")]
            yield file, [f"{label}/{name}", label, _text_of(file)]


def _in_race(task: Task, path: str) -> Iterator[tuple[str, Any]]:
    """RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions, of
    one level or of both."""
    levels = [os.path.join(path, name) for name in ("middle", "high")]
    for folder in list(filter(os.path.isdir, levels)) or [path]:
        for file in _texts_in(folder, task):
            yield from _race_questions(file, _text_of(file))


def _race_questions(path: str, text: str) -> Iterator[tuple[str, Any]]:
    """(path, cells) of each question of an article in JSON, or (path, error)."""
    value = parsed(text)
    if isinstance(value, ValueError):
        yield path, str(value)
        return
    if not isinstance(value, dict):
        yield (
            path,
            f"expected a JSON object of an article, found {type(value).__name__}",
        )
        return
    questions = value.get("questions")
    count = len(questions) if isinstance(questions, list) else -1
    answers = value.get("answers") or [None] * count  # a file to predict may have none
    lists = [questions, value.get("options"), answers]
    if not all(isinstance(each, list) and len(each) == count for each in lists):
        yield (
            path,
            "expected article, questions, and as many lists of options and answers",
        )
        return
    name = value.get("id") or os.path.basename(path)
    for number, question in enumerate(zip(*lists)):
        yield path, [f"{name}/{number}", value.get("article"), *question]


def _texts_in(directory: str, task: Task) -> list[str]:
    """The paths of the texts in a directory, sorted by the numbers in names: 9_1.txt, 10_1.txt."""
    if not os.path.isdir(directory):
        raise UserError(f"task {task.name}: no such directory: {directory}")

    def numbers(name: str) -> list[Any]:
        parts = re.split("([0-9]+)", name)
        return [int(part) if i % 2 else part for i, part in enumerate(parts)]

    names = [name for name in os.listdir(directory) if name.endswith(".txt")]
    return [os.path.join(directory, name) for name in sorted(names, key=numbers)]


def _text_of(path: str) -> str:
    """The text of a file, without the line breaks at its end."""
    return "\n".join(lines(path, "text")).rstrip("\n")


def why_left_out(task: Task, cells: Mapping[str, Any], row: Optional[Row]) -> str:
    """Why a row of a published set is not one of its task; "": it is."""
    for name, value in task.published.rows_where.items():
        if name in cells and to_text(cells[name]).strip() != value:
            return f"rows whose {name} is not {value}"
    if row and row.label in task.published.skipped_labels:
        return f"rows with label '{row.label}'"
    return ""
