"""Which checkpoint to keep: evaluations while training, the best of them, when to stop."""

from __future__ import annotations

import contextlib
import glob
import math
import os
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet import errors, files
from xlnet.engine import checkpoint
from xlnet.settings.network import CONFIG_NAME
from xlnet.settings.pretraining import PRETRAINING_NAME
from xlnet.settings.training import BEST
from xlnet.tokenization.tokenizer import SPIECE_NAME, description_path

EVALUATIONS_NAME = "evaluations.json"
_PREVIOUS = "previous-"            # weights that step aside for others of the same step


class Selection:
    """The evaluations of a run, kept in its model directory, so that a resumed run knows them.

    Args:
      model_dir: of the run. metric: name of the metric that chooses; higher is better unless
        `lower_is_better`. Of equal ones the lower loss wins, then the earlier.
      patience: evaluations without a better one after which training stops; 0: never.
      table: name of a file of the columns step and metric, tab-separated, that is written too.
    """

    def __init__(self, model_dir: str, metric: str, patience: int = 0, *,
                 lower_is_better: bool = False, table: Optional[str] = None):
        self._path = os.path.join(model_dir, EVALUATIONS_NAME)
        self._table = table and os.path.join(model_dir, table)
        self._model_dir = model_dir
        self._sign = -1 if lower_is_better else 1
        self.metric = metric
        self.patience = patience
        self.evaluations: list[dict[str, Any]] = []   # of step, metrics, loss, collapsed
        if os.path.exists(self._path):
            self.evaluations = files.read_json(self._path, "evaluations")["evaluations"]
        elif self._table and os.path.exists(self._table):
            self.evaluations = self._read_table(self._table)

    def _read_table(self, path):
        """The evaluations of a run that was begun when there was the table alone."""
        with open(path, encoding="utf-8") as f:
            rows = [line.split("\t") for line in f][1:]
        return [{"step": int(step), self.metric: float(value)} for step, value in rows]

    def add(self, step: int, result: dict[str, Any], prefix: Optional[str]) -> bool:
        """Notes a result; exports the checkpoint of `step` if it is the best so far.

        Args:
          result: the metrics. prefix: of the checkpoint; None: it is not kept, and not exported.

        Returns:
          Whether it was exported.
        """
        others = [one for one in self.evaluations if one["step"] != step]
        self.evaluations = sorted(others + [dict(step=step, **result)],
                                  key=lambda one: one["step"])
        is_exported = False
        if prefix is not None and self._best_step() == step:
            export(prefix, os.path.join(self._model_dir, BEST), sidecar_files(self._model_dir))
            is_exported = True
        self._write()
        return is_exported

    def _write(self):
        if self._table:
            files.write_text(self._table, "step\t%s\n" % self.metric + "".join(
                "%d\t%.6f\n" % (one["step"], one[self.metric]) for one in self.evaluations))
        files.write_json(self._path, {"metric": self.metric, "evaluations": self.evaluations})

    def go_back_to(self, step: int) -> None:
        """Drops what was evaluated after `step`, which the run goes on from."""
        self.evaluations = [one for one in self.evaluations if one["step"] <= step]

    def lacks(self, step: int, every: int, last: int) -> bool:
        """Whether `step` should have been evaluated, but was not."""
        return is_due(step, every, last) and step not in (one["step"] for one in self.evaluations)

    def best(self) -> Optional[dict[str, Any]]:
        """The best evaluation; None without any. One that is not finite is never better."""
        return max(self.evaluations, default=None, key=lambda one: (
            math.isfinite(one[self.metric] + one.get("loss", 0)), self._sign * one[self.metric],
            -one.get("loss", 0), -one["step"]))

    def _best_step(self) -> Optional[int]:
        best = self.best()
        return best["step"] if best else None

    def is_over(self) -> bool:
        """Whether the last `patience` evaluations brought nothing better."""
        if not self.patience or not self.evaluations:
            return False
        steps = [one["step"] for one in self.evaluations]
        return len(steps) - 1 - steps.index(self._best_step()) >= self.patience


