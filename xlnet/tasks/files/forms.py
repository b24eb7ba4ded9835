"""Reads the records of a file in its declared form, converts their cells, and finds the file of a
split. A record is a dict of cells by the names of columns.

`declared_form` finds the form: of a flag, the extension of the name, or the task. `read` gives the
same records for the same data in every form. What a file contains never changes how it is read.

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
import dataclasses
import glob
import gzip
import io
import itertools
import json
import math
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, cast

from xlnet.corpus.tokenizer import is_text
from xlnet.support import errors, files
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.fields import Form, TaskFields

# What a file has: (place, cells) of each record. A place is what an error begins with:
# "train.csv:17". Cells are a dict by the names of columns, of str or any value of JSON, {} of a
# line without text; or, of a record that cannot be read, a str, its error.
Records = Iterator[tuple[str, Any]]

LONGEST_CELL = 1 << 24  # [characters]
_BLANKS = "[ \t]+"  # between the columns of conll, as a regular expression
# The forms with delimiters: form -> the delimiter where none is declared.
DELIMITERS = {"csv": ",", "tsv": "\t", "text": "\t", "conll": _BLANKS}
TABLES = ("csv", "tsv", "conll", "jsonl", "ndjson", "json", "parquet", "text")
_MARK = "\ufeff"  # a byte order mark after decoding


def read(path: str, form: Form, what: str) -> Records:
    """Yields the records of a file, which is read once, while they are iterated.

    Args:
      path: the file; "-" is the standard input.
      form: as it is declared; its `name` is one of the module's table.
      what: the role of the file in errors, such as "task cola".
    """
    # A generator: the file is opened when its first line is read.
    content = lines(path, what, form.encoding)
    if form.name in DELIMITERS:
        yield from _read_table(path, form, content)
        return
    # The value of each record: a dict of cells, or the ValueError that `parse_or_error` returns for
    # a line that is not JSON.
    values: Iterable[Any]
    if form.name == "parquet":
        prefix, values = f"{path}: row ", _rows_of_parquet(path, what)
    elif form.name == "json":
        prefix, values = f"{path}: item ", _items_of_json(path, content)
    else:
        prefix, values = f"{path}:", map(parse_or_error, content)
    for number, value in enumerate(values, 1):
        cells = value
        if isinstance(value, ValueError):
            cells = str(value)
        elif not isinstance(value, dict):
            found = type(value).__name__
            cells = f"found {found}, expected a JSON object; --input_format"
        yield f"{prefix}{number}", cells


def unknown_form(path: str, name: str | None) -> UserError:
    """The error of a file whose form is not declared (None), or not one of `TABLES`."""
    found = f"the form {name}" if name else "no form"
    return wrong(path, found, f"one of {', '.join(TABLES)}", "--input_format")


# --- Bytes to lines


def opened(path: str, what: str) -> IO[bytes]:
    """Opens a file for its bytes, those of a .gz decompressed; "-" is the standard input. what: the
    role of the file in errors."""
    if path == "-":
        return sys.stdin.buffer
    files.require_file(path, what)
    if path.endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


def lines(path: str, what: str, encoding: str | None = None) -> Iterator[str]:
    """Yields the lines of a file with the characters that end them: a line feed, perhaps after a
    carriage return. Raises UserError at the end of a file that has only blanks.

    Byte order marks at the beginning of lines, as of files that were joined, are left out. Bytes
    that are not of the encoding stay in their lines as half surrogates: `require_text` refuses them
    later, when the number of the line is known.

    Args:
      path: the file; "-" is the standard input.
      what: the role of the file in errors.
      encoding: None: UTF-8.
    """
    is_empty = True
    with errors.reading(path, "--encoding"):
        file = io.TextIOWrapper(
            opened(path, what),
            encoding or "utf-8",
            errors="surrogateescape",
            newline="\n",
        )
        with file:
            for line in file:
                line = line.lstrip(_MARK)
                is_empty = is_empty and not line.strip()
                yield line
    if is_empty:
        raise wrong(path, "an empty file", what)


# --- Cells between delimiters


def _read_table(path: str, form: Form, content: Iterator[str]) -> Records:
    """Yields the records of a table, {} for a blank line after the header. Its columns have the
    names of the form; or else of the header, the first line that is not blank; or, without a
    header, of the numbers "1", "2", ... form: one of `DELIMITERS`."""
    delimiter = form.delimiter or DELIMITERS[str(form.name)]
    is_plain = form.quoting == "none" or form.name == "text" or delimiter == _BLANKS
    rows: Iterable[tuple[int, list[str]]]  # (number of the line, cells)
    if is_plain:
        rows = enumerate((_split(line, delimiter) for line in content), 1)
    else:
        rows = _quoted_rows(path, form, content, delimiter)
    names = list(form.names)  # []: not known yet
    expects_header = form.header != "none"
    # A table has its names again where files were joined. A line of text may equal a name.
    may_repeat = form.name != "text" and (expects_header or names)
    for number, cells in rows:
        place = f"{path}:{number}"
        stripped = [cell.strip() for cell in cells]
        if not any(stripped):
            if not expects_header:
                yield place, {}
        elif expects_header:
            expects_header = False
            names = names or stripped
            for name in filter(None, names):  # several columns may be without a name
                if names.count(name) > 1:
                    found = f"two columns '{name}' in {', '.join(names):.300}"
                    raise wrong(place, found, "names that differ", "--header")
        elif names and len(cells) != len(names):
            columns = ", ".join(names)
            expected = f"{len(names)}, {columns:.80}; --quoting, --delimiter"
            yield place, f"{len(cells)} column(s), expected {expected}"
        elif may_repeat and stripped == names:
            yield place, "the names of the columns again"
        else:
            names = names or [str(column) for column in range(1, len(cells) + 1)]
            yield place, dict(zip(names, cells))


def _split(line: str, delimiter: str) -> list[str]:
    """The cells of a line in which quotation marks have no meaning."""
    line = line.removesuffix("\n").removesuffix("\r")
    if delimiter == _BLANKS:
        return re.split(_BLANKS, line.strip(" \t"))
    return line.split(delimiter)


def _quoted_rows(
    path: str, form: Form, content: Iterator[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields (the number of its first line, its cells) of each row of a table, in which a cell may
    be in quotation marks and then have several lines."""
    csv.field_size_limit(LONGEST_CELL)  # by default 128 KiB
    escaped = re.escape(delimiter)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{escaped}]*)'
    row = re.compile(rf"{cell}(?:{escaped}{cell})*[\r\n]*")
    # The parser takes lines from `content`. `lines_again` has them for the checks of its rows.
    content, lines_again = itertools.tee(content)
    reader = csv.reader(content, delimiter=delimiter, strict=True)
    number = 1  # of the row's first line; `line_num` is that of its last one
    try:
        for cells in reader:
            num_lines = reader.line_num + 1 - number
            lines_of_row = list(itertools.islice(lines_again, num_lines))
            # The parser would take a quotation mark inside of an unquoted cell for a character.
            text = "".join(lines_of_row)
            if '"' in text and not row.fullmatch(text):
                raise csv.Error("a quotation mark inside of a cell")
            # If quoting is not declared, the quotation marks may be characters of the text, and
            # lines between two of them rows. That is likely if each line has the delimiters of a
            # row.
            counts = {line.count(delimiter) for line in lines_of_row if line.strip()}
            is_doubtful = num_lines > 1 and not form.quoting and len(cells) > 1
            if is_doubtful and counts == {len(cells) - 1}:
                many = f"{num_lines} lines, each of which could be a row"
                raise csv.Error(f"a quotation over {many}")
            yield number, cells
            number = reader.line_num + 1
    except csv.Error as e:
        expected = f"cells as RFC 4180 has them, with {delimiter!r} between them"
        flags = "--delimiter, --quoting=standard or none"
        raise wrong(f"{path}:{number}", str(e), expected, flags) from None


