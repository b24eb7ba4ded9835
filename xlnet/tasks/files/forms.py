"""The records of a file in its declared form, each as a dict of cells by the names of columns.

`read` gives the same records for the same data in every form. What a file contains never changes
how it is read.

| form | meaning |
|---|---|
| csv, tsv | RFC 4180, by Python's strict `csv`; with quoting "none" lines are split at delimiters |
| conll | a word on each line with its columns, between blanks |
| text | a text on each line, with tabs between several; the columns have the form's names |
| jsonl, ndjson | `json.loads` of each line, an object |
| json | one document: a list of objects, or an object whose `data` is that list |
| parquet | by `pyarrow` |
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple, Optional, Union, cast

from xlnet.support import files
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.task import Form

LONGEST_CELL = 1 << 24  # [characters]
_BLANKS = "[ \t]+"  # between the columns of conll
DELIMITERS = {"csv": ",", "tsv": "\t", "text": "\t", "conll": _BLANKS}
FORMS = (*DELIMITERS, "jsonl", "ndjson", "json", "parquet")
RETURN_INSIDE = (
    "a carriage return inside of a line; expected lines that end in a line feed"
)
_MARK = "\ufeff"  # a byte order mark after decoding


class Table(NamedTuple):
    """The records of a file.

    Attributes:
      columns: the names of the columns; None: each record has its own.
      rows: (place, cells) of each record. A place is what an error begins with: "train.csv:17".
        Cells are a dict by the names of columns, of str or any value of JSON; or, of a record that
        cannot be read, a str, its error.
    """

    columns: Optional[Sequence[str]]
    rows: Iterator[tuple[str, Any]]


def read(path: str, form: Form, what: str) -> Table:
    """The records of a file, which is read once, while they are iterated.

    Args:
      path: the file; "-" is the standard input.
      form: as it is declared; its `name` is one of `FORMS`.
      what: the role of the file in errors.
    """
    if form.name not in FORMS:
        found = f"the form {form.name}" if form.name else "no form"
        raise wrong(path, found, f"one of {', '.join(FORMS)}", "--input_format")
    if form.name in DELIMITERS:
        return _read_separated(path, form, what)
    records = objects(path, form, what)
    return Table(None, ((place, flattened(value)) for place, value in records))


def is_blank(cells: dict[str, Any]) -> bool:
    """Whether a record has empty cells only."""
    for cell in cells.values():
        if cell.strip() if isinstance(cell, str) else cell is not None:
            return False
    return True


# --- Bytes to lines


def opened(path: str, what: str) -> IO[bytes]:
    """A file, unpacked, or the standard input ("-")."""
    if path != "-":
        files.require_file(path, what)
        if path.endswith(".gz"):
            return cast(IO[bytes], gzip.open(path, "rb"))
        return open(path, "rb")
    return sys.stdin.buffer


def lines(path: str, what: str, encoding: Optional[str] = None) -> Iterator[str]:
    """The lines of a file, each of which ends in a line feed, perhaps after a carriage return.

    Byte order marks at the beginning of lines, as of files that were joined, are left out. Bytes
    that are not of the encoding stay in their lines as half surrogates, which the parser of a row
    reports with its line.
    """
    for line in _with_ends(path, what, encoding):
        yield line.removesuffix("\n").removesuffix("\r")


def _with_ends(path: str, what: str, encoding: Optional[str]) -> Iterator[str]:
    """The lines with the characters that end them, as `csv` takes them."""
    is_empty = True
    try:
        with io.TextIOWrapper(
            opened(path, what),
            encoding or "utf-8",
            errors="surrogateescape",
            newline="\n",
        ) as file:
            for line in file:
                line = line.lstrip(_MARK)
                is_empty = is_empty and not line.strip()
                yield line
    except UserError:
        raise
    except (ValueError, EOFError, OSError, zlib.error) as e:
        raise UserError(f"{path}: {e}") from None
    if is_empty:
        raise wrong(path, "an empty file", what)


# --- Cells between delimiters


def _read_separated(path: str, form: Form, what: str) -> Table:
    delimiter = form.delimiter or DELIMITERS[str(form.name)]
    if form.quoting == "none" or form.name == "text" or delimiter == _BLANKS:
        records = _split(lines(path, what, form.encoding), delimiter)
    else:
        text = _with_ends(path, what, form.encoding)
        records = _quoted(path, text, delimiter, form.quoting)
    number, first = 0, [""]
    start = []  # the first record that is not blank, and those before
    for number, first in records:
        if isinstance(first, str):
            raise UserError(f"{path}:{number}: {first}")
        start.append((number, first))
        if any(map(str.strip, first)):
            break
    if form.header != "none":
        names = _names(first)
    else:
        names = list(form.names) or [str(place) for place in range(1, len(first) + 1)]
        if form.name != "text" and set(map(str.strip, first)) <= set(form.names):
            found = "the names of the columns"
            raise wrong(f"{path}:{number}", found, "a row", "--header")
        records = itertools.chain(start, records)
    cells = ((f"{path}:{line}", _checked(row, names, form)) for line, row in records)
    return Table(names, cells)


def _names(cells: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def _checked(cells: Union[str, list[str]], names: list[str], form: Form) -> Any:
    """The cells of a row by their columns, or its error."""
    if isinstance(cells, str):
        return cells
    if not any(map(str.strip, cells)):
        return {}
    if form.wider_before == names[-1] and len(cells) > len(names):
        cells = [*cells[: len(names) - 1], cells[-1]]
    if len(cells) != len(names):
        return f"{len(cells)} column(s), expected {len(names)}; --quoting"
    if form.header != "none" and _names(cells) == names:
        return "the names of the columns again"  # as where files were joined
    return dict(zip(names, cells))


def _split(text: Iterator[str], delimiter: str) -> Iterator[tuple[int, Any]]:
    """The number and the cells of each line, in which quotation marks have no meaning."""
    for number, line in enumerate(text, 1):
        cells: Any = line.split(delimiter)
        if delimiter == _BLANKS:
            cells = re.split(_BLANKS, line.strip(" \t"))
        yield number, RETURN_INSIDE if "\r" in line else cells


def _quoted(
    path: str, text: Iterator[str], delimiter: str, quoting: Optional[str]
) -> Iterator[tuple[int, Any]]:
    """The number of each record's first line, and its cells."""
    csv.field_size_limit(LONGEST_CELL)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    record = re.compile(rf"{cell}(?:{re.escape(delimiter)}{cell})*[\r\n]*")
    # The lines of a record, which the library takes one after the other.
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in text:
            taken.append(line)
            yield line

    number = 1
    try:
        for cells in csv.reader(noted(), delimiter=delimiter, strict=True):
            # The library takes a quotation mark inside of an unquoted cell for a character.
            content = "".join(taken)
            if '"' in content and not record.fullmatch(content):
                raise csv.Error("a quotation mark inside of a cell")
            # Where nothing says that there are quotation marks around cells, two characters of the
            # text in different rows look like such marks, and the rows like one.
            widths = {line.count(delimiter) for line in taken}
            is_doubtful = len(taken) > 1 and not quoting and len(cells) > 1
            if is_doubtful and widths == {len(cells) - 1}:
                raise csv.Error(
                    f"a quotation over {len(taken)} lines, each of which could be a row"
                )
            yield number, cells
            number += len(taken)
            taken.clear()
    except csv.Error as e:
        expected = "cells as RFC 4180 has them"
        raise wrong(
            f"{path}:{number}", str(e), expected, "--quoting=standard or none"
        ) from None


