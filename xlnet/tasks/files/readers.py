"""Tables from files of every form: TSV, CSV, JSON lines, Parquet, plain lines, fastText's lines,
directories. Forms of one task type are with its reader.

What a row goes through, in this order:

1. `decoding` makes lines of a file's bytes: unpacked, in UTF-8 or another encoding.
2. `read_table` chooses a function of `FORMS`, by the extension or as given.
3. That function makes a `Table`: the columns' names, and an iterator of rows, each with the place
   that an error names. A row that cannot be read is the error.
4. `parsing` makes a `Row` of each: its texts, then its label by the methods of the task's `Reader`,
   which also look at the row among the others. A `Task` knows the meaning of columns.
5. `row_store` keeps the rows, on disk if they are many.
"""

from __future__ import annotations

import collections
import itertools
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

from xlnet import encodings, files, json_stream, tables
from xlnet.errors import UserError, did_you_mean
from xlnet.tasks.files import decoding
from xlnet.tasks.task import Task

_log = logging.getLogger(__name__)

_FASTTEXT_MARK = "__label__"  # before each label of a line
# Between labels are spaces, commas or both; a comma inside of a name stays.
_FASTTEXT_LABEL = re.compile(
    r"(?<![^\s,])%s(\S*?)(?:,+(?=\s|%s|$)|(?=\s|$))\s*" % (2 * (_FASTTEXT_MARK,))
)
_NAMES_SHOWN = 20  # of what a directory has

# columns: names; None: each row has its own. rows: iterator of (place, values); values are a list
# aligned with the columns, or a dict by name, of str, None or any value of JSON; or a str, the
# error of a row that cannot be read.
Table = collections.namedtuple("Table", "columns rows")


def column(path: str, name: str, columns: Sequence[str]) -> int:
    """The index of a column in a file; raises UserError unless exactly one has its name."""
    if name not in columns:
        raise UserError(f"{path}: {no_column(name, columns)}")
    if columns.count(name) > 1:
        raise UserError(f"{path}: {columns.count(name)} columns are called '{name}'; expected one")
    return columns.index(name)


def no_column(name: str, columns: Iterable[str]) -> str:
    """The error that a column is missing."""
    return "no column '{}'{} (columns: {!s:.300})".format(
        name, did_you_mean(name, columns), ", ".join(columns)
    )


def to_text(value: Any) -> str:
    """Text of a cell; numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(to_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def to_number(text: str) -> float:
    """The number in a text; NaN if it is not one. Python's own form 1_000 is not."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


# --- Which file


class Paths(str):
    """Several files that are read as one; as a str, their paths with commas between."""

    each: tuple[str, ...]

    @classmethod
    def of(cls, patterns: str, what: str) -> str:
        """The files of paths and glob patterns with commas between, a plain str if it is one. what:
        the flag, for errors."""
        found: list[str] = []
        parts = [patterns] if os.path.exists(patterns) else patterns.split(",")
        for pattern in filter(None, map(str.strip, parts)):
            matching = files.matching(pattern)
            if not matching:
                raise UserError(
                    "{}: no such file: {}{}".format(
                        what, pattern, there(os.path.dirname(pattern) or ".")
                    )
                )
            for path in matching:
                files.require_file(path, what)
            found += map(os.path.abspath, matching)
        if not found:
            raise UserError(f"{what}: '{patterns}', expected the name of a file")
        paths = cls(", ".join(found))
        paths.each = tuple(dict.fromkeys(found))
        return paths if len(paths.each) > 1 else found[0]


def each_path(path: str) -> tuple[str, ...]:
    """The paths of one file, or of several that are read as one."""
    return path.each if isinstance(path, Paths) else (path,)


def there(directory: str) -> str:
    """ "; found there: a.csv, ...", the files in a directory, for errors; "" if there are none."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return (
        "; found there: {}{}".format(
            ", ".join(names[:_NAMES_SHOWN]), ", ..." if len(names) > _NAMES_SHOWN else ""
        )
        if names
        else ""
    )


def require_file(data_dir: str, names: Any, split: str) -> str:
    """As `find_file`; raises UserError with the names and the files that exist if there is none."""
    path = find_file(data_dir, names)
    if isinstance(path, Paths) or os.path.exists(path):
        return path
    raise UserError(
        "data_dir: no such file: {}; split {} is expected as {}{}; or name it with "
        "--{}_file".format(
            path,
            split,
            " or ".join((names,) if isinstance(names, str) else names),
            there(data_dir),
            split.partition("_")[0],
        )
    )


def find_file(data_dir: str, names: Any) -> str:
    """The path of the first of `names` that exists, else of the first; a str is one name."""
    if isinstance(names, Paths):
        return names
    paths = [
        os.path.join(data_dir, name) for name in ((names,) if isinstance(names, str) else names)
    ]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def stem(path: str) -> str:
    """A path without its extension and the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[0]


