"""CSV: which quotation marks are part of cells, and rows that are not CSV."""

from __future__ import annotations

import collections
import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

LONGEST_CELL = 1 << 24  # [characters]
LINES_OF_A_ROW = 50  # at most, of one whose quotation marks are looked at
_QUOTED_CELL = r'"(?:[^"]|"")*"'
_CELLS = re.compile(rf'(?:{_QUOTED_CELL}|[^"\t]*)(?:\t(?:{_QUOTED_CELL}|[^"\t]*))*')
_NEEDS_QUOTES = re.compile(r'""|[\t\n]')


def is_quoted(lines: Iterable[str]) -> tuple[bool, Optional[int]]:
    """Whether cells between tabs are quoted where they need it, as pandas and spreadsheet programs
    write them; and, if the lines disagree, the number of the first one that says no.

    A file is not quoted if a cell without quotation marks around it has one, if quoted cells do not
    need it, or if all line breaks in quotation marks end a row as wide as the first line, as in
    GLUE's files.
    """
    begun, start, has_needed, has_unquoted, tabs = "", 0, False, False, None
    for number, line in enumerate(lines, 1):
        tabs = line.count("\t") if tabs is None and line.strip() else tabs
        # Lines up to the one that closes the last quotation mark are a row, unless they are many.
        if not begun and '"' not in line:
            has_unquoted = has_unquoted or bool(line.strip())
            continue
        start = start if begun else number
        begun = begun + "\n" + line if begun else line
        if begun.count('"') % 2 and number - start < LINES_OF_A_ROW:
            continue
        # A quotation mark in an unquoted cell, or rows as wide as the others: not quoted.
        if (
            not _CELLS.fullmatch(begun)
            or tabs
            and "\n" in begun
            and all(each.count("\t") == tabs for each in begun.split("\n"))
        ):
            return False, start if has_needed else None
        # For it: a quoted cell that needs it. Against: a row of which not all cells are quoted.
        cells = re.findall(_QUOTED_CELL, begun)
        has_needed = has_needed or any(_NEEDS_QUOTES.search(cell[1:-1]) for cell in cells)
        has_unquoted = has_unquoted or len(cells) <= begun.count("\t") or len(cells) == 1
        begun = ""
    return not begun and (has_needed or not has_unquoted), None


def rows(lines: Iterable[tuple[Any, str]], **dialect: Any) -> Iterator[tuple]:
    """Yields the place of each row's first line, and its cells, or a str that says what is wrong;
    behind such an error the next line begins a row.

    lines: (place, text without the line feed).
    dialect: arguments of `csv.reader`.
    """
    csv.field_size_limit(LONGEST_CELL)
    to_come = iter(lines)
    again: collections.deque[tuple[Any, str]] = collections.deque()  # lines behind an error
    taken: list[tuple[Any, str]] = []  # of a row

    def take():
        while (line := again.popleft() if again else next(to_come, None)) is not None:
            taken.append(line)
            yield line[1] + "\n"

    is_done = False
    while not is_done:
        try:
            for row in csv.reader(take(), strict=True, **dialect):
                yield taken[0][0], row
                taken.clear()
            is_done = True
        except csv.Error as e:  # the reader is lost: another one begins behind the first line
            yield taken[0][0], _reason(e)
            again.extendleft(reversed(taken[1:]))
            taken.clear()


def _reason(error):
    if "field limit" in str(error):
        return (
            "a cell of more than {} characters; is a quotation mark before it not closed?".format(
                format(LONGEST_CELL, ",")
            )
        )
    if "new-line" in str(error):
        return "not CSV: a carriage return in a cell without quotation marks"
    return f"not CSV: {error}"
