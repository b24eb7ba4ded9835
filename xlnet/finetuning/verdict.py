"""The verdict on a training: in at most three lines, whether the model has learned, and if not, the
one setting to change.

The first line has the main metric with its interval of confidence, and the metric of the constant
answer, the best prediction that ignores the text. The others name what is wrong. n is the number of
evaluated rows, L that of labels. A line is "" where there is nothing to say.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.tasks import known, results
from xlnet.tasks.contract import Task
from xlnet.tasks.fields import Row

MOST_LINES = 3
_SAMPLES = 100  # of the rows, for an interval
_MOVED = 0.95  # of the loss at the start: above it, training has hardly moved the loss
_ROSE = 0.3  # of the loss at the start: a rise by more is a divergence
_TOLD_APART = 0.6  # of the AUC: above it, the labels are learned
# Labels are rare if, on average over them, fewer than this fraction of the rows has a label.
_RARE = 0.1
_LABELS_NAMED = 5
_KNOWS_LANGUAGE = 256  # the width of the smallest published pretrained networks


class Evidence(NamedTuple):
    """What was measured of a model and of its training.

    Attributes:
      task: the task.
      split: the name of the evaluated rows.
      rows: the evaluated rows; () where there are none.
      train_rows: rows of the train file; () if they are not known.
      values: the predictions of the best checkpoint for `rows`: probabilities [n,L], scores [n], or
        what else the task type predicts.
      threshold: minimum probability of a label of several, and of the second one of two.
      result: the metrics of the predictions, by name.
      evaluations: those while training, the oldest first: dicts of step, loss and metrics.
      best_step: the step of the best checkpoint.
      curve: the log lines of the training, the oldest first: dicts with step, loss and
        learning_rate. Empty if they are not known.
      class_weights: "balanced" if labels had weights in the training loss; else None.
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
    """The learning rate where none is given, rounded to one digit, for a network of this width:

    3e-5 for pretrained weights of width 768, as in the settings that the authors published (2e-5 to
    5e-5 for widths 768 and 1024), and 1e-4 for random ones, as in pretraining on one GPU; both
    times (768 / width)^2, at most 2e-3. The power and the limit are chosen, not measured: the
    sample's width of 128 has 1e-3 for pretrained and 2e-3 for random weights.
    """
    at_768 = 3e-5 if is_pretrained else 1e-4
    rate = min(2e-3, at_768 * (768 / width) ** 2)
    return float(f"{rate:.0e}")


def verdict(evidence: Evidence) -> list[str]:
    """The lines of the verdict, at most `MOST_LINES`."""
    if not evidence.rows:  # the loss alone says whether the model learned
        cause = _loss_problem(evidence, is_better=False)
        fell = "the training loss fell, and no rows were evaluated"
        lines = [cause or fell, _limit(evidence)]
    else:
        metric, is_better = _metric(evidence)
        causes = filter(None, _causes(evidence, is_better))
        first_cause = next(causes, "")
        lines = [metric, first_cause, _lacking(evidence), _limit(evidence)]
    return [line for line in lines if line][:MOST_LINES]


def _causes(evidence: Evidence, is_better: bool) -> Iterator[str]:
    """Yields the lines of what may be wrong; the first that is not "" tells most. is_better:
    whether the metric is better than that of the constant answer, as for the functions below."""
    if not is_better:
        yield _rare_labels(evidence)
    yield _loss_problem(evidence, is_better)
    yield _overfitted(evidence, is_better)
    yield _never_predicted(evidence)
    if not is_better:
        yield _not_told_apart(evidence)


# ---- the metric


def _metric(evidence: Evidence) -> tuple[str, bool]:
    """The line of the main metric, and whether this is better than that of the constant answer, at
    95 % confidence."""
    task, rows, name = evidence.task, evidence.rows, evidence.task.metrics[0]
    constant = results.constant_answer_metrics(task, rows, evidence.threshold) or {}
    reference = constant.get(name, math.nan)  # nan: there is no constant answer
    low, high = _interval(evidence)
    line = f"{evidence.split}: {name} {results.metric_text(evidence.result[name])}"
    if low < high:  # equal where there is no interval
        line += f" ({low:.2f} to {high:.2f}, at 95 % with {len(rows):,} rows)"
    if not math.isnan(reference):
        line += f", of the constant answer {reference:.4f}"
    if task.lower_is_better:
        return line, high < reference
    # A correlation, or an F1 of entities, has no constant answer: 0 is that of a useless model.
    if math.isnan(reference):
        reference = 0.0
    return line, low > reference


