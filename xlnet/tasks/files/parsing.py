"""Rows of a task from its files, whose forms `readers` knows; its `Reader` parses their labels.

A file is read and checked to its end before it is used; all of its errors are listed.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
from collections.abc import Sequence
from typing import Optional

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.tasks.files import faults, readers
from xlnet.tasks.files.readers import to_text
from xlnet.tasks.files.row_store import digest, kept
from xlnet.tasks.types.task import Row, Task, expand_split
from xlnet.tokenization.tokenizer import is_text

_log = logging.getLogger(__name__)


# --- Splits

def read_rows(task: Task, data_dir: str, split: str,
              need_labels: Optional[bool] = None) -> Sequence[Row]:
    """Reads and checks the file of a split (or files, see `expand_split`).

    Args:
      need_labels: whether a table row without a known label is an error; if not, its label is None.
        None: except in test splits.

    Returns:
      The `Row`s, in the order of the file.

    Raises:
      UserError: names the first error with file and line, and the number of the others.
    """
    if need_labels is None:
        need_labels = not split.startswith("test")
    parts = [read_parts(task, data_dir, part, need_labels)[part]
             for part in expand_split(task, split)]
    return parts[0] if len(parts) == 1 else kept(itertools.chain.from_iterable(parts))


def read_parts(task: Task, data_dir: str, part: str, need_labels: bool) -> dict[str, Sequence[Row]]:
    """The rows of a part, "train" or one file of a split, and of the part that is read with it, if
    dev is held out of the train file. Arguments and errors as in `read_rows`."""
    if part not in ("train", "dev") or not task.dev_share or "dev" in task.files:
        return {part: _read_part(task, data_dir, part, need_labels)}
    parts = hold_out(_read_part(task, data_dir, "train", need_labels), task.dev_share,
                     task.dev_seed)
    if not all(parts):
        raise UserError("%s: all rows belong together, so none can be held out as dev; expected"
                        " two rows (of other texts, queries) or more, or a file to evaluate on"
                        % readers.find_file(data_dir, task.files["train"]))
    return dict(zip(("train", "dev"), parts))


def hold_out(rows: Sequence[Row], share: float, seed: int = 0) -> tuple[Sequence[Row], ...]:
    """Splits rows into (train, dev), stratified by label.

    Rows of one query are in the same part, and so are those of the same text, unless each text
    has more rows than dev may have.

    Args:
      share: the fraction of the rows, or of the queries, that is dev; at least one row, and at most
        all but one.
      seed: of the choice.
    """
    units = np.fromiter((digest(row.query or "\0".join(text or "" for pair in row.pairs
                                                       for text in pair))
                         for row in rows), np.uint64, len(rows))
    labels = np.fromiter((row.label if isinstance(row.label, float) else digest(str(row.label))
                          for row in rows), np.float64, len(rows))
    if rows[0].query is not None:
        is_dev = _held_out(units, labels, share, seed, by_unit=True)
    else:
        is_dev = _held_out(units, labels, share, seed)
        if not is_dev.any():
            is_dev = _held_out(np.arange(len(rows)), labels, share, seed)
    return tuple(kept(itertools.compress(rows, is_dev == part)) for part in (False, True))


def _held_out(units, labels, share, seed, by_unit=False):
    """Which rows are held out, bool [n]: in the order of labels, the fraction `share` of those so
    far, so that each label has it. Rows with the same number in `units` are in the same part;
    by_unit: `share` is a fraction of these numbers."""
    _, first, unit, sizes = np.unique(units, return_index=True, return_inverse=True,
                                      return_counts=True)
    if by_unit:
        sizes = np.ones_like(sizes)
    total = sizes.sum()
    share = max(1, min(round(share * total), total - 1)) / total
    order = np.random.default_rng(seed).permutation(len(first))
    is_held_out, held, seen = np.zeros(len(first), bool), 0, 0
    for index in order[np.argsort(labels[first[order]], kind="stable")]:
        seen += sizes[index]
        if held + sizes[index] <= round(seen * share):
            is_held_out[index] = True
            held += sizes[index]
    return is_held_out[unit]


def _read_part(task, data_dir, part, need_labels):
    path = readers.require_file(data_dir, task.files[part], part)
    return read_file(task, path, need_labels, header=task.headers.get(part))


def read_file(task: Task, path: str, need_labels: bool, header: Optional[Sequence[str]] = None,
              form: Optional[str] = None, skips: bool = False) -> Sequence[Row]:
    """Reads and checks one file.

    Args:
      path: file or directory; "-": the standard input.
      need_labels: as in `read_rows`.
      header: column names, for a file without a line of them.
      form: a key of `readers.FORMS` or `Reader.forms`; None: from the extension.
      skips: leave out table rows with errors, with a warning that counts them, instead of refusing
        the file, as `task.skips_faults` does. If no labels are needed they stay, without texts, so
        that predictions are aligned with the file.

    Returns:
      The `Row`s; many of them are kept on disk.
    """
    return task.reader.read(path, need_labels, header, form, skips)


def read_tables(task: Task, path: str, need_labels: bool, header: Optional[Sequence[str]],
                form: Optional[str], skips: bool) -> Sequence[Row]:
    """As `read_file`, of files that are tables."""
    seen: dict = {}
    parts: list[Sequence[Row]] = []
    for each in readers.each_path(path):
        parts.append(_read_table(task, each, need_labels, header, form, skips or task.skips_faults,
                                 seen, sum(map(len, parts))))
    return parts[0] if len(parts) == 1 else kept(itertools.chain.from_iterable(parts))


def _read_table(task, path, need_labels, header, form, skips, seen, first):
    """The rows of one file, numbered from `first` on; seen: as in `Reader.check_row`."""
    table = readers.read_table(task, path, header, form, skips)
    columns = _find_columns(task, path, table.columns, need_labels)
    found, count, broken = faults.Found(), 0, 0     # broken: rows of wrong width or without text

    def checked():
        nonlocal count, broken
        for count, (place, values) in enumerate(table.rows, 1):
            index = first + count - 1
            row, error = (None, values) if isinstance(values, str) else _parse_row(
                task, columns, values, index, need_labels)
            if row and row is not _LEFT_OUT and not error:
                error = task.reader.check_row(row, seen)
                if table.sources:
                    row = row._replace(source=table.sources.pop(row.query, None))
            if error:
                found.add(table.where(place), error)
                if skips:
                    row = None if need_labels else _without_texts(columns, values, index)
            broken += row is None
            if row is not None and row is not _LEFT_OUT:
                yield row

    rows = kept(checked())
    if not count:
        raise UserError("%s: no rows%s" % (path, "" if header else " after the header"))
    # The official train files of some tasks have a few broken rows.
    can_lose = count // 100 if task.broken_rows and need_labels else 0
    if skips and 0 < len(found) < count:
        found.note_skipped(path, count, "" if need_labels else ", their answers are empty")
    elif broken and broken == len(found) and broken <= can_lose:
        _log.warning("note: %s: left out %d row(s) of wrong width or without text", path, broken)
    else:
        found.refuse()
    return rows


def read_to_predict(task: Task, path: str, form: Optional[str] = None,
                    skips: bool = False) -> Sequence[Row]:
    """Reads a file to predict, labelled or not; arguments as in `read_file`. The default form of
    the standard input and of .txt files is the reader's `plain_form`, for most a text a line."""
    form = form_to_predict(task, path, form)
    if form == "text":
        task = dataclasses.replace(task, id_required=False)
    return read_file(dataclasses.replace(task, only={}, skipped_labels=(), broken_rows=False),
                     path, need_labels=False, form=form, skips=skips)


