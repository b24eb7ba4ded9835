"""Metrics of labels and scores over a split, by scikit-learn and scipy.

Each task type lists its own. A metric that is undefined for its rows, such as a correlation with a
constant, is NaN, as in scikit-learn and scipy; `why_undefined` says why. Shape letters: n rows, L
labels.
"""

from __future__ import annotations

import importlib
import inspect
import math
import runpy
import traceback
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from xlnet.support.errors import UserError, wrong

# A metric: a function of (labels, decisions, values) to a number. Labels and decisions are ids [n],
# 0 and 1 [n,L], or scores [n]; values are probabilities [n,L] or scores [n].
Metric = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def accuracy(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """The fraction of the rows whose label, or set of labels, is right."""
    same = decisions == labels
    return np.mean(same.all(axis=1) if same.ndim > 1 else same)


POSITIVE = 1  # the id of the positive label of two: the second


def f1(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """F1 of the second label; undefined if it is neither true nor predicted."""
    from sklearn import metrics

    # np.nan itself here and below: scikit-learn 1.3 refuses other objects that are not a number.
    return metrics.f1_score(
        np.equal(labels, POSITIVE), np.equal(decisions, POSITIVE), zero_division=np.nan
    )


def macro_f1(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """The mean of the labels' F1, of those that are true or predicted somewhere."""
    return _averaged_f1(labels, decisions, "macro")


def micro_f1(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """F1 of all labels' counts together."""
    return _averaged_f1(labels, decisions, "micro")


def _averaged_f1(labels: np.ndarray, decisions: np.ndarray, average: str) -> float:
    from sklearn import metrics

    labels, decisions, ids = _occurring(labels, decisions)
    return metrics.f1_score(
        labels, decisions, labels=ids, average=average, zero_division=np.nan
    )


def _occurring(
    labels: np.ndarray, decisions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Any]:
    """(labels, decisions, the ids of the labels in either), over which scikit-learn averages by
    default. The only label of a multi-label task is class 1 of two; class 0 is not a label."""
    labels, decisions = np.asarray(labels), np.asarray(decisions)
    if labels.ndim > 1 and labels.shape[1] == 1:
        return labels[:, 0], decisions[:, 0], [1]
    if labels.ndim > 1:
        ids = np.flatnonzero((labels > 0).any(axis=0) | (decisions > 0).any(axis=0))
        return labels, decisions, ids if len(ids) else [0]
    return labels, decisions, np.union1d(labels, decisions)


def matthews(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Matthews correlation coefficient; 0 if decisions are constant, undefined if labels are."""
    from sklearn import metrics

    return metrics.matthews_corrcoef(labels, decisions) if np.ptp(labels) else math.nan


def auc(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Area under the ROC curve; for several labels the mean over each against the rest.

    A label of all rows, or of none, has no curve and is left out; undefined if there is no curve.
    """
    from sklearn import metrics

    labels, count = np.asarray(labels), values.shape[1]
    has_several = labels.ndim > 1  # whether a row may have several labels, [n,L]
    ids: Sequence[int] = range(count)
    if count == 2 and not has_several:  # the curve of the other label would be the same
        ids = [POSITIVE]
    areas = []
    for id in ids:
        has_label = labels[:, id] > 0 if has_several else labels == id  # [n]
        num_with_label = np.count_nonzero(has_label)
        if 0 < num_with_label < len(has_label):
            areas.append(metrics.roc_auc_score(has_label, values[:, id]))
    return np.mean(areas) if areas else math.nan


def pearson(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Pearson correlation of scores; undefined if one side is constant."""
    from scipy import stats

    return _correlation(stats.pearsonr, decisions, labels)


def spearman(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Spearman rank correlation of scores; undefined if one side is constant."""
    from scipy import stats

    return _correlation(stats.spearmanr, decisions, labels)


def _correlation(
    measure: Callable[..., Any], predictions: np.ndarray, labels: np.ndarray
) -> float:
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return math.nan
    # Computed in float64: scores in a narrow range would lose digits in float32 when the mean is
    # subtracted.
    return measure(predictions.astype(np.float64), labels.astype(np.float64))[0]


def mse(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Mean squared error of scores."""
    return np.mean(np.square(np.subtract(decisions, labels, dtype=np.float64)))


def mae(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Mean absolute error of scores."""
    return np.mean(np.abs(np.subtract(decisions, labels, dtype=np.float64)))


def class_table(
    label_names: Sequence[str], predictions: np.ndarray, labels: np.ndarray
) -> str:
    """Precision, recall, F1 and support of each label, and their averages over the labels that are
    true or predicted somewhere, as text; ids [n], or 0 and 1 [n,L].

    An undefined ratio is shown as 0 and averaged as 0, as in scikit-learn's reports.
    """
    from sklearn import metrics

    width = max(map(len, label_names))
    names = np.array([name.rjust(width) for name in label_names], object)
    is_one = np.ndim(labels) > 1 and len(names) == 1
    labels, predictions, occurring = _occurring(labels, predictions)
    # scikit-learn averages over the labels that it shows.
    parts = []
    for ids in (occurring if is_one else np.arange(len(names)), occurring):
        report = metrics.classification_report(
            labels,
            predictions,
            labels=ids,
            target_names=names if is_one else names[ids],
            digits=4,
            zero_division=0,
        )
        parts.append(report.rstrip().rpartition("\n\n"))
    return "\n\n".join([parts[0][0], parts[1][2]])


def confusion_table(
    names: Sequence[str], predictions: np.ndarray, labels: np.ndarray
) -> str:
    """The number of rows of each true and predicted label, with a line for each true one.

    Args:
      names: of the labels.
      predictions: predicted ids, int [n].
      labels: true ids, int [n].
    """
    from sklearn.metrics import confusion_matrix

    matrix = confusion_matrix(labels, predictions, labels=range(len(names)))
    width = max(*map(len, names), len(str(matrix.max())), len("true"))
    lines = []
    for cells in (("true", *names), *zip(names, *matrix.T)):
        lines.append("  ".join(str(cell).rjust(width) for cell in cells))
    lines[0] += "   <- predicted"
    return "\n".join(lines)


_CONSTANT = "the predicted or the gold scores are all the same"
_NEITHER = "nothing that it counts is true or predicted"
_WHY_UNDEFINED = {
    "auc": "the gold labels are all the same",
    "matthews": "the gold labels are all the same",
    "pearson": _CONSTANT,
    "spearman": _CONSTANT,
    "f1": _NEITHER,
    "macro_f1": _NEITHER,
    "micro_f1": _NEITHER,
    "precision": "nothing is predicted",
    "recall": "nothing is true",
}


def why_undefined(name: str) -> str:
    """Why the metric `name` is NaN, in words."""
    return _WHY_UNDEFINED.get(name, "it is NaN")


# ---- a user's own metric


def is_own(name: str) -> bool:
    """Whether a name is that of a function: `file.py:function`, `sklearn.metrics:hamming_loss:min`,
    where lower is better."""
    return ":" in name


def _parts(name: str) -> tuple[str, str]:
    """(file or module, function) of an own metric."""
    place, _, function = name.removesuffix(":min").rpartition(":")
    return place, function


def name_of(name: str) -> str:
    """The name under which a metric is shown and kept: that of its function."""
    return _parts(name)[1] if is_own(name) else name


def own(name: str) -> Metric:
    """The metric of a user's function of (labels, decisions), or of (labels, decisions, values) if
    it has three parameters without default."""
    place, function_name = _parts(name)
    try:
        if place.endswith(".py"):
            function = runpy.run_path(place)[function_name]
        else:
            function = getattr(importlib.import_module(place), function_name)
        parameters = inspect.signature(function).parameters.values()
    except Exception as e:
        found = f"'{name}', which cannot be loaded: {type(e).__name__}: {e}"
        raise wrong("metric", found, "file.py:function or module:function") from None
    needed = 0
    for parameter in parameters:
        is_positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        needed += is_positional and parameter.default is parameter.empty

    def metric(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
        try:
            if needed > 2:
                return float(function(labels, decisions, values))
            return float(function(labels, decisions))
        except Exception as e:
            frame = traceback.extract_tb(e.__traceback__)[-1]
            raise UserError(
                f"metric: '{name}': {type(e).__name__}: {e} ({frame.filename}, line "
                f"{frame.lineno or 0})"
            ) from e

    return metric
