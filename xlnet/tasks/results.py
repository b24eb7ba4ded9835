"""The results of a checkpoint: the metrics of its predictions, and the files of both, also for the
servers of GLUE and CLUE. `finetuning.evaluate` makes the predictions.

Shape letters: n rows, L labels.
"""

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
from xlnet.tasks.fields import Row

_log = logging.getLogger(__name__)


def constant_answer_metrics(
    task: Task, rows: Sequence[Row], threshold: float
) -> dict | None:
    """The metrics of the constant answer, which ignores the text: for each row the frequencies of
    the labels in the rows, or their mean score.

    Args:
      task: the task.
      rows: those evaluated.
      threshold: as for `Task.decide`; if a row may have several labels, the best one is used in
        its place.

    Returns:
      a dict of floats by the names of metrics; None for a task that has neither probabilities of
      its labels nor scores.
    """
    names, gold = task.probability_names, task.gold(rows)
    # Of a type whose labels are not numbers, `gold` are the rows. A label of several numbers
    # without names, as a user's type may have, is not one of probabilities.
    is_simple = bool(names) or task.target_shape == ()
    if not isinstance(gold, np.ndarray) or not is_simple:
        return None
    if names and gold.ndim == 1:  # ids [n]
        prediction = np.bincount(gold, minlength=len(names)) / len(gold)
    else:  # scores [n], or 0 and 1 [n,L]
        prediction = gold.mean(axis=0)
    values = np.broadcast_to(prediction, (len(gold), *np.shape(prediction)))
    if gold.ndim > 1:  # a row may have several labels
        threshold = best_threshold(values, gold)
    return task.evaluate(values, gold, threshold)


def best_threshold(values: np.ndarray, gold: np.ndarray) -> float:
    """The threshold with the highest F1 over all labels of all rows: half-way between the lowest
    probability that reaches it and the next lower one, or 0.

    Args:
      values: probabilities [n,L].
      gold: 0 and 1 [n,L].
    """
    order = np.argsort(-values, axis=None)  # [n*L], the highest probability first
    falling, is_right = values.ravel()[order], gold.ravel()[order]
    # With the first k probabilities above the threshold, F1 is
    # 2 * right ones / (k + all labels of the rows); the 2 is left out.
    predicted = np.arange(1, len(falling) + 1)
    half_f1 = np.cumsum(is_right) / (predicted + gold.sum())
    following = np.append(falling[1:], 0.0)
    # No threshold divides equal probabilities.
    is_possible = following < falling
    last = int(np.argmax(np.where(is_possible, half_f1, 0.0)))
    return float(falling[last] + following[last]) / 2


def score(
    task: Task, predictions: Predictions, rows: Sequence[Row], threshold: float
) -> dict:
    """The result of the predictions for rows: the task's metrics, and the `loss`, a dict of
    floats."""
    gold = task.gold(rows)
    result = task.evaluate(predictions.values, gold, threshold)
    # `evaluate` of some task types has computed a loss of its own.
    result.setdefault("loss", float(np.mean(predictions.loss, dtype=np.float64)))
    return result


def mean(task: Task, results: Sequence[dict]) -> dict:
    """The result of a split of several files: the mean of each metric, and of the loss, over the
    results of the files, dicts as `score` returns them."""
    means = {}
    for name in (*task.metrics, "loss"):
        means[name] = float(np.mean([result[name] for result in results]))
    return means


def log_evaluation(
    task: Task, split: str, step: int, result: dict, rows: Sequence[Row]
) -> None:
    """Logs the result of a checkpoint, a dict as `score` returns it, in a line."""
    numbers = []
    for name, value in result.items():
        numbers.append(f"{name} {metric_text(value)}")
    line = f"eval {task.name} {split}  step {step}  {'  '.join(numbers)}"
    _log.info("%s  (%d rows)", line, len(rows))


def write_evaluation(
    task: Task,
    directory: str | None,
    split: str,
    rows: Sequence[Row],
    result: dict,
    values: Any,
    threshold: float,
) -> None:
    """Writes `eval_results_<split>.json`, and `eval_table_<split>.txt` if the task type has a table
    of the labels; logs the table, if it is short.

    Args:
      task: the task.
      directory: of the files; None: none are written.
      split: the split, or a name that its files have instead.
      rows: those evaluated.
      result: of a checkpoint, a dict as `score` returns it, with the `step` of the checkpoint.
      values: those of the `Predictions` of the checkpoint.
      threshold: as for `Task.decide`.
    """
    table = task.label_table(values, task.gold(rows), threshold)
    if table and len(task.labels) <= LABELS_SHOWN:
        _log.info("%s", table)
    if not directory:
        return
    document = {
        "task": task.name,
        "split": split,
        "rows": len(rows),
        "constant_answer": constant_answer_metrics(task, rows, threshold),
        "result": result,
    }
    if task.has_threshold:
        document["predict_threshold"] = threshold
    files.write_json(os.path.join(directory, f"eval_results_{split}.json"), document)
    if table:
        path = os.path.join(directory, f"eval_table_{split}.txt")
        files.write_text(path, table + "\n")


def metric_text(value: float) -> str:
    """The value of a metric for a line of the log."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


# ---- predictions


def write_predictions(
    directory: str,
    task: Task,
    name: str,
    rows: Sequence[Row],
    values: Any,
    *,
    step: int,
    threshold: float,
    is_official: bool,
    output: str | None,
) -> None:
    """Writes the files of the predictions for a split or file, `predictions_<task>_<name>.*`, and
    the one that the server of a benchmark takes.

    Args:
      directory: of the files.
      task: the task.
      name: of the split, or of a file to predict.
      rows: those predicted.
      values: those of the `Predictions`.
      step: of the checkpoint.
      threshold: as for `Task.decide`.
      is_official: whether rows are those of the split's official file, which may be submitted.
      output: path of the main file, the only one that is then written; "-": the standard output;
        None: all are in `directory`. A table has commas between its cells if the name ends in .csv,
        else tabs.
    """
    contents = task.prediction_files(rows, values, threshold)
    stem = os.path.join(directory, f"predictions_{task.name}_{name}")
    predicted = f"predicted {task.name} {name}  step {step}  ({len(rows)} rows)"
    for extension, lines in contents.items():  # the main file first
        path = output or f"{stem}.{extension}"
        is_csv = path.lower().endswith(".csv")
        files.write_lines(path, _as_text(lines, "," if is_csv else "\t"))
        _log.info("%s: %s", predicted, path)
        if output:  # the main file alone
            return
    if not is_official or name not in task.published.submissions:
        return

    # The server of GLUE takes a table, that of CLUE objects of JSON. A network's scores may be
    # outside of the range that the server accepts; metrics and our own file have them as they are.
    path = os.path.join(directory, task.published.submissions[name])
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
    files.write_lines(path, _as_text(submitted))
    _log.info("for the server of %s: %s", task.name, path)


def _as_text(lines: Iterable, delimiter: str = "\t") -> Iterator[str]:
    """Yields the lines of `Task.prediction_files` as they are written: a str, which has its line
    end, as it is; a dict as JSON; a sequence of cells with delimiters between them, and quotation
    marks around a cell that has a delimiter, a line end or a quotation mark."""
    for line in lines:
        if isinstance(line, str):
            yield line
        elif isinstance(line, dict):
            yield json.dumps(line, ensure_ascii=False) + "\n"
        else:
            # The writer puts quotation marks around a cell with any character of `lineterminator`.
            # A cell with a carriage return alone needs them, too, so it is one of these.
            text = io.StringIO()
            writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
            writer.writerow(line)
            yield text.getvalue().removesuffix("\r\n") + "\n"
