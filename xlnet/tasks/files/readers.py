"""Tables from files of every form: TSV, CSV, JSON lines, Parquet, plain lines, fastText's lines,
directories. Forms of one task type are with its reader.

A `Task` knows the meaning of columns; `parsing` makes rows of tables, `decoding` text of bytes.
"""

from __future__ import annotations

import collections
import csv
import functools
import glob
import gzip
import itertools
import json
import logging
import os
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple, Optional

from xlnet import files, tables
from xlnet.errors import UserError
from xlnet.tasks.files import decoding, faults, json_stream, row_store
from xlnet.tasks.types.task import Task

_log = logging.getLogger(__name__)

_FASTTEXT_MARK = "__label__"                # before each label of a line
_FASTTEXT_LABEL = re.compile(r"(?<!\S)%s(\S*)\s*" % _FASTTEXT_MARK)
_NAMES_SHOWN = 20                           # of what a directory has

# columns: names. rows: iterator of (place, values); values are a list aligned with the columns, of
# str, None or any value of JSON; or a str, the error of a row that cannot be read. where: function
# from place to text. sources: dict of query to `Row.source` of its first row, which removes it.
Table = collections.namedtuple("Table", "columns rows where sources", defaults=(None,))


def to_text(value: Any) -> str:
    """Text of a cell; numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(to_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


# --- Which file

class Paths(str):
    """Several files that are read as one; as a str, their paths with commas between."""
    each: tuple[str, ...]

    @classmethod
    def of(cls, patterns: str, what: str) -> str:
        """The files of paths and glob patterns with commas between; a plain str if it is one.

        Args:
          patterns: the value of a flag.
          what: the flag, for errors.

        Raises:
          UserError: one of them does not exist.
        """
        found: list[str] = []
        parts = [patterns] if os.path.exists(patterns) else patterns.split(",")
        for pattern in filter(None, map(str.strip, parts)):
            there = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
            if not there:
                raise UserError("%s: no such file: %s%s" % (
                    what, pattern, _there(os.path.dirname(pattern) or ".")))
            for path in there:
                files.require_file(path, what)
            found += map(os.path.abspath, there)
        if not found:
            raise UserError("%s: '%s', expected the name of a file" % (what, patterns))
        paths = cls(", ".join(found))
        paths.each = tuple(dict.fromkeys(found))
        return paths if len(paths.each) > 1 else found[0]


def each_path(path: str) -> tuple[str, ...]:
    """The paths of one file, or of several that are read as one."""
    return path.each if isinstance(path, Paths) else (path,)


def _there(directory):
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return "; found there: %s%s" % (", ".join(names[:_NAMES_SHOWN]), ", ..." if len(
        names) > _NAMES_SHOWN else "") if names else ""


def require_file(data_dir: str, names: Any, split: str) -> str:
    """As `find_file`.

    Raises:
      UserError: no such file exists; the message lists the names and the files that do.
    """
    path = find_file(data_dir, names)
    if isinstance(path, Paths) or os.path.exists(path):
        return path
    raise UserError("data_dir: no such file: %s; split %s is expected as %s%s; or name it with "
                    "--%s_file" % (path, split, " or ".join((names,) if isinstance(
                        names, str) else names), _there(data_dir), split.partition("_")[0]))


def find_file(data_dir: str, names: Any) -> str:
    """The path of the first of `names` that exists, else of the first; a str is one name."""
    if isinstance(names, Paths):
        return names
    paths = [os.path.join(data_dir, name) for name in
             ((names,) if isinstance(names, str) else names)]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def stem(path: str) -> str:
    """A path without its extension and the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[0]


