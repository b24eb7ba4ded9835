"""Classification: one label out of several for each row."""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.records.feature_spec import CLASS_ID
from xlnet.tasks.files.readers import not_plain, to_number, to_text
from xlnet.tasks.files.table_rows import NOT_TEXT
from xlnet.tasks.metrics import confusion, split_metrics
from xlnet.tasks.output.results import Label
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions
from xlnet.tokenization.tokenizer import is_text

_log = logging.getLogger(__name__)

SEPARATORS = (",", ";", "|")  # of labels in a cell
_RARE_SEPARATORS = "#/&+"
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_LONGEST_SHOWN = 80  # of a label in an error [characters]
_FEW_ROWS = 20  # of which each may have its own label


class ClassificationReader(contract.Reader):
    """The label of a row is one of the task's names."""

    def from_train_file(self, path: str) -> Task:
        """The names in the file: numbers by size, others in alphabetical order."""
        where = f"{path}: column '{self.task.columns.label[0]}'"
        # If nearly all labels differ, or all are the same, this is probably another column. Lists
        # of labels are for another task type.
        rows = self.read(path, True)
        names = merge_spellings({row.label for row in rows}, where)
        if len(rows) >= _FEW_ROWS and 2 * len(names) > len(rows):
            _log.warning(
                "note: %s has %d labels in %d rows, nearly each of them once; is it the "
                "column of the labels (--label_column)?",
                where,
                len(names),
                len(rows),
            )
        if len(names) < 2:
            raise UserError(
                "{} holds a single label, '{}'; expected two or more".format(where, "".join(names))
            )
        listed = sorted(name for name in names if _is_list(name, names))
        if listed and self.task.columns.label_form is None:
            raise UserError(
                f"{where} has '{listed[0]}' and its parts; several labels in a row are for "
                "--multi_label=True; if it is one label, give --label_form=names"
            )
        note_joined(names, where, "--multi_label=True with ")
        return dataclasses.replace(self.task, labels=sorted_names(names))

    def parse_label(self, cells: list) -> tuple:
        task, cell = self.task, cells[0] if cells else None
        error = not_plain(task.columns.label[0], cell) if task.columns.label else None
        if error:
            return None, error
        if isinstance(cell, list) and len(cell) > 1:
            return (
                None,
                "column '{}' has {} labels: {}; several in a row are for --multi_label=True".format(
                    task.columns.label[0], len(cell), ", ".join(map(to_text, cell))
                ),
            )
        text = to_text(cell).strip()
        if not text:
            return None, f"column '{task.columns.label[0]}' is empty"
        return known_label(task, task.published.label_names.get(text, text))

    def label_array(self, rows: Sequence[Row]) -> np.ndarray:
        """int32 [n] ids."""
        position = {label: id for id, label in enumerate(self.task.class_names)}
        return np.array([0 if row.label is None else position[row.label] for row in rows], np.int32)


