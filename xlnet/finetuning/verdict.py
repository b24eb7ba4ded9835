"""The verdict on a training: in at most three lines, whether the model has learned, and if not, the
one setting to change.

The first line has the main metric, its interval and that of the constant answer. The others name
what is wrong. n is the number of evaluated rows, L that of labels.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.settings.training import JOURNAL_NAME
from xlnet.tasks import known
from xlnet.tasks.task import Row, Task

MOST_LINES = 3
_SAMPLES = 100  # of the rows, for an interval
_MOVED = 0.95  # of the loss at the start: above it, training has hardly moved the loss
_ROSE = 0.3  # of the loss at the start: a rise by more is a divergence
_TOLD_APART = 0.6  # of the AUC: above it, the labels are learned
_RARE = 0.1  # of the rows have a label, on average over many labels
_LABELS_NAMED = 5


class Evidence(NamedTuple):
    """What was measured of a model and of its training.

    Attributes:
      task: the task.
      split: the name of the evaluated rows.
      rows: the evaluated rows; () where there are none.
      train_rows: rows of the train file; () if they are not known.
      values: the predictions of the best checkpoint for `rows`, as in `contract.Predictions`.
      threshold: as for `Scorer.decide`.
      result: the metrics of the predictions, by name.
      constant: those of the constant answer; None: there is none.
      evaluations: those while training, the oldest first: dicts of step, loss and metrics.
      best_step: the step of the checkpoint.
      curve: the training, as of `read_curve`.
      usual_rate: the learning rate by default.
      class_weights: as the flag of this name.
    """

    task: Task
    split: str
    rows: Sequence[Row]
    train_rows: Sequence[Row]
    values: Any
    threshold: float
    result: dict[str, Any]
    constant: Optional[dict[str, Any]]
    evaluations: Sequence[dict[str, Any]]
    best_step: int
    curve: Sequence[dict[str, float]]
    usual_rate: float
    class_weights: Optional[str]


def read_curve(model_dir: str) -> list[dict[str, float]]:
    """The lines of `training.csv`, numbers by column; [] if there is no such file."""
    path = os.path.join(model_dir, JOURNAL_NAME)
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as f:
        return [
            {name: float(x) for name, x in row.items()} for row in csv.DictReader(f)
        ]


def verdict(seen: Evidence) -> list[str]:
    """The lines of the verdict."""
    lines = []
    is_better = False
    if seen.rows:
        metric, is_better = _metric(seen)
        lines.append(metric)
    wrong = _of_the_loss(seen, is_better)
    if seen.rows and not is_better and _has_rare_labels(seen):
        wrong = [
            "each label is rare, and its absence alone is learned; --class_weights=balanced"
        ]
    if not wrong and seen.rows:
        wrong = _overfitted(seen, is_better) or _of_predictions(seen)
        if not wrong and not is_better:
            wrong = [_not_told_apart(seen)]
    if seen.rows:
        wrong += _lacking(seen)
    if not lines and not wrong:
        lines = ["the training loss fell, and no rows were evaluated"]
    return (lines + wrong)[:MOST_LINES]


# ---- the metric


def _metric(seen: Evidence) -> tuple[str, bool]:
    """The line of the main metric, and whether it is better than that of the constant answer."""
    name, count = seen.task.metrics[0], len(seen.rows)
    value, reference = seen.result[name], (seen.constant or {}).get(name, math.nan)
    low, high = _interval(seen)
    line = f"{seen.split}: {name} {value:.4f}"
    if low < high:
        line += f" ({low:.2f} to {high:.2f}, at 95 % with {count:,} rows)"
    if not math.isnan(reference):
        line += f", of the constant answer {reference:.4f}"
    # A correlation, or an F1 of entities, has no constant answer: its worst value is 0.
    if seen.task.lower_is_better:
        return line, high < reference
    return line, low > (0 if math.isnan(reference) else reference)


def _interval(seen: Evidence) -> tuple[float, float]:
    """The interval of 95 % of the main metric: Wilson's of an accuracy, of other metrics of labels
    and scores a bootstrap over the rows; the metric twice where there is none."""
    from scipy import stats

    scorer, name, gold = seen.task.scorer, seen.task.metrics[0], _gold(seen)
    value = seen.result[name]
    # A metric of one's own may not be defined for each sample of the rows.
    if gold is None or math.isnan(value) or seen.task.own_metrics:
        return value, value
    count = len(gold)
    if name == "accuracy":
        test = stats.binomtest(round(value * count), count)
        wilson = test.proportion_ci(method="wilson")
        return float(wilson.low), float(wilson.high)
    values = np.asarray(seen.values)
    found = []
    for chosen in np.random.default_rng(0).integers(0, count, [_SAMPLES, count]):
        sample = scorer.evaluate(values[chosen], gold[chosen], seen.threshold)
        found.append(sample[name])
    low, high = np.nanquantile(found, [0.025, 0.975])
    return float(low), float(high)


def _gold(seen: Evidence) -> Optional[np.ndarray]:
    """The labels of the rows as numbers: ids or scores [n], or 0 and 1 [n,L]; None: of another
    form, or of a user's own type."""
    gold = seen.task.scorer.gold_labels(seen.rows)
    is_known = isinstance(gold, np.ndarray) and known.is_built_in(seen.task.type)
    return gold if is_known else None


# ---- what is wrong