def extension(path: str) -> str:
    """The extension of a file, in lower case, before the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[1][1:].lower()


_IN_QUOTES = re.compile(r'"[^"]*("|\Z)')

# Forms that are not read, and the command that converts them.
_PANDAS = "python -c \"import pandas; pandas.read_excel('%s').to_csv('%s.csv', index=False)\""
FOREIGN = ("xlsx", "xls", "ods")
_STARTS = {b"PK\x03\x04": "xlsx", b"PAR1": "parquet", b"\xd0\xcf\x11\xe0": "xls"}


# --- Forms of files

def read_table(task: Task, path: str, header: Optional[Sequence[str]] = None,
               form: Optional[str] = None, skips: bool = False) -> Table:
    """Returns the `Table` of a file, a directory, or the standard input ("-").

    Args:
      header: column names, for a file without a line of them.
      form: a key of `FORMS`; None: from the extension.
      skips: a row that cannot be read becomes an error in the table, instead of a `UserError`.
    """
    if path != "-" and os.path.isdir(path) and task.tree:
        return {**TREES, **task.reader.trees}[task.tree](task, path)
    form = form or extension(path)
    file = opened(path, "task %s" % task.name)
    form = _STARTS.get(file.read(4), form)
    if form in FOREIGN:
        raise UserError("%s: a spreadsheet (.%s); save it as CSV, UTF-8; expected CSV, TSV, JSON "
                        "lines or Parquet, or convert it: %s" % (
                            path, form, _PANDAS % (path, stem(path))))
    if form == "parquet":
        return _read_parquet(path, file)
    forms = {**FORMS, **task.reader.forms}
    if form not in forms:
        raise UserError("%s: unknown form '%s'; expected one of %s" % (
            path, form, ", ".join(forms)))
    return forms[form](task, path, _lines(path, file, task.encoding, skips), header, skips)


def read_lines(path: str, what: str, encoding: Optional[str] = None,
               skips: bool = False) -> decoding.Lines:
    """The lines of a file, or of the standard input ("-").

    Args:
      what: its role in errors.
      encoding: of its text; None: UTF-8, or as the file shows.
      skips: as of `Lines`.
    """
    return _lines(path, opened(path, what), encoding, skips)


def _lines(path, file, encoding=None, skips=False):
    lines = decoding.Lines(path, file, encoding, skips)
    start = lines.start()
    if not start:
        raise UserError("%s: the file is empty" % path)
    # Excel for the Mac wrote line feeds in quoted cells.
    if "\r" in start and "\r\n" not in start and "\n" not in _IN_QUOTES.sub("", start):
        _note(path, "with lines that end in a carriage return")
        lines.ends_in_returns = True
    return lines


def opened(path: str, what: str) -> IO[bytes]:
    """A file that can be read several times: a temporary one for the standard input and for the
    content of a compressed file."""
    if path == "-":
        file = row_store.temporary_copy(sys.stdin.buffer)
    else:
        files.require_file(path, what)
        file = open(path, "rb")
    is_compressed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    if not is_compressed:
        return file
    try:
        return row_store.temporary_copy(gzip.GzipFile(fileobj=file))
    except (EOFError, OSError, zlib.error) as e:
        raise UserError("%s: not a complete .gz file: %s" % (path, e)) from None


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


def _read_tsv(task, path, lines, header, skips):
    """Cells between tabs. Quotation marks are characters of the text, unless cells are quoted as
    pandas and spreadsheet programs write them; or CSV, if the columns' names have other delimiters
    between them."""
    if _is_fasttext(lines):
        return _read_fasttext(task, path, lines)
    dialect = _find_dialect(task, path, lines, header, "\t")
    if dialect.delimiter != "\t" or dialect.quotechar != '"' \
            or task.quoted and _is_quoted(path, lines):
        return _read_csv(task, path, lines, header, skips, dialect)
    return _table(task, path, header, ((number, line.split("\t")) for number, line in enumerate(
        lines, 1) if number > dialect.skipped), skips)


def _read_csv(task, path, lines, header, skips, dialect=None):
    """Cells between commas, or the delimiter between the names of the columns; in quotation marks
    if they contain it, or line breaks."""
    dialect = _refined(
        path, lines, dialect or _find_dialect(task, path, lines, header, ","))
    return _table(task, path, header, _quoted_rows(path, lines, dialect, skips), skips)


def _refined(path, lines, dialect):
    """The dialect with which all rows of a file have the same width: without spaces after a
    delimiter, or with backslashes before quotation marks, if the file has them."""
    quote = dialect.quotechar
    spaced, escaped = dialect.delimiter + " " + quote, "\\" + quote
    has_spaced = has_escaped = False
    for line in lines:
        has_spaced, has_escaped = has_spaced or spaced in line, has_escaped or escaped in line
    for escapechar in (None, "\\") if has_escaped else (None,):
        for skips_space in (True, False) if has_spaced else (False,):
            candidate = dialect._replace(skipinitialspace=skips_space, escapechar=escapechar)
            if (has_spaced or has_escaped) and _fits(lines, candidate):
                if escapechar:
                    _note(path, "with a backslash before quotation marks in a cell")
                return candidate
    return dialect


def _fits(lines, dialect):
    """Whether all rows of a file are CSV of this dialect and as wide as the first."""
    rows = (row for _, row in tables.rows(itertools.islice(
        enumerate(lines), dialect.skipped, None), **dialect.options()) if any(row))
    first: Any = next(rows, [])
    return all(isinstance(row, list) and len(row) == len(first)
               for row in itertools.chain([first], rows))


def _is_quoted(path, lines):
    found, line = tables.is_quoted(lines)
    if line is not None:
        _log.warning("note: %s: quotation marks are read as text, as line %d has one in a cell "
                     "without quotation marks around it", path, line)
    return found


def _quoted_rows(path, lines, dialect, skips):
    """Yields the line at which each row begins, and the row, or the error if it is not CSV."""
    numbered = itertools.islice(enumerate(lines, 1), dialect.skipped, None)
    for number, row in tables.rows(numbered, **dialect.options()):
        if isinstance(row, str) and not skips:
            faults.refuse([("%s:%d" % (path, number), row)])
        yield number, row


def _table(task, path, header, rows, skips):
    """The `Table` of rows (line, cells); the first one has the columns' names unless `header` does.
    Rows without text, as spreadsheets leave them at the end, do not count."""
    rows = _without_blank(path, rows, skips)
    line, cells = next(rows, (1, [""]))
    if isinstance(cells, str):
        faults.refuse([("%s:%d" % (path, line), cells)])
    header = header or _known_header(task, path, cells)
    if header:
        return Table(header, itertools.chain([(line, cells)], rows), by_line(path))
    return Table(_names(cells), rows, by_line(path))


def _without_blank(path, rows, skips):
    """The rows that are not empty; with `skips`, empty ones before others stay, as errors."""
    blank, count, first = [], 0, 0
    for line, cells in rows:
        if not isinstance(cells, str) and not any(cell.strip() for cell in cells):
            first, count = first or line, count + 1
            blank.append((line, cells))
            continue
        if skips:
            count -= len(blank)
            yield from blank
        blank.clear()
        yield line, cells
    if count:
        _note(path, "without %d empty row(s), the first one in line %d" % (count, first))


def by_line(path: str) -> Callable[[int], str]:
    """A `Table.where` if places are lines."""
    return lambda line: "%s:%d" % (path, line)


def _known_header(task, path, first):
    """The columns of a known task's file without a line of names, recognized by its width and its
    first label, if it has one; None for other files."""
    if _has_texts(task, _names(first)):
        return None
    for names in task.headers.values():
        label = [first[names.index(name)] for name in task.label
                 if name in names and len(names) == len(first)]
        if label and not (label[0].strip() and task.reader.parse_label(label)[1]):
            _note(path, "without a line of names; columns are %s" % ", ".join(names))
            return names
    return None


def _names(cells):
    return [cell.strip() for cell in cells]


def _has_texts(task, names):
    """Whether the columns of the texts are among the names of a file's columns."""
    return not isinstance(names, str) and {*task.text_a, *task.text_b, *task.choices} <= {
        task.renamed.get(name, name) for name in names}


