"""Fine-tuning: classification and regression of texts and pairs of texts.

Shape letters as in `modeling`; T tokens of an example, C classes.
"""

import collections
import contextlib
import dataclasses
import os
import time

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import (checkpoint, features, files, heads, input_pipeline, modeling, records, tasks,
                   training)
from xlnet.errors import UserError

TASK_NAME = "task.json"

# values: probabilities float32 [n,C] or scores float32 [n]; loss: float32 [n].
Answers = collections.namedtuple("Answers", "values loss")

_SECONDS_BETWEEN_LINES = 15


def finetuning_model_fn(config, *, network, optimization_settings, settings, num_classes, scope):
    """Returns the `model_fn` of classification and regression.

    Args:
      config: `XLNetConfig`. network, optimization_settings, settings: `NetworkSettings`,
        `OptimizationSettings`, `ClassifierSettings`.
      num_classes: C, or None for regression. scope: name of the output layer's variables.

    Predictions: `probabilities` [B,C] or `score` [B]; and `label_ids`, `loss`, `is_real_example`.
    """
    def model_fn(features, mode):
        is_training = mode == tf2.estimator.ModeKeys.TRAIN
        run = training.run_config(network, is_training)
        seed = training.dropout_seed(settings.seed, tf.train.get_global_step())
        padding = features["input_mask"]
        with tf.variable_scope("model"):
            sequence = modeling.transformer_xl(
                config, run, input_ids=features["input_ids"], seg_ids=features["segment_ids"],
                hidden=padding[:, None] > 0, seed=seed).sequence
            summary = modeling.summarize(
                config, run, sequence, summary_type=settings.summary_type, padding=padding,
                use_proj=settings.use_summ_proj, seed=seed)
            if num_classes is None:
                outputs = heads.regression(run, summary, features["label_ids"], scope=scope)
                answers = {"score": outputs.logits}
            else:
                outputs = heads.classification(run, summary, features["label_ids"],
                                               num_classes=num_classes, scope=scope)
                answers = {"probabilities": tf.nn.softmax(outputs.logits)}
        training.start_from(settings.init_checkpoint, config, settings.model_dir)
        if is_training:
            return training.training_spec(tf.reduce_mean(outputs.loss), optimization_settings)
        return tf2.estimator.EstimatorSpec(mode, predictions=dict(
            answers, loss=outputs.loss, label_ids=features["label_ids"],
            is_real_example=features["is_real_example"]))
    return model_fn


# ---- what a model directory was trained for ----

def head_scope(task, cls_scope=None):
    """Name of the output layer in a checkpoint: "classification_<task>" or "regression_<task>";
    `cls_scope` stands in for the task's name."""
    kind = "regression" if task.is_regression else "classification"
    return "%s_%s" % (kind, cls_scope) if cls_scope else task.head


def describe(settings, task, tokenizer):
    """What `task.json` says: all, beside the architecture, that predictions depend on."""
    return {
        "task": task.trained_as or task.name,
        "labels": None if task.is_regression else list(task.labels),
        "is_regression": task.is_regression,
        "head": head_scope(task, settings.cls_scope),
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
        "summary_type": settings.summary_type,
        "use_summ_proj": settings.use_summ_proj,
        "spiece_sha256": tokenizer.sha256,
        "max_seq_length": settings.max_seq_length,
    }


def check_description(model_dir, wanted):
    """Raises UserError where `model_dir` has checkpoints that were trained for something else.

    Any `max_seq_length` will do: the network has no positions of its own.
    """
    if not checkpoint.all_prefixes(model_dir):
        return
    path = os.path.join(model_dir, TASK_NAME)
    if not os.path.exists(path):
        raise UserError("model_dir: the checkpoints in %s are not run_classifier.py's (no %s); use "
                        "another model_dir and give this one as init_checkpoint"
                        % (model_dir, TASK_NAME))
    stored = files.read_json(path, "model_dir")
    different = ["%s %s, not %s" % (name, _words(stored.get(name)), _words(value))
                 for name, value in wanted.items()
                 if name != "max_seq_length" and stored.get(name) != value]
    if different:
        raise UserError("model_dir: %s has %s" % (path, "; ".join(different)))


def _words(value):
    return "/".join(value) if isinstance(value, list) else "none" if value is None else str(value)


def find_task(settings):
    """Returns the `tasks.Task` of the settings.

    Own files that are not trained on have the labels of the model, so that its directory and one
    file are enough to predict.
    """
    path = os.path.join(settings.model_dir, TASK_NAME)
    if settings.task_name.lower() != "tsv" or settings.do_train or settings.is_regression \
            or not os.path.exists(path):
        return tasks.get_task(settings)
    labels = files.read_json(path, "model_dir").get("labels")
    if not labels:
        raise UserError("model_dir: %s has is_regression True, not False" % path)
    scores = tasks.get_task(dataclasses.replace(settings, is_regression=True))
    return dataclasses.replace(scores, labels=tuple(labels), metrics=("accuracy", "macro_f1"))


