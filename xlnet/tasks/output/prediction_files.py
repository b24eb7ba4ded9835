"""Prediction files for people and programs, and for the servers of GLUE and CLUE.

The task's `Scorer` makes their contents; this module names and writes them.
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

import numpy as np

from xlnet.support import files
from xlnet.tasks.task import Row, Task

_log = logging.getLogger(__name__)

# extension: of the file's name. what: the words before its path in the log, None for the main file.
# lines: an iterator over its lines with their ends.
PredictionFile = collections.namedtuple("PredictionFile", "extension what lines")


def write(
    directory: str,
    task: Task,
    split: str,
    rows: Sequence[Row],
    values: Any,
    *,
    step: int,
    threshold: float,
    is_official: bool,
    output: Optional[str] = None,
) -> None:
    """Writes the predictions for a split in every form of its task type.

    Args:
      step: of the checkpoint.
      is_official: whether rows are those of the split's official file, which may be submitted.
      output: path of the main file, the only one that is then written; "-": the standard output. A
        table has commas between its cells if the name ends in .csv, else tabs.
    """
    contents = task.scorer.prediction_files(rows, values, threshold)
    stem = os.path.join(directory, f"predictions_{task.name}_{split}")
    for extension, what, lines in contents[:1] if output else contents:
        path = output or f"{stem}.{extension}"
        if extension == "tsv" and path.lower().endswith(".csv"):
            lines = _with_commas(lines)
        files.write_lines(path, lines)
        if what:
            _log.info("%s: %s", what, path)
        else:
            _log.info(
                "predicted %s %s  step %d  (%d rows): %s",
                task.name,
                split,
                step,
                len(rows),
                path,
            )
    if output or not is_official or split not in task.published.submissions:
        return

    # The form of a benchmark's server. A network's scores may be outside of the range that the
    # server accepts; metrics and our own file have them as they are.
    path = os.path.join(directory, task.published.submissions[split])
    if task.published.submitted_range:
        values = np.clip(values, *task.published.submitted_range)
    texts = task.scorer.texts(values, threshold)
    named = ((row.id, text) for row, text in zip(rows, texts))
    if task.published.submission_form == "json":
        objects = []
        for name, text in named:
            id = int(name) if name.isdecimal() else name
            objects.append({"id": id, "label": text})
        lines = json_lines(objects)
    else:
        lines = tsv(("index", "prediction"), named)
    files.write_lines(path, lines)
    _log.info("for the server of %s: %s", task.name, path)


def tsv(names: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yields the lines of a table, the columns' names first. Cells with a tab, a line end or a
    quotation mark are between quotation marks."""
    yield _line(names, "\t")
    for cells in rows:
        yield _line(cells, "\t")


def _with_commas(lines: Iterable[str]) -> Iterator[str]:
    """The lines of `tsv` with commas in place of tabs."""
    for cells in csv.reader(lines, delimiter="\t"):
        yield _line(cells, ",")


def _line(cells: Iterable[str], delimiter: str) -> str:
    # A cell with a character of the end of a line is quoted, also with a carriage return alone.
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


def json_lines(values: Iterable[dict]) -> Iterator[str]:
    """Yields a JSON object a line."""
    for value in values:
        yield json.dumps(value, ensure_ascii=False) + "\n"
