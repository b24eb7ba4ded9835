"""Confusion matrices as text and as a plot of bounded size. Shape letters: n rows, L labels."""

from __future__ import annotations

import collections
import os
import textwrap
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from xlnet import figure

SHOWN = 40  # maximum number of labels in a matrix; of more, the most confused are shown
_LONGEST = 24  # maximum length of a label in the plot [characters]
_COUNTED = 30  # maximum number of labels of a plot with numbers


def text(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> str:
    """The matrix with a line for each true label; of too many labels, a line for each pair that was
    confused, the most frequent first. labels, predictions: int [n], true and predicted ids."""
    if len(names) > SHOWN:
        return _pairs_text(names, labels, predictions)
    from sklearn.metrics import confusion_matrix

    matrix = confusion_matrix(labels, predictions, labels=range(len(names)))
    width = max(*map(len, names), len(str(matrix.max())), len("true"))
    cells = ["{:>{}}".format(name, width) for name in ("true", *names)]
    lines = ["  ".join(cells) + "   <- predicted"]
    for name, row in zip(cells[1:], matrix):
        lines.append("  ".join([name] + ["{:{}}".format(count, width) for count in row]))
    return "\n".join(lines)


def _pairs_text(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> str:
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    wrong = labels != predictions
    found = collections.Counter(zip(labels[wrong].tolist(), predictions[wrong].tolist()))
    width = max(map(len, ("true", *names)))
    lines = ["  rows  {:<{}}  predicted".format("true", width)]
    for (true, predicted), rows in sorted(found.items(), key=lambda one: (-one[1], one[0])):
        lines.append("{:6}  {:<{}}  {}".format(rows, names[true], width, names[predicted]))
    return "\n".join(lines)


# ---- the plot


def most_confused(labels: np.ndarray, predictions: np.ndarray, num_labels: int) -> np.ndarray:
    """The sorted ids of the `SHOWN` labels with the most false negatives and false positives."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    wrong = labels != predictions
    errors = np.bincount(labels[wrong], minlength=num_labels) + np.bincount(
        predictions[wrong], minlength=num_labels
    )
    return np.sort(np.argsort(-errors, kind="stable")[:SHOWN])


def draw(
    path: Union[str, os.PathLike[str]],
    names: Sequence[str],
    labels: np.ndarray,
    predictions: np.ndarray,
) -> None:
    """Writes the matrix of the most confused labels as a PNG; colours are fractions of all examples
    of the true label, with those predicted as a label that is not shown. A figure that cannot be
    plotted is a note."""
    with figure.optional(path):
        # Find the labels that are shown and the counts between them; totals count all predictions.
        from sklearn.metrics import confusion_matrix

        ids = most_confused(labels, predictions, len(names))
        cut = [
            names[id] if len(names[id]) <= _LONGEST else names[id][: _LONGEST - 1] + "…"
            for id in ids
        ]
        found = figure.Names.of(cut, ids)
        is_shown = np.isin(labels, ids) & np.isin(predictions, ids)
        matrix = (
            confusion_matrix(
                np.asarray(labels)[is_shown], np.asarray(predictions)[is_shown], labels=ids
            )
            if is_shown.any()
            else np.zeros([len(ids)] * 2, int)
        )
        totals = np.bincount(labels, minlength=len(names))[ids]
        # The plot grows with the number of labels, up to `SHOWN`.
        drawn = figure.new(3 + 0.45 * len(ids), 2.5 + 0.4 * len(ids), layout="constrained")
        axes = drawn.add_subplot()
        fractions = matrix / np.maximum(totals, 1)[:, None]
        image = axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
        drawn.colorbar(image, label="fraction of the true label's examples")
        style: Any = {"family": found.families, "parse_math": False}
        is_upright = max(map(figure.drawn_length, found.shown)) > 5 or len(ids) > 5
        axes.set_xticks(range(len(ids)), found.shown, rotation=90 if is_upright else 0, **style)
        axes.set_yticks(range(len(ids)), found.shown, **style)
        axes.set(xlabel="predicted", ylabel="true")
        if len(ids) < len(names):
            axes.set_title("the {} most confused of {} labels".format(len(ids), f"{len(names):,}"))
        for (row, column), number in np.ndenumerate(matrix if len(ids) <= _COUNTED else []):
            axes.text(
                column,
                row,
                number,
                ha="center",
                va="center",
                fontsize=8,
                color="white" if fractions[row, column] > 0.5 else "black",
            )
        if found.unshown:
            drawn.supxlabel(
                textwrap.fill(found.note("label"), int(10 * drawn.get_figwidth())),
                fontsize=8,
                color=figure.NOTES,
            )
            found.log("label")
        figure.save(drawn, path)