_DELIMITERS = (",", ";", "\t", "|")
_EXCELS_LINE = re.compile(r'"?sep=(.)"?\1*', re.IGNORECASE)


def _find_dialect(task, path, lines, header, usual):
    """The dialect with which the first line has the columns' names, or as many cells as `header`;
    if there is none, with the usual delimiter. Before it may be Excel's line `sep=;`, which names
    the delimiter."""
    skipped, first = next(pair for pair in enumerate(lines) if pair[1].strip())
    named = _EXCELS_LINE.fullmatch(first)
    skipped += bool(named)
    beginning = list(itertools.islice(lines, skipped, skipped + tables.LINES_OF_A_ROW))
    given = task.delimiter or named and named[1]

    def is_header(cells):
        return len(cells) == len(header) if header else _has_texts(task, _names(cells))

    for quote in ('"', "'"):
        for delimiter in (given,) if given else (usual, *_DELIMITERS):
            dialect = _Dialect(delimiter, quote, skipped=skipped)
            if is_header(_first_quoted(beginning, dialect)) or delimiter == "\t" and is_header(
                    "".join(beginning[:1]).split("\t")):
                if delimiter != usual and (named or not given):
                    _note(path, "with columns between '%s'" % delimiter.replace("\t", "\\t"))
                return dialect
    return _Dialect(given or usual, skipped=skipped)


