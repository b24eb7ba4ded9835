"""A fine-tuning run: training, evaluation and prediction in a model directory."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from typing import Optional

from xlnet import errors, files
from xlnet.batches import input_pipeline
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.devices import Devices
from xlnet.engine.predictor import Predictor
from xlnet.engine.run_settings import KeptSettings
from xlnet.engine.trainer import Job, Trainer
from xlnet.errors import UserError
from xlnet.finetuning import lengths
from xlnet.finetuning.model import TrainedModel
from xlnet.finetuning.rows import Rows
from xlnet.models import resolved, task_json
from xlnet.models.task_model import TaskModel
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import EXAMPLES_NAME, FINETUNING_NAME, TASK_NAME, FineTuningSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import BEST, OptimizationSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.files import readers, row_store
from xlnet.tasks.output import examples, prediction_files
from xlnet.tasks.output.evaluation import Evaluation
from xlnet.tasks.types.task import Task
from xlnet.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


class Run:
    """A fine-tuning run.

    The constructor reads nothing; `prepare` reads and checks all input, then `train`, `evaluate`
    and `predict` write.

    Args:
      settings: those of the task.
      config: the architecture.
      network: dropout, precision and the like.
      optimization: learning rate and optimizer.
      device_settings: where to run.
      task: the task.
      tokenizer: the vocabulary.
      devices: those of `device_settings`.
    """

    def __init__(self, settings: FineTuningSettings, config: XLNetConfig, network: NetworkSettings,
                 optimization: OptimizationSettings, device_settings: DeviceSettings, task: Task,
                 tokenizer: Tokenizer, devices: Devices):
        self._settings = settings
        self._devices = devices
        self._config = config
        self._network = network
        self._optimization = optimization
        self._task = task
        self._tokenizer = tokenizer
        self._rows = Rows(settings, task, tokenizer)
        self._best: Optional[tuple[int, str]] = None    # (step, prefix) of those evaluated
        self._kept = KeptSettings(settings.model_dir, FINETUNING_NAME,
                                  (settings, network, optimization, device_settings),
                                  evaluates=settings.eval_steps != 0,
                                  more={"dev_file": self._dev_file()})

    def _dev_file(self):
        """The setting; or `predict_file`, if that is evaluated: a run has it on resume, too."""
        named, predicted = self._settings.dev_file, self._settings.predict_file
        is_evaluated = predicted and os.path.abspath(predicted) == self._task.files.get("dev")
        return predicted if is_evaluated and not named else named

    # -- before anything is written

    def prepare(self) -> None:
        """Reads and checks all input; writes nothing.

        Raises:
          UserError: settings, files, model directory and devices do not fit together.
        """
        self._check_settings()
        self._description = dict(
            task_json.describe(self._settings, self._task, self._tokenizer,
                               self._network.clamp_len),
            dev_share=self._task.dev_share, dev_seed=self._task.dev_seed)
        self._check_model_dir()
        self._read_rows()
        self._model = TaskModel(self._config, self._task, self._network, self._settings,
                                self._description["head"])
        self._trained = TrainedModel(self._model, self._optimization, self._class_weights(),
                                     self._devices.xla)
        at_once = self._parallel_batches()
        rows = -(-self._settings.eval_batch_size // at_once)
        self._answering = Predictor(
            self._model.answers, [lambda path: self._rows.batches(
                path, is_fixed=self._devices.xla, batch_size=rows)], self._devices,
            at_once=at_once)
        self._evaluation = Evaluation(self._task, self._settings.model_dir,
                                      self._settings.predict_threshold)
        if self._settings.do_train:
            self._prepare_training()

    def _parallel_batches(self):
        """The number of parts of a batch that are predicted in parallel: 1 with a memory, and with
        training, whose step needs all cores."""
        settings = self._settings
        divides = not settings.do_train and settings.long_document != "memory"
        return self._devices.parallel_batches if divides else 1

    def _check_settings(self):
        """Compares the settings with the network, the task and the devices."""
        settings = self._settings
        encoding.check_max_seq_length(settings.max_seq_length)
        if settings.freeze_layers > self._config.n_layer:
            raise UserError("freeze_layers is %d, but the network has %d layers"
                            % (settings.freeze_layers, self._config.n_layer))
        if settings.label_smoothing and not self._task.head.smooths_labels:
            raise UserError("label_smoothing: task %s has no classes" % self._task.name)
        if settings.do_train:
            self._devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)

    def _check_model_dir(self):
        """Compares the weights in the model directory with the settings."""
        model_dir, start = self._settings.model_dir, self._settings.init_checkpoint
        prefixes = self._checkpoints()
        if not prefixes and not self._settings.do_train:
            raise UserError("model_dir: no checkpoint in %s; train with --do_train=True first"
                            % model_dir)
        for directory in (model_dir, os.path.join(model_dir, BEST)):
            task_json.check(directory, self._description, self._settings)
        if prefixes:
            checkpoint.check_config(prefixes[-1][1], self._config)
        elif start:
            checkpoint.check_config(checkpoint.resolve(start), self._config)
            self._check_start(start)

    def _check_start(self, start):
        """Compares the labels with those of the initial output layer, if any."""
        path = os.path.join(resolved.directory_of(start), TASK_NAME)
        if not self._settings.do_train or not os.path.exists(path):
            return
        stored, wanted = files.read_json(path, "init_checkpoint"), self._description
        before, now = ((each["head"], each.get("labels")) for each in (stored, wanted))
        if before[0] != now[0] or before[1] == now[1]:
            return
        what = "init_checkpoint: the output layer %s of %s has the labels %s, this run has %s" % (
            now[0], path, *(", ".join(labels[1] or ["a score"]) for labels in (before, now)))
        if len(before[1] or ()) != len(now[1] or ()):
            raise UserError("%s; give --cls_scope=NAME to begin with a new output layer" % what)
        _log.warning("note: %s, in this order; give --cls_scope=NAME to begin with a new output "
                     "layer", what)

    def _checkpoints(self):
        """(step, prefix) of the checkpoints to evaluate, the newest last."""
        own = checkpoint.all_prefixes(self._settings.model_dir)
        if self._settings.eval_all_ckpt and own:
            return own
        one = best_checkpoint.chosen(self._settings.model_dir)
        return [one] if one else []

    def _read_rows(self):
        """Reads all rows; from then on the settings have lengths in steps."""
        settings, rows = self._settings, self._rows
        if settings.do_train:
            self._train_rows = rows.to_train()
            if not rows.can_evaluate():
                _log.warning("note: there is no file %s to evaluate on while training",
                             settings.eval_split)
                settings = dataclasses.replace(settings, eval_steps=0)
            elif settings.eval_split.startswith("test"):
                _log.warning("note: the best checkpoint is chosen on %s, which flatters its scores "
                             "there", settings.eval_split)
            self._settings, self._optimization = lengths.in_steps(
                settings, self._optimization, len(self._train_rows))
        if settings.do_eval or settings.do_train and self._settings.eval_steps:
            rows.of_split(settings.eval_split, need_labels=True)
        if settings.do_predict:
            rows.to_predict()

    def _class_weights(self):
        settings = self._settings
        if not settings.class_weights:
            return None
        rows = self._rows.of_split("train", True)["train"] if settings.do_train else None
        return self._task.head.class_weights(settings.class_weights, rows)

    def _prepare_training(self):
        settings = self._settings
        self._selection = best_checkpoint.Selection(
            settings.model_dir, self._task.metrics[0], settings.patience,
            lower_is_better=self._task.lower_is_better)
        self._kept.check(self._config, self._tokenizer)

    # -- training

    def train(self) -> bool:
        """Trains from the current step to the last one, or until early stopping.

        With `eval_steps` the model is evaluated while training, and the best checkpoint exported.

        Returns:
          False if a signal stopped it before.
        """
        trainer = Trainer(self._job(), self._settings, self._optimization, self._devices,
                          self._selection)
        with errors.explained(records=lambda: self._train_records.path):
            is_done = trainer.train()
        best = self._selection.best()
        if best and best.get("collapsed"):
            _log.warning(
                "note: the run is degenerate, its predictions are constant: %s; try another seed, "
                "a lower learning_rate or more warm-up", best["collapsed"])
        return is_done

    def _job(self):
        settings = self._settings
        return Job(
            model_fn=self._trained.model_fn, batches=self._batches, config=self._config,
            unit="examples", per_step=settings.train_batch_size, examples="examples",
            epoch_steps=len(self._train_rows) / settings.train_batch_size, banner=self._banner,
            begin=self._begin, evaluate=self._select if settings.eval_steps else None,
            answering=self._answering if settings.eval_steps else None, saves_start=True)

    @functools.cached_property
    def _train_records(self):
        return self._rows.records("train", self._train_rows)

    def _begin(self):
        self._kept.keep(self._config, self._tokenizer)
        settings = self._settings
        files.write_json(os.path.join(settings.model_dir, TASK_NAME), self._description)
        split = settings.eval_split if settings.do_eval or settings.eval_steps else "train"
        rows = next(iter(self._rows.of_split(split, True).values()))
        files.write_json(os.path.join(settings.model_dir, EXAMPLES_NAME), {
            "text": examples.of_rows(self._task, rows)})

    def _batches(self, start):
        settings, made = self._settings, self._train_records
        return input_pipeline.for_replicas(self._rows.batches(
            made.path, is_training=True, is_fixed=self._devices.xla, num_examples=made.count,
            batch_size=settings.train_batch_size, shuffle_seed=settings.seed,
            start_step=start), self._devices.replicas)

    def _select(self, step, prefix):
        """Evaluates a checkpoint while training; the mean result where `eval_split` is several
        files."""
        results = []
        for split, rows in self._rows.of_split(self._settings.eval_split, True).items():
            results.append(self._evaluation.score(self._answer(split, rows, prefix), rows))
            self._evaluation.report(split, "step %d" % step, results[-1], rows)
        return self._evaluation.mean(results)

    def _banner(self):
        settings, task = self._settings, self._task
        held_out = "; %g %% of the file held out as dev" % (100 * task.dev_share)
        return {
            "precision": self._devices.precision_in_words(self._network),
            "task": "%s: %s %s, %s%s" % (
                task.name, "{:,}".format(len(self._train_rows)), task.reader.unit,
                task.head.words(), held_out if task.dev_share else ""),
            "labels": task.scorer.counts_in_words(self._rows.of_split("train", True)["train"]),
            "length": "%d tokens, %s" % (settings.max_seq_length, settings.long_document),
            "text": self._train_records.seen.in_words(),
            "epochs": self._epochs_in_words(),
        }

    def _epochs_in_words(self):
        settings = self._settings
        epochs = self._optimization.train_steps * settings.train_batch_size / len(self._train_rows)
        return "%s; evaluated every %s, saved every %s, the last %s kept" % (
            "{:,.1f}".format(epochs).replace(".0", ""),
            "{:,} steps".format(settings.eval_steps) if settings.eval_steps else "0 steps: never",
            "{:,} steps".format(settings.save_steps), settings.max_save or "all")

    # -- evaluation

    def _answer(self, split, rows, prefix):
        """The checkpoint `prefix`'s `Predictions` for the rows of a split."""
        made = self._rows.records(split, rows)
        outputs = self._answering.all_records(made, prefix, "%s %s" % (self._task.name, split))
        return self._task.head.join(outputs, made.windows)

    def evaluate(self) -> None:
        """Prints the task's metrics for each file of `eval_split` and each checkpoint.

        Writes them to `eval_results_<split>.json` in the model directory, with tables of errors as
        text and as a plot.
        """
        evaluation, checkpoints = self._evaluation, self._checkpoints()
        by_split = []
        for split, rows in self._rows.of_split(self._settings.eval_split, True).items():
            baseline = evaluation.baseline(split, rows)
            results, answers = [], []
            for step, prefix in checkpoints:
                answers.append(self._answer(split, rows, prefix))
                result = evaluation.score(answers[-1], rows)
                evaluation.report(split, "step %d" % step, result, rows)
                results.append(dict(step=step, **result))
            best = evaluation.keep_results(split, rows, baseline, results)
            evaluation.keep_tables(split, rows, answers[results.index(best)].values)
            by_split.append(results)
        means = list(map(evaluation.mean, zip(*by_split)))
        self._best = checkpoints[means.index(evaluation.best(means))]

    # -- prediction

    def predict(self) -> None:
        """Writes the predictions for each file, also in the form of GLUE's server for its files.

        The checkpoint is the best one of those evaluated, or of those kept.

        Raises:
          UserError: some of several files are bad; the others have predictions.
        """
        settings, task = self._settings, self._task
        directory = settings.predict_dir or settings.model_dir
        chosen = self._best or best_checkpoint.chosen(settings.model_dir)
        assert chosen, "`prepare` refuses a directory without checkpoints"
        step, prefix = chosen
        found = self._rows.to_predict()
        for split, rows in found.items():
            answered = row_store.kept(row for row in rows if row.pairs)
            values = self._answer(split, answered, prefix).values
            prediction_files.write(
                directory, task, split, rows, values, step=step,
                threshold=settings.predict_threshold, output=settings.predict_output,
                is_official=not settings.predict_file and split not in settings.named_files)
        paths = readers.each_path(settings.predict_file or "")
        if settings.predict_file and len(found) < len(paths):
            raise UserError("input: %d of %d files are bad and have no predictions" % (
                len(paths) - len(found), len(paths)))
