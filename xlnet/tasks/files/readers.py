"""Which file has the rows of a split, and in which declared form: files and directories to tables.

What a row goes through, in this order:

1. `decoding` makes lines of a file's bytes: unpacked, in UTF-8 or another declared encoding.
2. `read_table` finds the form that is declared: by a flag, the task, or the extension of the name.
3. A function of `forms.FORMS`, or of the task type, makes a `Table`: the columns' names, and an
   iterator of records, each with the place that an error names.
4. `table_rows` makes a `Row` of each: its texts and its label, by the methods of the `Reader`.
5. `row_store` keeps the rows, on disk if they are many.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from xlnet import encodings, files
from xlnet.errors import UserError, did_you_mean
from xlnet.tasks.files import decoding, diagnosis, forms
from xlnet.tasks.files.forms import Table
from xlnet.tasks.task import Form, ReaderOfTask, Task

_NAMES_SHOWN = 20  # of what a directory has


def column(path: str, name: str, columns: Sequence[str]) -> int:
    """The index of a column in a file; raises UserError unless exactly one has its name."""
    if name not in columns:
        raise UserError(f"{path}: {no_column(name, columns)}")
    if columns.count(name) > 1:
        raise UserError(f"{path}: {columns.count(name)} columns are called '{name}'; expected one")
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


def is_value(cell: Any, wanted: str) -> bool:
    """Whether a cell has a value of --keep_where, whatever blanks are around it, and whichever of
    Unicode's forms it has; `wanted` is composed."""
    return encodings.composed(to_text(cell).strip()) == wanted


def not_plain(name: str, value: Any) -> Optional[str]:
    """The error of a cell with objects or lists in a list, which are neither texts nor numbers."""
    if isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
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


_FORMS_OF_JSON = {"json", "jsonl", "ndjson"}
FOREIGN = ("xlsx", "xls", "ods")  # forms that are not read


# --- The declared form of a file


def declared_form(task: Task, path: str) -> Form:
    """How a file is written, as far as flags or the task say it."""
    by_name = task.files.forms
    found = by_name.get(os.path.basename(path)) or by_name.get("." + extension(path))
    return found or task.files.form


def form_name(
    reader: ReaderOfTask, path: str, need_labels: bool, given: Optional[str], lines: Any = ()
) -> str:
    """The name of a file's form, by the first of: the flag for this file, that for all files, the
    extension. Texts alone, a line each, are the form of .txt and of the standard input.

    Args:
      reader: the `Reader` of the task.
      given: the flag for this file, or None.
      lines: of the file, to word errors.

    Raises:
      UserError: nothing declares the form, or two things do, as of `check_form`.
    """
    if given:
        return given
    known = {**forms.FORMS, **reader.forms}
    form_of_extension = {**{name: name for name in known}, "ndjson": "jsonl"}
    check_form(reader.task, path, form_of_extension, need_labels)
    declared, by_extension = declared_form(reader.task, path).name, extension(path)
    if declared:
        return declared
    if by_extension in known:
        return by_extension
    if by_extension in FOREIGN:
        raise UserError("{}: {}".format(path, encodings.spreadsheet(path, "a spreadsheet")))
    if path == "-" or by_extension == "txt":
        if not need_labels or reader.plain_form != "text":
            return reader.plain_form
        raise UserError(
            f"{path}: .txt is text alone, a text a line, without labels"
            f"{diagnosis.of_form(lines) or '; give --input_format'}"
        )
    raise UserError(
        "{}: unknown form '{}'; expected one of {}, or --input_format".format(
            path, by_extension, ", ".join(known)
        )
    )


def check_form(task: Task, path: str, by_extension: Mapping[str, str], need_labels: bool) -> None:
    """Raises UserError for a file whose name says another form than a flag, which may be for other
    files of the run, or for those that the model was trained on.

    The flag is for this file, too, where all files to train and to evaluate on have such a name.

    Args:
      path: of one file.
      by_extension: the form that each extension says.
      need_labels: whether the file is read with labels, not to predict.
    """
    named, form = by_extension.get(extension(path)), declared_form(task, path)
    # Forms of JSON refuse each other's files.
    if named and form.name not in (None, named) and not {form.name, named} <= _FORMS_OF_JSON:
        flag, value = "--input_format", form.name
        remedies = f"--input_format={named} or --input_format={form.name}"
    elif named == "tsv" and form.delimiter not in (None, "\t"):
        if task.files.has_delimiter_to_predict and not need_labels:
            return
        flag, value = "--delimiter", diagnosis.shown(form.delimiter)
        remedies = f"--delimiter=tab or --delimiter={value}"
    else:
        return
    names = {
        by_extension.get(extension(each))
        for split, paths in task.files.by_split.items()
        if split.partition("_")[0] in ("train", "dev") and isinstance(paths, str)
        for each in each_path(paths)
    }
    if need_labels:
        names.add(named)
    if names == {named}:
        return
    if need_labels:
        raise UserError(
            f"{path}: the name says {extension(path)}, and {flag}, which is that of all files with "
            f"labels, {value}; expected files of one form"
        )
    raise UserError(
        f"{path}: the name says {named}, and {flag} of the training data {value}: give {remedies} "
        "where this file is predicted, without training"
    )


