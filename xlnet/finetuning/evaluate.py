"""Evaluation of checkpoints on the files of a task, and predictions.

A split, such as "dev", may have several files: MNLI's has those of "dev_matched" and
"dev_mismatched". A checkpoint is named by its step and its prefix, the path without extension.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xlnet.corpus.processes import progress
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.session import RestoredSession
from xlnet.finetuning import verdict
from xlnet.finetuning.data import CUT_WORDS
from xlnet.finetuning.model import Predictor
from xlnet.finetuning.run import TaskRun
from xlnet.runs import model_files, run_document
from xlnet.runs.task_settings import finetuned_document
from xlnet.settings.training import RESULTS
from xlnet.support import files
from xlnet.tasks import results
from xlnet.tasks.contract import Predictions
from xlnet.tasks.fields import Row
from xlnet.tasks.files import forms

_log = logging.getLogger(__name__)

# The key of the threshold that training chose, in the result of an evaluation.
_CHOSEN = "threshold"


class _Predicted(NamedTuple):
    """The predictions of the checkpoint of a step for rows."""

    step: int
    rows_without_labels: list
    predictions: Predictions


class Evaluator:
    """Evaluates and predicts the files of a task with the checkpoints of a model directory."""

    # For the training loop: the initial weights are not evaluated, as the output layer is random.
    evaluates_start = False

    def __init__(self, run: TaskRun):
        self._run, self._data = run, run.data
        self._task, self._settings = run.model.tuned.task, run.model.tuned.settings
        settings = self._settings
        # Parts of a batch are predicted in parallel, except with training, whose step needs all
        # cores.
        at_once = 1 if settings.do_train else run.devices.parallel_batches
        batch_size = math.ceil(settings.eval_batch_size / at_once)
        # Without weights until `_predictions` restores those of a checkpoint.
        self._session = RestoredSession(run.devices, parallel_batches=at_once)
        self._predictor = Predictor(
            run.model, run.data.tokenizer, self._session, batch_size
        )
        # Of the newest and of the best checkpoint: rows that are evaluated and predicted, too, run
        # through the network once.
        self._predicted: list[_Predicted] = []
        # (split, step) of the evaluations that are logged.
        self._reported: set[tuple[str, int]] = set()
        # The rows, without labels, whose cut is noted.
        self._noted: list[list] = []
        default_directory = os.path.join(settings.model_dir, RESULTS)
        self._directory = settings.predict_dir or default_directory
        # The threshold of the flag or of the model, or else 0.5. If neither has one, a
        # training of a task of several labels in a row chooses it: then `keep_threshold` sets it.
        self._threshold = settings.threshold
        may_choose = settings.do_train and settings.predict_threshold is None
        has_several = self._task.has_threshold and bool(self._task.target_shape)
        self._chooses_threshold = may_choose and has_several

    def _best(self) -> tuple[int, str]:
        """The step and the prefix of the checkpoint to use: that in `best/`, or else the newest."""
        prefix = best_checkpoint.best_or_newest(self._settings.model_dir)
        assert prefix, (
            "without one, `inherited_settings` refuses a run that does not train"
        )
        return checkpoint.step_in_name(prefix), prefix

    # -- evaluation

    def evaluate_step(self, step: int, prefix: str | None) -> dict[str, Any]:
        """Evaluates and logs a checkpoint while training. Returns the metrics and the loss by name,
        means over the files of `eval_split`; and the `threshold` if one is chosen, that of the
        first file."""
        assert prefix, "the initial weights are not evaluated"
        # Keep no predictions but those of the best checkpoint, to save memory.
        best_step, _ = self._best()
        self._predicted = [one for one in self._predicted if one.step == best_step]
        of_files = []
        for split, rows in self._data.rows_to_evaluate().items():
            of_file, _ = self._evaluate_split(split, rows, step, prefix)
            of_files.append(of_file)
        result = results.mean(self._task, of_files)
        if self._chooses_threshold:
            result[_CHOSEN] = of_files[0][_CHOSEN]
        return result

    def keep_threshold(self, best: dict[str, Any]) -> None:
        """If training chose the threshold, from now on uses that of the best evaluation; later
        commands have it from the `run.json` of `best/`.

        best: the result of that evaluation; {} if no evaluation is the best.
        """
        if self._chooses_threshold:
            self._chooses_threshold = False
            self._threshold = best.get(_CHOSEN, self._threshold)

    def evaluate(self) -> None:
        """Logs the task's metrics for each file of `eval_split`, and a table of the labels; writes
        both to `eval_results_<split>.json` and `eval_table_<split>.txt`."""
        settings = self._settings
        # A model in a directory that is read-only is evaluated, too, without files.
        writes = settings.predict_dir or files.is_writable(settings.model_dir)
        step, prefix = self._best()
        for split, rows in self._data.rows_to_evaluate().items():
            result, predictions = self._evaluate_split(split, rows, step, prefix)
            results.write_evaluation(
                self._task,
                self._directory if writes else None,
                self._name_of(split),
                rows,
                dict(step=step, **result),
                predictions.values,
                self._threshold,
            )

    def log_verdict(self) -> None:
        """Logs the verdict on the model: by its training, and by the predictions of its best
        checkpoint for the rows of `eval_split`, if these are evaluated."""
        settings, task = self._settings, self._task
        # The evaluation of the best checkpoint; as it is here where no rows are evaluated.
        rows: Sequence[Row] = ()
        split, values, result = settings.eval_split, None, {}
        step, prefix = self._best()
        # A training evaluates by `eval_steps`, any command by `do_eval`.
        if settings.do_eval or settings.eval_steps:
            # Of several files the first.
            part, rows = next(iter(self._data.rows_to_evaluate().items()))
            predictions = self._predictions(part, rows, step, prefix)
            split, values = self._name_of(part), predictions.values
            result = results.score(task, predictions, rows, self._threshold)
        # The training, from the files that it left. A command that only evaluates may have other
        # settings than the training, which are in its document.
        train_rows: Sequence[Row] = ()
        if settings.do_train:
            train_rows = self._data.rows_of_train_file()
        selection = best_checkpoint.BestCheckpoint(settings.model_dir, task.metrics[0])
        document = finetuned_document(settings.model_dir)
        trained_with = document.resolved if document else {}
        evidence = verdict.Evidence(
            task,
            split,
            rows,
            train_rows,
            values,
            self._threshold,
            result,
            selection.evaluations,
            step,
            model_files.read_curve(settings.model_dir),
            trained_with.get("class_weights"),
            is_pretrained=bool(trained_with.get("init_checkpoint")),
            width=self._run.model.config.d_model,
        )
        for line in verdict.verdict(evidence):
            _log.info("verdict: %s", line)

    def _evaluate_split(
        self, split: str, rows: Sequence[Row], step: int, prefix: str
    ) -> tuple[dict[str, Any], Predictions]:
        """The result of a checkpoint for the rows of a split, the metrics and the loss by name; and
        its predictions. Logs the result, unless it did so before.

        While the training chooses the threshold, that is the best one for these predictions, and
        the result has it as `threshold`.
        """
        predictions = self._predictions(split, rows, step, prefix)
        task, threshold = self._task, self._threshold
        if self._chooses_threshold:
            gold = task.gold(rows)
            threshold = results.best_threshold(predictions.values, gold)
        result = results.score(task, predictions, rows, threshold)
        if self._chooses_threshold:
            result[_CHOSEN] = threshold
        if (split, step) not in self._reported:
            self._reported.add((split, step))
            results.log_evaluation(task, self._name_of(split), step, result, rows)
        return result, predictions

    def _name_of(self, split: str) -> str:
        """What the files of an evaluation are called: the split, or "file_" and the name of another
        file that this command evaluates as this split. With "file_", the evaluation of a file that
        happens to be called dev does not replace the run's own evaluation of its dev split."""
        named = self._settings.named_files.get(split)
        # That in the directory: a training that had ended already writes none.
        document = finetuned_document(self._settings.model_dir)
        if not named or not document:
            return split
        # The file may be that of the run, which a resumed training names again.
        flag = f"{split}_file"
        if document.resolved.get(flag) == run_document.absolute(flag, named):
            return split
        first = self._data.paths(split)[0]  # the split may be several files
        return "file_" + forms.stem(os.path.basename(first))

    # -- predictions

    def predict(self, rows_by_name: Mapping[str, Sequence[Row]]) -> None:
        """Writes the predictions of the best checkpoint for the rows of each split or file, given
        by its name; for official files of GLUE and CLUE also in the form of their servers."""
        settings = self._settings
        step, prefix = self._best()
        for name, rows in rows_by_name.items():
            # A file that a flag names is not an official one.
            is_official = not settings.predict_file and name not in settings.named_files
            predictions = self._predictions(name, rows, step, prefix)
            results.write_predictions(
                self._directory,
                self._task,
                name,
                rows,
                predictions.values,
                step=step,
                threshold=self._threshold,
                output=settings.output,
                is_official=is_official,
            )

    def _predictions(
        self, name: str, rows: Sequence[Row], step: int, prefix: str
    ) -> Predictions:
        """The predictions of a checkpoint for the rows of a split or file, which are kept for the
        next call with equal rows."""
        # A file may be evaluated with labels, and predicted without.
        without_labels = [(row.id, row.pairs, row.source) for row in rows]
        for known in self._predicted:
            if known.step == step and known.rows_without_labels == without_labels:
                return known.predictions
        self._session.restore(prefix)
        with progress(f"{self._task.name} {name}", len(rows), " rows") as advance:
            predictions, counts = self._predictor.predict(rows, advance)
        num_cut = int(counts.is_cut.sum())
        # The same rows are cut for each checkpoint: that is noted once.
        if num_cut and without_labels not in self._noted:
            self._noted.append(without_labels)
            _log.warning("note: %d of %d rows: %s", num_cut, len(rows), CUT_WORDS)
        self._predicted.append(_Predicted(step, without_labels, predictions))
        return predictions
