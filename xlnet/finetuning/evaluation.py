"""What answers are worth: the task's metrics, printed and kept as files.

Shape letters: n rows, L labels.
"""

import os

import numpy as np

from xlnet import files
from xlnet.finetuning import metrics, ranking

LABELS_SHOWN = 20        # tables of more labels are written but not printed
_BASELINES = {"regression": "mean score", "ranking": "random order"}


class Evaluation:
    """Evaluates answers to rows of a task.

    Args:
      task: `tasks.Task`. directory: where results are kept.
      threshold: as in `metrics.decide`.
    """

    def __init__(self, task, directory, threshold):
        self._task = task
        self._directory = directory
        self._threshold = threshold

    def baseline(self, split, rows):
        """Prints and returns the metrics of an answer that looks at no row, a dict of floats."""
        result = metrics.baseline(self._task, metrics.label_array(self._task, rows),
                                  self._queries(rows))
        self.report(split, _BASELINES.get(self._task.kind, "majority class"), result, rows)
        return result

    def score(self, answers, rows):
        """The task's metrics and the mean loss of `inference.Answers` to the whole of a split, a
        dict of floats; and `collapsed`, in words, if the answer is always the same."""
        labels = metrics.label_array(self._task, rows)
        queries = self._queries(rows)
        result = metrics.evaluate(self._task, answers.values, labels, self._threshold, queries)
        result["loss"] = ranking.pair_loss(answers.values, labels, queries) \
            if self._task.pairwise else float(np.mean(answers.loss, dtype=np.float64))
        collapsed = metrics.collapsed(self._task, answers.values, labels)
        return dict(result, collapsed=collapsed) if collapsed else result

    def mean(self, results):
        """The result of a split of several files: the mean; collapsed where all of them are."""
        result = {name: float(np.mean([one[name] for one in results]))
                  for name in (*self._task.metrics, "loss")}
        if all("collapsed" in one for one in results):
            result["collapsed"] = results[0]["collapsed"]
        return result

    def report(self, split, what, result, rows):
        """Prints a result in a line."""
        numbers = "  ".join("%s %.4f" % item for item in result.items() if item[0] != "collapsed")
        print("eval %s %s  %s  %s  (%d rows)%s" % (
            self._task.name, split, what, numbers, len(rows),
            "  collapsed: " + result["collapsed"] if "collapsed" in result else ""), flush=True)

    def keep_results(self, split, rows, baseline, results):
        """Writes `eval_results_<split>.json`; returns the best of `results`, dicts as of `score`
        with their step, the earliest of equal ones."""
        main_metric = self._task.metrics[0]
        best = max(results, key=lambda result: result[main_metric])
        if len(results) > 1:
            print("best %s %s  step %d  %s %.4f" % (
                self._task.name, split, best["step"], main_metric, best[main_metric]), flush=True)
        files.write_json(os.path.join(self._directory, "eval_results_%s.json" % split), {
            "task": self._task.name, "split": split, "rows": len(rows), "baseline": baseline,
            "best_step": best["step"], "checkpoints": results})
        return best

    def keep_tables(self, split, rows, values):
        """Writes the table of classes, and the confusion matrix if a row has one label.

        Args:
          values: float32 [n,L], as in `inference.Answers`.
        """
        task = self._task
        if task.is_regression:
            return
        labels = metrics.label_array(task, rows)
        decided = metrics.decide(task, values, self._threshold)
        text = metrics.class_table(task, decided, labels)
        if not task.multi_label:
            matrix = metrics.confusion_matrix(task, decided, labels)
            text += "\n\n" + metrics.confusion_text(task, matrix)
            metrics.draw_confusion(os.path.join(self._directory, "confusion_%s.png" % split), task,
                                   matrix)
        files.write_text(os.path.join(self._directory, "eval_table_%s.txt" % split), text + "\n")
        if len(task.labels) <= LABELS_SHOWN:
            print(text, flush=True)

    def _queries(self, rows):
        """Which rows are ranked together; None where none are."""
        return ranking.by_query(rows) if self._task.kind == "ranking" else None
