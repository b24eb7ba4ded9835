"""The types whose examples are rows of a table.

| type | label of a row | output | loss | decision | first metric |
|---|---|---|---|---|---|
| classification | one of L names | L probabilities | softmax | the most probable one | accuracy |
| multi-label | any of L names | L probabilities | L logistic | those above a threshold | F1 |
| regression | a number | a score | squared error | the score | Pearson correlation |
| multiple choice | one of C | C probabilities | softmax | the most probable one | accuracy |

Shape letters: n rows, B records of a batch, L labels, C choices, T tokens.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlnet.corpus.tokenizer import is_text
from xlnet.tasks import metrics
from xlnet.tasks.contract import THRESHOLD, LossOptions, Task
from xlnet.tasks.files.forms import composed, parsed, to_number, to_text
from xlnet.tasks.files.parsing import NOT_TEXT
from xlnet.tasks.metrics import Metric
from xlnet.tasks.task import Names, Row

# Of the absolute value of a score in a record.
_HIGHEST = float(np.finfo(np.float32).max)
_FIRST = {"numbers": 1, "indices": 0}  # the labels of choices that are no letters


def known_name(task: Task, name: str) -> str:
    """The name of a label; any text is one of a task that does not know its labels yet: ()."""
    if not is_text(name):
        raise ValueError(NOT_TEXT)
    names = task.labels
    if names and name not in (*names, *task.published.skipped_labels):
        flag = "; --label_form" if task.columns.choices else ""
        found = f"unknown label '{name:.80}'"
        raise ValueError(f"{found} (labels: {', '.join(names):.300}){flag}")
    return name


def softmax_loss(nn: Any, logits: Any, labels: Any, options: LossOptions) -> Any:
    """Logits float32 [B,L], labels int [B]."""
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
        column, cell = self.columns.label[0], cells[0] if cells else None
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
        positions: dict[str | None, int] = dict(
            zip(self.labels or (), itertools.count())
        )
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
        return self.class_names[decision]


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
        if not cells or cells[0] is None:
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
        names = self.labels or ()
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
        return tuple(itertools.compress(self.class_names, decision))


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
        text = to_text(cells[0]).strip() if cells else ""
        score = to_number(text)
        if not abs(score) <= _HIGHEST:  # nan, too
            expected = f"a number of at most {_HIGHEST:.6g}"
            raise ValueError(f"column '{column}': '{text}', expected {expected}")
        return score

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n]"""
        return np.array([row.label or 0 for row in rows], np.float32)

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """Logits and labels float32 [B]."""
        import tensorflow.compat.v1 as tf

        return tf.square(logits - features["label_ids"])


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
        # A row with another number of answers, or another label, is refused where it is read again.
        count = len(self.read(path, True)[0].pairs)
        names = tuple(string.ascii_uppercase[:count])
        if self.columns.label_form in _FIRST:
            first = _FIRST[self.columns.label_form]
            names = tuple(map(str, range(first, first + count)))
        return dataclasses.replace(self, labels=names)

    def parse_pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """choices: the cells of several columns, or a list in one."""
        if len(choices) == 1:
            choices = choices[0] if isinstance(choices[0], list) else []
        answers = list(map(to_text, choices))
        columns = " ".join(self.columns.choices)
        count = len(self.labels or ())
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
        return len(self.class_names)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,C]"""
        import tensorflow.compat.v1 as tf

        summary = nn.summary()
        with nn.beside_network():
            scores = nn.dense(summary, 1, nn.scope + "/dense")  # [B*C,1]
        return tf.reshape(scores, [-1, len(self.class_names)])
