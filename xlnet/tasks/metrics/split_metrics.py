"""Metrics over the whole of a split, by scikit-learn and scipy, and those of each label.

Each task type lists those that it knows. Shape letters: n rows, L labels.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import runpy
import traceback
from typing import Callable

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.tasks.types.task import Task

# A metric: function of (task, decisions, truth, values) to a number.
Metric = Callable[[Task, np.ndarray, np.ndarray, np.ndarray], float]

# --- Each metric: labels and decisions are ids [n], 0 and 1 [n,L], or scores [n]; values are
# probabilities [n,L] or scores [n].


def accuracy(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Share of the rows whose label, or whose set of labels, is right."""
    same = decisions == labels
    return np.mean(same.all(axis=1) if same.ndim > 1 else same)


def positive_label(task: Task) -> int:
    """The id of the label that F1 and AUC of two labels are about: "1", or else the last one."""
    names = task.class_names
    return names.index("1") if "1" in names else len(names) - 1


def f1(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """F1 of the `positive_label`; 0 where it is neither true nor predicted."""
    from sklearn import metrics
    positive = positive_label(task)
    return metrics.f1_score(labels == positive, decisions == positive, zero_division=0)


def _averaged_f1(average):
    def f1(task, decisions, labels, values):
        from sklearn import metrics
        labels, decisions, ids = _occurring(labels, decisions)
        return metrics.f1_score(labels, decisions, labels=ids, average=average, zero_division=0)
    return f1


def _occurring(labels, decisions):
    """(labels, decisions, the ids of the labels in either), as scikit-learn averages over by
    default. One label of a multi-label task is the class 1 of two, of which 0 is no label."""
    labels, decisions = np.asarray(labels), np.asarray(decisions)
    if labels.ndim > 1 and labels.shape[1] == 1:
        return labels[:, 0], decisions[:, 0], [1]
    if labels.ndim > 1:
        ids = np.flatnonzero((labels > 0).any(axis=0) | (decisions > 0).any(axis=0))
        return labels, decisions, ids if len(ids) else [0]
    return labels, decisions, np.union1d(labels, decisions)


macro_f1 = _averaged_f1("macro")
micro_f1 = _averaged_f1("micro")


def matthews(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Matthews correlation coefficient; 0 where one side is constant."""
    from sklearn import metrics
    return metrics.matthews_corrcoef(labels, decisions)


def auc(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Area under the ROC curve; of several labels the mean over each against the rest.

    A label that all rows have, or none, has no curve and is left out; 0.5 where none is left.
    """
    from sklearn import metrics
    labels, count = np.asarray(labels), len(task.class_names)
    curves = []
    for id in [positive_label(task)] if count == 2 and labels.ndim == 1 else range(count):
        truth = labels[:, id] > 0 if labels.ndim > 1 else labels == id                   # [n]
        if 0 < np.count_nonzero(truth) < len(truth):
            curves.append(metrics.roc_auc_score(truth, values[:, id]))
    return np.mean(curves or [0.5])


def pearson(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Correlation of scores."""
    from scipy import stats
    return _correlation(stats.pearsonr, decisions, labels)


def spearman(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Correlation of the ranks of scores."""
    from scipy import stats
    return _correlation(stats.spearmanr, decisions, labels)


def mse(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Mean squared error of scores."""
    return np.mean(np.square(np.subtract(decisions, labels, dtype=np.float64)))


def mae(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Mean absolute error of scores."""
    return np.mean(np.abs(np.subtract(decisions, labels, dtype=np.float64)))


def _correlation(measure, predictions, labels):
    """Returns the correlation; 0 where one side is constant and it has no value."""
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    # In float64: a narrow range of float32 scores loses digits when the mean is taken off.
    return measure(predictions.astype(np.float64), labels.astype(np.float64))[0]


# --- A table

def class_table(task: Task, predictions: np.ndarray, labels: np.ndarray) -> str:
    """Precision, recall, F1 and number of each label, and their averages, as text; arguments as a
    task type's `decide` returns them."""
    from sklearn import metrics
    ids, names = range(len(task.class_names)), task.class_names
    if np.ndim(labels) > 1 and len(names) == 1:
        labels, predictions, ids = _occurring(labels, predictions)
    return metrics.classification_report(labels, predictions, labels=ids, target_names=names,
                                         digits=4, zero_division=0).rstrip()


# --- A user's own metric

def is_own(name: str) -> bool:
    """Whether a metric's name says where its function is: `file.py:function`,
    `sklearn.metrics:cohen_kappa_score`."""
    return ":" in name


@functools.cache
def own(name: str) -> Metric:
    """The metric that a function of the user's computes of (labels, decisions), in this order as
    scikit-learn's functions, and of the probabilities or scores where it takes three.

    Raises:
      UserError: there is no such file, module or function.
    """
    place, _, function_name = name.rpartition(":")
    try:
        if place.endswith(".py"):
            files.require_file(place, "metric")
            function = runpy.run_path(place)[function_name]
        else:
            function = getattr(importlib.import_module(place), function_name)
        needed = [parameter for parameter in inspect.signature(function).parameters.values()
                  if parameter.default is parameter.empty
                  and parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    except UserError:
        raise
    except Exception as e:
        raise UserError("metric: '%s' cannot be loaded: %s: %s; expected file.py:function or "
                        "module:function" % (name, type(e).__name__, e)) from None

    def metric(task, decisions, labels, values):
        try:
            return float(function(labels, decisions, *([values] if len(needed) > 2 else [])))
        except Exception as e:
            frame = traceback.extract_tb(e.__traceback__)[-1]
            raise UserError("metric: '%s': %s: %s (%s, line %d)" % (
                name, type(e).__name__, e, frame.filename, frame.lineno or 0)) from e
    return metric
