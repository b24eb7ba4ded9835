"""Regression: a score for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.records.feature_spec import Feature
from xlnet.tasks.files.readers import to_text
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.types.classification import differ
from xlnet.tasks.types.kind import THRESHOLD, Kind, LossOptions
from xlnet.tasks.types.task import Row, Task

_NARROW = 0.01       # scores whose spread is less than this share of the labels' have collapsed


class Regression(Kind):
    """The squared error of a score. Answer, decision and truth are a float32."""
    name = "regression"
    verb = "score"
    default_metrics: ClassVar[tuple[str, ...]] = ("pearson", "spearman", "mse", "mae")
    metrics = {"pearson": split_metrics.pearson, "spearman": split_metrics.spearman,
               "mse": split_metrics.mse, "mae": split_metrics.mae}
    lower_is_better = frozenset({"mse", "mae"})
    baseline_words = "mean score"

    def is_asked_for(self, settings: Any) -> bool:
        return settings.is_regression

    def head_scope(self, name: str) -> str:
        return "regression_%s" % name

    # ---- files and records

    def parse_label(self, task: Task, cells: list) -> tuple:
        text = to_text(cells[0]).strip() if cells else ""
        return self.parse_score(task, text) if text else (
            None, "column '%s' is empty" % task.label[0])

    def parse_score(self, task: Task, text: str) -> tuple:
        """As `parse_label`, of a cell that is not empty."""
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        return (score, None) if math.isfinite(score) else (
            None, "column '%s': '%s' is not a number" % (task.label[0], text))

    def label_array(self, task: Task, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n]"""
        return np.array([row.label or 0 for row in rows], np.float32)

    def label_features(self, task: Task, length: int) -> tuple:
        return (Feature("label_ids", (), "float"),)

    # ---- the output layer

    def logits(self, nn: Any, task: Task, features: dict, is_training: bool) -> Any:
        """[B]"""
        return nn.tf.squeeze(nn.dense(nn.summary(), 1, nn.scope + "/logit"), axis=-1)

    def loss(self, nn: Any, task: Task, logits: Any, features: dict,
             options: Optional[LossOptions]) -> Any:
        return nn.tf.square(logits - features["label_ids"])

    def served(self, tf: Any, task: Task, answers: dict, features: dict,
               threshold: float = THRESHOLD) -> dict:
        return {"score": answers["values"]}

    # ---- metrics

    def constant_answer(self, task: Task, truth: np.ndarray) -> np.ndarray:
        """The mean score."""
        return truth.mean(axis=0)

    def collapsed(self, task: Task, values: Any, truth: Any) -> Optional[str]:
        """Scores of next to no spread, while the true ones differ."""
        if not differ(truth) or np.std(values) >= _NARROW * np.std(truth):
            return None
        return "all scores are about %.2f" % np.mean(values)

    # ---- from Python

    def results(self, task: Task, rows: Sequence[Row], values: Any,
                threshold: float = THRESHOLD) -> list:
        """Floats."""
        return self.checked(task, values, len(rows)).tolist()

    # ---- prediction files, words

    def prediction_columns(self, task: Task, rows: Sequence[Row], values: np.ndarray,
                           threshold: float) -> list:
        """`id score`"""
        return [("id", (row.id for row in rows)),
                ("score", self.answer_texts(task, values, threshold))]

    def answer_texts(self, task: Task, values: np.ndarray, threshold: float) -> list:
        return ["%.6f" % value for value in values]

    def words(self, task: Task) -> str:
        return "scores"

    def counts_in_words(self, task: Task, rows: Sequence[Row]) -> str:
        scores = self.label_array(task, rows)
        return "from %g to %g, mean %.2f" % (scores.min(), scores.max(), scores.mean())
