"""Checkpoint selection: evaluations during training, the best one, early stopping."""

from __future__ import annotations

import glob
import math
import os
import shutil
from collections.abc import Sequence
from typing import Any

from xlnet.corpus.tokenizer import SPIECE_NAME, description_path
from xlnet.engine import checkpoint
from xlnet.settings.network import CONFIG_NAME
from xlnet.settings.training import BEST, EVALUATIONS_NAME, RUN_NAME
from xlnet.support import files

# The files next to a checkpoint that are needed to use the weights: architecture, vocabulary, text
# cleaning, the document of the run.
_SIDECARS = (CONFIG_NAME, SPIECE_NAME, description_path(SPIECE_NAME), RUN_NAME)


class BestCheckpoint:
    """The evaluations of a run, kept in its model directory, so that a resumed run knows them.

    Args:
      model_dir: the model directory.
      metric: name of the metric that selects, see `_best_evaluation`. If the stored evaluations
        were selected by another metric, they are dropped, and selection begins again.
      patience: evaluations without improvement after which training stops; 0: never.
      lower_is_better: whether a lower value of the metric is the better one.
    """

    def __init__(
        self,
        model_dir: str,
        metric: str,
        patience: int = 0,
        *,
        lower_is_better: bool = False,
    ):
        self._path = os.path.join(model_dir, EVALUATIONS_NAME)
        self._model_dir = model_dir
        self._lower_is_better = lower_is_better
        self.metric = metric
        self.patience = patience
        # By ascending step: "step" and the values of `add`, such as
        # {"step": 500, "loss": 0.4, "accuracy": 0.8}.
        self.evaluations: list[dict[str, Any]] = []
        if not os.path.exists(self._path):
            return
        content = files.read_json(self._path, "evaluations")
        if content.get("metric") != metric:
            return
        for stored in content["evaluations"]:
            values = {}
            for name, value in stored.items():  # None: a number that is not finite
                values[name] = math.nan if value is None else value
            self.evaluations.append(values)

    def roll_back_evaluations(self, step: int) -> None:
        """Drops the evaluations after `step`, from which the run resumes."""
        self.evaluations = [one for one in self.evaluations if one["step"] <= step]

    def is_evaluated(self, step: int) -> bool:
        """Whether the weights after `step` steps were evaluated."""
        return any(evaluation["step"] == step for evaluation in self.evaluations)

    def roll_back_best(self, step: int) -> None:
        """If `best/` has the weights of a later step than `step`, from which the run resumes,
        replaces them by the best of the evaluated checkpoints that still exist, or removes `best/`
        where none does.

        `roll_back_evaluations` comes first: it drops the evaluation of these weights, so that
        nothing says how good they are.
        """
        directory = os.path.join(self._model_dir, BEST)
        if checkpoint.newest_step(directory) <= step:
            return
        shutil.rmtree(directory)
        prefix_of = dict(checkpoint.all_prefixes(self._model_dir))  # by step
        candidates = []
        for evaluation in self.evaluations:
            if evaluation["step"] in prefix_of:
                candidates.append(evaluation)
        best = _best_evaluation(candidates, self.metric, self._lower_is_better)
        if best:
            self._export(best, prefix_of[best["step"]])

    def add(self, step: int, result: dict[str, Any], prefix: str | None) -> None:
        """Adds an evaluation, and exports the evaluated checkpoint to `best/` if it is the best so
        far.

        Args:
          step: of the checkpoint.
          result: values by name, the metric among them.
          prefix: of the checkpoint; None for the initial weights, which have no checkpoint.
        """
        self.evaluations.append(dict(step=step, **result))
        best = self.best()
        if prefix is not None and best and best["step"] == step:
            self._export(best, prefix)
        # Written last: a run that is killed before this evaluates again when it resumes.
        files.write_json(
            self._path, {"metric": self.metric, "evaluations": self.evaluations}
        )

    def _export(self, evaluation: dict[str, Any], prefix: str) -> None:
        """Exports the checkpoint `prefix`, of an evaluation, to `best/`, with the threshold that
        the evaluation chose, if it did."""
        directory = os.path.join(self._model_dir, BEST)
        export(prefix, directory)
        if "threshold" in evaluation:
            path = os.path.join(directory, RUN_NAME)
            document = files.read_json(path, "run")
            document["task"]["threshold"] = evaluation["threshold"]
            files.write_json(path, document)

    def best(self) -> dict[str, Any] | None:
        """The best evaluation so far, see `_best_evaluation`; None if no metric is finite."""
        return _best_evaluation(self.evaluations, self.metric, self._lower_is_better)

    def stops_early(self) -> bool:
        """Whether training is to stop early: since the best evaluation, at least `patience` others
        have followed. With a patience of 0, never."""
        # Example: with patience 2 and the losses 3, 2, 2.5 and 2.1 it is over: the second one is
        # the best, and two evaluations after it are not better.
        best = self.best()
        if not self.patience or not best:
            return False
        steps = [evaluation["step"] for evaluation in self.evaluations]
        return sum(step > best["step"] for step in steps) >= self.patience


def _best_evaluation(
    evaluations: Sequence[dict[str, Any]], metric: str, lower_is_better: bool = False
) -> dict[str, Any] | None:
    """The evaluation that chooses a checkpoint; None if no metric is a finite number.

    Args:
      evaluations: dicts with the keys "step", the name of the metric and mostly "loss". One whose
        metric or loss is not finite, such as an undefined metric, is never the best. Ties go to the
        lower loss, then to the earlier step.
      metric: name of the metric that selects.
      lower_is_better: whether a lower value of it is the better one.
    """
    # The highest key is the best. The loss must be finite, too: it may be NaN although the metric
    # is defined.
    sign = -1 if lower_is_better else 1
    best, best_key = None, None
    for evaluation in evaluations:
        value, loss = evaluation[metric], evaluation.get("loss", 0)
        key = (sign * value, -loss, -evaluation["step"])
        if math.isfinite(value + loss) and (best_key is None or key > best_key):
            best, best_key = evaluation, key
    return best


# ---- the directory of the best checkpoint ----


def best_or_newest(model_dir: str) -> str | None:
    """The prefix of the checkpoint of a run to use: that in `best/`, or the newest where there is
    no such directory. None if there is none."""
    best = os.path.join(model_dir, BEST)
    return checkpoint.newest(best) or checkpoint.newest(model_dir)


def export(prefix: str, directory: str) -> None:
    """Makes `directory` a copy of the checkpoint `prefix` of a run for use, without the state of
    its training: EMA weights where the run kept them, the step, and the files next to the
    checkpoint that are needed to use it. Another checkpoint in the directory is removed."""
    run_directory, name = os.path.split(prefix)
    values = checkpoint.read_weights(prefix)
    values["global_step"] = next(checkpoint.arrays(prefix, ["global_step"]))
    with checkpoint.staged(directory) as staging:
        for sidecar in _SIDECARS:
            path = os.path.join(run_directory, sidecar)
            if os.path.exists(path):
                shutil.copyfile(path, os.path.join(staging, sidecar))
            else:
                files.remove([os.path.join(directory, sidecar)])  # of another run
        checkpoint.write_arrays(os.path.join(staging, name), values)
        # Of other weights of this step, as of another run: their index must not be read with the
        # new data.
        files.remove([os.path.join(directory, name + ".index")])
    # Remove all other checkpoints, also data without an index, of one whose removal was
    # interrupted.
    for path in glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*")):
        other, _ = os.path.splitext(path)
        if os.path.basename(other) != name:
            checkpoint.remove(other)
    checkpoint.write_state_file(directory)
