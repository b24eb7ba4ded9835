"""The verdict on a training: in at most three lines, whether the model has learned, and if not, the
one setting to change.

The first line has the main metric with its interval of confidence, and the metric of the constant
answer, the best prediction that ignores the text. The others name what is wrong. n is the number of
evaluated rows, L that of labels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.tasks import known, results
from xlnet.tasks.contract import Task
from xlnet.tasks.task import Row

MOST_LINES = 3
_SAMPLES = 100  # of the rows, for an interval
_MOVED = 0.95  # of the loss at the start: above it, training has hardly moved the loss
_ROSE = 0.3  # of the loss at the start: a rise by more is a divergence
_TOLD_APART = 0.6  # of the AUC: above it, the labels are learned
_RARE = 0.1  # of the rows have a label, on average over many labels
_LABELS_NAMED = 5
_KNOWS_LANGUAGE = 256  # the width of the smallest published pretrained networks


class Evidence(NamedTuple):
    """What was measured of a model and of its training.

    Attributes:
      task: the task.
      split: the name of the evaluated rows.
      rows: the evaluated rows; () where there are none.
      train_rows: rows of the train file; () if they are not known.
      values: the predictions of the best checkpoint for `rows`, as in `contract.Predictions`.
      threshold: as for `Task.decide`.
      result: the metrics of the predictions, by name.
      evaluations: those while training, the oldest first: dicts of step, loss and metrics.
      best_step: the step of the checkpoint.
      curve: the training, as of `model_files.read_curve`.
      class_weights: as the flag of this name.
      is_pretrained: whether the training began with weights of a checkpoint.
      width: D, of the network.
    """

    task: Task
    split: str
    rows: Sequence[Row]
    train_rows: Sequence[Row]
    values: Any
    threshold: float
    result: dict[str, Any]
    evaluations: Sequence[dict[str, Any]]
    best_step: int
    curve: Sequence[dict[str, float]]
    class_weights: str | None
    is_pretrained: bool
    width: int


def default_rate(width: int, is_pretrained: bool) -> float:
    """The learning rate where none is given, see `resolve.derived`, with one digit."""
    at_768 = 3e-5 if is_pretrained else 1e-4
    return float(f"{min(2e-3, at_768 * (768 / width) ** 2):.0e}")


def verdict(seen: Evidence) -> list[str]:
    """The lines of the verdict."""
    if not seen.rows:
        fell = "the training loss fell, and no rows were evaluated"
        lines = [_of_the_loss(seen, False) or fell, _limit(seen)]
    else:
        metric, is_better = _metric(seen)
        wrong = "" if is_better else _rare_labels(seen)
        wrong = wrong or _of_the_loss(seen, is_better)
        wrong = wrong or _overfitted(seen, is_better) or _never_predicted(seen)
        if not is_better:
            wrong = wrong or _not_told_apart(seen)
        lines = [metric, wrong, _lacking(seen), _limit(seen)]
    return [line for line in lines if line][:MOST_LINES]


# ---- the metric


def _metric(seen: Evidence) -> tuple[str, bool]:
    """The line of the main metric, and whether it is better than that of the constant answer."""
    name = seen.task.metrics[0]
    constant = results.constant_answer(seen.task, seen.rows, seen.threshold)
    reference = (constant or {}).get(name, math.nan)
    low, high = _interval(seen)
    line = f"{seen.split}: {name} {seen.result[name]:.4f}"
    if low < high:
        line += f" ({low:.2f} to {high:.2f}, at 95 % with {len(seen.rows):,} rows)"
    if not math.isnan(reference):
        line += f", of the constant answer {reference:.4f}"
    if seen.task.lower_is_better:
        return line, high < reference
    # A correlation, or an F1 of entities, has no constant answer: 0 is that of a useless model.
    return line, low > (0 if math.isnan(reference) else reference)


def _interval(seen: Evidence) -> tuple[float, float]:
    """The interval of 95 % of the main metric: Wilson's of an accuracy, of other metrics of labels
    and scores a bootstrap over the rows; the metric twice where there is none."""
    from scipy import stats

    task, name, gold = seen.task, seen.task.metrics[0], _gold(seen)
    value = seen.result[name]
    # A metric of one's own may not be defined for each sample of the rows.
    if gold is None or math.isnan(value) or task.own_metrics:
        return value, value
    count = len(gold)
    if name == "accuracy":
        test = stats.binomtest(round(value * count), count)
        wilson = test.proportion_ci(method="wilson")
        return float(wilson.low), float(wilson.high)
    values = np.asarray(seen.values)
    found = []
    for chosen in np.random.default_rng(0).integers(0, count, [_SAMPLES, count]):
        sample = task.evaluate(values[chosen], gold[chosen], seen.threshold)
        found.append(sample[name])
    low, high = np.nanquantile(found, [0.025, 0.975])
    return float(low), float(high)


def _gold(seen: Evidence) -> np.ndarray | None:
    """The labels of the rows as numbers: ids or scores [n], or 0 and 1 [n,L]; None: of another
    form, or of a user's own type."""
    gold = seen.task.gold_labels(seen.rows)
    is_known = isinstance(gold, np.ndarray) and known.is_built_in(type(seen.task))
    return gold if is_known else None


