"""The types whose examples are rows of a table, as the rows of one: `contract.TaskType`.

| type | label of a row | output | loss | decision | first metric |
|---|---|---|---|---|---|
| classification | one of L names | L probabilities | softmax | the most probable one | accuracy |
| multi-label | any of L names | L probabilities | L logistic | those above a threshold | F1 |
| regression | a number | a score | squared error | the score | Pearson correlation |
| multiple choice | one of C | C probabilities | softmax | the most probable one | accuracy |

The functions above the table are its cells: what a column does for one type or several.
Shape letters: n rows, B records of a batch, L labels, C choices, T tokens.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import string
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.corpus.tokenizer import is_text
from xlnet.support.errors import wrong
from xlnet.tasks import metrics
from xlnet.tasks.files.forms import composed, parsed, to_number, to_text
from xlnet.tasks.files.parsing import NOT_TEXT
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions

# Of the absolute value of a score in a record.
_HIGHEST = float(np.finfo(np.float32).max)
_LONGEST_SHOWN = 80  # of a label in an error [characters]
_FIRST = {"numbers": 1, "indices": 0}  # the labels of choices that are no letters


# ---- the label of a row, of its cells


def parse_name(task: Task, cells: list) -> str:
    """One name."""
    column, cell = task.columns.label[0], cells[0] if cells else None
    text = composed(to_text(cell, column).strip())
    if isinstance(cell, list):
        raise ValueError(f"column '{column}' has several labels; --multi_label=True")
    if not text:
        raise ValueError(f"column '{column}' is empty")
    return known_name(task, task.published.label_names.get(text, text))


def known_name(task: Task, name: str) -> str:
    """The name of a label; any text is one of a task that does not know its labels yet: ()."""
    if not is_text(name):
        raise ValueError(NOT_TEXT)
    names = task.labels
    if names and name not in (*names, *task.published.skipped_labels):
        found = f"unknown label '{name:.{_LONGEST_SHOWN}}'"
        raise ValueError(f"{found} (labels: {', '.join(names):.300})")
    return name


def parse_names(task: Task, cells: list) -> tuple[str, ...]:
    """Any number of names, sorted: those between separators in a cell, those of a list, or, of
    several columns, those with 1 and not 0."""
    columns = task.columns.label
    if not cells or cells[0] is None:
        raise ValueError(f"no '{columns[0]}'")
    if len(columns) > 1:
        return _with_one(columns, cells)
    values = cells[0]
    if isinstance(values, str) and task.columns.label_form == "json":
        values = parsed(values)
    elif not isinstance(values, list):
        text = to_text(values).strip()
        # As pandas and databases write lists: never names.
        is_list = text[:1] in ("[", "(", "{")
        values = None if is_list else text.split(",")
    if not isinstance(values, list):
        found, expected = to_text(cells[0]), "names, or a list with --label_form"
        raise ValueError(f"column '{columns[0]}': '{found:.80}', expected {expected}")
    names = set()
    for value in values:
        name = composed(to_text(value, columns[0]).strip())
        if name:
            names.add(known_name(task, name))
    return tuple(sorted(names))


def _with_one(columns: Sequence[str], cells: list) -> tuple[str, ...]:
    """The columns, sorted, whose cells have 1 and not 0."""
    names = []
    for column, cell in zip(columns, cells):
        text = to_text(cell).strip().lower().removesuffix(".0")
        if text not in ("0", "1", "false", "true"):
            raise ValueError(f"column '{column}': '{text}', expected 0 or 1")
        if text in ("1", "true"):
            names.append(column)
    return tuple(sorted(names))


def parse_number(task: Task, cells: list) -> float:
    """A number that fits into a record."""
    column = task.columns.label[0]
    text = to_text(cells[0]).strip() if cells else ""
    score = to_number(text)
    if not abs(score) <= _HIGHEST:
        expected = f"a number of at most {_HIGHEST:.6g}"
        raise ValueError(f"column '{column}': '{text}', expected {expected}")
    return score


# ---- the labels of rows as numbers


def ids(task: Task, rows: Sequence[Row]) -> np.ndarray:
    """int32 [n]"""
    positions: dict[Optional[str], int] = dict(
        zip(task.labels or (), itertools.count())
    )
    positions[None] = 0
    return np.array([positions[row.label] for row in rows], np.int32)


def indicators(task: Task, rows: Sequence[Row]) -> np.ndarray:
    """float32 [n,L] of 0 and 1"""
    names = task.labels or ()
    array = np.zeros([len(rows), len(names)], np.float32)
    for number, row in enumerate(rows):
        for name in row.label or ():
            array[number, names.index(name)] = 1
    return array


def numbers(task: Task, rows: Sequence[Row]) -> np.ndarray:
    """float32 [n]"""
    return np.array([row.label or 0 for row in rows], np.float32)


# ---- the loss of each record, of its logits and labels


def softmax_loss(nn: Any, logits: Any, labels: Any, options: LossOptions) -> Any:
    """Logits float32 [B,L], labels int [B]."""
    import tensorflow.compat.v1 as tf

    loss = nn.softmax_cross_entropy(logits, labels, options.label_smoothing)
    if options.class_weights is not None:
        loss *= tf.gather(tf.constant(options.class_weights, tf.float32), labels)
    return loss


def logistic_loss(nn: Any, logits: Any, labels: Any, options: LossOptions) -> Any:
    """The mean over the labels; logits and labels float32 [B,L]. class_weights are those of the
    labels that a row has; others weigh 1."""
    import tensorflow.compat.v1 as tf

    smoothing, are_labels = options.label_smoothing, labels
    if smoothing:
        labels = labels * (1.0 - smoothing) + smoothing / 2
    loss = nn.sigmoid_cross_entropy(logits, labels)
    if options.class_weights is not None:
        weights = tf.constant(options.class_weights, tf.float32)
        loss *= 1.0 + are_labels * (weights - 1.0)
    return tf.reduce_mean(loss, axis=1)


def squared_loss(nn: Any, logits: Any, labels: Any, options: LossOptions) -> Any:
    """Logits and labels float32 [B]."""
    import tensorflow.compat.v1 as tf

    return tf.square(logits - labels)


# ---- decisions, in the form of the labels as numbers


def most_probable(values: np.ndarray, threshold: float) -> np.ndarray:
    """The id of the most probable of L labels; of two the second one from a threshold on. At 0.5
    the more probable one is chosen; if both have exactly 0.5, the first one."""
    if values.shape[1] == 2 and threshold != THRESHOLD:
        return (values[:, 1] >= threshold).astype(np.int64)
    return values.argmax(axis=1)


def above_threshold(values: np.ndarray, threshold: float) -> np.ndarray:
    """1 for each label whose probability reaches the threshold, else 0."""
    # Compared in float32, as in an exported model, so that a probability of 0.7 reaches a threshold
    # of 0.7.
    return (values.astype(np.float32) >= np.float32(threshold)).astype(np.float32)


def as_it_is(values: np.ndarray, threshold: float) -> np.ndarray:
    """The score."""
    return values


def name_of(task: Task, id: int) -> str:
    """The label of a decision."""
    return task.class_names[id]


def names_of(task: Task, are_labels: np.ndarray) -> tuple[str, ...]:
    """The labels of a decision."""
    return tuple(itertools.compress(task.class_names, are_labels))


def number_of(task: Task, score: float) -> float:
    """The label of a decision."""
    return float(score)


# ---- multiple choice: what its rows have besides


@dataclasses.dataclass(frozen=True)
class ChoiceOptions:
    """fills_gaps: "_" in a question is where the answer belongs."""

    fills_gaps: bool = False


class ChoiceReader(contract.Reader):
    """The labels of a task are the C answers of a row, each read with the text."""

    def from_train_file(self, path: str) -> Task:
        """The task with a label for each answer, in the declared form."""
        rows = self.read(path, True)
        numbers = range(len(rows[0].pairs))
        names = tuple(string.ascii_uppercase[: len(numbers)])
        if self.task.columns.label_form in _FIRST:
            first = _FIRST[self.task.columns.label_form]
            names = tuple(str(first + number) for number in numbers)
        for row in rows:
            if row.label not in names:
                where = f"{path}: column {self.task.columns.label[0]}"
                found = f"the label '{row.label:.{_LONGEST_SHOWN}}'"
                raise wrong(where, found, f"one of {', '.join(names)}", "--label_form")
        return dataclasses.replace(self.task, labels=names)

    def parse_pairs(self, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        """choices: the cells of several columns, or a list in one."""
        if len(choices) == 1:
            choices = choices[0] if isinstance(choices[0], list) else []
        answers = list(map(to_text, choices))
        columns = " ".join(self.task.columns.choices)
        count = len(self.task.labels or ())
        if len(answers) < 2 or not all(answer.strip() for answer in answers):
            expected = "a list of two or more texts, none empty"
            raise ValueError(f"column '{columns}': expected {expected}")
        if count and len(answers) != count:
            raise ValueError(f"{len(answers)} answers, expected {count}")
        pairs = []
        for answer in answers:
            second = answer
            if text_b and self.options.fills_gaps and "_" in text_b:
                second = answer.join(re.split("_+", text_b))
            elif text_b is not None:
                second = f"{text_b} {answer}"
            pairs.append((text_a, second))
        return tuple(pairs)


class ChoiceHead(contract.Head):
    """A softmax over the answers, which share the weights of their score."""

    def num_choices(self, is_training: bool) -> int:
        return len(self.task.class_names)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,C]"""
        import tensorflow.compat.v1 as tf

        summary = nn.summary()
        with nn.beside_network():
            scores = nn.dense(summary, 1, nn.scope + "/dense")  # [B*C,1]
        return tf.reshape(scores, [-1, len(self.task.class_names)])