def read_table(
    reader: ReaderOfTask, path: str, need_labels: bool, given: Optional[str] = None
) -> Table:
    """The `Table` of a file, a directory, or the standard input ("-").

    Args:
      reader: the `Reader` of the task.
      need_labels: whether the rows are labelled.
      given: the form of this file, a key of `forms.FORMS` or `Reader.forms`; None: as declared.
    """
    task = reader.task
    if path != "-" and os.path.isdir(path) and task.files.directory_form:
        directory_forms = {**DIRECTORY_FORMS, **reader.directory_forms}
        return directory_forms[task.files.directory_form](task, path)
    role = f"task {task.name}"
    opened = decoding.opener(path, role)
    with opened() as file:
        is_parquet = file.read(4) == b"PAR1"
    if is_parquet:
        return table_of(reader, path, opened, "parquet")
    declared = declared_form(task, path)
    lines = read_lines(path, role, declared.encoding, task.files.skips_errors, opened)
    name = form_name(reader, path, need_labels, given, lines)
    if name == "parquet":  # the file is not Parquet; the library's error says so
        return table_of(reader, path, opened, name)
    if name == "text" and not given and not declared.name:
        diagnosis.refuse_tables(path, lines, task.columns.texts)
    return table_of(reader, path, lines, name)


def form_of_predictions(task: Task, path: str) -> Form:
    """How predictions for a file are written: as flags and the file itself declare its delimiter,
    quotation marks, names of columns, encoding and decimal mark."""
    form, role = declared_form(task, path), f"task {task.name}"
    name = form.name or extension(path)
    # A model that was trained on tables keeps their form; other files have no header.
    if name not in forms.DELIMITERS:
        form = dataclasses.replace(form, header=None)
    # A byte-order mark declares the encoding.
    if mark := decoding.mark_of(path, role):
        form = dataclasses.replace(form, encoding=mark)
    # The first line of a CSV file may declare the delimiter, as `sep=;` does.
    if name == "csv" and not form.delimiter and decoding.can_be_read_again(path):
        opened = decoding.opener(path, role)
        with io.TextIOWrapper(opened(), form.encoding or "utf-8", errors="replace") as file:
            first = file.readline().rstrip("\r\n")  # a tab may be declared, too
        form = dataclasses.replace(form, delimiter=forms.delimiter_of_excel(first))
    return form


def table_of(reader: Any, path: str, source: Any, name: str) -> Table:
    """The `Table` of a file in the form `name`, of the task type or of `forms.FORMS`.

    source: the `decoding.Lines` of the file; of Parquet the function that opens it.
    """
    if name in reader.forms:
        return reader.forms[name](reader.task, path, source)
    return plain_table(reader.task, path, source, name)


def plain_table(task: Task, path: str, source: Any, name: str) -> Table:
    """The `Table` of a file in a form of `forms.FORMS`."""
    if name not in forms.FORMS:
        raise UserError(
            "{}: unknown form '{}'; expected one of {}".format(path, name, ", ".join(forms.FORMS))
        )
    columns = task.columns
    form = dataclasses.replace(declared_form(task, path), name=name)
    if name in forms.DELIMITERS:
        diagnosis.refuse_numbers(path, columns.texts, form)
    if name not in ("text", "fasttext"):
        return forms.FORMS[name](path, source, form)
    # Lines of text have no names. Where several columns would be joined to a text, the line has all
    # of it: the first of these columns has the text, and the others are empty.
    names = (*columns.text_a[:1], *columns.text_b[:1], *columns.choices)
    if name == "fasttext":
        names = (*columns.label[:1], *columns.text_a[:1])
    table = forms.FORMS[name](path, source, dataclasses.replace(form, names=names))
    empty_columns = [each for each in columns.texts if each not in names]

    def rows() -> Iterator[tuple[str, Any]]:
        for place, cells in table.rows:
            if isinstance(cells, list) and cells:
                cells = [*cells, *[None] * len(empty_columns)]
            yield place, cells

    return Table((*names, *empty_columns), rows())


def read_lines(
    path: str, what: str, encoding: Optional[str] = None, skips: bool = False, opened: Any = None
) -> decoding.Lines:
    """The lines of a file, or of the standard input ("-"); what: its role in errors."""
    lines = decoding.Lines(path, opened or decoding.opener(path, what), encoding, skips)
    if not lines.start():
        raise UserError(f"{path}: the file is empty")
    return lines


# --- Forms of directories


def _read_folders(task: Task, path: str) -> Table:
    """The table of a directory with a text in each file, in folders named after the labels:
    LABEL/NAME.txt."""
    found = [
        (label, file)
        for label in task.class_names
        for file in texts_in(os.path.join(path, label), task)
    ]

    def rows() -> Iterator[tuple[str, Any]]:
        for label, file in found:
            name = os.path.basename(file)[: -len(".txt")]
            yield file, [f"{label}/{name}", label, text_of(file, task)]

    return Table([task.columns.id or "", *task.columns.label, *task.columns.text_a], rows())


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
    """The text of a file, without the line breaks at its end."""
    lines = decoding.Lines(path, lambda: open(path, "rb"), task.files.form.encoding)
    return "\n".join(lines).rstrip("\n")
