"""Fine-tuning, as one story read downward: resolve a run, train, evaluate, predict."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Collection

from xlnet.engine import loop
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.finetuning.evaluate import Evaluator
from xlnet.finetuning.resolve import resolve, training_run
from xlnet.settings.finetuning import FineTuningSettings, SpanSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import DeviceSettings, OptimizationSettings
from xlnet.support import errors
from xlnet.tasks import known

_log = logging.getLogger(__name__)


def fine_tune(
    settings: FineTuningSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
    given: Collection[str],
) -> None:
    """Trains, evaluates and predicts, as the settings say.

    Args:
      settings: what to do, for which task, with which files, in which model directory.
      network: how the network is run, such as its dropout and precision.
      optimization: the length of the training, its learning rate and optimizer.
      device: which devices are asked for.
      given: names of the settings that the user gave. The others have their defaults here, and may
        be inherited from the model directory.

    Raises:
      UserError: something in the settings or the files is wrong.
      Unfinished: a signal stopped the training, or what follows it.
    """
    known.load_own_types(settings.own_module)
    if isinstance(settings, SpanSettings):
        if settings.do_prepro and not settings.does_run:
            _log.info(
                "note: do_prepro alone does nothing: a training makes its records"
            )
            return
        # As in the original program, a file to predict is the dev file, too. A training that
        # resumes on the files of its run, as none are given, has the dev file of these.
        resumes = settings.do_train and not (settings.train_file or settings.data_dir)
        if settings.evaluates_predict_file and not resumes:
            settings = dataclasses.replace(settings, dev_file=settings.predict_file)
            given = {*given, "dev_file"}
    run = resolve(settings, network, optimization, device, given)
    # From here on the settings are those of the run, with what its directory says.
    settings, task, data = run.model.tuned.settings, run.model.tuned.task, run.data

    # Read all files before any work: bad rows are found first. Then train, evaluate and predict.
    if settings.do_eval:
        data.rows_to_evaluate()  # `data` keeps the rows for the evaluations
    to_predict = data.rows_to_predict() if settings.do_predict else {}  # by file
    training = training_run(run, device) if settings.do_train else None
    # With the graph; weights come when a checkpoint is used.
    evaluator = Evaluator(training or run)
    with contextlib.ExitStack() as stack:
        if training:
            selection = BestCheckpoint(
                settings.model_dir,
                task.metrics[0],
                settings.patience,
                lower_is_better=task.lower_is_better,
            )
            evaluates = bool(training.settings.eval_steps)
            # An error of TensorFlow at a damaged record names the file of the records.
            with errors.translated_errors(records=training.records):
                loop.fit(training, selection, evaluator if evaluates else None)
            evaluator.keep_threshold(selection.best() or {})
            # From here on a signal raises `Unfinished`, so that the program's status says that
            # something of the run is missing: the same command makes it.
            stack.enter_context(loop.StopSignal(ends_at_once=True))
        if settings.do_eval:
            evaluator.evaluate()
        if settings.do_train or settings.do_eval:
            evaluator.log_verdict()
        if to_predict:
            evaluator.predict(to_predict)
