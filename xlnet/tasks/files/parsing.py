"""Rows of a task from its files, whose forms `readers` knows; its `Reader` parses their labels.

A file is read and checked to its end before it is used; all of its errors are listed.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.tasks.files import readers
from xlnet.tasks.files.readers import to_text
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.row_store import digest, store_rows
from xlnet.tasks.task import Row, Task, expand_split
from xlnet.tokenization.tokenizer import is_text

_NOT_TEXT = "not UTF-8: bytes or escapes that are no characters"
_LEFT_OUT = Row(None, (), None)  # represents a table row that the task does not use


# --- Splits


def read_rows(
    task: Task, data_dir: str, split: str, need_labels: Optional[bool] = None
) -> Sequence[Row]:
    """The `Row`s of a split, of its file or files (see `expand_split`).

    need_labels: whether a table row without a known label is an error; if not, its label is None.
    None: except in test splits.
    """
    if need_labels is None:
        need_labels = not split.startswith("test")
    parts = [
        read_parts(task, data_dir, part, need_labels)[part] for part in expand_split(task, split)
    ]
    return parts[0] if len(parts) == 1 else store_rows(itertools.chain.from_iterable(parts))


def read_parts(task: Task, data_dir: str, part: str, need_labels: bool) -> dict[str, Sequence[Row]]:
    """The rows of a part, "train" or one file of a split, and of the part that is read with it, if
    dev is held out of the train file."""
    is_held_out = part in ("train", "dev") and task.dev_share and "dev" not in task.files
    file = "train" if is_held_out else part
    path = readers.require_file(data_dir, task.files[file], file)
    rows = read_file(task, path, need_labels or bool(is_held_out))
    if not is_held_out:
        return {part: rows}
    parts = hold_out(rows, task.dev_share)
    if not all(parts):
        raise UserError(
            f"{path}: all rows belong together, so none can be held out as dev; expected"
            " two rows (of other texts, queries) or more, or a file to evaluate on"
        )
    return dict(zip(("train", "dev"), parts))


def hold_out(rows: Sequence[Row], share: float) -> tuple[Sequence[Row], ...]:
    """Splits rows into (train, dev) by a hash of their text, or query, so that a row stays in its
    part when others are added, removed, sorted or labelled in another way.

    share: about the fraction of the texts, or of the queries, that is dev; at least one, and at
    most all but one.
    """
    units = np.fromiter(
        (
            digest(row.query or "\0".join(text or "" for pair in row.pairs for text in pair))
            for row in rows
        ),
        np.uint64,
        len(rows),
    )
    # Hashes are spread evenly over [0, 2^64). Those below share * 2^64 are dev, whatever other rows
    # there are, so that a file that has grown keeps its split.
    hashes, sizes = np.unique(units, return_counts=True)
    # Where each text has more rows than dev may have, equal texts are divided.
    if rows[0].query is None and sizes.min() > max(1, share * len(rows)):
        before: collections.Counter[int] = collections.Counter()
        for index, unit in enumerate(units.tolist()):  # a text's first row, its second, ...
            units[index] = digest(f"{unit} {before[unit]}")
            before[unit] += 1
        hashes = np.unique(units)
    # At least one text is dev and one is not, wherever the border would be by chance.
    count = np.searchsorted(hashes, np.uint64(share * 2**64))
    first = hashes[max(1, min(count, len(hashes) - 1))] if len(hashes) > 1 else 0
    return tuple(
        store_rows(itertools.compress(rows, is_chosen))
        for is_chosen in (units >= first, units < first)
    )


def read_file(
    task: Task, path: str, need_labels: bool, form: Optional[str] = None
) -> Sequence[Row]:
    """The `Row`s of one file or directory, many of them kept on disk; "-" is the standard input.
    form: a key of `readers.FORMS` or `Reader.forms`; None: from the extension."""
    # A type has its own way, as for entities, or that of `contract.Reader`: `read_tables`.
    return task.reader.read(path, need_labels, form)


def read_tables(task: Task, path: str, need_labels: bool, form: Optional[str]) -> Sequence[Row]:
    """As `read_file`, of files that are tables."""
    if task.broken_rows and need_labels:
        task = dataclasses.replace(task, skips_errors=True)
    seen: dict = {}
    numbers = itertools.count()  # of the rows, also of those that are left out
    parts = [
        _read_table(task, each, need_labels, form, seen, numbers)
        for each in readers.each_path(path)
    ]
    if not any(parts):
        raise UserError(f"{path}: task {task.name} uses no row of it")
    return parts[0] if len(parts) == 1 else store_rows(itertools.chain.from_iterable(parts))


def _read_table(task, path, need_labels, form, seen, numbers):
    """The rows of one file; seen: as in `Reader.check_row`; numbers: iterator of their numbers."""
    table = readers.read_table(task, path, form)
    columns = table.columns and [task.column_aliases.get(name, name) for name in table.columns]
    needed = _needed(task, path, columns, need_labels)
    found, rejected, formulas = (RowErrors() for _ in range(3))
    count = 0
    keys: dict = {}  # of all rows of JSON: a key that only some rows have is null in the others

    def checked():
        nonlocal count
        for place, values in table.rows:
            # Empty rows, and those that are not used.
            if readers.is_blank(values):
                if need_labels:  # spreadsheets leave them
                    continue
                if len(values) < len(columns or ()):
                    values = "an empty row"  # predictions are aligned with the file
            count += 1
            index, cells = next(numbers), by_name(columns, values)
            if need_labels and is_rejected(task, cells):
                rejected.add(place, "answer is {}".format(cells["answer"]))
                continue
            if values == table.columns and len(values) > 1:
                values = "the names of the columns again; are these files that were joined?"
            # The row, or its error.
            if columns is None and not isinstance(values, str):
                keys.update(cells)
                cells = {**dict.fromkeys(needed), **cells}
            row, error = (
                (None, values)
                if isinstance(values, str)
                else _parse_row(task, columns, needed, cells, index, need_labels)
            )
            if row and row is not _LEFT_OUT and not error:
                error = task.reader.check_row(row, seen)
            for cell in filter(
                _FORMULA_ERROR.fullmatch,
                filter(
                    None,
                    [
                        cells.get(name)
                        for name in (*task.text_a, *task.text_b, *task.label)
                        if isinstance(cells.get(name), str)
                    ],
                ),
            ):
                formulas.add(place, cell)
            if error:
                found.add(place, error)
                # Predictions stay aligned with the file.
                if task.skips_errors:
                    id, query = _names(task, cells, index)
                    row = (
                        None
                        if need_labels
                        else Row(
                            id if id and is_text(id) else str(index),
                            (),
                            None,
                            query if query and is_text(query) else None,
                        )
                    )
            if row is not None and row is not _LEFT_OUT:
                yield row

    # All rows are read before the first error is raised, so that all are listed.
    rows = store_rows(checked())
    if not count:
        raise UserError(f"{path}: no rows")
    missing = next((name for name in needed if columns is None and name not in keys), None)
    if missing and keys:
        raise UserError(f"{path}: {readers.no_column(missing, keys)}")
    if task.skips_errors and 0 < len(found) < count:
        found.note(
            path,
            "of {} rows skipped{}".format(
                count, "" if need_labels else ", their answers are empty"
            ),
        )
    else:
        found.refuse()
    rejected.note(path, "examples were rejected by their annotator and are left out")
    formulas.note(path, "cells have an error of a spreadsheet instead of a value")
    return rows


def is_rejected(task: Task, cells: dict) -> bool:
    """Whether an annotator rejected or skipped a row, as Prodigy writes it."""
    return cells.get("answer") in ("reject", "ignore") and "answer" not in (
        *task.label,
        *task.text_a,
        *task.text_b,
        *task.choices,
    )


# Values of cells with an error in Excel, LibreOffice and Google's Sheets.
_FORMULA_ERROR = re.compile(
    r"#(N/A|NAME\?|REF!|VALUE!|DIV/0!|NUM!|NULL!|ERROR!|SPILL!|CALC!|FIELD!)|Err:5\d\d"
)


def read_to_predict(task: Task, path: str, form: Optional[str] = None) -> Sequence[Row]:
    """A file to predict, labelled or not. The default form of the standard input and of .txt files
    is the reader's `plain_form`, for most a text a line."""
    form = form_to_predict(task, path, form)
    if form == "text":
        task = dataclasses.replace(task, id_required=False)
    return read_file(
        dataclasses.replace(task, keep_where={}, skipped_labels=(), broken_rows=False),
        path,
        need_labels=False,
        form=form,
    )


