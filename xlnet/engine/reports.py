"""How a run goes: the terminal, a CSV file, TensorBoard, and an end to runs that went wrong."""

from __future__ import annotations

import collections
import contextlib
import csv
import logging
import math
import os
import resource
import textwrap
import time
from typing import Any, Optional

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.engine import checkpoint, gpus, training
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

CSV_NAME = "training.csv"
_COLUMNS = ("step", "loss", "learning_rate", "gradient_norm", "gradient_scale", "per_second",
            "memory_gib")
_TIMES_CHANCE = 2.              # a loss that many times that of guessing blindly has exploded


class Diverged(UserError):
    """The loss or the gradient is NaN or infinite, or the loss exploded or fell back, at `step`."""

    def __init__(self, message: str, step: int):
        super().__init__(message)
        self.step = step


class Course:
    """How far a run has come, by the mean loss of its last `STEPS` steps, and whether it fell back.

    A run whose weights are spoiled need not end above chance: it may forget what the text is like
    and still know how often each word is. So what counts is how much was lost of the way from
    chance to the best mean.

    Args:
      chance: the loss of guessing blindly.
    """
    STEPS = 100
    _LOST = 1 / 3            # of the way, from which on the run has fallen back
    _WAY = 1.                # below chance, before which there is nothing to lose [nats]

    def __init__(self, chance: float):
        self._chance = chance
        self._last: collections.deque[tuple[float, int]] = collections.deque()   # (loss, steps)
        self.best = math.inf

    def add(self, loss: float, steps: int = 1) -> None:
        """The mean loss of the next steps."""
        self._last.append((loss, steps))
        while self._steps() - self._last[0][1] >= self.STEPS:
            self._last.popleft()
        if self._steps() >= self.STEPS:
            self.best = min(self.best, self.mean())

    def _steps(self):
        return sum(steps for _, steps in self._last)

    def mean(self) -> float:
        """Of the last `STEPS` steps, or of as many as there were."""
        return sum(loss * steps for loss, steps in self._last) / self._steps()

    def fell_back(self) -> bool:
        """Whether the run has lost too much of its way."""
        way = self._chance - self.best
        return way >= self._WAY and self.mean() - self.best > self._LOST * way


class Journal:
    """What is kept of a run in its model directory: `training.csv` and TensorBoard's files.

    Args:
      start_step: rows of later steps, of a run that was killed, are dropped.
    """

    def __init__(self, model_dir: str, start_step: int):
        self._path = os.path.join(model_dir, CSV_NAME)
        rows = []
        if os.path.exists(self._path):
            with open(self._path, newline="", encoding="utf-8") as f:
                rows = [row for row in csv.reader(f) if row and row[0].isdigit()
                        and int(row[0]) <= start_step]
        files.write_text(self._path, "\n".join(",".join(row) for row in [_COLUMNS] + rows) + "\n")
        self._model_dir = model_dir
        _board(model_dir).add_session_log(   # drops later steps there too
            tf.SessionLog(status=tf.SessionLog.START), start_step + 1)
        self._rows = rows

    def losses(self) -> list[tuple[int, float]]:
        """What was kept before: the mean loss of the steps up to each; of whole rows."""
        found = []
        for row in self._rows:
            with contextlib.suppress(ValueError, IndexError):       # cut off by a full disk
                found.append((int(row[0]), float(row[1])))
        return found

    def add(self, step: int, values: dict[str, float]) -> None:
        """One row; `values` has the columns of the CSV file."""
        with open(self._path, "a", newline="", encoding="utf-8") as f:
            csv.writer(f, lineterminator="\n").writerow(
                [step] + ["%.9g" % values[name] for name in _COLUMNS[1:]])
        add_to_board(self._model_dir, step, values)


def add_to_board(model_dir: str, step: int, scalars: Optional[dict[str, float]] = None,
                 texts: Optional[dict[str, str]] = None) -> None:
    """Adds curves and Markdown texts, dicts by tag, to TensorBoard's files in `model_dir`."""
    kind = tf.SummaryMetadata(plugin_data=tf.SummaryMetadata.PluginData(plugin_name="text"))
    values = [tf.Summary.Value(tag=tag, simple_value=value)
              for tag, value in (scalars or {}).items()]
    values += [tf.Summary.Value(tag=tag, metadata=kind,
                                tensor=tf.make_tensor_proto(text, dtype=tf.string))
               for tag, text in (texts or {}).items()]
    writer = _board(model_dir)
    writer.add_summary(tf.Summary(value=values), step)
    writer.flush()


def _board(model_dir):
    with tf.Graph().as_default():   # asked for, though nothing comes into the graph
        return tf.summary.FileWriterCache.get(model_dir)


