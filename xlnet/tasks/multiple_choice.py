"""Multiple choice: the right one of several answers to a text, or to a text and a question."""

from __future__ import annotations

import logging
import re
import string
from collections.abc import Sequence
from typing import Any, Optional

from xlnet.errors import UserError
from xlnet.tasks import metrics
from xlnet.tasks.classification import Classification
from xlnet.tasks.kind import THRESHOLD, Kind
from xlnet.tasks.readers import to_text
from xlnet.tasks.results import Choice
from xlnet.tasks.task import Row, Task

_log = logging.getLogger(__name__)


class MultipleChoice(Classification):
    """A classification whose labels are the C answers of a row, each read with the text, and each
    scored by the same weights."""
    name = "multiple_choice"
    verb = "choose"
    default_metrics = ("accuracy",)
    metrics = {"accuracy": metrics.accuracy}
    class_weights = Kind.class_weights

    def is_asked_for(self, settings: Any) -> bool:
        return bool(settings.choice_columns)

    def find_labels(self, task: Task, rows: Sequence[Row], path: str) -> tuple:
        """How the file names its answers: by their columns, by letters, by numbers from 1, or from
        0 where some row has it."""
        count = len(rows[0].pairs)
        found = {row.label for row in rows}
        for names in (task.choices, string.ascii_uppercase[:count], string.ascii_lowercase[:count],
                      map(str, range(1, count + 1)), map(str, range(count))):
            names = tuple(names)
            if len(names) == count and found <= set(names):
                if found <= set(map(str, range(1, count))):     # neither 0 nor the last number
                    _log.info("note: %s: answers are %s of %d: taken as numbered from 1", path,
                              ", ".join(sorted(found)), count)
                return names
        raise UserError("%s: column '%s' has %s; expected the right one of %d answers as a "
                        "column's name, a letter or a number" % (
                            path, task.label[0], ", ".join(sorted(found)[:6]), count))

    def known_metrics(self, task: Task) -> tuple:
        return tuple(self.metrics)

    def head_scope(self, name: str) -> str:
        return "logits"

    def parse_pairs(self, task: Task, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        options = [to_text(cell) for cell in _listed(choices)]
        if len(options) < 2 or not all(option.strip() for option in options):
            return None, "column '%s': expected two or more answers, none of them empty" % " ".join(
                task.choices)
        if task.labels and len(options) != len(task.labels):
            return None, "%d answers, expected %d" % (len(options), len(task.labels))
        return tuple((text_a, _answered(text_b, option)) for option in options), None

    # ---- served as a graph

    def texts_of_row(self, task: Task) -> tuple[str, ...]:
        return (*super().texts_of_row(task), "choices")

    def graph_features(self, encoder: Any, task: Task, texts: dict) -> dict:
        return encoder.choices(texts["text_a"], texts.get("text_b"), texts["choices"])

    # ---- from Python

    def results(self, task: Task, rows: Sequence[Row], values: Any,
                threshold: float = THRESHOLD) -> list:
        values = self.checked(task, values, len(rows))
        return [Choice(int(id), task.class_names[id], tuple(row.tolist()))
                for id, row in zip(self.decide(task, values, threshold), values)]

    # ---- the output layer

    def num_choices(self, task: Task, is_training: bool) -> int:
        return len(task.class_names)

    def logits(self, nn: Any, task: Task, features: dict, is_training: bool) -> Any:
        """[B,C]"""
        summary = nn.summary()
        with nn.beside_network():
            scores = nn.dense(summary, 1, nn.scope + "/dense")                # [B*C,1]
        return nn.tf.reshape(scores, [-1, len(task.class_names)])


def _listed(choices):
    """The cells of several columns, or the list in the one column."""
    if len(choices) > 1:
        return choices
    return choices[0] if isinstance(choices[0], list) else []


def _answered(question, option):
    """The answer in its question's gap, or after the question."""
    if question is None:
        return option
    if "_" in question:
        return re.sub("_+", lambda gap: option, question)
    return "%s %s" % (question, option)
