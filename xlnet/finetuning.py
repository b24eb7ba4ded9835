"""Fine-tuning: a task's rows, a model directory, and what comes out of them.

Shape letters: n rows, L labels.
"""

import collections
import dataclasses
import os
import sys
import time

import numpy as np

from xlnet import (checkpoint, features, files, input_pipeline, memory, metrics, mixout,
                   own_data, predictions, ranking, records, reports, saving, selection, task_files,
                   tasks, training)
from xlnet.answering import Answering
from xlnet.classifier_model import ClassifierModel
from xlnet.errors import UserError, did_you_mean

TASK_NAME = "task.json"

# values: probabilities float32 [n,L] or scores float32 [n]; loss: float32 [n].
Answers = collections.namedtuple("Answers", "values loss")

_SECONDS_BETWEEN_LINES = 15
_LABELS_SHOWN = 20       # tables of more labels are written but not printed
_BASELINES = {"regression": "mean score", "ranking": "random order"}
_ROUND_TO = 8            # lengths of batches are multiples of it [tokens]


# ---- what a model directory was trained for ----

def head_scope(task, cls_scope=None):
    """Name of the output layer in a checkpoint: "classification_<task>" or "regression_<task>";
    `cls_scope` stands in for the task's name."""
    return tasks.head_name(task, cls_scope) if cls_scope else task.head


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
        "long_document": settings.long_document,
        "kind": task.kind,
    }


# The network has no positions of its own, so any length and any number of windows will do; labels
# and the output layer's name tell the kind of task.
_MAY_DIFFER = ("max_seq_length", "long_document", "kind")


def check_description(model_dir, wanted):
    """Raises UserError where `model_dir` has checkpoints that were trained for something else."""
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
                 if name not in _MAY_DIFFER and stored.get(name) != value]
    if different:
        raise UserError("model_dir: %s has %s" % (path, "; ".join(different)))


def _words(value):
    return "/".join(value) if isinstance(value, list) else "none" if value is None else str(value)


def find_task(settings):
    """Returns the `tasks.Task` of the settings.

    Own files that are not trained on have the labels of the model, so that its directory and one
    file are enough to predict.
    """
    for directory in (settings.model_dir, os.path.join(settings.model_dir, selection.BEST)):
        path = os.path.join(directory, TASK_NAME)
        has_labels = not settings.is_regression and not settings.query_id_column
        if not settings.do_train and has_labels and os.path.exists(path):
            labels = files.read_json(path, "model_dir").get("labels")
            if not labels and tasks.plain(settings.task_name) == tasks.CUSTOM:
                raise UserError("model_dir: %s has is_regression True, not False" % path)
            return own_data.get_task(settings, labels)
    return own_data.get_task(settings)


def row_length(settings):
    """Tokens of one text or choice in a record: those of all segments where there are several."""
    return settings.max_seq_length * (
        settings.max_segments if settings.long_document == "memory" else 1)


def class_weights(text, task, rows):
    """The weight of each label in the training loss, floats [L], or None.

    Args:
      text: "balanced" (rows / (L * rows of the label), so that labels count alike), or
        "label:weight,...", 1 for labels that are not named. None: no weights.
    """
    if not text:
        return None
    if task.kind != "classification":
        raise UserError("class_weights: task %s is no classification into classes" % task.name)
    if text == "balanced":
        counts = np.bincount(metrics.label_array(task, rows), minlength=len(task.labels))
        return (len(rows) / (len(task.labels) * np.maximum(counts, 1))).tolist()
    weights = dict.fromkeys(task.labels, 1.0)
    for part in text.split(","):
        name, _, weight = part.rpartition(":")
        if name not in weights:
            raise UserError("class_weights: no label '%s'%s (labels: %s)" % (
                name, did_you_mean(name, weights), ", ".join(weights)))
        try:
            weights[name] = float(weight)
        except ValueError:
            raise UserError("class_weights: '%s' is not a number" % weight) from None
    return list(weights.values())


