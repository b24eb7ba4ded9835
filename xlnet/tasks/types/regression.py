"""Regression: a score for each row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.records.feature_spec import Feature
from xlnet.tasks.files.readers import to_number, to_text
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.task import Row
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions, differ

_HIGHEST = float(np.finfo(np.float32).max)  # of the absolute value of a score in a record
_NARROW = 0.01  # scores with a spread below this fraction of the labels' are degenerate


class RegressionReader(contract.Reader):
    """The label of a row is a number."""

    def parse_label(self, cells: list) -> tuple:
        text = to_text(cells[0]).strip() if cells else ""
        if not text:
            return None, f"column '{self.task.columns.label[0]}' is empty"
        return self.parse_score(text)

    def parse_score(self, text: str) -> tuple:
        """As `parse_label`, for a cell that is not empty."""
        score = to_number(text)
        column = self.task.columns.label[0]
        if abs(score) <= _HIGHEST:
            return score, None
        if math.isfinite(score):
            return None, f"column '{column}': '{text}', expected at most {_HIGHEST:.6g}"
        return None, f"column '{column}': '{text}' is not a number"

    def label_array(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n]"""
        return np.array([row.label or 0 for row in rows], np.float32)


class RegressionHead(contract.Head):
    """A score, with its squared error as the loss."""

    scope_name = "regression"

    def features(self, length: int) -> tuple:
        return (Feature("label_ids", (), "float"),)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        import tensorflow.compat.v1 as tf

        return tf.squeeze(nn.dense(nn.summary(), 1, nn.scope + "/logit"), axis=-1)

    def loss(self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]) -> Any:
        import tensorflow.compat.v1 as tf

        return tf.square(logits - features["label_ids"])

    def outputs_in_words(self) -> str:
        return "scores"


class RegressionExport(contract.Export):
    """The score."""

    def outputs(self, outputs: dict, features: dict, threshold: float = THRESHOLD) -> dict:
        return {"score": outputs["values"]}


class RegressionScorer(contract.Scorer):
    """A prediction, a decision and a gold label are a float32."""

    default_metrics: ClassVar[tuple[str, ...]] = ("pearson", "spearman", "mse", "mae")
    metrics = {name: getattr(split_metrics, name) for name in default_metrics}
    lower_is_better = frozenset({"mse", "mae"})
    column = "score"
    is_number = True

    def constant_prediction(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> Optional[str]:
        """Scores of almost no spread."""
        if not differ(gold_labels) or np.std(values) >= _NARROW * np.std(gold_labels):
            return None
        return f"all scores are about {np.mean(values):.2f}"

    def counts_in_words(self, rows: Sequence[Row]) -> str:
        scores = self.task.reader.label_array(rows)
        return f"from {scores.min():g} to {scores.max():g}, mean {scores.mean():.2f}"

    def texts(self, values: np.ndarray, threshold: float) -> list:
        return [f"{value:.9g}" for value in values]

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """The error is the absolute difference."""
        for row, predicted, value in zip(rows, self.texts(values, threshold), values):
            error = 0.0 if row.label is None else abs(float(value) - row.label)
            gold = "" if row.label is None else f"{row.label:.15g}"
            yield contract.Comparison(gold, predicted, None, error)

    def results(self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD) -> list:
        """Floats."""
        return contract.checked(self, values, len(rows)).tolist()


REGRESSION = contract.TaskType(
    "regression",
    RegressionReader,
    RegressionHead,
    RegressionScorer,
    verb="score",
    selecting_flag="is_regression",
    export=RegressionExport,
)
