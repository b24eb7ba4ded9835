"""Learning curves of runs: the losses of training and the evaluations, by step."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from xlnet import figure, files
from xlnet.errors import UserError
from xlnet.settings.training import EVALUATIONS_NAME, JOURNAL_NAME

_COLORS = ("#4c78a8", "#e0812b", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")


class Curves(NamedTuple):
    """The curves of a run, lists of (step, value).

    Attributes:
      name: of the run.
      loss: mean of the steps since the row before, of `training.csv`.
      held_out: loss of each evaluation.
      metric: name of the metric that selects the best checkpoint; "loss": there is no other.
      evaluated: its values.
    """

    name: str
    loss: list[tuple[int, float]]
    held_out: list[tuple[int, float]]
    metric: str
    evaluated: list[tuple[int, float]]


def read(model_dir: str, flag: str) -> Curves:
    """The curves of the run in a model directory, which `flag` gave; a UserError if there is no run
    or its files have no curve."""
    files.require_directory(model_dir, flag)
    # Pretraining and fine-tuning keep the same two files.
    journal, kept = (os.path.join(model_dir, name) for name in (JOURNAL_NAME, EVALUATIONS_NAME))
    loss, evaluations, metric = [], [], "loss"
    try:
        if os.path.exists(journal):
            with open(journal, newline="", encoding="utf-8", errors="replace") as f:
                loss = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(f)]
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as f:
                found = json.load(f)
            metric, evaluations = found["metric"], found["evaluations"]
        held_out, evaluated = (
            [
                (one["step"], _number(one[name]))
                for one in evaluations
                if name == metric or name in one
            ]
            for name in ("loss", metric)
        )
    except (ValueError, KeyError, TypeError) as e:
        raise UserError(
            f"{flag}: {journal} or {EVALUATIONS_NAME} is damaged: {type(e).__name__}: {e}"
        ) from None
    if not loss and not evaluations:
        raise UserError(
            f"{flag}: {model_dir} has no loss in {JOURNAL_NAME} and no evaluation in "
            f"{EVALUATIONS_NAME}: no run has come to its first log line there"
        )
    return Curves(os.path.basename(os.path.abspath(model_dir)), loss, held_out, metric, evaluated)


def read_all(model_dirs: Sequence[str], flag: str) -> list[Curves]:
    """The curves of several runs, named by the last components of their directories.

    Many directories end in `model`, the default, so the names have as many components as tell the
    runs apart: runs in small/model and large/model are called that, not both model.
    """
    runs = [read(directory, flag) for directory in model_dirs]
    components = [tuple(os.path.abspath(directory).split(os.sep)) for directory in model_dirs]
    num_runs = len(set(components))  # one run may be given twice
    longest = max(map(len, components))
    names: list[str] = []
    for num_components in range(1, longest + 1):
        names = ["/".join(each[-num_components:]) for each in components]
        if len(set(names)) == num_runs:
            break
    return [run._replace(name=name) for run, name in zip(runs, names)]


def _number(value: Optional[float]) -> float:
    """A value of `evaluations.json`, in which null is an undefined metric: a gap in its curve."""
    return math.nan if value is None else float(value)


def plot(path: str, runs: Sequence[Curves]) -> None:
    """Writes a PNG: the losses of all runs, and a panel for each other metric of an evaluation."""
    metrics = list(
        dict.fromkeys(run.metric for run in runs if run.metric != "loss" and run.evaluated)
    )
    drawn = figure.new(8, 3.6 + 2.6 * len(metrics), dpi=110, layout="constrained")
    panels = drawn.subplots(1 + len(metrics), 1, sharex=True, squeeze=False)[:, 0]
    # The lines of each panel with their labels.
    keys: list[list[tuple[Any, str]]] = [[] for _ in panels]
    for number, run in enumerate(runs):
        color, label = _COLORS[number % len(_COLORS)], run.name
        if run.loss:
            lines = panels[0].plot(*zip(*run.loss), color=color, linewidth=1.2, alpha=0.6)
            keys[0].append((lines[0], f"{label}, training"))
        if run.held_out:
            lines = panels[0].plot(
                *zip(*run.held_out), color=color, linestyle="--", marker="o", markersize=4
            )
            keys[0].append((lines[0], f"{label}, evaluation"))
        if run.metric != "loss" and run.evaluated:
            index = 1 + metrics.index(run.metric)
            lines = panels[index].plot(*zip(*run.evaluated), color=color, marker="o", markersize=4)
            keys[index].append((lines[0], label))
    for panel, title, keys_of_panel in zip(panels, ("loss", *metrics), keys):
        panel.set_ylabel(title)
        panel.grid(color="#dddddd", linewidth=0.6)
        if keys_of_panel:
            # Matplotlib leaves out a line whose label begins with _, before 3.10 also if the label
            # is given here: so the names come later. A directory's name is no mathematics.
            lines, labels = zip(*keys_of_panel)
            legend = panel.legend(
                lines,
                ["run"] * len(lines),
                frameon=False,
                prop={"family": figure.families(), "size": 8},
            )
            for text, label in zip(legend.get_texts(), labels):
                text.set_text(label)
                text.set_parse_math(False)
    panels[-1].set_xlabel("step")
    figure.save(drawn, path)
