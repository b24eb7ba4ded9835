"""Metrics of labels and scores over a split, by scikit-learn and scipy, and those of a user.

A metric is a function of (labels, decisions, values) to a number. Labels, the gold ones, and
decisions, the predicted ones, are arrays of one shape: ids [n]; 0 and 1 [n,L], if a row may have
several labels; or scores [n]. Values are probabilities [n,L], or scores [n]. Each task type lists
its metrics. One that is undefined for its rows, such as a correlation with a constant, is NaN, as
in scikit-learn and scipy. Shape letters: n rows, L labels.
"""

from __future__ import annotations

import importlib
import inspect
import math
import runpy
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from xlnet.support.errors import wrong

# Of (labels, decisions, values), see above.
Metric = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def accuracy(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """The fraction of the rows whose label, or complete set of labels, is right."""
    same = decisions == labels  # [n], or [n,L] if a row may have several labels
    return np.mean(same.all(axis=1) if same.ndim > 1 else same)


def f1(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """F1 of the second label of two; undefined if no row has it or is predicted to have it."""
    return _f1(labels, decisions, "binary")


def macro_f1(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """The mean of the F1 of each label that some row has or is predicted to have."""
    return _f1(labels, decisions, "macro")


def micro_f1(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """F1 of the true and false positives and the false negatives of all labels together."""
    return _f1(labels, decisions, "micro")


def _f1(labels: np.ndarray, decisions: np.ndarray, average: str) -> float:
    """F1 with an `average` of scikit-learn: "binary", "macro" or "micro". The F1 of a label without
    true or predicted rows, 0 / 0, is NaN, which means of labels leave out."""
    from sklearn import metrics

    return metrics.f1_score(labels, decisions, average=average, zero_division=np.nan)


def matthews(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Matthews correlation coefficient; 0 if decisions are constant, undefined if labels are."""
    from sklearn import metrics

    is_constant = np.ptp(labels) == 0  # maximum - minimum
    return math.nan if is_constant else metrics.matthews_corrcoef(labels, decisions)


def auc(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
    """Area under the ROC curve: the mean of the areas of all labels, of each against the others; of
    two labels, if a row has one of them, that of the second.

    A label of all rows, or of none, has no curve and is left out; undefined if there is no curve.
    """
    from sklearn import metrics

    has_several = labels.ndim > 1  # a row may have several labels, [n,L]
    count = values.shape[1]
    first = 0
    if count == 2 and not has_several:  # the curve of the first label has the same area
        first = 1
    areas = []
    for id in range(first, count):
        has_label = labels[:, id] > 0 if has_several else labels == id  # [n]
        if has_label.any() and not has_label.all():
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
    """The correlation of scores, float [n] each, by `measure` of `scipy.stats`, whose result is
    (correlation, p-value); NaN if one side is constant."""
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return math.nan
    # Computed in float64: scores in a narrow range would lose digits in float32 when the mean is
    # subtracted.
    return measure(predictions.astype(np.float64), labels.astype(np.float64))[0]


def report(names: Sequence[str], decisions: np.ndarray, labels: np.ndarray) -> str:
    """scikit-learn's table of precision, recall, F1 and support of each label, as text. names: of
    the labels; decisions, labels: ids [n], or 0 and 1 [n,L]."""
    from sklearn import metrics
    from sklearn.utils import multiclass

    # Of ids those that occur in labels or decisions; of arrays [n,L] all L.
    ids = multiclass.unique_labels(labels, decisions)
    return metrics.classification_report(
        labels,
        decisions,
        labels=ids,
        target_names=[names[id] for id in ids],
        digits=4,
        zero_division=0,
    )


# ---- a user's own metric


def load_metric(name: str) -> Metric:
    """The metric that calls a user's function: with (labels, decisions), or with (labels,
    decisions, values) if it has three parameters without default. A UserError if it cannot be
    loaded, or, in a call, fails.

    name: as --metric has it, `file.py:function` or `module:function`, with `:min` at the end if
    lower is better, such as `sklearn.metrics:hamming_loss:min`.
    """
    source, _, function_name = name.removesuffix(":min").rpartition(":")
    try:
        if source.endswith(".py"):
            function = runpy.run_path(source)[function_name]
        else:
            function = getattr(importlib.import_module(source), function_name)
        signature = inspect.signature(function)
    except Exception as e:
        found = f"'{name}', which cannot be loaded: {type(e).__name__}: {e}"
        raise wrong("metric", found, "file.py:function or module:function") from None
    required = 0  # the number of parameters that must be given, by position
    for parameter in signature.parameters.values():
        kinds = parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD
        is_positional = parameter.kind in kinds
        required += is_positional and parameter.default is parameter.empty

    def metric(labels: np.ndarray, decisions: np.ndarray, values: np.ndarray) -> float:
        arguments = (labels, decisions, values)
        try:
            return float(function(*arguments[: max(required, 2)]))
        except Exception as e:
            found = f"'{name}': {type(e).__name__}: {e}"
            raise wrong("metric", found, "a number") from e

    return metric