def form_to_predict(task: Task, path: str, form: Optional[str]) -> Optional[str]:
    """The form of a file to predict, as in `read_to_predict`; None: from its extension."""
    if form is None and (path == "-" or {"txt"} == set(
            map(readers.extension, readers.each_path(path)))):
        return task.reader.plain_form
    return form


# --- Columns and rows

# Indices into a table row's values: tuples of int for texts, label and choices, int or None for id
# and query. only: (index, value) of rows to read. width: columns of the header.
_Columns = collections.namedtuple("_Columns", "text_a text_b choices label id query only width")

_NOT_TEXT = "not UTF-8: bytes or escapes that are no characters"
_LEFT_OUT = Row(None, (), None)   # represents a table row that the task does not use


def _find_columns(task, path, header, need_labels):
    header = [task.renamed.get(name, name) for name in header]

    def find(name, required=True):
        if header.count(name) > 1:
            raise UserError("%s: %d columns are called '%s'; expected one" % (
                path, header.count(name), name))
        if name in header:
            return header.index(name)
        if required:
            raise UserError("%s: no column '%s'%s (columns: %s)" % (
                path, name, did_you_mean(name, header), ", ".join(header)))
        return None

    text_a, text_b, choices = (
        tuple(map(find, names)) for names in (task.text_a, task.text_b, task.choices))
    label = tuple(find(name, need_labels) for name in task.label)
    only = ((find(name, False), value) for name, value in task.only.items())
    return _Columns(text_a, text_b, choices, label=() if None in label else label,
                    id=find(task.id, task.id_required) if task.id else None,
                    query=find(task.query) if task.query else None,
                    only=tuple(pair for pair in only if pair[0] is not None), width=len(header))


