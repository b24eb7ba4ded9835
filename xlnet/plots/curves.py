"""Learning curves of runs: the losses of training and the evaluations, by step."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from xlnet.plots import figure
from xlnet.settings.training import EVALUATIONS_NAME, JOURNAL_NAME
from xlnet.support import files
from xlnet.support.errors import wrong


class Curves(NamedTuple):
    """The curves of a run, lists of (step, value).

    Attributes:
      name: the directory of the run, as it was given.
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
    journal = os.path.join(model_dir, JOURNAL_NAME)
    kept = os.path.join(model_dir, EVALUATIONS_NAME)
    run = Curves(model_dir.rstrip("/"), [], [], "loss", [])
    try:
        if os.path.exists(journal):
            with open(journal, newline="", encoding="utf-8", errors="replace") as f:
                for row in csv.DictReader(f):
                    run.loss.append((int(row["step"]), float(row["loss"])))
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as f:
                found = json.load(f)
            run = run._replace(metric=found["metric"])
            for one in found["evaluations"]:
                run.evaluated.append((one["step"], _number(one[run.metric])))
                if "loss" in one:
                    run.held_out.append((one["step"], _number(one["loss"])))
    except (ValueError, KeyError, TypeError) as e:
        raise wrong(
            flag, f"damaged {journal} or {EVALUATIONS_NAME} ({e!r})", "a run"
        ) from None
    if not run.loss and not run.evaluated:
        found = f"no loss in {JOURNAL_NAME} and no evaluation in {EVALUATIONS_NAME}"
        raise wrong(
            f"{flag}: {model_dir}", found, "a run that came to its first log line"
        )
    return run


def _number(value: Optional[float]) -> float:
    """A value of `evaluations.json`, in which null is an undefined metric: a gap in its curve."""
    return math.nan if value is None else float(value)


def plot(path: str, runs: Sequence[Curves]) -> None:
    """Writes a PNG: the losses of all runs, and a panel for each other metric of an evaluation."""
    from matplotlib.figure import Figure

    metrics = ["loss"]
    for run in runs:
        if run.evaluated and run.metric not in metrics:
            metrics.append(run.metric)
    height = 1 + 2.6 * len(metrics)
    drawn = Figure(figsize=(8, height), dpi=110, layout="constrained")
    panels = drawn.subplots(len(metrics), 1, sharex=True, squeeze=False)[:, 0]
    for number, run in enumerate(runs):
        color: Any = f"C{number % 10}"  # of matplotlib's ten
        # Matplotlib leaves out a line whose label begins with _, as a name may.
        if run.loss:
            label = f"training, {run.name}"
            panels[0].plot(
                *zip(*run.loss), color=color, linewidth=1.2, alpha=0.6, label=label
            )
        dots = dict(
            color=color, marker="o", markersize=4, label=f"evaluation, {run.name}"
        )
        if run.held_out:
            panels[0].plot(*zip(*run.held_out), linestyle="--", **dots)
        if run.metric != "loss" and run.evaluated:
            panels[metrics.index(run.metric)].plot(*zip(*run.evaluated), **dots)
    for panel, metric in zip(panels, metrics):
        panel.set_ylabel(metric)
        panel.grid(color="#dddddd", linewidth=0.6)
        if panel.lines:
            for text in panel.legend(frameon=False, fontsize=8).get_texts():
                text.set_parse_math(False)  # a $ in a name is a character
    panels[-1].set_xlabel("step")
    figure.save(drawn, path)