# ---- what is wrong: a line, "" if it is not


def _of_the_loss(seen: Evidence, is_better: bool) -> str:
    """The training diverged; or its loss has hardly moved, or not below that of the best prediction
    that ignores the text, while the metric is no better than that of the constant answer."""
    if not seen.curve:
        return ""
    peak = max(line["learning_rate"] for line in seen.curve)
    first, lowest, last = _losses(seen)
    if last - lowest > _ROSE * first:
        return (
            f"diverged: the training loss rose from {lowest:.4f} to {last:.4f}; "
            f"--learning_rate={peak / 3:.1g}"
        )
    constant = _constant_loss(seen)
    if is_better or last < _MOVED * min(first, constant):
        return ""
    moved = f"the training loss has hardly moved, from {first:.4f} to {last:.4f}"
    if last > first / _MOVED:
        moved = f"the training loss rose, from {first:.4f} to {last:.4f}"
    if last < _MOVED * first:
        moved = (
            f"the training loss, {last:.4f}, is as if no text was read ({constant:.4f})"
        )
    usual = default_rate(seen.width, seen.is_pretrained)
    if peak < usual / 2:
        return f"{moved}: too low a rate; --learning_rate={usual:g}"
    return f"{moved}: too few steps; --train_steps={3 * _steps(seen)}"


def _steps(seen: Evidence) -> int:
    """The steps of the training."""
    return int(seen.curve[-1]["step"])


def _losses(seen: Evidence) -> tuple[float, float, float]:
    """The first training loss, the lowest and the last one, each a mean of a tenth of the lines."""
    losses = [line["loss"] for line in seen.curve]
    size = math.ceil(len(losses) / 10)
    means = np.convolve(losses, np.ones(size) / size, mode="valid")
    return losses[0], float(means.min()), float(means[-1])


def _constant_loss(seen: Evidence) -> float:
    """The training loss of the best answer that ignores the text; infinite if it is not known."""
    from scipy import stats

    task = seen.task
    is_known = _gold(seen) is not None  # labels of a built-in type are numbers
    if not seen.train_rows or not is_known or seen.class_weights:
        return math.inf
    labels = task.gold_labels(seen.train_rows)
    if not task.labels:
        return float(np.var(labels))
    if labels.ndim == 1:
        return float(stats.entropy(np.bincount(labels)))
    shares = labels.mean(axis=0, dtype=np.float64)
    return float(np.mean(stats.entropy([shares, 1 - shares])))


def _rare_labels(seen: Evidence) -> str:
    """Each row has a few of many labels: a loss that weighs a label like its absence teaches the
    absence."""
    gold = _gold(seen)
    if gold is None or gold.ndim == 1 or gold.mean() >= _RARE or seen.class_weights:
        return ""
    return (
        "each label is rare, and its absence alone is learned; --class_weights=balanced"
    )


