"""Fine-tuning from the settings of a command line to trained weights, evaluations, predictions."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from xlnet import files, quiet
from xlnet.errors import UserError
from xlnet.model_directory import task_settings
from xlnet.model_directory.run_document import RunDocument
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import (
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
)
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import BEST, OptimizationSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.files import readers
from xlnet.tasks.task import expand_split
from xlnet.tasks.types import known
from xlnet.tasks.types.contract import TaskType
from xlnet.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:  # these import TensorFlow
    from xlnet.engine.devices import Devices
    from xlnet.finetuning.data import TaskData

_log = logging.getLogger(__name__)


def run(
    settings: FineTuningSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
    given: Collection[str],
) -> None:
    """Trains, evaluates and predicts as the settings ask.

    Args:
      given: names of the settings of the command line or a preset.

    Raises:
      UserError: something in the settings or the files is wrong.
      Unfinished: a signal stopped the training, or what follows it.
    """
    # Resolve and check the settings as far as that is possible without TensorFlow, whose import
    # takes seconds.
    model_run = task_settings.read_model(settings.model_dir)
    settings, network, optimization = task_settings.resolve(
        settings, network, optimization, given, model_run
    )
    check_directories(settings)
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = task_settings.read_vocabulary(settings, config)
    task_settings.check_columns(settings)
    quiet.import_tensorflow()
    from xlnet.engine.devices import connect
    from xlnet.engine.stop_signal import StopSignal
    from xlnet.finetuning import run as finetuning
    from xlnet.finetuning.data import TaskData
    from xlnet.finetuning.evaluate import Evaluator
    from xlnet.finetuning.model import TaskModel

    # The task, its files, the network.
    tuned = FineTunedTask(task_settings.task_of_run(settings, model_run), settings)
    data = TaskData(tuned, tokenizer)
    _check_files(tuned, data)
    devices = connect(device, compiles_on_gpus=True)
    _check_settings(tuned, config, devices, given)
    document = task_settings.document_of(settings, network, tuned.task, tokenizer)
    document = dataclasses.replace(document, program=settings.program)
    _check_model(tuned, config, document)

    # Read all files before any work: bad rows are found first. Then train, evaluate and predict.
    if settings.do_eval:
        data.of_split(settings.eval_split, need_labels=True)
    if settings.do_predict:
        data.to_predict()
    model = TaskModel(config, tuned, network)
    evaluator = Evaluator(model, data, devices)
    if settings.do_train:
        finetuning.train(model, data, evaluator, document, optimization, device, devices)
    elif settings.class_weights:  # not used, but refused if it is wrong
        tuned.task.head.class_weights(settings.class_weights, None)
    # A signal still means that the run is not done.
    with StopSignal() as stop, stop.ends("the evaluation and prediction"):
        if settings.do_eval:
            evaluator.evaluate()
        if settings.do_predict:
            evaluator.predict()


def check_directories(settings: FineTuningSettings) -> None:
    """Raises UserError for directories that do not exist, are files, or cannot be written to."""
    if settings.data_dir and not os.path.exists(settings.data_dir):
        is_file = bool(os.path.splitext(settings.data_dir)[1])
        raise UserError(
            "data_dir: no such {}: {}{}".format(
                "file or directory" if is_file else "directory",
                settings.data_dir,
                readers.nearby_files(os.path.dirname(settings.data_dir) or ".") if is_file else "",
            )
        )
    for name in ("model_dir", "output_dir", "predict_dir"):
        path = getattr(settings, name)
        if path and os.path.exists(path) and not os.path.isdir(path):
            raise UserError(f"{name}: {path} is a file, expected a directory")
    predicts = settings.do_predict and not settings.predict_output  # into a directory
    if predicts and not settings.predict_dir and not files.is_writable(settings.model_dir):
        raise UserError(
            f"model_dir: {settings.model_dir} cannot be written to; give --predict_output=FILE or "
            "--predict_dir=DIRECTORY for the predictions"
        )
    # Before hours of work, not after.
    if settings.do_train:
        files.require_writable(settings.model_dir, "model_dir")
    if predicts and settings.predict_dir:
        files.require_writable(settings.predict_dir, "predict_dir")
    if settings.output_dir:
        files.require_writable(settings.output_dir, "output_dir")


# Ends of names that promise another form than that of the predictions, and what is expected.
_NEVER_WRITTEN = (".parquet", ".xlsx", ".xls", ".ods", ".gz")
_OTHER_FORMS = {
    ClassifierSettings.program: (
        (".json", ".jsonl", ".ndjson", ".txt", ".run", ".qrels", *_NEVER_WRITTEN),
        ".tsv or .csv: the predictions are a table; predict_dir has those of a ranking as a TREC "
        "run, too",
    ),
    SpanSettings.program: (
        (".tsv", ".csv", ".jsonl", ".ndjson", ".txt", *_NEVER_WRITTEN),
        ".json: the answers are a JSON object, by the names of the questions",
    ),
    TaggerSettings.program: (
        _NEVER_WRITTEN,
        ".jsonl for texts and JSON, else in the extension of the file",
    ),
}


def check_output_name(its_type: TaskType, flag: str, output: str) -> None:
    """Raises UserError for a name of another form; an own task type may write any."""
    wrong, expected = _OTHER_FORMS.get(its_type.program, ((), ""))
    if output.lower().endswith(wrong) and not known.module_of(its_type):
        raise UserError(f"{flag}: '{output}', expected a name that ends in {expected}")


def _check_files(tuned: FineTunedTask, data: TaskData) -> None:
    """Raises UserError where a task has too few or too many files, or one would be overwritten."""
    settings, task = tuned.settings, tuned.task
    if settings.do_train and not data.can_evaluate():
        settings.check_without_evaluations(f"a file {settings.eval_split} to evaluate on")
    output = settings.predict_output
    check_output_name(task.type, "predict_output", output or "")
    to_predict = settings.predict_file
    if settings.do_predict and output and not to_predict:
        parts = expand_split(task, settings.predict_split)
        if len(parts) > 1:
            raise UserError(
                "predict_output is one file, predict_split {} is {}: {}".format(
                    settings.predict_split, len(parts), ", ".join(parts)
                )
            )
        if data.has(parts[0]):  # if not, the error is that of reading it
            to_predict = data.paths(parts[0])[0]
    if settings.do_predict and output and output != "-":
        read = [settings.predict_file or ""]
        if settings.data_dir or settings.named_files:
            read += [
                readers.find_file(settings.data_dir, names)
                for names in task.files.by_split.values()
            ]
        paths = [path for found in read for path in readers.each_path(found)]
        files.check_output(
            output,
            [each for path in paths for each in task.reader.files_of(path)],
            "predict_output",
        )


def _check_settings(
    tuned: FineTunedTask, config: XLNetConfig, devices: Devices, given: Collection[str]
) -> None:
    """Raises UserError for settings that contradict the network, the task or the devices."""
    settings, task = tuned.settings, tuned.task
    encoding.check_max_seq_length(settings.max_seq_length)
    if settings.freeze_layers > config.n_layer:
        raise UserError(
            f"freeze_layers is {settings.freeze_layers}, but the network has {config.n_layer} "
            "layers"
        )
    if settings.label_smoothing and not task.head.smooths_labels:
        raise UserError(f"label_smoothing: task {task.name} has no classes")
    # A run.json as --config gives all settings, most of them with their defaults.
    is_default = settings.predict_threshold == type(settings).predict_threshold
    if "predict_threshold" in given and not is_default and not task.scorer.has_threshold:
        _log.warning(
            "note: predict_threshold is for two labels, multi_label and questions; task "
            "%s does not use it",
            task.name,
        )
    if settings.do_train:
        devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)


def _check_model(tuned: FineTunedTask, config: XLNetConfig, document: RunDocument) -> None:
    """Raises UserError if the model directory or the initial weights are of something else than the
    `document` of this run."""
    from xlnet.engine import best_checkpoint, checkpoint

    settings = tuned.settings
    found = best_checkpoint.best_or_newest(settings.model_dir)
    if not found and not settings.do_train:
        raise UserError(
            f"model_dir: no checkpoint in {settings.model_dir}; train with --do_train=True first"
        )
    for directory in (settings.model_dir, os.path.join(settings.model_dir, BEST)):
        task_settings.check_trained_for(directory, document, settings)
    if found:
        checkpoint.check_config(found[1], config)
    elif settings.init_checkpoint:
        prefix = checkpoint.resolve(settings.init_checkpoint)
        checkpoint.check_config(prefix, config)
        if settings.do_train:
            checkpoint.check_finite(prefix)
            task_settings.check_start(settings.init_checkpoint, tuned.task, document.task or {})


def make_records(settings: SpanSettings) -> None:
    """Makes the records of the train file; arguments and errors as for `run`."""
    task_settings.require(settings, "spiece_model_file", "output_dir")
    check_directories(settings)
    tokenizer = Tokenizer(settings.spiece_model_file, settings.uncased, settings.keep_accents)
    task_settings.check_columns(settings)
    quiet.import_tensorflow()
    from xlnet.finetuning.data import TaskData

    model_run = task_settings.read_model(settings.model_dir) if settings.model_dir else None
    tuned = FineTunedTask(task_settings.task_of_run(settings, model_run), settings)
    data = TaskData(tuned, tokenizer)
    rows = data.to_train()
    made = data.records(rows)
    _log.info(
        "train: %d %s, %d records: %s", len(rows), tuned.task.reader.unit, made.count, made.path
    )
