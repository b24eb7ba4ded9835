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
from xlnet.errors import UserError
from xlnet.tasks.task import Form, Row, Task

_log = logging.getLogger(__name__)

_PLAIN = Form()

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
    form: Form = _PLAIN,
) -> None:
    """Writes the predictions for a split in every form of its task type; step: of the checkpoint.

    rows: also skipped ones, which have no texts, and no values. is_official: whether they are those
    of the split's official file, which may be submitted. output: path of the main file, the only
    one that is then written; "-": the standard output. form: how a table in `output` is written,
    except that its delimiter is a tab unless the name ends in .csv.
    """
    contents = task.scorer.prediction_files(rows, values, threshold)
    # With `output` only the main file is written, under that name.
    if output:
        _write_main(output, contents[0], form)
        _say_predicted(task, split, step, rows, output)
        return

    # Without it, a file of each form.
    stem = os.path.join(directory, f"predictions_{task.name}_{split}")
    for extension, what, lines in contents:
        path = f"{stem}.{extension}"
        if extension == "tsv":
            lines = _as_table(path, lines, "\t", _PLAIN)
        files.write_lines(path, lines)
        if what:
            _log.info("%s: %s", what, path)
        else:
            _say_predicted(task, split, step, rows, path)

    # The form of a benchmark's server, which has a line for each row in order: none may be missing.
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
        # A network's scores may be outside of the range that the server accepts; metrics and our
        # own file have them as they are.
        accepted = task.published.submitted_range
        if accepted:
            values = np.clip(values, *accepted)
        texts = task.scorer.texts(values, threshold)
        if server == "CLUE":
            lines = json_lines(
                {"id": int(row.id) if row.id.isdecimal() else row.id, "label": text}
                for row, text in zip(rows, texts)
            )
        else:
            lines = tsv([("index", (row.id for row in rows)), ("prediction", texts)], rows)
        files.write_lines(path, lines)
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
            "error": lambda number, row, case: f"{case.error:.9g}",
            "gold": lambda number, row, case: case.gold,
            "predicted": lambda number, row, case: case.predicted,
            "probability": lambda number, row, case: (
                "" if case.probability is None else f"{case.probability:.9g}"
            ),
            "text_a": lambda number, row, case: _joined(first for first, _ in row.pairs),
        }
    )
    if task.columns.text_b or task.columns.choices:
        columns["text_b"] = lambda number, row, case: _joined(second for _, second in row.pairs)
    lines = itertools.chain(
        [_line(columns)],
        (
            _line(cell(number, rows[number], case) for cell in columns.values())
            for number, case in wrong
        ),
    )
    # With quotation marks as in predictions, so that readers of tables give the texts back.
    files.write_lines(path, _as_table(path, lines, "\t", _PLAIN))
    return len(wrong)


def _joined(texts: Iterable[Optional[str]]) -> str:
    """The texts of all pairs of a row, each once: choices have one text in common."""
    return " | ".join(dict.fromkeys(text for text in texts if text))


def _say_predicted(task: Task, split: str, step: int, rows: Sequence[Row], path: str) -> None:
    count = len(rows)
    _log.info("predicted %s %s  step %d  (%d rows): %s", task.name, split, step, count, path)


def tsv(columns: Sequence[tuple], rows: Sequence[Row]) -> Iterator[str]:
    """Yields the lines of a table, the columns' names first, of (name, texts) of each column. A
    skipped row has no texts, and only its name and query in the table."""
    names = [name for name, _ in columns]
    yield _line(names)
    cells_of_predicted_rows = zip(*(texts for _, texts in columns))
    for row in rows:
        if row.pairs:
            yield _line(next(cells_of_predicted_rows))
        else:
            known = {"id": row.id, "query": row.query or ""}
            yield _line(known.get(name, "") for name in names)


def _write_main(output: str, main: PredictionFile, form: Form) -> None:
    """Writes a prediction file under the name of a flag, in the form of the input if it is a table
    or columns; JSON and TREC's runs have their own.
    """
    lines, encoding = main.lines, "utf-8"
    if main.extension == "tsv":
        delimiter = "\t"
        if output.lower().endswith(".csv"):
            delimiter = form.delimiter or ","
        lines = _as_table(output, lines, delimiter, form)
    if main.extension in ("tsv", "conll") and not files.is_standard_output(output):
        encoding = form.encoding or encoding
    try:
        files.write_lines(output, lines, encoding=encoding)
    except UnicodeEncodeError as e:
        raise UserError(
            f"{output}: '{e.object[e.start]}' is not in {encoding}, the encoding of the input, as "
            "which predictions are written; convert the input to UTF-8"
        ) from None


def _as_table(output: str, lines: Iterable[str], delimiter: str, form: Form) -> Iterator[str]:
    """Yields the lines of a table, whose first one has the names, in another form; without the
    names if the form has none."""
    names: list[str] = []
    for line in lines:
        cells = line[:-1].split("\t")
        if not names:
            names = cells
            if form.header == "none":
                continue
        if form.quoting == "none":
            for cell in cells:
                if delimiter in cell:
                    raise UserError(
                        f"{output}: the cell '{cell:.80}' has the delimiter '{delimiter}', which "
                        "--quoting=none cannot write; give a name that ends in .tsv"
                    )
            yield delimiter.join(cells) + "\n"
            continue
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(cells)
        yield text.getvalue()


def json_lines(values: Iterable[dict]) -> Iterator[str]:
    """Yields a JSON object a line."""
    for value in values:
        yield json.dumps(value, ensure_ascii=False) + "\n"


def is_written_as_it_is(text: str) -> bool:
    """Whether a cell of a table has exactly this text."""
    return not re.search("[\t\n\r]", text)


def _line(cells: Iterable[str]) -> str:
    """A line of a table; tabs and line ends in cells become spaces."""
    texts = []
    for text in cells:
        if not is_written_as_it_is(text):
            text = " ".join(text.split())
        texts.append(text)
    return "\t".join(texts) + "\n"
