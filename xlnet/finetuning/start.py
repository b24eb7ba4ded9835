"""Fine-tuning from the settings of a command line to trained weights, evaluations, predictions."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.runs import task_settings
from xlnet.runs.task_settings import FineTunedTask, TaskRun
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import SpanSettings
from xlnet.settings.training import BEST
from xlnet.support import files, quiet
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.files import readers
from xlnet.tasks.task import expand_split

if TYPE_CHECKING:  # these import TensorFlow
    from xlnet.engine.devices import Devices
    from xlnet.finetuning.data import TaskData

_log = logging.getLogger(__name__)


def fine_tune(run: TaskRun, device: DeviceSettings) -> None:
    """Trains, evaluates and predicts as the settings of a run ask.

    Raises:
      UserError: something in the settings or the files is wrong.
      Unfinished: a signal stopped the training, or what follows it.
    """
    quiet.import_tensorflow()
    from xlnet.engine.devices import connect
    from xlnet.engine.stop_signal import StopSignal
    from xlnet.finetuning.data import TaskData
    from xlnet.finetuning.evaluate import Evaluator
    from xlnet.finetuning.model import TaskModel
    from xlnet.finetuning.run import train

    tuned, settings = run.tuned, run.tuned.settings
    data = TaskData(tuned, run.tokenizer)
    _check_files(tuned, data)
    devices = connect(device, compiles_on_gpus=True)
    _check(run, devices)

    # Read all files before any work: bad rows are found first. Then train, evaluate and predict.
    if settings.do_eval:
        data.of_split(settings.eval_split, need_labels=True)
    to_predict = data.to_predict() if settings.do_predict else {}
    model = TaskModel(run.config, tuned, run.network)
    evaluator = Evaluator(model, data, devices)
    with contextlib.ExitStack() as stack:
        if settings.do_train:
            train(model, data, evaluator, run, device, devices)
            # A signal still means that the run is not done.
            stop = stack.enter_context(StopSignal())
            stack.enter_context(
                stop.ends("the evaluation and prediction after training")
            )
        if settings.do_eval:
            evaluator.evaluate()
        if settings.do_train or settings.do_eval:
            evaluator.note_verdict()
        if to_predict:
            evaluator.predict(to_predict)


def _check_files(tuned: FineTunedTask, data: TaskData) -> None:
    """Raises UserError where a task has too few or too many files, or one would be overwritten."""
    settings, task = tuned.settings, tuned.task
    if settings.do_train and not data.can_evaluate():
        settings.check_without_evaluations(f"file {settings.eval_split} to evaluate on")
    output = settings.output
    to_predict = settings.predict_file
    if settings.do_predict and output and not to_predict:
        parts = expand_split(task, settings.predict_split)
        if len(parts) > 1:
            raise wrong("output", "one file", f"predict_dir for {', '.join(parts)}")
        if data.has(parts[0]):  # if not, the error is that of reading it
            to_predict = data.paths(parts[0])[0]
    if settings.do_predict and output and output != "-":
        read = [settings.predict_file or ""]
        if settings.data_dir or settings.named_files:
            for names in task.files.by_split.values():
                read.append(readers.find_file(settings.data_dir, names))
        paths = [path for found in read for path in readers.each_path(found)]
        files.check_output(
            output,
            [each for path in paths for each in task.reader.files_of(path)],
            "output",
        )


def _check(run: TaskRun, devices: Devices) -> None:
    """Raises UserError for settings that contradict the network, the task or the devices, and for
    a model directory or initial weights of something else than this run."""
    from xlnet.engine import best_checkpoint, checkpoint

    # The settings.
    settings, task, config = run.tuned.settings, run.tuned.task, run.config
    encoding.check_max_seq_length(settings.max_seq_length)
    if settings.freeze_layers > config.n_layer:
        raise wrong(
            "freeze_layers", settings.freeze_layers, f"at most {config.n_layer}"
        )
    if settings.label_smoothing and "label_smoothing" not in task.type.loss_options:
        raise wrong(
            "label_smoothing",
            settings.label_smoothing,
            f"0: {task.name} has no classes",
        )
    if settings.do_train and settings.train_batch_size:
        devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)

    # The weights.
    found = best_checkpoint.best_or_newest(settings.model_dir)
    if not found and not settings.do_train:
        nothing = f"no checkpoint in {settings.model_dir}"
        raise wrong("model_dir", nothing, "a trained model", "--do_train")
    for directory in (settings.model_dir, os.path.join(settings.model_dir, BEST)):
        task_settings.check_trained_for(directory, run.document, settings)
    if found:
        checkpoint.check_config(found[1], config)
    elif settings.init_checkpoint:
        prefix = checkpoint.resolve(settings.init_checkpoint)
        checkpoint.check_config(prefix, config)
        if settings.do_train:
            checkpoint.read_weights(prefix)  # which must be finite
            task_settings.check_start(
                settings.init_checkpoint, task, run.document.task or {}
            )


def make_records(settings: SpanSettings) -> None:
    """Makes the records of the train file; arguments and errors as for `fine_tune`."""
    task_settings.require(settings, "spiece_model_file", "output_dir")
    task_settings.check_directories(settings)
    tokenizer = Tokenizer(
        settings.spiece_model_file, settings.uncased, settings.keep_accents
    )
    task_settings.check_columns(settings)
    quiet.import_tensorflow()
    from xlnet.finetuning.data import TaskData

    model_run = (
        task_settings.read_model(settings.model_dir) if settings.model_dir else None
    )
    tuned = FineTunedTask(task_settings.task_of_run(settings, model_run), settings)
    data = TaskData(tuned, tokenizer)
    rows = data.to_train()
    made = data.records(rows)
    _log.info(
        "train: %d %s, %d records: %s",
        len(rows),
        tuned.task.reader.unit,
        made.count,
        made.path,
    )
