"""Learning curves of runs: the losses of training and the evaluations, by step."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlnet.plots import masks
from xlnet.runs import model_files
from xlnet.settings.training import EVALUATIONS_NAME, JOURNAL_NAME
from xlnet.support import files
from xlnet.support.errors import wrong


class Curves(NamedTuple):
    """The curves of a run: lists of (step, value).

    Attributes:
      name: the directory of the run, as it was given.
      training: the training loss, of `training.csv`: means over the steps since the row before.
      evaluated: by metric, from the evaluations: the metric that selects the best checkpoint, and
        the loss. A value that is undefined is NaN.
    """

    name: str
    training: list[tuple[int, float]]
    evaluated: dict[str, list[tuple[int, float]]]


def read(model_dir: str) -> Curves:
    """The curves of the run in a model directory; a UserError if there is no run or its files have
    no curve."""
    files.require_directory(model_dir, "model_dir")
    # Pretraining and fine-tuning write the same two files. This one has the name of the metric that
    # selects the best checkpoint, and for each evaluation its step and values by metric.
    path = os.path.join(model_dir, EVALUATIONS_NAME)
    run = Curves(model_dir.rstrip("/"), [], {})
    history: dict[str, Any] = {"metric": "loss", "evaluations": []}
    if os.path.exists(path):
        history = files.read_json(path, "model_dir")
    try:
        for line in model_files.read_curve(model_dir):
            run.training.append((int(line["step"]), line["loss"]))
        for metric in dict.fromkeys((history["metric"], "loss")):  # each once
            points = []
            for evaluation in history["evaluations"]:
                # A metric that is undefined, null in JSON, is a gap in its curve.
                value = evaluation.get(metric)
                points.append(
                    (evaluation["step"], math.nan if value is None else value)
                )
            if points:
                run.evaluated[metric] = points
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        damaged = f"damaged {path} or {JOURNAL_NAME} ({e!r})"
        raise wrong("model_dir", damaged, "a run") from None
    if not run.training and not run.evaluated:
        missing = f"no loss in {JOURNAL_NAME} and no evaluation in {EVALUATIONS_NAME}"
        expected = "a run that came to its first log line"
        raise wrong(f"model_dir: {model_dir}", missing, expected)
    return run


def plot(path: str, runs: Sequence[Curves]) -> None:
    """Writes a PNG: a panel with the losses of all runs, and one for each other metric. A run has
    the same color in all panels."""
    from matplotlib.figure import Figure

    metrics = ["loss"]  # of the panels, from the top
    for run in runs:
        for metric in run.evaluated:
            if metric not in metrics:
                metrics.append(metric)
    height = 1 + 2.6 * len(metrics)  # [inches]
    figure = Figure(figsize=(8, height), dpi=110, layout="constrained")
    panels = figure.subplots(len(metrics), 1, sharex=True, squeeze=False)[:, 0]
    for number, run in enumerate(runs):
        color = f"C{number % 10}"  # the name of one of matplotlib's ten
        if run.training:
            steps, losses = zip(*run.training)
            label = f"training, {run.name}"
            panels[0].plot(steps, losses, color=color, alpha=0.6, label=label)
        for metric, points in run.evaluated.items():
            panel = panels[metrics.index(metric)]
            steps, values = zip(*points)
            label = f"evaluation, {run.name}"
            panel.plot(steps, values, "o--", color=color, markersize=4, label=label)
    for panel, metric in zip(panels, metrics):
        panel.set_ylabel(metric)
        panel.grid(color="#dddddd", linewidth=0.6)
        if panel.lines:
            for text in panel.legend(frameon=False, fontsize=8).get_texts():
                text.set_parse_math(False)  # a $ in a name is a character
    panels[-1].set_xlabel("step")
    masks.save(figure, path)
