"""Multi-label classification: any number of the labels for each row."""

from __future__ import annotations

import ast
import collections
import dataclasses
import io
import itertools
import json
import logging
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.records.feature_spec import Feature
from xlnet.tasks.files import diagnosis
from xlnet.tasks.files.readers import to_text
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.output.prediction_files import is_written_as_it_is
from xlnet.tasks.output.results import Labels
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.classification import (
    SEPARATORS,
    ClassificationHead,
    by_label,
    known_label,
    merge_spellings,
    note_joined,
    sorted_names,
)
from xlnet.tasks.types.contract import THRESHOLD, LossOptions

_log = logging.getLogger(__name__)

_INDICATORS = {
    **dict.fromkeys(("0", "0.", "0.0", "false", "False", "FALSE"), "0"),
    **dict.fromkeys(("1", "1.", "1.0", "true", "True", "TRUE"), "1"),
}
_SPELLED = {"newline": "\n", "tab": "\t"}  # separators as --label_separator may have them
_NUMBERED = "label_%d"  # the labels of lists of 0 and 1


@dataclasses.dataclass(frozen=True)
class MultiLabelOptions:
    """separator: the text between the labels of a cell; None: a comma, which is not declared."""

    separator: Optional[str] = None


class MultiLabelReader(contract.Reader):
    """The label of a row is a sorted tuple of names. Several label columns have 0 or 1 for each
    label. One column has a list, of JSON, Parquet or fastText, or a text whose form is declared:

    | `Columns.label_form` | cell |
    |---|---|
    | None or "names" | `sad,old`: names between separators; empty: no label |
    | "json" | `["sad", "old"]` |
    | "python" | `['sad', 'old']`, also a tuple or a set |
    | "indicators" | `[1, 0]`: 0 or 1 for each label, which are called label_0, label_1, ... |
    """

    def from_train_file(self, path: str) -> Task:
        """The names of the columns, or those in the one column, sorted."""
        task = self.task
        if len(task.columns.label) > 1:
            return dataclasses.replace(task, labels=task.columns.label)
        where = f"{path}: column '{task.columns.label[0]}'"
        found = {row.label for row in self.read(path, True)}

        # The form "indicators": lists of 0 and 1 with an item for each label.
        if task.columns.label_form == "indicators":
            lengths = sorted(set(map(len, found)))
            if len(lengths) > 1:
                raise UserError(
                    f"{where} has lists of {lengths[0]} and of {lengths[1]}; expected 0 or 1 for "
                    "each label"
                )
            if not lengths[0]:
                raise UserError(f"{where} has empty lists; expected 0 or 1 for each label")
            labels = tuple(_NUMBERED % i for i in range(lengths[0]))
            _log.info("%s: the labels are called %s to %s", where, labels[0], labels[-1])
            return dataclasses.replace(task, labels=labels)

        # All other forms have names of labels.
        names = {name for label in found for name in label}
        if not names:
            raise UserError(f"{where} holds no label; expected one or more")
        if task.columns.label_form is None and names == {"0", "1"} and len(found) == 1:
            raise UserError(
                f"{where} has 0 and 1 in each row: give --label_form=indicators if they say which "
                "labels a row has, --label_form=names if these are names"
            )
        if self.options.separator is None and max(map(len, found)) == 1:
            for other in SEPARATORS[1:]:
                parts = collections.Counter(
                    part.strip() for name in names for part in name.split(other)
                )
                if len(parts) < sum(parts.values()):
                    raise UserError(
                        f"{where}: no row has ',' between two labels, but several have '{other}'"
                        f": give --label_separator='{other}', or --label_separator=, if these are "
                        "single labels"
                    )
            note_joined(names, where)
            _log.warning(
                "note: %s has no row with two labels or more; label_separator is ','", where
            )
        return dataclasses.replace(task, labels=sorted_names(merge_spellings(names, where)))

    def from_model(self, stored: dict) -> Task:
        task = super().from_model(stored)
        if len(task.columns.label) < 2:  # one column has all labels of a row
            return task
        columns = by_label("label_column", task.columns.label, task.class_names)
        return task.with_columns(label=columns)

    def parse_label(self, cells: list) -> tuple:
        """A sorted tuple of names; with the form "indicators" the 0s and 1s until the labels are
        known."""
        task = self.task
        if len(cells) > 1:
            return self._parse_indicators(cells)
        if not cells or cells[0] is None:
            return None, f"no '{task.columns.label[0]}'"
        try:
            texts = self._texts(cells[0])
        except ValueError as e:
            return None, f"column '{task.columns.label[0]}': {e}"
        if task.columns.label_form == "indicators":
            return self._chosen(texts)
        found = [known_label(task, text) for text in sorted({*texts} - {""})]
        errors = [error for _, error in found if error]
        if errors:
            return None, errors[0]
        return tuple(sorted({name for name, _ in found})), None

    def _texts(self, cell: Any) -> list[str]:
        """The labels of a cell; a ValueError if it has not the declared form."""
        form, separator = self.task.columns.label_form, self.options.separator
        if isinstance(cell, list):
            values = cell
        elif form == "json":
            values = list_of(cell, _json_value)
        elif form == "python":
            values = list_of(cell, _python_value)
        elif form == "indicators":
            values = re.split(r"[,\s]+", to_text(cell).strip().strip("[]").strip())
        else:
            text = to_text(cell)
            if form is None and separator is None:
                hint = diagnosis.of_labels(text)
                if hint:
                    raise ValueError(hint)
            return [part.strip() for part in text.split(separator or ",")]
        wrong = [value for value in values if value is None or isinstance(value, (dict, list))]
        if wrong:
            raise ValueError(f"a list with {json.dumps(wrong[0])!s:.80}, expected names of labels")
        texts = [to_text(value).strip() for value in values]
        if form is None and len(set(texts)) < len(texts) and set(texts) <= {"0", "1"}:
            raise ValueError(diagnosis.of_indicators(cell))
        return texts

    def _chosen(self, texts: list[str]) -> tuple:
        """The labels of a list of 0 and 1."""
        labels = self.task.labels
        values = [_INDICATORS.get(text) for text in texts]
        if None in values:
            wrong = texts[values.index(None)]
            return None, f"column '{self.task.columns.label[0]}': '{wrong}', expected 0 or 1"
        if not labels:
            return tuple(values), None
        if len(values) != len(labels):
            return (
                None,
                f"column '{self.task.columns.label[0]}' has a list of {len(values)}, expected "
                f"{len(labels)}",
            )
        return tuple(sorted(name for name, value in zip(labels, values) if value == "1")), None

    def _parse_indicators(self, cells: list) -> tuple:
        """Labels as columns of 0 and 1, in the order of the task's labels."""
        task = self.task
        texts = [to_text(cell).strip() for cell in cells]
        if task.labels and len(texts) != len(task.labels):
            return None, "{} columns of labels, expected {}: {}".format(
                len(texts), len(task.labels), ", ".join(task.labels)
            )
        for name, text in zip(task.columns.label, texts):
            if text not in _INDICATORS:
                return None, f"column '{name}': '{text}', expected 0 or 1"
        return tuple(
            sorted(
                name
                for name, text in zip(task.labels or task.columns.label, texts)
                if _INDICATORS[text] == "1"
            )
        ), None

    def label_array(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n,L] of 0 and 1."""
        position = {label: id for id, label in enumerate(self.task.class_names)}
        array = np.zeros([len(rows), len(position)], np.float32)
        for i, row in enumerate(rows):
            array[i, [position[name] for name in row.label or ()]] = 1
        return array


class MultiLabelHead(ClassificationHead):
    """A logistic regression for each label; the loss of a record is their mean."""

    scope_name = "classification"
    class_weights = contract.Head.class_weights

    def features(self, length: int) -> tuple:
        return (Feature("label_ids", (len(self.task.class_names),), "float"),)

    def loss(self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]) -> Any:
        labels = features["label_ids"]  # float32 [B,L]
        options = options or LossOptions()
        if options.label_smoothing:
            labels = labels * (1.0 - options.label_smoothing) + options.label_smoothing / 2
        import tensorflow.compat.v1 as tf

        return tf.reduce_mean(nn.sigmoid_cross_entropy(logits, labels), axis=1)

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        import tensorflow.compat.v1 as tf

        return {"values": tf.sigmoid(logits)}


class MultiLabelExport(contract.Export):
    """Whether each label is one of the text's, and its probability."""

    def outputs(self, outputs: dict, features: dict, threshold: float = THRESHOLD) -> dict:
        values = outputs["values"]
        return {"is_label": values >= threshold, "probabilities": values}


