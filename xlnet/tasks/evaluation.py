"""Evaluation of predictions: the task's metrics, logged and written to files."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet import files
from xlnet.tasks.metrics import intervals, split_metrics
from xlnet.tasks.output import prediction_files
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types.contract import LABELS_SHOWN, Predictions

_log = logging.getLogger(__name__)


class Evaluation:
    """Evaluates predictions for examples of a task. directory: of the files with results; None:
    none are written."""

    def __init__(self, task: Task, directory: Optional[str], threshold: float):
        self._task = task
        self._directory = directory
        self._threshold = threshold
        self._explained: set[tuple[str, str]] = set()  # (split, undefined metric)
        self._baselines: dict[str, dict] = {}  # by split

    def baseline(self, split: str, rows: Sequence[Row]) -> dict:
        """Logs and returns the metrics of predictions that ignore the examples, a dict of
        floats."""
        result = self._baseline(split, rows)
        self.report(split, self._task.scorer.baseline_words, result, rows)
        return result

    def _baseline(self, split: str, rows: Sequence[Row]) -> dict:
        """As `baseline`, computed once for a split; it is shown next to each evaluation."""
        if split not in self._baselines:
            scorer = self._task.scorer
            # A threshold that decides predictions decides the constant one, too.
            threshold = [self._threshold] if scorer.has_threshold else []
            self._baselines[split] = scorer.baseline(scorer.gold_labels(rows), *threshold)
        return self._baselines[split]

    def score(self, predictions: Predictions, rows: Sequence[Row]) -> dict:
        """The task's metrics and the mean loss of the predictions for a split, a dict of floats;
        also `interval`, the 95 % interval of the main metric, if there are few rows, and
        `collapsed`, a message, if all predictions are the same."""
        scorer, values = self._task.scorer, predictions.values
        gold_labels = scorer.gold_labels(rows)
        result = scorer.evaluate(values, gold_labels, self._threshold)
        result.setdefault("loss", float(np.mean(predictions.loss, dtype=np.float64)))
        interval = intervals.interval(
            self._task, values, rows, self._threshold, result[self._task.metrics[0]]
        )
        if interval:
            result["interval"] = list(interval)
        constant = scorer.constant_prediction(values, gold_labels, self._threshold)
        return dict(result, collapsed=constant) if constant else result

    def mean(self, results: Sequence[dict]) -> dict:
        """The result of a split of several files: the mean; degenerate if all of them are."""
        result = {
            name: float(np.mean([one[name] for one in results]))
            for name in (*self._task.metrics, "loss")
        }
        if all("collapsed" in one for one in results):
            result["collapsed"] = results[0]["collapsed"]
        return result

    def report(self, split: str, what: str, result: dict, rows: Sequence[Row]) -> None:
        """Logs a result in a line; why a checkpoint's metric is undefined in another one, once for
        a split."""
        scorer = self._task.scorer
        numbers = "  ".join(
            f"{name} {in_words(value)}"
            for name, value in result.items()
            if name not in ("collapsed", "interval")
        )
        for name in self._task.metrics:
            is_undefined = name in result and math.isnan(result[name])
            is_constant = what == scorer.baseline_words
            if is_undefined and not is_constant and (split, name) not in self._explained:
                self._explained.add((split, name))
                _log.warning(
                    "note: eval %s %s: %s is undefined: %s; it chooses no checkpoint",
                    self._task.name,
                    split,
                    name,
                    scorer.undefined_words or split_metrics.why_undefined(name),
                )
        interval = (
            "  95 % interval of {}: {:.4f} to {:.4f}".format(
                self._task.metrics[0], *result["interval"]
            )
            if "interval" in result
            else ""
        )
        if what != scorer.baseline_words:
            name = self._task.metrics[0]
            reached = self._baseline(split, rows).get(name, math.nan)
            if not math.isnan(reached):
                interval += f"  {scorer.baseline_words}: {in_words(reached)}"
        degenerate = "  degenerate: " + result["collapsed"] if "collapsed" in result else ""
        _log.info(
            "eval %s %s  %s  %s  (%d rows)%s%s",
            self._task.name,
            split,
            what,
            numbers,
            len(rows),
            interval,
            degenerate,
        )

    def keep_results(
        self,
        split: str,
        rows: Sequence[Row],
        baseline: dict,
        results: Sequence[dict],
        best: Optional[dict],
        thresholds: dict,
    ) -> None:
        """Writes `eval_results_<split>.json`.

        Args:
          split: the split, or what its files are called.
          rows: those evaluated.
          baseline: as of `baseline`.
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
                    "baseline": baseline,
                    "best_step": best["step"] if best else None,
                    "checkpoints": results,
                },
            )

    def keep_tables(self, split: str, rows: Sequence[Row], values: Any) -> None:
        """Writes the wrong predictions, and the confusion matrix as text and as a plot, if the task
        type has them; values: as in `contract.Predictions`."""
        scorer = self._task.scorer
        directory = self._directory
        if directory:
            path = os.path.join(directory, f"errors_{split}.tsv")
            _log.info(
                "wrong predictions %s %s  %d of %d rows, the worst first: %s",
                self._task.name,
                split,
                prediction_files.write_errors(path, self._task, rows, values, self._threshold),
                len(rows),
                path,
            )
        text = scorer.table(
            values,
            scorer.gold_labels(rows),
            self._threshold,
            os.path.join(directory, f"confusion_{split}.png") if directory else None,
        )
        if text is None:
            return
        if directory:
            files.write_text(os.path.join(directory, f"eval_table_{split}.txt"), text + "\n")
        if len(self._task.labels or ()) <= LABELS_SHOWN:
            _log.info("%s", text)


def in_words(value: float) -> str:
    """A metric for a line of text."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"
