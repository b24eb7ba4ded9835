"""How long the records of a task are, and its batches."""

from __future__ import annotations

from xlnet.config import FineTuningSettings
from xlnet.tasks import encoding
from xlnet.tasks.task import Task

_ROUND_TO = 8            # lengths of batches are multiples of it [tokens]


def of_records(settings: FineTuningSettings, task: Task) -> encoding.Layout:
    """What becomes of the texts of a record: tokens of one text or choice, those of all segments
    where there are several, and where they are cut."""
    segments = settings.max_segments if settings.long_document == "memory" else 1
    return encoding.Layout(settings.max_seq_length * segments, task.cut_first,
                           settings.long_document)


def multiple(settings: FineTuningSettings) -> int:
    """Batches that are as long as their longest text are multiples of it [tokens]."""
    return settings.max_seq_length if settings.long_document == "memory" else _ROUND_TO