class ClassificationHead(contract.Head):
    """A softmax over the labels."""

    smooths_labels = True

    def features(self, length: int) -> tuple:
        return (CLASS_ID,)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,L]"""
        return nn.dense(nn.summary(), len(self.task.class_names), nn.scope + "/logit")

    def loss(self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]) -> Any:
        import tensorflow.compat.v1 as tf

        labels = features["label_ids"]  # int [B]
        options = options or LossOptions()
        loss = nn.softmax_cross_entropy(logits, labels, options.label_smoothing)
        if options.class_weights is not None:
            loss *= tf.gather(tf.constant(options.class_weights, tf.float32), labels)
        return loss

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        import tensorflow.compat.v1 as tf

        return {"values": tf.nn.softmax(logits)}

    def class_weights(self, text: str, rows: Optional[Sequence[Row]]) -> Optional[list]:
        return weights_of(
            text,
            self.task,
            None if rows is None else collections.Counter(row.label for row in rows),
        )


class ClassificationExport(contract.Export):
    """The label, and the probabilities of all."""

    def outputs(self, outputs: dict, features: dict, threshold: float = THRESHOLD) -> dict:
        import tensorflow.compat.v1 as tf

        values = outputs["values"]
        ids = tf.argmax(values, axis=1)
        if len(self.task.class_names) == 2 and threshold != THRESHOLD:
            ids = tf.cast(values[:, 1] >= threshold, tf.int64)
        return {
            "label": tf.gather(tf.constant(self.task.class_names), ids),
            "probabilities": values,
        }


class ClassificationScorer(contract.Scorer):
    """A prediction is the labels' probabilities, float32 [L]; a decision and a gold label are an
    id."""

    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "auc")

    @property
    def metrics(self) -> Mapping[str, split_metrics.Metric]:
        names = ["accuracy", "macro_f1", "auc", "matthews", "micro_f1"]
        if len(self.task.class_names) == 2:
            names.append("f1")  # of one of two labels
        return {name: getattr(split_metrics, name) for name in names}

    @property
    def probabilities(self) -> Sequence[str]:
        return self.task.class_names

    @property
    def has_threshold(self) -> bool:
        return len(self.task.class_names) == 2

    def decide(self, values: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
        """int [n]"""
        values = np.asarray(values)
        # At the threshold 0.5 the more probable label is chosen; if both have exactly 0.5, the
        # first one.
        if len(self.task.class_names) == 2 and threshold != THRESHOLD:
            return (values[:, 1] >= threshold).astype(np.int64)
        return values.argmax(axis=1)

    def constant_prediction(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> Optional[str]:
        """One label for all rows."""
        decisions = self.decide(values, threshold)
        if not contract.differ(gold_labels) or contract.differ(decisions):
            return None
        return f"every row is '{self.task.class_names[int(decisions[0])]}'"

    def table(
        self, values: Any, gold_labels: Any, threshold: float, plot_path: Optional[str] = None
    ) -> str:
        decisions, names = self.decide(values, threshold), self.task.class_names
        if plot_path:
            confusion.draw(plot_path, names, gold_labels, decisions)
        return "\n\n".join(
            [
                split_metrics.class_table(self.task, decisions, gold_labels),
                confusion.text(names, gold_labels, decisions),
            ]
        )

    def texts(self, values: np.ndarray, threshold: float) -> list:
        return [self.task.class_names[id] for id in self.decide(values, threshold)]

    def results(self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD) -> list:
        values = contract.checked(self, values, len(rows))
        names = self.task.class_names
        return [
            Label(names[id], float(row[id]), dict(zip(names, row.tolist())))
            for id, row in zip(self.decide(values, threshold), values)
        ]


CLASSIFICATION = contract.TaskType(
    "classification",
    ClassificationReader,
    ClassificationHead,
    ClassificationScorer,
    has_labels=True,
    selecting_flag="task_name",
    export=ClassificationExport,
)


# ---- for all types with labels


def weights_of(text: str, task: Task, counts: Optional[Mapping[str, int]]) -> Optional[list]:
    """The result of `Head.class_weights`: "balanced" (rows / (L * rows of the label), so that
    labels have the same total weight), or "label:weight,...", 1 for other labels. counts: the
    frequency of each label; None: not known."""
    names = task.class_names
    if text == "balanced":
        if counts is None:
            return None
        total = sum(counts.values())
        return [total / (len(names) * max(counts.get(name, 0), 1)) for name in names]
    return numbers_of(
        "class_weights",
        text,
        names,
        1.0,
        sys.float_info.max,
        "balanced, or label:weight, ... with numbers from 0",
    )


def numbers_of(
    flag: str, text: str, names: Sequence[str], default: float, highest: float, expected: str
) -> list:
    """The number of each label in "label:number,...", floats [L] from 0 to `highest`; `default` for
    labels that the text does not have. flag, expected: its name and form, for errors."""
    by_plain = _labels_by_plain(tuple(names))
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, colon, number = map(str.strip, part.rpartition(":"))
        label = name if name in names else by_plain.get(plain_spelling(name))
        value = to_number(number)
        if not colon or not 0 <= value <= highest:
            raise UserError(f"{flag}: '{part}', expected {expected}")
        if label is None:
            raise UserError(
                "{}: no label '{}'{} (labels: {})".format(
                    flag, name, did_you_mean(name, names), ", ".join(names)
                )
            )
        if label in found:
            raise UserError(f"{flag} names '{label}' twice, expected labels that differ")
        found[label] = value
    return [found.get(name, default) for name in names]


def by_label(flag: str, columns: tuple[str, ...], labels: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that a flag names, in the order of the labels that they are named after; as they
    are given if no label has the name of one. Raises UserError if only some are labels: then no
    column is known to be that of a label."""
    first = labels[: len(columns)]
    if sorted(columns) == sorted(first):
        return first
    # Numbers are places in a file without names, whatever the labels are called.
    are_places = all(each.isdecimal() for each in columns)
    if set(columns) & set(labels) and not are_places:
        raise UserError(
            "{} names {}, but the model has the labels {}; expected these in any order, or columns "
            "that have other names than labels, in this order".format(
                flag, ", ".join(columns), ", ".join(labels)
            )
        )
    return columns