# --- Objects


def parse_or_error(text: str) -> Any:
    """The value of a JSON text, in which NaN is null; {} for blanks. For a text that is not JSON it
    returns a ValueError, and does not raise it, so that the next lines are read, too."""
    if not text.strip():
        return {}
    text = text.rstrip(" \t\r\n")
    try:
        return files.parse_json(text, nan_is_null=True)
    except ValueError as e:
        reason = str(e)
        if "\n" not in text:  # "line 1" is not its place in the file
            reason = reason.replace("line 1 column", "column")
        return ValueError(f"not valid JSON: {reason}")


def _items_of_json(path: str, content: Iterator[str]) -> list:
    """The items of a JSON document: a list, or an object whose `data` is a list."""
    items = parse_or_error("".join(content))
    if isinstance(items, ValueError):
        raise UserError(f"{path}: {items}; --input_format")
    if isinstance(items, dict):
        items = items.get("data")
    if not isinstance(items, list):
        expected = "a list of JSON objects, or an object whose data is that list"
        raise wrong(path, "another JSON document", expected, "--input_format")
    return items


def flattened(cells: Any) -> Any:
    """The cells of a record, with those within objects by longer names, too: {"a": {"b": 1}} has
    also "a.b": 1. A column that is called so itself stays. A str, the error of a record, is
    returned as it is."""
    if isinstance(cells, str):
        return cells
    flat = dict(cells)
    waiting = list(cells.items())
    for name, cell in waiting:  # the list grows by the cells of each object
        if isinstance(cell, dict):
            for key, inner in cell.items():
                flat.setdefault(f"{name}.{key}", inner)
                waiting.append((f"{name}.{key}", inner))
    return flat


