"""How long the records of a task are, and its batches."""

from __future__ import annotations

from typing import NamedTuple

from xlnet.settings.finetuning import FineTuningSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.types.task import Task

_ROUND_TO = 8            # lengths of batches are multiples of it [tokens]


def of_records(settings: FineTuningSettings, task: Task) -> encoding.Layout:
    """What becomes of the texts of a record: tokens of one text or choice, those of all segments
    where there are several, and where they are cut."""
    segments = settings.max_segments if settings.long_document == "memory" else 1
    return encoding.Layout(settings.max_seq_length * segments, task.cut_first,
                           settings.long_document)


class Padding(NamedTuple):
    """What batches do without. side: "left" or "right", where padding is. token_features: those of
    a head's features [T] that are cut like the ids. multiple: batches that are as long as their
    longest text are multiples of it [tokens]."""
    side: str
    token_features: tuple[str, ...]
    multiple: int


def of_padding(settings: FineTuningSettings, task: Task) -> Padding:
    """With memory whole segments are left out before a text; its last one, and what belongs to
    that, stays whole."""
    if settings.long_document == "memory":
        return Padding("left", (), settings.max_seq_length)
    return Padding(task.reader.pads, tuple(task.head.token_features), _ROUND_TO)
