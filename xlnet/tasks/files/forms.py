"""Tables from files of every declared form: a function for each form, over a library that reads it.

`FORMS` has them by name; `readers` says which one a file has. Each takes (path, `decoding.Lines` of
the file, its `task.Form`) and returns a `Table`; that of Parquet takes the function that opens the
file instead of the lines. What a file contains never changes how it is read.

| form | meaning |
|---|---|
| csv, tsv | RFC 4180, by Python's strict `csv`; with quoting "none" lines are split at delimiters |
| jsonl, ndjson | `json.loads` of each line, an object |
| json | one document: a list of objects, or an object whose `data` is that list |
| parquet | by `pyarrow` |
| text | a text on each line, with tabs between several |
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, Optional, Union

from xlnet.support import encodings, files
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.files.decoding import RETURN_INSIDE, Lines
from xlnet.tasks.task import Form

_FIRST = 20  # lines
LONGEST_CELL = 1 << 24  # [characters]
DELIMITERS = {"csv": ",", "tsv": "\t"}
EMPTY_LINE = object()  # in place of the value of a line of JSON

# A record, by the names of its columns or in their order; of str, None or any value of JSON. A str
# is the error of a record that cannot be read; [] is an empty line.
Cells = Union[list, dict, str]


class Table(NamedTuple):
    """The records of a file.

    Attributes:
      columns: the names of the columns; None: each record has its own.
      rows: (place, cells) of each record. A place is what an error begins with: "train.csv:17".
    """

    columns: Optional[Sequence[str]]
    rows: Iterator[tuple[str, Any]]


def by_line(path: str, rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[str, Any]]:
    """The rows of a `Table`, of pairs of a line's number and its cells."""
    return ((f"{path}:{number}", cells) for number, cells in rows)


def is_blank(cells: Any) -> bool:
    """Whether a record has empty cells only, or is an empty line."""
    if not isinstance(cells, list):
        return False
    return not any(
        cell.strip() if isinstance(cell, str) else cell is not None for cell in cells
    )


# --- Cells between delimiters


def read_separated(path: str, lines: Lines, form: Form) -> Table:
    """CSV and TSV."""
    delimiter = form.delimiter or DELIMITERS[form.name or "csv"]
    rows = _split(lines, delimiter)
    if form.quoting != "none":
        rows = _quoted(path, lines, delimiter, form.quoting)
    number, first = next((row for row in rows if not is_blank(row[1])), (1, [""]))
    if isinstance(first, str):
        raise UserError(f"{path}:{number}: {first}")
    if form.header != "none":
        names = _names(first)
    else:
        names = list(form.names) or [str(place) for place in range(1, len(first) + 1)]
        if set(map(str.strip, first)) <= set(form.names):
            raise wrong(
                f"{path}:{number}", "the names of the columns", "a row", "--header"
            )
        rows = itertools.chain([(number, first)], rows)
        if not form.names and not form.delimiter:
            _check_delimiter(path, lines, delimiter)
    return Table(names, by_line(path, _checked(rows, names, form)))


def _check_delimiter(path: str, lines: Lines, delimiter: str) -> None:
    """Raises UserError if the first lines of a file without names have another delimiter, too."""
    for other in ",;\t|":
        counts = {line.count(other) for line in lines.first(_FIRST) if line.strip()}
        if other != delimiter and len(counts) == 1 and counts != {0}:
            found = f"{counts.pop()} of {other!r} in each line"
            raise wrong(path, found, "a declared delimiter", "--delimiter")


def _names(cells: Sequence[str]) -> list[str]:
    """The names of columns, in Unicode's composed form. macOS and some exports write ü as u and a
    combining mark, which looks the same."""
    return [encodings.composed(cell.strip()) for cell in cells]


def _split(lines: Lines, delimiter: str) -> Iterator[tuple[int, Any]]:
    """The number and the cells of each line, in which quotation marks have no meaning."""
    for number, line in enumerate(lines, 1):
        cells: Any = line.split(delimiter) if line else []
        yield number, RETURN_INSIDE if "\r" in line else cells


def _quoted(
    path: str, lines: Lines, delimiter: str, quoting: Optional[str]
) -> Iterator[tuple[int, Any]]:
    """The number of each record's first line, and its cells."""
    csv.field_size_limit(LONGEST_CELL)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    record = re.compile(rf"{cell}(?:{re.escape(delimiter)}{cell})*[\r\n]*")
    taken: list[
        str
    ] = []  # the lines of a record, which the library takes one after the other

    def noted() -> Iterator[str]:
        for line in lines.with_ends():
            taken.append(line)
            yield line

    number = 1
    try:
        for cells in csv.reader(noted(), delimiter=delimiter, strict=True):
            # The library takes a quotation mark inside of an unquoted cell for a character.
            text = "".join(taken)
            if '"' in text and not record.fullmatch(text):
                raise csv.Error("a quotation mark inside of a cell")
            # Where nothing says that there are quotation marks around cells, two characters of the
            # text in different rows look like such marks, and the rows like one.
            widths = {line.count(delimiter) for line in taken}
            if (
                len(taken) > 1
                and not quoting
                and len(cells) > 1
                and widths == {len(cells) - 1}
            ):
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


