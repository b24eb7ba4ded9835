"""RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions."""

from __future__ import annotations

import os

from xlnet.tasks.files import readers


def _read_directory(task, path):
    folders = list(filter(os.path.isdir, (os.path.join(path, name) for name in ("middle", "high"))))
    articles = [file for folder in folders or [path]
                for file in readers.texts_in(folder, task)]
    return _table(task, ((file, readers.text_of(file, task)) for file in articles))


def _read_text(task, path, lines):
    """An article, or the common lines of text."""
    if task.tree == "race" and lines.start().startswith("{"):
        return _table(task, [(path, "\n".join(lines))])
    return readers.FORMS["text"](task, path, lines)


def _table(task, articles):
    return readers.Table(
        [task.id, *task.text_a, *task.text_b, *task.choices, *task.label],
        ((path, row) for path, text in articles for row in _questions(path, text)))


def _questions(path, text):
    """One table row for each question of an article in JSON, or an error."""
    value = readers.plain_object(readers.parsed(text))
    if isinstance(value, str):
        return [value]
    questions, options, answers = map(value.get, ("questions", "options", "answers"))
    if not isinstance(questions, list) or not isinstance(options, list) \
            or len(questions) != len(options):
        return ["expected article, questions and as many lists of options"]
    answers = answers or [None] * len(questions)
    if not isinstance(answers, list) or len(answers) != len(questions):
        return ["expected as many answers as questions, %d" % len(questions)]
    return [["%s/%d" % (value.get("id") or os.path.basename(path), i), value.get("article"), *row]
            for i, row in enumerate(zip(questions, options, answers))]


FORMS = {"text": _read_text}
TREES = {"race": _read_directory}
