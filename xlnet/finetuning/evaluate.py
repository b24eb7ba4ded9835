"""Evaluation of checkpoints on the files of a task, and predictions."""

from __future__ import annotations

import hashlib
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
from xlnet.model_directory.task_settings import home_of
from xlnet.settings.finetuning import TASK_NAME
from xlnet.tasks.evaluation import Evaluation
from xlnet.tasks.files import readers, row_store
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
        # Where results are written: in a directory that may only be read, nowhere.
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
        one = best_checkpoint.best_or_newest(self._settings.model_dir)
        if not (self._settings.eval_all_ckpt and own and one):
            return [one] if one else []
        # The checkpoint that best/ is of may have been removed, as only the last ones are kept.
        step, prefix = one
        own.setdefault(step, prefix)
        return sorted(own.items())

    def evaluate_step(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Evaluates a checkpoint while training; the mean result where `eval_split` is several
        files."""
        return self._evaluation.mean(
            [
                self._score(split, rows, step, prefix)[0]
                for split, rows in self._data.of_split(self._settings.eval_split, True).items()
            ]
        )

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
        """What the files of an evaluation are called.

        That is the split where its files have the content that they had in training. Others are
        called by their file and their content, so that no evaluation replaces one of other rows.
        """
        home = home_of(self._settings.model_dir)
        if not home:
            return split
        # Written by this run if it has trained; where there was nothing left to train, by another.
        described = files.read_json(os.path.join(home, TASK_NAME), "model_dir")
        if "files_sha256" not in described:  # a model of an earlier version
            return split
        known = dict(described["files_sha256"], train=described.get("train_sha256"))
        found = self._data.digests(split)
        if known.get(split) == found:
            return split
        content = hashlib.sha256("".join(found).encode()).hexdigest()
        return f"{readers.stem(os.path.basename(self._data.paths(split)[0]))}-{content[:6]}"

    def evaluate(self) -> None:
        """Prints the task's metrics for each file of `eval_split` and each checkpoint; writes them
        to `eval_results_<split>.json`, with tables of errors as text and as a plot."""
        evaluation, checkpoints = self._evaluation, self.checkpoints()
        home = home_of(self._settings.model_dir)
        if home and not self._settings.do_train:
            self.note_trained_on(repeated_texts.trained_in(home))
        # Each file with each checkpoint.
        by_split = []
        for split, rows in self._data.of_split(self._settings.eval_split, True).items():
            name = self._name_of(split)
            baseline = evaluation.baseline(split, rows)
            scored = [self._score(split, rows, *one) for one in checkpoints]
            results = [
                dict(step=step, **result) for (step, _), (result, _) in zip(checkpoints, scored)
            ]
            best = self._best_of(results)
            evaluation.keep_results(name, rows, baseline, results, best)
            shown = results.index(best) if best else -1
            evaluation.keep_tables(name, rows, scored[shown][1].values)
            by_split.append(results)
        # The best checkpoint on all files predicts: of each, the results on these are averaged.
        best = self._best_of(
            [
                dict(evaluation.mean(results), step=step)
                for (step, _), *results in zip(checkpoints, *by_split)
            ]
        )
        self._best = (best["step"], dict(checkpoints)[best["step"]]) if best else None

    def _best_of(self, results):
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
        # Which checkpoint.
        settings, task = self._settings, self._task
        chosen = self._best or best_checkpoint.best_or_newest(settings.model_dir)
        assert chosen, "a directory without checkpoints was refused"
        step, prefix = chosen
        # Each file; empty rows are in the output, but not in the input of the network.
        found = self._data.to_predict()
        for split, rows in found.items():
            with_text = row_store.store_rows(row for row in rows if row.pairs)
            values = self._predictions(split, with_text, prefix).values
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
                f"input: {len(paths) - len(found)} of {len(paths)} files are bad and have "
                "no predictions"
            )

    def _predictions(self, split: str, rows: Sequence[Row], prefix: Optional[str]) -> Predictions:
        # Rows to records, in batches through the network, the outputs joined by row.
        made = self._data.records(split, rows)
        outputs = self.predictor.all_records(made, prefix, f"{self._task.name} {split}")
        return self._task.head.join(outputs, made.windows)