def _checked(
    rows: Iterator[tuple[int, Any]], names: Sequence[str], form: Form
) -> Iterator[tuple[int, Any]]:
    """The rows; a row that has not as many cells as there are names is replaced by its error."""
    for number, cells in rows:
        if isinstance(cells, list) and not is_blank(cells):
            if len(cells) < len(names) or len(cells) > len(names) and not form.is_wider:
                cells = f"{len(cells)} column(s), expected {len(names)}"
            elif form.header != "none" and _names(cells) == names:
                cells = "the names of the columns again"  # as where files were joined
        yield number, cells


# --- JSON


def read_json_lines(path: str, lines: Lines, form: Form) -> Table:
    """JSON lines, an object on each line; the column "a.b" is the key b in the object of a."""

    def rows() -> Iterator[tuple[str, Any]]:
        for place, value in json_lines(path, lines):
            yield place, [] if value is EMPTY_LINE else plain_object(value)

    return Table(None, rows())


def json_lines(path: str, lines: Lines) -> Iterator[tuple[str, Any]]:
    """Yields (place, value) of each line: what its JSON is, its ValueError, or `EMPTY_LINE`."""
    for number, line in enumerate(lines, 1):
        yield f"{path}:{number}", parsed(line) if line.strip() else EMPTY_LINE


def read_json(path: str, lines: Lines, form: Form) -> Table:
    """A list of objects, or an object whose `data` is a list of objects."""
    return Table(
        None, ((place, plain_object(value)) for place, value in json_items(path, lines))
    )


def json_items(path: str, lines: Lines) -> Iterator[tuple[str, Any]]:
    """Yields (place, value) of the items of a list, or of the list `data` of an object."""
    found = parsed(lines.text())
    if isinstance(found, dict):
        found = found.get("data")
    if isinstance(found, ValueError):
        raise UserError(f"{path}: {found}")
    if not isinstance(found, list):
        expected = "a list of JSON objects, or an object whose data is that list"
        raise wrong(path, "another JSON document", expected, "--input_format")
    for number, value in enumerate(found, 1):
        yield f"{path}: item {number}", value


def parsed(text: str) -> Any:
    """The value of JSON, in which NaN is null, or its ValueError."""
    try:
        return files.parse_json(text, has_rows=True)
    except ValueError as e:
        return ValueError(f"not valid JSON: {e}")


def plain_object(value: Any) -> Any:
    """Flattens an object: {"a": {"b": 1}} becomes {"a.b": 1}. Anything but an object gives an
    error, a str."""
    if isinstance(value, ValueError):
        return str(value)
    if not isinstance(value, dict):
        return f"expected a JSON object, found {type(value).__name__}"
    flat: dict[str, Any] = {}
    rest = list(reversed(value.items()))
    while rest:
        key, inner = rest.pop()
        key = encodings.composed(key)
        if isinstance(inner, dict):
            rest.extend(
                (f"{key}.{name}", each) for name, each in reversed(inner.items())
            )
        elif key in flat:
            return f"the key '{key}' twice"
        else:
            flat[key] = inner
    return flat


# --- Parquet


def read_parquet(path: str, opened: Callable[[], IO[bytes]], form: Form) -> Table:
    """The rows of a Parquet file, an object each."""
    rows = parquet_objects(path, parquet_file(path, opened))
    return Table(None, ((place, plain_object(value)) for place, value in rows))


def parquet_file(path: str, opened: Callable[[], IO[bytes]]) -> Any:
    """A Parquet file as pyarrow opens it."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f"{path}: Parquet is read by pyarrow; pip install pyarrow"
        ) from None
    try:
        return parquet.ParquetFile(opened())
    except pyarrow.ArrowException as e:
        raise UserError(
            f"{path}: not a Parquet file: {str(e).splitlines()[0]}"
        ) from None


def parquet_objects(path: str, stored: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, object of JSON) of the rows of a file of `parquet_file`."""
    import pyarrow

    names = stored.schema_arrow.names
    if len(set(names)) < len(names):
        raise wrong(path, "two columns of one name", "names that differ")
    number = 0
    try:
        for batch in stored.iter_batches(batch_size=1000):
            for values in zip(*(column.to_pylist() for column in batch.columns)):
                number += 1
                yield f"{path}: row {number}", dict(zip(names, map(_as_json, values)))
    except (
        pyarrow.ArrowException,
        ValueError,
        OverflowError,
        LookupError,
        OSError,
    ) as e:
        # A damaged file, or a value such as a date after the year 9999.
        what = str(e).splitlines()[0]
        raise UserError(
            f"{path}: row {number + 1} or later cannot be read: {what}"
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


# --- Lines


def read_text(path: str, lines: Lines, form: Form) -> Table:
    """A text on each line, with tabs between the texts of a pair or the answers of a choice;
    `form.names` are those of the texts."""
    rows = (
        (number, cells if any(cells) else []) for number, cells in _split(lines, "\t")
    )
    return Table(form.names, by_line(path, _checked(rows, form.names, form)))


# By name, which is also the extension of a file's name.
FORMS: dict[str, Callable[[str, Any, Form], Table]] = {
    "csv": read_separated,
    "tsv": read_separated,
    "jsonl": read_json_lines,
    "ndjson": read_json_lines,
    "json": read_json,
    "parquet": read_parquet,
    "text": read_text,
}
