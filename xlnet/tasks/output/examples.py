"""Rows of the data that a model directory keeps, so that its page does not open empty."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from xlnet.tasks.task import Row, Task

GOLD = "gold"  # the key of an example's label, next to the names of its texts

_MOST = 8
_LOOKED_AT = 500  # rows
_SHORT = 600  # of an example; longer ones are taken where there are no others [characters]
_LONGEST = 5000  # of an example [characters]


def of_rows(task: Task, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Up to eight rows by the names of the texts of a served row, and `GOLD`, their label.

    Short rows come before long ones. Labels take turns: the first row of each label, then the
    second of each.
    """
    short: list[tuple[str, dict[str, Any]]] = []
    long: list[tuple[str, dict[str, Any]]] = []
    for row in itertools.islice(rows, _LOOKED_AT):
        example = task.reader.example(row) if row.pairs else None
        if example is None:
            continue
        length = sum(len(str(text)) for text in example.values())
        if length > _LONGEST:
            continue
        if row.label is not None:
            example = {**example, GOLD: task.reader.gold(row)}
        (short if length <= _SHORT else long).append((str(row.label), example))

    # The turn of an example: how many of its label come before it.
    by_turn: list[tuple[int, dict[str, Any]]] = []
    seen: dict[str, int] = {}
    for label, example in short or long:
        by_turn.append((seen.get(label, 0), example))
        seen[label] = seen.get(label, 0) + 1
    by_turn.sort(key=lambda item: item[0])
    return [example for _, example in by_turn[:_MOST]]
