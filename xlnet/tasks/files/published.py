"""What only the files of published sets have: IMDB's folders, RACE's articles, rows that are not of
the task. The names of columns are those of `known.json`."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from typing import Any

from xlnet.support.errors import UserError
from xlnet.tasks.files.forms import Records, lines, parsed, to_text
from xlnet.tasks.task import TaskFields


def read(task: TaskFields, path: str) -> Records | None:
    """The records of a directory of a published set; None: `path` is a file."""
    if not os.path.isdir(path):
        return None
    if task.files.directory_form == "folders":
        return _in_folders(path, task.class_names)
    if task.files.directory_form == "race":
        return _in_race(path)
    return None


def _in_folders(path: str, labels: tuple[str, ...]) -> Records:
    """A text in each file, in folders named after the labels: LABEL/NAME.txt."""
    for label in labels:
        for file in _texts_in(os.path.join(path, label)):
            name = os.path.basename(file).removesuffix(".txt")
            cells = {"id": f"{label}/{name}", "text": _text_of(file), "label": label}
            yield file, cells


def _in_race(path: str) -> Records:
    """RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions, of
    one level or of both."""
    levels = [os.path.join(path, name) for name in ("middle", "high")]
    for folder in list(filter(os.path.isdir, levels)) or [path]:
        for file in _texts_in(folder):
            yield from _questions(file)


def _questions(path: str) -> Records:
    """(path, cells) of each question of an article in JSON, or (path, error)."""
    value = parsed(_text_of(path))
    if isinstance(value, ValueError):
        yield path, str(value)
        return
    try:
        article, questions = value["article"], value["questions"]
        options = value["options"]
        # Articles to predict may have no answers.
        answers = value.get("answers") or [None] * len(questions)
        is_whole = len(questions) == len(options) == len(answers)
    except (KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        yield path, "expected article, questions, and as many options and answers"
        return
    name = value.get("id") or os.path.basename(path)
    for number, question in enumerate(questions):
        cells = {"article": article, "question": question, "options": options[number]}
        yield path, {**cells, "id": f"{name}/{number}", "answer": answers[number]}


def _texts_in(directory: str) -> list[str]:
    """The paths of the texts in a directory, sorted by the numbers in names: 9_1.txt, 10_1.txt."""
    if not os.path.isdir(directory):
        raise UserError(f"data_dir: no such directory: {directory}")

    def padded(path: str) -> str:
        return re.sub("[0-9]+", lambda number: number[0].zfill(20), path)

    pattern = os.path.join(glob.escape(directory), "*.txt")
    return sorted(glob.glob(pattern), key=padded)


def _text_of(path: str) -> str:
    """The text of a file, without the line breaks at its end."""
    return "".join(lines(path, "text")).rstrip("\r\n")


def why_left_out(task: TaskFields, cells: Mapping[str, Any]) -> str:
    """Why a row of a published set is not one of its task; "": it is."""
    for name, value in task.published.rows_where.items():
        if name in cells and to_text(cells[name]).strip() != value:
            return f"rows whose {name} is not {value}"
    for name in task.columns.label:
        label = str(cells.get(name)).strip()
        if label in task.published.skipped_labels:
            return f"rows with label '{label}'"
    return ""
