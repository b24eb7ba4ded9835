"""What a task is: its declared fields (`tasks.task`), the reading of its files (`files.parsing`),
and the methods of its type, a subclass of `Task` here.

In this order: labels and decisions; files to records; the output layer with its loss and its
outputs; predictions, metrics, tables and files. A type is given to `xlnet.tasks.register`. Behind
`Task` are the types whose examples are rows of a table:

| type | label of a row | output | loss | decision | first metric |
|---|---|---|---|---|---|
| classification | one of L names | L probabilities | softmax | the most probable one | accuracy |
| multi-label | any of L names | L probabilities | L logistic | those above a threshold | F1 |
| regression | a number | a score | squared error | the score | Pearson correlation |
| multiple choice | one of C | C probabilities | softmax | the most probable one | accuracy |

Build the output layer from `nn` (`model.heads.HeadBuilder`). Import TensorFlow in the functions
that use it: files are read and checked without it.

Shape letters: n rows, m records, L labels, C choices, B records of a batch, T tokens, D width.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import re
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xlnet.corpus.record_files import Feature
from xlnet.support.errors import wrong
from xlnet.tasks import encoding, metrics
from xlnet.tasks.files.forms import (
    composed,
    parsed,
    require_text,
    to_number,
    to_text,
)
from xlnet.tasks.files.parsing import TableReader
from xlnet.tasks.metrics import Metric
from xlnet.tasks.task import Choice, Label, Labels, Names, Row

# Of a label's probability, where labels are independent or there are two.
THRESHOLD = 0.5
LABELS_SHOWN = 20  # maximum number of labels that are named, and whose tables are shown

# Options of the loss in training. class_weights: floats [L], weights of the rows by their label, or
# of each of several labels that a row has; None: all 1.
LossOptions = collections.namedtuple(
    "LossOptions", "label_smoothing class_weights", defaults=(0.0, None)
)

# The predictions of a checkpoint for n rows. values: probabilities float32 [n,L], scores float32
# [n], or what else the methods of the same type take. loss: the mean loss of the records of each
# row, float32 [n].
Predictions = collections.namedtuple("Predictions", "values loss")


class Task(TableReader):
    """A task of one type. A type has a name, what its labels mean, the loss and the metrics; and
    where it differs in more, any other method.

    Attributes:
      kind: the name of the type, in `run.json` and in `known.TASK_TYPES`.
      measures: functions of (labels, decisions, values) to a float, called by their names.
      default_metrics: those of own data; the first selects checkpoints. Higher is better.
      activation: the function of `tf.nn` that makes values of logits; "": they are the logits.
      loss_options: whether the loss uses its `LossOptions`.
      column: what predictions are called in their file.
      has_labels: whether a task has a list of labels.
      layer: what the output layer is called, "{}" in it being the task; "": after the type and the
        task.
      verb: the method of a loaded model that calls it.
      program: the program that trains it.
      padding: where the padding of a record is, and which features have a value per token, [T].
      target_features: features for `loss` alone.
    """

    kind = ""
    measures: tuple[Metric, ...] = ()
    default_metrics: Names = ()
    activation = ""
    loss_options = False
    column = "label"
    has_labels = False
    layer = ""
    verb = "classify"
    program = "xlnet classify"
    padding = encoding.Padding()
    target_features: Names = ("label_ids",)

    # -- labels and decisions

    def targets(self, rows: Sequence[Row]) -> Any:
        """The labels of rows as numbers, an array [n, ...] of int32 or float32: ids [n], 0 and 1
        [n,L], scores [n]; 0 where a row has none. None: they are not numbers. The output layer has
        L outputs, or one for a score."""
        return None

    def decide(self, values: np.ndarray, threshold: float) -> Any:
        """The predicted labels, in the form of `targets`. threshold: minimum probability of a label
        of several, and of the second one of two."""
        return values

    def label_of(self, decision: Any) -> Any:
        """The label of a decision, in the form of `parse_label`."""
        return float(decision)

    @property
    def label_shape(self) -> tuple[int, ...] | None:
        """The shape of a row's label as numbers: () of an id or a score, (L,) of several; None: it
        is not numbers."""
        of_none = self.targets(())
        return None if of_none is None else of_none.shape[1:]

    # -- files to records

    def from_train_file(self, path: str) -> Task:
        """The task with what its train file determines: its labels, which are the columns of
        several, or the names in one; numbers by size, others in alphabetical order."""
        columns = self.columns.label
        if len(columns) > 1 and self.label_shape:
            return dataclasses.replace(self, labels=columns)
        names = set(label_counts(self, self.read(path, True)))
        if len(names) < 2:
            found = f"a single label, '{names.pop()}'" if names else "no label"
            where = f"{path}: column '{columns[0]}'"
            raise wrong(where, found, "two or more", "--label_column")
        return dataclasses.replace(self, labels=sorted_names(names))

    def files_of(self, path: str) -> Sequence[str]:
        """The files that `read` reads for `path`."""
        return (path,)

    def training_rows(self, rows: Sequence[Row], seed: int) -> Sequence[Row]:
        """The rows to train on, made of those of the train file. seed: of what is sampled."""
        return rows

    def encode(
        self, rows: Sequence[Row], tokenizer: Any, layout: encoding.Layout
    ) -> tuple:
        """Returns (dict of arrays [m, ...], one for each of the ids and of `features`; int [n], the
        number of records of each row; its `encoding.TokenCounts`). They depend on the pairs, the
        label and the source of a row alone, which fit into JSON."""
        pairs = [row.pairs for row in rows]
        return encoding.arrays_of(pairs, self.targets(rows), tokenizer, layout)

    @property
    def texts(self) -> Names:
        """The names of the texts of a served row."""
        names = ["text_a"]
        if self.columns.text_b:
            names.append("text_b")
        if self.columns.choices:
            names.append("choices")
        return tuple(names)

    # -- the output layer. nn: a `model.heads.HeadBuilder`; features: a batch, a dict of tensors
    # [B, ...]

    def scope(self, name: str | None = None) -> str:
        """The output layer's name in a checkpoint, such as "classification_mnli"; name: a user's,
        instead of the task's; None: not given."""
        layer = self.layer or self.kind + "_{}"
        return layer.format(name or self.published.trained_as or self.name)

    def num_choices(self, is_training: bool) -> int:
        """C, the number of texts of a record, which are separate inputs of the network. A ranking
        trains on pairs of documents, and predicts them one by one."""
        return 1

    def features(self, length: int) -> tuple:
        """The `record_files.Feature`s besides the ids of a record of `length` tokens."""
        of_none = self.targets(())
        kind = "float" if of_none.dtype.kind == "f" else "int"
        return (Feature("label_ids", of_none.shape[1:], kind),)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """The logits [B,L], from `nn.summary()` [B*C,D]; of scores [B]. A subclass may use
        `nn.sequence` [B*C,T,D]."""
        count = len(self.labels)
        if self.label_shape:  # of labels that are several numbers a logit for each
            count = self.label_shape[0]
        logits = nn.dense(nn.summary(), count or 1, nn.scope + "/logit")
        return logits if count else logits[:, 0]

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The loss of each record, float32 [B]. options: those of training, or the defaults."""
        raise NotImplementedError

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        """The outputs in evaluation and prediction: dict of name to tensor [B, ...] of fixed
        shape."""
        import tensorflow.compat.v1 as tf

        if self.activation:
            logits = getattr(tf.nn, self.activation)(logits)
        return {"values": logits}

    def join(self, outputs: dict, windows: np.ndarray) -> Any:
        """The `values` of `Predictions` for n rows, from those of `outputs` for records: dict of
        arrays [m, ...]; a UserError if one is not finite. windows: int [n], the number of records
        of each row."""
        # A head with other outputs overrides this.
        return finite(self, mean_over_windows(outputs["values"], windows))

    def named_outputs(self, outputs: dict, threshold: float) -> dict:
        """The outputs of an exported model by readable names: a dict of tensors [B, ...].

        Args:
          outputs: as of `outputs`.
          threshold: as for `decide`.
        """
        import tensorflow.compat.v1 as tf

        if self.label_shape is None:
            return outputs
        names, values = self.probability_names, outputs["values"]
        if not names:
            return {self.column: values}
        if self.label_shape:
            return {"is_label": values >= threshold, "probabilities": values}
        ids = tf.argmax(values, axis=1)
        if len(names) == 2 and threshold != THRESHOLD:
            ids = tf.cast(values[:, 1] >= threshold, tf.int64)
        return {"label": tf.gather(tf.constant(names), ids), "probabilities": values}

    # -- predictions, metrics, files. values: as of `join`, of n rows

    @functools.cached_property
    def metric_functions(self) -> Mapping[str, Metric]:
        """The metrics of the task, by name. Those of a user are loaded once: a file may be edited
        in a run."""
        found = {}
        for each in self.measures:
            if each is not metrics.f1 or len(self.labels) == 2:
                found[each.__name__] = each
        for name, own in self.own_metrics.items():
            found[name] = metrics.own(own)
        return found

    @property
    def probability_names(self) -> Sequence[str]:
        """The names of `values` [n,L] in the prediction file; (): they are not probabilities."""
        names = self.labels
        return names if self.label_shape in ((), (len(names),)) else ()

    @property
    def has_threshold(self) -> bool:
        """Whether the `threshold` of `decide` and `results` has a meaning for the task."""
        count = len(self.probability_names)
        return count == 2 or count > 0 and bool(self.label_shape)

    def check_metric(self, name: str) -> None:
        """Raises UserError unless the metric `name` can select checkpoints."""
        takes_own = bool(self.measures)
        if takes_own and ":" in name:
            return
        if name not in self.metric_functions:
            own = ", or FILE.py:FUNCTION of your own" if takes_own else ""
            expected = f"one of {', '.join(self.metric_functions)}{own}"
            raise wrong(f"metric of task {self.name}", name, expected, "--metric")

    def gold_labels(self, rows: Sequence[Row]) -> Any:
        """The gold labels of rows: as numbers [n, ...], int32 or float32, 0 where a row has none;
        the rows themselves where labels are not numbers."""
        numbers = self.targets(rows)
        return rows if numbers is None else numbers

    def evaluate(self, values: Any, gold_labels: Any, threshold: float) -> dict:
        """Returns a dict of metric name to float, the task's main metric first; with `loss` if that
        is not the mean loss of the records."""
        decisions = self.decide(values, threshold)
        found = {}
        for name in self.metrics:
            found[name] = float(
                self.metric_functions[name](gold_labels, decisions, values)
            )
        return found

    def label_table(
        self, values: Any, gold_labels: Any, threshold: float
    ) -> str | None:
        """A table of metrics by label, as text; None for a type without one."""
        if not self.probability_names:
            return None
        decisions = self.decide(values, threshold)
        return metrics.report(self.probability_names, decisions, gold_labels)

    def counts_in_words(self, rows: Sequence[Row]) -> str:
        """The commonest labels of the train file, for the banner of a training. A label of the
        task that no row has counts 0."""
        counts = label_counts(self, rows)
        commonest = counts.most_common(LABELS_SHOWN)
        return ", ".join(f"{label}: {count:,}" for label, count in commonest)

    def predicted_labels(self, values: Any, threshold: float) -> list:
        """The predicted label of each row, as `parse_label` returns it."""
        decisions = self.decide(values, threshold)
        return [self.label_of(each) for each in decisions]

    def text_of(self, label: Any) -> str:
        """A label as text, "" if it is not known. Several have commas between, or are a list in
        JSON if some name of the task has a comma."""
        if label is None or isinstance(label, str):
            return label or ""
        if not isinstance(label, tuple):
            return f"{label:.9g}"
        texts = [self.text_of(each) for each in label]
        if any("," in name for name in self.labels):
            return json.dumps(texts, ensure_ascii=False)
        return ",".join(texts)

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """The files to write, the main one first, by the extension of their names: texts, cells or
        objects of JSON, each a line. By default a table: the rows' names, predictions,
        probabilities and, if some row has one, the gold labels."""
        # Texts are made one at a time to save memory.
        columns: dict[str, Iterable[str]] = {}
        if self.columns.query:
            columns["query"] = (row.query for row in rows)
        columns["id"] = (row.id for row in rows)
        labels = self.predicted_labels(values, threshold)
        columns[self.column] = map(self.text_of, labels)
        for name, column in zip(self.probability_names, values.T):
            columns["p_" + name] = map("{:.9g}".format, column)
        if any(row.label is not None for row in rows):
            columns["gold"] = (self.text_of(row.label) for row in rows)
        return {"tsv": itertools.chain([list(columns)], zip(*columns.values()))}

    def results(self, rows: Sequence[Row], values: Any, threshold: float) -> list:
        """The predictions for a call from Python, the same as in the prediction file: n plain
        values, or tuples of `tasks.task`."""
        labels = self.predicted_labels(values, threshold)
        if not self.probability_names:
            return labels
        found: list[Any] = []
        for label, probabilities in zip(labels, values.tolist()):
            of_all = dict(zip(self.probability_names, probabilities))
            if self.columns.choices:
                number = self.labels.index(label)
                found.append(Choice(number, label, tuple(probabilities)))
            elif self.label_shape:
                found.append(Labels(label, of_all))
            else:
                found.append(Label(label, of_all[label], of_all))
        return found


# ---- for the methods of all types


def finite(task: Task, values: np.ndarray) -> np.ndarray:
    """The predictions of n rows, [n, ...]; UserError if one is NaN or infinite."""
    is_finite = np.isfinite(values).reshape(len(values), -1)
    bad = np.count_nonzero(~is_finite.all(axis=1))
    if bad:
        found = f"{bad} of {len(values)} predictions that are not finite numbers"
        raise wrong(f"task {task.name}", found, "numbers", "--precision=fp32")
    return values


def mean_over_windows(values: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """The mean over the records of each row, float32 [n, ...]: of values [m, ...], windows int [n],
    the number of records of each row."""
    starts = np.cumsum(windows) - windows
    sums = np.add.reduceat(values, starts, axis=0)
    means = sums / windows.reshape([-1] + [1] * (values.ndim - 1))
    return means.astype(np.float32)


def sorted_names(names: Collection[str]) -> Names:
    """Numbers by size, such as -1, 0, 1.5, 10; others in alphabetical order."""
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?", name) for name in names):
        return tuple(sorted(sorted(names), key=float))
    return tuple(sorted(names))


def label_counts(task: Task, rows: Sequence[Row]) -> collections.Counter:
    """How often rows have each label; 0 for one of the task that none has."""
    counts = collections.Counter(dict.fromkeys(task.labels, 0))
    for row in rows:
        counts.update(row.label if isinstance(row.label, tuple) else (row.label,))
    return counts


def balanced_weights(task: Task, rows: Sequence[Row]) -> list[float]:
    """The weight of each label in the training loss, floats [L], by the rows of the train file:
    labels / (L * labels of the name), so that labels have the same total weight; where a row has
    several labels, rows without / rows with the label, so that those with it weigh as much as the
    others."""
    if not task.loss_options:
        raise wrong("class_weights", f"task {task.name}", "a classification")
    names, counts = task.labels, label_counts(task, rows)
    if task.label_shape:
        return [(len(rows) - counts[name]) / max(counts[name], 1) for name in names]
    total = sum(counts.values())
    return [total / (len(names) * max(counts[name], 1)) for name in names]


# ---- the types whose examples are rows of a table

# The largest absolute value of a score: a record has it as float32.
_HIGHEST = float(np.finfo(np.float32).max)
_FIRST = {"numbers": 1, "indices": 0}  # the labels of choices that are no letters


def known_name(task: Task, name: str) -> str:
    """A label's name, if the task has it; else raises ValueError. A task that does not know its
    labels yet, (), has any."""
    require_text(name)
    names = task.labels
    if names and name not in names:
        flag = "; --label_form" if task.columns.choices else ""
        found = f"unknown label '{name:.80}'"
        raise ValueError(f"{found} (labels: {', '.join(names):.300}){flag}")
    return name


def softmax_loss(nn: Any, logits: Any, labels: Any, options: LossOptions) -> Any:
    """The cross entropy, float32 [...], of logits float32 [...,L] with labels, ids int [...]; times
    the weights of the labels."""
    import tensorflow.compat.v1 as tf

    loss = nn.softmax_cross_entropy(logits, labels, options.label_smoothing)
    if options.class_weights is not None:
        loss *= tf.gather(tf.constant(options.class_weights, tf.float32), labels)
    return loss


class Classification(Task):
    """One of L names."""

    kind = "classification"
    measures: tuple[Metric, ...] = (
        metrics.accuracy,
        metrics.macro_f1,
        metrics.auc,
        metrics.matthews,
        metrics.micro_f1,
        metrics.f1,
    )
    default_metrics: Names = ("accuracy", "macro_f1", "auc")
    activation = "softmax"
    loss_options = True
    has_labels = True

    def parse_label(self, cells: list) -> Any:
        """One name."""
        column, cell = self.columns.label[0], cells[0]
        text = composed(to_text(cell, column).strip())
        if isinstance(cell, list):
            raise ValueError(
                f"column '{column}' has several labels; --multi_label=True"
            )
        if not text:
            raise ValueError(f"column '{column}' is empty, expected a label")
        return known_name(self, self.published.label_names.get(text, text))

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """int32 [n]"""
        positions: dict[str | None, int] = dict(zip(self.labels, itertools.count()))
        positions[None] = 0
        return np.array([positions[row.label] for row in rows], np.int32)

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """Logits float32 [B,L], labels int [B]."""
        return softmax_loss(nn, logits, features["label_ids"], options)

    def decide(self, values: np.ndarray, threshold: float) -> np.ndarray:
        """The id of the most probable of L labels; of two the second one from a threshold on. At
        0.5 the more probable one is chosen; if both have exactly 0.5, the first one."""
        if values.shape[1] == 2 and threshold != THRESHOLD:
            return (values[:, 1] >= threshold).astype(np.int64)
        return values.argmax(axis=1)

    def label_of(self, decision: Any) -> Any:
        """The label of a decision."""
        return self.labels[decision]


class MultiLabel(Classification):
    """Any of L names."""

    kind = "multi_label"
    measures = (metrics.micro_f1, metrics.macro_f1, metrics.accuracy, metrics.auc)
    default_metrics = ("micro_f1", "macro_f1", "accuracy", "auc")
    activation = "sigmoid"
    column = "labels"
    layer = "classification_{}"

    def parse_label(self, cells: list) -> Any:
        """Any number of names, sorted: those between separators in a cell, those of a list, or, of
        several columns, those with 1 and not 0."""
        columns = self.columns.label
        if cells[0] is None:
            raise ValueError(f"no '{columns[0]}'")
        if len(columns) > 1:
            return _with_one(columns, cells)
        values = cells[0]
        if isinstance(values, str) and self.columns.label_form == "json":
            values = parsed(values)
        elif not isinstance(values, list):
            text = to_text(values).strip()
            # As pandas and databases write lists: never names.
            is_list = text[:1] in ("[", "(", "{")
            values = None if is_list else text.split(",")
        if not isinstance(values, list):
            found, expected = to_text(cells[0]), "names, or a list with --label_form"
            raise ValueError(
                f"column '{columns[0]}': '{found:.80}', expected {expected}"
            )
        names = set()
        for value in values:
            name = composed(to_text(value, columns[0]).strip())
            if name:
                names.add(known_name(self, name))
        return tuple(sorted(names))

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n,L] of 0 and 1"""
        names = self.labels
        array = np.zeros([len(rows), len(names)], np.float32)
        for number, row in enumerate(rows):
            for name in row.label or ():
                array[number, names.index(name)] = 1
        return array

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The mean over the labels; logits and labels float32 [B,L]. class_weights are those of the
        labels that a row has; others weigh 1."""
        import tensorflow.compat.v1 as tf

        smoothing = options.label_smoothing
        labels = are_labels = features["label_ids"]
        if smoothing:
            labels = labels * (1.0 - smoothing) + smoothing / 2
        loss = nn.sigmoid_cross_entropy(logits, labels)
        if options.class_weights is not None:
            weights = tf.constant(options.class_weights, tf.float32)
            loss *= 1.0 + are_labels * (weights - 1.0)
        return tf.reduce_mean(loss, axis=1)

    def decide(self, values: np.ndarray, threshold: float) -> np.ndarray:
        """1 for each label whose probability reaches the threshold, else 0."""
        # Compared in float32, as in an exported model, so that a probability of 0.7 reaches a
        # threshold of 0.7.
        return (values.astype(np.float32) >= np.float32(threshold)).astype(np.float32)

    def label_of(self, decision: Any) -> Any:
        """The labels of a decision."""
        return tuple(itertools.compress(self.labels, decision))


def _with_one(columns: Sequence[str], cells: list) -> Names:
    """The columns, sorted, whose cells have 1 and not 0."""
    names = []
    for column, cell in zip(columns, cells):
        text = to_text(cell).strip().lower().removesuffix(".0")
        if text not in ("0", "1", "false", "true"):
            raise ValueError(f"column '{column}': '{text}', expected 0 or 1")
        if text in ("1", "true"):
            names.append(column)
    return tuple(sorted(names))


class Regression(Task):
    """A number."""

    kind = "regression"
    measures: tuple[Metric, ...] = (metrics.pearson, metrics.spearman)
    default_metrics: Names = ("pearson", "spearman")
    column = "score"
    layer = "regression_{}"
    verb = "score"

    def parse_label(self, cells: list) -> Any:
        """A number that fits into a record."""
        column = self.columns.label[0]
        text = to_text(cells[0]).strip()
        score = to_number(text)
        if not abs(score) <= _HIGHEST:  # nan, too
            expected = f"a number of at most {_HIGHEST:.6g}"
            raise ValueError(f"column '{column}': '{text}', expected {expected}")
        return score

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n]"""
        return np.array([row.label or 0 for row in rows], np.float32)

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The squared error; logits and labels float32 [B]."""
        error = logits - features["label_ids"]
        return error * error


class MultipleChoice(Classification):
    """One of C answers of a row, each read with the text; they share the weights of their score."""

    kind = "multiple_choice"
    measures = (metrics.accuracy,)
    default_metrics = ("accuracy",)
    loss_options = False
    layer = "logits"
    verb = "choose"

    def from_train_file(self, path: str) -> Task:
        """The task with a label for each answer, in the declared form."""
        rows = self.read(path, True)
        count = len(rows[0].pairs)
        names = tuple(string.ascii_uppercase[:count])
        if self.columns.label_form in _FIRST:
            first = _FIRST[self.columns.label_form]
            names = tuple(map(str, range(first, first + count)))
        for row in rows:
            # A row of another number of answers is refused where it is read again.
            if len(row.pairs) == count and row.label not in names:
                where = f"{path}: column {self.columns.label[0]}"
                found = f"the label '{row.label:.80}'"
                raise wrong(where, found, f"one of {', '.join(names)}", "--label_form")
        return dataclasses.replace(self, labels=names)

    def parse_pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """choices: the cells of several columns, or a list in one."""
        if len(choices) == 1:
            choices = choices[0] if isinstance(choices[0], list) else []
        answers = list(map(to_text, choices))
        columns = " ".join(self.columns.choices)
        count = len(self.labels)
        if len(answers) < 2 or not all(answer.strip() for answer in answers):
            expected = "a list of two or more texts, none empty"
            raise ValueError(f"column '{columns}': expected {expected}")
        if count and len(answers) != count:
            raise ValueError(f"{len(answers)} answers, expected {count}")
        pairs = []
        for answer in answers:
            second = answer
            if text_b and self.published.fills_gaps and "_" in text_b:
                second = answer.join(re.split("_+", text_b))
            elif text_b is not None:
                second = f"{text_b} {answer}"
            pairs.append((text_a, second))
        return tuple(pairs)

    def num_choices(self, is_training: bool) -> int:
        return len(self.labels)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,C]"""
        import tensorflow.compat.v1 as tf

        summary = nn.summary()
        with nn.beside_network():
            scores = nn.dense(summary, 1, nn.scope + "/dense")  # [B*C,1]
        return tf.reshape(scores, [-1, len(self.labels)])
