"""Evaluation of checkpoints on the files of a task, and predictions."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from xlnet.corpus.processes import progress
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.session import RestoredSession
from xlnet.finetuning import verdict
from xlnet.finetuning.data import CUT_WORDS
from xlnet.finetuning.model import Predictor
from xlnet.finetuning.run import TaskRun
from xlnet.runs import model_files, run_document
from xlnet.runs.task_settings import read_model
from xlnet.settings.training import BEST, RESULTS
from xlnet.support import files
from xlnet.tasks import results
from xlnet.tasks.contract import Predictions
from xlnet.tasks.files import forms
from xlnet.tasks.task import Row

_log = logging.getLogger(__name__)

_CHOSEN = "threshold"  # in the result of an evaluation, and in `run.json`


class Evaluator:
    """Evaluates and predicts the files of a task with the checkpoints of a model directory."""

    evaluates_start = False  # the output layer is random before the first step

    def __init__(self, run: TaskRun):
        self._run, self._data = run, run.data
        self._task, self._settings = run.model.tuned.task, run.model.tuned.settings
        settings = self._settings
        # Parts of a batch are predicted in parallel, except with training, whose step needs all
        # cores.
        at_once = 1 if settings.do_train else run.devices.parallel_batches
        batch_size = math.ceil(settings.eval_batch_size / at_once)
        # Without weights until `_predictions` restores those of a checkpoint.
        self._session = RestoredSession(run.devices, at_once=at_once)
        self._predictor = Predictor(
            run.model, run.data.tokenizer, self._session, batch_size
        )
        # (step, texts of the rows, predictions) of the newest and of the best checkpoint: the same
        # rows, evaluated and predicted, run through the network once.
        self._predicted: list[tuple[int, list, Predictions]] = []
        self._reported: set[tuple[str, int]] = set()  # (split, step)
        own = os.path.join(settings.model_dir, RESULTS)
        self._directory = settings.predict_dir or own
        # The threshold is that of a flag, or else the one that this training chooses for several
        # labels (see `_evaluate_split` and `keep_threshold`), or that of the model.
        self._threshold = settings.threshold
        is_open = settings.do_train and settings.predict_threshold is None
        has_several = self._task.has_threshold and bool(self._task.label_shape)
        self._chooses_threshold = is_open and has_several

    # -- evaluation

    def _best(self) -> tuple[int, str]:
        """(step, prefix) of the checkpoint to use."""
        prefix = best_checkpoint.best_or_newest(self._settings.model_dir)
        assert prefix, "without one, `task_settings` refuses a run that does not train"
        return checkpoint.step_named(prefix), prefix

    def evaluate_step(self, step: int, prefix: str | None) -> dict[str, Any]:
        """Evaluates a checkpoint while training. Returns the metrics and the loss by name, means
        over the files of `eval_split`, and the `threshold` if one is chosen."""
        assert prefix, "the initial weights are not evaluated"
        best_step, _ = self._best()
        self._predicted = [known for known in self._predicted if known[0] == best_step]
        of_files = []
        for split, rows in self._data.rows_to_evaluate().items():
            of_files.append(self._evaluate_split(split, rows, step, prefix)[0])
        result = results.mean(self._task, of_files)
        if self._chooses_threshold:
            result[_CHOSEN] = of_files[0][_CHOSEN]
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
        task, settings = self._task, self._settings
        is_kept = settings.predict_dir or files.is_writable(settings.model_dir)
        step, prefix = self._best()
        prefixes = {step: prefix}
        if settings.eval_all_ckpt:
            # The checkpoint that best/ is of may have been removed, as only the last ones are kept.
            prefixes.update(checkpoint.all_prefixes(settings.model_dir))
        for split, rows in self._data.rows_to_evaluate().items():
            checkpoints = []
            values = []
            for step, prefix in sorted(prefixes.items()):
                result, predictions = self._evaluate_split(split, rows, step, prefix)
                checkpoints.append(dict(step=step, **result))
                values.append(predictions.values)
            best = best_checkpoint.best_evaluation(
                checkpoints, task.metrics[0], task.lower_is_better
            )
            # The table shows the best checkpoint; if none is better than others, the newest.
            shown = checkpoints.index(best) if best else -1
            results.write_evaluation(
                task,
                self._directory if is_kept else None,
                self._name_of(split),
                rows,
                checkpoints,
                best,
                values[shown],
                self._threshold,
            )

    def note_verdict(self) -> None:
        """Logs the verdict on the model, by its best checkpoint and the rows of `eval_split`, if
        they are evaluated."""
        settings, task = self._settings, self._task
        rows: Sequence[Row] = ()
        name, values, result = settings.eval_split, None, {}
        step, prefix = self._best()
        if settings.do_eval or settings.eval_steps != 0 and self._data.can_evaluate():
            # Of several files the first.
            split, rows = next(iter(self._data.rows_to_evaluate().items()))
            predictions = self._predictions(split, rows, step, prefix)
            name, values = self._name_of(split), predictions.values
            result = results.score(task, predictions, rows, self._threshold)
        train_rows: Sequence[Row] = ()
        if settings.do_train:
            train_rows = self._data.rows_of_train_file()
        while_training = best_checkpoint.BestCheckpoint(
            settings.model_dir, task.metrics[0]
        )
        # An evaluation of another file has not the settings of the training.
        document = read_model(settings.model_dir)
        trained_with = document.resolved if document else {}
        seen = verdict.Evidence(
            task,
            name,
            rows,
            train_rows,
            values,
            self._threshold,
            result,
            while_training.evaluations,
            step,
            model_files.read_curve(settings.model_dir),
            trained_with.get("class_weights"),
            bool(trained_with.get("init_checkpoint")),
            self._run.model.config.d_model,
        )
        for line in verdict.verdict(seen):
            _log.info("verdict: %s", line)

    def _evaluate_split(
        self, split: str, rows: Sequence[Row], step: int, prefix: str
    ) -> tuple[dict[str, Any], Predictions]:
        """The metrics by name, and the predictions, of a checkpoint for the rows of a split; logs
        the metrics the first time."""
        # The loss is a mean over rows, not batches, so a last batch of fewer rows counts less.
        predictions = self._predictions(split, rows, step, prefix)
        task = self._task
        if self._chooses_threshold:
            gold = task.gold_labels(rows)
            self._threshold = results.best_threshold(predictions.values, gold)
        result = results.score(task, predictions, rows, self._threshold)
        if self._chooses_threshold:
            result[_CHOSEN] = self._threshold
        if (split, step) not in self._reported:
            self._reported.add((split, step))
            results.log_evaluation(task, self._name_of(split), step, result, rows)
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
        settings = self._settings
        step, prefix = self._best()
        for name, rows in rows_of.items():
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
                is_official=not settings.predict_file
                and name not in settings.named_files,
            )

    def _predictions(
        self, name: str, rows: Sequence[Row], step: int, prefix: str
    ) -> Predictions:
        """The predictions of a checkpoint for the rows of a split or file."""
        texts = [(row.id, row.pairs, row.source) for row in rows]
        for known_step, known_texts, predictions in self._predicted:
            if known_step == step and known_texts == texts:
                return predictions
        self._session.restore(prefix)
        with progress(f"{self._task.name} {name}", len(rows), " rows") as advance:
            predictions, counts = self._predictor.predict(rows, advance)
        cut = int(counts.is_cut.sum())
        # An evaluation has said it beside the metrics.
        is_noted = any(name == split for split, _ in self._reported)
        if cut and not is_noted:
            _log.warning("note: %d of %d rows: %s", cut, len(rows), CUT_WORDS)
        self._predicted.append((step, texts, predictions))
        return predictions
