"""From the settings of a command line to a fine-tuning run: what is found, read and checked.

`resolve` makes what all runs have; `training_run` adds the training, with what follows from its
rows.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Collection
from typing import Any

from xlnet.engine import best_checkpoint, checkpoint, devices
from xlnet.finetuning.data import TaskData, note_repeated_texts
from xlnet.finetuning.model import TaskModel
from xlnet.finetuning.run import FineTuningRun, TaskRun
from xlnet.finetuning.verdict import default_rate
from xlnet.runs import run_document, task_settings
from xlnet.runs.task_settings import AnySettings, FineTunedTask
from xlnet.settings.fields import HelpGroup
from xlnet.settings.finetuning import FineTuningSettings, TaskSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import BEST, DeviceSettings, OptimizationSettings
from xlnet.support import files
from xlnet.support.errors import wrong
from xlnet.tasks import contract, known
from xlnet.tasks.fields import expand_split
from xlnet.tasks.files import forms

_log = logging.getLogger(__name__)

_MOST_UNSAVED = 1000  # steps between checkpoints by default, if an epoch has more
_MOST_UNLOGGED = 50  # steps of a log line
_WARM_UP = 0.1  # of the steps, by default


def resolve(
    settings: FineTuningSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
    given: Collection[str],
) -> TaskRun:
    """The run that follows from a command line and its model directory, checked as far as that is
    possible without the rows of the task.

    Args:
      settings: as given, or their defaults, like the next three.
      network: how the network is run.
      optimization: the length of the training, its learning rate and optimizer.
      device: which devices are asked for.
      given: names of the settings that the user gave, at any value. Others are inherited from the
        model.

    Raises:
      UserError: something does not fit; nothing was written.
    """
    # The document of the model that is in `model_dir`, None without one.
    trained = task_settings.finetuned_document(settings.model_dir)
    settings, network, optimization = task_settings.inherited_settings(
        settings, network, optimization, given, trained
    )
    check_directories(settings)
    config = XLNetConfig(json_path=settings.model_config_path)
    # The vocabulary must be that of the weights in these directories, each by its flag.
    weights = {"model_dir": settings.model_dir}
    if settings.init_checkpoint:
        weights["init_checkpoint"] = files.directory_of(settings.init_checkpoint)
    tokenizer = task_settings.read_vocabulary(settings, config, weights)
    check_columns(settings)
    tuned = FineTunedTask(task_settings.task_of_run(settings, trained), settings)
    data = TaskData(tuned, tokenizer)
    check_files(tuned, data)
    run = TaskRun(
        TaskModel(config, tuned, network),
        optimization,
        data,
        devices.connect(device),
    )
    check_run(run)
    return run


# ---- a training


def training_run(run: TaskRun, device: DeviceSettings) -> FineTuningRun:
    """The training that follows from a run and its rows; reads the rows and writes their records.

    Args:
      run: as `resolve` made it.
      device: which devices were asked for, for the document.

    Raises:
      UserError: something does not fit; nothing was written but records.
    """
    # What follows from the number of rows.
    model, data, devices = run.model, run.data, run.devices
    settings, task = model.tuned.settings, model.tuned.task
    rows_of_train_file = data.rows_of_train_file()
    # Mostly the same rows; of a ranking, pairs of documents, sampled by the seed.
    rows = task.training_rows(rows_of_train_file, settings.seed)
    settings, optimization = with_defaults(
        settings,
        run.optimization,
        model.config.d_model,
        len(rows),
        devices.replicas * settings.grad_accum_steps,
    )
    # `run.json` keeps the settings before the intervals are in steps: a resumed run derives these
    # again. It names the copies of architecture and vocabulary in the run's directory.
    resolved = run_document.values_of((settings, model.network, optimization, device))
    # It follows from the steps, which may change.
    if run.optimization.warmup_steps is None:
        del resolved["warmup_steps"]
    for name, file in task_settings.MODEL_FILES.items():
        resolved[name] = os.path.abspath(os.path.join(settings.model_dir, file))
    can_evaluate = data.can_evaluate()
    if not can_evaluate:
        _log.warning(
            "note: there is no file %s to evaluate on while training",
            settings.eval_split,
        )
    settings = in_steps(settings, len(rows), optimization.train_steps, can_evaluate)
    if settings.train_batch_size > len(rows):
        _log.warning(
            "note: train_batch_size is %d, of %d rows: an epoch is less than a step",
            settings.train_batch_size,
            len(rows),
        )

    # Read the rows to evaluate, too: bad ones are found before hours of work.
    evaluated = {}
    if settings.eval_steps or settings.do_eval:
        evaluated = data.rows_to_evaluate()
    note_repeated_texts(rows_of_train_file, evaluated)
    class_weights = None
    if settings.class_weights:
        class_weights = contract.balanced_weights(task, rows_of_train_file)

    # Check that network, vocabulary and files are those of the run that is resumed.
    digests: dict[str, Any] = {
        "train": [files.digest_of(path) for path in data.files_read("train")]
    }
    # A finished run trains on no rows, and may evaluate any file.
    if checkpoint.newest_step(settings.model_dir) < optimization.train_steps:
        digests["held_out"] = str(task.files.dev_share)
        if settings.eval_steps and not task.files.dev_share:  # on a file of its own
            paths = data.files_read(settings.eval_split)
            digests["evaluated"] = [files.digest_of(path) for path in paths]
    document = run_document.RunDocument(
        run_document.path_in(settings.model_dir),
        settings.program,
        resolved,
        task=task_settings.describe_task(settings, task),
        text=run_document.text_of(data.tokenizer),
        digests=digests,
    )
    run_document.check_resumed(
        document, model.config, data.tokenizer, settings.allow_changes
    )
    weights = None
    if settings.init_checkpoint and not checkpoint.newest(settings.model_dir):
        weights = checkpoint.resolve(settings.init_checkpoint)
    return FineTuningRun(
        settings=settings,
        optimization=optimization,
        config=model.config,
        devices=devices,
        network=model.network,
        weights=weights,
        model=TaskModel(model.config, FineTunedTask(task, settings), model.network),
        data=data,
        document=document,
        rows=rows,
        records=data.write_records(rows),
        class_weights=class_weights,
    )


def with_defaults(
    settings: AnySettings,
    optimization: OptimizationSettings,
    width: int,
    num_rows: int,
    batch_multiple: int,
) -> tuple[AnySettings, OptimizationSettings]:
    """The settings of a training; those that are not given, None, follow from the network and the
    number of rows:

    - learning rate: by the width of the network, see `verdict.default_rate`.
    - batch: 32 as in the published settings, 16 and 8 for files of fewer than 640 and 320 rows, so
      that an epoch has 20 steps or more.
    - epochs: 3; for a small file as many as make 300 steps, at most 20
      (https://arxiv.org/abs/2006.04884 and https://arxiv.org/abs/2006.05987: small sets need more
      steps than three epochs have).
    - warm-up: a tenth of the steps, as in these papers.

    Args:
      settings: of the task; of the run.
      optimization: the length of the training, its learning rate and optimizer.
      width: `d_model` of the network.
      num_rows: the number of rows to train on.
      batch_multiple: replicas x micro-batches, of which the batch is a multiple.
    """
    batch = settings.train_batch_size
    if batch is None:
        batch = 32
        if num_rows < 640:
            batch = 16
        if num_rows < 320:
            batch = 8
        # Not more than all rows, and rounded up to a multiple.
        batch = batch_multiple * math.ceil(min(batch, num_rows) / batch_multiple)
    # One of the two lengths may be given: epochs or steps.
    epochs = settings.epochs
    if epochs is None and optimization.train_steps is None:
        epochs_of_300_steps = 300 * batch / num_rows
        epochs = math.ceil(min(20, max(3, epochs_of_300_steps)))
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
    optimization.check()
    return settings, optimization


def in_steps(
    settings: AnySettings, num_rows: int, train_steps: int, can_evaluate: bool
) -> AnySettings:
    """The settings with the intervals of a training in steps, in place of what is None, not given:
    it evaluates and saves once an epoch, saves every 1,000 steps if an epoch has more, and logs 20
    lines or more. Without a file to evaluate on (`can_evaluate`), it never evaluates.

    An epoch has as many records as there are rows. Where rows have several records, their windows,
    it has only a part of these.
    """
    once_an_epoch = max(1, math.ceil(num_rows / settings.train_batch_size))
    eval_steps = settings.eval_steps
    if eval_steps is None:  # 0, if given, means never
        eval_steps = once_an_epoch if can_evaluate else 0
    # These are not 0 if they are given.
    save_steps = settings.save_steps or min(once_an_epoch, _MOST_UNSAVED)
    log_steps = settings.log_steps or min(max(1, train_steps // 20), _MOST_UNLOGGED)
    return dataclasses.replace(
        settings, eval_steps=eval_steps, save_steps=save_steps, log_steps=log_steps
    )


# ---- checks without the rows


def check_directories(settings: TaskSettings) -> None:
    """Raises UserError for directories that do not exist, are files, or cannot be written to:
    before hours of work, not after."""
    if settings.data_dir and not os.path.exists(settings.data_dir):
        found = f"no such file or directory: {settings.data_dir}"
        raise wrong("data_dir", found, "one that exists")
    flags = ["output_dir"]  # of directories that are written to, if they are given
    if settings.do_train:
        flags.append("model_dir")
    if settings.do_predict and not settings.output:
        flags.append("predict_dir" if settings.predict_dir else "model_dir")
    for flag in flags:
        path = getattr(settings, flag)
        if path and os.path.isfile(path):
            raise wrong(flag, f"the file {path}", "a directory")
        if path:
            files.require_writable(path, flag)


def check_columns(settings: TaskSettings) -> None:
    """Raises UserError for columns of own files that are given for a known task."""
    if known.canonical_name(settings.task_name) == known.CUSTOM:
        return
    task = known.find_task(settings.task_name)
    for field in dataclasses.fields(settings):
        is_column = field.metadata["help_group"] is HelpGroup.COLUMNS
        value = getattr(settings, field.name)
        if is_column and value != field.default:
            expected = f"none: the columns of task {task.name} are known"
            raise wrong(field.name, repr(value), expected)


def check_files(tuned: FineTunedTask, data: TaskData) -> None:
    """Raises UserError where early stopping has no file to evaluate on, or where the one file of
    `output` is to have the predictions of several, or is a file that is read."""
    settings, task = tuned.settings, tuned.task
    if settings.do_train and settings.patience and not data.can_evaluate():
        found = f"no file {settings.eval_split} to evaluate on"
        raise wrong("patience", found, "evaluations while training")
    if not settings.output:
        return
    # Files are predicted or, if none is named, a split, which may have several parts.
    named = list(forms.each_path(settings.predict_file or ""))
    predicted = named or expand_split(task, settings.predict_split)
    if len(predicted) > 1:
        raise wrong("output", "one file", f"predict_dir for {', '.join(predicted)}")
    # All files that are read: those to predict, and those of all splits.
    read: list[str] = []
    for path in named:
        read += task.files_of(path)
    if settings.data_dir or settings.named_files:
        for split in task.files.by_split:
            read += data.files_read(split)
    files.check_output(settings.output, read)


def check_run(run: TaskRun) -> None:
    """Raises UserError for settings that contradict the network, the task or the devices, and for
    a model directory or initial weights of something else than this run."""
    # The settings.
    tuned, config = run.model.tuned, run.model.config
    settings, task = tuned.settings, tuned.task
    if settings.freeze_layers > config.n_layer:
        raise wrong(
            "freeze_layers", settings.freeze_layers, f"at most {config.n_layer}"
        )
    if settings.label_smoothing and not task.loss_options:
        raise wrong(
            "label_smoothing",
            settings.label_smoothing,
            f"0: {task.name} has no classes",
        )
    if settings.do_train and settings.train_batch_size:
        run.devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)

    # The weights: those of the model directory, or else those that a training starts from.
    trained = best_checkpoint.best_or_newest(settings.model_dir)
    for directory in (settings.model_dir, os.path.join(settings.model_dir, BEST)):
        task_settings.check_trained_for(directory, settings, task)
    if trained:
        checkpoint.check_config(trained, config)
    elif settings.init_checkpoint:
        initial = checkpoint.resolve(settings.init_checkpoint)
        checkpoint.check_config(initial, config)
        checkpoint.read_weights(initial)  # raises UserError unless all are finite
        task_settings.check_initial_labels(settings, task)