def _first_quoted(lines, dialect):
    """The cells of the first row as CSV of this dialect; [] if it is not CSV."""
    try:
        return next(csv.reader((line + "\n" for line in lines), **dialect.options()), [])
    except csv.Error:
        return []


@functools.cache      # once for each file, however often it is read
def _note(path, how):
    _log.info("%s is read %s", path, how)


def _read_json(task, path, lines, header, skips):
    """A JSON object on each line, or a list of objects; "a.b" is the key b in the object of a."""
    if lines.start().startswith("["):
        return _table_of_values(functools.partial(_items, path, lines),
                                lambda i: "%s: item %d" % (path, i))
    return _table_of_values(functools.partial(_line_values, lines, skips), by_line(path))


def _table_of_values(values, where):
    """The `Table` of objects; values: function that returns an iterator of (place, object or
    error)."""
    columns: dict[str, None] = {}
    for _, value in values():
        if isinstance(value, dict):
            columns.update(dict.fromkeys(value))
    if not columns:
        faults.refuse([(where(place), value if isinstance(value, str) else "an object without keys")
                       for place, value in values()]
                      or [(where(1), "expected a JSON object, found none")])
    return Table(list(columns), (
        (place, list(map(value.get, columns)) if isinstance(value, dict) else value)
        for place, value in values()), where)


def _read_parquet(path, file):
    """The rows of a Parquet file, an object each."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("%s: a Parquet file, which pyarrow reads; install it: pip install pyarrow, "
                        "or convert the file to CSV or JSON lines" % path) from None
    try:
        stored = parquet.ParquetFile(file)
    except pyarrow.ArrowException as e:
        raise UserError("%s: not a Parquet file: %s" % (path, str(e).splitlines()[0])) from None
    if not stored.metadata.num_rows:
        raise UserError("%s: the file has no rows" % path)

    def values():
        batches = (batch.to_pylist() for batch in stored.iter_batches(batch_size=1000))
        return enumerate(map(_flat, itertools.chain.from_iterable(batches)), 1)
    return _table_of_values(values, lambda i: "%s: row %d" % (path, i))


def _line_values(lines, skips):
    """Yields (line, its object with plain keys or an error); an empty line is an error if the
    predictions for rows with errors are to be aligned with the file."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, parse_object(line)
        elif skips:
            yield number, "expected a JSON object, found an empty line"


def _items(path, lines):
    """Yields (number, item with plain keys or an error) of a list."""
    try:
        for number, value in enumerate(json_stream.items(lines.chunks(), "item"), 1):
            yield number, _flat(value)
    except ValueError as e:
        raise not_json(path, lines, e) from None


def not_json(path: str, lines: decoding.Lines, error: ValueError, after: str = "") -> UserError:
    """The error for one of `json_stream`, with its line and column if the parser of the standard
    library finds it, too; after: what was read before."""
    try:
        files.parse_json("".join(lines.chunks()))
    except ValueError as e:
        error = e
    return UserError("%s: not valid JSON: %s%s" % (
        path, error, ", after " + after if after else ""))


def parse_object(line: str) -> Any:
    """A JSON object with plain keys; the error, a str, for anything else."""
    try:
        return _flat(files.parse_json(line))
    except ValueError as e:
        return "not valid JSON: %s" % e


