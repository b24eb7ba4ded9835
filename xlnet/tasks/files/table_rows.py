"""Records of tables to the `Row`s of a task: columns are found, texts and labels parsed.

A file is read and checked to its end before it is used; all of its errors are listed. Each of its
records is a row, or refused, or left out with a number that is reported.
"""

from __future__ import annotations

import collections
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from xlnet.corpus.tokenizer import is_text
from xlnet.support.errors import UserError
from xlnet.tasks.files import diagnosis, readers
from xlnet.tasks.files.forms import Table, is_blank
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.row_store import store_rows
from xlnet.tasks.task import CUSTOM, Published, Row

if TYPE_CHECKING:
    from xlnet.tasks.types import contract

_log = logging.getLogger(__name__)

NOT_TEXT = "not UTF-8: bytes or escapes that are no characters"


def read_tables(reader: contract.Reader, path: str, need_labels: bool) -> Sequence[Row]:
    """The `Row`s of a file, of several, or of a directory.

    Args:
      reader: the `contract.Reader` whose methods parse texts and labels.
      path: of the file, `readers.Paths` of several, or "-", the standard input.
      need_labels: whether a row without a known label is an error; if not, its label is None.
    """
    seen: dict = {}
    numbers = itertools.count()  # of the rows, also of those that are left out
    parts = []
    for each in readers.each_path(path):
        columns = reader.task.columns
        needed = [*columns.texts]
        if columns.query:
            needed.append(columns.query)
        if need_labels:
            needed += columns.label
        if columns.id and columns.id_required:
            needed.append(columns.id)
        try:
            parts.append(_File(reader, each, need_labels, needed, seen, numbers).read())
        except UserError as e:
            form = readers.declared_form(reader.task, each)
            wanted = [name for name in needed if name != columns.id]
            raise UserError(f"{e}{diagnosis.remedy(each, form, wanted)}") from None
    if not any(parts):
        raise UserError(f"{path}: task {reader.task.name} uses no row of it")
    return (
        parts[0]
        if len(parts) == 1
        else store_rows(itertools.chain.from_iterable(parts))
    )


class _File:
    """The rows of one file, and what was left out of it."""

    def __init__(
        self,
        reader: contract.Reader,
        path: str,
        need_labels: bool,
        needed: Sequence[str],
        seen: dict,
        numbers: Iterator[int],
    ):
        """
        Args:
          needed: the columns that the file must have.
          seen: as in `Reader.check_row`.
          numbers: of the rows of all files.
        """
        self._reader, self._path, self._need_labels = reader, path, need_labels
        self._needed, self._seen, self._numbers = needed, seen, numbers
        self._table: Table = readers.read_table(reader, path)
        self._names: Optional[list[str]] = None
        if self._table.columns is not None:
            aliases = reader.task.published.column_aliases
            self._names = [aliases.get(name, name) for name in self._table.columns]
            for name in needed:
                _check_column(reader, path, name, self._names)
        # Of the objects of JSON so far: a key that only some have is null in others.
        self._keys: dict = {}
        self._count = 0
        self._errors = RowErrors()
        self._left_out: collections.Counter[str] = (
            collections.Counter()
        )  # by their reason

    def read(self) -> Sequence[Row]:
        """The rows. All are read before the first error is raised, so that all are listed."""
        stored = store_rows(
            filter(None, itertools.starmap(self._row, self._table.rows))
        )
        if not self._count:
            raise UserError(f"{self._path}: no rows")
        if self._names is None and self._keys:
            for name in self._needed:
                _check_column(self._reader, self._path, name, list(self._keys))
        # Official files may have bad rows, which the authors of the set left out, too.
        task = self._reader.task
        skips = task.files.skips_errors or task.published.has_broken_rows
        if skips and self._need_labels and 0 < len(self._errors) < self._count:
            self._errors.note(self._path, f"of {self._count} rows skipped")
        else:
            self._errors.refuse()
        for why, number in self._left_out.items():
            _log.info("%s is read without %s %s", self._path, f"{number:,}", why)
        return stored

    def _row(self, place: str, cells: Any) -> Optional[Row]:
        """The row of a record; None if it is wrong or left out."""
        if is_blank(cells) and self._need_labels:
            self._left_out["empty rows"] += 1
            return None
        self._count += 1
        index = next(self._numbers)
        if isinstance(cells, str) or is_blank(cells):
            self._errors.add(place, cells if isinstance(cells, str) else "an empty row")
            return None
        names, task = self._names, self._reader.task
        if isinstance(cells, dict):
            self._keys.update(cells)
        cells = by_name(names, cells)
        if names is None:
            cells = {**dict.fromkeys(self._needed), **cells}
        has_ids = task.columns.id in (self._keys if names is None else names)
        row, error = _parsed(
            self._reader, cells, index, has_ids, self._need_labels, self._seen
        )
        why = _why_left_out(task.published, cells, row)
        if why:
            self._left_out[why] += 1
            return None
        if error:
            self._errors.add(place, error)
            return None
        return row


