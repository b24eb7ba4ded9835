"""What a task is: its declared fields (`tasks.fields`), the reading of its files (`files.parsing`),
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

The label of a row is what its file says: a name, several, or a number. Its target is the label as
numbers. The network's logits become values, such as probabilities, and these a decision: the
predicted label in the form of a target. A row (`tasks.fields.Row`) is an example; it has one
record, a sequence of tokens, or several, one for each window of a paragraph or of a sentence to tag
that is long.

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
from xlnet.support.errors import require_finite, wrong
from xlnet.tasks import encoding, metrics
from xlnet.tasks.fields import Choice, Label, Labels, Names, Row
from xlnet.tasks.files.forms import (
    composed,
    parse_or_error,
    require_text,
    to_number,
    to_text,
)
from xlnet.tasks.files.parsing import TableReader
from xlnet.tasks.metrics import Metric

# The usual minimum probability of each label that a row has, if it may have several; and of the
# second of two labels.
THRESHOLD = 0.5
LABELS_SHOWN = 20  # maximum number of labels that a log names, or shows in a table

# Options of the loss in training. label_smoothing: the probability that is spread evenly over all
# labels; 0: off. class_weights: floats [L], weights of the rows by their label, or of each of
# several labels that a row has; None: all 1.
LossOptions = collections.namedtuple(
    "LossOptions", "label_smoothing class_weights", defaults=(0.0, None)
)

# The predictions of a checkpoint for n rows. values: probabilities float32 [n,L], scores float32
# [n], or what `Task.join` of another type returns. loss: the mean loss of the records of each row,
# float32 [n].
Predictions = collections.namedtuple("Predictions", "values loss")


class Task(TableReader):
    """A task of one type. A type defines its name, what its labels mean, the loss and the metrics;
    any other method may differ, too.

    Attributes:
      kind: the name of the type, in `run.json` and in `known.TASK_TYPES`.
      measures: the metrics, functions of (gold labels, decisions, values) to a float, see
        `metrics`; --metric takes the names of the functions.
      default_metrics: names of the metrics of a user's own files; the first selects checkpoints.
        Higher is better.
      activation: name of the function in `tf.nn` from logits to values; "": values are the logits.
      loss_options: whether the loss uses its `LossOptions`.
      column: the column of the predicted labels in the prediction file.
      has_labels: whether a task has a list of labels.
      layer: name of the output layer in a checkpoint, in which "{}" stands for the task's name; "":
        `<kind>_<task>`.
      verb: name of the method of a loaded model that predicts with it, such as `model.classify`.
      program: the program that trains it.
      padding: where the padding of a record is, and which features have a value per token, [T].
      target_features: names of the features that only `loss` reads.
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
        [n,L], scores [n]; 0 where a row has no label. None: labels of the type are not numbers. The
        output layer has L outputs, or one for a score."""
        return None

    def decide(self, values: np.ndarray, threshold: float) -> Any:
        """The decisions, the predicted labels of n rows in the form of `targets`.

        Args:
          values: as `join` returns them.
          threshold: minimum probability of each label, if a row may have several, or of the second
            of two labels; other types ignore it.
        """
        return values

    def label_of(self, decision: Any) -> Any:
        """The label of the decision for one row, in the form of `parse_label`; here of a score."""
        return float(decision)

    @property
    def target_shape(self) -> tuple[int, ...] | None:
        """The shape of the target of one row: () of an id or a score; (L,), the only one that is
        true in an `if`, where it has L numbers; None: the type has no targets."""
        targets_of_no_rows = self.targets(())  # [0, ...]
        return None if targets_of_no_rows is None else targets_of_no_rows.shape[1:]

    # -- files to records

    def from_train_file(self, path: str) -> Task:
        """The task with its labels: the names in the label column of its train file, numbers by
        size, others in alphabetical order; or, where several columns have 0 or 1 for a label each,
        the names of these columns."""
        columns = self.columns.label
        if len(columns) > 1 and self.target_shape:  # a number for each label
            return dataclasses.replace(self, labels=columns)
        names = set(label_counts(self, self.read(path, need_labels=True)))
        if len(names) < 2:
            found = f"a single label, '{names.pop()}'" if names else "no label"
            where = f"{path}: column '{columns[0]}'"
            raise wrong(where, found, "two or more", "--label_column")
        return dataclasses.replace(self, labels=sorted_names(names))

    def files_of(self, path: str) -> Sequence[str]:
        """The paths of all files that `read` reads for `path`; a type may add files next to
        it."""
        return (path,)

    def training_rows(self, rows: Sequence[Row], seed: int) -> Sequence[Row]:
        """The rows to train on, made of those of the train file. seed: for types that sample
        them."""
        return rows

    def encode(
        self, rows: Sequence[Row], tokenizer: Any, layout: encoding.Layout
    ) -> tuple:
        """The records of n rows. They depend on the `pairs`, `label` and `source` of a row alone:
        record files are named after a hash of these, which fit into JSON.

        Returns:
          (dict of arrays [m, ...] by name: `encoding.IDS` and `features`; int [n], the number of
          records of each row; `encoding.TokenCounts` of the rows).
        """
        if self.padding.side != "left":
            raise TypeError("a task type that pads on the right has its own `encode`")
        pairs = [row.pairs for row in rows]
        return encoding.encode_pairs(pairs, self.targets(rows), tokenizer, layout)

    @property
    def texts(self) -> Names:
        """The names of the texts of a row in a request to a server or an exported model: those that
        the task has columns of."""
        names = ("text_a", "text_b", "choices")
        return tuple(name for name in names if getattr(self.columns, name))

    # -- the output layer. nn: a `model.heads.HeadBuilder`; features: a batch, a dict of tensors
    # [B, ...]

    def scope(self, name: str | None = None) -> str:
        """The output layer's name in a checkpoint, such as "classification_mnli". name: a user's,
        instead of the task's; None: not given."""
        layer = self.layer or self.kind + "_{}"
        # A published task may be predicted with the layer of another: AX with that of MNLI.
        return layer.format(name or self.published.trained_as or self.name)

    def num_choices(self, is_training: bool) -> int:
        """C, the number of texts of a record, which are separate inputs of the network. It depends
        on `is_training` in a ranking, which trains on pairs of documents, and predicts them one by
        one."""
        return 1

    def features(self, length: int) -> tuple[Feature, ...]:
        """The features of a record besides its ids: here the target, as `label_ids`. length: T, for
        types with features that have a value per token."""
        dtype = "float" if self.targets(()).dtype.kind == "f" else "int"
        return (Feature("label_ids", self.target_shape, dtype),)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """The logits [B,L], from `nn.summary()` [B*C,D]; of scores [B]. A subclass may use
        `nn.sequence` [B*C,T,D]."""
        count = len(self.labels)  # 0 of scores, which are one logit
        if self.target_shape:  # a target of several numbers: a logit for each
            count = self.target_shape[0]
        logits = nn.dense(nn.summary(), count or 1, nn.scope + "/logit")
        return logits if count else logits[:, 0]

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The loss of each record, float32 [B], with the target in `features`. options: those of
        the training; the defaults in an evaluation."""
        raise NotImplementedError

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        """The outputs in evaluation and prediction: dict of name to tensor [B, ...], whose shape
        but for B is the same in all batches; here `values`, [B,L] or [B]."""
        import tensorflow.compat.v1 as tf

        if self.activation:
            logits = getattr(tf.nn, self.activation)(logits)
        return {"values": logits}

    def join(self, outputs: dict, num_records: np.ndarray) -> Any:
        """The `values` of `Predictions` for n rows: here the mean over the records of each row; a
        UserError if one is not finite.

        Args:
          outputs: those of `outputs` for all m records, a dict of arrays [m, ...].
          num_records: int [n], the number of records of each row.
        """
        values = mean_over_records(outputs["values"], num_records)
        require_finite(values)
        return values

    def named_outputs(self, outputs: dict, threshold: float) -> dict:
        """The outputs of an exported model by readable names: a dict of tensors [B, ...].

        Args:
          outputs: what the method `outputs` returns.
          threshold: as for `decide`, whose decisions these are, but in the graph.
        """
        import tensorflow.compat.v1 as tf

        if self.target_shape is None:  # the type has no targets, and outputs of its own
            return outputs
        names, values = self.probability_names, outputs["values"]
        if not names:  # scores
            return {self.column: values}
        if self.target_shape:  # [B,L]: several labels may be right
            return {"is_label": values >= threshold, "probabilities": values}
        ids = tf.argmax(values, axis=1)
        # As `decide`: of two labels the second one, if it reaches the threshold. At the default of
        # 0.5 the more probable one is chosen, and if both have exactly 0.5, the first.
        if len(names) == 2 and threshold != THRESHOLD:
            ids = tf.cast(values[:, 1] >= threshold, tf.int64)
        return {"label": tf.gather(tf.constant(names), ids), "probabilities": values}

    # -- predictions, metrics, files. values: as of `join`, of n rows

    @functools.cached_property
    def metric_functions(self) -> Mapping[str, Metric]:
        """The metrics of the task, by name. Those of a user are loaded once, as a file may be
        edited during a run."""
        functions = {}
        for measure in self.measures:
            # This F1 is that of the second label of two.
            if measure is not metrics.f1 or len(self.labels) == 2:
                functions[measure.__name__] = measure
        for name, location in self.own_metrics.items():
            functions[name] = metrics.load_metric(location)
        return functions

    @property
    def probability_names(self) -> Sequence[str]:
        """The names of `values` [n,L] in the prediction file; (): they are not probabilities."""
        names = self.labels
        # The target of a row is an id, or has a number for each label. A user's type may have
        # another number of outputs, which have no names.
        return names if self.target_shape in ((), (len(names),)) else ()

    @property
    def has_threshold(self) -> bool:
        """Whether the `threshold` of `decide` and `results` has a meaning for the task: there are
        two labels, or a row may have several."""
        count = len(self.probability_names)
        return count == 2 or (count > 0 and bool(self.target_shape))

    def check_metric(self, name: str) -> None:
        """Raises UserError unless the metric `name`, as in --metric, can select checkpoints."""
        # A user's function gets the same arguments as the `measures` of the type. A type without
        # any computes its metrics in another way.
        takes_own = bool(self.measures)
        if takes_own and ":" in name:
            return
        if name not in self.metric_functions:
            own = ", or FILE.py:FUNCTION of your own" if takes_own else ""
            expected = f"one of {', '.join(self.metric_functions)}{own}"
            raise wrong(f"metric of task {self.name}", name, expected, "--metric")

    def gold(self, rows: Sequence[Row]) -> Any:
        """What `evaluate` compares the decisions on n rows with: the `targets`, [n, ...]; the rows
        themselves if the type has none."""
        targets = self.targets(rows)
        return rows if targets is None else targets

    def evaluate(self, values: Any, gold: Any, threshold: float) -> dict:
        """The metrics, floats by name, the task's main metric first; also `loss` in a type whose
        loss is not the mean loss of the records."""
        decisions = self.decide(values, threshold)
        result = {}
        for name in self.metrics:
            measure = self.metric_functions[name]
            result[name] = float(measure(gold, decisions, values))
        return result

    def label_table(self, values: Any, gold: Any, threshold: float) -> str | None:
        """A table of metrics by label, as text; None for a type without one."""
        if not self.probability_names:
            return None
        decisions = self.decide(values, threshold)
        return metrics.report(self.probability_names, decisions, gold)

    def counts_in_words(self, rows: Sequence[Row]) -> str:
        """The commonest labels of rows, for the lines at the start of a training: "a: 1,200, b: 7".
        A label of the task that no row has counts 0."""
        counts = label_counts(self, rows)
        commonest = counts.most_common(LABELS_SHOWN)
        return ", ".join(f"{label}: {count:,}" for label, count in commonest)

    def predicted_labels(self, values: Any, threshold: float) -> list:
        """The predicted label of each row, in the form of `Row.label`."""
        decisions = self.decide(values, threshold)
        return [self.label_of(decision) for decision in decisions]

    def text_of(self, label: Any) -> str:
        """A label as text. None, not known, is ""; a name is itself; a number has all digits of a
        float32. Several, a tuple, have commas between, or are a list in JSON if some name of the
        task has a comma."""
        if label is None or isinstance(label, str):
            return label or ""
        if not isinstance(label, tuple):
            return f"{label:.9g}"
        texts = [self.text_of(name) for name in label]
        if any("," in name for name in self.labels):
            return json.dumps(texts, ensure_ascii=False)
        return ",".join(texts)

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """The lines of the files to write, by the extension of their names, the main file first. A
        line is a text with its end, a sequence of cells, or a dict for JSON.

        Here one table: the rows' names, predictions, probabilities and, if some row has one, the
        gold labels.
        """
        # By column of the table its cells, which are made while they are written, to save memory.
        cells: dict[str, Iterable[str]] = {}
        if self.columns.query:
            cells["query"] = (row.query for row in rows)
        cells["id"] = (row.id for row in rows)
        labels = self.predicted_labels(values, threshold)
        cells[self.column] = map(self.text_of, labels)
        for name, probabilities in zip(self.probability_names, values.T):
            cells["p_" + name] = map("{:.9g}".format, probabilities)
        if any(row.label is not None for row in rows):
            cells["gold"] = (self.text_of(row.label) for row in rows)
        header = list(cells)
        return {"tsv": itertools.chain([header], zip(*cells.values()))}

    def results(self, rows: Sequence[Row], values: Any, threshold: float) -> list:
        """The predictions for a call from Python, the same as in the prediction file: for each row
        its label alone, if there are no probabilities; or a `Choice`, `Labels` or `Label`."""
        labels = self.predicted_labels(values, threshold)
        if not self.probability_names:
            return labels
        predictions: list[Any] = []
        for label, probabilities in zip(labels, values.tolist()):
            by_name = dict(zip(self.probability_names, probabilities))
            if self.columns.choices:
                number = self.labels.index(label)
                predictions.append(Choice(number, label, tuple(probabilities)))
            elif self.target_shape:  # a number for each label: a row may have several
                predictions.append(Labels(label, by_name))
            else:
                predictions.append(Label(label, by_name[label], by_name))
        return predictions


# ---- for the methods of all types


def mean_over_records(values: np.ndarray, num_records: np.ndarray) -> np.ndarray:
    """The mean over the records of each row, float32 [n, ...].

    Args:
      values: [m, ...], of the records, those of a row one after the other.
      num_records: int [n], the number of records of each row, at least 1.
    """
    starts = np.cumsum(num_records) - num_records  # the first record of each row
    sums = np.add.reduceat(values, starts, axis=0)
    means = (sums.T / num_records).T  # each row's sum by its number of records
    return means.astype(np.float32)


def sorted_names(names: Collection[str]) -> Names:
    """Numbers by size, such as -1, 0, 1.5, 10; others in alphabetical order."""
    in_order = sorted(names)
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?", name) for name in names):
        in_order.sort(key=float)  # those of one size, 1 and 1.0, stay as they are
    return tuple(in_order)


def label_counts(task: Task, rows: Sequence[Row]) -> collections.Counter[str]:
    """How often each label occurs in rows, all of which have one, or a tuple of several; 0 for a
    label of the task that none has."""
    counts = collections.Counter(dict.fromkeys(task.labels, 0))
    for row in rows:
        counts.update(row.label if isinstance(row.label, tuple) else (row.label,))
    return counts


def balanced_weights(task: Task, rows: Sequence[Row]) -> list[float]:
    """The weight of each label in the training loss, floats [L], by the rows of the train file.

    A weight is (labels of all rows) / (L * rows with this label), so that all labels have the same
    total weight. Where a row may have several labels, the weight is (rows without this label) /
    (rows with it), so that in the loss of a label both sides weigh the same.
    """
    if not task.loss_options:
        raise wrong("class_weights", f"task {task.name}", "a classification")
    names, counts = task.labels, label_counts(task, rows)
    # max: a label of the task that no row has counts 0.
    if task.target_shape:  # a number for each label: a row may have several
        return [(len(rows) - counts[name]) / max(counts[name], 1) for name in names]
    total = sum(counts.values())
    return [total / (len(names) * max(counts[name], 1)) for name in names]


# ---- the types whose examples are rows of a table

# The largest absolute value of a score: a record has it as float32.
_LARGEST_SCORE = float(np.finfo(np.float32).max)
# The label of the first choice in the forms of --label_form that are not letters.
_FIRST_LABEL = {"numbers": 1, "indices": 0}


def known_name(task: Task, name: str) -> str:
    """Returns `name`, a label, if the task has it; else raises ValueError. While the task does not
    know its labels, `labels` is () and any name is one."""
    require_text(name)
    if "\n" in name:
        raise ValueError(f"label {name!r:.80}, expected one line")
    names = task.labels
    if names and name not in names:
        # Whether choices have letters or numbers is declared by this flag.
        flag = "; --label_form" if task.columns.choices else ""
        found = f"unknown label '{name:.80}'"
        raise ValueError(f"{found} (labels: {', '.join(names):.300}){flag}")
    return name


def softmax_loss(nn: Any, logits: Any, labels: Any, options: LossOptions) -> Any:
    """The cross entropy, float32 [...], of logits float32 [...,L] with labels, ids int [...]; of
    each label times its weight."""
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
        """The name in the only cell."""
        column, cell = self.columns.label[0], cells[0]
        # Composed: the same name is the same label, however a program writes its accents.
        text = composed(to_text(cell, column).strip())
        if isinstance(cell, list):  # in JSON
            raise ValueError(
                f"column '{column}' has several labels; --multi_label=True"
            )
        if not text:
            raise ValueError(f"column '{column}' is empty, expected a label")
        return known_name(self, self.published.label_names.get(text, text))

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """Ids, the positions in `labels`, int32 [n]; 0 where a row has no label."""
        ids: dict[str | None, int] = dict(zip(self.labels, itertools.count()))
        ids[None] = 0
        return np.array([ids[row.label] for row in rows], np.int32)

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """float32 [B], of logits float32 [B,L] and labels int [B]."""
        return softmax_loss(nn, logits, features["label_ids"], options)

    def decide(self, values: np.ndarray, threshold: float) -> np.ndarray:
        """Ids, int [n], of the most probable of L labels, from values [n,L]. Of two labels it is
        the second one if its probability reaches the threshold. A threshold of 0.5 chooses the more
        probable one; if both have exactly 0.5, the first one."""
        if values.shape[1] == 2 and threshold != THRESHOLD:
            return (values[:, 1] >= threshold).astype(np.int64)
        return values.argmax(axis=1)

    def label_of(self, decision: Any) -> Any:
        """The name of an id."""
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
        """A tuple of any number of names, sorted.

        Args:
          cells: of one column, a text of names with commas between, or a list of names, which
            with the `label_form` "json" is a text of JSON; or of a column for each label, each 1,
            the row has the label, or 0. [None]: there is no such column.
        """
        columns = self.columns.label
        if cells[0] is None:
            raise ValueError(f"no '{columns[0]}'")
        if len(columns) > 1:
            return _columns_with_one(columns, cells)
        items = cells[0]
        if isinstance(items, str) and self.columns.label_form == "json":
            items = parse_or_error(items)  # a ValueError if it is not JSON
        elif not isinstance(items, list):
            text = to_text(items).strip()
            # pandas and databases write lists so: names do not begin with these.
            is_list = text[:1] in ("[", "(", "{")
            items = None if is_list else text.split(",")  # None: an error
        if not isinstance(items, list):
            found, expected = to_text(cells[0]), "names, or a list with --label_form"
            raise ValueError(
                f"column '{columns[0]}': '{found:.80}', expected {expected}"
            )
        names = set()
        for item in items:
            name = composed(to_text(item, columns[0]).strip())
            if name:  # "a,,b" and "" have an empty item
                names.add(known_name(self, name))
        return tuple(sorted(names))

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n,L], 1 for each label that a row has, else 0."""
        names = self.labels
        targets = np.zeros([len(rows), len(names)], np.float32)
        for number, row in enumerate(rows):
            for name in row.label or ():  # None: not known
                targets[number, names.index(name)] = 1
        return targets

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """float32 [B], the mean over the labels; logits and labels are float32 [B,L].
        class_weights are those of the labels that a row has; others weigh 1."""
        import tensorflow.compat.v1 as tf

        smoothing = options.label_smoothing
        are_labels = features["label_ids"]
        # Each label is a choice between 0 and 1, which get half of the smoothing each.
        probabilities = are_labels * (1.0 - smoothing) + smoothing / 2
        loss = nn.sigmoid_cross_entropy(logits, probabilities)
        if options.class_weights is not None:
            weights = tf.constant(options.class_weights, tf.float32)
            loss *= 1.0 + are_labels * (weights - 1.0)  # the weight, or 1
        return tf.reduce_mean(loss, axis=1)

    def decide(self, values: np.ndarray, threshold: float) -> np.ndarray:
        """float32 [n,L], 1 for each label whose probability reaches the threshold, else 0."""
        # Compared in float32, as in an exported model, so that a probability of 0.7 reaches a
        # threshold of 0.7.
        return (values.astype(np.float32) >= np.float32(threshold)).astype(np.float32)

    def label_of(self, decision: Any) -> Any:
        """The names of the labels that are 1 in a decision, [L]."""
        return tuple(itertools.compress(self.labels, decision))