def is_due(step: int, every: int, last: int) -> bool:
    """Whether `step` is evaluated: the last one is, and those that `every` divides (0: none)."""
    return step == last or bool(every and step and step % every == 0)


class StopHook(tf.train.SessionRunHook):
    """Ends a training when patience does: a selection that `is_over`."""

    def __init__(self, selection: Selection):
        self._selection = selection

    def after_run(self, run_context: tf.train.SessionRunContext,
                  run_values: tf.train.SessionRunValues) -> None:
        if self._selection.is_over():
            run_context.request_stop()


# ---- the directory of the best checkpoint ----

def chosen(model_dir: str, which: str = "best") -> Optional[tuple[int, str]]:
    """(step, prefix) of the checkpoint of a run that is used: with `which` "best" that of `best/`
    if it is there, else, or with "newest", the newest of its own. None: there is none.

    Raises:
      UserError: `best/` is damaged.
    """
    best = checkpoint.noted(os.path.join(model_dir, BEST))
    if best and which == "best":
        return best
    own = checkpoint.all_prefixes(model_dir)
    return own[-1] if own else None


def export(prefix: str, directory: str, sidecar_files: Iterable[str]) -> None:
    """Makes `directory` hold one checkpoint of the weights alone, and the files beside it.

    At every moment the file `checkpoint` there points to weights that are whole: those of before,
    then the new ones. What it does not point to is unfinished or done with.

    Args:
      prefix: of the checkpoint. sidecar_files: paths of files to be copied.
    """
    files.make_directory(directory)
    for path in sidecar_files:
        files.copy(path, os.path.join(directory, os.path.basename(path)))
    name = os.path.basename(prefix)
    _step_aside(directory, name)
    _write_weights(prefix, os.path.join(directory, name))
    for path in glob.glob(glob.escape(os.path.join(directory, name)) + ".*"):
        files.sync(path)
    _point_to(directory, name)
    _drop_others(directory, name)


def _step_aside(directory, name):
    """Gives weights in use that are called `name` another name."""
    current = None
    with contextlib.suppress(errors.Unreadable):      # then there is nothing to be kept
        current = checkpoint.noted(directory)
    if not current or os.path.basename(current[1]) != name:
        return
    for path in glob.glob(glob.escape(current[1]) + ".*"):
        files.copy(path, os.path.join(directory, _PREVIOUS + os.path.basename(path)))
    _point_to(directory, _PREVIOUS + name)


def _point_to(directory, name):
    files.write_text(os.path.join(directory, "checkpoint"),
                     'model_checkpoint_path: "%s"\nall_model_checkpoint_paths: "%s"\n'
                     % (name, name))


def _drop_others(directory, name):
    """Removes all weights but those called `name`, and what killed runs left unfinished."""
    for path in glob.glob(os.path.join(glob.escape(directory), "*")):
        other = os.path.basename(path)
        if ".partial-" in other or "model.ckpt-" in other and not other.startswith(name + "."):
            os.remove(path)


def _write_weights(prefix, target):
    """Copies the weights of a checkpoint and its step; moving averages take the weights' place."""
    types = tf.train.NewCheckpointReader(prefix).get_variable_to_dtype_map()
    stored = dict(checkpoint.weights(prefix), global_step="global_step")
    names = sorted(stored)
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=[stored[name] for name in names],
            shape_and_slices=[""] * len(names), dtypes=[types[stored[name]] for name in names])
        session.run(tf.raw_ops.SaveV2(prefix=target, tensor_names=names,
                                      shape_and_slices=[""] * len(names), tensors=tensors))


def sidecar_files(model_dir: str) -> list[str]:
    """What must lie beside the weights to use them: architecture, vocabulary, cleaning, of
    pretrained ones the objective, and of fine-tuned ones the task."""
    paths = [os.path.join(model_dir, name) for name in (
        CONFIG_NAME, SPIECE_NAME, description_path(SPIECE_NAME), PRETRAINING_NAME + ".json",
        "task.json")]
    return [path for path in paths if os.path.exists(path)]