class Run:
    """A fine-tuning run: the rows of a task, a model directory, what comes out of it.

    Whatever the settings ask for is read and checked before anything is written.

    Args:
      settings, network, optimization: `ClassifierSettings`, `NetworkSettings`,
        `OptimizationSettings`. config: `XLNetConfig`. task: `tasks.Task`.
      tokenizer: `tokenization.Tokenizer`.
    """

    def __init__(self, settings, config, network, optimization, task, tokenizer):
        self._settings = settings
        self._config = config
        self._network = network
        self._optimization = optimization
        self._task = task
        self._tokenizer = tokenizer
        self._description = describe(settings, task, tokenizer)
        self._rows = {}
        self._check()
        self._estimator = training.make_estimator(
            finetuning_model_fn(
                config, network=network, optimization_settings=optimization, settings=settings,
                num_classes=None if task.is_regression else len(task.labels),
                scope=self._description["head"]),
            model_dir=settings.model_dir, seed=settings.seed, save_steps=settings.save_steps,
            max_save=settings.max_save, log_steps=settings.log_steps)

    def _check(self):
        settings, model_dir = self._settings, self._settings.model_dir
        features.check_max_seq_length(settings.max_seq_length)
        training.run_config(self._network, is_training=True)
        prefixes = checkpoint.all_prefixes(model_dir)
        if not prefixes and not settings.do_train:
            raise UserError("model_dir: no checkpoint in %s; train with --do_train=True first"
                            % model_dir)
        check_description(model_dir, self._description)
        if prefixes:
            checkpoint.check_config(prefixes[-1][1], self._config)
        elif settings.init_checkpoint:
            checkpoint.check_config(checkpoint.resolve(settings.init_checkpoint), self._config)
        if settings.do_train:
            self._read("train", need_labels=True)
        if settings.do_eval:
            self._read(settings.eval_split, need_labels=True)
        if settings.do_predict:
            self._read(settings.predict_split, need_labels=False)

    def _read(self, split, need_labels):
        """The rows of each file that `split` stands for: dict of split to list of `tasks.Row`."""
        for part in tasks.expand_split(self._task, split):
            if (part, need_labels) not in self._rows:
                self._rows[part, need_labels] = tasks.read_rows(
                    self._task, self._settings.data_dir, part, need_labels)
        return {part: self._rows[part, need_labels]
                for part in tasks.expand_split(self._task, split)}

    def _batches(self, split, rows, **how):
        """The input function of a split's rows, from records that are made at most once."""
        settings, task = self._settings, self._task
        path = features.write_records(
            settings.output_dir, "%s.%s" % (task.name, split), tasks.examples(task, rows),
            self._tokenizer, settings.max_seq_length, labels=task.labels,
            overwrite=settings.overwrite_data)
        layout = records.finetuning_features(settings.max_seq_length, task.is_regression)
        return lambda: input_pipeline.finetuning_batches(path, layout, **how)

    # -- training

    def train(self):
        """Trains to the last step from wherever the run stands."""
        settings, last = self._settings, self._optimization.train_steps
        rows = self._read("train", need_labels=True)["train"]
        step = checkpoint.step_of(settings.model_dir)
        if step >= last:
            print("the run in %s has all of its %d steps" % (settings.model_dir, last))
            return
        batches = self._batches("train", rows, batch_size=settings.train_batch_size,
                                shuffle_seed=settings.seed, start_step=step)
        training.keep_architecture(settings.model_dir, self._config, self._tokenizer)
        files.write_json(os.path.join(settings.model_dir, TASK_NAME), self._description)
        progress = training.Progress(
            train_steps=last, log_steps=settings.log_steps, per_step=settings.train_batch_size,
            unit="examples", banner=self._banner(rows, step))
        self._estimator.train(batches, max_steps=last, hooks=[progress])

    def _banner(self, rows, step):
        settings, task = self._settings, self._task
        labels = "scores" if task.is_regression else "labels " + ", ".join(task.labels)
        start = "random weights"
        if step:
            start = "%s, step %d" % (settings.model_dir, step)
        elif settings.init_checkpoint:
            start = checkpoint.resolve(settings.init_checkpoint)
        return {
            "devices": training.devices(),
            "precision": "bfloat16" if self._network.use_bfloat16 else "float32",
            "task": "%s: %s rows, %s" % (task.name, "{:,}".format(len(rows)), labels),
            "length": "%d tokens" % settings.max_seq_length,
            "batch": "%d examples; an epoch is %.1f steps" % (
                settings.train_batch_size, len(rows) / settings.train_batch_size),
            "steps": "%d to %d, %d of warm-up" % (step, self._optimization.train_steps,
                                                  self._optimization.warmup_steps),
            "start": start,
            "model": "%r in %s" % (self._config, settings.model_dir),
        }

    # -- answers

    def _answer(self, split, rows, prefix):
        """Runs the checkpoint `prefix` over all rows of a split, in order; returns `Answers`."""
        batches = self._batches(split, rows, batch_size=self._settings.eval_batch_size)
        key = "score" if self._task.is_regression else "probabilities"
        parts, done, began, said = [], 0, time.time(), time.time()
        with _reading(prefix):
            for batch in self._estimator.predict(batches, checkpoint_path=prefix,
                                                 yield_single_examples=False):
                parts.append(_real_rows(batch))
                done += len(batch[key])
                if time.time() - said > _SECONDS_BETWEEN_LINES:
                    said = time.time()
                    print("%s %s  %d/%d rows  left %s" % (
                        self._task.name, split, done, len(rows),
                        training.clock((said - began) / done * (len(rows) - done))), flush=True)
        answers = Answers(*(np.concatenate([part[name] for part in parts])
                            for name in (key, "loss")))
        if len(answers.loss) != len(rows):
            raise RuntimeError("%s %s: %d answers to %d rows"
                               % (self._task.name, split, len(answers.loss), len(rows)))
        return answers

    # -- evaluation

    def evaluate(self):
        """Prints the task's metrics for each file of `eval_split` and each checkpoint asked for.

        Keeps them as `eval_results_<split>.json` in the model directory.
        """
        settings = self._settings
        checkpoints = checkpoint.all_prefixes(settings.model_dir)
        if not settings.eval_all_ckpt:
            checkpoints = checkpoints[-1:]
        for split, rows in self._read(settings.eval_split, need_labels=True).items():
            labels = tasks.label_ids(self._task, rows)
            baseline = tasks.majority_baseline(self._task, labels)
            self._report(split, "mean score" if self._task.is_regression else "majority class",
                         baseline, rows)
            results = []
            for step, prefix in checkpoints:
                result = self._score(self._answer(split, rows, prefix), labels)
                self._report(split, "step %d" % step, result, rows)
                results.append(dict(step=step, **result))
            self._keep_results(split, rows, baseline, results)

    def _score(self, answers, labels):
        """The task's metrics and the mean loss over the whole of a split, a dict of floats."""
        values = answers.values
        predictions = values if self._task.is_regression else values.argmax(axis=1)
        metrics = tasks.evaluate(self._task, predictions, labels)
        return dict(metrics, loss=float(np.mean(answers.loss, dtype=np.float64)))

    def _report(self, split, what, metrics, rows):
        print("eval %s %s  %s  %s  (%d rows)" % (
            self._task.name, split, what,
            "  ".join("%s %.4f" % item for item in metrics.items()), len(rows)), flush=True)

    def _keep_results(self, split, rows, baseline, results):
        main_metric = self._task.metrics[0]
        best = max(results, key=lambda result: result[main_metric])  # the earliest of equal ones
        if len(results) > 1:
            print("best %s %s  step %d  %s %.4f" % (
                self._task.name, split, best["step"], main_metric, best[main_metric]), flush=True)
        path = os.path.join(self._settings.model_dir, "eval_results_%s.json" % split)
        files.write_json(path, {
            "task": self._task.name, "split": split, "rows": len(rows), "baseline": baseline,
            "best_step": best["step"], "checkpoints": results})

    # -- prediction

    def predict(self):
        """Writes the newest checkpoint's answers to each file of `predict_split`: for people and
        programs, and, where GLUE's server takes this file, for the server."""
        settings, task = self._settings, self._task
        directory = settings.predict_dir or settings.model_dir
        step, prefix = checkpoint.all_prefixes(settings.model_dir)[-1]
        for split, rows in self._read(settings.predict_split, need_labels=False).items():
            values = self._answer(split, rows, prefix).values
            path = os.path.join(directory, "predictions_%s_%s.tsv" % (task.name, split))
            tasks.write_predictions(path, task, rows, values)
            print("predicted %s %s  step %d  (%d rows): %s" % (
                task.name, split, step, len(rows), path), flush=True)
            if split in task.submissions:
                path = os.path.join(directory, task.submissions[split])
                tasks.write_submission(path, task, rows, values)
                print("for the GLUE server: %s" % path, flush=True)


def _real_rows(batch):
    """Leaves out of a dict of arrays [B,...] the rows that only fill up the batch."""
    is_real = batch["is_real_example"] > 0
    return {name: values[is_real] for name, values in batch.items()}


@contextlib.contextmanager
def _reading(path):
    """Turns what TensorFlow says of a checkpoint that is not whole into a `UserError`."""
    try:
        yield
    except (tf.errors.NotFoundError, tf.errors.DataLossError) as e:
        message = e.message.strip().split("\n")[0]
        raise UserError("%s cannot be read: %s" % (path, message)) from None