def extension(path: str) -> str:
    """The extension of a file, in lower case, before the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[1][1:].lower()


FOREIGN = ("xlsx", "xls", "ods")  # forms that are not read


# --- Forms of files


def read_table(task: Task, path: str, form: Optional[str] = None) -> Table:
    """The `Table` of a file, a directory, or the standard input ("-"). form: a key of `FORMS`;
    None: from the extension."""
    if path != "-" and os.path.isdir(path) and task.directory_form:
        return {**DIRECTORY_FORMS, **task.reader.directory_forms}[task.directory_form](task, path)
    role = f"task {task.name}"
    opened = decoding.opener(path, role)
    with opened() as file:
        form = "parquet" if file.read(4) == b"PAR1" else form or extension(path)
    if form in FOREIGN:
        raise UserError("{}: {}".format(path, encodings.spreadsheet(path, "a spreadsheet")))
    forms = {**FORMS, **task.reader.forms}
    if form not in forms:
        raise UserError(
            "{}: unknown form '{}'; expected one of {}".format(path, form, ", ".join(forms))
        )
    if form == "parquet":
        return forms[form](task, path, opened)
    return forms[form](task, path, read_lines(path, role, task.encoding, task.skips_errors, opened))


def read_lines(
    path: str, what: str, encoding: Optional[str] = None, skips: bool = False, opened: Any = None
) -> decoding.Lines:
    """The lines of a file, or of the standard input ("-"); what: its role in errors."""
    lines = decoding.Lines(path, opened or decoding.opener(path, what), encoding, skips)
    if not lines.start():
        raise UserError(f"{path}: the file is empty")
    return lines


# --- Columns separated by a delimiter


class _Dialect(NamedTuple):
    """How cells are written: arguments of `csv.reader`. skipped: lines before the header."""

    delimiter: str
    quotechar: str = '"'
    skipinitialspace: bool = False
    escapechar: Optional[str] = None
    skipped: int = 0

    def options(self):
        return dict(zip(self._fields[:-1], self))


def _read_tsv(task, path, lines):
    """Cells between tabs, or CSV, if the columns' names have other delimiters between them."""
    if _is_fasttext(lines):
        return _read_fasttext(task, path, lines)
    dialect = _find_dialect(task, path, lines, "\t")
    if dialect.delimiter != "\t" or dialect.quotechar != '"':
        return _read_csv(task, path, lines, dialect)
    # Quotation marks are characters of the text, unless cells are quoted as pandas and spreadsheet
    # programs write them.
    if task.quoted:
        is_quoted, line = tables.is_quoted(lines)
        if line is not None:
            _log.warning(
                "note: %s: quotation marks are read as text, as line %d has one in a cell "
                "without quotation marks around it",
                path,
                line,
            )
        if is_quoted:
            return _read_csv(task, path, lines, dialect)
    return _table(
        task,
        path,
        (
            (number, line.split("\t"))
            for number, line in enumerate(lines, 1)
            if number > dialect.skipped
        ),
    )


def _read_csv(task, path, lines, dialect=None):
    """Cells between commas, or the delimiter between the names of the columns; in quotation marks
    if they contain it, or line breaks."""
    if dialect is None and _FASTTEXT_LABEL.match(lines.first(1)[0]):
        return _read_fasttext(task, path, lines)
    dialect = _refined(path, lines, dialect or _find_dialect(task, path, lines, ","))

    def rows():
        # The line at which a row begins, and the row, or the error if it is not CSV.
        numbered = itertools.islice(enumerate(lines.with_returns(), 1), dialect.skipped, None)
        for number, row in tables.rows(numbered, **dialect.options()):
            if isinstance(row, str) and not task.skips_errors:
                raise UserError(f"{path}:{number}: {row}")
            yield number, row

    return _table(task, path, rows())


def _refined(path, lines, dialect):
    """The dialect with which all rows of a file have the same width: without spaces after a
    delimiter, or with backslashes before quotation marks, if the file has them."""

    def fits(candidate):
        rows = (
            row
            for _, row in tables.rows(
                itertools.islice(enumerate(lines), candidate.skipped, None), **candidate.options()
            )
            if any(row)
        )
        first: Any = next(rows, [])
        return all(
            isinstance(row, list) and len(row) == len(first)
            for row in itertools.chain([first], rows)
        )

    quote = dialect.quotechar
    has_spaced, has_escaped = (
        any(mark in line for line in lines)
        for mark in (dialect.delimiter + " " + quote, "\\" + quote)
    )
    for escapechar in (None, "\\") if has_escaped else (None,):
        for skips_space in (True, False) if has_spaced else (False,):
            candidate = dialect._replace(skipinitialspace=skips_space, escapechar=escapechar)
            if fits(candidate):
                if escapechar:
                    decoding.note(path, "with a backslash before quotation marks in a cell")
                return candidate
    return dialect


