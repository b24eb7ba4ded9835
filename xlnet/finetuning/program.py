"""The common part of the fine-tuning programs, after the flags are read."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections.abc import Callable, Collection

from xlnet import files, quiet
from xlnet.errors import UserError
from xlnet.finetuning import lengths
from xlnet.models import resolved
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import FineTuningSettings, SpanSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.files import readers, row_store
from xlnet.tasks.types.task import expand_split
from xlnet.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


def run(settings: FineTuningSettings, network: NetworkSettings, optimization: OptimizationSettings,
        device: DeviceSettings, given: Collection[str], check_task: Callable[[str], None]) -> None:
    """Trains, evaluates and predicts as the settings ask.

    Checks as much as possible before it imports TensorFlow.

    Args:
      settings: those of the task.
      network: dropout, precision and the like.
      optimization: learning rate and optimizer.
      device: where to run.
      given: names of the settings on the command line or in a preset; see `resolved`.
      check_task: raises UserError for flags that contradict the task of the given name.

    Raises:
      UserError: a setting, a file or a directory is wrong.
    """
    device = device.on_one_machine()
    settings = resolved.resolve(settings, given)
    settings, optimization = lengths.with_length(settings, optimization, given)
    if "clamp_len" not in given:
        network = dataclasses.replace(network, clamp_len=resolved.clamp_len_of(
            settings.model_dir, settings.init_checkpoint))
    check(settings)
    with contextlib.ExitStack() as stack:
        if not settings.output_dir:
            settings = dataclasses.replace(settings, output_dir=stack.enter_context(
                tempfile.TemporaryDirectory(prefix="xlnet-records-")))
        _run(settings, network, optimization, device, check_task)


def _run(settings, network, optimization, device, check_task):
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = resolved.read_vocabulary(settings, config)
    check_task(settings.task_name)
    quiet.import_tensorflow()
    from xlnet.engine.devices import connect
    from xlnet.finetuning.rows import Rows
    from xlnet.finetuning.run import Run
    from xlnet.models import task_json
    task = task_json.find_task(settings)
    _check_splits(settings, task, Rows(settings, task, tokenizer))
    devices = connect(device)
    run = Run(settings, config, network, optimization, device, task, tokenizer, devices)
    run.prepare()
    if settings.do_train and not run.train():
        return
    if settings.do_eval:
        run.evaluate()
    if settings.do_predict:
        run.predict()


def _check_splits(settings, task, rows):
    """Raises UserError where a task has too few or too many files, or one would be overwritten."""
    if settings.do_train and not rows.can_evaluate():
        settings.check_without_evaluations("a file %s to evaluate on" % settings.eval_split)
    if settings.do_predict and settings.predict_output and not settings.predict_file:
        parts = expand_split(task, settings.predict_split)
        if len(parts) > 1:
            raise UserError("predict_output is one file, predict_split %s is %d: %s" % (
                settings.predict_split, len(parts), ", ".join(parts)))
    output = settings.predict_output
    if settings.do_predict and output and output != "-":
        read = task.files.values() if settings.data_dir or settings.named_files else ()
        files.check_output(output, [path for found in (settings.predict_file or "", *(
            readers.find_file(settings.data_dir, names) for names in read))
            for path in readers.each_path(found)], "predict_output")
        files.require_writable(os.path.dirname(os.path.abspath(output)), "predict_output")


def prepare(settings: SpanSettings, check_task: Callable[[str], None]) -> None:
    """Makes the records of the files for training, evaluation and prediction that exist; arguments
    and errors as for `run`."""
    resolved.require(settings, "spiece_model_file", "output_dir")
    check(settings)
    tokenizer = Tokenizer(settings.spiece_model_file, settings.uncased, settings.keep_accents)
    check_task(settings.task_name)
    quiet.import_tensorflow()
    from xlnet.finetuning.rows import Rows
    from xlnet.models import task_json
    task = task_json.find_task(settings)
    rows = Rows(settings, task, tokenizer)
    to_read = list(_to_prepare(settings, task, rows))
    if not to_read:
        raise UserError("data_dir: %s has no file of task %s to train on or to evaluate"
                        % (settings.data_dir, task.name))
    for split, read in to_read:
        made = rows.records(split, read)
        _log.info("%s: %s %s, %s records: %s", split, "{:,}".format(len(read)),
                  task.reader.unit, "{:,}".format(made.count), made.path)


def _to_prepare(settings, task, rows):
    """Yields (split, its rows) of all that training, evaluation and prediction read."""
    if task.dev_share or rows.has("train"):
        yield "train", rows.to_train()
    if rows.has("dev"):
        yield "dev", row_store.kept(row for row in rows.of_split("dev", need_labels=False)["dev"]
                                    if row.pairs)
    path = settings.named_file
    if path and task.files.get("dev") != os.path.abspath(path):     # it is predicted alone
        yield from rows.to_predict().items()


def check(settings: FineTuningSettings) -> None:
    """Raises UserError for directories that do not exist, are files, or cannot be written to."""
    if settings.data_dir and not os.path.exists(settings.data_dir):
        is_file = bool(os.path.splitext(settings.data_dir)[1])
        raise UserError("data_dir: no such %s: %s%s" % (
            "file or directory" if is_file else "directory", settings.data_dir,
            readers.there(os.path.dirname(settings.data_dir) or ".") if is_file else ""))
    for name in ("model_dir", "output_dir", "predict_dir"):
        path = getattr(settings, name)
        if path and os.path.exists(path) and not os.path.isdir(path):
            raise UserError("%s: %s is a file, expected a directory" % (name, path))
    predicts = settings.do_predict and not settings.predict_output      # into a directory
    written = {"model_dir": settings.do_train or settings.do_eval
               or predicts and not settings.predict_dir,
               "predict_dir": predicts and settings.predict_dir, "output_dir": settings.output_dir}
    for name in filter(written.get, written):
        files.require_writable(getattr(settings, name), name)
