"""Tables from files of every declared form: a function for each form, over a library that reads it.

`FORMS` has them by name; `readers` says which one a file has. Each takes (path, `decoding.Lines` of
the file, its `task.Form`) and returns a `Table`; that of Parquet takes the function that opens the
file instead of the lines. What a file contains never changes how it is read: see `diagnosis`.

| form | meaning |
|---|---|
| csv, tsv | RFC 4180, by Python's strict `csv`; with quoting "none" lines are split at delimiters |
| jsonl, ndjson | `json.loads` of each line, an object |
| json | one document by `ijson`: a list of objects, or an object whose `data` is that list |
| parquet | by `pyarrow` |
| text | a text on each line, with tabs between several |
"""

from __future__ import annotations

import collections
import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, Optional, Union

from xlnet import encodings, files, json_stream
from xlnet.errors import UserError
from xlnet.tasks.files import diagnosis
from xlnet.tasks.files.decoding import RETURN_INSIDE, Lines
from xlnet.tasks.task import Form

LONGEST_CELL = 1 << 24  # [characters]
DELIMITERS = {"csv": ",", "tsv": "\t"}
EMPTY_LINE = object()  # in place of the value of a line of JSON
_DEEPEST = 20  # objects in each other

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


# --- Cells between delimiters


def read_separated(path: str, lines: Lines, form: Form) -> Table:
    """CSV and TSV."""
    delimiter = form.delimiter or DELIMITERS[form.name or "csv"]
    # A flag takes precedence over what Excel declares.
    declared = delimiter_of_excel(lines.first(1)[0]) if form.name == "csv" else None
    if declared and not form.delimiter:
        delimiter = declared

    rows = _split(lines, delimiter)
    if form.quoting != "none":
        rows = _quoted(path, lines, delimiter, form)
    if declared:
        next(rows)
    if form.header == "none":
        return _without_names(path, lines, rows, delimiter, form)
    number, names = _first_record(rows)
    if isinstance(names, str):
        raise UserError(f"{path}:{number}: {names}")
    names = [encodings.composed(name.strip()) for name in names]
    return Table(names, by_line(path, _checked(rows, names, form)))


def _split(lines: Lines, delimiter: str) -> Iterator[tuple[int, Any]]:
    """The number and the cells of each line, in which quotation marks have no meaning."""
    for number, line in enumerate(lines, 1):
        cells: Any = line.split(delimiter) if line else []
        yield number, RETURN_INSIDE if "\r" in line else cells


def _first_record(rows: Iterator[tuple[int, Any]]) -> tuple[int, Any]:
    """The first record that is not empty; an empty one of a file without any."""
    for number, cells in rows:
        if not is_blank(cells):
            return number, cells
    return 1, [""]


def delimiter_of_excel(first: str) -> Optional[str]:
    """The delimiter that Excel declares in a line before the names, `sep=;`; None: in no such
    line."""
    found = re.fullmatch(r'"?sep=(.)"?\1*', first, re.IGNORECASE)
    return found[1] if found else None


def _without_names(
    path: str, lines: Lines, rows: Iterator[tuple[int, Any]], delimiter: str, form: Form
) -> Table:
    """The `Table` of a file whose first line is a record."""
    number, first = _first_record(rows)
    if isinstance(first, str):
        raise UserError(f"{path}:{number}: {first}")
    names = list(form.names) or [str(i + 1) for i in range(len(first))]
    if form.names:
        diagnosis.refuse_names(path, first, names)
    elif not form.delimiter:
        diagnosis.refuse_other_delimiter(path, lines, delimiter)
    rows = itertools.chain([(number, first)], rows)
    return Table(names, by_line(path, _checked(rows, names, form)))


def _checked(
    rows: Iterator[tuple[int, Any]], names: Sequence[str], form: Form
) -> Iterator[tuple[int, Any]]:
    """The rows; a row that has not as many cells as there are names is replaced by its error."""
    # A file that was joined of several has the names again. Without names, columns are called by
    # their numbers, which may well be the cells of a record.
    are_numbers = form.header == "none" and not form.names
    may_be_repeated = len(names) > 1 and not are_numbers
    for number, cells in rows:
        if isinstance(cells, list) and not is_blank(cells):
            if may_be_repeated and _are_names(cells, names):
                cells = "the names of the columns again, as where files were joined"
            elif len(cells) < len(names) or len(cells) > len(names) and not form.is_wider:
                cells = f"{len(cells)} column(s), expected {len(names)}"
        yield number, cells


