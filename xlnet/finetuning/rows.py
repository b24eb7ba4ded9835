"""The rows of a fine-tuning run: read once and checked, written as records, read as batches.

Shape letters: L labels.
"""

import dataclasses
import os

import numpy as np

from xlnet.batches import input_pipeline
from xlnet.errors import UserError, did_you_mean
from xlnet.finetuning import features, metrics, ranking, task_files, tasks
from xlnet.records import feature_spec

_ROUND_TO = 8            # lengths of batches are multiples of it [tokens]


class Rows:
    """The rows of a task that the settings ask for.

    Args:
      settings: `ClassifierSettings`. task: `tasks.Task`. tokenizer: `tokenization.Tokenizer`.
    """

    def __init__(self, settings, task, tokenizer):
        self._settings = settings
        self._task = task
        self._tokenizer = tokenizer
        self._layout = features.Layout(row_length(settings), task.cut_first,
                                       settings.long_document)
        self._read = {}

    def of_split(self, split, need_labels):
        """The rows of each file that `split` stands for: dict of split to list of `tasks.Row`."""
        for part in tasks.expand_split(self._task, split):
            if (part, need_labels) not in self._read:
                self._read[part, need_labels] = task_files.read_rows(
                    self._task, self._settings.data_dir, part, need_labels)
        return {part: self._read[part, need_labels]
                for part in tasks.expand_split(self._task, split)}

    def to_train(self):
        """The rows that are trained on: those of the train file, or pairs made of them."""
        settings, rows = self._settings, self.of_split("train", need_labels=True)["train"]
        if not self._task.pairwise:
            return rows
        pairs = ranking.pair_rows(rows, settings.pairs_per_query, settings.seed)
        if not pairs:
            raise UserError("data_dir: no query of the train file in %s has documents of different "
                            "grades, which ranking_loss pairwise compares" % settings.data_dir)
        return pairs

    def to_predict(self):
        """Rows to be predicted: of `predict_file` if there is one, or of `predict_split`."""
        settings = self._settings
        if not settings.predict_file:
            return self.of_split(settings.predict_split, need_labels=False)
        path = settings.predict_file
        name = "stdin" if path == "-" else os.path.splitext(os.path.basename(path))[0]
        if name not in self._read:
            form = settings.predict_form or ("text" if path == "-" or path.endswith(".txt")
                                             else None)
            self._read[name] = task_files.read_file(
                dataclasses.replace(self._task, only={}, skipped_labels=(), broken_rows=False),
                path, need_labels=False, form=form)
        return {name: self._read[name]}

    def records(self, split, rows):
        """The records of a split's rows, made at most once: `features.Records`."""
        settings, task = self._settings, self._task
        labels = metrics.label_array(task, rows).tolist()
        examples = [features.Example(row.pairs, label) for row, label in zip(rows, labels)]
        return features.write_records(
            settings.output_dir, "%s.%s" % (task.name, split), examples, self._tokenizer,
            self._layout, labels=task.labels, num_labels=self._num_labels(),
            workers=settings.data_workers or os.cpu_count() or 1,
            overwrite=settings.overwrite_data)

    def batches(self, path, is_training=False, **how):
        """A `tf.data.Dataset` of the batches of a record file; `how` is as in
        `input_pipeline.finetuning_batches`."""
        settings, length = self._settings, self._layout.max_seq_length
        layout = feature_spec.finetuning_features(
            length, self._task.is_regression, num_labels=self._num_labels(),
            num_choices=self._task.num_choices(is_training))
        multiple = length if settings.padding == "fixed" else \
            settings.max_seq_length if settings.long_document == "memory" else _ROUND_TO
        return input_pipeline.finetuning_batches(
            path, layout, row_length=length, multiple=multiple, **how)

    def _num_labels(self):
        return len(self._task.labels) if self._task.multi_label else 0


def row_length(settings):
    """Tokens of one text or choice in a record: those of all segments where there are several."""
    return settings.max_seq_length * (
        settings.max_segments if settings.long_document == "memory" else 1)


def class_weights(text, task, rows):
    """The weight of each label in the training loss, floats [L], or None.

    Args:
      text: "balanced" (rows / (L * rows of the label), so that labels count alike), or
        "label:weight,...", 1 for labels that are not named. None: no weights.
      rows: those of the train file; None where nothing is trained, so that none weigh.
    """
    if not text:
        return None
    if task.kind != "classification":
        raise UserError("class_weights: task %s is no classification into classes" % task.name)
    if text == "balanced":
        if rows is None:
            return None
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
