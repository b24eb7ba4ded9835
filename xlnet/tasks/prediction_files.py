"""Prediction files: for people and programs, and for the GLUE server.

What stands in them says the task's kind; here they are named and written, whole or not at all.
"""

from __future__ import annotations

import collections
import logging
import os
from collections.abc import Sequence
from typing import Any, Optional

from xlnet import files
from xlnet.tasks.task import Row, Task

_log = logging.getLogger(__name__)

# extension: of the file's name. what: the words before its path, None for the main file. text: all
# that is in it.
PredictionFile = collections.namedtuple("PredictionFile", "extension what text")


def write(directory: str, task: Task, split: str, rows: Sequence[Row], values: Any, *,
          step: int, threshold: float, is_official: bool, output: Optional[str] = None) -> None:
    """Writes the answers to the rows of a split in every form that its kind has.

    Args:
      values: as in `kind.Answers`. step: of the checkpoint. threshold: as in `Kind.decide`.
      is_official: whether the rows are those of the split's official file, which may be submitted.
      output: path of the main file, which then is the only one; "-": the standard output.
    """
    if output:
        main = task.kind.prediction_files(task, rows, values, threshold)[0]
        files.write_text(output, main.text)
        _say_predicted(task, split, step, rows, output)
        return
    stem = os.path.join(directory, "predictions_%s_%s" % (task.name, split))
    for extension, what, text in task.kind.prediction_files(task, rows, values, threshold):
        path = "%s.%s" % (stem, extension)
        files.write_text(path, text)
        if what:
            _log.info("%s: %s", what, path)
        else:
            _say_predicted(task, split, step, rows, path)
    if is_official and split in task.submissions:
        path = os.path.join(directory, task.submissions[split])
        files.write_text(path, task.kind.submission(task, rows, values))
        _log.info("for the GLUE server: %s", path)


def _say_predicted(task, split, step, rows, path):
    _log.info("predicted %s %s  step %d  (%d rows): %s", task.name, split, step, len(rows), path)


def tsv(columns: Sequence[tuple]) -> str:
    """The text of a table; columns: (name, texts of all rows) of each."""
    lines = [[name for name, _ in columns], *zip(*(texts for _, texts in columns))]
    return "".join("\t".join(map(_cell, line)) + "\n" for line in lines)


def _cell(text):
    """Text without the characters that end a cell or a line."""
    return " ".join(text.split()) if "\t" in text or "\n" in text or "\r" in text else text
