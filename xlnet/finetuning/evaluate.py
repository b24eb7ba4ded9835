"""Evaluation of checkpoints on the files of a task, and predictions."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.devices import Devices
from xlnet.engine.predictor import Predictor
from xlnet.errors import UserError
from xlnet.finetuning import repeated_texts
from xlnet.finetuning.data import TaskData
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.task_settings import read_model
from xlnet.tasks.evaluation import Evaluation
from xlnet.tasks.files import readers
from xlnet.tasks.output import prediction_files
from xlnet.tasks.task import Row
from xlnet.tasks.types.contract import Predictions

_log = logging.getLogger(__name__)


class Evaluator:
    """Predicts the files of a task with the checkpoints of a model directory."""

    def __init__(self, model: TaskModel, data: TaskData, devices: Devices):
        self._settings, self._task = settings, task = model.tuned.settings, model.tuned.task
        self._data = data
        self._best: Optional[tuple[int, str]] = None  # (step, prefix) of those evaluated
        # Parts of a batch are predicted in parallel, except with a memory, and with training, whose
        # step needs all cores.
        in_turn = settings.do_train or settings.long_document == "memory"
        at_once = 1 if in_turn else devices.parallel_batches
        rows = -(-settings.eval_batch_size // at_once)
        self.predictor = Predictor(
            model.outputs_of_records,
            [lambda path: data.batches(path, batch_size=rows)],
            devices,
            at_once=at_once,
        )
        # Results are written to the model directory, or, if that is read-only, to `predict_dir`.
        directory: Optional[str] = settings.model_dir
        if not files.is_writable(settings.model_dir):
            directory = settings.predict_dir
            if settings.do_eval and not directory:
                _log.warning(
                    "note: model_dir: %s cannot be written to: the evaluation is shown "
                    "alone; give --predict_dir=DIRECTORY for its files",
                    settings.model_dir,
                )
        self._evaluation = Evaluation(task, directory, settings.predict_threshold)

    def read(self, in_training: bool = False) -> None:
        """Reads the rows to evaluate, here or `in_training`, and to predict: bad ones are found
        before hours of work."""
        if self._settings.do_eval or in_training:
            self._data.of_split(self._settings.eval_split, need_labels=True)
        if self._settings.do_predict:
            self._data.to_predict()

    def checkpoints(self) -> list[tuple[int, str]]:
        """(step, prefix) of the checkpoints to evaluate, the newest last."""
        own = dict(checkpoint.all_prefixes(self._settings.model_dir))
        best = best_checkpoint.best_or_newest(self._settings.model_dir)
        if not best:
            return []
        if not (self._settings.eval_all_ckpt and own):
            return [best]
        # The checkpoint that best/ is of may have been removed, as only the last ones are kept.
        step, prefix = best
        own.setdefault(step, prefix)
        return sorted(own.items())

    def evaluate_step(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Evaluates a checkpoint while training; the mean result where `eval_split` is several
        files."""
        results = []
        for split, rows in self._data.of_split(self._settings.eval_split, True).items():
            result, _ = self._score(split, rows, step, prefix)
            results.append(result)
        return self._evaluation.mean(results)

    def _score(
        self,
        split: str,
        rows: Sequence[Row],
        step: int,
        prefix: Optional[str],
    ) -> tuple[dict[str, Any], Predictions]:
        """The metrics and predictions of a checkpoint for the rows of a split; prints the
        metrics."""
        # The loss is a mean over rows, not batches, so a last batch of fewer rows counts less.
        predictions = self._predictions(split, rows, prefix)
        result = self._evaluation.score(predictions, rows)
        self._evaluation.report(split, f"step {step}", result, rows)
        return result, predictions

    def _name_of(self, split: str) -> str:
        """What the files of an evaluation are called: after the split, or after a file that this
        command names in its place, so that no evaluation replaces one of other rows."""
        named = self._settings.named_files.get(split)
        run = read_model(self._settings.model_dir)
        if not named or not run or run.resolved.get(f"{split}_file") == os.path.abspath(named):
            return split
        return readers.stem(os.path.basename(self._data.paths(split)[0]))

    def evaluate(self) -> None:
        """Prints the task's metrics for each file of `eval_split` and each checkpoint; writes them
        to `eval_results_<split>.json`, with tables of errors as text and as a plot."""
        evaluation, checkpoints = self._evaluation, self.checkpoints()
        run = read_model(self._settings.model_dir)
        if run and not self._settings.do_train:
            self.note_trained_on(None)
        # Each file with each checkpoint.
        by_split = []
        for split, rows in self._data.of_split(self._settings.eval_split, True).items():
            name = self._name_of(split)
            results: list[dict[str, Any]] = []
            all_predictions: list[Predictions] = []
            for step, prefix in checkpoints:
                result, predictions = self._score(split, rows, step, prefix)
                results.append(dict(step=step, **result))
                all_predictions.append(predictions)
            best = self._best_of(results)
            constant = evaluation.constant_answer(split, rows)
            evaluation.keep_results(name, rows, constant, results, best, self._thresholds())
            # The tables show the best checkpoint; if none is better than others, the newest.
            shown = results.index(best) if best else -1
            evaluation.keep_tables(name, rows, all_predictions[shown].values)
            by_split.append(results)
        # The checkpoint with the best mean result on all files makes the predictions.
        means = []
        for index, (step, _) in enumerate(checkpoints):
            of_checkpoint = [results[index] for results in by_split]
            means.append(dict(evaluation.mean(of_checkpoint), step=step))
        best = self._best_of(means)
        self._best = (best["step"], dict(checkpoints)[best["step"]]) if best else None
        # best/ is of the evaluations while training, which need not be those of all checkpoints.
        of_others = best_checkpoint.best_or_newest(self._settings.model_dir)
        if best and of_others and best["step"] != of_others[0]:
            _log.warning(
                "note: step %d is the best of these checkpoints; other commands use step %d (%s)",
                best["step"],
                *of_others,
            )

    def _thresholds(self) -> dict[str, Any]:
        """The settings that decide, where a threshold does."""
        if not self._task.scorer.has_threshold:
            return {}
        return {"predict_threshold": self._settings.predict_threshold}

    def _best_of(self, results: Sequence[dict[str, Any]]) -> Optional[dict[str, Any]]:
        task = self._task
        return best_checkpoint.best_evaluation(results, task.metrics[0], task.lower_is_better)

    def note_trained_on(self, trained: Optional[np.ndarray]) -> None:
        """Notes how many rows that are evaluated were trained on, and which contradict each other.
        trained: digests of the texts that were trained on; None: not known."""
        for split, rows in self._data.of_split(self._settings.eval_split, True).items():
            name = "{} ({})".format(split, ", ".join(self._data.paths(split)))
            digests = repeated_texts.digests_of(rows)
            if trained is not None:
                repeated_texts.note_trained_on(name, digests, trained)
            if split != "train":  # those were noted before
                repeated_texts.note_contradictions(name, rows, digests)

    def predict(self) -> None:
        """Writes the predictions for each file, also in the form of GLUE's and CLUE's servers for
        their files. The checkpoint is the best one of those evaluated, or of those kept. If some of
        several files are bad, raises UserError after those of the others."""
        settings, task = self._settings, self._task
        chosen = self._best or best_checkpoint.best_or_newest(settings.model_dir)
        assert chosen, "a directory without checkpoints was refused"
        step, prefix = chosen
        found = self._data.to_predict()
        for split, rows in found.items():
            values = self._predictions(split, rows, prefix).values
            prediction_files.write(
                settings.predict_dir or settings.model_dir,
                task,
                split,
                rows,
                values,
                step=step,
                threshold=settings.predict_threshold,
                output=settings.predict_output,
                is_official=not settings.predict_file and split not in settings.named_files,
            )
        paths = readers.each_path(settings.predict_file or "")
        if settings.predict_file and len(found) < len(paths):
            raise UserError(
                f"{len(paths) - len(found)} of {len(paths)} files to predict are bad and have no "
                "predictions"
            )

    def _predictions(self, split: str, rows: Sequence[Row], prefix: Optional[str]) -> Predictions:
        # A row may have several records; `join` makes one prediction of their outputs.
        made = self._data.records(split, rows)
        outputs = self.predictor.all_records(made, prefix, f"{self._task.name} {split}")
        return self._task.head.join(outputs, made.windows)