def _are_names(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Whether cells are the names of the columns, which are composed and without blanks."""
    return len(cells) == len(names) and all(
        encodings.composed(cell.strip()) == name for cell, name in zip(cells, names)
    )


def _quoted(path: str, lines: Lines, delimiter: str, form: Form) -> Iterator[tuple[int, Any]]:
    """The number of each record's first line, and its cells, or the error of a record, a str. After
    an error the next line begins a record."""
    csv.field_size_limit(LONGEST_CELL)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    record = re.compile(rf"{cell}(?:{re.escape(delimiter)}{cell})*[\r\n]*")
    numbered = enumerate(lines.with_ends(), 1)
    again: collections.deque[tuple[int, str]] = collections.deque()  # to be read a second time
    taken: list[tuple[int, str]] = []  # the lines of the record, (number, text)

    def next_line() -> Optional[tuple[int, str]]:
        return again.popleft() if again else next(numbered, None)

    def texts_of_record() -> Iterator[str]:
        """The lines as the library reads them; it takes one after the other until a record ends."""
        line = next_line()
        while line is not None:
            taken.append(line)
            yield line[1]
            line = next_line()

    of_old_macs: Optional[bool] = None
    is_done = False
    while not is_done:
        try:
            for cells in csv.reader(texts_of_record(), delimiter=delimiter, strict=True):
                # The library accepts a quotation mark inside of an unquoted cell as a character; it
                # is an error here.
                text = "".join(line for _, line in taken)
                # Old Macs ended lines in carriage returns: then the first record does, too.
                ends_in_return = text.endswith("\r")
                of_old_macs = ends_in_return if of_old_macs is None else of_old_macs
                if ends_in_return and not of_old_macs:
                    raise csv.Error("a carriage return in a cell without quotation marks")
                if '"' in text and not record.fullmatch(text):
                    raise csv.Error("a quotation mark in a cell without quotation marks around it")
                if len(taken) > 1 and form.quoting is None:
                    diagnosis.refuse_joined_rows(path, taken, delimiter, len(cells))
                yield taken[0][0], cells
                taken.clear()
            is_done = True
        except csv.Error as e:
            # This reader cannot continue; another one begins behind the first line.
            hint = diagnosis.of_quotation_marks(lines, delimiter)
            yield taken[0][0], _reason(e) + hint
            again.extendleft(reversed(taken[1:]))
            taken.clear()


def _reason(error: csv.Error) -> str:
    if "field limit" in str(error):
        return (
            f"a cell of more than {LONGEST_CELL:,} characters; is a quotation mark before it not "
            "closed?"
        )
    if str(error) == "unexpected end of data":
        return "not CSV: a quotation mark that is not closed"
    if "expected after" in str(error):
        return "not CSV: text behind a closing quotation mark"
    return f"not CSV: {error}"


def is_blank(cells: Any) -> bool:
    """Whether a record has empty cells only, or is an empty line."""
    return isinstance(cells, list) and not any(
        cell.strip() if isinstance(cell, str) else cell is not None for cell in cells
    )


# --- JSON


def read_json_lines(path: str, lines: Lines, form: Form) -> Table:
    """JSON lines, an object on each line; the column "a.b" is the key b in the object of a."""

    def rows() -> Iterator[tuple[str, Any]]:
        for place, value in json_lines(path, lines):
            cells = [] if value is EMPTY_LINE else plain_object(value)
            yield place, cells + hint if isinstance(cells, str) else cells

    hint = diagnosis.of_json_lines(lines)
    return Table(None, rows())


def json_lines(path: str, lines: Lines) -> Iterator[tuple[str, Any]]:
    """Yields (place, value) of each line: what its JSON is, its ValueError, or `EMPTY_LINE`."""
    values = (
        (number, parsed(line) if line.strip() else EMPTY_LINE)
        for number, line in enumerate(lines, 1)
    )
    return by_line(path, values)


def read_json(path: str, lines: Lines, form: Form) -> Table:
    """A list of objects, or an object whose `data` is a list of objects."""

    def rows() -> Iterator[tuple[str, Any]]:
        for place, value in json_items(path, lines):
            cells = plain_object(value)
            yield place, cells + diagnosis.of_json_item(value) if isinstance(cells, str) else cells

    return Table(None, rows())


def json_items(path: str, lines: Lines) -> Iterator[tuple[str, Any]]:
    """Yields (place, value) of the items of a list, or of the list `data` of an object."""
    if lines.start().startswith("["):
        prefix = "item"
    elif json_stream.event_at(lines.chunks(), "data") == "start_array":
        prefix = "data.item"
        try:
            json_stream.check_top_level(lines.chunks())
        except ValueError as e:
            raise UserError(f"{path}: {e}") from None
    else:
        raise UserError(
            f"{path}: expected a list of JSON objects, or an object whose data is that list"
            + diagnosis.of_json(lines)
        )
    number = 0
    try:
        for number, value in enumerate(json_stream.items(lines.chunks(), prefix), 1):
            yield f"{path}: item {number}", value
        return
    except ValueError:
        pass
    # The incremental parser supports neither NaN nor integers of any size: parse the file at once.
    found = parsed("".join(lines.chunks()))
    if isinstance(found, ValueError):
        raise UserError(f"{path}: {found}{diagnosis.of_json(lines)}") from None
    values = found if prefix == "item" else found["data"]
    for i in range(number, len(values)):
        yield f"{path}: item {i + 1}", values[i]


def parsed(text: str) -> Any:
    """The value of JSON, in which NaN is null, or its ValueError."""
    try:
        return files.parse_json(text, has_rows=True)
    except ValueError as e:
        return ValueError(f"not valid JSON: {e}")


def plain_object(value: Any, depth: int = 1) -> Any:
    """Flattens an object: {"a": {"b": 1}} becomes {"a.b": 1}. Anything but an object gives an
    error, a str."""
    if isinstance(value, ValueError):
        return str(value)
    if not isinstance(value, dict):
        return f"expected a JSON object, found {type(value).__name__}"
    if depth > _DEEPEST:
        return "nested too deeply"
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        key = encodings.composed(key)
        if not isinstance(inner, dict):
            found = {key: inner}
        else:
            below = plain_object(inner, depth + 1)
            if isinstance(below, str):
                return below
            found = {f"{key}.{name}": each for name, each in below.items()}
        for name, each in found.items():
            if name in flat:
                return f"the key '{name}' twice"
            flat[name] = each
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
            f"{path}: a Parquet file, which pyarrow reads; install it: pip install pyarrow, "
            "or convert the file to CSV or JSON lines"
        ) from None
    try:
        return parquet.ParquetFile(opened())
    except pyarrow.ArrowException as e:
        raise UserError(f"{path}: not a Parquet file: {str(e).splitlines()[0]}") from None


def parquet_objects(path: str, stored: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, object of JSON) of the rows of a file of `parquet_file`."""
    import pyarrow

    for name, count in collections.Counter(stored.schema_arrow.names).most_common(1):
        if count > 1:
            raise UserError(f"{path}: {count} columns are called '{name}'; expected one")
    try:
        batches = stored.iter_batches(batch_size=1000)
        rows = (row for batch in batches for row in _rows_of(path, batch))
        for number, row in enumerate(rows, 1):
            yield f"{path}: row {number}", _as_json(row)
    except (pyarrow.ArrowException, OSError) as e:
        raise UserError(f"{path}: a damaged Parquet file: {str(e).splitlines()[0]}") from None


def _rows_of(path: str, batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a batch of pyarrow."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns):
        try:
            columns.append(column.to_pylist())
        except (ValueError, OverflowError, LookupError) as e:
            # Such as nanoseconds, dates after the year 9999, time zones that nobody knows.
            raise UserError(
                f"{path}: column '{name}' ({column.type}) has a value that cannot be read: "
                f"{str(e).splitlines()[0].rstrip('.')}; leave the column out, or make it text"
            ) from None
    for values in zip(*columns):
        yield dict(zip(batch.schema.names, values))


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

    def rows() -> Iterator[tuple[int, Any]]:
        for number, line in enumerate(lines, 1):
            cells: Any = line.split("\t") if line.strip() else []
            if cells and len(cells) != len(form.names):
                cells = f"{len(cells)} column(s), expected {len(form.names)}"
            elif "\r" in line:
                cells = RETURN_INSIDE
            yield number, cells

    return Table(form.names, by_line(path, rows()))


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
