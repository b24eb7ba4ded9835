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
    if form == "folders" and os.path.isdir(path):
        return Table(None, _in_folders(task, path))
    if form == "race" and os.path.isdir(path):
        return Table(None, _in_race(task, path))
    if declared_form(task, path).name == "race":
        return Table(None, _questions(task, path))
    return None


def _in_folders(task: Task, path: str) -> Iterator[tuple[str, Any]]:
    """A text in each file, in folders named after the labels: LABEL/NAME.txt."""
    columns = task.columns
    for label in task.class_names:
        for file in _texts_in(os.path.join(path, label), task):
            name = os.path.basename(file).removesuffix(".txt")
            texts = {columns.id: f"{label}/{name}", columns.text_a[0]: _text_of(file)}
            yield file, {**texts, columns.label[0]: label}


def _in_race(task: Task, path: str) -> Iterator[tuple[str, Any]]:
    """RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions, of
    one level or of both."""
    levels = [os.path.join(path, name) for name in ("middle", "high")]
    for folder in list(filter(os.path.isdir, levels)) or [path]:
        for file in _texts_in(folder, task):
            yield from _questions(task, file)


def _questions(task: Task, path: str) -> Iterator[tuple[str, Any]]:
    """(path, cells) of each question of an article in JSON, or (path, error)."""
    columns, value = task.columns, parsed(_text_of(path))
    if isinstance(value, ValueError):
        yield path, str(value)
        return
    try:
        article, questions = value["article"], value["questions"]
        # A file to predict may have no answers.
        answers = value.get("answers") or [None] * len(questions)
        options = value["options"]
        is_whole = len(questions) == len(options) == len(answers)
    except (KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        expected = "article, questions, and as many lists of options and answers"
        yield path, f"expected {expected}"
        return
    name = value.get("id") or os.path.basename(path)
    texts = (columns.text_a[0], columns.text_b[0], columns.choices[0])
    for number, (question, choices, answer) in enumerate(
        zip(questions, options, answers)
    ):
        cells = dict(zip(texts, (article, question, choices)))
        yield path, {**cells, columns.id: f"{name}/{number}", columns.label[0]: answer}


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


def renamed(task: Task, table: Table) -> Table:
    """A table whose columns have the names that the task gives them."""
    aliases = task.published.column_aliases
    if not aliases:
        return table

    def rows() -> Iterator[tuple[str, Any]]:
        for place, cells in table.rows:
            if isinstance(cells, dict):
                cells = {aliases.get(name, name): cells[name] for name in cells}
            yield place, cells

    columns = table.columns
    if columns is not None:
        columns = [aliases.get(name, name) for name in columns]
    return Table(columns, rows())


def why_left_out(task: Task, cells: Mapping[str, Any], row: Optional[Row]) -> str:
    """Why a row of a published set is not one of its task; "": it is."""
    for name, value in task.published.rows_where.items():
        if name in cells and to_text(cells[name]).strip() != value:
            return f"rows whose {name} is not {value}"
    if row and row.label in task.published.skipped_labels:
        return f"rows with label '{row.label}'"
    return ""