class Progress(tf.train.SessionRunHook):
    """Prints a banner when the graph stands, then a line every `log_steps` steps; the line's
    numbers go into the journal. Raises `Diverged` where the run has gone wrong.

    Args:
      train_steps: optimizer steps in all.
      per_step: units of work in one step. unit: their name, "tokens" or "examples".
      model_dir: of the run; None: there is none. keeps_journal: whether there is a `Journal`.
      banner: dict of what else the start-up banner says, or None for no banner.
      with_perplexity: whether the loss is in nats per token.
      chance: the loss of guessing blindly; one far above it has exploded, and a run must not fall
        back towards it: `Course`. None: it is not known. is_chief: others only look out for
        trouble.
    """

    def __init__(self, *, train_steps: int, log_steps: int, per_step: int, unit: str,
                 model_dir: Optional[str] = None, banner: Optional[dict[str, Any]] = None,
                 keeps_journal: bool = False, with_perplexity: bool = False,
                 chance: Optional[float] = None, is_chief: bool = True):
        self._model_dir = model_dir
        self._journal: Optional[Journal] = None
        self._journal_dir = model_dir if keeps_journal and is_chief else None
        self._train_steps = train_steps
        self._log_steps = log_steps
        self._per_step = per_step
        self._unit = unit
        self._banner = banner
        self._with_perplexity = with_perplexity
        self._highest_loss = math.inf if chance is None else _TIMES_CHANCE * chance
        self._course = None if chance is None else Course(chance)
        self._is_chief = is_chief

    def begin(self) -> None:
        self._fetches = training.step_of_graph().scalars()
        if self._banner is not None and self._is_chief:
            count = sum(v.shape.num_elements() for v in tf.trainable_variables())
            self._banner = dict(self._banner, parameters="{:,}".format(count))
            show_banner(self._banner)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        step = int(session.run(tf.train.get_global_step()))
        self._start(step)
        self._first_step_began: Optional[float] = time.time()
        if self._journal_dir:
            self._journal = Journal(self._journal_dir, step)
            self._take_up_course(self._journal.losses())
            if self._banner is not None:
                add_to_board(self._journal_dir, step, texts={"run": markdown(self._banner)})

    def _take_up_course(self, losses):
        """What the run reached before this process: list of (step, mean loss up to it)."""
        if self._course:
            for (before, _), (step, loss) in zip([(0, 0.), *losses], losses):
                self._course.add(loss, step - before)

    def _start(self, step):
        self._losses, self._since, self._since_step = [], time.time(), step

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: tf.train.SessionRunContext,
                  run_values: tf.train.SessionRunValues) -> None:
        values = run_values.results
        # The step is read before or after the update, as the graph pleases; the count is sure.
        step = self._since_step + len(self._losses) + 1
        self._check(step, values)
        self._losses.append(values["loss"])
        if not self._is_chief:
            return
        if self._first_step_began is not None:
            _log.info("first step after %.1f s", time.time() - self._first_step_began)
            self._first_step_began = None
        if step % self._log_steps == 0 or step >= self._train_steps:
            self._report(step, values)
            self._start(step)

    def leave_out(self, seconds: float) -> None:
        """Counts time since the last line as not spent on training."""
        self._since += seconds

    def _check(self, step, values):
        loss, norm = values["loss"], values["gradient_norm"]
        if self._course and np.isfinite(loss):
            self._course.add(float(loss))
        if not np.isfinite(loss):
            wrong = "the loss is %s" % loss
        elif loss > self._highest_loss:
            wrong = "the loss is %.2f, above %.2f" % (loss, self._highest_loss)
        elif not np.isfinite(norm) and values["gradient_scale"] <= 1:
            wrong = "the gradient norm is %s" % norm
        elif self._course and self._course.fell_back():
            wrong = "the loss fell back to %.2f, the mean of %d steps, from %.2f" % (
                self._course.mean(), Course.STEPS, self._course.best)
        else:
            return
        last = checkpoint.step_of(self._model_dir) if self._model_dir else 0
        raise Diverged("%s at step %d; newest checkpoint before: %s; try a lower learning_rate, "
                       "more warmup_steps or a lower clip" % (
                           wrong, step, "of step %d" % last if last else "none"), step)

    def _report(self, step, values):
        loss = float(np.mean(self._losses))
        pace = (time.time() - self._since) / len(self._losses)
        perplexity = "  ppl %8.2f" % math.exp(min(loss, 50)) if self._with_perplexity else ""
        _log.info(
            "step %*d/%d  loss %7.4f%s  lr %.2e  gnorm %6.3f  %7.0f %s/s  left %s",
            len(str(self._train_steps)), step, self._train_steps, loss, perplexity,
            values["learning_rate"], values["gradient_norm"], self._per_step / pace, self._unit,
            clock(pace * (self._train_steps - step)))
        if self._journal:
            self._journal.add(step, dict(values, loss=loss, per_second=self._per_step / pace,
                                         memory_gib=memory_gib()))


def memory_gib() -> float:
    """Most memory used so far [GiB]: of the first GPU, or of this process where there is none."""
    if gpus.found():
        return tf2.config.experimental.get_memory_info("GPU:0")["peak"] / 2 ** 30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** 20


def markdown(items: dict[str, Any]) -> str:
    """A table of two columns."""
    return "\n".join(["| setting | value |", "|---|---|"]
                     + ["| %s | %s |" % item for item in items.items()])


def show_banner(items: dict[str, Any]) -> None:
    """One aligned line per item, what is too long on more."""
    width = max(len(name) for name in items)
    for name, value in items.items():
        lines = textwrap.wrap(str(value), 150, break_long_words=False, break_on_hyphens=False)
        for i, line in enumerate(lines or [""]):
            _log.info("%-*s  %s", width, "" if i else name, line)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    seconds = int(round(seconds))
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)
