"""What was confused with what: as text, and as a picture; neither grows with the square of the
labels.

Shape letters: n rows, L labels, P pairs of a true and a predicted label that some row has.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence

import numpy as np

from xlnet import files, fonts

SHOWN = 40         # labels of a table or picture of all pairs; of more, the most confused ones
_LONGEST = 24      # characters of a label in the picture
_COUNTED = 30      # labels up to which the picture has numbers

# true, predicted: int [P], ids. rows: int [P], how many have this pair, above 0.
Pairs = collections.namedtuple("Pairs", "true predicted rows")


def pairs(predictions: np.ndarray, labels: np.ndarray, num_labels: int) -> Pairs:
    """The `Pairs` of int arrays [n], ordered by the true label, then the predicted one."""
    found, rows = np.unique(np.asarray(labels, np.int64) * num_labels + predictions,
                            return_counts=True)
    return Pairs(*np.divmod(found, num_labels), rows)


def text(names: Sequence[str], found: Pairs) -> str:
    """A table with a line for each true label; where there are too many, a line for each pair of
    different labels, the most frequent first.

    names: of the L labels.
    """
    return _matrix_text(names, _matrix(found, range(len(names)))) if len(names) <= SHOWN else \
        _pairs_text(names, found)


def _matrix(found, ids):
    """int [len(ids),len(ids)]: rows of true label ids[i] that were predicted as ids[j]."""
    place = np.full(max(int(max(map(np.max, found[:2]))), *ids) + 1, -1)
    place[list(ids)] = range(len(ids))
    matrix = np.zeros([len(ids), len(ids)], np.int64)
    true, predicted = place[found.true], place[found.predicted]
    inside = (true >= 0) & (predicted >= 0)
    matrix[true[inside], predicted[inside]] = found.rows[inside]
    return matrix


def _matrix_text(names, matrix):
    width = max(*map(len, names), len(str(matrix.max())), len("true"))
    cells = ["%*s" % (width, name) for name in ("true", *names)]
    lines = ["  ".join(cells) + "   <- predicted"]
    for name, row in zip(cells[1:], matrix):
        lines.append("  ".join([name] + ["%*d" % (width, count) for count in row]))
    return "\n".join(lines)


def _pairs_text(names, found):
    wrong = np.flatnonzero(found.true != found.predicted)
    wrong = wrong[np.argsort(-found.rows[wrong], kind="stable")]
    width = max(map(len, ("true", *names)))
    lines = ["  rows  %-*s  predicted" % (width, "true")]
    for true, predicted, rows in zip(*(column[wrong] for column in found)):
        lines.append("%6d  %-*s  %s" % (rows, width, names[true], names[predicted]))
    return "\n".join(lines)


# ---- the picture

def most_confused(found: Pairs, num_labels: int) -> np.ndarray:
    """The ids, in order, of the `SHOWN` labels with the most rows that are theirs and were
    predicted as another one, or the other way round; all of them where there are no more."""
    wrong = found.true != found.predicted
    errors = np.zeros(num_labels, np.int64)
    for ids in (found.true, found.predicted):
        np.add.at(errors, ids[wrong], found.rows[wrong])
    return np.sort(np.argsort(-errors, kind="stable")[:SHOWN])


def draw(path: str, names: Sequence[str], found: Pairs) -> None:
    """Writes the pairs of the most confused labels as a PNG; colours are shares of the true label's
    rows, those that were predicted as a label that is not shown among them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    ids = most_confused(found, len(names))
    matrix, size = _matrix(found, ids), len(ids)
    rows = np.bincount(found.true, found.rows, minlength=len(names))[ids]
    shares = matrix / np.maximum(rows, 1)[:, None]
    ticks, families = _ticks(names, ids)
    figure = Figure(figsize=(3 + 0.45 * size, 2.5 + 0.4 * size), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, label="share of the true label's rows")
    style = {"family": families, "parse_math": False}
    axes.set_xticks(range(size), ticks, rotation=90 if size > 5 else 0, **style)
    axes.set_yticks(range(size), ticks, **style)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if size < len(names):
        axes.set_title("the %d most confused of %s labels" % (size, "{:,}".format(len(names))))
    for i, row in enumerate(matrix if size <= _COUNTED else ()):
        for j, count in enumerate(row):
            axes.text(j, i, count, ha="center", va="center", fontsize=8,
                      color="white" if shares[i, j] > 0.5 else "black")
    with files.replacing(os.fspath(path)) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def _ticks(names, ids):
    """Names for the picture, those for which no font is installed as #id, and the families."""
    cut = [names[id] if len(names[id]) <= _LONGEST else names[id][:_LONGEST - 1] + "…"
           for id in ids]
    families, shown = fonts.choose("".join(cut))
    return [name if set(name) <= shown else "#%d" % id for name, id in zip(cut, ids)], families