def _parse_row(task, columns, values, index, need_labels):
    """Returns (row or None, error or None); no row if its width is wrong or a text is missing."""
    used = (*columns.text_a, *columns.text_b, *columns.choices, *columns.label,
            *([] if columns.query is None else [columns.query]),
            *(position for position, _ in columns.only))
    if len(values) <= max(used) or any(values[columns.width:]):
        return None, "%d column(s), expected %d" % (len(values), columns.width)
    if any(values[position] != value for position, value in columns.only):
        return _LEFT_OUT, None
    pairs, error = _parse_pairs(
        task, _text(values, columns.text_a), _text(values, columns.text_b) if columns.text_b
        else None, [values[position] for position in columns.choices])
    query = None if columns.query is None else to_text(values[columns.query])
    id = _id(columns, values, index)
    if not error and not is_text(id + (query or "")):
        error = _NOT_TEXT
    if error:
        return None, error
    label, error = task.reader.parse_label([values[position] for position in (
        *columns.label, *(columns.choices if columns.label else ()))])
    if label in task.skipped_labels:
        return _LEFT_OUT, None
    return Row(id, pairs, label, query), error if need_labels else None


def _id(columns, values, index):
    """The row's name from its column, or its number."""
    id = None if columns.id is None or len(values) <= columns.id else values[columns.id]
    return str(index) if id is None else to_text(id)


def _without_texts(columns, values, index):
    """The `Row` that replaces a skipped one: with its name and query, if they can be read."""
    if isinstance(values, str):
        return Row(str(index), (), None)
    id, query = _id(columns, values, index), None
    if columns.query is not None and len(values) > columns.query:
        query = to_text(values[columns.query])
    return Row(id if id and is_text(id) else str(index), (), None,
               query if query and is_text(query) else None)


def parse_texts(task: Task, text_a: str, text_b: Optional[str], choices: list) -> tuple:
    """(pairs of a `Row`, None) or (None, error) of texts that do not come from a file."""
    if (text_b is None) != (not task.text_b):
        return None, "expected %s" % ("a pair of texts" if task.text_b else "one text, not a pair")
    return _parse_pairs(task, text_a, text_b, choices)


def _parse_pairs(task, text_a, text_b, choices):
    for old, new in task.replacements:
        text_a, text_b = text_a.replace(old, new), text_b and text_b.replace(old, new)
    if not text_a.strip():
        return None, "column '%s' is empty" % " ".join(task.text_a)
    if text_b is not None and not text_b.strip() and not task.reader.takes_empty_text_b:
        return None, "column '%s' is empty" % " ".join(task.text_b)
    pairs, error = task.reader.parse_pairs(text_a, text_b, choices)
    if not error and not all(is_text(text) for pair in pairs for text in pair if text):
        return None, _NOT_TEXT
    return pairs, error


def _text(values, positions):
    """The text of one or several columns, joined by spaces."""
    parts = [to_text(values[position]) for position in positions]
    return parts[0] if len(parts) == 1 else " ".join(filter(None, parts))