def _table(task, path, rows):
    """The `Table` of rows (line, cells)."""
    places = by_line(path, itertools.dropwhile(lambda row: is_blank(row[1]), rows))
    place, cells = next(places, (f"{path}:1", [""]))
    if isinstance(cells, str):
        raise UserError(f"{place}: {cells}")
    # The first row has the columns' names, unless the task has their numbers, or it is one of an
    # official file without names: as wide as these, with a label or none.
    if _has_numbers(task, _names(cells)):
        decoding.note(path, "with columns by number: its first line is an example")
        return Table(
            [str(i + 1) for i in range(len(cells))], itertools.chain([(place, cells)], places)
        )
    if not _has_texts(task, _names(cells)) and len(cells) == len(task.header):
        label = [cells[task.header.index(name)] for name in task.label]
        if not (label[0].strip() and task.reader.parse_label(label)[1]):
            return Table(task.header, itertools.chain([(place, cells)], places))
    return Table(_names(cells), places)


def is_blank(cells: Any) -> bool:
    """Whether a row of a table has empty cells only."""
    return isinstance(cells, list) and not any(
        cell.strip() if isinstance(cell, str) else cell is not None for cell in cells
    )


def by_line(path: str, rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[str, Any]]:
    """The rows of a `Table`, of pairs of a line's number and its values."""
    return ((f"{path}:{number}", values) for number, values in rows)


def _names(cells):
    return [cell.strip() for cell in cells]


def _has_texts(task, names):
    """Whether the columns of the texts are among the names of a file's columns."""
    return not isinstance(names, str) and {*task.text_a, *task.text_b, *task.choices} <= {
        task.column_aliases.get(name, name) for name in names
    }


def _has_numbers(task, names):
    """Whether the task has numbers from 1 on of a file's columns of texts, instead of names."""
    wanted = {*task.text_a, *task.text_b, *task.choices}
    # A number may be a cell of the first example, in the place of the label, or a name: pandas has
    # 0, 1, 2.
    others = {name for i, name in enumerate(names, 1) if str(i) not in task.label}
    is_header = (
        wanted | set(task.label) <= set(names)
        or wanted <= others
        or wanted <= set(names)
        and any(names == [str(i) for i in range(first, first + len(names))] for first in (0, 1))
    )
    return (
        all(map(str.isdecimal, wanted))
        and not is_header
        and all(1 <= int(number) <= len(names) for number in wanted)
    )


_DELIMITERS = (",", ";", "\t", "|")
_EXCELS_LINE = re.compile(r'"?sep=(.)"?\1*', re.IGNORECASE)


def _find_dialect(task, path, lines, usual):
    """The dialect with which the first line has the columns' names, or as many cells as the task's
    header; if there is none, with the usual delimiter."""
    skipped, first = next(pair for pair in enumerate(lines) if pair[1].strip())
    # Excel writes a line `sep=;` before the table.
    named = _EXCELS_LINE.fullmatch(first)
    skipped += bool(named)
    beginning = list(itertools.islice(lines, skipped, skipped + tables.LINES_OF_A_ROW))
    given = task.delimiter or named and named[1]

    def is_header(cells):
        return isinstance(cells, list) and (
            len(cells) == len(task.header) > 0
            or _has_texts(task, _names(cells))
            or _has_numbers(task, _names(cells))
        )

    # The names that the task asks for decide, not the number of commas: if it asks for "text", the
    # line "text;label, old" is split at the semicolon.
    for quote in ('"', "'"):
        for delimiter in (given,) if given else (usual, *_DELIMITERS):
            dialect = _Dialect(delimiter, quote, skipped=skipped)
            _, cells = next(tables.rows(enumerate(beginning), **dialect.options()), (0, []))
            if (
                is_header(cells)
                or delimiter == "\t"
                and is_header("".join(beginning[:1]).split("\t"))
            ):
                if delimiter != usual and (named or not given):
                    decoding.note(
                        path, "with columns between '{}'".format(delimiter.replace("\t", "\\t"))
                    )
                return dialect
    return _Dialect(given or usual, skipped=skipped)


