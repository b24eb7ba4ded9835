"""Progress of a run: terminal, CSV file, TensorBoard; ends a run whose loss is NaN."""

from __future__ import annotations

import datetime
import logging
import os
import resource
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint
from xlnet.engine.estimator import TrainingRun
from xlnet.settings.training import CACHE, JOURNAL_NAME
from xlnet.support import files
from xlnet.support.errors import wrong

_log = logging.getLogger(__name__)

_COLUMNS = (
    "step",
    "loss",
    "learning_rate",
    "gradient_norm",
    "gradient_scale",
    "per_second",
    "memory_gib",
)


def add_to_board(model_dir: str, step: int, scalars: dict[str, float]) -> None:
    """Adds a step's numbers, by names of curves, to TensorBoard's files of the run."""
    summary = tf.Summary()
    for tag, value in scalars.items():
        summary.value.add(tag=tag, simple_value=value)
    writer = _board(model_dir)
    writer.add_summary(summary, step)
    writer.flush()


def _board(model_dir: str) -> tf.summary.FileWriter:
    """The writer of TensorBoard's files of a run, the same one in each call."""
    with tf.Graph().as_default():  # the writer requires a graph, but adds nothing to it
        return tf.summary.FileWriterCache.get(os.path.join(model_dir, CACHE))


class Progress:
    """Reports the steps of a run: a line every `log_steps` steps with the mean loss since the line
    before, whose numbers are also added to `training.csv` and TensorBoard's files.

    Args:
      run: what is trained. Hosts but the first only check that the numbers are finite.
      start: the step from which it resumes; 0: it begins.
    """

    def __init__(self, run: TrainingRun, start: int):
        self._run = run
        self._model_dir = run.settings.model_dir
        self._path = os.path.join(self._model_dir, JOURNAL_NAME)
        self._losses: list[float] = []  # of the steps of the next line
        self._seconds = 0.0  # that these took
        if not run.devices.is_chief:
            return
        # A killed run may have written rows of later steps, and a part of a row. They are dropped
        # here and in TensorBoard's files.
        lines = [",".join(_COLUMNS)]
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8", errors="replace") as f:
                complete = f.read().rpartition("\n")[0]
                for line in complete.splitlines():
                    step = line.partition(",")[0]
                    if step.isdecimal() and int(step) <= start:
                        lines.append(line)
        files.write_text(self._path, "\n".join(lines) + "\n")
        # TensorBoard drops what earlier files have from this step on.
        begins = tf.SessionLog(status=tf.SessionLog.START)
        _board(self._model_dir).add_session_log(begins, start + 1)

    def add(self, step: int, values: dict[str, Any], seconds: float) -> None:
        """Reports a step.

        Args:
          step: its number, 1 for the first.
          values: its scalars by name, see `Estimator.run_step`.
          seconds: that it took.

        Raises:
          UserError: the loss or the gradient is not finite.
        """
        # In float16 a norm may overflow as long as the scale of the loss can be halved, that is
        # until it is 1, which it always is in other precisions.
        norm = values["gradient_norm"]
        is_overflow = not np.isfinite(norm) and values["gradient_scale"] <= 1
        if not np.isfinite(values["loss"]) or is_overflow:
            found = f"{values['loss']} at step {step}, and the gradient norm {norm}"
            newest = checkpoint.newest_step(self._model_dir)
            remedy = (
                f"the newest checkpoint is of step {newest}; --learning_rate, lower"
            )
            raise wrong("loss", found, "finite numbers", remedy)
        if not self._run.devices.is_chief:
            return
        self._losses.append(values["loss"])
        self._seconds += seconds
        last = self._run.optimization.train_steps
        if step % self._run.settings.log_steps and step != last:
            return
        loss = float(np.mean(self._losses))
        step_seconds = self._seconds / len(self._losses)
        self._losses, self._seconds = [], 0.0
        left = datetime.timedelta(seconds=round(step_seconds * (last - step)))
        unit, units_per_step = self._run.unit  # such as "tokens"
        speed = units_per_step / step_seconds
        # `%*d` takes two arguments, a width and a number: steps are as wide as the last one.
        _log.info(
            "step %*d/%d  loss %7.4f  lr %.2e  gnorm %6.3f  %7.0f %s/s  left %s",
            len(str(last)),
            step,
            last,
            loss,
            values["learning_rate"],
            norm,
            speed,
            unit,
            left,
        )
        row = dict(values, loss=loss, per_second=speed, memory_gib=memory_gib())
        del row["stop"]  # it is for the loop alone
        cells = [str(step)]
        for name in _COLUMNS[1:]:
            cells.append(f"{row[name]:.9g}")
        with open(self._path, "a", encoding="utf-8") as f:
            f.write(",".join(cells) + "\n")
        add_to_board(self._model_dir, step, row)


def memory_gib() -> float:
    """Peak memory so far [GiB]: of the first GPU, or of this process if there is no GPU."""
    if tf2.config.list_physical_devices("GPU"):
        return tf2.config.experimental.get_memory_info("GPU:0")["peak"] / 2**30
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts in KiB
    return kib / 2**20