def _columns_with_one(columns: Sequence[str], cells: list) -> Names:
    """The names of the columns, sorted, whose cells are 1 or true, and not 0 or false."""
    names = []
    for column, cell in zip(columns, cells):
        # Some programs write 1.0 for 1: pandas does where other cells are empty.
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
        """The number in the only cell, if it fits into a float32."""
        column = self.columns.label[0]
        text = to_text(cells[0]).strip()
        score = to_number(text)
        # `not ... <=` also refuses NaN, which is a text that is not a number.
        if not abs(score) <= _LARGEST_SCORE:
            expected = f"a number of at most {_LARGEST_SCORE:.6g}"
            raise ValueError(f"column '{column}': '{text}', expected {expected}")
        return score

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n]; 0 where a row has no label."""
        return np.array([row.label or 0 for row in rows], np.float32)

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The squared error, float32 [B] like logits and labels."""
        error = logits - features["label_ids"]
        return error * error


class MultipleChoice(Classification):
    """One of C answers of a row. The network reads each answer with the text, as a separate input;
    the output layer, which is the same for all answers, gives each a score, its logit."""

    kind = "multiple_choice"
    measures = (metrics.accuracy,)
    default_metrics = ("accuracy",)
    loss_options = False
    layer = "logits"
    verb = "choose"

    def from_train_file(self, path: str) -> Task:
        """The task with a label for each answer of the first row: letters from A, or, as
        --label_form says, numbers from 1 or indices from 0."""
        rows = self.read(path, need_labels=True)
        count = len(rows[0].pairs)
        names = tuple(string.ascii_uppercase[:count])
        if self.columns.label_form in _FIRST_LABEL:
            first = _FIRST_LABEL[self.columns.label_form]
            names = tuple(map(str, range(first, first + count)))
        for row in rows:
            # A row of another number of answers is refused by `parse_pairs` when the file is read
            # again to train on it.
            if len(row.pairs) == count and row.label not in names:
                where = f"{path}: column {self.columns.label[0]}"
                found = f"the label '{row.label:.80}'"
                raise wrong(where, found, f"one of {', '.join(names)}", "--label_form")
        return dataclasses.replace(self, labels=names)

    def parse_pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """For each answer the pair (text_a, the question text_b, if there is one, with the answer).

        choices: the cells of several columns, an answer each, or [list of answers] of one column.
        """
        if len(choices) == 1:
            choices = choices[0] if isinstance(choices[0], list) else []
        answers = list(map(to_text, choices))
        columns = " ".join(self.columns.choices)
        count = len(self.labels)  # 0 while they are not known
        if len(answers) < 2 or not all(answer.strip() for answer in answers):
            expected = "a list of two or more texts, none empty"
            raise ValueError(f"column '{columns}': expected {expected}")
        if count and len(answers) != count:
            raise ValueError(f"{len(answers)} answers, expected {count}")
        pairs = []
        for answer in answers:
            text_with_answer = answer
            if text_b and self.published.fills_gaps and "_" in text_b:
                # "He is _ ." and "late": "He is late ."
                text_with_answer = answer.join(re.split("_+", text_b))
            elif text_b is not None:
                text_with_answer = f"{text_b} {answer}"
            pairs.append((text_a, text_with_answer))
        return tuple(pairs)

    def num_choices(self, is_training: bool) -> int:
        """C: each label is an answer, and a record has a text for each."""
        return len(self.labels)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """A score of each answer, [B,C]."""
        import tensorflow.compat.v1 as tf

        # In the original checkpoints the variables of the summary are in the scope of the network,
        # those of this layer are not.
        summary = nn.summary()
        with nn.outside_model():
            scores = nn.dense(summary, 1, nn.scope + "/dense")  # [B*C,1]
        return tf.reshape(scores, [-1, len(self.labels)])
