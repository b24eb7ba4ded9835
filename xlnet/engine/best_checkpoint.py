"""Checkpoint selection: evaluations during training, the best one, early stopping."""

from __future__ import annotations

import contextlib
import glob
import logging
import math
import os
from collections.abc import Sequence
from typing import Any, Optional

from xlnet import errors, files
from xlnet.engine import checkpoint
from xlnet.errors import UserError
from xlnet.settings.network import CONFIG_NAME
from xlnet.settings.training import (
    BEST,
    EVALUATIONS_NAME,
    RUN_NAME,
)
from xlnet.tokenization.tokenizer import SPIECE_NAME, description_path

_log = logging.getLogger(__name__)

_DROPPED = "dropped-"  # a directory `best` of steps that were dropped
_PREVIOUS = "previous-"  # weights that were renamed, as new ones have their name


class BestCheckpoint:
    """The evaluations of a run, kept in its model directory, so that a resumed run knows them.

    Args:
      metric: name of the metric that selects, see `best_evaluation`.
      patience: evaluations without improvement after which training stops; 0: never.
      table: name of an additional file with the comma-separated columns step and metric.
      definition: what the metric computes and whether lower is better, where its name does not say
        it; None: it does.

    Attributes:
      has_other_metric: whether another metric chose `best/` in the run of before, which resumes.
    """

    def __init__(
        self,
        model_dir: str,
        metric: str,
        patience: int = 0,
        *,
        lower_is_better: bool = False,
        table: Optional[str] = None,
        definition: Optional[str] = None,
    ):
        self._path = os.path.join(model_dir, EVALUATIONS_NAME)
        self._table = table and os.path.join(model_dir, table)
        self._model_dir = model_dir
        self._lower_is_better = lower_is_better
        self._definition = definition or metric
        self.metric = metric
        self.patience = patience
        self._has_dropped = False  # whether the files have evaluations that this object lacks
        self.has_other_metric = False
        self._notes: list[str] = []  # of what is dropped once the run is known to resume
        self.evaluations: list[dict[str, Any]] = []  # see `add`
        if os.path.exists(self._path):
            content = files.read_json(self._path, "evaluations")
            kept = content.get("evaluations")
            if not isinstance(kept, list):
                raise UserError(
                    f"{self._path}: found no list of evaluations; remove it: checkpoints that are "
                    "still there are evaluated again"
                )
            has_other_name = content.get("metric", metric) != metric
            # Numbers of another function under the same name say nothing about this one.
            has_other_numbers = (
                not has_other_name
                and content.get("definition", self._definition) != self._definition
            )
            self.evaluations = [  # null: a number that is not finite
                {name: math.nan if value is None else value for name, value in one.items()}
                for one in kept
                if metric in one and not has_other_numbers
            ]
            if len(self.evaluations) < len(kept):
                why = f"have no {metric}"
                if has_other_numbers:
                    why = f"are by another metric of the name {metric}"
                self._notes.append(
                    f"note: {self._path}: {len(kept) - len(self.evaluations)} of {len(kept)} "
                    f"evaluations {why} and are dropped"
                )
            self.has_other_metric = has_other_name or has_other_numbers
            if self.has_other_metric:
                self._drop_without_weights()

    def _drop_without_weights(self) -> None:
        """Drops the evaluations of steps whose weights are gone: the best one by another metric is
        perhaps among them, and no later step could replace it in `best/`."""
        there = {step for step, _ in checkpoint.all_prefixes(self._model_dir)}
        with contextlib.suppress(errors.Unreadable):
            found = checkpoint.named_by_state_file(os.path.join(self._model_dir, BEST))
            there.update([found[0]] if found else [])
        kept = [one for one in self.evaluations if one["step"] in there]
        if len(kept) < len(self.evaluations):
            self._notes.append(
                f"note: {self._path}: the metric was another one than {self.metric}; "
                f"{len(self.evaluations) - len(kept)} of {len(self.evaluations)} evaluations are "
                "dropped, as the weights of their steps are gone"
            )
        self.evaluations = kept

    def add(self, step: int, result: dict[str, Any], prefix: Optional[str]) -> bool:
        """Adds an evaluation, and exports the checkpoint of `step` if it is the best so far;
        returns whether it was. prefix: of the checkpoint; None: it was not saved."""
        # An evaluation that is repeated, as after a kill, replaces the earlier one.
        before = self.evaluations
        others = [one for one in before if one["step"] != step]
        self.evaluations = sorted(others + [dict(step=step, **result)], key=lambda one: one["step"])
        is_exported = False
        best = self.best()
        try:
            if prefix is not None and best and best["step"] == step:
                export(prefix, os.path.join(self._model_dir, BEST))
                is_exported = True
            self._write()
        except BaseException:  # a signal, too
            # It is not in the file, so it is made again on resume: its checkpoint must be kept.
            self.evaluations = before
            raise
        return is_exported

    def _write(self) -> None:
        # The table is written before `evaluations.json`: if a kill comes between, the step is
        # missing in the latter, and is evaluated again.
        if self._table:
            files.write_text(
                self._table,
                f"step,{self.metric}\n"
                + "".join(
                    "{},{:.6f}\n".format(one["step"], one[self.metric]) for one in self.evaluations
                ),
            )
        content = {"metric": self.metric, "definition": self._definition}
        files.write_json(self._path, {**content, "evaluations": self.evaluations})

    def go_back_to(self, step: int) -> None:
        """Drops the evaluations after `step`, from which the run resumes."""
        kept = [one for one in self.evaluations if one["step"] <= step]
        self._has_dropped = len(kept) < len(self.evaluations)
        self.evaluations = kept

    def set_dropped_aside(self, step: int) -> None:
        """Removes the evaluations that `go_back_to` dropped from the files, too. Renames `best/` if
        it has the weights of a later step than `step`, from which the run resumes. Then, or where
        another metric chose it, makes it again of the best checkpoint that is still there.

        Those weights are of steps that the run does again, perhaps with other settings: then no
        evaluation of this run would say how good they are, and a worse one could replace them.
        """
        for note in self._notes:
            _log.warning("%s", note)
        self._notes = []
        # Otherwise a run that is killed before its next evaluation would take them for its own.
        if self._has_dropped:
            self._write()

        directory = os.path.join(self._model_dir, BEST)
        try:
            found = checkpoint.named_by_state_file(directory)
        except errors.Unreadable:  # `export` creates it again
            return
        if not found:
            return
        step_in_best, _ = found
        is_later = step_in_best > step
        if not is_later and not self.has_other_metric:
            return
        if is_later:
            self._set_aside(directory, step_in_best, step)
        # Steps without a checkpoint cannot be the best, except for two. The initial weights of
        # pretraining, step 0, are evaluated, but not saved: where they are the best, there is no
        # `best/`, as in `add`. And the weights in `best/` are there even if their own checkpoint is
        # removed: if they are still the best, `best/` stays.
        kept = dict(checkpoint.all_prefixes(self._model_dir))
        available = {0, step_in_best, *kept}
        best = best_evaluation(
            [one for one in self.evaluations if one["step"] in available],
            self.metric,
            self._lower_is_better,
        )
        if best and best["step"] in kept:
            export(kept[best["step"]], directory)
        if self.has_other_metric:  # from now on `best/` is of this metric
            self._write()

    def _set_aside(self, directory: str, step_in_best: int, step: int) -> None:
        """Renames `best/` with the weights of the step `step_in_best`."""
        aside = os.path.join(self._model_dir, f"{_DROPPED}{BEST}-{step_in_best}")
        while os.path.exists(aside):  # the run is reset a second time
            aside += "-again"
        os.replace(directory, aside)
        _log.info(
            "note: the run resumes from step %d: the weights of step %d in best/ are in %s now",
            step,
            step_in_best,
            aside,
        )

    def lacks(self, step: int, every: int, last: int) -> bool:
        """Whether `step` should have been evaluated, but was not."""
        return is_due(step, every, last) and step not in (one["step"] for one in self.evaluations)

    def best(self) -> Optional[dict[str, Any]]:
        """As `best_evaluation`."""
        return best_evaluation(self.evaluations, self.metric, self._lower_is_better)

    def is_over(self) -> bool:
        """Whether the last `patience` evaluations brought no improvement of a best one."""
        # Example: with patience 2 and the losses 3, 2, 2.5 and 2.1 it is over: the second one is
        # the best, and two evaluations after it are not better.
        best = self.best()
        if not self.patience or not best:
            return False
        return sum(one["step"] > best["step"] for one in self.evaluations) >= self.patience


