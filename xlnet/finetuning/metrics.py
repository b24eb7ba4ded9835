"""Metrics over the whole of a split, by scikit-learn and scipy; tables of what was confused.

Shape letters: n rows, L labels.
"""

import os

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.finetuning import ranking

THRESHOLD = 0.5      # of a label's probability, where labels are independent or there are two
_NARROW = 0.01       # scores whose spread is less than this share of the labels' have collapsed


def label_array(task, rows):
    """Returns the labels of rows as numbers; 0 where a row has none.

    int32 [n] ids, float32 [n] scores, or float32 [n,L] of 0 and 1 for a multi-label task.
    """
    if task.is_regression:
        return np.array([row.label or 0 for row in rows], np.float32)
    position = {None: 0, **{label: id for id, label in enumerate(task.labels)}}
    if not task.multi_label:
        return np.array([position[row.label] for row in rows], np.int32)
    array = np.zeros([len(rows), len(task.labels)], np.float32)
    for i, row in enumerate(rows):
        array[i, [position[name] for name in row.label or ()]] = 1
    return array


def decide(task, values, threshold=THRESHOLD):
    """Returns what is predicted, in the form of `label_array`.

    Args:
      values: probabilities [n,L], or scores [n].
      threshold: least probability of a label of a multi-label task, and of the second one of two.
    """
    values = np.asarray(values)
    if task.is_regression:
        return values
    if task.multi_label:
        return (values >= threshold).astype(np.float32)
    if len(task.labels) == 2 and threshold != THRESHOLD:
        return (values[:, 1] >= threshold).astype(np.int64)
    return values.argmax(axis=1)


def evaluate(task, values, labels, threshold=THRESHOLD, queries=None):
    """Returns an ordered dict of metric name to float, the task's main metric first.

    Args:
      values, threshold: as in `decide`. labels: as in `label_array`. queries: of a ranking, as
        `ranking.by_query` returns them.

    Raises:
      UserError: a prediction is not a finite number.
    """
    values, labels = np.asarray(values), np.asarray(labels)
    expected = labels.shape if task.is_regression or task.multi_label else (
        len(labels), len(task.labels))
    if values.shape != expected:
        raise ValueError("task %s: values have shape %s, expected %s"
                         % (task.name, values.shape, expected))
    bad = np.count_nonzero(~np.isfinite(values))
    if bad:
        raise UserError("task %s: %d of %d predictions are not finite numbers"
                        % (task.name, bad, values.size))
    if task.kind == "ranking":
        return ranking.evaluate(task.metrics, values, labels, queries, task.highest_grade)
    predictions = decide(task, values, threshold)
    return {name: float(_METRICS[name](task, predictions, labels, values))
            for name in task.metrics}


def baseline(task, labels, queries=None):
    """Returns the metrics of a constant answer: the most frequent label(s), or the mean score; of a
    ranking those of a random order. Arguments as in `evaluate`."""
    labels = np.asarray(labels)
    if task.kind == "ranking":
        return ranking.random_order(task.metrics, labels, queries, task.highest_grade)
    if task.is_regression or task.multi_label:
        constant = labels.mean(axis=0)
    else:
        constant = np.eye(len(task.labels))[np.bincount(labels).argmax()]
    return evaluate(task, np.broadcast_to(constant, labels.shape[:1] + np.shape(constant)), labels)


def collapsed(task, values, labels):
    """Says in words that the answers no longer depend on the text, or returns None.

    That is: one class for all rows (one set of labels), or scores of next to no spread, while
    the true labels differ.
    """
    labels, decided = np.asarray(labels), decide(task, values)
    if len(labels) < 2 or not np.ptp(labels, axis=0).any():
        return None
    if task.is_regression:
        narrow = np.std(decided) < _NARROW * np.std(labels)
        return "all scores are about %.2f" % np.mean(decided) if narrow else None
    if np.ptp(decided, axis=0).any():
        return None
    if not task.multi_label:
        return "every row is '%s'" % task.labels[int(decided[0])]
    names = [name for name, is_on in zip(task.labels, decided[0]) if is_on]
    return "every row has the labels %s" % (", ".join(names) or "(none)")


# --- Each metric: (task, predictions as decided, labels, values)

def _accuracy(task, predictions, labels, values):
    same = predictions == labels
    return np.mean(same.all(axis=1) if task.multi_label else same)


