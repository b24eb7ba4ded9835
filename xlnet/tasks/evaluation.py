"""Evaluation of predictions: the task's metrics, logged and written to files."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.support import files
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types.contract import LABELS_SHOWN, Predictions

_log = logging.getLogger(__name__)

CONSTANT = "constant answer"  # what its results are called


def constant_answer(task: Task, gold_labels: Any, threshold: float) -> Optional[dict]:
    """The metrics of the best prediction that ignores the text.

    Args:
      task: the task.
      gold_labels: as of `Scorer.gold_labels`: ids [n], 0 and 1 [n,L], or scores [n].
      threshold: as for `Scorer.decide`; for several labels in a row the best one is taken.

    Returns:
      a dict of floats; None for a task that has neither probabilities of its labels nor scores.
      The prediction is the frequency of each label, or the mean score.
    """
    names = tuple(task.scorer.probabilities)
    has_scores = task.scorer.has_scores or names and names == task.labels
    if not isinstance(gold_labels, np.ndarray) or not has_scores:
        return None
    answer = gold_labels.mean(axis=0)
    if names and gold_labels.ndim == 1:
        answer = np.bincount(gold_labels, minlength=len(names)) / len(gold_labels)
    values = np.broadcast_to(answer, (len(gold_labels), *np.shape(answer)))
    if names and gold_labels.ndim > 1:
        threshold = best_threshold(values, gold_labels)
    return task.scorer.evaluate(values, gold_labels, threshold)


def best_threshold(values: np.ndarray, gold: np.ndarray) -> float:
    """The threshold with the highest F1 over all labels of all rows: half-way between the last
    probability that it takes and the next one.

    Args:
      values: probabilities [n,L].
      gold: 0 and 1 [n,L].
    """
    order = np.argsort(-values, axis=None)
    falling, are_right = values.ravel()[order], np.cumsum(gold.ravel()[order])
    f1 = are_right / (np.arange(1, len(falling) + 1) + gold.sum())
    after = np.append(falling[1:], 0.0)
    last = int(np.argmax(np.where(after < falling, f1, 0.0)))
    return float(falling[last] + after[last]) / 2


class Evaluation:
    """Evaluates predictions for examples of a task. directory: of the files with results; None:
    none are written."""

    def __init__(self, task: Task, directory: Optional[str], threshold: float):
        self._task = task
        self._directory = directory
        self.threshold = threshold
        self._explained: set[tuple[str, str]] = set()  # (split, undefined metric)

    def constant_answer(self, rows: Sequence[Row]) -> Optional[dict]:
        """As the function, for rows."""
        gold_labels = self._task.scorer.gold_labels(rows)
        return constant_answer(self._task, gold_labels, self.threshold)

    def score(self, predictions: Predictions, rows: Sequence[Row]) -> dict:
        """The task's metrics and the mean loss of the predictions for a split, a dict of floats."""
        scorer, values = self._task.scorer, predictions.values
        gold_labels = scorer.gold_labels(rows)
        result = scorer.evaluate(values, gold_labels, self.threshold)
        result.setdefault("loss", float(np.mean(predictions.loss, dtype=np.float64)))
        return result

    def mean(self, results: Sequence[dict]) -> dict:
        """The result of a split of several files: the mean."""
        result = {}
        for name in (*self._task.metrics, "loss"):
            result[name] = float(np.mean([one[name] for one in results]))
        return result

    def report(self, split: str, what: str, result: dict, rows: Sequence[Row]) -> None:
        """Logs a result in a line; why a checkpoint's metric is undefined in another one, once for
        a split."""
        numbers = []
        for name, value in result.items():
            numbers.append(f"{name} {in_words(value)}")
        for name in self._task.metrics:
            is_undefined = name in result and math.isnan(result[name])
            if is_undefined and (split, name) not in self._explained:
                self._explained.add((split, name))
                _log.warning(
                    "note: eval %s %s: %s is undefined: %s; it chooses no checkpoint",
                    self._task.name,
                    split,
                    name,
                    split_metrics.why_undefined(name),
                )
        main_metric, constant = self._task.metrics[0], self.constant_answer(rows)
        more = ""
        if constant and not math.isnan(constant[main_metric]):
            more += f"  {CONSTANT}: {in_words(constant[main_metric])}"
        _log.info(
            "eval %s %s  %s  %s  (%d rows)%s",
            self._task.name,
            split,
            what,
            "  ".join(numbers),
            len(rows),
            more,
        )

    def keep_results(
        self,
        split: str,
        rows: Sequence[Row],
        constant: Optional[dict],
        results: Sequence[dict],
        best: Optional[dict],
        thresholds: dict,
    ) -> None:
        """Writes `eval_results_<split>.json`.

        Args:
          split: the split, or what its files are called.
          rows: those evaluated.
          constant: as of `constant_answer`.
          results: of the checkpoints: dicts as `score` returns them, with their step.
          best: one of them; None: none is better than others.
          thresholds: the settings that have decided, by name.
        """
        main_metric = self._task.metrics[0]
        if len(results) > 1 and best:
            _log.info(
                "best %s %s  step %d  %s %.4f",
                self._task.name,
                split,
                best["step"],
                main_metric,
                best[main_metric],
            )
        if self._directory:
            files.write_json(
                os.path.join(self._directory, f"eval_results_{split}.json"),
                {
                    "task": self._task.name,
                    "split": split,
                    "rows": len(rows),
                    **thresholds,
                    "constant_answer": constant,
                    "best_step": best["step"] if best else None,
                    "checkpoints": results,
                },
            )

    def keep_table(self, split: str, rows: Sequence[Row], values: Any) -> None:
        """Writes and logs the table of the errors, if the task type has one. values: as in
        `contract.Predictions`."""
        scorer = self._task.scorer
        text = scorer.table(values, scorer.gold_labels(rows), self.threshold)
        if text is None:
            return
        if self._directory:
            path = os.path.join(self._directory, f"eval_table_{split}.txt")
            files.write_text(path, text + "\n")
        if len(self._task.labels or ()) <= LABELS_SHOWN:
            _log.info("%s", text)


def in_words(value: float) -> str:
    """A metric for a line of text."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"
