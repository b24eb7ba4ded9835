"""What to declare about a file that could not be read: the flag for its encoding, quotation marks,
delimiter, names or form.

`table_rows` asks once, after reading has failed. Nothing here changes what is read.
"""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Sequence

from xlnet.support import encodings
from xlnet.tasks.files.forms import DELIMITERS, parsed
from xlnet.tasks.task import Form

_DELIMITERS = (",", ";", "\t", "|")
_LOOKED_AT = 1 << 16  # [bytes]
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def remedy(path: str, form: Form, wanted: Sequence[str]) -> str:
    """The end of an error about a file, "; give --delimiter=tab"; "" if nothing is known.

    Args:
      path: the file; "-" and pipes cannot be looked at again.
      form: as it was declared.
      wanted: the columns that are needed.
    """
    if not os.path.isfile(path) or path.endswith(".gz") or form.name == "parquet":
        return ""
    with open(path, "rb") as file:
        content = file.read(_LOOKED_AT)
    complete = content[: content.rfind(b"\n") + 1] or content
    if not form.encoding:
        for mark, name in _MARKS.items():
            if content.startswith(mark):
                return f"; give --encoding={name}"
        try:
            complete.decode()
        except UnicodeError:
            return encodings.hint(complete)
    lines = complete.decode(form.encoding or "utf-8-sig", "replace").splitlines()
    if form.name in DELIMITERS:
        return _of_table(lines, form, wanted)
    first = next(filter(None, map(str.strip, lines)), "")
    are_objects = all(isinstance(parsed(line), dict) for line in lines[:2])
    if form.name == "json" and are_objects and len(lines) > 1:
        return "; give --input_format=jsonl"
    if form.name == "jsonl" and first.startswith("["):
        return "; give --input_format=json"
    return ""


def _of_table(lines: Sequence[str], form: Form, wanted: Sequence[str]) -> str:
    delimiter = form.delimiter or DELIMITERS[form.name or "csv"]
    first = next(filter(None, map(str.strip, lines)), "")
    if set(wanted) <= _names(first, delimiter):
        widths = {line.count(delimiter) for line in lines if line}
        is_plain = form.quoting != "none" and len(widths) == 1 and widths != {0}
        return "; give --quoting=none" if is_plain and '"' in "".join(lines) else ""
    if isinstance(parsed(first), dict):
        return "; give --input_format=jsonl"
    for other in _DELIMITERS:
        if set(wanted) <= _names(first, other):
            return f"; give --delimiter={'tab' if other == chr(9) else repr(other)}"
    if form.header != "none":
        return "; if the first line has no names, give --header=none and numbers of columns"
    return "; the columns are called by their numbers, from 1 on"


def _names(line: str, delimiter: str) -> set[str]:
    """The cells of a line, with or without quotation marks."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        cells = line.split(delimiter)
    return {encodings.composed(cell.strip()) for cell in cells}