def best_evaluation(
    evaluations: Sequence[dict[str, Any]], metric: str, lower_is_better: bool = False
) -> Optional[dict[str, Any]]:
    """The evaluation that chooses a checkpoint; None if no metric is a finite number.

    Args:
      evaluations: dicts with `step`, `metric` and mostly `loss`. One whose metric or loss is not
        finite, such as an undefined metric, is never the best. Ties go to the lower loss, then to
        the earlier step.
    """
    # The loss is checked, too: it may be NaN although the metric is defined.
    sign = -1 if lower_is_better else 1
    finite = [one for one in evaluations if math.isfinite(one[metric] + one.get("loss", 0))]
    return max(
        finite,
        default=None,
        key=lambda one: (sign * one[metric], -one.get("loss", 0), -one["step"]),
    )


def is_due(step: int, every: int, last: int) -> bool:
    """Whether `step` is evaluated: the last step and the multiples of `every` are (0: none)."""
    return step == last or bool(every and step and step % every == 0)


# ---- the directory of the best checkpoint ----


def best_or_newest(model_dir: str, which: str = "best") -> Optional[tuple[int, str]]:
    """(step, prefix) of the checkpoint of a run to use; None if there is none. "best" is that in
    `best/`, or the newest where there is no such directory."""
    best = checkpoint.named_by_state_file(os.path.join(model_dir, BEST))
    if best and which == "best":
        return best
    own = checkpoint.all_prefixes(model_dir)
    return own[-1] if own else None


