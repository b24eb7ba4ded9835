"""Progress of a run: terminal, CSV file, TensorBoard; ends a run whose loss is NaN."""

from __future__ import annotations

import csv
import logging
import math
import os
import resource
import textwrap
import time
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.engine import checkpoint, train_step
from xlnet.engine.training_run import TrainingRun
from xlnet.errors import UserError
from xlnet.settings.training import JOURNAL_NAME, UNREPORTED_NAME

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 15
_COLUMNS = (
    "step",
    "loss",
    "learning_rate",
    "gradient_norm",
    "gradient_scale",
    "per_second",
    "memory_gib",
)


def _unreported(model_dir: str) -> dict[str, list[float]]:
    """The losses of each checkpoint's steps that are in no line of `training.csv` yet: lists by
    step, a text. They are but for a mean: a file that cannot be read is none."""
    path = os.path.join(model_dir, UNREPORTED_NAME)
    try:
        return {
            step: list(map(float, losses))
            for step, losses in files.read_json(path, "model_dir")["losses"].items()
        }
    except (OSError, UserError, KeyError, TypeError, ValueError, AttributeError):
        return {}


def add_to_board(model_dir: str, step: int, scalars: dict[str, float]) -> None:
    """Adds a step's numbers, by name of the curve, to TensorBoard's files in `model_dir`."""
    writer = _board(model_dir)
    writer.add_summary(
        tf.Summary(
            value=[tf.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        ),
        step,
    )
    writer.flush()


def _board(model_dir: str) -> tf.summary.FileWriter:
    with tf.Graph().as_default():  # the writer requires a graph, but adds nothing to it
        return tf.summary.FileWriterCache.get(model_dir)


class Progress:
    """Reports the steps of a run: a banner when the graph is built, then a line every `log_steps`
    steps, whose numbers are also added to `training.csv` and TensorBoard's files. Raises a
    `UserError` if the loss or the gradient is not finite.

    A line has the mean loss since the line before. `save` keeps the losses that the next line needs
    with a checkpoint, so that a resumed run writes the same line.

    Args:
      run: what is reported.
      banner: its lines, without the number of parameters.
    """

    def __init__(self, run: TrainingRun, banner: dict[str, str]):
        self._run = run
        self._banner = banner
        self._model_dir = run.settings.model_dir
        self._log_steps = run.settings.log_steps
        self._last = run.optimization.train_steps
        self._is_chief = run.devices.is_chief  # other hosts only check that the numbers are finite
        self._path = os.path.join(self._model_dir, JOURNAL_NAME)

    def begin(self) -> dict[str, tf.Tensor]:
        """Shows the banner; returns what to fetch in each step. Call it when the graph is built."""
        if self._is_chief:
            count = sum(v.shape.num_elements() for v in tf.trainable_variables())
            show_banner(dict(self._banner, parameters=f"{count:,}"))
        return train_step.step_of_graph().scalars

    def start(self, step: int) -> None:
        """The checkpoint of this step is restored."""
        self._step = step
        self._losses = _unreported(self._model_dir).get(str(step), [])
        self._start_timing()
        self._is_first_step = True
        if not self._is_chief:
            return
        # A killed run may have written rows of later steps. They are dropped here and in
        # TensorBoard's files.
        rows = []
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8", errors="replace") as f:
                rows = [
                    row
                    for row in f.read().splitlines()
                    if row.partition(",")[0].isdecimal() and int(row.partition(",")[0]) <= step
                ]
        files.write_text(self._path, "\n".join([",".join(_COLUMNS), *rows]) + "\n")
        _board(self._model_dir).add_session_log(tf.SessionLog(status=tf.SessionLog.START), step + 1)

    def _start_timing(self) -> None:
        self._since = time.time()
        self._since_step = self._step

    def before_step(self) -> None:
        """Another step follows."""
        if self._is_first_step:  # an evaluation may have come before it
            self._since = time.time()

    def add(self, step: int, values: dict[str, Any]) -> None:
        """Reports a step; values: the results of the session for it."""
        self._step = step
        self._check(step, values)
        if not self._is_chief:
            return
        self._losses.append(float(values["loss"]))
        if self._is_first_step:
            _log.info("first step after %.1f s", time.time() - self._since)
            self._is_first_step = False
        if step % self._log_steps == 0 or step >= self._last:
            self._report(step, values)
            self._losses = []
            self._start_timing()

    def save(self) -> None:
        """Keeps the losses of no line yet; call it before the checkpoint of this step is written.
        Those of other checkpoints stay: the newest one may be damaged."""
        if not self._is_chief:
            return
        before = _unreported(self._model_dir)
        steps = {str(step) for step, _ in checkpoint.all_prefixes(self._model_dir)}
        kept = {step: losses for step, losses in before.items() if step in steps}
        if self._losses:
            kept[str(self._step)] = self._losses
        if kept != before:
            files.write_json(os.path.join(self._model_dir, UNREPORTED_NAME), {"losses": kept})

    def leave_out(self, seconds: float) -> None:
        """Leaves out this time from the throughput of the next line."""
        self._since += seconds

    def _check(self, step: int, values: dict[str, Any]) -> None:
        loss, norm = values["loss"], values["gradient_norm"]
        if not np.isfinite(loss):
            wrong = f"the loss is {loss}"
        elif not np.isfinite(norm) and values["gradient_scale"] <= 1:
            wrong = f"the gradient norm is {norm}"
        else:
            return
        raise UserError(
            "{} at step {}; last checkpoint before it: {}; try a lower learning_rate, "
            "more warmup_steps or a lower clip".format(
                wrong, step, checkpoint.newest(self._model_dir) or "none"
            )
        )

    def _report(self, step: int, values: dict[str, Any]) -> None:
        loss = float(np.mean(np.array(self._losses, np.float32)))
        pace = (time.time() - self._since) / (step - self._since_step)
        per_second = self._run.per_step / pace
        perplexity = f"  ppl {math.exp(min(loss, 50)):8.2f}" if self._run.with_perplexity else ""
        _log.info(
            "step %*d/%d  loss %7.4f%s  lr %.2e  gnorm %6.3f  %7.0f %s/s  left %s",
            len(str(self._last)),
            step,
            self._last,
            loss,
            perplexity,
            values["learning_rate"],
            values["gradient_norm"],
            per_second,
            self._run.unit,
            clock(pace * (self._last - step)),
        )
        values = dict(values, loss=loss, per_second=per_second, memory_gib=memory_gib())
        with open(self._path, "a", newline="", encoding="utf-8") as f:
            csv.writer(f, lineterminator="\n").writerow(
                [step] + [f"{values[name]:.9g}" for name in _COLUMNS[1:]]
            )
        add_to_board(self._model_dir, step, values)


class Remaining:
    """Logs every 15 s how many of the `total` items of some work are done, and how long the rest
    takes."""

    def __init__(self, name: str, total: int, unit: str):
        self.done = 0
        self._name, self._total, self._unit = name, total, unit
        self._began = self._said = time.time()

    def add(self, count: int) -> None:
        """So many more items are done."""
        self.done += count
        if time.time() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.time()
            _log.info(
                "%s  %d/%d %s  left %s",
                self._name,
                self.done,
                self._total,
                self._unit,
                clock((self._said - self._began) / self.done * (self._total - self.done)),
            )


def memory_gib() -> float:
    """Peak memory so far [GiB]: of the first GPU, or of this process if there is no GPU."""
    if tf2.config.list_physical_devices("GPU"):
        return tf2.config.experimental.get_memory_info("GPU:0")["peak"] / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def show_banner(items: dict[str, Any]) -> None:
    """Logs one aligned line per item; long values are wrapped."""
    width = max(map(len, items))
    for name, value in items.items():
        lines = textwrap.wrap(str(value), 150, break_long_words=False, break_on_hyphens=False)
        label = name
        for line in lines or [""]:
            _log.info("%-*s  %s", width, label, line)
            label = ""  # only the first line of an item has its name


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    seconds = int(round(seconds))
    return f"{seconds // 3600:.0f}:{seconds // 60 % 60:02.0f}:{seconds % 60:02.0f}"