def form_to_predict(task: Task, path: str, form: Optional[str]) -> Optional[str]:
    """The form of a file to predict, as in `read_to_predict`; None: from its extension."""
    if form is None and (
        path == "-" or {"txt"} == set(map(readers.extension, readers.each_path(path)))
    ):
        return task.reader.plain_form
    return form


# --- Columns and rows


def by_name(columns: Optional[Sequence[str]], values: Any) -> dict:
    """The cells of a row of a `Table` by the names of its columns; under None those beyond."""
    if not isinstance(values, list):
        return values if isinstance(values, dict) else {}
    columns = columns or ()
    beyond = values[len(columns) :]
    return {**dict(zip(columns, values)), **({None: beyond} if beyond else {})}


def _needed(task, path, columns, need_labels):
    """The columns that each row must have; refuses `columns` of a file that are not these."""
    needed = [*task.text_a, *task.text_b, *task.choices]
    if task.query:
        needed.append(task.query)
    if need_labels:
        needed += task.label
    if task.id and task.id_required:
        needed.append(task.id)
    if columns is not None:
        needed += [name for name in task.keep_where if name in columns]
        for name in needed:
            if name not in columns:
                raise UserError(
                    "{}: {}; {}".format(
                        path,
                        readers.no_column(name, columns),
                        (
                            "--id_column= takes the number of the row instead"
                            if name == task.id
                            else "if the first line is not the columns' names, give their "
                            "numbers, from 1 on"
                        ),
                    )
                )
            readers.column(path, name, columns)
    return needed