def _never_predicted(seen: Evidence) -> str:
    """Labels that no row is predicted to have, although two or more have them: rare ones, or those
    above the threshold."""
    task, gold = seen.task, _labelled(seen)
    if gold is None:
        return ""
    names, values = task.labels, np.asarray(seen.values)
    decided = _indicators(task, task.decide(values, seen.threshold))
    counts = gold.sum(axis=0)
    is_never = (counts > 1) & ~decided.any(axis=0)
    never = list(itertools.compress(names, is_never))
    if not never:
        return ""
    named = f"never predicted: {', '.join(never[:_LABELS_NAMED])}"
    if task.label_shape:
        is_too_high, scores, share = not decided.any(), values, gold.mean()
    else:
        is_too_high = len(names) == 2 and never == [names[1]]
        scores, share = values[:, 1], gold[:, 1].mean()
    auc = seen.result.get("auc", math.nan)
    if is_too_high and auc > _TOLD_APART:
        # The threshold that gives labels to as many rows as have them.
        threshold = np.quantile(scores, 1 - share)
        return (
            f"{named}; the labels are told apart (AUC {auc:.2f}), and the threshold of "
            f"{seen.threshold:g} is too high; --predict_threshold={threshold:.2g}"
        )
    # A label that is not rare needs no weight.
    few = len(gold) / len(names) / 2
    if counts[is_never].max() < few and not seen.class_weights:
        return f"{named}; --class_weights=balanced"
    return ""


def _overfitted(seen: Evidence, is_better: bool) -> str:
    """Whether the loss of the evaluated rows rose while that of training fell."""
    evaluated = []
    for one in seen.evaluations:
        if math.isfinite(one.get("loss", math.inf)):
            evaluated.append(one)
    if not seen.curve or not evaluated:
        return ""
    lowest = min(evaluated, key=lambda one: one["loss"])
    now = evaluated[-1]["loss"]
    first, _, last = _losses(seen)
    if now < 1.2 * lowest["loss"] or last > 0.5 * min(first, now):
        return ""
    if is_better and seen.best_step > _steps(seen) / 2:
        return ""
    # Those while training may be of other rows than the verdict's.
    return (
        f"overfitted: the training loss fell to {last:.4f}, and that of the evaluations while "
        f"training rose to {now:.4f}; --train_steps={lowest['step']}"
    )


def _not_told_apart(seen: Evidence) -> str:
    """The metric is not better than that of the constant answer."""
    share = seen.task.files.dev_share
    if seen.split == "dev" and share and share < 0.25:
        return f"too few rows to tell it from the constant answer; --dev_share={2 * share:g}"
    more = f"; --train_steps={3 * _steps(seen)}" if seen.curve else ""
    return f"not better than the constant answer{more}"


def _lacking(seen: Evidence) -> str:
    """Labels that no evaluated row has."""
    gold = _labelled(seen)
    if gold is None:
        return ""
    lacking = list(itertools.compress(seen.task.labels, gold.sum(axis=0) == 0))
    if not lacking:
        return ""
    named = ", ".join(lacking[:_LABELS_NAMED])
    return f"{seen.split} has no row of {len(lacking)} labels ({named}); --dev_file with some"


def _limit(seen: Evidence) -> str:
    """What a training cannot learn from these rows: why a bag of words may be as good."""
    if not seen.train_rows or _gold(seen) is None:
        return ""
    if not seen.is_pretrained:
        return (
            "from random weights: what words mean is known from these rows alone, as to a bag of "
            "words; --init_checkpoint"
        )
    if seen.width < _KNOWS_LANGUAGE:
        return (
            f"a network of width {seen.width} knows little of the language, and a bag of words may "
            "be as good; --init_checkpoint of a larger one"
        )
    return ""


def _labelled(seen: Evidence) -> np.ndarray | None:
    """1 where a row has a label, else 0, [n,L]; None: the predictions are not the probabilities of
    labels, or the labels are answers to choose from, of which a row may have fewer."""
    task, gold = seen.task, _gold(seen)
    has_labels = bool(task.labels) and not task.columns.choices
    if gold is None or not has_labels:
        return None
    return _indicators(task, gold)


def _indicators(task: Task, labels: np.ndarray) -> np.ndarray:
    """Labels as 0 and 1 [n,L]; labels: these, or ids [n]."""
    return labels if task.label_shape else np.eye(len(task.labels))[labels]
