"""What every fine-tuning program does with its settings, once its flags are read."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Callable

from xlnet.config import (
    DeviceSettings,
    FineTuningSettings,
    NetworkSettings,
    OptimizationSettings,
    SpanSettings,
    XLNetConfig,
)
from xlnet.errors import UserError
from xlnet.tasks import readers
from xlnet.tokenization import Tokenizer, descriptions_beside

_log = logging.getLogger(__name__)


def run(settings: FineTuningSettings, network: NetworkSettings, optimization: OptimizationSettings,
        device: DeviceSettings, check_task: Callable[[], None]) -> None:
    """Trains, evaluates and predicts as the settings ask.

    What can be refused without TensorFlow is, before its import.

    Args:
      check_task: raises UserError for flags that contradict what is known of the task.

    Raises:
      UserError: something is not what it should be.
    """
    device = device.on_one_machine()
    check(settings)
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = read_vocabulary(settings, config)
    check_task()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from xlnet.engine import distribution
    from xlnet.finetuning import task_json, trials
    from xlnet.finetuning.run import Run
    task = task_json.find_task(settings)
    devices = distribution.connect(device)

    def make_run(settings, optimization):
        return Run(settings, config, network, optimization, device, task, tokenizer, devices)

    if settings.do_train and settings.num_trials > 1:
        if not trials.run(make_run, settings, optimization, task.metrics[0]):
            return
        settings = dataclasses.replace(settings, do_train=False)
    if settings.do_train or settings.do_eval or settings.do_predict:
        run = make_run(settings, optimization)
        run.prepare()
    if settings.do_train and not run.train():
        return
    if settings.do_eval:
        run.evaluate()
    if settings.do_predict:
        run.predict()


def prepare(settings: SpanSettings, check_task: Callable[[], None]) -> None:
    """Makes the records of the train file and of what is evaluated and predicted, if they are there
    to be read; arguments and errors as for `run`."""
    check(settings)
    tokenizer = Tokenizer(settings.spiece_model_file, settings.uncased, settings.keep_accents)
    check_task()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from xlnet.finetuning import task_json
    from xlnet.finetuning.rows import Rows
    task = task_json.find_task(settings)
    rows = Rows(settings, task, tokenizer)
    for split in ("train", "dev"):
        if task.dev_share or os.path.exists(readers.find_file(settings.data_dir,
                                                              task.files[split])):
            read = rows.to_train() if split == "train" else rows.of_split(split, False)[split]
            made = rows.records(split, read)
            _log.info("%s: %s %s, %s records: %s", split, "{:,}".format(len(read)),
                      task.kind.training_unit(task), "{:,}".format(made.count), made.path)


def check(settings: FineTuningSettings) -> None:
    """Raises UserError for files and directories that are not what they should be."""
    if not os.path.exists(settings.data_dir):
        raise UserError("data_dir: no such directory: %s" % settings.data_dir)
    for name in ("model_dir", "output_dir", "predict_dir"):
        path = getattr(settings, name)
        if path and os.path.exists(path) and not os.path.isdir(path):
            raise UserError("%s: %s is a file, expected a directory" % (name, path))


def read_vocabulary(settings: FineTuningSettings, config: XLNetConfig) -> Tokenizer:
    """The `Tokenizer`, cleaning text as in pretraining, with as many pieces as the network has
    tokens."""
    tokenizer = Tokenizer(settings.spiece_model_file, settings.uncased, settings.keep_accents,
                          descriptions=descriptions_beside(settings.model_dir,
                                                           settings.init_checkpoint))
    if tokenizer.vocab_size != config.n_token:
        raise UserError("n_token is %d in %s, but %s has %d pieces" % (
            config.n_token, settings.model_config_path, settings.spiece_model_file,
            tokenizer.vocab_size))
    return tokenizer
