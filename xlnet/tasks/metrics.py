"""Metrics over the whole of a split, by scikit-learn and scipy; tables of what was confused.

Each kind of task lists those that it knows. Shape letters: n rows, L labels.
"""

from __future__ import annotations

import os

import numpy as np

from xlnet import files
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
    truth = labels if labels.ndim > 1 else np.eye(len(task.class_names))[labels]   # [n,L]
    count = truth.shape[1]
    curves = [positive_label(task)] if count == 2 and labels.ndim == 1 else range(count)
    curves = [id for id in curves if 0 < truth[:, id].sum() < len(truth)]
    return np.mean([metrics.roc_auc_score(truth[:, id], values[:, id]) for id in curves]
                   or [0.5])


def pearson(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Correlation of scores."""
    from scipy import stats
    return _correlation(stats.pearsonr, decisions, labels)


def spearman(task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray) -> float:
    """Correlation of the ranks of scores."""
    from scipy import stats
    return _correlation(stats.spearmanr, decisions, labels)


def _correlation(measure, predictions, labels):
    """Returns the correlation; 0 where one side is constant and it has no value."""
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    # In float64: a narrow range of float32 scores loses digits when the mean is taken off.
    return measure(predictions.astype(np.float64), labels.astype(np.float64))[0]


# --- Tables

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


def confusion_matrix(task: Task, predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """int [L,L]: rows of true label i that were predicted as j."""
    from sklearn import metrics
    return metrics.confusion_matrix(labels, predictions, labels=range(len(task.class_names)))


def confusion_text(task: Task, matrix: np.ndarray) -> str:
    """The confusion matrix as a text table; a line for each true label."""
    width = max(*map(len, task.class_names), len(str(matrix.max())), len("true"))
    names = ["%*s" % (width, name) for name in ("true", *task.class_names)]
    lines = ["  ".join(names) + "   <- predicted"]
    for name, row in zip(names[1:], matrix):
        lines.append("  ".join([name] + ["%*d" % (width, count) for count in row]))
    return "\n".join(lines)


def draw_confusion(path: str, task: Task, matrix: np.ndarray) -> None:
    """Writes the confusion matrix as a PNG; colours are shares of the true label's rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    size = len(task.class_names)
    figure = Figure(figsize=(3 + 0.45 * size, 2.5 + 0.4 * size), layout="constrained")
    axes = figure.add_subplot()
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, label="share of the true label's rows")
    axes.set_xticks(range(size), task.class_names, rotation=90 if size > 5 else 0)
    axes.set_yticks(range(size), task.class_names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    for i, row in enumerate(matrix if size <= 30 else ()):
        for j, count in enumerate(row):
            axes.text(j, i, count, ha="center", va="center", fontsize=8,
                      color="white" if shares[i, j] > 0.5 else "black")
    with files.replacing(os.fspath(path)) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)