def _read_json(task, path, lines):
    """A JSON object on each line, or a list of objects, perhaps as the `data` of an object; "a.b"
    is the key b in the object of a."""
    values = json_values(path, lines, task.skips_errors)
    first = list(itertools.islice(values, 2))
    start = [value for _, value in first]
    # pandas' other forms: {"text": {"0": ...}}, {"text": [...]}, {"columns", "data": [[...]]}.
    if (
        start
        and isinstance(start[0], list)
        or len(start) == 1
        and isinstance(start[0], dict)
        and start[0]
        and all(isinstance(each, (dict, list)) for each in start[0].values())
    ):
        raise UserError(
            f"{path}: JSON of a table by columns, expected a list of objects or an object a "
            "line; write it with to_json(PATH, orient='records', lines=True)"
        )
    if len(start) == 1 and isinstance(start[0], dict) and not {*task.text_a} & {*start[0]}:
        for key, value in start[0].items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                raise UserError(
                    f"{path}: an object whose '{key}' is a list of objects; expected the list "
                    "alone, or as 'data'"
                )
    return Table(
        None, ((place, plain_object(value)) for place, value in itertools.chain(first, values))
    )


def _read_parquet(_, path, opened):
    """The rows of a Parquet file, an object each."""
    stored = parquet_file(path, opened)
    rows = (row for batch in stored.iter_batches(batch_size=1000) for row in batch.to_pylist())
    return Table(
        None,
        (
            (f"{path}: row {number}", plain_object(row))
            for number, row in enumerate(map(as_json, rows), 1)
        ),
    )


