"""Multi-label classification: any number of the labels for each row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.records.feature_spec import Feature
from xlnet.tasks import metrics
from xlnet.tasks.classification import (
    by_label,
    differ,
    probability_columns,
    sorted_names,
    unknown_label,
)
from xlnet.tasks.kind import THRESHOLD, Kind, LossOptions
from xlnet.tasks.readers import to_text
from xlnet.tasks.results import Labels
from xlnet.tasks.task import Row, Task


@dataclasses.dataclass(frozen=True)
class MultiLabel(Kind):
    """An independent yes or no for each label. An answer is their probabilities, float32 [L]; a
    decision and the truth are 0 and 1, float32 [L]. In files labels are in one cell, between
    `separator`s, or a list; or each has a column of 0 and 1."""
    separator: str = ","

    name = "multi_label"
    has_labels = True
    smooths_labels = True
    default_metrics = ("micro_f1", "macro_f1", "accuracy", "auc")
    metrics = {"micro_f1": metrics.micro_f1, "macro_f1": metrics.macro_f1,
               "accuracy": metrics.accuracy, "auc": metrics.auc}

    def is_asked_for(self, settings: Any) -> bool:
        return settings.multi_label

    def configured(self, task: Task, settings: Any) -> Task:
        return dataclasses.replace(task, kind=MultiLabel(settings.label_separator))

    def find_labels(self, task: Task, rows: Sequence[Row], path: str) -> tuple:
        """The columns' names, or those in the one column: numbers by size, others by letter."""
        if len(task.label) > 1:
            return task.label
        names = {name for row in rows for name in row.label}
        if not names:
            raise UserError("%s: column '%s' holds no label; expected one or more"
                            % (path, task.label[0]))
        return sorted_names(names)

    def head_scope(self, name: str) -> str:
        return "classification_%s" % name

    # ---- files and records

    def parse_label(self, task: Task, cells: list) -> tuple:
        """A sorted tuple of names."""
        if len(cells) > 1:
            return self._parse_indicators(task, cells)
        if not cells or cells[0] is None:
            return None, "no '%s'" % task.label[0]
        texts = map(to_text, cells[0]) if isinstance(cells[0], list) else to_text(cells[0]).split(
            self.separator)
        names = tuple(sorted({text.strip() for text in texts} - {""}))
        faults = [fault for fault in (unknown_label(task, name) for name in names) if fault]
        return (None, faults[0]) if faults else (names, None)

    def _parse_indicators(self, task, cells):
        """Labels as columns of 0 and 1, named after them."""
        texts = [to_text(cell).strip() for cell in cells]
        for name, text in zip(task.label, texts):
            if text not in ("0", "1"):
                return None, "column '%s': '%s', expected 0 or 1" % (name, text)
        return tuple(sorted(name for name, text in zip(task.label, texts) if text == "1")), None

    def label_array(self, task: Task, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n,L] of 0 and 1."""
        position = {label: id for id, label in enumerate(task.class_names)}
        array = np.zeros([len(rows), len(task.class_names)], np.float32)
        for i, row in enumerate(rows):
            array[i, [position[name] for name in row.label or ()]] = 1
        return array

    def label_features(self, task: Task, length: int) -> tuple:
        return (Feature("label_ids", (len(task.class_names),), "float"),)

    # ---- the output layer

    def logits(self, nn: Any, task: Task, features: dict, is_training: bool) -> Any:
        """[B,L]"""
        return nn.dense(nn.summary(), len(task.class_names), nn.scope + "/logit")

    def loss(self, nn: Any, task: Task, logits: Any, features: dict,
             options: Optional[LossOptions]) -> Any:
        """The loss of a record is the mean over its labels."""
        labels = features["label_ids"]                                        # float32 [B,L]
        options = options or LossOptions()
        if options.label_smoothing:
            labels = labels * (1. - options.label_smoothing) + options.label_smoothing / 2
        return nn.tf.reduce_mean(nn.sigmoid_cross_entropy(logits, labels), axis=1)

    def answers(self, nn: Any, task: Task, logits: Any) -> dict:
        return {"values": nn.tf.sigmoid(logits)}

    def served(self, tf: Any, task: Task, answers: dict, features: dict,
               threshold: float = THRESHOLD) -> dict:
        values = answers["values"]
        return {"is_label": values >= threshold, "probabilities": values}

    # ---- decisions and metrics

    def decide(self, task: Task, values: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
        """float32 [n,L]"""
        return (np.asarray(values) >= threshold).astype(np.float32)

    def constant_answer(self, task: Task, truth: np.ndarray) -> np.ndarray:
        """The share of the rows that each label has."""
        return truth.mean(axis=0)

    def collapsed(self, task: Task, values: Any, truth: Any) -> Optional[str]:
        """One set of labels for all rows, while the true ones differ."""
        decisions = self.decide(task, values)
        if not differ(truth) or differ(decisions):
            return None
        names = [name for name, is_on in zip(task.class_names, decisions[0]) if is_on]
        return "every row has the labels %s" % (", ".join(names) or "(none)")

    def table(self, task: Task, values: Any, truth: Any, threshold: float) -> str:
        return metrics.class_table(task, self.decide(task, values, threshold), truth)

    # ---- from Python

    def results(self, task: Task, rows: Sequence[Row], values: Any,
                threshold: float = THRESHOLD) -> list:
        values = self.checked(task, values, len(rows))
        return [Labels(tuple(name for name, is_on in zip(task.class_names, decision) if is_on),
                       by_label(task, row))
                for decision, row in zip(self.decide(task, values, threshold), values)]

    # ---- prediction files

    def prediction_columns(self, task: Task, rows: Sequence[Row], values: np.ndarray,
                           threshold: float) -> list:
        """`id labels p_<label> ...`"""
        return [("id", (row.id for row in rows)),
                ("labels", self.answer_texts(task, values, threshold)),
                *probability_columns(task, values)]

    def answer_texts(self, task: Task, values: np.ndarray, threshold: float) -> list:
        return [self.separator.join(
            name for name, is_on in zip(task.class_names, row) if is_on)
            for row in self.decide(task, values, threshold)]
