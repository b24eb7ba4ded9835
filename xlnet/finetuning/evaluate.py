"""Evaluation of checkpoints on the files of a task, and predictions."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus.processes import progress
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.devices import Devices
from xlnet.engine.estimator import CheckpointOutputs
from xlnet.finetuning import verdict
from xlnet.finetuning.data import TaskData
from xlnet.finetuning.model import TaskModel, batches_of_rows, features_to_predict, join
from xlnet.runs import run_document
from xlnet.runs.task_settings import read_model
from xlnet.settings.training import BEST, RESULTS
from xlnet.support import files
from xlnet.tasks import encoding, evaluation
from xlnet.tasks.contract import Predictions
from xlnet.tasks.files import forms
from xlnet.tasks.task import Row

_log = logging.getLogger(__name__)


_CHOSEN = "threshold"  # in the result of an evaluation, and in `run.json`


class Evaluator:
    """Predicts the files of a task with the checkpoints of a model directory."""

    evaluates_start = False  # its output layer is random

    def __init__(self, model: TaskModel, data: TaskData, devices: Devices):
        self._tuned = model.tuned
        self._settings, self._task = model.tuned.settings, model.tuned.task
        self._data, self._width = data, model.config.d_model
        self._rows: Sequence[Row] = ()  # that the predictor reads
        # (step, texts of the rows, predictions) of the newest and of the best checkpoint: after
        # training, evaluation and prediction of the same rows need not run the network again.
        self._predicted: list[tuple[int, list, Predictions]] = []
        self._reported: set[tuple[str, int]] = set()  # (split, step)
        # Parts of a batch are predicted in parallel, except with training, whose step needs all
        # cores.
        at_once = 1 if self._settings.do_train else devices.parallel_batches
        self._batch_size = -(-self._settings.eval_batch_size // at_once)
        self._outputs_of = CheckpointOutputs(
            model.outputs_of_records, self._batches, devices, at_once=at_once
        )
        model_dir = self._settings.model_dir
        self._directory = self._settings.predict_dir or os.path.join(model_dir, RESULTS)
        is_kept = self._settings.predict_dir or files.is_writable(model_dir)
        self._results_directory = self._directory if is_kept else None
        # The threshold is that of a flag, or else the one that this training chooses (see
        # `_evaluate` and `keep_threshold`), or that of the model.
        self._threshold = self._settings.threshold
        is_given = self._settings.predict_threshold is not None
        self._chooses_threshold = self._settings.do_train and not is_given

    # -- evaluation

    def checkpoints(self) -> list[tuple[int, str]]:
        """(step, prefix) of the checkpoints to evaluate, the newest last."""
        best = best_checkpoint.best_or_newest(self._settings.model_dir)
        if not best:
            return []
        if not self._settings.eval_all_ckpt:
            return [best]
        # The checkpoint that best/ is of may have been removed, as only the last ones are kept.
        found = dict([best, *checkpoint.all_prefixes(self._settings.model_dir)])
        return sorted(found.items())

    def evaluate_step(self, step: int, prefix: str | None) -> dict[str, Any]:
        """Evaluates a checkpoint while training; the mean result where `eval_split` is several
        files."""
        # Of the evaluations before, those of the best checkpoint are kept.
        best = best_checkpoint.best_or_newest(self._settings.model_dir)
        best_step = best[0] if best else None
        self._predicted = [known for known in self._predicted if known[0] == best_step]
        results = []
        for split, rows in self._data.of_split(self._settings.eval_split, True).items():
            results.append(self._evaluate(split, rows, step, prefix)[0])
        result = evaluation.mean(self._task, results)
        if _CHOSEN in results[0]:
            result[_CHOSEN] = results[0][_CHOSEN]
        return result

    def keep_threshold(self, best: dict[str, Any]) -> None:
        """Takes the threshold that the best evaluation while training chose, if it chose one, and
        writes it to what the model is trained for: predictions and evaluations have it from there,
        and a repeated training chooses again."""
        self._chooses_threshold = False
        # Without a best one that of the last evaluation is not kept, and does not hold.
        self._threshold = best.get(_CHOSEN, self._settings.threshold)
        if _CHOSEN not in best:
            return
        model_dir = self._settings.model_dir
        for directory in (model_dir, os.path.join(model_dir, BEST)):
            document = run_document.read(directory)
            if document and document.task:
                task = {**document.task, _CHOSEN: best[_CHOSEN]}
                run_document.write(directory, dataclasses.replace(document, task=task))

    def evaluate(self) -> None:
        """Prints the task's metrics for each file of `eval_split` and each checkpoint; writes them
        to `eval_results_<split>.json`, with a table of the labels."""
        task = self._task
        for split, rows in self._data.of_split(self._settings.eval_split, True).items():
            results: list[dict[str, Any]] = []
            values = []
            for step, prefix in self.checkpoints():
                result, predictions = self._evaluate(split, rows, step, prefix)
                results.append(dict(step=step, **result))
                values.append(predictions.values)
            best = best_checkpoint.best_evaluation(
                results, task.metrics[0], task.lower_is_better
            )
            name = self._name_of(split)
            # The table shows the best checkpoint; if none is better than others, the newest.
            shown = results.index(best) if best else -1
            evaluation.keep(
                task,
                self._results_directory,
                name,
                rows,
                results,
                best,
                values[shown],
                self._threshold,
            )

    def note_verdict(self) -> None:
        """Logs the verdict on the model, by its best checkpoint and the rows of `eval_split`, if
        they are evaluated."""
        settings, task = self._settings, self._task
        rows: Sequence[Row] = ()
        split, values, result, constant = settings.eval_split, None, {}, None
        chosen = best_checkpoint.best_or_newest(settings.model_dir)
        assert chosen, "a directory without checkpoints was refused"
        if settings.do_eval or settings.eval_steps != 0 and self._data.can_evaluate():
            # Of several files the first.
            split, rows = next(iter(self._data.of_split(split, True).items()))
            predictions = self._predictions(split, rows, *chosen)
            split, values = self._name_of(split), predictions.values
            result = evaluation.score(task, predictions, rows, self._threshold)
            constant = evaluation.constant_answer(task, rows, self._threshold)
        train_rows: Sequence[Row] = ()
        if settings.do_train:
            train_rows = self._data.of_split("train", True)["train"]
        while_training = best_checkpoint.BestCheckpoint(
            settings.model_dir, task.metrics[0]
        )
        # An evaluation of another file has not the settings of the training.
        document = read_model(settings.model_dir)
        trained_with = document.resolved if document else {}
        seen = verdict.Evidence(
            task,
            split,
            rows,
            train_rows,
            values,
            self._threshold,
            result,
            constant,
            while_training.evaluations,
            chosen[0],
            verdict.read_curve(settings.model_dir),
            trained_with.get("class_weights"),
            bool(trained_with.get("init_checkpoint")),
            self._width,
        )
        for line in verdict.verdict(seen):
            _log.info("verdict: %s", line)

    def _evaluate(
        self, split: str, rows: Sequence[Row], step: int, prefix: str | None
    ) -> tuple[dict[str, Any], Predictions]:
        """The metrics and predictions of a checkpoint for the rows of a split; prints the
        metrics."""
        # The loss is a mean over rows, not batches, so a last batch of fewer rows counts less.
        predictions = self._predictions(split, rows, step, prefix)
        gold = self._task.gold_labels(rows)
        has_several = isinstance(gold, np.ndarray) and gold.ndim > 1
        chosen = {}
        if self._chooses_threshold and has_several and self._task.has_threshold:
            chosen = {_CHOSEN: evaluation.best_threshold(predictions.values, gold)}
            self._threshold = chosen[_CHOSEN]
        result = {
            **evaluation.score(self._task, predictions, rows, self._threshold),
            **chosen,
        }
        if (split, step) not in self._reported:
            self._reported.add((split, step))
            name = self._name_of(split)
            evaluation.report(self._task, name, step, result, rows)
        return result, predictions

    def _name_of(self, split: str) -> str:
        """What the files of an evaluation are called: after the split, or after a file that this
        command names in its place. The run's own evaluation is not replaced by one of a file that
        happens to be called dev, too."""
        named = self._settings.named_files.get(split)
        document = read_model(self._settings.model_dir)
        if not named or not document:
            return split
        if document.resolved.get(f"{split}_file") == run_document.absolute(named):
            return split
        first = self._data.paths(split)[0]
        return "file_" + forms.stem(os.path.basename(first))

    # -- predictions

    def predict(self, rows_of: Mapping[str, Sequence[Row]]) -> None:
        """Writes the predictions of the best checkpoint for the rows of each file, by its name,
        also in the form of GLUE's and CLUE's servers for their files."""
        settings, task = self._settings, self._task
        chosen = best_checkpoint.best_or_newest(settings.model_dir)
        assert chosen, "a directory without checkpoints was refused"
        step, prefix = chosen
        for split, rows in rows_of.items():
            evaluation.write_predictions(
                self._directory,
                task,
                split,
                rows,
                self._predictions(split, rows, step, prefix).values,
                step=step,
                threshold=self._threshold,
                output=settings.output,
                is_official=not settings.predict_file
                and split not in settings.named_files,
            )

    def _predictions(
        self, split: str, rows: Sequence[Row], step: int, prefix: str | None
    ) -> Predictions:
        """The predictions of a checkpoint for rows; the same rows are predicted once."""
        texts = [(row.id, row.pairs, row.source) for row in rows]
        for known_step, known_texts, predictions in self._predicted:
            if known_step == step and known_texts == texts:
                return predictions
        self._rows = rows  # `_batches` reads them, from their start at each call
        parts = []
        with progress(f"{self._task.name} {split}", len(rows), " rows") as add:
            for outputs in self._outputs_of(prefix):
                parts.append(outputs)
                add(int(outputs["is_first"].sum()))
        predictions, counts = join(parts, self._tuned)
        cut = int(counts.is_cut.sum())
        if cut and not any(split == reported for reported, _ in self._reported):
            _log.warning("note: %d of %d rows: %s", cut, len(rows), encoding.CUT_WORDS)
        self._predicted.append((step, texts, predictions))
        return predictions

    def _batches(self) -> tf.data.Dataset:
        """The batches of the rows to predict, made while they are read."""

        def batches() -> Iterator[dict[str, np.ndarray]]:
            tokenizer = self._data.tokenizer
            return batches_of_rows(self._rows, self._tuned, tokenizer, self._batch_size)

        specs = features_to_predict(self._tuned)
        return tf.data.Dataset.from_generator(batches, output_signature=specs).prefetch(
            4
        )