def parquet_file(path: str, opened: Any = None) -> Any:
    """A Parquet file as pyarrow reads it; opened: a function that opens it."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f"{path}: a Parquet file, which pyarrow reads; install it: pip install pyarrow, "
            "or convert the file to CSV or JSON lines"
        ) from None
    try:
        return parquet.ParquetFile((opened or decoding.opener(path, "Parquet"))())
    except pyarrow.ArrowException as e:
        raise UserError(f"{path}: not a Parquet file: {str(e).splitlines()[0]}") from None


def as_json(value):
    """A value of Parquet as one of JSON, None for NaN; bytes that are not UTF-8 as half
    surrogates."""
    if isinstance(value, dict):
        return dict(zip(value, map(as_json, value.values())))
    if isinstance(value, (list, tuple)):
        return list(map(as_json, value))
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    if value is None or value != value:
        return None
    return value if isinstance(value, (str, int, float)) else str(value)


def json_values(path: str, lines: decoding.Lines, skips: bool = False) -> Iterator[tuple]:
    """Yields (place, value, or the ValueError of a line) of the items of a list, or of the lines.
    skips: an empty line is an error, so that predictions for the lines are aligned with the
    file."""
    # Three forms: a list [{...}, {...}]; one object, {"data": [{...}]} or a single row; an object a
    # line. The prefix is where the parser of pieces finds the rows; None: on lines.
    prefix = None
    if re.match(r"\[(?!\s*\")", lines.start()):  # no list on each line
        prefix = "item"
    elif lines.start().lstrip().startswith("{"):
        start = lines.first(2)
        if start[0].rstrip()[-1] in "{[,:" or not start[1:]:
            # An object over several lines, or a single one.
            is_listed = json_stream.event_at(lines.chunks(), "data") == "start_array"
            prefix = "data.item" if is_listed else "" if start[1:] else None
    if prefix is not None:
        number = 0
        try:
            for number, value in enumerate(json_stream.items(lines.chunks(), prefix, True), 1):
                yield f"{path}: item {number}", value
        except ValueError:
            # The parser of pieces knows neither NaN nor integers of any size: all at once.
            all_values = parsed("".join(lines.chunks()))
            if isinstance(all_values, ValueError):
                raise UserError(f"{path}: {all_values}") from None
            if isinstance(all_values, dict):
                all_values = all_values["data"] if prefix else [all_values]
            for i in range(number, len(all_values)):
                yield f"{path}: item {i + 1}", all_values[i]
        return
    yield from by_line(
        path,
        (
            (
                number,
                parsed(line) if line.strip() else ValueError("expected JSON, found an empty line"),
            )
            for number, line in enumerate(lines, 1)
            if line.strip() or skips
        ),
    )


def not_json(path: str, lines: decoding.Lines, error: ValueError, after: str = "") -> UserError:
    """The error for one of `json_stream`, with its line and column if the parser of the standard
    library finds it, too; after: what was read before."""
    try:
        files.parse_json("".join(lines.chunks()))
    except ValueError as e:
        error = e
    return UserError(
        "{}: not valid JSON: {}{}".format(path, error, ", after " + after if after else "")
    )


def parsed(text: str) -> Any:
    """The value of JSON, in which NaN is null, or its ValueError."""
    try:
        return files.parse_json(text, has_rows=True)
    except ValueError as e:
        return ValueError(f"not valid JSON: {e}")


_DEEPEST = 20  # objects in each other


def plain_object(value: Any, depth: int = 1) -> Any:
    """{"a": {"b": 1}} to {"a.b": 1}; the error, a str, for anything but an object."""
    if isinstance(value, ValueError):
        return str(value)
    if not isinstance(value, dict):
        return f"expected a JSON object, found {type(value).__name__}"
    if depth > _DEEPEST:
        return "nested too deeply"
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if not isinstance(inner, dict):
            flat[key] = inner
            continue
        inner = plain_object(inner, depth + 1)
        if isinstance(inner, str):
            return inner
        flat.update((f"{key}.{name}", each) for name, each in inner.items())
    return flat


# --- Lines


def _read_plain(task, path, lines):
    """A text on each line, with tabs between the texts of a pair or the answers of a choice; or
    fastText's lines, JSON lines or a table with the columns' names."""
    if _is_fasttext(lines):
        return _read_fasttext(task, path, lines)
    start = next(filter(str.strip, lines))
    if start.startswith("{") and _has_texts(task, plain_object(parsed(start))):
        decoding.note(path, "as JSON lines")
        return FORMS["jsonl"](task, path, lines)
    for delimiter in _DELIMITERS:
        names = start.split(delimiter)
        # Prose has a space after a comma.
        if len(names) > 1 and _has_texts(task, names if delimiter == "," else _names(names)):
            return _read_tsv(task, path, lines)
    # Texts that are joined from several columns are one column here.
    columns = [*task.text_a[:1], *task.text_b[:1], *task.choices]
    joined = [*task.text_a[1:], *task.text_b[1:]]

    def rows():
        for number, line in enumerate(lines, 1):
            cells = line.split("\t")
            yield (
                number,
                cells + [None] * len(joined)
                if len(cells) == len(columns)
                else f"{len(cells)} column(s), expected {len(columns)}",
            )

    return Table(columns + joined, by_line(path, rows()))


def _is_fasttext(lines):
    first = lines.first(tables.LINES_OF_A_ROW)
    return (
        bool(_FASTTEXT_LABEL.match(first[0]))
        or any(map(_FASTTEXT_LABEL.search, first))
        and not any("\t" in line for line in first)
    )


def _read_fasttext(task, path, lines):
    """Labels, each after a mark, anywhere in a line of text: `__label__pos Fine.`"""
    return Table(
        [*task.label[:1], *task.text_a[:1]],
        by_line(
            path,
            (
                (number, [_FASTTEXT_LABEL.findall(line), _FASTTEXT_LABEL.sub("", line).strip()])
                for number, line in enumerate(lines, 1)
            ),
        ),
    )


# By name, which is also a file's extension; "text": texts without labels.
# The reader of "parquet" gets the function that opens the file instead of lines.
FORMS = {
    "tsv": _read_tsv,
    "txt": _read_tsv,
    "csv": _read_csv,
    "jsonl": _read_json,
    "ndjson": _read_json,
    "json": _read_json,
    "parquet": _read_parquet,
    "text": _read_plain,
}


# --- Forms of directories


def _read_folders(task, path):
    """A text in each file, whose folder is named after its label: LABEL/NAME.txt."""
    found = [
        (label, file)
        for label in task.class_names
        for file in texts_in(os.path.join(path, label), task)
    ]

    def rows():
        for label, file in found:
            name = os.path.basename(file)[: -len(".txt")]
            yield file, [f"{label}/{name}", label, text_of(file, task)]

    return Table([task.id, *task.label, *task.text_a], rows())


DIRECTORY_FORMS = {"folders": _read_folders}


def texts_in(directory: str, task: Task) -> list[str]:
    """The paths of the texts in a directory, sorted by the numbers in names: 9_1.txt, 10_1.txt."""
    if not os.path.isdir(directory):
        raise UserError(f"task {task.name}: no such directory: {directory}")
    names = (name for name in os.listdir(directory) if name.endswith(".txt"))
    return [
        os.path.join(directory, name)
        for name in sorted(
            names,
            key=lambda name: [
                int(part) if i % 2 else part for i, part in enumerate(re.split("([0-9]+)", name))
            ],
        )
    ]


def text_of(path: str, task: Task) -> str:
    """The text of a file."""
    return "\n".join(decoding.Lines(path, lambda: open(path, "rb"), task.encoding))