# ---- the table

CLASSIFICATION = contract.TaskType(
    "classification",
    parse=parse_name,
    targets=ids,
    loss=softmax_loss,
    loss_options=True,
    activation="softmax",
    decide=most_probable,
    label_of=name_of,
    metrics=(
        metrics.accuracy,
        metrics.macro_f1,
        metrics.auc,
        metrics.matthews,
        metrics.micro_f1,
        metrics.f1,
    ),
    default_metrics=("accuracy", "macro_f1", "auc"),
    has_labels=True,
)

MULTI_LABEL = contract.TaskType(
    "multi_label",
    parse=parse_names,
    targets=indicators,
    loss=logistic_loss,
    loss_options=True,
    activation="sigmoid",
    decide=above_threshold,
    label_of=names_of,
    metrics=(
        metrics.micro_f1,
        metrics.macro_f1,
        metrics.accuracy,
        metrics.auc,
    ),
    default_metrics=("micro_f1", "macro_f1", "accuracy", "auc"),
    column="labels",
    has_labels=True,
    scope="classification_{}",
)

REGRESSION = contract.TaskType(
    "regression",
    parse=parse_number,
    targets=numbers,
    loss=squared_loss,
    decide=as_it_is,
    label_of=number_of,
    metrics=(
        metrics.pearson,
        metrics.spearman,
    ),
    default_metrics=("pearson", "spearman"),
    column="score",
    scope="regression_{}",
    verb="score",
)

MULTIPLE_CHOICE = dataclasses.replace(
    CLASSIFICATION,
    name="multiple_choice",
    loss_options=False,
    scope="logits",
    metrics=(metrics.accuracy,),
    default_metrics=("accuracy",),
    verb="choose",
    options=ChoiceOptions(),
    reader=ChoiceReader,
    head=ChoiceHead,
)