def _of_the_loss(seen: Evidence, is_better: bool) -> list[str]:
    """Divergence; a training loss that has hardly moved, though the metric is no better than that
    of the constant answer."""
    if not seen.curve:
        return []
    steps = int(seen.curve[-1]["step"])
    peak = max(line["learning_rate"] for line in seen.curve)
    first, lowest, last = _losses(seen)
    if last - lowest > _ROSE * first:
        return [
            f"diverged: the training loss rose from {lowest:.4f} to {last:.4f}; "
            f"--learning_rate={peak / 3:.1g}"
        ]
    constant = _constant_loss(seen)
    if is_better or last < _MOVED * min(first, constant):
        return []
    moved = f"the training loss has hardly moved, from {first:.4f} to {last:.4f}"
    if last < _MOVED * first:
        moved = (
            f"the training loss, {last:.4f}, is as if no text was read ({constant:.4f})"
        )
    if peak < seen.usual_rate / 2:
        return [f"{moved}: too low a rate; --learning_rate={seen.usual_rate:.1g}"]
    return [f"{moved}: too few steps; --train_steps={3 * steps}"]


def _losses(seen: Evidence) -> tuple[float, float, float]:
    """The first training loss, the lowest and the last one, each a mean of a tenth of the lines."""
    losses = [line["loss"] for line in seen.curve]
    size = math.ceil(len(losses) / 10)
    means = np.convolve(losses, np.ones(size) / size, mode="valid")
    return losses[0], float(means.min()), float(means[-1])


def _constant_loss(seen: Evidence) -> float:
    """The training loss of the best answer that ignores the text; infinite if it is not known."""
    task = seen.task
    if not seen.train_rows or _gold(seen) is None or seen.class_weights:
        return math.inf
    labels = task.scorer.gold_labels(seen.train_rows)
    if not task.labels:
        return float(np.var(labels))
    if labels.ndim == 1:
        shares = np.bincount(labels) / len(labels)
        return float(-(shares * np.log(np.maximum(shares, 1e-9))).sum())
    shares = np.clip(labels.mean(axis=0), 1e-9, 1 - 1e-9)
    return float(-(shares * np.log(shares) + (1 - shares) * np.log1p(-shares)).mean())


def _has_rare_labels(seen: Evidence) -> bool:
    """Whether rows have a few of many labels, none of which weighs more than its absence."""
    gold = _gold(seen)
    is_many = gold is not None and gold.ndim > 1 and gold.mean() < _RARE
    return is_many and not seen.class_weights


def _of_predictions(seen: Evidence) -> list[str]:
    """Labels that no row is predicted to have, although two or more have them: rare ones, or those
    above the threshold."""
    task, gold = seen.task, _gold(seen)
    if gold is None or task.head.fits_any_labels:
        return []
    if tuple(task.scorer.probabilities) != task.labels:  # of a type of one's own
        return []
    values = np.asarray(seen.values)
    decisions = np.asarray(task.scorer.decide(values, seen.threshold))
    # A label that is not rare needs no weight.
    never, are_rare, few = [], True, len(gold) / len(task.labels) / 2
    for number, name in enumerate(task.labels):
        true = gold[:, number] > 0 if gold.ndim > 1 else gold == number
        found = decisions[:, number] > 0 if gold.ndim > 1 else decisions == number
        if true.sum() > 1 and not found.any():
            never.append(name)
            are_rare = are_rare and true.sum() < few
    if not never:
        return []
    named = f"never predicted: {', '.join(never[:_LABELS_NAMED])}"
    auc = seen.result.get("auc", math.nan)
    if gold.ndim > 1:
        is_too_high = not decisions.any()
    else:
        is_too_high = never == [task.labels[1]] and len(task.labels) == 2
    if is_too_high and auc > _TOLD_APART:
        # The threshold that gives labels to as many rows as have them.
        scores = values if gold.ndim > 1 else values[:, 1]
        threshold = np.quantile(scores, 1 - gold.mean())
        return [
            f"{named}; the labels are told apart (AUC {auc:.2f}), and the threshold of "
            f"{seen.threshold:g} is too high; --predict_threshold={threshold:.2g}"
        ]
    if are_rare and not seen.class_weights:
        return [f"{named}; --class_weights=balanced"]
    return []


def _overfitted(seen: Evidence, is_better: bool) -> list[str]:
    """Whether the loss of the evaluated rows rose while that of training fell."""
    losses = [one["loss"] for one in seen.evaluations if "loss" in one]
    if not seen.curve or not losses:
        return []
    steps, (first, _, last) = int(seen.curve[-1]["step"]), _losses(seen)
    if losses[-1] < 1.2 * min(losses) or last > 0.5 * min(first, losses[-1]):
        return []
    if is_better and seen.best_step > steps / 2:
        return []
    lowest = seen.evaluations[int(np.argmin(losses))]["step"]
    return [
        f"overfitted: the loss rose to {losses[-1]:.4f} on {seen.split} and fell to {last:.4f} in "
        f"training; --train_steps={max(lowest, 1)}"
    ]


def _not_told_apart(seen: Evidence) -> str:
    share = seen.task.files.dev_share
    if share and share < 0.25:
        return f"too few rows to tell it from the constant answer; --dev_share={2 * share:g}"
    if not seen.curve:
        return "not better than the constant answer"
    more = 3 * int(seen.curve[-1]["step"])
    return f"not better than the constant answer; --train_steps={more}"


def _lacking(seen: Evidence) -> list[str]:
    """Labels that no evaluated row has."""
    gold, names = _gold(seen), seen.task.labels
    if gold is None or not names or seen.task.head.fits_any_labels:
        return []
    if tuple(seen.task.scorer.probabilities) != names:  # of a type of one's own
        return []
    counts = (
        gold.sum(axis=0) if gold.ndim > 1 else np.bincount(gold, minlength=len(names))
    )
    lacking = [name for name, count in zip(names, counts) if not count]
    if not lacking:
        return []
    named = ", ".join(lacking[:_LABELS_NAMED])
    return [
        f"{seen.split} has no row of {len(lacking)} labels ({named}); --dev_file with some"
    ]
