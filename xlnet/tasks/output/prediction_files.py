"""Prediction files for people and programs, and for the servers of GLUE and CLUE.

The task's `Scorer` makes their contents; this module names and writes them.
"""

from __future__ import annotations

import collections
import csv
import io
import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np

from xlnet import files
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
    """Writes the predictions for a split in every form of its task type; step: of the checkpoint.

    rows: also skipped ones, which have no texts, and no values. is_official: whether they are those
    of the split's official file, which may be submitted. output: path of the main file, the only
    one that is then written; "-": the standard output. A table has commas if its name ends in .csv.
    """
    contents = task.scorer.prediction_files(rows, values, threshold)
    # Phase: one file with a name, as of a filter between others, or one of each form.
    if output:
        main = contents[0]
        files.write_lines(
            output,
            _as_csv(main.lines)
            if main.extension == "tsv" and output.lower().endswith(".csv")
            else main.lines,
        )
        _say_predicted(task, split, step, rows, output)
        return
    stem = os.path.join(directory, f"predictions_{task.name}_{split}")
    for extension, what, lines in contents:
        path = f"{stem}.{extension}"
        files.write_lines(path, lines)
        if what:
            _log.info("%s: %s", what, path)
        else:
            _say_predicted(task, split, step, rows, path)
    # Phase: the server's form, which has a line for each row in order: nothing may be missing.
    if is_official and split in task.published.submissions:
        path = os.path.join(directory, task.published.submissions[split])
        server = "CLUE" if task.published.submission_form == "json" else "GLUE"
        skipped = sum(not row.pairs for row in rows)
        if skipped:
            _log.warning(
                "note: %s is not written: the %s server expects all %d rows, and %d were skipped",
                path,
                server,
                len(rows),
                skipped,
            )
            return
        # A network's scores may be beyond what the server accepts; metrics and our own file have
        # them as they are.
        accepted = task.scorer.submitted_range
        texts = task.scorer.texts(np.clip(values, *accepted) if accepted else values, threshold)
        files.write_lines(
            path,
            json_lines(
                {"id": int(row.id) if row.id.isdecimal() else row.id, "label": text}
                for row, text in zip(rows, texts)
            )
            if server == "CLUE"
            else tsv([("index", (row.id for row in rows)), ("prediction", texts)], rows),
        )
        _log.info("for the %s server: %s", server, path)


def has_query_names(task: Task) -> bool:
    """Whether rows have the name of a query; that of questions is their context."""
    return task.columns.query is not None and task.columns.query not in task.columns.text_a


def write_errors(path: str, task: Task, rows: Sequence[Row], values: Any, threshold: float) -> int:
    """Writes a table of the rows whose predictions are wrong, the worst first, and returns their
    number; no row was skipped."""
    wrong = [
        (number, case)
        for number, case in enumerate(task.scorer.compare(rows, values, threshold))
        if case.error
    ]
    wrong.sort(key=lambda one: -one[1].error)
    # Functions of a row's number, the row and its `Comparison`, by column.
    columns: dict[str, Callable[[int, Row, Any], str]] = {
        "row": lambda number, row, case: str(number + 1),
        "id": lambda number, row, case: row.id,
    }
    if has_query_names(task):
        columns["query"] = lambda number, row, case: row.query
    columns.update(
        {
            "error": lambda number, row, case: f"{case.error:.6g}",
            "gold": lambda number, row, case: case.gold,
            "predicted": lambda number, row, case: case.predicted,
            "probability": lambda number, row, case: (
                "" if case.probability is None else f"{case.probability:.6f}"
            ),
            "text_a": lambda number, row, case: row.pairs[0][0],
        }
    )
    if task.columns.text_b or task.columns.choices:  # the texts of all choices
        columns["text_b"] = lambda number, row, case: " | ".join(
            dict.fromkeys(text for _, text in row.pairs if text)
        )
    files.write_lines(
        path,
        itertools.chain(
            [_line(columns)],
            (
                _line(cell(number, rows[number], case) for cell in columns.values())
                for number, case in wrong
            ),
        ),
    )
    return len(wrong)


def _say_predicted(task, split, step, rows, path):
    _log.info("predicted %s %s  step %d  (%d rows): %s", task.name, split, step, len(rows), path)


def tsv(columns: Sequence[tuple], rows: Sequence[Row]) -> Iterator[str]:
    """Yields the lines of a table, the columns' names first, of (name, texts) of each column. A
    skipped row has no texts, and only its name and query in the table."""
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
    # Without the characters that end a cell or a line.
    return (
        "\t".join(" ".join(text.split()) if re.search("[\t\n\r]", text) else text for text in cells)
        + "\n"
    )
