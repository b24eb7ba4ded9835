"""The results of a checkpoint: the scores of its predictions, and the files of both, also for the
servers of GLUE and CLUE. `finetuning.evaluate` makes the predictions."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from xlnet.support import files
from xlnet.tasks.contract import LABELS_SHOWN, Predictions, Task
from xlnet.tasks.task import Row

_log = logging.getLogger(__name__)


def constant_answer(task: Task, rows: Sequence[Row], threshold: float) -> dict | None:
    """The metrics of the best prediction that ignores the text.

    Args:
      task: the task.
      rows: those evaluated.
      threshold: as for `Task.decide`; for several labels in a row the best one is taken.

    Returns:
      a dict of floats; None for a task that has neither probabilities of its labels nor scores.
      The prediction is the frequency of each label, or the mean score.
    """
    names, gold = task.probability_names, task.gold_labels(rows)
    is_simple = bool(names) or task.label_shape == ()
    if not isinstance(gold, np.ndarray) or not is_simple:
        return None
    answer = gold.mean(axis=0)
    if names and gold.ndim == 1:
        answer = np.bincount(gold, minlength=len(names)) / len(gold)
    values = np.broadcast_to(answer, (len(gold), *np.shape(answer)))
    if gold.ndim > 1:
        threshold = best_threshold(values, gold)
    return task.evaluate(values, gold, threshold)


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


def score(
    task: Task, predictions: Predictions, rows: Sequence[Row], threshold: float
) -> dict:
    """The task's metrics and the mean loss of the predictions for rows, a dict of floats."""
    gold_labels = task.gold_labels(rows)
    result = task.evaluate(predictions.values, gold_labels, threshold)
    result.setdefault("loss", float(np.mean(predictions.loss, dtype=np.float64)))
    return result


def mean(task: Task, results: Sequence[dict]) -> dict:
    """The result of a split of several files."""
    found = {}
    for name in (*task.metrics, "loss"):
        found[name] = float(np.mean([one[name] for one in results]))
    return found


def log_evaluation(
    task: Task, split: str, step: int, result: dict, rows: Sequence[Row]
) -> None:
    """Logs the result of a checkpoint in a line."""
    numbers = []
    for name, value in result.items():
        numbers.append(f"{name} {_in_words(value)}")
    line = f"eval {task.name} {split}  step {step}  {'  '.join(numbers)}"
    _log.info("%s  (%d rows)", line, len(rows))


def write_evaluation(
    task: Task,
    directory: str | None,
    split: str,
    rows: Sequence[Row],
    checkpoints: Sequence[dict],
    best: dict | None,
    values: Any,
    threshold: float,
) -> None:
    """Writes `eval_results_<split>.json`; writes and logs the table of the labels, if the task type
    has one.

    Args:
      directory: of the files; None: none are written.
      split: the split, or what its files are called.
      rows: those evaluated.
      checkpoints: their results: dicts as `score` returns them, with their step.
      best: one of them; None: none is better than others.
      values: the predictions of the best one, or of the newest.
    """
    table = task.label_table(values, task.gold_labels(rows), threshold)
    if table and len(task.labels) <= LABELS_SHOWN:
        _log.info("%s", table)
    if len(checkpoints) > 1 and best:
        name, step = task.metrics[0], best["step"]
        value = _in_words(best[name])
        _log.info("best %s %s  step %d  %s %s", task.name, split, step, name, value)
    if not directory:
        return
    kept = {
        "task": task.name,
        "split": split,
        "rows": len(rows),
        "constant_answer": constant_answer(task, rows, threshold),
        "best_step": best["step"] if best else None,
        "checkpoints": checkpoints,
    }
    if task.has_threshold:
        kept["predict_threshold"] = threshold
    files.write_json(os.path.join(directory, f"eval_results_{split}.json"), kept)
    if table:
        path = os.path.join(directory, f"eval_table_{split}.txt")
        files.write_text(path, table + "\n")


def _in_words(value: float) -> str:
    """A metric for a line of text."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


# ---- predictions


def write_predictions(
    directory: str,
    task: Task,
    split: str,
    rows: Sequence[Row],
    values: Any,
    *,
    step: int,
    threshold: float,
    is_official: bool,
    output: str | None = None,
) -> None:
    """Writes the predictions for a split in every form of its task type.

    Args:
      step: of the checkpoint.
      is_official: whether rows are those of the split's official file, which may be submitted.
      output: path of the main file, the only one that is then written; "-": the standard output. A
        table has commas between its cells if the name ends in .csv, else tabs.
    """
    contents = task.prediction_files(rows, values, threshold)
    stem = os.path.join(directory, f"predictions_{task.name}_{split}")
    predicted = f"predicted {task.name} {split}  step {step}  ({len(rows)} rows)"
    for extension, lines in contents.items():
        path = output or f"{stem}.{extension}"
        is_csv = path.lower().endswith(".csv")
        files.write_lines(path, _written(lines, "," if is_csv else "\t"))
        _log.info("%s: %s", predicted, path)
        if output:
            return
    if not is_official or split not in task.published.submissions:
        return

    # The form of a benchmark's server. A network's scores may be outside of the range that the
    # server accepts; metrics and our own file have them as they are.
    path = os.path.join(directory, task.published.submissions[split])
    if task.published.submitted_range:
        values = np.clip(values, *task.published.submitted_range)
    is_json = path.endswith(".json")
    submitted: list[Any] = [] if is_json else [("index", "prediction")]
    for row, label in zip(rows, task.predicted_labels(values, threshold)):
        text = task.text_of(label)
        if is_json:
            id = int(row.id) if row.id.isdecimal() else row.id
            submitted.append({"id": id, "label": text})
        else:
            submitted.append((row.id, text))
    files.write_lines(path, _written(submitted))
    _log.info("for the server of %s: %s", task.name, path)


def _written(lines: Iterable, delimiter: str = "\t") -> Iterator[str]:
    """Yields lines as they are written: a text with its end as it is, a dict as JSON, cells with
    quotation marks around those with a delimiter, the end of a line or a quotation mark."""
    for line in lines:
        if isinstance(line, str):
            yield line
        elif isinstance(line, dict):
            yield json.dumps(line, ensure_ascii=False) + "\n"
        else:
            # The writer quotes a cell with any character of `lineterminator`: of both, so also one
            # with a carriage return alone.
            text = io.StringIO()
            writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
            writer.writerow(line)
            yield text.getvalue().removesuffix("\r\n") + "\n"