def _why_left_out(
    published: Published, cells: Mapping[str, Any], row: Optional[Row]
) -> str:
    """Why a row of a published set is not one of its task; "": it is."""
    for name, value in published.rows_where.items():
        if name in cells and readers.to_text(cells[name]).strip() != value:
            return f"rows whose {name} is not {value}"
    if row and row.label in published.skipped_labels:
        return f"rows with label '{row.label}'"
    return ""


def _check_column(
    reader: contract.Reader, path: str, name: str, names: Sequence[str]
) -> None:
    """Raises UserError unless exactly one column has a name."""
    if name in names:
        readers.column(path, name, names)
        return
    remedy = ""
    if name == reader.task.columns.id:
        remedy = "; --id_column= takes the number of the row instead"
    elif reader.task.name == CUSTOM and reader.flag_of(name):
        remedy = f"; --{reader.flag_of(name)} names it"
    raise UserError(f"{path}: {readers.no_column(name, names)}{remedy}")


def _parsed(
    reader: contract.Reader,
    cells: dict,
    index: int,
    has_ids: bool,
    need_labels: bool,
    seen: dict,
) -> tuple:
    """(row, error or None) or (None, error) of a record.

    Args:
      index: the number of the record, which is the name of a row without one.
      has_ids: whether the file has names of rows, of which an empty one is none.
      seen: as in `Reader.check_row`.
    """
    columns = reader.task.columns
    for name in (*columns.text_a, *columns.text_b):
        error = readers.not_plain(name, cells[name])
        if error:
            return None, error
    pairs, error = _parse_pairs(
        reader,
        _joined(cells, columns.text_a) or "",
        _joined(cells, columns.text_b),
        [cells[name] for name in columns.choices],
        (
            "column '{}'".format(" ".join(columns.text_a)),
            "column '{}'".format(" ".join(columns.text_b)),
        ),
    )
    if error:
        return None, error
    id = cells.get(columns.id) if columns.id else None
    query = cells.get(columns.query) if columns.query else None
    if id is not None:
        id = readers.to_text(id)
    else:
        id = "" if columns.id and (has_ids or columns.id_required) else str(index)
    query = None if query is None else readers.to_text(query)
    if not is_text(id + (query or "")):
        return None, NOT_TEXT
    if None in cells and columns.label:  # a wider row, whose last cell is the label
        cells = {**cells, columns.label[0]: cells[None][-1]}
    label, error = reader.parse_label(
        [cells.get(name) for name in (*columns.label, *columns.choices)]
    )
    if error and need_labels:
        return None, error
    # A label that is not needed may be wrong.
    row = Row(id, pairs, label, query)
    return row, reader.check_row(row if need_labels else row._replace(label=None), seen)


def by_name(columns: Optional[Sequence[str]], values: Any) -> dict:
    """The cells of a record by the names of its columns; under None those beyond."""
    if not isinstance(values, list):
        return values if isinstance(values, dict) else {}
    columns = columns or ()
    beyond = values[len(columns) :]
    return {**dict(zip(columns, values)), **({None: beyond} if beyond else {})}


def _joined(cells: Mapping[Any, Any], names: Sequence[str]) -> Optional[str]:
    """The texts of columns with spaces between; None without columns."""
    if not names:
        return None
    parts = [readers.to_text(cells[name]) for name in names]
    return parts[0] if len(parts) == 1 else " ".join(filter(None, parts))


def parse_texts(
    reader: contract.Reader, text_a: str, text_b: Optional[str], choices: list
) -> tuple:
    """(pairs of a `Row`, None) or (None, error) of texts that do not come from a file."""
    if (text_b is None) != (not reader.task.columns.text_b):
        expected = (
            "a pair of texts" if reader.task.columns.text_b else "one text, not a pair"
        )
        return None, f"expected {expected}"
    return _parse_pairs(
        reader, text_a, text_b, choices, ("the text", "the second text")
    )


def _parse_pairs(
    reader: contract.Reader,
    text_a: str,
    text_b: Optional[str],
    choices: list,
    named: tuple[str, str],
) -> tuple:
    """(pairs of a `Row`, None) or (None, error) of texts, which errors call as `named`."""
    text_a = reader.task.published.replaced(text_a)
    if text_b is not None:
        text_b = reader.task.published.replaced(text_b)

    # Only now is it known whether a text is empty: a replacement may have removed all of it.
    if not text_a.strip():
        return None, f"{named[0]} is empty"
    if text_b is not None and not text_b.strip() and not reader.takes_empty_text_b:
        return None, f"{named[1]} is empty"

    pairs, error = reader.parse_pairs(text_a, text_b, choices)
    if error:
        return pairs, error
    for first, second in pairs:
        if not is_text(first or "") or not is_text(second or ""):
            return None, NOT_TEXT
    return pairs, None