class MultiLabelScorer(contract.Scorer):
    """A prediction is the labels' probabilities, float32 [L]; a decision and the gold labels are 0
    and 1, float32 [L]."""

    default_metrics = ("micro_f1", "macro_f1", "accuracy", "auc")
    metrics = {name: getattr(split_metrics, name) for name in default_metrics}
    column = "labels"
    has_threshold = True

    @property
    def probabilities(self) -> Sequence[str]:
        return self.task.class_names

    def decide(self, values: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
        """float32 [n,L]"""
        # Compared in float32, as in an exported model, so that a probability of 0.7 reaches a
        # threshold of 0.7.
        return (np.asarray(values, np.float32) >= np.float32(threshold)).astype(np.float32)

    def constant_prediction(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> Optional[str]:
        """One set of labels for all rows."""
        if not contract.differ(gold_labels) or contract.differ(self.decide(values, threshold)):
            return None
        return "every row has the labels %s" % (
            ", ".join(self._names(values, threshold)[0]) or "(none)"
        )

    def table(
        self, values: Any, gold_labels: Any, threshold: float, plot_path: Optional[str] = None
    ) -> str:
        return split_metrics.class_table(self.task, self.decide(values, threshold), gold_labels)

    def _names(self, values: Any, threshold: float) -> list[tuple[str, ...]]:
        """The labels of each row, a list of n tuples."""
        return [
            tuple(itertools.compress(self.task.class_names, row))
            for row in self.decide(values, threshold)
        ]

    def texts(self, values: np.ndarray, threshold: float) -> list:
        """Names with separators between, or lists in JSON if some name could be read as two, or if
        a cell of a table cannot have a name or the separator."""
        separator = self.options.separator or ","
        is_plain = all(map(is_written_as_it_is, (separator, *self.task.class_names))) and all(
            name.lstrip()[:1] not in "[({" and name.splitlines() == [name] and separator not in name
            for name in self.task.class_names
        )
        return [
            separator.join(names) if is_plain else json.dumps(names, ensure_ascii=False)
            for names in self._names(values, threshold)
        ]

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """Probability and error are those of one label, the one with the worst decision, or else
        the least sure one. The error is the distance of its probability from 0 or 1."""
        gold_labels = np.asarray(self.gold_labels(rows))
        for row, gold, labels, predicted, decision, found in zip(
            rows,
            self.texts(gold_labels, THRESHOLD),
            gold_labels,
            self.texts(values, threshold),
            self.decide(values, threshold),
            np.asarray(values),
        ):
            if row.label is None:
                yield contract.Comparison("", predicted, None, 0.0)
                continue
            is_wrong = labels != decision
            of_decision = np.where(decision > 0, found, 1 - found)
            error = 0.0
            if is_wrong.any():
                worst = np.argmax(np.where(is_wrong, np.abs(labels - found), -1))
                error = float(max(abs(labels[worst] - found[worst]), 1e-9))
            else:
                worst = np.argmin(of_decision)
            yield contract.Comparison(gold, predicted, float(of_decision[worst]), error)

    def results(self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD) -> list:
        values = contract.checked(self, values, len(rows))
        return [
            Labels(names, dict(zip(self.task.class_names, row.tolist())))
            for names, row in zip(self._names(values, threshold), values)
        ]


def _with_settings(task: Task, settings: Any) -> Task:
    return task.with_options(
        separator=_SPELLED.get(settings.label_separator, settings.label_separator),
    )


MULTI_LABEL = contract.TaskType(
    "multi_label",
    MultiLabelReader,
    MultiLabelHead,
    MultiLabelScorer,
    MultiLabelOptions(),
    has_labels=True,
    with_settings=_with_settings,
    selecting_flag="multi_label",
    export=MultiLabelExport,
)


# ---- lists in a cell


def list_of(text: Any, value_of: Callable[[str], Any]) -> list[Any]:
    """The list that a text of JSON or Python is; a ValueError if it is none."""
    value = value_of(text) if isinstance(text, str) else text
    if not isinstance(value, list):
        raise ValueError(f"'{text!s:.80}' is not a list")
    return value


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"'{text:.80}' is not a list of JSON") from None


def _python_value(text: str) -> Any:
    """A list, tuple or set of texts and numbers, as a list."""
    if text.strip() == "set()":
        return []
    try:
        value = ast.literal_eval(text.strip())
        tokens = list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        raise ValueError(f"'{text:.80}' is not a list of Python") from None
    # NumPy prints texts without commas between them; Python joins such texts to one.
    if any(
        first.type == second.type == tokenize.STRING for first, second in zip(tokens, tokens[1:])
    ):
        raise ValueError(f"'{text:.80}' has no commas, as NumPy's arrays; write array.tolist()")
    if isinstance(value, set):
        return sorted(value, key=str)
    if isinstance(value, tuple):
        return list(value)
    return value
