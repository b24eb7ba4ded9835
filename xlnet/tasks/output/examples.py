"""Rows of the data that a model directory keeps, so that its page does not open empty."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from xlnet.tasks.task import Row, Task

_MOST = 3
_LOOKED_AT = 500  # rows
_LONGEST = 600  # of an example [characters]


def of_rows(task: Task, rows: Iterable[Row]) -> list[dict]:
    """Up to three short rows of different labels, by the names of the texts of a served row."""
    found: dict[str, dict] = {}
    for row in itertools.islice(rows, _LOOKED_AT):
        example = task.reader.example(row) if row.pairs else None
        if example and sum(len(str(text)) for text in example.values()) <= _LONGEST:
            found.setdefault(str(row.label), example)
        if len(found) == _MOST:
            break
    return list(found.values())
