"""The lengths of a task's records and batches."""

from __future__ import annotations

from typing import NamedTuple

from xlnet.settings.finetuning import FineTuningSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.types.task import Task

_ROUND_TO = 8            # lengths of batches are multiples of it [tokens]


def of_records(settings: FineTuningSettings, task: Task) -> encoding.Layout:
    """The length of a record's text or choice (of all segments with --long_document=memory), and
    how longer texts are truncated."""
    segments = settings.max_segments if settings.long_document == "memory" else 1
    return encoding.Layout(settings.max_seq_length * segments, task.cut_first,
                           settings.long_document)


class Padding(NamedTuple):
    """The padding that batches leave out.

    Attributes:
      side: of the padding, "left" or "right".
      token_features: features [T] of the head that are truncated like the ids.
      multiple: the length of batches is a multiple of it [tokens].
    """
    side: str
    token_features: tuple[str, ...]
    multiple: int


def of_padding(settings: FineTuningSettings, task: Task) -> Padding:
    """With memory, empty segments before a text are left out; its last segment is complete."""
    if settings.long_document == "memory":
        return Padding("left", (), settings.max_seq_length)
    return Padding(task.reader.pads, tuple(task.head.token_features), _ROUND_TO)
