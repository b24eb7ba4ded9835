"""What answers are worth: the task's metrics, shown and kept as files."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlnet import files
from xlnet.tasks.types.kind import LABELS_SHOWN, Answers
from xlnet.tasks.types.task import Row, Task

_log = logging.getLogger(__name__)


class Evaluation:
    """Evaluates answers to rows of a task.

    Args:
      directory: where results are kept. threshold: as in `Kind.decide`.
    """

    def __init__(self, task: Task, directory: str, threshold: float):
        self._task = task
        self._kind = task.kind
        self._directory = directory
        self._threshold = threshold

    def baseline(self, split: str, rows: Sequence[Row]) -> dict:
        """Shows and returns the metrics of an answer that looks at no row, a dict of floats."""
        result = self._kind.baseline(self._task, self._kind.truth(self._task, rows))
        self.report(split, self._kind.baseline_words, result, rows)
        return result

    def score(self, answers: Answers, rows: Sequence[Row]) -> dict:
        """The task's metrics and the mean loss of the answers to the whole of a split, a dict of
        floats; and `collapsed`, in words, if the answer is always the same."""
        task, truth = self._task, self._kind.truth(self._task, rows)
        result = self._kind.evaluate(task, answers.values, truth, self._threshold)
        result["loss"] = self._kind.mean_loss(task, answers, truth)
        collapsed = self._kind.collapsed(task, answers.values, truth)
        return dict(result, collapsed=collapsed) if collapsed else result

    def mean(self, results: Sequence[dict]) -> dict:
        """The result of a split of several files: the mean; collapsed where all of them are."""
        result = {name: float(np.mean([one[name] for one in results]))
                  for name in (*self._task.metrics, "loss")}
        if all("collapsed" in one for one in results):
            result["collapsed"] = results[0]["collapsed"]
        return result

    def report(self, split: str, what: str, result: dict, rows: Sequence[Row]) -> None:
        """Shows a result in a line."""
        numbers = "  ".join("%s %.4f" % item for item in result.items() if item[0] != "collapsed")
        _log.info("eval %s %s  %s  %s  (%d rows)%s", self._task.name, split, what, numbers,
                  len(rows), "  collapsed: " + result["collapsed"] if "collapsed" in result else "")

    def keep_results(self, split: str, rows: Sequence[Row], baseline: dict,
                     results: Sequence[dict]) -> dict:
        """Writes `eval_results_<split>.json`; returns the best of `results`, dicts as of `score`
        with their step."""
        main_metric = self._task.metrics[0]
        best = self.best(results)
        if len(results) > 1:
            _log.info("best %s %s  step %d  %s %.4f", self._task.name, split, best["step"],
                      main_metric, best[main_metric])
        files.write_json(os.path.join(self._directory, "eval_results_%s.json" % split), {
            "task": self._task.name, "split": split, "rows": len(rows), "baseline": baseline,
            "best_step": best["step"], "checkpoints": results})
        return best

    def best(self, results: Sequence[dict]) -> dict:
        """The best of some results; of equal ones that with the lower loss, then the first."""
        sign = -1 if self._task.lower_is_better else 1
        return max(results, key=lambda result: (
            math.isfinite(result["loss"]), sign * result[self._task.metrics[0]], -result["loss"]))

    def keep_tables(self, split: str, rows: Sequence[Row], values: Any) -> None:
        """Writes what was confused with what, as text and as a picture, where the kind has them.

        Args:
          values: as in `kind.Answers`.
        """
        asked = self._task, values, self._kind.truth(self._task, rows), self._threshold
        text = self._kind.table(*asked)
        if text is None:
            return
        self._kind.draw(os.path.join(self._directory, "confusion_%s.png" % split), *asked)
        files.write_text(os.path.join(self._directory, "eval_table_%s.txt" % split), text + "\n")
        if len(self._task.labels or ()) <= LABELS_SHOWN:
            _log.info("%s", text)