# --- Objects


def objects(path: str, form: Form, what: str) -> Iterator[tuple[str, Any]]:
    """Yields (place, value) of the records of JSON or Parquet; arguments as of `read`.

    A value is any one of JSON: {} for an empty line, a ValueError for a line that is not JSON.
    """
    if form.name == "parquet":
        yield from _parquet_rows(path, what)
    elif form.name == "json":
        found = parsed("".join(_with_ends(path, what, form.encoding)))
        if isinstance(found, dict):
            found = found.get("data")
        if isinstance(found, ValueError):
            raise UserError(f"{path}: {found}; --input_format")
        if not isinstance(found, list):
            expected = "a list of JSON objects, or an object whose data is that list"
            raise wrong(path, "another JSON document", expected, "--input_format")
        for number, value in enumerate(found, 1):
            yield f"{path}: item {number}", value
    else:
        for number, line in enumerate(lines(path, what, form.encoding), 1):
            yield f"{path}:{number}", parsed(line) if line.strip() else {}


def parsed(text: str) -> Any:
    """The value of JSON, in which NaN is null, or its ValueError."""
    try:
        return files.parse_json(text, has_rows=True)
    except ValueError as e:
        return ValueError(f"not valid JSON: {e}")


def flattened(value: Any) -> Any:
    """An object with the values of its objects by longer names: {"a": {"b": 1}} has "a.b", too.
    Anything but an object gives an error, a str."""
    if isinstance(value, ValueError):
        return str(value)
    if not isinstance(value, dict):
        return f"found {type(value).__name__}, expected a JSON object; --input_format"
    flat: dict[str, Any] = {}
    waiting = [("", value)]
    for before, each in waiting:
        for key, inner in each.items():
            name = before + key
            if name in flat:
                return f"the key '{name}' twice"
            flat[name] = inner
            if isinstance(inner, dict):
                waiting.append((f"{name}.", inner))
    return flat


def _parquet_rows(path: str, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise wrong(path, "no pyarrow to read it", "pip install pyarrow") from None
    number = 0
    try:
        file = opened(path, what)
        stored = parquet.ParquetFile(io.BytesIO(file.read()) if path == "-" else file)
        names = stored.schema_arrow.names
        if len(set(names)) < len(names):
            raise wrong(path, "two columns of one name", "names that differ")
        for batch in stored.iter_batches(batch_size=1000):
            for values in zip(*(column.to_pylist() for column in batch.columns)):
                number += 1
                yield f"{path}: row {number}", dict(zip(names, map(_as_json, values)))
    except UserError:
        raise
    except (
        pyarrow.ArrowException,
        ValueError,
        OverflowError,
        LookupError,
        OSError,
    ) as e:
        # Another file, a damaged one, or a value such as a date after the year 9999.
        found = str(e).splitlines()[0]
        raise wrong(
            f"{path}: row {number + 1} or later", found, "Parquet", "--input_format"
        ) from None


def _as_json(value: Any) -> Any:
    """A value of Parquet as one of JSON, None for NaN; bytes that are not UTF-8 as half
    surrogates."""
    if isinstance(value, dict):
        return dict(zip(value, map(_as_json, value.values())))
    if isinstance(value, (list, tuple)):
        return list(map(_as_json, value))
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    if value is None or value != value:
        return None
    return value if isinstance(value, (str, int, float)) else str(value)
