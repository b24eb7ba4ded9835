"""Records of tables to the `Row`s of a task: columns are found, texts and labels parsed.

A file is read and checked to its end before it is used; all of its errors are listed. Each of its
records is a row, or refused, or left out with a number that is reported.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from xlnet.errors import UserError
from xlnet.tasks.files import decoding, diagnosis, readers
from xlnet.tasks.files.forms import DELIMITERS, Table, is_blank
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.row_store import store_rows
from xlnet.tasks.task import CUSTOM, Published, Row, Task
from xlnet.tokenization.tokenizer import is_text

if TYPE_CHECKING:
    from xlnet.tasks.types import contract

NOT_TEXT = "not UTF-8: bytes or escapes that are no characters"

# Values of cells with an error in Excel, LibreOffice and Google's Sheets.
_FORMULA_ERROR = re.compile(
    r"#(N/A|NAME\?|REF!|VALUE!|DIV/0!|NUM!|NULL!|ERROR!|SPILL!|CALC!|FIELD!)|Err:5\d\d"
)


def is_missing(value: Any) -> bool:
    """Whether a cell has no value: an empty or blank text; null and NaN of JSON and Parquet. All
    else is a value, also the texts NaN, NA, None and null."""
    return value is None or isinstance(value, str) and not value.strip()


def read_tables(reader: contract.Reader, path: str, need_labels: bool) -> Sequence[Row]:
    """The `Row`s of a file, of several, or of a directory.

    Args:
      reader: the `contract.Reader` whose methods parse texts and labels.
      path: of the file, `readers.Paths` of several, or "-", the standard input.
      need_labels: whether a row without a known label is an error; if not, its label is None.
    """
    seen: dict = {}
    numbers = itertools.count()  # of the rows, also of those that are left out
    parts = [
        _TableRows(reader, each, need_labels).read(seen, numbers)
        for each in readers.each_path(path)
    ]
    if not any(parts):
        raise UserError(f"{path}: task {reader.task.name} uses no row of it")
    return parts[0] if len(parts) == 1 else store_rows(itertools.chain.from_iterable(parts))


class _TableRows:
    """The rows of one file, and what was left out of it."""

    def __init__(self, reader: contract.Reader, path: str, need_labels: bool):
        self._reader = reader
        self._task: Task = reader.task
        self._path = path
        self._need_labels = need_labels
        # Official files may have bad rows, which the authors of the set left out, too.
        published = self._task.published
        self._skips = need_labels and (self._task.files.skips_errors or published.has_broken_rows)
        self._is_own = published == Published()
        self._table: Table = readers.read_table(reader, path)
        self._names = self._table.columns and [
            published.column_aliases.get(name, name) for name in self._table.columns
        ]
        self._needed = self._needed_columns()
        # Of the rows of JSON so far: a key that only some rows have is null in the others.
        self._keys: dict = {}
        self._errors = RowErrors()
        self._left_out: dict[str, int] = {}  # why -> how many

    def _needed_columns(self) -> list[str]:
        """The columns that each row must have; raises UserError if the file has not all of them."""
        task, names = self._task, self._names
        columns = task.columns
        needed = [*columns.texts]
        if columns.query:
            needed.append(columns.query)
        if self._need_labels:
            needed += columns.label
        if columns.id and columns.id_required:
            needed.append(columns.id)
        if names is None:
            return needed
        for name in needed:
            if name in names:
                readers.column(self._path, name, names)
                continue
            raise UserError(
                f"{self._path}: {readers.no_column(name, names)}"
                + self._remedy(name, [each for each in needed if each != columns.id])
            )
        return needed

    def _remedy(self, name: str, needed: Sequence[str]) -> str:
        """What may be wrong with a file without a column."""
        if name == self._task.columns.id:
            return "; --id_column= takes the number of the row instead"
        task = self._task
        declared = readers.declared_form(task, self._path)
        its_form = declared.name or readers.extension(self._path)
        if its_form not in DELIMITERS or self._path == "-":
            return self._named(name)
        lines = readers.read_lines(self._path, f"task {task.name}", declared.encoding, skips=True)
        read_as = dataclasses.replace(declared, name=its_form)
        return diagnosis.of_columns(needed, lines, read_as, self._flag_of(name))

    def _flag_of(self, name: str) -> str:
        """The flag that names a column; "": none does, as those of published sets are fixed."""
        flag = self._reader.flag_of(name) if self._task.name == CUSTOM else ""
        return flag and f"--{flag}"

    def _named(self, name: str) -> str:
        """The end of an error about a column, with the flag that names it."""
        flag = self._flag_of(name)
        return f"; {flag} names it" if flag else ""

    def read(self, seen: dict, numbers: Iterator[int]) -> Sequence[Row]:
        """The rows. seen: as in `Reader.check_row`; numbers: of the rows of all files."""
        # All rows are read before the first error is raised, so that all are listed.
        count = 0

        def rows() -> Iterator[Row]:
            nonlocal count
            for place, cells in self._table.rows:
                if is_blank(cells):
                    # Spreadsheets leave empty rows; predictions are aligned with the file.
                    if self._need_labels:
                        self._leave_out("empty rows")
                        continue
                    cells = "an empty row"
                count += 1
                index = next(numbers)
                if isinstance(cells, dict):
                    self._keys.update(cells)
                yield from self._row(place, cells, index, seen)

        stored = store_rows(rows())
        if not count:
            raise UserError(f"{self._path}: no rows")
        keys = self._keys
        missing = [name for name in self._needed if self._names is None and name not in keys]
        if missing and keys:
            remedy = self._named(missing[0])
            raise UserError(f"{self._path}: {readers.no_column(missing[0], keys)}{remedy}")
        self._report(count)
        return stored

    def _row(self, place: str, cells: Any, index: int, seen: dict) -> Iterator[Row]:
        """Yields the row of a record, or nothing if it is left out."""
        if isinstance(cells, str):
            self._errors.add(place, cells)
            return
        cells = by_name(self._names, cells)
        if self._names is None:
            cells = {**dict.fromkeys(self._needed), **cells}
        for name, value in self._task.published.rows_where.items():
            if name in cells and readers.to_text(cells[name]).strip() != value:
                self._leave_out(f"rows whose {name} is not {value}")
                return
        row, error = self._parse(cells, index)
        if row is not None and row.label in self._task.published.skipped_labels:
            self._leave_out(f"rows with label '{row.label}'")
            return
        if row is not None and not error:
            # A label that is not needed may be wrong.
            checked = row if self._need_labels else row._replace(label=None)
            error = self._reader.check_row(checked, seen)
        if error:
            self._errors.add(place, error)
        elif row is not None:
            yield row

    def _parse(self, cells: dict[Any, Any], index: int) -> tuple[Optional[Row], Optional[str]]:
        """Returns (row, error or None), or (None, error)."""
        columns = self._task.columns
        missing = [name for name in self._needed if name not in cells]
        if missing:
            return None, f"no column '{missing[0]}'"
        error = self._error_of_formula(cells, columns.texts)
        if error:
            return None, error
        for name in (*columns.text_a, *columns.text_b):
            error = readers.not_plain(name, cells[name])
            if error:
                return None, error
        pairs, error = _parse_pairs(
            self._reader,
            _joined(cells, columns.text_a) or "",
            _joined(cells, columns.text_b),
            [cells[name] for name in columns.choices],
            (
                "column '{}'".format(" ".join(columns.text_a)),
                "column '{}'".format(" ".join(columns.text_b)),
            ),
        )
        id, query = self._names_of(cells, index)
        if not error and not is_text(id + (query or "")):
            error = NOT_TEXT
        if error:
            return None, error
        if None in cells and columns.label:  # a wider row, whose last cell is the label
            cells = {**cells, columns.label[0]: cells[None][-1]}
        label, error = None, self._error_of_formula(cells, columns.label)
        if not error:
            label, error = self._reader.parse_label(self._reader.label_cells(cells))
        return Row(id, pairs, label, query), error if self._need_labels else None

    def _names_of(self, cells: Mapping[Any, Any], index: int) -> tuple[str, Optional[str]]:
        """(the row's name from its column, or its number; that of its query, if it has one)."""
        columns = self._task.columns
        id = cells.get(columns.id) if columns.id else None
        query = cells.get(columns.query) if columns.query else None
        # Where other rows have names, a number may be the name of one of them.
        names = self._keys if self._names is None else self._names
        # An empty name is none, also where pandas wrote its index under an empty name.
        has_names = bool(columns.id) and (columns.id in names or columns.id_required)
        unnamed = "" if has_names else str(index)
        return (
            unnamed if id is None else readers.to_text(id),
            None if query is None else readers.to_text(query),
        )

    def _error_of_formula(self, cells: Mapping[Any, Any], names: Sequence[str]) -> Optional[str]:
        """The error of columns one of which has what a spreadsheet could not compute."""
        for name in names:
            cell = cells.get(name)
            if self._is_own and isinstance(cell, str) and _FORMULA_ERROR.fullmatch(cell):
                return f"column '{name}': '{cell}' is an error of a spreadsheet, not a value"
        return None

    def _leave_out(self, why: str) -> None:
        self._left_out[why] = self._left_out.get(why, 0) + 1

    def _report(self, count: int) -> None:
        """Raises UserError for bad rows, or says how many were skipped; and what was left out."""
        if self._skips and 0 < len(self._errors) < count:
            self._errors.note(self._path, f"of {count} rows skipped")
        else:
            self._errors.refuse()
        for why, number in self._left_out.items():
            decoding.note(self._path, f"without {number:,} {why}")


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
        expected = "a pair of texts" if reader.task.columns.text_b else "one text, not a pair"
        return None, f"expected {expected}"
    return _parse_pairs(reader, text_a, text_b, choices, ("the text", "the second text"))


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
