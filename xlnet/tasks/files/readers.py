"""Which file has the rows of a split, and in which declared form; what a cell of it is.

What a row goes through, in this order:

1. `declared_form` finds the form: of a flag, the extension of the name, or the task.
2. `forms.read` makes records of the file, each with the place that an error names.
3. `parsing` makes a `Row` of each: its texts and its label.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any, Optional

from xlnet.support import files
from xlnet.support.errors import wrong
from xlnet.tasks.task import Form, Task


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


def to_number(text: str) -> float:
    """The number in a text; NaN if it is not one. Python's own form 1_000 is not."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


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
    form, columns = by_name or task.files.form, task.columns
    name: Optional[str] = its_extension
    if task.files.input_format:
        name = task.files.input_format
    elif by_name and by_name.name:
        name = by_name.name
    elif its_extension in ("", "txt"):  # which say nothing
        name = form.name
    if name != "text":
        return dataclasses.replace(form, name=name)
    # Lines of text have no names. Where several columns would be joined to a text, the line has all
    # of it.
    names = (*columns.text_a[:1], *columns.text_b[:1], *columns.choices)
    return Form("text", names=names, header="none", encoding=form.encoding)