def _interval(evidence: Evidence) -> tuple[float, float]:
    """The lower and the upper limit of the main metric, at 95 % confidence: Wilson's interval of an
    accuracy, of other metrics of labels and scores a bootstrap over the rows. Both are the metric
    itself where there is no interval."""
    from scipy import stats

    task, name, gold = evidence.task, evidence.task.metrics[0], _gold(evidence)
    value = evidence.result[name]
    # A user's own metric may not be defined for each sample of the rows.
    if gold is None or math.isnan(value) or task.own_metrics:
        return value, value
    count = len(gold)
    if name == "accuracy":
        num_right = round(value * count)
        test = stats.binomtest(num_right, count)
        wilson = test.proportion_ci(method="wilson")
        return float(wilson.low), float(wilson.high)
    values = np.asarray(evidence.values)
    # Samples of n rows with replacement: int [_SAMPLES,n]
    samples = np.random.default_rng(0).integers(0, count, [_SAMPLES, count])
    metrics = []
    for chosen in samples:
        result = task.evaluate(values[chosen], gold[chosen], evidence.threshold)
        metrics.append(result[name])
    low, high = np.nanquantile(metrics, [0.025, 0.975])
    return float(low), float(high)


def _gold(evidence: Evidence) -> np.ndarray | None:
    """The labels of the evaluated rows as numbers: ids or scores [n], or of several labels in a row
    0 and 1 [n,L]. None: they are not numbers, or the task type is a user's own."""
    gold = evidence.task.gold(evidence.rows)
    is_known = isinstance(gold, np.ndarray) and known.is_built_in(type(evidence.task))
    return gold if is_known else None


# ---- what is wrong: a line, "" if it is not


def _loss_problem(evidence: Evidence, is_better: bool) -> str:
    """The line of what is wrong with the training loss: it diverged; or, unless `is_better`, it has
    hardly moved, or it is not below that of the constant answer. "": nothing."""
    if not evidence.curve:
        return ""
    # If it diverged, the remedy is a third of the learning rate.
    peak = max(line["learning_rate"] for line in evidence.curve)
    first, lowest, last = _losses(evidence)
    if last - lowest > _ROSE * first:
        return (
            f"diverged: the training loss rose from {lowest:.4f} to {last:.4f}; "
            f"--learning_rate={peak / 3:.1g}"
        )
    # If it learned something, the loss shows nothing wrong.
    constant = _constant_loss(evidence)
    if is_better or last < _MOVED * min(first, constant):
        return ""
    # The loss is where it was, has risen, or fell to that of the constant answer.
    change = f"the training loss has hardly moved, from {first:.4f} to {last:.4f}"
    if last > first / _MOVED:
        change = f"the training loss rose, from {first:.4f} to {last:.4f}"
    if last < _MOVED * first:
        change = (
            f"the training loss, {last:.4f}, is as if no text was read ({constant:.4f})"
        )
    # The remedy: the usual learning rate, if the peak was below half of it; else more steps.
    usual = default_rate(evidence.width, evidence.is_pretrained)
    if peak < usual / 2:
        return f"{change}: too low a rate; --learning_rate={usual:g}"
    return f"{change}: too few steps; --train_steps={3 * _steps(evidence)}"


def _steps(evidence: Evidence) -> int:
    """The steps of the training."""
    return int(evidence.curve[-1]["step"])


def _losses(evidence: Evidence) -> tuple[float, float, float]:
    """The training loss of the first log line; the lowest one and the last one of its moving
    average over a tenth of the log lines, as single losses vary with their batches."""
    losses = [line["loss"] for line in evidence.curve]
    size = math.ceil(len(losses) / 10)
    means = np.convolve(losses, np.ones(size) / size, mode="valid")
    return losses[0], float(means.min()), float(means[-1])


def _constant_loss(evidence: Evidence) -> float:
    """The training loss of the constant answer, which predicts the mean score or the frequency of
    each label in the train file; infinite if it is not known."""
    from scipy import stats

    task = evidence.task
    is_known = _gold(evidence) is not None  # labels are numbers, of a built-in type
    if not evidence.train_rows or not is_known or evidence.class_weights:
        return math.inf
    labels = task.gold(evidence.train_rows)
    if not task.labels:  # the mean squared error of the mean score
        return float(np.var(labels))
    if labels.ndim == 1:  # the cross entropy of the frequencies [nats]
        return float(stats.entropy(np.bincount(labels)))
    # Of several labels in a row, the mean over the labels of such a cross entropy.
    ratios = labels.mean(axis=0, dtype=np.float64)  # [L], of rows with the label
    return float(np.mean(stats.entropy([ratios, 1 - ratios])))


def _rare_labels(evidence: Evidence) -> str:
    """Each row has a few of many labels: a loss that weighs a label like its absence teaches to
    predict none."""
    gold = _gold(evidence)
    if gold is None or gold.ndim == 1 or gold.mean() >= _RARE or evidence.class_weights:
        return ""
    return (
        "each label is rare, and its absence alone is learned; --class_weights=balanced"
    )