class Run:
    """A fine-tuning run: the rows of a task, a model directory, what comes out of it.

    Whatever the settings ask for is read and checked before anything is written.

    Args:
      settings, network, optimization: `ClassifierSettings`, `NetworkSettings`,
        `OptimizationSettings`. config: `XLNetConfig`. task: `tasks.Task`.
      tokenizer: `tokenization.Tokenizer`. devices: `distribution.Devices` to train on.
    """

    def __init__(self, settings, config, network, optimization, task, tokenizer, devices):
        self._settings = settings
        self._devices = devices
        self._config = config
        self._network = network
        self._task = task
        self._tokenizer = tokenizer
        self._description = describe(settings, task, tokenizer)
        self._layout = features.Layout(row_length(settings), task.cut_first,
                                       settings.long_document)
        self._rows = {}
        self._check()
        self._optimization = self._steps(optimization)
        self._selection = selection.Selection(settings.model_dir, task.metrics[0],
                                              settings.patience)
        weights = class_weights(settings.class_weights, task, self._rows.get(("train", True)))
        model = ClassifierModel(config, task, network, self._optimization, settings,
                                self._description["head"], weights)
        self._estimator = training.make_estimator(
            model.model_fn, model_dir=settings.model_dir, seed=settings.seed, devices=devices)
        self._answering = Answering(
            model.answers,
            lambda path: self._batches(path, batch_size=settings.eval_batch_size)(), devices)

    def _check(self):
        settings, model_dir = self._settings, self._settings.model_dir
        features.check_max_seq_length(settings.max_seq_length)
        training.run_config(self._network, is_training=True)
        if settings.freeze_layers > self._config.n_layer:
            raise UserError("freeze_layers is %d, but the network has %d layers"
                            % (settings.freeze_layers, self._config.n_layer))
        if settings.label_smoothing and self._task.is_regression:
            raise UserError("label_smoothing: task %s has no classes" % self._task.name)
        if settings.do_train:
            self._devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        prefixes = self._checkpoints()
        if not prefixes and not settings.do_train:
            raise UserError("model_dir: no checkpoint in %s; train with --do_train=True first"
                            % model_dir)
        for directory in (model_dir, os.path.join(model_dir, selection.BEST)):
            check_description(directory, self._description)
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
            self._read("train", need_labels=True)
            self._train_rows = self._to_train()
        if settings.do_eval or settings.do_train and settings.eval_steps:
            self._read(settings.eval_split, need_labels=True)
        if settings.do_predict:
            self._to_predict()

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

    def _to_train(self):
        """The rows that are trained on: those of the train file, or pairs made of them."""
        settings, rows = self._settings, self._rows["train", True]
        if not self._task.pairwise:
            return rows
        pairs = ranking.pair_rows(rows, settings.pairs_per_query, settings.seed)
        if not pairs:
            raise UserError("data_dir: no query of the train file in %s has documents of different "
                            "grades, which ranking_loss pairwise compares" % settings.data_dir)
        return pairs

    def _read(self, split, need_labels):
        """The rows of each file that `split` stands for: dict of split to list of `tasks.Row`."""
        for part in tasks.expand_split(self._task, split):
            if (part, need_labels) not in self._rows:
                self._rows[part, need_labels] = task_files.read_rows(
                    self._task, self._settings.data_dir, part, need_labels)
        return {part: self._rows[part, need_labels]
                for part in tasks.expand_split(self._task, split)}

    def _checkpoints(self):
        """(step, prefix) of what evaluation and prediction are asked to use, the newest last."""
        own = checkpoint.all_prefixes(self._settings.model_dir)
        if self._settings.eval_all_ckpt and own:
            return own
        best = checkpoint.all_prefixes(os.path.join(self._settings.model_dir, selection.BEST))
        return best if best and self._settings.use_checkpoint == "best" else own[-1:]

    def _records(self, split, rows):
        """The records of a split's rows, made at most once."""
        settings, task = self._settings, self._task
        labels = metrics.label_array(task, rows).tolist()
        examples = [features.Example(row.pairs, label) for row, label in zip(rows, labels)]
        return features.write_records(
            settings.output_dir, "%s.%s" % (task.name, split), examples, self._tokenizer,
            self._layout, labels=task.labels, num_labels=self._num_labels(),
            workers=settings.data_workers or os.cpu_count() or 1,
            overwrite=settings.overwrite_data)

    def _num_labels(self):
        return len(self._task.labels) if self._task.multi_label else 0

    def _batches(self, path, is_training=False, **how):
        """The input function of a record file."""
        settings, length = self._settings, self._layout.max_seq_length
        layout = records.finetuning_features(
            length, self._task.is_regression, num_labels=self._num_labels(),
            num_choices=self._task.num_choices(is_training))
        multiple = length if settings.padding == "fixed" else \
            settings.max_seq_length if settings.long_document == "memory" else _ROUND_TO
        return lambda: input_pipeline.finetuning_batches(
            path, layout, row_length=length, multiple=multiple, **how)

    # -- training

    def train(self):
        """Trains to the last step from wherever the run stands, or until patience is at an end.

        With `eval_steps` the model is evaluated on the way, and the best checkpoint exported.

        Returns:
          False if it was told to stop (SIGTERM) before that.
        """
        settings, last = self._settings, self._optimization.train_steps
        rows, is_done = self._train_rows, True
        step = checkpoint.newest_whole(settings.model_dir)
        if settings.eval_steps and step and self._selection.lacks(step, settings.eval_steps, last):
            self._select(step)             # the run was stopped between training and evaluation
        if step >= last:
            print("the run in %s has all of its %d steps" % (settings.model_dir, last))
        elif self._selection.is_over():
            print("the run in %s was stopped early, at step %d" % (settings.model_dir, step))
        else:
            made = self._records("train", rows)
            count = len(rows) if made.windows is None else int(made.windows.sum())
            training.keep_architecture(settings.model_dir, self._config, self._tokenizer)
            files.write_json(os.path.join(settings.model_dir, TASK_NAME), self._description)
            is_done = self._train_from(step, made.path, count)
        self._note_collapse()
        return is_done

    def _train_from(self, step, path, count):
        """Trains on from `step` on a file of `count` records; returns as `train`."""
        settings, last = self._settings, self._optimization.train_steps
        progress = reports.Progress(
            train_steps=last, log_steps=settings.log_steps, unit="examples",
            per_step=settings.train_batch_size, banner=self._banner(self._train_rows, step))
        saver = saving.Saving(
            settings.model_dir,
            memory.MemoryFiles(settings.model_dir, self._devices, settings.train_batch_size),
            self._devices, is_due=self._is_saved, max_save=settings.max_save, keep_every=0,
            after_save=lambda step: self._after_save(step, progress), save_start=True)
        batches = self._batches(path, is_training=True, num_examples=count,
                                batch_size=settings.train_batch_size, shuffle_seed=settings.seed,
                                start_step=step)
        if settings.eval_steps:
            self._answering.build()
        training.train(
            self._estimator,
            lambda: input_pipeline.for_replicas(batches(), self._devices.replicas),
            hooks=[progress, saver, selection.StopHook(self._selection)], max_steps=last,
            devices=self._devices)
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
        for split, rows in self._read(self._settings.eval_split, need_labels=True).items():
            results.append(self._score(self._answer(split, rows, prefix), rows))
            self._report(split, "step %d" % step, results[-1], rows)
        # Of a split of several files the mean; it has collapsed where all of them have.
        result = {name: float(np.mean([one[name] for one in results]))
                  for name in (*self._task.metrics, "loss")}
        if all("collapsed" in one for one in results):
            result["collapsed"] = results[0]["collapsed"]
        if self._selection.add(step, result, selection.companions(self._settings.model_dir)):
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
                                       "pairs" if task.pairwise else "rows", _outputs(task)),
            "length": "%d tokens, %s" % (settings.max_seq_length, settings.long_document),
            "batch": "%d examples over %d replicas of %d micro-batches; an epoch is %.1f steps" % (
                settings.train_batch_size, self._devices.replicas, settings.grad_accum_steps,
                len(rows) / settings.train_batch_size),
            "steps": "%d to %d, %d of warm-up" % (step, self._optimization.train_steps,
                                                  self._optimization.warmup_steps),
            "start": start,
            "model": "%r in %s" % (self._config, settings.model_dir),
        }

    # -- answers

    def _answer(self, split, rows, prefix):
        """Runs the checkpoint `prefix` over all rows of a split, in order; returns `Answers`."""
        made = self._records(split, rows)
        total = len(rows) if made.windows is None else int(made.windows.sum())
        parts, done, began, said = [], 0, time.time(), time.time()
        for batch in self._answering(made.path, prefix):
            parts.append(_real_rows(batch))
            done += len(parts[-1]["loss"])
            if time.time() - said > _SECONDS_BETWEEN_LINES:
                said = time.time()
                print("%s %s  %d/%d rows  left %s" % (
                    self._task.name, split, done, total,
                    reports.clock((said - began) / done * (total - done))), flush=True)
        if done != total:
            raise RuntimeError("%s %s: %d answers to %d rows"
                               % (self._task.name, split, done, total))
        return _in_order(parts, made.windows)

    # -- evaluation

    def evaluate(self):
        """Prints the task's metrics for each file of `eval_split` and each checkpoint asked for.

        Keeps them as `eval_results_<split>.json` in the model directory, and beside it tables of
        what was confused with what, as text and as a picture.
        """
        checkpoints = self._checkpoints()
        for split, rows in self._read(self._settings.eval_split, need_labels=True).items():
            baseline = metrics.baseline(self._task, metrics.label_array(self._task, rows),
                                        self._queries(rows))
            self._report(split, _BASELINES.get(self._task.kind, "majority class"), baseline, rows)
            results, answers = [], []
            for step, prefix in checkpoints:
                answers.append(self._answer(split, rows, prefix))
                result = self._score(answers[-1], rows)
                self._report(split, "step %d" % step, result, rows)
                results.append(dict(step=step, **result))
            best = self._keep_results(split, rows, baseline, results)
            self._keep_tables(split, rows, answers[results.index(best)].values)

    def _score(self, answers, rows):
        """The task's metrics and the mean loss over the whole of a split, a dict of floats; and
        `collapsed`, in words, if the answer is always the same."""
        labels = metrics.label_array(self._task, rows)
        queries = self._queries(rows)
        result = metrics.evaluate(self._task, answers.values, labels,
                                  self._settings.predict_threshold, queries)
        result["loss"] = ranking.pair_loss(answers.values, labels, queries) \
            if self._task.pairwise else float(np.mean(answers.loss, dtype=np.float64))
        collapsed = metrics.collapsed(self._task, answers.values, labels)
        return dict(result, collapsed=collapsed) if collapsed else result

    def _queries(self, rows):
        """Which rows are ranked together; None where none are."""
        return ranking.by_query(rows) if self._task.kind == "ranking" else None

    def _report(self, split, what, result, rows):
        numbers = "  ".join("%s %.4f" % item for item in result.items() if item[0] != "collapsed")
        print("eval %s %s  %s  %s  (%d rows)%s" % (
            self._task.name, split, what, numbers, len(rows),
            "  collapsed: " + result["collapsed"] if "collapsed" in result else ""), flush=True)

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
        return best

    def _keep_tables(self, split, rows, values):
        """Writes the table of classes, and the confusion matrix if a row has one label."""
        task, directory = self._task, self._settings.model_dir
        if task.is_regression:
            return
        labels = metrics.label_array(task, rows)
        decided = metrics.decide(task, values, self._settings.predict_threshold)
        text = metrics.class_table(task, decided, labels)
        if not task.multi_label:
            matrix = metrics.confusion_matrix(task, decided, labels)
            text += "\n\n" + metrics.confusion_text(task, matrix)
            metrics.draw_confusion(os.path.join(directory, "confusion_%s.png" % split), task,
                                   matrix)
        files.write_text(os.path.join(directory, "eval_table_%s.txt" % split), text + "\n")
        if len(task.labels) <= _LABELS_SHOWN:
            print(text, flush=True)

    # -- prediction

    def _to_predict(self):
        """Rows to be predicted: of `predict_file` if there is one, or of `predict_split`."""
        settings = self._settings
        if not settings.predict_file:
            return self._read(settings.predict_split, need_labels=False)
        path = settings.predict_file
        name = "stdin" if path == "-" else os.path.splitext(os.path.basename(path))[0]
        if name not in self._rows:
            form = settings.predict_form or ("text" if path == "-" or path.endswith(".txt")
                                             else None)
            self._rows[name] = task_files.read_file(
                dataclasses.replace(self._task, only={}, skipped_labels=(), broken_rows=False),
                path, need_labels=False, form=form)
        return {name: self._rows[name]}

    def predict(self):
        """Writes the answers to each file asked for: for people and programs, and, where GLUE's
        server takes this file, for the server."""
        settings, task = self._settings, self._task
        directory = settings.predict_dir or settings.model_dir
        step, prefix = self._checkpoints()[-1]
        for split, rows in self._to_predict().items():
            values = self._answer(split, rows, prefix).values
            path = os.path.join(directory, "predictions_%s_%s.tsv" % (task.name, split))
            predictions.write_predictions(path, task, rows, values, settings.predict_threshold)
            print("predicted %s %s  step %d  (%d rows): %s" % (
                task.name, split, step, len(rows), path), flush=True)
            if task.kind == "ranking":
                path = os.path.join(directory, "predictions_%s_%s.run" % (task.name, split))
                predictions.write_run(path, rows, values)
                print("as a TREC run: %s" % path, flush=True)
            if split in task.submissions and not settings.predict_file:
                path = os.path.join(directory, task.submissions[split])
                predictions.write_submission(path, task, rows, values)
                print("for the GLUE server: %s" % path, flush=True)


def _outputs(task):
    """What the answers are and whether dev is part of the training file, in words."""
    if task.kind == "ranking":
        words = "scores of documents, trained on %s" % (
            "pairs of them" if task.pairwise else "their grades")
    elif task.is_regression:
        words = "scores"
    else:
        more = ", ..." if len(task.labels) > _LABELS_SHOWN else ""
        words = "labels " + ", ".join(task.labels[:_LABELS_SHOWN]) + more
    return words + ("; %g %% of the file held out as dev" % (100 * task.dev_share)
                    if task.dev_share else "")


def _real_rows(batch):
    """Leaves out of a dict of arrays [B,...] the rows that only fill up the batch."""
    is_real = batch["is_real_example"] > 0
    return {name: values[is_real] for name, values in batch.items()}


def _in_order(parts, windows):
    """Joins batches into `Answers` in the order of the rows; the mean over each row's windows."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined["number"], kind="stable")
    answers = [joined[name][order] for name in ("values", "loss")]
    if windows is None:
        return Answers(*answers)
    starts = np.concatenate([[0], np.cumsum(windows)[:-1]])
    return Answers(*(np.add.reduceat(each, starts, axis=0)
                     / windows.reshape([-1] + [1] * (each.ndim - 1)) for each in answers))
