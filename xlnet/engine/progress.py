"""Progress of a run: terminal, CSV file, TensorBoard; ends a run whose loss is NaN."""

from __future__ import annotations

import collections
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
from xlnet.engine import checkpoint, train_step
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

CSV_NAME = "training.csv"
_COLUMNS = ("step", "loss", "learning_rate", "gradient_norm", "gradient_scale", "per_second",
            "memory_gib")
_REMEDY = "try a lower learning_rate, more warmup_steps or a lower clip"
_MEAN_STEPS = 100       # over which the watched loss is averaged
_RISE = 1.              # above the lowest mean, for a warning [nats per token]


class Journal:
    """The metrics of a run in its model directory: `training.csv` and TensorBoard's files.

    Args:
      model_dir: of the run.
      start_step: later steps in the files, of a killed run, are dropped.
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

    def add(self, step: int, values: dict[str, float]) -> None:
        """Adds one row; `values` has the columns of the CSV file."""
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
    with tf.Graph().as_default():   # the writer requires a graph, but adds nothing to it
        return tf.summary.FileWriterCache.get(model_dir)


class Progress(tf.train.SessionRunHook):
    """Prints a banner when the graph is built, then a line every `log_steps` steps, whose numbers
    are also added to the journal. Raises a `UserError` if the loss or the gradient is not finite.

    Args:
      train_steps: the last step.
      log_steps: steps between two lines.
      per_step: units of work in one step.
      unit: their name, "tokens" or "examples".
      model_dir: of the run; None: there is none.
      banner: dict of the lines of the banner, without the parameters; None: no banner.
      keeps_journal: whether there is a `Journal`.
      with_perplexity: whether the loss is in nats per token; a warning is logged the first time
        that its mean rises.
      is_chief: other hosts only check that numbers are finite.
    """

    def __init__(self, *, train_steps: int, log_steps: int, per_step: int, unit: str,
                 model_dir: Optional[str] = None, banner: Optional[dict[str, Any]] = None,
                 keeps_journal: bool = False, with_perplexity: bool = False,
                 is_chief: bool = True):
        self._model_dir = model_dir
        self._journal: Optional[Journal] = None
        self._journal_dir = model_dir if keeps_journal and is_chief else None
        self._train_steps = train_steps
        self._log_steps = log_steps
        self._per_step = per_step
        self._unit = unit
        self._banner = banner
        self._with_perplexity = with_perplexity
        self._is_chief = is_chief
        self._watched: collections.deque[float] = collections.deque(maxlen=_MEAN_STEPS)
        self._lowest, self._has_warned = math.inf, not with_perplexity

    def begin(self) -> None:
        self._fetches = train_step.step_of_graph().scalars()
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
            if self._banner is not None:
                add_to_board(self._journal_dir, step, texts={"run": markdown(self._banner)})

    def _start(self, step):
        self._losses, self._since, self._since_step = [], time.time(), step

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: tf.train.SessionRunContext,
                  run_values: tf.train.SessionRunValues) -> None:
        values = run_values.results
        # The graph may read the step before or after the update, so steps are counted here.
        step = self._since_step + len(self._losses) + 1
        self._check(step, values)
        self._losses.append(values["loss"])
        if not self._is_chief:
            return
        self._watch(step, float(values["loss"]))
        if self._first_step_began is not None:
            _log.info("first step after %.1f s", time.time() - self._first_step_began)
            self._first_step_began = None
        if step % self._log_steps == 0 or step >= self._train_steps:
            self._report(step, values)
            self._start(step)

    def leave_out(self, seconds: float) -> None:
        """Leaves out this time from the throughput of the next line."""
        self._since += seconds

    def _check(self, step, values):
        loss, norm = values["loss"], values["gradient_norm"]
        if not np.isfinite(loss):
            wrong = "the loss is %s" % loss
        elif not np.isfinite(norm) and values["gradient_scale"] <= 1:
            wrong = "the gradient norm is %s" % norm
        else:
            return
        last = checkpoint.newest(self._model_dir) if self._model_dir else None
        raise UserError("%s at step %d; last checkpoint before it: %s; %s"
                        % (wrong, step, last or "none", _REMEDY))

    def _watch(self, step, loss):
        """Warns once if the mean loss rises, which may happen in healthy runs too."""
        self._watched.append(loss)
        if self._has_warned or len(self._watched) < _MEAN_STEPS:
            return
        mean = float(np.mean(self._watched))
        self._lowest = min(self._lowest, mean)
        if mean > self._lowest + _RISE:
            self._has_warned = True
            _log.warning("note: step %d: the loss rose from %.2f to %.2f, means of %d steps; if it "
                         "does not fall again, %s", step, self._lowest, mean, _MEAN_STEPS, _REMEDY)

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
    """Peak memory so far [GiB]: of the first GPU, or of this process if there is no GPU."""
    if tf2.config.list_physical_devices("GPU"):
        return tf2.config.experimental.get_memory_info("GPU:0")["peak"] / 2 ** 30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** 20


def markdown(items: dict[str, Any]) -> str:
    """A table of two columns."""
    return "\n".join(["| setting | value |", "|---|---|"]
                     + ["| %s | %s |" % item for item in items.items()])


def show_banner(items: dict[str, Any]) -> None:
    """Logs one aligned line per item; long values are wrapped."""
    width = max(len(name) for name in items)
    for name, value in items.items():
        lines = textwrap.wrap(str(value), 150, break_long_words=False, break_on_hyphens=False)
        for i, line in enumerate(lines or [""]):
            _log.info("%-*s  %s", width, "" if i else name, line)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    seconds = int(round(seconds))
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)