def positive_label(task):
    """The id of the label that F1 and AUC of two labels are about: "1", or else the last one."""
    return task.labels.index("1") if "1" in task.labels else len(task.labels) - 1


def _f1(task, predictions, labels, values):
    from sklearn import metrics
    positive = positive_label(task)
    return metrics.f1_score(labels == positive, predictions == positive, zero_division=0)


def _averaged_f1(average):
    def f1(task, predictions, labels, values):
        from sklearn import metrics
        return metrics.f1_score(labels, predictions, labels=range(len(task.labels)),
                                average=average, zero_division=0)
    return f1


def _matthews(task, predictions, labels, values):
    from sklearn import metrics
    return metrics.matthews_corrcoef(labels, predictions)


def _auc(task, predictions, labels, values):
    """Area under the ROC curve; of several labels the mean over each against the rest.

    A label that all rows have, or none, has no curve and is left out; 0.5 where none is left.
    """
    from sklearn import metrics
    truth = labels if task.multi_label else np.eye(len(task.labels))[labels]       # [n,L]
    curves = [positive_label(task)] if len(task.labels) == 2 and not task.multi_label else [
        id for id in range(len(task.labels)) if 0 < truth[:, id].sum() < len(truth)]
    curves = [id for id in curves if 0 < truth[:, id].sum() < len(truth)]
    return np.mean([metrics.roc_auc_score(truth[:, id], values[:, id]) for id in curves]
                   or [0.5])


def _pearson(task, predictions, labels, values):
    from scipy import stats
    return _correlation(stats.pearsonr, predictions, labels)


def _spearman(task, predictions, labels, values):
    from scipy import stats
    return _correlation(stats.spearmanr, predictions, labels)


def _correlation(measure, predictions, labels):
    """Returns the correlation; 0 where one side is constant and it has no value."""
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    # In float64: a narrow range of float32 scores loses digits when the mean is taken off.
    return measure(predictions.astype(np.float64), labels.astype(np.float64))[0]


_METRICS = {"accuracy": _accuracy, "f1": _f1, "macro_f1": _averaged_f1("macro"),
            "micro_f1": _averaged_f1("micro"), "matthews": _matthews, "auc": _auc,
            "pearson": _pearson, "spearman": _spearman}


# --- Tables

def class_table(task, predictions, labels):
    """Precision, recall, F1 and rows of each label, as text; arguments as `decide` returns them."""
    from sklearn import metrics
    columns = metrics.precision_recall_fscore_support(
        labels, predictions, labels=range(len(task.labels)), zero_division=0)
    width = max(map(len, (*task.labels, "label")))
    lines = ["%-*s  precision  recall      f1    rows" % (width, "label")]
    for name, precision, recall, f1, count in zip(task.labels, *columns):
        lines.append("%-*s  %9.4f  %6.4f  %6.4f  %6d" % (width, name, precision, recall, f1, count))
    return "\n".join(lines)


def confusion_matrix(task, predictions, labels):
    """int [L,L]: rows of true label i that were predicted as j."""
    from sklearn import metrics
    return metrics.confusion_matrix(labels, predictions, labels=range(len(task.labels)))


def confusion_text(task, matrix):
    """The confusion matrix as a text table; a line for each true label."""
    width = max(*map(len, task.labels), len(str(matrix.max())), len("true"))
    names = ["%*s" % (width, name) for name in ("true", *task.labels)]
    lines = ["  ".join(names) + "   <- predicted"]
    for name, row in zip(names[1:], matrix):
        lines.append("  ".join([name] + ["%*d" % (width, count) for count in row]))
    return "\n".join(lines)


def draw_confusion(path, task, matrix):
    """Writes the confusion matrix as a PNG; colours are shares of the true label's rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    size = len(task.labels)
    figure = Figure(figsize=(3 + 0.45 * size, 2.5 + 0.4 * size), layout="constrained")
    axes = figure.add_subplot()
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, label="share of the true label's rows")
    axes.set_xticks(range(size), task.labels, rotation=90 if size > 5 else 0)
    axes.set_yticks(range(size), task.labels)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    for i, row in enumerate(matrix if size <= 30 else ()):
        for j, count in enumerate(row):
            axes.text(j, i, count, ha="center", va="center", fontsize=8,
                      color="white" if shares[i, j] > 0.5 else "black")
    with files.replacing(os.fspath(path)) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)