def _rows_of_parquet(path: str, what: str) -> Iterator[Any]:
    """Yields the rows of a Parquet file, each a dict whose cells have only the types of JSON."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise wrong(path, "no pyarrow to read it", "pip install pyarrow") from None
    with errors.reading(path, "--input_format"):
        content = opened(path, what).read()
        table = parquet.ParquetFile(io.BytesIO(content))
        names = table.schema_arrow.names
        if len(set(names)) < len(names):
            raise wrong(path, f"columns {', '.join(names)}", "columns that differ")
        for batch in table.iter_batches(batch_size=1000):
            for cells in batch.to_pylist():
                # The way over text makes dates texts, and NaN null, as in the other forms.
                yield parse_or_error(json.dumps(cells, default=_as_text))


def _as_text(value: Any) -> str:
    """The text of a value that JSON does not have, such as a date or bytes; what is not UTF-8 in
    them as half surrogates."""
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return str(value)


# --- What a cell is


def to_text(value: Any, column: str = "") -> str:
    """The text of a cell: "" of null, numbers and booleans as JSON writes them, the texts of a list
    with spaces between. Raises ValueError, which names the column, for an object, or a list of
    lists or objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, list) for item in value):
        return " ".join([to_text(item, column) for item in value])
    if isinstance(value, (dict, list)):
        found = "an object" if isinstance(value, dict) else "a list of lists"
        raise ValueError(f"column '{column}' has {found}, expected texts or numbers")
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def require_text(text: str) -> None:
    """Raises ValueError for a text with half surrogates, which come from bytes that are not of the
    encoding or from escapes in JSON."""
    if not is_text(text):
        found = "found bytes or escapes that are no characters"
        raise ValueError(f"{found}, expected UTF-8; --encoding")


def composed(text: str) -> str:
    """A text in Unicode's composed form: some programs write ü as u and a combining mark, which
    looks the same."""
    return unicodedata.normalize("NFC", text)


