"""Fine-tuning: a task's rows, a model directory, and what comes out of them."""

import dataclasses
import os
import sys
import time

from xlnet import files
from xlnet.batches import input_pipeline
from xlnet.engine import checkpoint, memory, reports, saving, selection, training
from xlnet.engine.inference import Answering
from xlnet.errors import UserError
from xlnet.finetuning import mixout, task_json
from xlnet.finetuning.model import ClassifierModel
from xlnet.finetuning.rows import Rows
from xlnet.tasks import encoding, prediction_files
from xlnet.tasks.evaluation import Evaluation


class Run:
    """A fine-tuning run: the rows of a task, a model directory, what comes out of it.

    Whatever the settings ask for is read and checked before anything is written.

    Args:
      settings, network, optimization: `ClassifierSettings`, `NetworkSettings`,
        `OptimizationSettings`. config: `XLNetConfig`. task: `Task`.
      tokenizer: `tokenization.Tokenizer`. devices: `distribution.Devices` to train on.
    """

    def __init__(self, settings, config, network, optimization, task, tokenizer, devices):
        self._settings = settings
        self._devices = devices
        self._config = config
        self._network = network
        self._task = task
        self._tokenizer = tokenizer
        self._description = task_json.describe(settings, task, tokenizer)
        self._rows = Rows(settings, task, tokenizer)
        self._check()
        self._optimization = self._steps(optimization)
        self._selection = selection.Selection(settings.model_dir, task.metrics[0],
                                              settings.patience)
        self._evaluation = Evaluation(task, settings.model_dir, settings.predict_threshold)
        weights = self._class_weights() if settings.class_weights else None
        model = ClassifierModel(config, task, network, self._optimization, settings,
                                self._description["head"], weights)
        self._estimator = training.make_estimator(
            model.model_fn, model_dir=settings.model_dir, seed=settings.seed, devices=devices)
        self._answering = Answering(
            model.answers,
            lambda path: self._rows.batches(path, batch_size=settings.eval_batch_size), devices)

    def _check(self):
        settings, model_dir = self._settings, self._settings.model_dir
        encoding.check_max_seq_length(settings.max_seq_length)
        training.run_config(self._network, is_training=True)
        if settings.freeze_layers > self._config.n_layer:
            raise UserError("freeze_layers is %d, but the network has %d layers"
                            % (settings.freeze_layers, self._config.n_layer))
        if settings.label_smoothing and not self._task.kind.smooths_labels:
            raise UserError("label_smoothing: task %s has no classes" % self._task.name)
        if settings.do_train:
            self._devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        prefixes = self._checkpoints()
        if not prefixes and not settings.do_train:
            raise UserError("model_dir: no checkpoint in %s; train with --do_train=True first"
                            % model_dir)
        for directory in (model_dir, os.path.join(model_dir, selection.BEST)):
            task_json.check(directory, self._description)
        if prefixes:
            checkpoint.check_config(prefixes[-1][1], self._config)
        elif settings.init_checkpoint:
            checkpoint.check_config(checkpoint.resolve(settings.init_checkpoint), self._config)
        if settings.do_train and settings.mixout:
            mixout.kernels(settings.init_checkpoint, model_dir)
        self._check_rows()

    def _check_rows(self):
        settings = self._settings
        if settings.do_train:
            self._train_rows = self._rows.to_train()
        if settings.do_eval or settings.do_train and settings.eval_steps:
            self._rows.of_split(settings.eval_split, need_labels=True)
        if settings.do_predict:
            self._rows.to_predict()

    def _class_weights(self):
        settings, task = self._settings, self._task
        rows = self._rows.of_split("train", need_labels=True)["train"] if settings.do_train \
            else None
        return task.kind.class_weights(settings.class_weights, task, rows)

    def _steps(self, optimization):
        """The optimization settings with epochs and the share of warm-up turned into steps."""
        settings = self._settings
        if settings.epochs and settings.do_train:
            rows = len(self._train_rows)
            optimization = dataclasses.replace(optimization, train_steps=max(
                1, round(settings.epochs * rows / settings.train_batch_size)))
        if optimization.warmup_share:
            optimization = dataclasses.replace(optimization, warmup_share=0.0, warmup_steps=round(
                optimization.warmup_share * optimization.train_steps))
        return optimization

    def _checkpoints(self):
        """(step, prefix) of what evaluation and prediction are asked to use, the newest last."""
        own = checkpoint.all_prefixes(self._settings.model_dir)
        if self._settings.eval_all_ckpt and own:
            return own
        best = checkpoint.all_prefixes(os.path.join(self._settings.model_dir, selection.BEST))
        return best if best and self._settings.use_checkpoint == "best" else own[-1:]

    # -- training

    def train(self):
        """Trains to the last step from wherever the run stands, or until patience is at an end.

        With `eval_steps` the model is evaluated on the way, and the best checkpoint exported.

        Returns:
          False if it was told to stop (SIGTERM) before that.
        """
        settings, last = self._settings, self._optimization.train_steps
        is_done = True
        step = checkpoint.newest_whole(settings.model_dir)
        if settings.eval_steps and step and self._selection.lacks(step, settings.eval_steps, last):
            self._select(step)             # the run was stopped between training and evaluation
        if step >= last:
            print("the run in %s has all of its %d steps" % (settings.model_dir, last))
        elif self._selection.is_over():
            print("the run in %s was stopped early, at step %d" % (settings.model_dir, step))
        else:
            made = self._rows.records("train", self._train_rows)
            training.keep_architecture(settings.model_dir, self._config, self._tokenizer)
            files.write_json(os.path.join(settings.model_dir, task_json.TASK_NAME),
                             self._description)
            is_done = self._train_from(step, made)
        self._note_collapse()
        return is_done

    def _train_from(self, step, made):
        """Trains on from `step` on `encoding.Records`; returns as `train`."""
        settings, last = self._settings, self._optimization.train_steps
        progress = reports.Progress(
            train_steps=last, log_steps=settings.log_steps, unit="examples",
            per_step=settings.train_batch_size, banner=self._banner(self._train_rows, step))
        saver = saving.Saving(
            settings.model_dir,
            memory.MemoryFiles(settings.model_dir, self._devices, settings.train_batch_size),
            self._devices, is_due=self._is_saved, max_save=settings.max_save, keep_every=0,
            after_save=lambda step: self._after_save(step, progress), save_start=True)

        def batches():
            return input_pipeline.for_replicas(self._rows.batches(
                made.path, is_training=True, num_examples=made.count,
                batch_size=settings.train_batch_size, shuffle_seed=settings.seed,
                start_step=step), self._devices.replicas)
        if settings.eval_steps:
            self._answering.build()
        training.train(
            self._estimator, batches, max_steps=last, devices=self._devices,
            hooks=[progress, saver, selection.StopHook(self._selection)])
        return self._say_end(saver.stopped_at)

    def _say_end(self, stopped_at):
        """Says why training ended before its last step, if it did; returns as `train`."""
        step = checkpoint.step_of(self._settings.model_dir)
        if stopped_at is not None:
            print("stopped by SIGTERM at step %d, saved; the same command goes on from there"
                  % stopped_at, flush=True)
        elif step < self._optimization.train_steps:
            print("stopped at step %d: no better %s in %d evaluations" % (
                step, self._task.metrics[0], self._settings.patience), flush=True)
        return stopped_at is None

    def _is_saved(self, step):
        return step % self._settings.save_steps == 0 or self._is_evaluated(step)

    def _is_evaluated(self, step):
        every = self._settings.eval_steps
        return bool(every and step) and (
            step % every == 0 or step == self._optimization.train_steps)

    def _after_save(self, step, progress):
        if self._is_evaluated(step):
            began = time.time()
            self._select(step)
            progress.leave_out(time.time() - began)

    def _select(self, step):
        """Evaluates the checkpoint of `step` and keeps it if it is the best so far."""
        prefix = dict(checkpoint.all_prefixes(self._settings.model_dir))[step]
        results = []
        for split, rows in self._rows.of_split(self._settings.eval_split, True).items():
            results.append(self._evaluation.score(self._answer(split, rows, prefix), rows))
            self._evaluation.report(split, "step %d" % step, results[-1], rows)
        result = self._evaluation.mean(results)
        if self._selection.add(step, result, selection.sidecar_files(self._settings.model_dir)):
            print("best so far: %s" % os.path.join(self._settings.model_dir, selection.BEST),
                  flush=True)

    def best(self):
        """The best evaluation while training, a dict; None without any."""
        return self._selection.best()

    def _note_collapse(self):
        best = self._selection.best()
        if best and best.get("collapsed"):
            print("note: the run collapsed to a constant answer, %s; try other seeds and rates "
                  "(num_trials), a lower learning_rate or more warm-up" % best["collapsed"],
                  file=sys.stderr)

    def _banner(self, rows, step):
        settings, task = self._settings, self._task
        start = "random weights"
        if step:
            start = "%s, step %d" % (settings.model_dir, step)
        elif settings.init_checkpoint:
            start = checkpoint.resolve(settings.init_checkpoint)
        return {
            "devices": self._devices.words,
            "precision": training.precision_in_words(self._network),
            "task": "%s: %s %s, %s" % (task.name, "{:,}".format(len(rows)),
                                       task.kind.training_unit(task), _outputs(task)),
            "length": "%d tokens, %s" % (settings.max_seq_length, settings.long_document),
            "batch": "%d examples over %d replicas of %d micro-batches; an epoch is %.1f steps" % (
                settings.train_batch_size, self._devices.replicas, settings.grad_accum_steps,
                len(rows) / settings.train_batch_size),
            "steps": "%d to %d, %d of warm-up" % (step, self._optimization.train_steps,
                                                  self._optimization.warmup_steps),
            "start": start,
            "model": "%r in %s" % (self._config, settings.model_dir),
        }

    # -- evaluation

    def _answer(self, split, rows, prefix):
        """The checkpoint `prefix`'s `Answers` to the rows of a split."""
        made = self._rows.records(split, rows)
        outputs = self._answering.all_records(made, prefix, "%s %s" % (self._task.name, split))
        return self._task.kind.join(self._task, outputs, made.windows)

    def evaluate(self):
        """Prints the task's metrics for each file of `eval_split` and each checkpoint asked for.

        Keeps them as `eval_results_<split>.json` in the model directory, and beside it tables of
        what was confused with what, as text and as a picture.
        """
        evaluation = self._evaluation
        for split, rows in self._rows.of_split(self._settings.eval_split, True).items():
            baseline = evaluation.baseline(split, rows)
            results, answers = [], []
            for step, prefix in self._checkpoints():
                answers.append(self._answer(split, rows, prefix))
                result = evaluation.score(answers[-1], rows)
                evaluation.report(split, "step %d" % step, result, rows)
                results.append(dict(step=step, **result))
            best = evaluation.keep_results(split, rows, baseline, results)
            evaluation.keep_tables(split, rows, answers[results.index(best)].values)

    # -- prediction

    def predict(self):
        """Writes the answers to each file asked for: for people and programs, and, where GLUE's
        server takes this file, for the server."""
        settings, task = self._settings, self._task
        directory = settings.predict_dir or settings.model_dir
        step, prefix = self._checkpoints()[-1]
        for split, rows in self._rows.to_predict().items():
            values = self._answer(split, rows, prefix).values
            prediction_files.write(
                directory, task, split, rows, values, step=step,
                threshold=settings.predict_threshold, is_official=not settings.predict_file)


def _outputs(task):
    """What the answers are and whether dev is part of the training file, in words."""
    return task.kind.words(task) + ("; %g %% of the file held out as dev" % (100 * task.dev_share)
                                    if task.dev_share else "")
