"""Records of files to the `Row`s of a task: columns are found, texts and labels parsed.

A file is read and checked to its end before it is used; the first of its errors are listed. Each of
its records is a row, or refused, or left out with a number that is reported.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Optional

from xlnet.corpus.tokenizer import is_text
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.files import forms, published, readers
from xlnet.tasks.files.row_store import store_rows
from xlnet.tasks.task import CUSTOM, InlineExample, Row, Task

_log = logging.getLogger(__name__)

NOT_TEXT = "found bytes or escapes that are no characters, expected UTF-8; --encoding"
LISTED = 20  # different errors that are shown


class RowErrors:
    """The errors of a file, each with its place; memory does not grow with their number."""

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[str, str] = {}  # error -> its first place

    def add(self, place: str, error: str) -> None:
        self.count += 1
        if len(self._first) < LISTED:
            self._first.setdefault(error, place)

    def refuse(self) -> None:
        """Raises UserError with the first error, if there is one, and logs a list of several."""
        if not self.count:
            return
        others = ""
        if self.count > 1:
            _log.info("%d faulty rows, such as%s", self.count, self._listed())
            others = f" (and {self.count - 1} more faulty row(s))"
        error, place = next(iter(self._first.items()))
        raise UserError(f"{place}: {error}{others}")

    def note(self, path: str, what: str) -> None:
        """Warns of them, if there are any, as "PATH: COUNT WHAT", with a list."""
        if self.count:
            _log.warning("note: %s: %d %s%s", path, self.count, what, self._listed())

    def _listed(self) -> str:
        lines = [""]
        for error, place in self._first.items():
            lines.append(f"  {place}: {error}")
        return "\n".join(lines)


@dataclasses.dataclass
class _Tally:
    """What was found in a file so far.

    Attributes:
      columns: their names; of objects those of all records so far.
      count: the records that are not empty.
      errors: of records.
      left_out: the number of records that are no rows, by the reason.
    """

    columns: dict[str, None] = dataclasses.field(default_factory=dict)
    count: int = 0
    errors: RowErrors = dataclasses.field(default_factory=RowErrors)
    left_out: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )


class TableReader:
    """Files to the rows of a task; `types.contract.Reader` adds what becomes of them. A task type
    defines `parse_label`, and the other parsers where it differs."""

    task: Task
    takes_empty_text_b: ClassVar[bool] = False  # otherwise that is an error of the row

    # ---- what a task type may define

    def table(self, path: str) -> forms.Table:
        """The records of one file, or of a directory, in its declared form."""
        return published.read(self.task, path) or forms.read(
            path, readers.declared_form(self.task, path), f"task {self.task.name}"
        )

    def parse_pairs(self, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        """Returns (pairs of the `Row`, None) or (None, error in words).

        A pair is (text, None) or (text, second text); there are `num_choices` of them.

        Args:
          text_a: not empty.
          text_b: not empty; None where the task has no second text.
          choices: the cells of the columns `columns.choices`, a str each, or a list in JSON.
        """
        return ((text_a, text_b),), None

    def parse_label(self, cells: list) -> tuple:
        """Returns (label, None) or (None, error in words). The label must fit into JSON. cells: of
        the columns `columns.label`, then of `columns.choices`, each a str, or any value in JSON;
        None where the file has no labels."""
        raise NotImplementedError

    def check_row(self, row: Row, seen: dict) -> Optional[str]:
        """The error of a row in itself or among the others, in words, or None. In prediction the
        row has no label. seen: a dict for the type's own use, empty at the first row of a file."""
        return None

    # ---- rows of files

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        """The rows of a file, of several, or of a directory, many of them kept on disk.

        Args:
          path: of the file, `readers.Paths` of several, or "-", the standard input.
          need_labels: whether a row without a known label is an error; if not, its label is None.
        """
        seen: dict = {}
        numbers = itertools.count()  # of the rows, also of those that are left out
        parts = []
        for each in readers.each_path(path):
            parts.append(self._read_file(each, need_labels, seen, numbers))
        if not any(parts):
            raise UserError(f"{path}: task {self.task.name} uses no row of it")
        if len(parts) == 1:
            return parts[0]
        return store_rows(itertools.chain.from_iterable(parts))

    def _read_file(
        self, path: str, need_labels: bool, seen: dict, numbers: Iterator[int]
    ) -> Sequence[Row]:
        """The rows of one file. All are read before the first error is raised."""
        table, tally = self.table(path), _Tally()
        if table.columns is not None:
            aliases = self.task.published.column_aliases
            names = [aliases.get(name, name) for name in table.columns]
            self._check_columns(path, need_labels, names)
            tally.columns = dict.fromkeys(names)
        rows = store_rows(self._rows(table, tally, need_labels, seen, numbers))
        if not tally.count:
            raise wrong(path, "no rows", "some")
        if table.columns is None and tally.columns:
            self._check_columns(path, need_labels, list(tally.columns))
        # Official files may have bad rows, which the authors of the set left out, too.
        skips = self.task.files.skips_errors or self.task.published.has_broken_rows
        if skips and need_labels and tally.errors.count < tally.count:
            tally.errors.note(path, f"of {tally.count} rows skipped")
        else:
            tally.errors.refuse()
        for why, number in tally.left_out.items():
            _log.info("%s is read without %s %s", path, f"{number:,}", why)
        return rows

    def _rows(
        self,
        table: forms.Table,
        tally: _Tally,
        need_labels: bool,
        seen: dict,
        numbers: Iterator[int],
    ) -> Iterator[Row]:
        """The rows of a table; what is no row is counted in `tally`."""
        columns, aliases = self.task.columns, self.task.published.column_aliases
        for place, cells in table.rows:
            is_blank = isinstance(cells, dict) and forms.is_blank(cells)
            if is_blank and need_labels:
                tally.left_out["empty rows"] += 1
                continue
            tally.count += 1
            index = next(numbers)
            if isinstance(cells, str) or is_blank:
                tally.errors.add(place, "an empty row" if is_blank else cells)
                continue
            if aliases:
                cells = {aliases.get(name, name): cells[name] for name in cells}
            if table.columns is None:
                tally.columns.update(dict.fromkeys(cells))
            # In a file with names of rows, a row without one has the name "".
            id: Any = str(index)
            if columns.id and (columns.id_required or columns.id in tally.columns):
                id = cells.get(columns.id)
            row, error = self._of_cells(cells, id, need_labels, seen)
            why = published.why_left_out(self.task, cells, row)
            if why:
                tally.left_out[why] += 1
            elif error:
                tally.errors.add(place, error)
            else:
                yield row

    def _check_columns(
        self, path: str, need_labels: bool, names: Sequence[str]
    ) -> None:
        """Raises UserError unless exactly one column has each name that is needed."""
        columns = self.task.columns
        form = readers.declared_form(self.task, path)
        # A line of text has a part of the texts; the others are empty.
        needed = [*(form.names if form.name == "text" else columns.texts)]
        if columns.query:
            needed.append(columns.query)
        if need_labels:
            needed += columns.label
            if columns.group and self.task.files.dev_share:
                needed.append(columns.group)
        if columns.id and columns.id_required:
            needed.append(columns.id)
        is_table = form.name in forms.DELIMITERS
        for name in needed:
            if is_table and name.isdecimal() and not (form.header or form.names):
                raise wrong(
                    path, f"the number of a column, {name}", "names", "--header"
                )
            if names.count(name) == 1:
                continue
            flags = ["--delimiter", "--header", "--encoding"] if is_table else []
            if self.task.name == CUSTOM and self.flag_of(name):
                flags.insert(0, f"--{self.flag_of(name)}")
            its = f"{names.count(name) or 'no'} column '{name}'"
            others = ", ".join(each or "''" for each in names)
            raise wrong(path, f"{its} in {others:.300}", "one", ", ".join(flags))

    def flag_of(self, column: str) -> str:
        """The flag that names a column of a user's own files; "": none does."""
        columns = self.task.columns
        by_flag = {
            "text_a_column": columns.text_a,
            "text_b_column": columns.text_b,
            "label_column": columns.label,
            "choice_columns": columns.choices,
            "query_id_column": (columns.query,),
            "id_column": (columns.id,),
            "group_column": (columns.group,),
        }
        return next((flag for flag, names in by_flag.items() if column in names), "")

    # ---- a row

    def _of_cells(self, cells: dict, id: Any, need_labels: bool, seen: dict) -> tuple:
        """(row, error or None) or (None, error) of a record.

        Args:
          id: the name of the row.
          seen: as in `check_row`.
        """
        columns, texts = self.task.columns, []
        for names in (columns.text_a, columns.text_b):
            parts = []
            for name in names:
                error = readers.not_plain(name, cells.get(name))
                if error:
                    return None, error
                parts.append(readers.to_text(cells.get(name)))
            # An only text keeps its blanks; several are joined without empty ones.
            texts.append(parts[0] if len(parts) == 1 else " ".join(filter(None, parts)))
        pairs, error = self._pairs(
            texts[0],
            texts[1] if columns.text_b else None,
            [cells.get(name) for name in columns.choices],
            [
                f"column '{' '.join(columns.text_a)}'",
                f"column '{' '.join(columns.text_b)}'",
            ],
        )
        if error:
            return None, error
        id, query, group = readers.to_text(id), None, None
        if columns.query and cells.get(columns.query) is not None:
            query = readers.to_text(cells[columns.query])
        if columns.group:  # a row without an author stands for itself
            group = readers.to_text(cells.get(columns.group)) or None
        if not is_text(id + (query or "")):
            return None, NOT_TEXT
        named = (*columns.label, *columns.choices)
        label, error = self.parse_label([cells.get(name) for name in named])
        if error and need_labels:
            return None, error
        # A label that is not needed may be wrong.
        row = Row(id, pairs, label, query, group=group)
        return row, self.check_row(
            row if need_labels else row._replace(label=None), seen
        )

    def row(self, id: str, asked: InlineExample) -> tuple:
        """Returns (`Row`, None) or (None, error in words) for texts without a file."""
        has_text_b = bool(self.task.columns.text_b)
        if (asked.text_b is not None) != has_text_b:
            expected = "a pair of texts" if has_text_b else "one text, not a pair"
            return None, f"expected {expected}"
        named = ["the text", "the second text"]
        pairs, error = self._pairs(
            asked.text_a, asked.text_b, list(asked.choices), named
        )
        return (None, error) if error else (Row(id, pairs, None), None)

    def _pairs(
        self, text_a: str, text_b: Optional[str], choices: list, named: Sequence[str]
    ) -> tuple:
        """(pairs of a `Row`, None) or (None, error) of texts, which errors call as `named`."""
        text_a = self.task.published.replaced(text_a)
        if text_b is not None:
            text_b = self.task.published.replaced(text_b)
        # Only now is it known whether a text is empty: a replacement may have removed all of it.
        if not text_a.strip():
            return None, f"{named[0]} is empty"
        if text_b is not None and not text_b.strip() and not self.takes_empty_text_b:
            return None, f"{named[1]} is empty"
        pairs, error = self.parse_pairs(text_a, text_b, choices)
        if error:
            return pairs, error
        for first, second in pairs:
            if not is_text(first or "") or not is_text(second or ""):
                return None, NOT_TEXT
        return pairs, None
