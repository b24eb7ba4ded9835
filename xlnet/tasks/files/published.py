"""Directories of published sets that are no tables: IMDB's folders, RACE's articles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from xlnet.support.errors import UserError
from xlnet.tasks.files.decoding import Lines
from xlnet.tasks.files.forms import Table, parsed
from xlnet.tasks.task import Task


def read_folders(task: Task, path: str) -> Table:
    """A text in each file, in folders named after the labels: LABEL/NAME.txt."""

    def rows() -> Iterator[tuple[str, Any]]:
        for label in task.class_names:
            for file in _texts_in(os.path.join(path, label), task):
                name = os.path.basename(file)[: -len(".txt")]
                yield file, [f"{label}/{name}", label, _text_of(file)]

    return Table(
        [task.columns.id or "", *task.columns.label, *task.columns.text_a], rows()
    )


def read_race(task: Task, path: str) -> Table:
    """RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions, of
    one level or of both."""
    levels = [os.path.join(path, name) for name in ("middle", "high")]

    def rows() -> Iterator[tuple[str, Any]]:
        for folder in list(filter(os.path.isdir, levels)) or [path]:
            for file in _texts_in(folder, task):
                yield from _race_questions(file, _text_of(file))

    return _race_table(task, rows())


def read_race_article(task: Task, path: str, lines: Lines) -> Table:
    """One article of RACE."""
    return _race_table(task, _race_questions(path, lines.text()))


def _race_table(task: Task, rows: Iterator[tuple[str, Any]]) -> Table:
    columns = task.columns
    texts = (*columns.text_a, *columns.text_b, *columns.choices, *columns.label)
    return Table([columns.id or "", *texts], rows)


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
    return "\n".join(Lines(path, lambda: open(path, "rb"))).rstrip("\n")
