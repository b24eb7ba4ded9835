"""Which file has the rows of a split, and in which declared form: files and directories to tables.

What a row goes through, in this order:

1. `decoding` makes lines of a file's bytes: unpacked, in UTF-8 or another declared encoding.
2. `declared_form` finds the form: of a flag, the extension of the name, or the task.
3. A function of `forms.FORMS`, or of the task type, makes a `Table`: the columns' names, and an
   iterator of records, each with the place that an error names.
4. `table_rows` makes a `Row` of each: its texts and its label, by the methods of the `Reader`.
5. `row_store` keeps the rows, on disk if they are many.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

from xlnet.support import files
from xlnet.support.errors import UserError, did_you_mean, wrong
from xlnet.tasks.files import decoding, forms
from xlnet.tasks.files.forms import Table
from xlnet.tasks.task import Form, Task

if TYPE_CHECKING:
    from xlnet.tasks.types import contract

_NAMES_SHOWN = 20  # of what a directory has


def column(path: str, name: str, columns: Sequence[str]) -> int:
    """The index of a column in a file; raises UserError unless exactly one has its name."""
    if name not in columns:
        raise UserError(f"{path}: {no_column(name, columns)}")
    if columns.count(name) > 1:
        raise UserError(
            f"{path}: {columns.count(name)} columns are called '{name}'; expected one"
        )
    return columns.index(name)


def no_column(name: str, columns: Iterable[str]) -> str:
    """The error that a column is missing. pandas writes the index as a column without a name."""
    return "no column '{}'{} (columns: {!s:.300})".format(
        name, did_you_mean(name, columns), ", ".join(each or "''" for each in columns)
    )


def to_text(value: Any) -> str:
    """Text of a cell; numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(to_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def not_plain(name: str, value: Any) -> Optional[str]:
    """The error of a cell with objects or lists in a list, which are neither texts nor numbers."""
    if isinstance(value, list) and any(
        isinstance(each, (dict, list)) for each in value
    ):
        found = "objects" if isinstance(value[0], dict) else "lists"
        return f"column '{name}' is a list of {found}, expected texts or numbers"
    return None


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
                        what, pattern, nearby_files(os.path.dirname(pattern) or ".")
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


def nearby_files(directory: str) -> str:
    """ "; found there: a.csv, ...", the files in a directory, for errors; "" if there are none."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    if not names:
        return ""
    more = ", ..." if len(names) > _NAMES_SHOWN else ""
    return f"; found there: {', '.join(names[:_NAMES_SHOWN])}{more}"


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
            nearby_files(data_dir),
            split.partition("_")[0],
        )
    )


def find_file(data_dir: str, names: Any) -> str:
    """The path of the first of `names` that exists, else of the first; a str is one name."""
    if isinstance(names, Paths):
        return names
    if isinstance(names, str):
        names = (names,)
    paths = [os.path.join(data_dir, name) for name in names]
    for path in paths:
        if os.path.exists(path):
            return path
    return paths[0]


def stem(path: str) -> str:
    """A path without its extension and the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[0]


def extension(path: str) -> str:
    """The extension of a file, in lower case, before the .gz of a compressed file."""
    return os.path.splitext(path.removesuffix(".gz"))[1][1:].lower()


# --- The declared form of a file


def declared_form(task: Task, path: str) -> Form:
    """How a file is written: by the first of a flag for all files, the task for files of this name
    or extension, the extension, and the task. Its `name` is None if nothing says it."""
    its_extension = extension(path)
    by_name = task.files.forms.get(os.path.basename(path)) or task.files.forms.get(
        "." + its_extension
    )
    name: Optional[str] = its_extension
    if task.files.input_format:
        name = task.files.input_format
    elif by_name and by_name.name:
        name = by_name.name
    elif its_extension in ("", "txt"):  # which say nothing
        name = task.files.form.name
    return dataclasses.replace(by_name or task.files.form, name=name)


def read_table(reader: contract.Reader, path: str) -> Table:
    """The `Table` of a file, a directory, or the standard input ("-").

    Raises:
      UserError: nothing declares the form of the file.
    """
    task = reader.task
    if path != "-" and os.path.isdir(path) and task.files.directory_form:
        return reader.directory_forms[task.files.directory_form](task, path)
    form, known = declared_form(task, path), {**forms.FORMS, **reader.forms}
    if form.name not in known:
        found = f"extension '{extension(path)}'" if extension(path) else "no extension"
        raise wrong(path, found, f"one of {', '.join(known)}", "--input_format")
    source: Any = decoding.opener(path, f"task {task.name}")
    if form.name != "parquet":
        source = _lines(path, source, form.encoding)
    if form.name in reader.forms:
        return reader.forms[form.name](task, path, source)
    return plain_table(task, path, source, form.name)


def plain_table(task: Task, path: str, source: Any, name: str) -> Table:
    """The `Table` of a file in a form of `forms.FORMS`.

    source: the `decoding.Lines` of the file; of Parquet the function that opens it.
    """
    columns = task.columns
    form = dataclasses.replace(declared_form(task, path), name=name)
    numbers = [each for each in columns.texts if each.isdecimal()]
    if name in forms.DELIMITERS and numbers and form.header is None and not form.names:
        raise wrong(
            path, f"columns by number ({', '.join(numbers)})", "names", "--header"
        )
    if name != "text":
        return forms.FORMS[name](path, source, form)
    # Lines of text have no names. Where several columns would be joined to a text, the line has all
    # of it: the first of these columns has the text, and the others are empty.
    names = (*columns.text_a[:1], *columns.text_b[:1], *columns.choices)
    table = forms.FORMS[name](
        path, source, dataclasses.replace(form, names=names, header="none")
    )
    empty = [each for each in columns.texts if each not in names]

    def rows() -> Iterator[tuple[str, Any]]:
        for place, cells in table.rows:
            if isinstance(cells, list) and cells:
                cells = [*cells, *[None] * len(empty)]
            yield place, cells

    return Table((*names, *empty), rows())


def read_lines(path: str, what: str, encoding: Optional[str] = None) -> decoding.Lines:
    """The lines of a file, or of the standard input ("-"); what: its role in errors."""
    return _lines(path, decoding.opener(path, what), encoding)


def _lines(path: str, opened: Any, encoding: Optional[str]) -> decoding.Lines:
    lines = decoding.Lines(path, opened, encoding)
    if not any(map(str.strip, lines)):
        raise UserError(f"{path}: the file is empty")
    return lines
