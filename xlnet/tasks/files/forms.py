"""Which file has the rows of a split, in which declared form; its records, each as a dict of cells
by the names of columns; what a cell is.

`declared_form` finds the form: of a flag, the extension of the name, or the task. `read` gives the
same records for the same data in every form. What a file contains never changes
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
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

from xlnet.corpus.tokenizer import is_text
from xlnet.support import errors, files
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.task import Form, TaskFields

# What a file has: (place, cells) of each record. A place is what an error begins with:
# "train.csv:17". Cells are a dict by the names of columns, of str or any value of JSON, {} of a
# line without text; or, of a record that cannot be read, a str, its error.
Records = Iterator[tuple[str, Any]]

LONGEST_CELL = 1 << 24  # [characters]
_BLANKS = "[ \t]+"  # between the columns of conll
DELIMITERS = {"csv": ",", "tsv": "\t", "text": "\t", "conll": _BLANKS}
TABLES = ("csv", "tsv", "conll", "jsonl", "ndjson", "json", "parquet", "text")
_MARK = "\ufeff"  # a byte order mark after decoding


def read(path: str, form: Form, what: str) -> Records:
    """The records of a file, which is read once, while they are iterated.

    Args:
      path: the file; "-" is the standard input.
      form: as it is declared; its `name` is one of the module's table.
      what: the role of the file in errors.
    """
    values: Iterable[Any]
    content = lines(path, what, form.encoding)
    if form.name in DELIMITERS:
        yield from _read_table(path, form, content)
        return
    if form.name == "parquet":
        place, values = f"{path}: row ", _stored(path, what)
    elif form.name == "json":
        place, values = f"{path}: item ", _listed(path, content)
    else:
        place, values = f"{path}:", map(parsed, content)
    for number, value in enumerate(values, 1):
        if isinstance(value, ValueError):
            value = str(value)
        elif not isinstance(value, dict):
            found = type(value).__name__
            value = f"found {found}, expected a JSON object; --input_format"
        yield f"{place}{number}", value


def unknown_form(path: str, name: str | None) -> UserError:
    """The error of a file whose form is not declared (None), or not one of `TABLES`."""
    found = f"the form {name}" if name else "no form"
    return wrong(path, found, f"one of {', '.join(TABLES)}", "--input_format")


# --- Bytes to lines


def opened(path: str, what: str) -> IO[bytes]:
    """A file, unpacked, or the standard input ("-")."""
    if path == "-":
        return sys.stdin.buffer
    files.require_file(path, what)
    if path.endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


def lines(path: str, what: str, encoding: str | None = None) -> Iterator[str]:
    """The lines of a file with the characters that end them: a line feed, perhaps after a carriage
    return.

    Byte order marks at the beginning of lines, as of files that were joined, are left out. Bytes
    that are not of the encoding stay in their lines as half surrogates, which the parser of a row
    reports with its line.
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
    """The rows of a table, whose columns are named in the first line that is not blank, or by the
    form, or are numbered from 1 on."""
    delimiter = form.delimiter or DELIMITERS[str(form.name)]
    is_plain = form.quoting == "none" or form.name == "text" or delimiter == _BLANKS
    rows = _quoted(path, form, content, delimiter)
    if is_plain:
        rows = enumerate((_split(line, delimiter) for line in content), 1)
    names = list(form.names)
    is_header = form.header != "none"
    may_repeat = form.name != "text" and (is_header or names)
    for number, cells in rows:
        place = f"{path}:{number}"
        stripped = [cell.strip() for cell in cells]
        if not any(stripped):
            if not is_header:
                yield place, {}
        elif is_header:
            is_header = False
            names = names or stripped
            for name in filter(None, names):
                if names.count(name) > 1:
                    found = f"two columns '{name}' in {', '.join(names):.300}"
                    raise wrong(place, found, "names that differ", "--header")
        elif names and len(cells) != len(names):
            columns = ", ".join(names)
            expected = f"{len(names)}, {columns:.80}; --quoting, --delimiter"
            yield place, f"{len(cells)} column(s), expected {expected}"
        elif may_repeat and stripped == names:  # as where files were joined
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


