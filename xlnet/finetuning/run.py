"""A fine-tuning run, from its rows to the loop: what is read and checked, what is trained."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import SPIECE_NAME
from xlnet.engine import loop
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices
from xlnet.finetuning.data import TaskData, note_repeated_texts, own_code
from xlnet.finetuning.evaluate import Evaluator
from xlnet.finetuning.model import TaskModel, TrainingModel
from xlnet.finetuning.verdict import default_rate
from xlnet.runs import run_document
from xlnet.runs.run_document import RunDocument
from xlnet.runs.task_settings import AnySettings, TaskRun
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import CONFIG_NAME
from xlnet.settings.training import BEST, OptimizationSettings
from xlnet.support import errors
from xlnet.tasks.task import Row
from xlnet.tasks.types import contract

_log = logging.getLogger(__name__)

_MOST_UNSAVED = 1000  # steps between checkpoints by default, if an epoch has more
_MOST_UNLOGGED = 50  # steps of a log line
_WARM_UP = 0.1  # of the steps, by default


def train(
    model: TaskModel,
    data: TaskData,
    evaluator: Evaluator,
    run: TaskRun,
    device_settings: DeviceSettings,
    devices: Devices,
) -> None:
    """Trains from the newest checkpoint to the last step, or until early stopping; evaluates in
    between and keeps the best checkpoint.

    Args:
      model: the network with the task's output layer.
      data: the files of the task.
      evaluator: evaluates checkpoints during training.
      run: its settings and its document.
      device_settings: which devices were asked for.
      devices: those of the run.

    Raises:
      UserError: something does not fit; nothing was written.
      Unfinished: a signal stopped it.
    """
    # Read the rows of all files: bad ones are found before hours of work.
    settings, task = model.tuned.settings, model.tuned.task
    rows = data.to_train()
    settings, optimization = derived(
        settings,
        run.optimization,
        model.config.d_model,
        len(rows),
        devices.replicas * settings.grad_accum_steps,
    )
    given = settings  # as they are kept: lengths in epochs
    labelled = data.of_split("train", need_labels=True)["train"]
    if not data.can_evaluate():
        _log.warning(
            "note: there is no file %s to evaluate on while training",
            settings.eval_split,
        )
        settings = dataclasses.replace(settings, eval_steps=0)
    settings = in_steps(settings, len(rows), optimization.train_steps)
    if settings.train_batch_size > len(rows):
        found = settings.train_batch_size, len(rows)
        _log.warning("note: train_batch_size is %d, of %d rows to train on", *found)
    evaluated = {}
    if settings.eval_steps or settings.do_eval:
        evaluated = data.of_split(settings.eval_split, need_labels=True)
    note_repeated_texts(labelled, evaluated)
    class_weights = None
    if settings.class_weights:
        class_weights = contract.class_weights(task, settings.class_weights, labelled)

    # Check that the settings are those of the run that is resumed. Its vocabulary and architecture
    # are the copies in its directory.
    resolved = run_document.values_of(
        (given, model.network, optimization, device_settings)
    )
    resolved["spiece_model_file"] = os.path.join(settings.model_dir, SPIECE_NAME)
    resolved["model_config_path"] = os.path.join(settings.model_dir, CONFIG_NAME)
    read = {
        "train": data.digests("train"),
        "code": own_code(task),
    }
    document = dataclasses.replace(run.document, resolved=resolved, read=read)
    run_document.check_resumed(
        document, model.config, data.tokenizer, settings.allow_changes
    )

    # Train.
    training = FineTuningRun(
        TrainingModel(model, optimization, class_weights, devices.xla),
        settings,
        data,
        rows,
        document,
        devices,
    )
    selection = BestCheckpoint(
        settings.model_dir,
        task.metrics[0],
        settings.patience,
        lower_is_better=task.lower_is_better,
    )
    with errors.translated_errors(records=training.records.path):
        loop.fit(training, selection, evaluator if settings.eval_steps else None)
    threshold = evaluator.choose_threshold(selection.best() or {})
    if threshold is not None:
        keep_threshold(settings.model_dir, threshold)


def keep_threshold(model_dir: str, threshold: float) -> None:
    """Writes the threshold that training chose to what the model is trained for: predictions and
    evaluations have it from there, and a repeated training chooses again."""
    for directory in (model_dir, os.path.join(model_dir, BEST)):
        document = run_document.read(directory)
        if document and document.task:
            task = {**document.task, "threshold": threshold}
            run_document.write(directory, dataclasses.replace(document, task=task))


def derived(
    settings: AnySettings,
    optimization: OptimizationSettings,
    width: int,
    num_rows: int,
    parts: int,
) -> tuple[AnySettings, OptimizationSettings]:
    """The settings of a training, with what follows from the network and the number of rows in
    place of what is not given:

    - learning rate: 3e-5 for pretrained weights of width 768, as in the settings that the authors
      published (2e-5 to 5e-5 for widths 768 and 1024), and 1e-4 for random ones, as in pretraining
      on one GPU; both times (768 / width)^2, at most 2e-3. The power and the limit are no
      measurement: they give the sample's width 128 the rates 1e-3 and 2e-3, between which networks
      of that width are pretrained, and leave 2e-5 and 3e-5 for the published widths.
    - batch: 32 as in the published settings, 16 and 8 for files of fewer than 640 and 320 rows, so
      that an epoch has 20 steps or more.
    - epochs: 3, and so many more for small files that there are 300 steps, at most 20
      (https://arxiv.org/abs/2006.04884 and https://arxiv.org/abs/2006.05987: small sets need more
      steps than three epochs have).
    - warm-up: a tenth of the steps, as in these papers.

    Args:
      settings: of the task; of the run.
      optimization: of the optimizer.
      width: `d_model` of the network.
      num_rows: to train on.
      parts: replicas x micro-batches, of which the batch is a multiple.
    """
    batch = settings.train_batch_size
    if batch is None:
        batch = 32
        if num_rows < 640:
            batch = 16
        if num_rows < 320:
            batch = 8
        batch = parts * math.ceil(batch / parts)
    epochs = settings.epochs
    if epochs is None and optimization.train_steps is None:
        epochs = math.ceil(min(20, max(3, 300 * batch / num_rows)))
    steps = optimization.train_steps
    if epochs:
        # Not rounded up: batches run across the ends of epochs, so 2 epochs of 10 rows in batches
        # of 4 are 5 steps.
        steps = max(1, round(epochs * num_rows / batch))
    rate = optimization.learning_rate
    if rate is None:
        rate = default_rate(width, bool(settings.init_checkpoint))
    warmup = optimization.warmup_steps
    if warmup is None:
        warmup = round(_WARM_UP * steps)
    settings = dataclasses.replace(settings, train_batch_size=batch, epochs=epochs)
    optimization = dataclasses.replace(
        optimization, train_steps=steps, learning_rate=rate, warmup_steps=warmup
    )
    optimization.check_warmup()
    return settings, optimization


def in_steps(settings: AnySettings, num_rows: int, train_steps: int) -> AnySettings:
    """The settings with the intervals of a run in steps: by default it is evaluated and saved once
    an epoch, and saved every 1,000 steps if an epoch has more; it has 20 log lines or more.

    A row of several windows counts once, so an epoch passes over a part of the windows.
    """
    once_an_epoch = max(1, math.ceil(num_rows / settings.train_batch_size))
    eval_steps = settings.eval_steps
    if eval_steps is None:
        eval_steps = once_an_epoch
    save_steps = settings.save_steps or min(once_an_epoch, _MOST_UNSAVED)
    log_steps = settings.log_steps
    if not log_steps:
        log_steps = min(max(1, train_steps // 20), _MOST_UNLOGGED)
    return dataclasses.replace(
        settings, eval_steps=eval_steps, save_steps=save_steps, log_steps=log_steps
    )


class FineTuningRun:
    """A run of fine-tuning, for `loop.fit`; see `loop.TrainingRun`."""

    with_perplexity = False

    def __init__(
        self,
        model: TrainingModel,
        settings: AnySettings,
        data: TaskData,
        rows: Sequence[Row],
        document: RunDocument,
        devices: Devices,
    ):
        self.settings = settings
        self.config = model.model.config
        self.optimization = model.optimization
        self.devices = devices
        self.unit = ("examples", settings.train_batch_size)
        self.records = data.records(rows)
        self.model_fn = model.model_fn
        self._model = model
        self._data = data
        self._rows = rows
        self._document = document

    def batches(self, start: int) -> tf.data.Dataset:
        return self._data.batches(
            self.records,
            self.settings.train_batch_size,
            start,
            self.devices.replicas,
            self.devices.xla,
        )

    def check_host(self) -> None:
        """There is one host."""

    def write_document(self) -> None:
        tokenizer = self._data.tokenizer
        run_document.write(
            self.settings.model_dir, self._document, self.config, tokenizer
        )

    def banner(self) -> dict[str, str]:
        settings, tuned = self.settings, self._model.model.tuned
        task = tuned.task
        held_out = ""
        # which decides by a hash: of few rows it is another share
        if task.files.dev_share:
            count = len(self._data.of_split("dev", True)["dev"])
            held_out = f"; {count:,} more of the file held out as dev"
        epochs = (
            self.optimization.train_steps * settings.train_batch_size / len(self._rows)
        )
        return {
            "precision": self.devices.precision_in_words(self._model.model.network),
            "task": (
                f"{task.name}: {len(self._rows):,} {task.reader.unit}, "
                f"{task.head.in_words()}{held_out}"
            ),
            "labels": task.scorer.counts_in_words(
                self._data.of_split("train", True)["train"]
            ),
            "rate": f"{self.optimization.learning_rate:g}",
            "length": f"{tuned.settings.max_seq_length} tokens, {tuned.settings.long_document}",
            "epochs": (
                f"{epochs:,.1f}; evaluated every {settings.eval_steps:,} steps (0: never), saved "
                f"every {settings.save_steps:,}, the last {settings.max_save} kept (0: all)"
            ),
            "settings": run_document.changed(
                (settings, self._model.model.network, self.optimization)
            ),
        }
