"""Prediction files: for people and programs, and for the servers of GLUE and CLUE.

What stands in them says the task's kind; here they are named and written, whole or not at all.
"""

from __future__ import annotations

import collections
import csv
import io
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from xlnet import files
from xlnet.tasks.types.task import Row, Task

_log = logging.getLogger(__name__)

# extension: of the file's name. what: the words before its path, None for the main file. lines: of
# its text, each with its end, made one by one.
PredictionFile = collections.namedtuple("PredictionFile", "extension what lines")


def write(directory: str, task: Task, split: str, rows: Sequence[Row], values: Any, *,
          step: int, threshold: float, is_official: bool, output: Optional[str] = None) -> None:
    """Writes the answers to the rows of a split in every form that its kind has.

    Args:
      rows: n, those without texts, which were skipped, among them. values: as in `kind.Answers`, of
        the others. step: of the checkpoint. threshold: as in `Kind.decide`.
      is_official: whether the rows are those of the split's official file, which may be submitted.
      output: path of the main file, which then is the only one; "-": the standard output. A table
        whose name ends in .csv has commas between its columns.
    """
    if output:
        main = task.kind.prediction_files(task, rows, values, threshold)[0]
        files.write_lines(output, _as_csv(main.lines) if main.extension == "tsv"
                          and output.endswith(".csv") else main.lines)
        _say_predicted(task, split, step, rows, output)
        return
    stem = os.path.join(directory, "predictions_%s_%s" % (task.name, split))
    for extension, what, lines in task.kind.prediction_files(task, rows, values, threshold):
        path = "%s.%s" % (stem, extension)
        files.write_lines(path, lines)
        if what:
            _log.info("%s: %s", what, path)
        else:
            _say_predicted(task, split, step, rows, path)
    if is_official and split in task.submissions:
        path = os.path.join(directory, task.submissions[split])
        files.write_lines(path, task.kind.submission(task, rows, values, threshold))
        _log.info("for the %s server: %s", "CLUE" if task.submission_form == "json" else "GLUE",
                  path)


def _say_predicted(task, split, step, rows, path):
    _log.info("predicted %s %s  step %d  (%d rows): %s", task.name, split, step, len(rows), path)


def tsv(columns: Sequence[tuple], rows: Sequence[Row]) -> Iterator[str]:
    """Yields the lines of a table, of the columns' names first.

    Args:
      columns: (name, texts) of each, texts of all rows that were answered. rows: those that the
        table has; what was skipped has its name and query alone.
    """
    yield _line(name for name, _ in columns)
    answered = zip(*(texts for _, texts in columns))
    for row in rows:
        known = {"id": row.id, "query": row.query or ""}
        yield _line(next(answered) if row.pairs else (known.get(name, "") for name, _ in columns))


def _as_csv(lines):
    """Yields the lines of a table with commas in place of tabs."""
    for line in lines:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(line[:-1].split("\t"))
        yield text.getvalue()


def json_lines(values: Iterable[dict]) -> Iterator[str]:
    """Yields a JSON object a line."""
    for value in values:
        yield json.dumps(value, ensure_ascii=False) + "\n"


def _line(cells):
    return "\t".join(map(_cell, cells)) + "\n"


def _cell(text):
    """Text without the characters that end a cell or a line."""
    return " ".join(text.split()) if "\t" in text or "\n" in text or "\r" in text else text