def known_label(task: Task, text: str) -> tuple:
    """(the label of a text in any spelling, None) or (None, error); any text is a label of a task
    that does not know its labels yet: ()."""
    if not is_text(text):
        return None, NOT_TEXT
    if not task.labels or text in task.labels or text in task.published.skipped_labels:
        return text, None
    spelled = _labels_by_plain(task.labels).get(plain_spelling(text))
    if spelled is not None:
        return spelled, None
    return None, f"unknown label '{text:.{_LONGEST_SHOWN}}'{_known_in_words(task, text)}"


@functools.lru_cache(maxsize=8)
def _labels_by_plain(labels: tuple[str, ...]) -> dict[str, str]:
    """The first label of each common spelling."""
    return {plain_spelling(label): label for label in reversed(labels)}


def _known_in_words(task: Task, text: str) -> str:
    """All labels if they are few; of many the nearest one and their number."""
    names = task.class_names
    if len(names) <= contract.LABELS_SHOWN:
        return " (labels: {})".format(", ".join(names))
    return f" ({len(names):,} labels)"


def plain_spelling(name: str) -> str:
    """The common form of the spellings of a label: 1 for 1.0, true for True and TRUE, Unicode's
    composed form. 01 is a code and stays."""
    if re.fullmatch(r"-?(0|[1-9]\d*)\.0*", name, re.ASCII):
        return name.partition(".")[0]
    return name.lower() if name.lower() in ("true", "false") else unicodedata.normalize("NFC", name)


def merge_spellings(names: set, where: str) -> set:
    """The names of labels with the shortest spelling of each (1 of 1 and 1.0, True of True, true);
    where: the beginning of messages. True and 1 in one file may be the same label or two:
    refused."""
    by_plain: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        by_plain.setdefault(plain_spelling(name), []).append(name)
    for word, number in (("true", "1"), ("false", "0")):
        if word in by_plain and number in by_plain:
            raise UserError(
                f"{where} has '{by_plain[word][0]}' and '{by_plain[number][0]}'; expected "
                "one of them for the same label"
            )
    for spellings in by_plain.values():
        if len(spellings) > 1:
            _log.warning(
                "note: %s: %s are one label, '%s'",
                where,
                " and ".join(map("'%s'".__mod__, spellings)),
                spellings[0],
            )
    found = {spellings[0] for spellings in by_plain.values()}
    note_similar(found, where)
    return found


def note_similar(names: Collection[str], where: str) -> None:
    """Warns of labels as one has them that is not always written in the same way."""
    similar: dict[str, list[str]] = {}
    for name in sorted(names):
        similar.setdefault("".join(name.casefold().split()), []).append(name)
    for spellings in similar.values():
        if len(spellings) > 1:
            _log.warning(
                "note: %s: %s differ in case or blanks alone and are different labels",
                where,
                ", ".join(map("'%s'".__mod__, spellings)),
            )


def _is_list(name: str, names: AbstractSet[str], separators: Iterable[str] = SEPARATORS) -> bool:
    """Whether a label is a list of other labels, and not a number with a decimal comma."""
    return not re.fullmatch(r"\d+,\d+", name) and any(
        separator in name and {part.strip() for part in name.split(separator)} <= names
        for separator in separators
    )


def note_joined(names: set, where: str, how: str = "") -> None:
    """Warns of labels that may be several, such as doccano's A#B; `how` to read them so."""
    for separator in _RARE_SEPARATORS:
        joined = sorted(name for name in names if _is_list(name, names, separator))
        if joined:
            _log.warning(
                "note: %s has '%s' and its parts: one label, or several joined by '%s' "
                "(%s--label_separator='%s')",
                where,
                joined[0],
                separator,
                how,
                separator,
            )


def sorted_names(names: set) -> tuple:
    """Numbers by size, such as -1, 0, 1.5, 10; others in alphabetical order."""
    if all(map(_NUMBER.fullmatch, names)):
        return tuple(sorted(sorted(names), key=float))
    return tuple(sorted(names))