def to_number(text: str) -> float:
    """The number that a text is; NaN if it is not one, also of 1_000, which only Python takes for
    one."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


# --- Directories of published sets


def read_directory(task: TaskFields, path: str) -> Records:
    """Yields the records of a directory of RACE or IMDB. Their columns are called as in
    `known.json`, which declares these tasks."""
    if task.files.directory_form == "race":
        # RACE (https://arxiv.org/abs/1704.04683): folders of the levels, or articles of one level.
        levels = [os.path.join(path, name) for name in ("middle", "high")]
        folders = list(filter(os.path.isdir, levels))
        for folder in folders or [path]:
            for file in _texts_in(folder):
                yield from _questions_of_race(file)
        return
    # IMDB: a text in each file, in folders named after the labels, LABEL/NAME.txt.
    for label in task.labels:
        for file in _texts_in(os.path.join(path, label)):
            name = os.path.basename(file).removesuffix(".txt")
            cells = {"id": f"{label}/{name}", "text": _text_of(file), "label": label}
            yield file, cells


def _questions_of_race(path: str) -> Records:
    """Yields (path, cells) of each question of a file of RACE, which has an article with several
    questions; or (path, error) if it cannot be read."""
    article = parse_or_error(_text_of(path))
    if isinstance(article, ValueError):
        yield path, str(article)
        return
    try:
        questions, options = article["questions"], article["options"]
        # Articles to predict may have no answers.
        answers = article.get("answers") or [None] * len(questions)
        is_complete = len(questions) == len(options) == len(answers)
        text = article["article"]
    except (KeyError, TypeError, AttributeError):
        is_complete = False
    if not is_complete:
        expected = "article, questions, and as many options and answers in JSON"
        yield path, f"expected {expected}"
        return
    name = article.get("id") or os.path.basename(path)
    for number, question in enumerate(questions):
        cells = {
            "article": text,
            "question": question,
            "options": options[number],
            "id": f"{name}/{number}",
            "answer": answers[number],
        }
        yield path, cells


def _texts_in(directory: str) -> list[str]:
    """The paths of the .txt files in a directory, sorted by the numbers in their names: 9_1.txt
    before 10_1.txt."""
    files.require_directory(directory, "data_dir")

    def with_long_numbers(path: str) -> str:
        # Of as many digits, numbers have the order of texts.
        return re.sub("[0-9]+", lambda match: match[0].zfill(20), path)

    pattern = os.path.join(glob.escape(directory), "*.txt")
    return sorted(glob.glob(pattern), key=with_long_numbers)


def _text_of(path: str) -> str:
    """The text of a file, without the line breaks at its end."""
    return "".join(lines(path, "text")).rstrip("\r\n")


# --- Which file


def expand_paths(patterns: str, flag: str) -> str:
    """The files of paths and glob patterns with commas between: their absolute paths, each once,
    with commas between again. flag: for errors."""
    found: list[str] = []
    for pattern in each_path(patterns):
        matching = files.matching(pattern)
        if not matching:
            raise wrong(flag, f"no such file: {pattern}", "one that exists")
        for path in matching:
            files.require_file(path, flag)
        found += map(os.path.abspath, matching)
    if not found:
        raise wrong(flag, f"'{patterns}'", "the name of a file")
    several = list(dict.fromkeys(found))
    if len(several) > 1 and "," in "".join(several):
        raise wrong(flag, ", ".join(several), "paths without commas, of several files")
    return ",".join(several)


def each_path(paths: str) -> list[str]:
    """The paths of one file, or of several with commas between. The name of a file that exists may
    have commas."""
    if os.path.exists(paths):
        return [paths]
    return list(filter(None, map(str.strip, paths.split(","))))


def require_file(data_dir: str, names: str | Sequence[str], split: str) -> str:
    """The path that `find_file` returns; raises UserError if a file of it does not exist. split:
    the name of the file's split, such as dev_matched, for the error."""
    path = find_file(data_dir, names)
    if all(map(os.path.exists, each_path(path))):
        return path
    expected = names if isinstance(names, str) else " or ".join(names)
    found = f"no such file: {path}"
    raise wrong("data_dir", found, f"split {split} as {expected}", flag_of(split))


def flag_of(split: str) -> str:
    """The flag that names a file in place of that of a split: of test, which has no labels,
    --predict_file. Parts of a split, such as dev_matched, have one flag."""
    name = split.partition("_")[0]
    return "--predict_file" if name == "test" else f"--{name}_file"


def find_file(data_dir: str, names: str | Sequence[str]) -> str:
    """The path of the file of a split, whether or not it exists.

    Args:
      data_dir: the directory of a task's files.
      names: several names of one file, of which the first that exists is taken, else the first; or
        one name; or absolute paths with commas between, as of `expand_paths`, which stay as they
        are.
    """
    if isinstance(names, str):
        names = (names,)
    paths = [os.path.join(data_dir, name) for name in names]
    return next(filter(os.path.exists, paths), paths[0])


def stem(path: str) -> str:
    """A path without its extension and the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[0]


# --- The declared form of a file


def declared_form(task: TaskFields, path: str) -> Form:
    """The form of a file: as the task declares it for files of this name or extension, or else for
    all of its files, after which flags replace what they give.

    The form's `name` comes from the first of these that has it: a flag, the task for files of this
    name or extension, the extension, the task for all of its files. It is None if none has it, and
    may be unknown, as "zip" of an extension.
    """
    _, extension = os.path.splitext(path.removesuffix(".gz"))
    name = extension[1:].lower()
    of_files, columns = task.files.forms, task.columns
    file_name = os.path.basename(path).removesuffix(".gz")
    of_file = of_files.get(file_name) or of_files.get(f".{name}")
    form = of_file or task.files.form
    has_name = of_file is not None and of_file.name
    if not has_name and name not in ("", "txt"):  # .txt files may have any form
        form = dataclasses.replace(form, name=name)
    flags = vars(task.files.declared)
    given = {field: value for field, value in flags.items() if value}
    form = dataclasses.replace(form, **given)
    if form.name != "text":
        return form
    # Lines of text have no names: a line has, with tabs between, text_a, text_b and the choices. A
    # text that tables have in several columns is the cell of the first of them.
    names = (*columns.text_a[:1], *columns.text_b[:1], *columns.choices)
    return Form("text", names=names, header="none", encoding=form.encoding)