def _quoted(
    path: str, form: Form, content: Iterator[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line of each row, and its cells, some in quotation marks."""
    csv.field_size_limit(LONGEST_CELL)
    mark = re.escape(delimiter)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{mark}]*)'
    row = re.compile(rf"{cell}(?:{mark}{cell})*[\r\n]*")
    content, again = itertools.tee(content)
    reader = csv.reader(content, delimiter=delimiter, strict=True)
    number = 1
    try:
        for cells in reader:
            taken = list(itertools.islice(again, reader.line_num + 1 - number))
            # The library takes a quotation mark inside of an unquoted cell for a character.
            text = "".join(taken)
            if '"' in text and not row.fullmatch(text):
                raise csv.Error("a quotation mark inside of a cell")
            # Where nothing says that there are quotation marks around cells, two characters of the
            # text in different rows look like such marks, and the rows like one.
            widths = {line.count(delimiter) for line in taken if line.strip()}
            is_doubtful = len(taken) > 1 and not form.quoting and len(cells) > 1
            if is_doubtful and widths == {len(cells) - 1}:
                lines_of = f"{len(taken)} lines, each of which could be a row"
                raise csv.Error(f"a quotation over {lines_of}")
            yield number, cells
            number = reader.line_num + 1
    except csv.Error as e:
        expected = f"cells as RFC 4180 has them, with {delimiter!r} between them"
        flags = "--delimiter, --quoting=standard or none"
        raise wrong(f"{path}:{number}", str(e), expected, flags) from None


# --- Objects


def parsed(text: str) -> Any:
    """The value of JSON, in which NaN is null, {} of blanks, or its ValueError."""
    if not text.strip():
        return {}
    text = text.rstrip(" \t\r\n")
    try:
        return files.parse_json(text, nan_is_null=True)
    except ValueError as e:
        reason = str(e)
        if "\n" not in text:  # the number of its only line says nothing
            reason = reason.replace("line 1 column", "column")
        return ValueError(f"not valid JSON: {reason}")


def _listed(path: str, content: Iterator[str]) -> list:
    """The items of a document of JSON."""
    found = parsed("".join(content))
    if isinstance(found, ValueError):
        raise UserError(f"{path}: {found}; --input_format")
    if isinstance(found, dict):
        found = found.get("data")
    if not isinstance(found, list):
        expected = "a list of JSON objects, or an object whose data is that list"
        raise wrong(path, "another JSON document", expected, "--input_format")
    return found


def flattened(cells: Any) -> Any:
    """A record with the cells of its objects by longer names, too: {"a": {"b": 1}} has "a.b"."""
    if isinstance(cells, str):
        return cells
    flat, waiting = dict(cells), list(cells.items())
    for name, cell in waiting:
        if isinstance(cell, dict):
            for key, inner in cell.items():
                flat.setdefault(f"{name}.{key}", inner)
                waiting.append((f"{name}.{key}", inner))
    return flat


def _stored(path: str, what: str) -> Iterator[Any]:
    """The rows of Parquet, as lines of JSON have them."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise wrong(path, "no pyarrow to read it", "pip install pyarrow") from None
    with errors.reading(path, "--input_format"):
        content = opened(path, what).read()
        stored = parquet.ParquetFile(io.BytesIO(content))
        for batch in stored.iter_batches(batch_size=1000):
            for cells in batch.to_pylist():
                yield parsed(json.dumps(cells, default=_as_text))


def _as_text(value: Any) -> str:
    """A value that JSON does not have; bytes that are not UTF-8 as half surrogates."""
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return str(value)


# --- What a cell is


def to_text(value: Any, column: str = "") -> str:
    """Text of a cell; numbers and booleans as JSON writes them, texts of a list with spaces
    between. A ValueError for an object, or a list of lists or objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(each, list) for each in value):
        return " ".join([to_text(each, column) for each in value])
    if isinstance(value, (dict, list)):
        found = "an object" if isinstance(value, dict) else "a list of lists"
        raise ValueError(f"column '{column}' has {found}, expected texts or numbers")
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def require_text(text: str) -> None:
    """Raises ValueError for a text of bytes that are not of the encoding, or of lone escapes."""
    if not is_text(text):
        what = "found bytes or escapes that are no characters"
        raise ValueError(f"{what}, expected UTF-8; --encoding")


def composed(text: str) -> str:
    """A text in Unicode's composed form: some programs write ü as u and a combining mark, which
    looks the same."""
    return unicodedata.normalize("NFC", text)


def to_number(text: str) -> float:
    """The number in a text; NaN if it is not one. Python's own form 1_000 is not."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


# --- Directories of published sets


def read_directory(task: TaskFields, path: str) -> Records:
    """The records of a directory of RACE or IMDB; the names of columns are those of
    `known.json`."""
    if task.files.directory_form == "race":
        # RACE (https://arxiv.org/abs/1704.04683): articles of one level or of both.
        levels = [os.path.join(path, name) for name in ("middle", "high")]
        for folder in list(filter(os.path.isdir, levels)) or [path]:
            for file in _texts_in(folder):
                yield from _of_article(file)
        return
    # IMDB: a text in each file, in folders named after the labels, LABEL/NAME.txt.
    for label in task.labels:
        for file in _texts_in(os.path.join(path, label)):
            name = os.path.basename(file).removesuffix(".txt")
            cells = {"id": f"{label}/{name}", "text": _text_of(file), "label": label}
            yield file, cells


def _of_article(path: str) -> Records:
    """(path, cells) of each question of an article of RACE, or (path, error)."""
    article = parsed(_text_of(path))
    if isinstance(article, ValueError):
        yield path, str(article)
        return
    try:
        questions, options = article["questions"], article["options"]
        # Articles to predict may have no answers.
        answers = article.get("answers") or [None] * len(questions)
        is_whole = len(questions) == len(options) == len(answers)
        text = article["article"]
    except (KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        expected = "article, questions, and as many options and answers in JSON"
        yield path, f"expected {expected}"
        return
    name = article.get("id") or os.path.basename(path)
    for number, question in enumerate(questions):
        cells = {"article": text, "question": question, "options": options[number]}
        yield path, {**cells, "id": f"{name}/{number}", "answer": answers[number]}


def _texts_in(directory: str) -> list[str]:
    """The paths of the texts in a directory, sorted by the numbers in names: 9_1.txt, 10_1.txt."""
    files.require_directory(directory, "data_dir")

    def padded(path: str) -> str:
        return re.sub("[0-9]+", lambda number: number[0].zfill(20), path)

    pattern = os.path.join(glob.escape(directory), "*.txt")
    return sorted(glob.glob(pattern), key=padded)


def _text_of(path: str) -> str:
    """The text of a file, without the line breaks at its end."""
    return "".join(lines(path, "text")).rstrip("\r\n")


# --- Which file


def expanded(patterns: str, what: str) -> str:
    """The files of paths and glob patterns with commas between, which are read as one: their
    absolute paths with commas between. what: the flag, for errors."""
    found: list[str] = []
    for pattern in each_path(patterns):
        matching = files.matching(pattern)
        if not matching:
            raise wrong(what, f"no such file: {pattern}", "one that exists")
        for path in matching:
            files.require_file(path, what)
        found += map(os.path.abspath, matching)
    if not found:
        raise wrong(what, f"'{patterns}'", "the name of a file")
    return ",".join(dict.fromkeys(found))


def each_path(paths: str) -> list[str]:
    """The paths of one file, or of several with commas between."""
    if os.path.exists(paths):
        return [paths]
    return list(filter(None, map(str.strip, paths.split(","))))


def require_file(data_dir: str, names: Any, split: str) -> str:
    """As `find_file`; raises UserError if there is no such file."""
    path = find_file(data_dir, names)
    if all(map(os.path.exists, each_path(path))):
        return path
    expected = names if isinstance(names, str) else " or ".join(names)
    flag = f"--{split.partition('_')[0]}_file"
    found = f"no such file: {path}"
    raise wrong("data_dir", found, f"split {split} as {expected}", flag)


def find_file(data_dir: str, names: Any) -> str:
    """The path of the first of `names` that exists, else of the first; a str is one name, or the
    absolute paths of files that are read as one."""
    if isinstance(names, str):
        names = (names,)
    paths = [os.path.join(data_dir, name) for name in names]
    return next(filter(os.path.exists, paths), paths[0])


def stem(path: str) -> str:
    """A path without its extension and the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[0]


# --- The declared form of a file


def declared_form(task: TaskFields, path: str) -> Form:
    """How a file is written: by the first of a flag for all files, the task for files of this name
    or extension, the extension, and the task. Its `name` is None if nothing says it."""
    extension = os.path.splitext(path.removesuffix(".gz"))[1]
    name: str | None = extension[1:].lower()
    of_names, columns = task.files.forms, task.columns
    by_name = of_names.get(os.path.basename(path)) or of_names.get(f".{name}")
    form = by_name or task.files.form
    says_nothing = name in ("", "txt")
    if says_nothing or (by_name and by_name.name):
        name = form.name
    declared: dict[str, Any] = {"name": name}
    for field, value in vars(task.files.declared).items():
        if value:
            declared[field] = value
    form = dataclasses.replace(form, **declared)
    if form.name != "text":
        return form
    # Lines of text have no names. Where several columns would be joined to a text, the line has all
    # of it.
    names = (*columns.text_a[:1], *columns.text_b[:1], *columns.choices)
    return Form("text", names=names, header="none", encoding=form.encoding)