def _parse_row(task, columns, needed, cells, index, need_labels):
    """Returns (row or None, error or None); no row if its width is wrong or a text is missing."""
    missing = next((name for name in needed if name not in cells), None)
    beyond = cells.get(None, [])
    if task.label_at_end and beyond:
        cells, beyond = {**cells, task.label[0]: beyond[-1]}, []
    if missing or any(beyond):
        return (
            None,
            f"{len(cells) - (None in cells) + len(beyond)} column(s), expected {len(columns)}",
        )
    if any(cells.get(name, value) != value for name, value in task.keep_where.items()):
        return _LEFT_OUT, None

    def text(names):
        parts = [to_text(cells[name]) for name in names]
        return parts[0] if len(parts) == 1 else " ".join(filter(None, parts))

    pairs, error = _parse_pairs(
        task,
        text(task.text_a),
        text(task.text_b) if task.text_b else None,
        [cells[name] for name in task.choices],
    )
    id, query = _names(task, cells, index)
    if not error and not is_text(id + (query or "")):
        error = _NOT_TEXT
    if error:
        return None, error
    label, error = task.reader.parse_label(task.reader.label_cells(cells))
    if label in task.skipped_labels:
        return _LEFT_OUT, None
    return Row(id, pairs, label, query), error if need_labels else None


def _names(task, cells, index):
    """(the row's name from its column, or its number; that of its query, if it has one)."""
    id = cells.get(task.id) if task.id else None
    query = task.query and cells.get(task.query)
    return (str(index) if id is None else to_text(id), None if query is None else to_text(query))


def parse_texts(task: Task, text_a: str, text_b: Optional[str], choices: list) -> tuple:
    """(pairs of a `Row`, None) or (None, error) of texts that do not come from a file."""
    if (text_b is None) != (not task.text_b):
        return None, "expected %s" % ("a pair of texts" if task.text_b else "one text, not a pair")
    for text, name in ((text_a, "text"), (text_b, "second text")):
        if (
            text is not None
            and not text.strip()
            and not (name != "text" and task.reader.takes_empty_text_b)
        ):
            return None, f"the {name} is empty"
    return _parse_pairs(task, text_a, text_b, choices)


def _parse_pairs(task, text_a, text_b, choices):
    for old, new in task.replacements:
        text_a, text_b = text_a.replace(old, new), text_b and text_b.replace(old, new)
    if not text_a.strip():
        return None, "column '{}' is empty".format(" ".join(task.text_a))
    if text_b is not None and not text_b.strip() and not task.reader.takes_empty_text_b:
        return None, "column '{}' is empty".format(" ".join(task.text_b))
    pairs, error = task.reader.parse_pairs(text_a, text_b, choices)
    if not error and not all(is_text(text) for pair in pairs for text in pair if text):
        return None, _NOT_TEXT
    return pairs, error
