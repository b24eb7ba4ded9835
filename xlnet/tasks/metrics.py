"""Metrics over the whole of a split, by scikit-learn and scipy, and those of each label.

Each kind of task lists those that it knows. Shape letters: n rows, L labels.
"""

from __future__ import annotations

import numpy as np

from xlnet.tasks.task import Task

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
        return metrics.f1_score(labels, decisions, labels=range(len(task.class_names)),
                                average=average, zero_division=0)
    return f1


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
    """Precision, recall, F1 and rows of each label, as text; arguments as a kind's `decide` returns
    them."""
    from sklearn import metrics
    columns = metrics.precision_recall_fscore_support(
        labels, predictions, labels=range(len(task.class_names)), zero_division=0)
    width = max(map(len, (*task.class_names, "label")))
    lines = ["%-*s  precision  recall      f1    rows" % (width, "label")]
    for name, precision, recall, f1, count in zip(task.class_names, *columns):
        lines.append("%-*s  %9.4f  %6.4f  %6.4f  %6d" % (width, name, precision, recall, f1, count))
    return "\n".join(lines)
