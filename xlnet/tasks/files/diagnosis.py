"""What a file that does not fit its declared form may be instead, to say which flag to give.

Nothing here changes what is read: functions named `of_...` return words that are added to an error,
"" if they know nothing; those named `refuse_...` raise an error in place of rows that were hardly
meant so. `tests/tasks/test_forms.py` holds that: without this module files have the same rows, or
an error in their place.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from xlnet import json_stream
from xlnet.errors import UserError
from xlnet.tasks.task import Form

_DELIMITERS = (",", ";", "\t", "|")
_LOOKED_AT = 10000  # lines
_FIRST = 20  # lines
_WRITE = "to_json(PATH, orient='records', lines=True)"


def shown(delimiter: str) -> str:
    """A delimiter in the spelling that --delimiter takes."""
    return "tab" if delimiter == "\t" else f"'{delimiter}'"


# --- Columns


def of_columns(wanted: Sequence[str], lines: Any, form: Form, flag: str = "") -> str:
    """A hint why required columns are not among the names in the first line of a CSV or TSV file.

    Args:
      wanted: the columns.
      lines: of the file.
      form: as it was declared.
      flag: the one that names the missing column; "": none does.
    """
    first = next((line for line in lines if line.strip()), "")
    if first.startswith(("{", "[")) and _is_json(first):
        return "; the first line is JSON: give --input_format=jsonl"
    for delimiter in _DELIMITERS:
        names = [name.strip() for name in _cells(first, delimiter)]
        if len(names) > 1 and set(wanted) <= set(names):
            return (
                f"; the first line is read as {_counted(first, form)}: give "
                f"--delimiter={shown(delimiter)}"
            )
        bare = [name.strip("'") for name in names]
        if bare != names and set(wanted) <= set(bare):
            return "; cells are between apostrophes: " + _rewritten(delimiter, quotechar="'")
    if form.header == "none":
        return "; such a file has no names: give the numbers of its columns, from 1 on"
    if all(map(str.isdecimal, wanted)):
        return "; if the first line is not the columns' names, give --header=none"
    named = f"; {flag} names it" if flag else ""
    read = _counted(first, form)
    others = [each for each in _DELIMITERS if len(_cells(first, each)) > 1]
    if read.startswith("one column") and others:
        return (
            f"; the first line is read as {read}: give --delimiter={shown(others[0])} if that is "
            f"between its columns{named}"
        )
    return (
        f"{named}; if the first line is not the columns' names, give --header=none and their "
        "numbers, from 1 on"
    )


def _counted(first: str, form: Form) -> str:
    names = _cells(first, form.delimiter or ("\t" if form.name == "tsv" else ","))
    return f"one column, '{first:.60}'" if len(names) == 1 else f"{len(names)} columns"


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line, with or without quotation marks."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _rewritten(delimiter: str, **dialect: Any) -> str:
    """A command that rewrites a file with the quotation marks of RFC 4180."""

    # The text is for a shell, in whose quotation marks there are no escapes.
    def spelled(value: Any) -> str:
        return f"chr({ord(value)})" if value in ("\\", "\t", "'") else repr(value)

    between = "" if delimiter == "," else f", delimiter={spelled(delimiter)}"
    options = "".join(f", {name}={spelled(value)}" for name, value in dialect.items())
    return (
        f'rewrite the file with python -c "import csv, sys; csv.writer(sys.stdout{between})'
        f'.writerows(csv.reader(sys.stdin{between}{options}))" < OLD > NEW'
    )


def refuse_numbers(path: str, wanted: Iterable[str], form: Form) -> None:
    """Raises UserError for columns by number where --header does not say whether the first line
    has names."""
    numbers = [name for name in wanted if name.isdecimal()]
    if numbers and form.header is None and not form.names:
        raise UserError(
            f"{path}: columns are given by number ({', '.join(numbers)}): give --header=none if "
            "the first line is a row like the others, --header=names if it has these names"
        )


def refuse_names(path: str, cells: Sequence[str], names: Sequence[str]) -> None:
    """Raises UserError if the first line of a file without names has names of its columns alone."""
    if {cell.strip() for cell in cells} <= set(names):
        raise UserError(
            f"{path}:1: the first line has the columns' names ({', '.join(cells)}), but such files "
            "have none: give --header=names"
        )


def refuse_other_delimiter(path: str, lines: Any, delimiter: str) -> None:
    """Raises UserError if all first lines of a file without names have as many of another
    delimiter, none of which is declared."""
    first = [line for line in lines.first(_FIRST) if line.strip()]
    for other in _DELIMITERS:
        counts = {line.count(other) for line in first}
        if other != delimiter and len(first) > 1 and len(counts) == 1 and counts != {0}:
            raise UserError(
                f"{path}:1: which delimiter? each of the first lines has {counts.pop()} of "
                f"{shown(other)}; give --delimiter={shown(other)}, or "
                f"--delimiter={shown(delimiter)}"
            )


# --- Quotation marks


def refuse_joined_rows(
    path: str, taken: Sequence[tuple[int, str]], delimiter: str, width: int
) -> None:
    """Raises UserError for a record over several lines each of which could be one by itself.

    taken: the numbers of the lines, and their texts. A delimiter before a blank is taken for one
    within a sentence.
    """
    texts = [line for _, line in taken]
    could_be_rows = width > 1 and all(text.count(delimiter) == width - 1 for text in texts)
    if could_be_rows and not any(delimiter + " " in text for text in texts):
        raise UserError(
            f"{path}:{taken[0][0]}: a quotation that opens in line {taken[0][0]} closes in line "
            f"{taken[-1][0]}, and each line could be a row: give --quoting=none if quotation marks "
            "are characters of the text, --quoting=standard if this is one row"
        )


@functools.lru_cache(maxsize=8)
def of_quotation_marks(lines: Any, delimiter: str) -> str:
    """A hint for a file whose quotation marks do not follow RFC 4180: how it may be written."""

    def fits(rows: Iterable[Sequence[str]]) -> bool:
        widths = {len(row) for row in itertools.islice(rows, _LOOKED_AT) if any(row)}
        return len(widths) == 1 and widths != {1}

    def is_read(**dialect: Any) -> bool:
        rows = csv.reader(lines.with_ends(), delimiter=delimiter, strict=True, **dialect)
        try:
            return fits(rows)
        except csv.Error:
            return False

    if any(f'{delimiter} "' in line for line in lines) and is_read(skipinitialspace=True):
        return "; " + _rewritten(delimiter, skipinitialspace=True)
    if any('\\"' in line for line in lines) and is_read(escapechar="\\"):
        return "; " + _rewritten(delimiter, escapechar="\\")
    if fits(line.split(delimiter) for line in lines):
        return "; give --quoting=none if quotation marks are characters of the text"
    if is_read():
        return "; " + _rewritten(delimiter)
    return ""


# --- JSON


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def of_json(lines: Any) -> str:
    """A hint for a file that is not one JSON document with a list of objects."""
    start = [line for line in lines.first(_FIRST) if line.strip()]
    if len(start) > 1 and all(map(_is_json, start[:2])):
        return "; each line is JSON: give --input_format=jsonl"
    if re.match(r"\{\s*\n", lines.start()) and _is_followed(lines):
        return "; it is several objects: rewrite it with jq -c . OLD > NEW.jsonl"
    if lines.start().startswith("["):  # a list, and damaged
        return ""
    values = dict(itertools.islice(json_stream.top_level(lines.chunks()), _FIRST))
    containers = [key for key, event in values.items() if event.startswith("start_")]
    if containers == ["data"]:
        return ""
    if len(containers) > 1 and len(containers) == len(values) or "start_map" in values.values():
        return f"; JSON of a table by columns: write it with {_WRITE}"
    if containers:
        return f"; its '{containers[0]}' is a list: give that list alone, or call it data"
    if len(start) == 1 and start[0].lstrip().startswith("{") and _is_json(start[0]):
        return "; it is one object: give --input_format=jsonl"
    return ""


def _is_followed(lines: Any) -> bool:
    """Whether another object follows the first one of a text."""
    try:
        text = "".join(lines.chunks()).lstrip()
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip().startswith("{")


def of_json_item(value: Any) -> str:
    """A hint for a document whose items are not objects."""
    return f"; JSON of a table by columns: write it with {_WRITE}" if _is_list(value) else ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(each, (dict, list)) for each in value)


def of_json_lines(lines: Any) -> str:
    """A hint for a file whose lines are not JSON objects."""
    start = lines.start()
    if start.startswith("["):
        return "; it is a list of JSON: give --input_format=json"
    if re.match(r"\{\s*\n", start):
        return "; it is JSON over several lines: give --input_format=json"
    return ""


# --- Lines of text


# --- Cells


def of_labels(text: str) -> str:
    """A hint which form the labels of a cell may have, as they are not names between commas."""
    text = text.strip()
    if "\n" in text:
        return "a line break in a cell of labels: give --label_separator=newline"
    if re.fullmatch(r"\[\s*[01]\.?([\s,]+[01]\.?)+\s*\]", text):
        return of_indicators(text) + ", or --label_form=json"
    if re.fullmatch(r"\[.*\]", text, re.DOTALL):
        if _is_json(text):
            return f"'{text:.80}' is a list: give --label_form=json"
        return f"'{text:.80}' looks like a list: give --label_form=python, or --label_form=names"
    if re.fullmatch(r"set\(\)|\(.*\)|\{\s*['\"].*\}", text, re.DOTALL):
        return f"'{text:.80}' looks like Python: give --label_form=python, or --label_form=names"
    if re.fullmatch(r"\{.*\}", text, re.DOTALL):
        return (
            f"'{text:.80}' looks like an array of PostgreSQL: write it with "
            "array_to_string(labels, ','), or give --label_form=names"
        )
    if re.fullmatch(r"[01](\s*,\s*[01])+", text):
        return of_indicators(text)
    return ""


def of_choices(fitting: Sequence[str]) -> str:
    """A hint which forms the labels of a multiple choice may have: those that fit, or else
    texts."""
    forms = {
        "letters": "letters",
        "numbers": "numbers from 1 on",
        "indices": "numbers from 0 on",
        "texts": "the texts of the right answers",
    }
    first = list(fitting) or ["texts"]
    listed = [*first, *(name for name in forms if name not in first)]
    return ": give " + ", ".join(f"--label_form={name} ({forms[name]})" for name in listed)


def of_indicators(cell: Any) -> str:
    """A hint for a list of 0 and 1 in place of names."""
    return (
        f"{cell!s:.80}: give --label_form=indicators if 0 and 1 say which labels a row has, "
        "--label_form=names if these are names"
    )
