"""A plot of one or several runs: training loss, held-out loss, learning rate, gradient norm."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Union

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.plots import figures

_COLUMNS = ("step", "loss", "learning_rate", "gradient_norm")
_COLORS = ("#4c78a8", "#e0812b", "#54a24b", "#b279a2", "#9d755d", "#e45756", "#72b7b2", "#7f7f7f")


class Curves(NamedTuple):
    """The curves of a run.

    Attributes:
      training: columns of `training.csv` by name, float [lines] each.
      held_out: steps and losses, [evaluations] each.
    """
    training: Mapping[str, np.ndarray]
    held_out: tuple[np.ndarray, np.ndarray]


def read(model_dir: str) -> Curves:
    """Reads `training.csv` of a run and, if it was evaluated, `held_out.tsv`.

    Raises:
      UserError: the file is missing or not from a training run.
    """
    path = os.path.join(model_dir, "training.csv")
    rows = _rows(path, ",", _COLUMNS)
    evaluated = os.path.join(model_dir, "held_out.tsv")
    held_out = _rows(evaluated, "\t", ("step", "loss")) if os.path.exists(evaluated) else \
        np.zeros((0, 2))
    return Curves(dict(zip(_COLUMNS, rows.T)), (held_out[:, 0], held_out[:, 1]))


def _rows(path, delimiter, columns):
    """The named columns of a file: float [lines,columns]."""
    files.require_file(path, "input")
    with open(path, newline="", encoding="utf-8") as f:
        reader = csv.DictReader(f, delimiter=delimiter)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise UserError("%s: no column %s, expected the file of a training"
                            % (path, ", ".join(missing)))
        found = []
        for row in reader:
            try:
                found.append([float(row[name]) for name in columns])
            except (TypeError, ValueError):
                raise UserError("%s, line %d: expected numbers under %s" % (
                    path, reader.line_num, ", ".join(columns))) from None
    if not found and delimiter == ",":
        raise UserError("%s has no lines yet; a run adds one every --log_steps steps" % path)
    return np.array(found).reshape(-1, len(columns))


def draw(path: str, runs: Mapping[str, Curves], smoothing: int = 1) -> None:
    """Writes a PNG of several runs by name, each in another colour.

    Args:
      smoothing: width of the running mean of the training loss [lines].
    """
    from matplotlib.figure import Figure
    figure = Figure(figsize=(11, 7), dpi=110, layout="constrained")
    losses, held_out, rates, norms = figure.subplots(2, 2).ravel()
    for (name, curves), color in zip(runs.items(), itertools.cycle(_COLORS)):
        training = curves.training
        losses.plot(training["step"], running_mean(training["loss"], smoothing), color=color,
                    label=name)
        held_out.plot(*curves.held_out, color=color, marker="o", markersize=4, label=name)
        rates.plot(training["step"], training["learning_rate"], color=color, label=name)
        norms.plot(training["step"], training["gradient_norm"], color=color, label=name)
    panels = ((losses, "Training loss", "nats"), (held_out, "Held-out loss", "nats"),
              (rates, "Learning rate", ""), (norms, "Gradient norm, before clipping", ""))
    for axes, title, unit in panels:
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("step")
        axes.set_ylabel(unit)
        axes.grid(color="#e5e5e5")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    if not any(len(curves.held_out[0]) for curves in runs.values()):
        held_out.text(0.5, 0.5, "not evaluated", ha="center", transform=held_out.transAxes,
                      color=figures.NOTES)
    if len(runs) > 1:
        # The name of a run is not a formula.
        for text in losses.legend(frameon=False, fontsize=9).get_texts():
            text.set_parse_math(False)
    figures.save(figure, path)


def running_mean(values: Union[Sequence[float], np.ndarray], count: int) -> np.ndarray:
    """The mean of each value and the `count` - 1 before it, fewer at the beginning.

    Of 1, 3, 5 with count 2: 1, 2, 4.
    """
    sums = np.cumsum(np.concatenate([[0.], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - count, 0)
    return (sums[ends] - sums[begins]) / (ends - begins)