_DEEPEST = 20           # objects in each other


def _flat(value, depth=1):
    """{"a": {"b": 1}} to {"a.b": 1}; the error, a str, for anything but an object."""
    if not isinstance(value, dict):
        return "expected a JSON object, found %s" % type(value).__name__
    if not any(isinstance(inner, dict) for inner in value.values()):
        return value
    if depth == _DEEPEST:
        raise ValueError("nested too deeply")
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, dict):
            flat.update(("%s.%s" % (key, name), each)
                        for name, each in _flat(inner, depth + 1).items())
        else:
            flat[key] = inner
    return flat


# --- Lines

def _read_plain(task, path, lines, header, skips):
    """A text on each line, with tabs between the texts of a pair or the answers of a choice; or
    fastText's lines, JSON lines or a table with the columns' names."""
    if _is_fasttext(lines):
        return _read_fasttext(task, path, lines)
    start = next(filter(str.strip, lines))
    if start.startswith("{") and _has_texts(task, parse_object(start)):
        _note(path, "as JSON lines")
        return FORMS["jsonl"](task, path, lines, header, skips)
    for delimiter in _DELIMITERS:
        names = start.split(delimiter)
        # Prose has a space after a comma.
        if len(names) > 1 and _has_texts(task, names if delimiter == "," else _names(names)):
            return _read_tsv(task, path, lines, header, skips)
    # Texts that are joined from several columns are one column here.
    columns = [*task.text_a[:1], *task.text_b[:1], *task.choices]
    joined = [*task.text_a[1:], *task.text_b[1:]]

    def rows():
        for number, line in enumerate(lines, 1):
            cells = line.split("\t")
            yield number, cells + [None] * len(joined) if len(cells) == len(columns) else \
                "%d column(s), expected %d" % (len(cells), len(columns))
    return Table(columns + joined, rows(), by_line(path))


def _is_fasttext(lines):
    """Whether the first line begins with a label as fastText writes it, or one of the first lines
    has such a label and none has columns."""
    first = lines.first(tables.LINES_OF_A_ROW)
    return bool(_FASTTEXT_LABEL.match(first[0])) or any(
        map(_FASTTEXT_LABEL.search, first)) and not any("\t" in line for line in first)


def _read_fasttext(task, path, lines):
    """Labels, each after a mark, anywhere in a line of text: `__label__pos Fine.`"""
    return Table(
        [*task.label[:1], *task.text_a[:1]],
        ((number, [_FASTTEXT_LABEL.findall(line), _FASTTEXT_LABEL.sub("", line).strip()])
         for number, line in enumerate(lines, 1)), by_line(path))


# By name, which is also a file's extension; "text": texts without labels.
FORMS = {"tsv": _read_tsv, "txt": _read_tsv, "csv": _read_csv, "jsonl": _read_json,
         "ndjson": _read_json, "json": _read_json, "text": _read_plain}


# --- Forms of directories

def _read_folders(task, path):
    """A text in each file, whose folder is named after its label: LABEL/NAME.txt."""
    found = [(label, file) for label in task.class_names
             for file in texts_in(os.path.join(path, label), task)]

    def rows():
        for label, file in found:
            name = os.path.basename(file)[:-len(".txt")]
            yield file, ["%s/%s" % (label, name), label, text_of(file, task)]
    return Table([task.id, *task.label, *task.text_a], rows(), str)


TREES = {"folders": _read_folders}


def texts_in(directory: str, task: Task) -> list[str]:
    """The paths of the texts in a directory, sorted by the numbers in names: 9_1.txt, 10_1.txt."""
    if not os.path.isdir(directory):
        raise UserError("task %s: no such directory: %s" % (task.name, directory))
    names = (name for name in os.listdir(directory) if name.endswith(".txt"))
    return [os.path.join(directory, name) for name in sorted(names, key=lambda name: [
        int(part) if i % 2 else part for i, part in enumerate(re.split("([0-9]+)", name))])]


def text_of(path: str, task: Task) -> str:
    """The text of a file."""
    with open(path, "rb") as file:
        return "\n".join(decoding.Lines(path, file, task.encoding))
