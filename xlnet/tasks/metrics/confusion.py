"""Confusion matrices as text and as a plot of bounded size. Shape letters: n rows, L labels."""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence

import numpy as np

from xlnet import files, fonts

SHOWN = 40         # maximum number of labels in a matrix; of more, the most confused are shown
_LONGEST = 24      # maximum length of a label in the plot [characters]
_COUNTED = 30      # maximum number of labels of a plot with numbers


def text(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> str:
    """The matrix with a line for each true label; of too many labels, a line for each pair that was
    confused, the most frequent first.

    Args:
      names: of the L labels.
      labels: int [n], the true ids.
      predictions: int [n], the predicted ids.
    """
    if len(names) > SHOWN:
        return _pairs_text(names, labels, predictions)
    from sklearn.metrics import confusion_matrix
    matrix = confusion_matrix(labels, predictions, labels=range(len(names)))
    width = max(*map(len, names), len(str(matrix.max())), len("true"))
    cells = ["%*s" % (width, name) for name in ("true", *names)]
    lines = ["  ".join(cells) + "   <- predicted"]
    for name, row in zip(cells[1:], matrix):
        lines.append("  ".join([name] + ["%*d" % (width, count) for count in row]))
    return "\n".join(lines)


def _pairs_text(names, labels, predictions):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    wrong = labels != predictions
    found = collections.Counter(zip(labels[wrong].tolist(), predictions[wrong].tolist()))
    width = max(map(len, ("true", *names)))
    lines = ["  rows  %-*s  predicted" % (width, "true")]
    for (true, predicted), rows in sorted(found.items(), key=lambda one: (-one[1], one[0])):
        lines.append("%6d  %-*s  %s" % (rows, width, names[true], names[predicted]))
    return "\n".join(lines)


# ---- the plot

def most_confused(labels: np.ndarray, predictions: np.ndarray, num_labels: int) -> np.ndarray:
    """The sorted ids of the `SHOWN` labels with the most false negatives and false positives."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    wrong = labels != predictions
    errors = np.bincount(labels[wrong], minlength=num_labels) \
        + np.bincount(predictions[wrong], minlength=num_labels)
    return np.sort(np.argsort(-errors, kind="stable")[:SHOWN])


def draw(path: str, names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> None:
    """Writes the matrix of the most confused labels as a PNG; colours are fractions of all examples
    of the true label, with those predicted as a label that is not shown."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
    ids = most_confused(labels, predictions, len(names))
    ticks, families = _ticks(names, ids)
    is_shown = np.isin(labels, ids) & np.isin(predictions, ids)
    matrix = confusion_matrix(np.asarray(labels)[is_shown], np.asarray(predictions)[is_shown],
                              labels=ids) if is_shown.any() else np.zeros([len(ids)] * 2, int)
    totals = np.bincount(labels, minlength=len(names))[ids]
    figure = Figure(figsize=(3 + 0.45 * len(ids), 2.5 + 0.4 * len(ids)), layout="constrained")
    axes = figure.add_subplot()
    shown = ConfusionMatrixDisplay(matrix / np.maximum(totals, 1)[:, None], display_labels=ticks)
    shown.plot(ax=axes, cmap="Blues", colorbar=False, include_values=len(ids) <= _COUNTED,
               im_kw={"vmin": 0, "vmax": 1})
    figure.colorbar(shown.im_, label="fraction of the true label's examples")
    style = {"family": families, "parse_math": False}
    axes.set_xticks(range(len(ids)), ticks, rotation=90 if len(ids) > 5 else 0, **style)
    axes.set_yticks(range(len(ids)), ticks, **style)
    axes.set(xlabel="predicted", ylabel="true")
    if len(ids) < len(names):
        axes.set_title("the %d most confused of %s labels" % (len(ids), "{:,}".format(len(names))))
    for place, number in np.ndenumerate(matrix if shown.text_ is not None else []):
        shown.text_[place].set(text=number, fontsize=8)
    with files.replacing(os.fspath(path)) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def _ticks(names, ids):
    """Names for the plot, #id where no font is installed, and the font families."""
    cut = [names[id] if len(names[id]) <= _LONGEST else names[id][:_LONGEST - 1] + "…"
           for id in ids]
    families, shown = fonts.choose("".join(cut))
    return [name if set(name) <= shown else "#%d" % id for name, id in zip(cut, ids)], families