def export(prefix: str, directory: str) -> None:
    """Makes `directory` hold the weights of one checkpoint, EMA weights where the run kept them,
    its step if it has one, and the files next to it that are needed to use them.

    The file `checkpoint` there always points to complete weights: the old ones, then the new ones.
    Weights that it does not point to are unfinished or obsolete.
    """
    os.makedirs(directory, exist_ok=True)
    copy_sidecar_files(prefix, directory)
    name = os.path.basename(prefix)

    # If the current weights have the name of the new ones, they are renamed first.
    current = None
    with contextlib.suppress(errors.Unreadable):  # a damaged checkpoint has nothing to keep
        current = checkpoint.named_by_state_file(directory)
    if current and os.path.basename(current[1]) == name:
        for path in glob.glob(glob.escape(current[1]) + ".*"):
            files.copy(path, os.path.join(directory, _PREVIOUS + os.path.basename(path)))
        _point_to(directory, _PREVIOUS + name)

    # The new weights must be on the disk before anything points to them.
    exported = checkpoint.read_weights(prefix)
    if "global_step" in checkpoint.names(prefix):
        [exported["global_step"]] = checkpoint.arrays(prefix, ["global_step"])
    checkpoint.write_arrays(os.path.join(directory, name), exported)
    for path in glob.glob(glob.escape(os.path.join(directory, name)) + ".*"):
        files.sync(path)
    _point_to(directory, name)

    # Remove all other weights, and unfinished files of killed runs.
    for path in glob.glob(os.path.join(glob.escape(directory), "*")):
        other = os.path.basename(path)
        if ".partial-" in other or "model.ckpt-" in other and not other.startswith(name + "."):
            os.remove(path)


def _point_to(directory: str, name: str) -> None:
    files.write_text(
        os.path.join(directory, "checkpoint"),
        f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n',
    )


def copy_sidecar_files(prefix: str, directory: str) -> None:
    """Copies the files next to a checkpoint that are needed to use the weights: architecture,
    vocabulary, text cleaning, the document of the run. Those that `directory` has of weights before
    are replaced, or removed."""
    for name in (
        CONFIG_NAME,
        SPIECE_NAME,
        description_path(SPIECE_NAME),
        RUN_NAME,
    ):
        path = os.path.join(os.path.dirname(prefix), name)
        if os.path.exists(path):
            files.copy(path, os.path.join(directory, name))
        else:
            files.remove([os.path.join(directory, name)])