def _never_predicted(evidence: Evidence) -> str:
    """Labels that no row is predicted to have, although two or more rows have them, because the
    threshold is too high or the labels are rare."""
    task, gold = evidence.task, _labelled(evidence)
    if gold is None:
        return ""
    # Which labels these are.
    names, values = task.labels, np.asarray(evidence.values)  # [n,L]
    predicted = _indicators(task, task.decide(values, evidence.threshold))  # [n,L]
    counts = gold.sum(axis=0)  # [L], of rows
    is_never = (counts > 1) & ~predicted.any(axis=0)  # [L]
    never = list(itertools.compress(names, is_never))
    if not never:
        return ""
    named = f"never predicted: {', '.join(never[:_LABELS_NAMED])}"
    # The threshold is for all labels if a row may have several, or for the second one of two. It
    # may be too high if none of these probabilities reaches it.
    if task.target_shape:
        is_too_high, probabilities, ratio = not predicted.any(), values, gold.mean()
    else:
        is_too_high = len(names) == 2 and never == [names[1]]
        probabilities, ratio = values[:, 1], gold[:, 1].mean()
    auc = evidence.result.get("auc", math.nan)
    if is_too_high and auc > _TOLD_APART:
        # The threshold that predicts as many labels as there are.
        threshold = np.quantile(probabilities, 1 - ratio)
        return (
            f"{named}; the labels are told apart (AUC {auc:.2f}), and the threshold of "
            f"{evidence.threshold:g} is too high; --predict_threshold={threshold:.2g}"
        )
    # Weights help rare labels: those of fewer than n / L / 2 rows.
    few = len(gold) / len(names) / 2
    if counts[is_never].max() < few and not evidence.class_weights:
        return f"{named}; --class_weights=balanced"
    return ""


def _overfitted(evidence: Evidence, is_better: bool) -> str:
    """The loss of the evaluations while training rose by a fifth or more from its lowest value,
    and the training loss fell to at most half of this risen loss, and of its own first value. Not
    said if the metric is better than that of the constant answer, and the best checkpoint is in the
    second half of the training."""
    evaluations = []  # those whose loss is known and finite
    for evaluation in evidence.evaluations:
        if math.isfinite(evaluation.get("loss", math.inf)):
            evaluations.append(evaluation)
    if not evidence.curve or not evaluations:
        return ""
    lowest = min(evaluations, key=lambda one: one["loss"])
    now = evaluations[-1]["loss"]
    first, _, last = _losses(evidence)
    if now < 1.2 * lowest["loss"] or last > 0.5 * min(first, now):
        return ""
    # A metric may improve although the loss rises: the best checkpoint is a late one then.
    if is_better and evidence.best_step > _steps(evidence) / 2:
        return ""
    # The line names the evaluations while training, as their rows may not be the verdict's.
    return (
        f"overfitted: the training loss fell to {last:.4f}, and that of the evaluations while "
        f"training rose to {now:.4f}; --train_steps={lowest['step']}"
    )


def _not_told_apart(evidence: Evidence) -> str:
    """The metric is not better than that of the constant answer, and nothing else says why: more
    rows would tell, where dev is a small part of the train file, or more steps may help."""
    share = evidence.task.files.dev_share  # 0: dev is not held out of the train file
    if evidence.split == "dev" and share and share < 0.25:
        return f"too few rows to tell it from the constant answer; --dev_share={2 * share:g}"
    more = f"; --train_steps={3 * _steps(evidence)}" if evidence.curve else ""
    return f"not better than the constant answer{more}"


def _lacking(evidence: Evidence) -> str:
    """Labels that no evaluated row has."""
    gold = _labelled(evidence)
    if gold is None:
        return ""
    is_lacking = gold.sum(axis=0) == 0  # [L]
    lacking = list(itertools.compress(evidence.task.labels, is_lacking))
    if not lacking:
        return ""
    named = ", ".join(lacking[:_LABELS_NAMED])
    return f"{evidence.split} has no row of {len(lacking)} labels ({named}); --dev_file with some"


def _limit(evidence: Evidence) -> str:
    """Why a bag of words may be as good as this network: it knows little of the language."""
    # Of labels and scores alone: no bag of words finds entities or answers.
    if not evidence.train_rows or _gold(evidence) is None:
        return ""
    if not evidence.is_pretrained:
        return (
            "from random weights: what words mean is known from these rows alone, as to a bag of "
            "words; --init_checkpoint"
        )
    if evidence.width < _KNOWS_LANGUAGE:
        return (
            f"a network of width {evidence.width} knows little of the language, and a bag of words "
            "may be as good; --init_checkpoint of a larger one"
        )
    return ""


def _labelled(evidence: Evidence) -> np.ndarray | None:
    """1 where an evaluated row has a label, else 0, [n,L]. None: the predictions are not the
    probabilities of labels, or the labels are the letters of answers to choose from: it does not
    matter which of these letters occur."""
    task, gold = evidence.task, _gold(evidence)
    if gold is None or not task.labels or task.columns.choices:
        return None
    return _indicators(task, gold)


def _indicators(task: Task, labels: np.ndarray) -> np.ndarray:
    """Labels as 0 and 1 [n,L]. labels: of a task of several labels in a row these, else ids [n]."""
    return labels if task.target_shape else np.eye(len(task.labels))[labels]
