"""Training on a task: the train file is read and checked, then the network is trained."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import os
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet import errors
from xlnet.batches import input_pipeline
from xlnet.engine import best_checkpoint, trainer
from xlnet.engine.devices import Devices
from xlnet.engine.training_run import TrainingRun
from xlnet.finetuning import repeated_texts
from xlnet.finetuning.data import TaskData
from xlnet.finetuning.evaluate import Evaluator
from xlnet.finetuning.model import TaskModel, TrainingModel
from xlnet.model_directory import run_document
from xlnet.model_directory.run_document import RunDocument
from xlnet.model_directory.task_settings import AnySettings
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import CONFIG_NAME
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.metrics import split_metrics
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer

_log = logging.getLogger(__name__)

_MOST_UNSAVED = 1000  # steps between checkpoints by default, if an epoch has more


def in_steps(
    settings: AnySettings, optimization: OptimizationSettings, num_rows: int
) -> tuple[AnySettings, OptimizationSettings]:
    """The settings with epochs over `num_rows` rows converted to steps.

    A row of several windows counts once, so an epoch passes over a part of the windows. By default
    a run is evaluated and saved once an epoch, and saved every 1,000 steps if an epoch has more.
    """
    # Not rounded up: batches run across the ends of epochs, so 2 epochs of 10 rows in batches of 4
    # are 5 steps.
    epoch = num_rows / settings.train_batch_size
    if settings.epochs:
        optimization = dataclasses.replace(
            optimization, train_steps=max(1, round(settings.epochs * epoch))
        )
    optimization.check_warmup()
    once = max(1, math.ceil(epoch))
    return dataclasses.replace(
        settings,
        eval_steps=once if settings.eval_steps is None else settings.eval_steps,
        save_steps=settings.save_steps or min(once, _MOST_UNSAVED),
    ), optimization


class FineTuner:
    """Training in a model directory: `prepare` reads and checks, `train` writes.

    Args:
      model: the network with the task's output layer.
      data: the files of the task.
      evaluator: evaluates checkpoints during training.
      tokenizer: that of the model.
      document: that of the run, but for what its files say.
      optimization: settings of the optimizer.
      device_settings: which devices were asked for.
      devices: those of the run.
    """

    def __init__(
        self,
        model: TaskModel,
        data: TaskData,
        evaluator: Evaluator,
        tokenizer: Tokenizer,
        document: RunDocument,
        *,
        optimization: OptimizationSettings,
        device_settings: DeviceSettings,
        devices: Devices,
    ):
        self.settings = model.tuned.settings
        self.config = model.config
        self.network = model.network
        self.optimization = optimization
        self.device_settings = device_settings
        self.devices = devices
        self._task = model.tuned.task
        self._task_model = model
        self._data = data
        self._evaluator = evaluator
        self._tokenizer = tokenizer
        self._document = document

    def prepare(self) -> None:
        """Reads the rows of all files, compares the settings with the run that resumes; writes
        nothing."""
        settings, task, data = self.settings, self._task, self._data

        # The length of an epoch is known once the train file is read; lengths are then converted to
        # steps.
        self._train_rows = data.to_train()
        rows = data.of_split("train", need_labels=True)["train"]
        self._trained = repeated_texts.digests_of(rows)
        repeated_texts.note_contradictions("train", rows, self._trained)
        raw = settings  # as they are kept: lengths in epochs
        if not data.can_evaluate():
            _log.warning(
                "note: there is no file %s to evaluate on while training", settings.eval_split
            )
            settings = dataclasses.replace(settings, eval_steps=0)
        elif settings.eval_split.startswith("test") and settings.eval_steps != 0:
            _log.warning(
                "note: the best checkpoint is chosen on %s, which flatters its scores there",
                settings.eval_split,
            )
        settings, self.optimization = in_steps(settings, self.optimization, len(self._train_rows))
        self.settings = settings
        self._evaluator.read(in_training=bool(settings.eval_steps))
        if settings.eval_steps or settings.do_eval:
            self._evaluator.note_trained_on(self._trained)

        # What is trained, from its class weights on; then the run that resumes.
        self._class_weights = (
            task.head.class_weights(settings.class_weights, data.of_split("train", True)["train"])
            if settings.class_weights
            else None
        )
        self._selection = best_checkpoint.BestCheckpoint(
            settings.model_dir,
            task.metrics[0],
            settings.patience,
            lower_is_better=task.lower_is_better,
            definition=self._digest_of(task.metrics[0]),
        )
        self._document = dataclasses.replace(
            self._document, resolved=self._resolved(raw), read={"train": data.digests("train")}
        )
        run_document.check_resumed(
            self._document, self.config, self._tokenizer, settings.allow_changes
        )

    def _resolved(self, settings: AnySettings) -> dict[str, Any]:
        """The settings of the run to keep: its vocabulary and architecture are the copies in its
        directory, so that a resumed run has the same."""
        values = run_document.values_of(
            (settings, self.network, self.optimization, self.device_settings)
        )
        return dict(
            values,
            spiece_model_file=os.path.join(settings.model_dir, SPIECE_NAME),
            model_config_path=os.path.join(settings.model_dir, CONFIG_NAME),
        )

    def _digest_of(self, metric: str) -> str:
        return split_metrics.digest_of(self._task.own_metrics.get(metric, metric))

    def train(self) -> None:
        """Trains from the current step to the last one, or until early stopping; evaluates in
        between and keeps the best checkpoint. Raises `Unfinished` if a signal stopped it."""
        with errors.translated_errors(records=lambda: self._train_records.path):
            trainer.train(self.training_run, self.devices, self._selection)
        # Predictions that are the same for all rows: a run that learned nothing.
        best = self._selection.best()
        if best and best.get("collapsed"):
            _log.warning(
                "note: the run is degenerate, its predictions are constant: %s; try another seed, "
                "a lower learning_rate or more warm-up",
                best["collapsed"],
            )

    def training_run(self, devices: Devices) -> TrainingRun:
        """What the trainer knows of this run on the devices."""
        self.devices = devices
        settings = self.settings
        model = TrainingModel(self._task_model, self.optimization, self._class_weights, devices.xla)
        evaluates = bool(settings.eval_steps)
        return TrainingRun(
            settings=settings,
            config=self.config,
            optimization=self.optimization,
            devices=self.devices,
            model_fn=model.model_fn,
            batches=self.batches,
            banner=self.banner,
            describe=self.describe,
            per_step=settings.train_batch_size,
            epoch_steps=len(self._train_rows) / settings.train_batch_size,
            saves_start=True,
            evaluate=self._evaluator.evaluate_step if evaluates else None,
            build_evaluation=self._evaluator.predictor.build if evaluates else None,
        )

    # -- what the trainer calls

    @functools.cached_property
    def _train_records(self) -> encoding.Records:
        return self._data.records("train", self._train_rows, is_training=True)

    def describe(self) -> None:
        """Writes the description of the run, once its checkpoint is restored."""
        settings = self.settings
        run_document.write(settings.model_dir, self._document, self.config, self._tokenizer)

    def batches(self, start: int) -> tf.data.Dataset:
        """Shuffled batches from step `start` on, a part for each replica."""
        # Which rows a step has follows from the seed and its number alone: a resumed run begins at
        # `start` without reading the batches before.
        settings, made = self.settings, self._train_records
        return input_pipeline.for_replicas(
            self._data.batches(
                made.path,
                is_training=True,
                is_compiled=self.devices.xla,
                num_examples=made.count,
                batch_size=settings.train_batch_size,
                shuffle_seed=settings.seed,
                start_step=start,
            ),
            self.devices.replicas,
        )

    def banner(self) -> dict[str, str]:
        """The banner's lines between devices and batch."""
        settings, task = self.settings, self._task
        held_out = ""
        if task.files.dev_share:  # which decides by a hash: of few rows it is another share
            count = len(self._data.of_split("dev", True)["dev"])
            held_out = f"; {count:,} more of the file held out as dev"
        epochs = settings.epochs or (
            self.optimization.train_steps * settings.train_batch_size / len(self._train_rows)
        )
        evaluated = f"{settings.eval_steps:,} steps" if settings.eval_steps else "0 steps: never"
        return {
            "precision": self.devices.precision_in_words(self.network),
            "task": "{}: {} {}, {}{}".format(
                task.name,
                f"{len(self._train_rows):,}",
                task.reader.unit,
                task.head.outputs_in_words(),
                held_out,
            ),
            "labels": task.scorer.counts_in_words(self._data.of_split("train", True)["train"]),
            "length": f"{settings.max_seq_length} tokens, {settings.long_document}",
            "text": self._train_records.seen.in_words(),
            "epochs": "{}; evaluated every {}, saved every {}, the last {} kept".format(
                f"{epochs:,.1f}".replace(".0", ""),
                evaluated,
                f"{settings.save_steps:,} steps",
                settings.max_save or "all",
            ),
        }
