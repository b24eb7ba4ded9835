"""Classification: one label out of several for each row."""

from __future__ import annotations

import collections
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.records.feature_spec import CLASS_ID
from xlnet.tasks.files.readers import to_text
from xlnet.tasks.metrics import confusion, split_metrics
from xlnet.tasks.output.results import Label
from xlnet.tasks.types.kind import THRESHOLD, Kind, LossOptions
from xlnet.tasks.types.task import Row, Task

_log = logging.getLogger(__name__)

SEPARATORS = (",", ";", "|")      # of labels in a cell


class Classification(Kind):
    """A softmax over the labels. An answer is their probabilities, float32 [L]; a decision and the
    truth are a label's id."""
    name = "classification"
    has_labels = True
    smooths_labels = True
    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "auc")
    metrics = {"accuracy": split_metrics.accuracy, "macro_f1": split_metrics.macro_f1,
               "auc": split_metrics.auc, "matthews": split_metrics.matthews,
               "micro_f1": split_metrics.micro_f1, "f1": split_metrics.f1}

    def is_asked_for(self, settings: Any) -> bool:
        return True

    def find_labels(self, task: Task, rows: Sequence[Row], path: str) -> tuple:
        """The names in the file, numbers by size and anything else by letter."""
        names = one_spelling({row.label for row in rows}, "%s: column '%s'" % (path, task.label[0]))
        if len(names) < 2:
            raise UserError("%s: column '%s' holds a single label, '%s'; expected two or more" % (
                path, task.label[0], "".join(names)))
        listed = sorted(name for name in names if _is_list(name, names))
        if listed:
            raise UserError("%s: column '%s' has '%s' beside its parts; several labels in a row "
                            "are for --multi_label=True; one label is written without %s" % (
                                path, task.label[0], listed[0], " ".join(SEPARATORS)))
        return sorted_names(names)

    def known_metrics(self, task: Task) -> tuple:
        return tuple(name for name in self.metrics if name != "f1" or len(task.class_names) == 2)

    # ---- files and records

    def parse_label(self, task: Task, cells: list) -> tuple:
        cell = cells[0] if cells else None
        if isinstance(cell, list) and len(cell) > 1:
            return None, "column '%s' has %d labels: %s; several in a row are for " \
                "--multi_label=True" % (task.label[0], len(cell), ", ".join(map(to_text, cell)))
        text = to_text(cell).strip()
        if not text:
            return None, "column '%s' is empty" % task.label[0]
        name = as_known(task, task.label_names.get(text, text))
        return (None, fault) if (fault := unknown_label(task, name)) else (name, None)

    def label_array(self, task: Task, rows: Sequence[Row]) -> np.ndarray:
        """int32 [n] ids."""
        position = {label: id for id, label in enumerate(task.class_names)}
        return np.array([0 if row.label is None else position[row.label] for row in rows],
                        np.int32)

    def label_features(self, task: Task, length: int) -> tuple:
        return (CLASS_ID,)

    # ---- the output layer

    def logits(self, nn: Any, task: Task, features: dict, is_training: bool) -> Any:
        """[B,L]"""
        return nn.dense(nn.summary(), len(task.class_names), nn.scope + "/logit")

    def loss(self, nn: Any, task: Task, logits: Any, features: dict,
             options: Optional[LossOptions]) -> Any:
        labels = features["label_ids"]                                        # int32 [B]
        options = options or LossOptions()
        loss = nn.softmax_cross_entropy(logits, labels, options.label_smoothing)
        if options.class_weights is not None:
            loss *= nn.tf.gather(nn.tf.constant(options.class_weights, nn.tf.float32), labels)
        return loss

    def answers(self, nn: Any, task: Task, logits: Any) -> dict:
        return {"values": nn.tf.nn.softmax(logits)}

    def served(self, tf: Any, task: Task, answers: dict, features: dict,
               threshold: float = THRESHOLD) -> dict:
        values = answers["values"]
        ids = tf.argmax(values, axis=1)
        if len(task.class_names) == 2 and threshold != THRESHOLD:
            ids = tf.cast(values[:, 1] >= threshold, tf.int64)
        return {"label": tf.gather(tf.constant(task.class_names), ids),
                "probabilities": values}

    def class_weights(self, text: str, task: Task, rows: Optional[Sequence[Row]]) -> Optional[list]:
        """As in `Kind`; text: "balanced" (rows / (L * rows of the label), so that labels count
        alike), or "label:weight,...", 1 for labels that are not named."""
        return weights_of(text, task, None if rows is None else collections.Counter(
            row.label for row in rows))

    # ---- decisions and metrics

    def decide(self, task: Task, values: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
        """int [n]"""
        values = np.asarray(values)
        if len(task.class_names) == 2 and threshold != THRESHOLD:
            return (values[:, 1] >= threshold).astype(np.int64)
        return values.argmax(axis=1)

    def constant_answer(self, task: Task, truth: np.ndarray) -> np.ndarray:
        """The most frequent label."""
        most_frequent = np.bincount(truth).argmax()
        return (np.arange(len(task.class_names)) == most_frequent).astype(np.float64)

    def collapsed(self, task: Task, values: Any, truth: Any) -> Optional[str]:
        """One class for all rows, while the true labels differ."""
        decisions = self.decide(task, values)
        if not differ(truth) or differ(decisions):
            return None
        return "every row is '%s'" % task.class_names[int(decisions[0])]

    def table(self, task: Task, values: Any, truth: Any, threshold: float) -> str:
        decisions = self.decide(task, values, threshold)
        names = task.class_names
        return "\n\n".join([split_metrics.class_table(task, decisions, truth), confusion.text(
            names, truth, decisions)])

    def draw(self, path: str, task: Task, values: Any, truth: Any, threshold: float) -> None:
        names = task.class_names
        confusion.draw(path, names, truth, self.decide(task, values, threshold))

    # ---- from Python

    def results(self, task: Task, rows: Sequence[Row], values: Any,
                threshold: float = THRESHOLD) -> list:
        values = self.checked(task, values, len(rows))
        return [Label(task.class_names[id], float(row[id]), by_label(task, row))
                for id, row in zip(self.decide(task, values, threshold), values)]

    # ---- prediction files

    def prediction_columns(self, task: Task, rows: Sequence[Row], values: np.ndarray,
                           threshold: float) -> list:
        """`id label p_<label> ...`"""
        return [("id", (row.id for row in rows)),
                ("label", self.answer_texts(task, values, threshold)),
                *probability_columns(task, values)]

    def answer_texts(self, task: Task, values: np.ndarray, threshold: float) -> list:
        return [task.class_names[id] for id in self.decide(task, values, threshold)]


# ---- what kinds with labels share

def weights_of(text: str, task: Task, counts: Optional[Mapping[str, int]]) -> Optional[list]:
    """What `Classification.class_weights` returns. counts: how often each label is there; None:
    not known."""
    names = task.class_names
    if text == "balanced":
        if counts is None:
            return None
        total = sum(counts.values())
        return [total / (len(names) * max(counts.get(name, 0), 1)) for name in names]
    weights = dict.fromkeys(names, 1.0)
    for part in text.split(","):
        name, colon, weight = map(str.strip, part.rpartition(":"))
        if not colon:
            raise UserError("class_weights: '%s', expected balanced, or label:weight, ... with "
                            "the labels %s" % (part, ", ".join(weights)))
        if name not in weights:
            raise UserError("class_weights: no label '%s'%s (labels: %s)" % (
                name, did_you_mean(name, weights), ", ".join(weights)))
        try:
            weights[name] = float(weight)
        except ValueError:
            raise UserError("class_weights: '%s' is not a number" % weight) from None
        if not 0 <= weights[name] < math.inf:
            raise UserError("class_weights: %s of label '%s', expected a number from 0 on"
                            % (weight, name))
    return list(weights.values())


def unknown_label(task: Task, name: str) -> Optional[str]:
    """The fault of a name that is none of the labels; None where it is one, or where the task has
    not found its `labels` yet: ()."""
    if not task.labels or name in task.labels or name in task.skipped_labels:
        return None
    return "unknown label '%s' (labels: %s)" % (name, ", ".join(task.labels))


def plain(name: str) -> str:
    """What spellings of one label have in common: of 1 and 1.0 the number, of True, TRUE and true
    the lower case. 01 is a code, which is not 1."""
    if re.fullmatch(r"-?(0|[1-9]\d*)\.0*", name, re.ASCII):
        return name.partition(".")[0]
    return name.lower() if name.lower() in ("true", "false") else name


def one_spelling(names: set, where: str) -> set:
    """The names of labels, of spellings of the same one (1 and 1.0, True and true) the shortest.

    Raises:
      UserError: labels are true or false, and 1 or 0, of which nobody can say whether they are the
        same. where: the beginning of the message.
    """
    by_plain: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        by_plain.setdefault(plain(name), []).append(name)
    for word, number in (("true", "1"), ("false", "0")):
        if word in by_plain and number in by_plain:
            raise UserError("%s has '%s' and '%s'; expected one of them for the same label" % (
                where, by_plain[word][0], by_plain[number][0]))
    for spellings in by_plain.values():
        if len(spellings) > 1:
            _log.warning("note: %s: %s are one label, '%s'", where, " and ".join(
                map("'%s'".__mod__, spellings)), spellings[0])
    return {spellings[0] for spellings in by_plain.values()}


def as_known(task: Task, name: str) -> str:
    """The label of the task that `name` is another spelling of; the name where there is none."""
    if not task.labels or name in task.labels:
        return name
    return next((label for label in task.labels if plain(label) == plain(name)), name)


def _is_list(name, names):
    """Whether a label is a list of other labels; a number with a decimal comma is none."""
    return not re.fullmatch(r"\d+,\d+", name) and any(
        separator in name and {part.strip() for part in name.split(separator)} <= names
        for separator in SEPARATORS)


def sorted_names(names: set) -> tuple:
    """Numbers by size, and anything else by letter."""
    return tuple(sorted(sorted(names), key=int) if all(map(str.isdecimal, names))
                 else sorted(names))


def differ(values: Any) -> bool:
    """Whether two rows have different values [n, ...]."""
    return len(values) > 1 and bool(np.ptp(np.asarray(values), axis=0).any())


def by_label(task: Task, probabilities: np.ndarray) -> dict[str, float]:
    """The probabilities [L] of a row by the labels' names."""
    return dict(zip(task.class_names, probabilities.tolist()))


def probability_columns(task: Task, values: np.ndarray) -> list:
    """A column of probabilities for each label; values [n,L]. The texts are made one by one, so
    that there are never those of all rows and labels."""
    return [("p_" + label, map("%.6f".__mod__, column))
            for label, column in zip(task.class_names, np.asarray(values).T)]
