"""The types whose examples are rows of a table: classification, multi-label classification,
regression and multiple choice.

| type | label of a row | output | loss | decision | first metric |
|---|---|---|---|---|---|
| classification | one of L names | L probabilities | softmax | the most probable one | accuracy |
| multi-label | any of L names | L probabilities | L logistic | those above a threshold | F1 |
| regression | a number | a score | squared error | the score | Pearson correlation |
| multiple choice | one of C | C probabilities | softmax | the most probable one | accuracy |

Shape letters: n rows, B records of a batch, L labels, C choices, T tokens.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import re
import string
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.corpus.feature_spec import CLASS_ID, Feature
from xlnet.corpus.tokenizer import is_text
from xlnet.support import encodings
from xlnet.support.errors import UserError, did_you_mean, wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.files import published
from xlnet.tasks.files.forms import parsed
from xlnet.tasks.files.readers import not_plain, to_number, to_text
from xlnet.tasks.files.row_store import MappedRows
from xlnet.tasks.files.table_rows import NOT_TEXT
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.output.results import Choice, Label, Labels
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions

_HIGHEST = float(
    np.finfo(np.float32).max
)  # of the absolute value of a score in a record
_LABELS_OF_A_MATRIX = 40  # with more, the table of confusions is left out
_LONGEST_SHOWN = 80  # of a label in an error [characters]
_ABSENT = -1e30  # the logit of an answer that a row does not have
_INDICATORS = {
    "0": False,
    "0.0": False,
    "1": True,
    "1.0": True,
    "false": False,
    "true": True,
}


# ---- classification


class ClassificationReader(contract.Reader):
    """The label of a row is one of the task's names."""

    directory_forms: ClassVar = {"folders": published.read_folders}

    def from_train_file(self, path: str) -> Task:
        """The names in the file: numbers by size, others in alphabetical order."""
        names = {row.label for row in self.read(path, True)}
        if len(names) < 2:
            where = f"{path}: column '{self.task.columns.label[0]}'"
            raise wrong(
                where,
                f"a single label, '{names.pop()}'",
                "two or more",
                "--label_column",
            )
        return dataclasses.replace(self.task, labels=sorted_names(names))

    def parse_label(self, cells: list) -> tuple:
        column, cell = self.task.columns.label[0], cells[0] if cells else None
        error = not_plain(column, cell)
        if isinstance(cell, list) and len(cell) > 1:
            error = f"column '{column}' has {len(cell)} labels; several are for --multi_label=True"
        if error:
            return None, error
        text = encodings.composed(to_text(cell).strip())
        if not text:
            return None, f"column '{column}' is empty"
        return known_label(self.task, self.task.published.label_names.get(text, text))

    def label_array(self, rows: Sequence[Row]) -> np.ndarray:
        """int32 [n] ids."""
        position = {label: id for id, label in enumerate(self.task.class_names)}
        return np.array(
            [0 if row.label is None else position[row.label] for row in rows], np.int32
        )


class ClassificationHead(contract.Head):
    """A softmax over the labels."""

    smooths_labels = True

    def features(self, length: int) -> tuple:
        return (CLASS_ID,)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,L]"""
        return nn.dense(nn.summary(), len(self.task.class_names), nn.scope + "/logit")

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
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
        if rows is None:
            return weights_of(text, self.task, None)
        return weights_of(
            text, self.task, collections.Counter(row.label for row in rows)
        )


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

    def table(self, values: Any, gold_labels: Any, threshold: float) -> str:
        decisions, names = self.decide(values, threshold), self.task.class_names
        by_label = split_metrics.class_table(self.task, decisions, gold_labels)
        if len(names) > _LABELS_OF_A_MATRIX:
            return by_label
        return (
            by_label
            + "\n\n"
            + split_metrics.confusion_table(names, decisions, gold_labels)
        )

    def texts(self, values: np.ndarray, threshold: float) -> list:
        return [self.task.class_names[id] for id in self.decide(values, threshold)]

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        values = contract.checked(self, values, len(rows))
        names = self.task.class_names
        results = []
        for id, row in zip(self.decide(values, threshold), values):
            results.append(
                Label(names[id], float(row[id]), dict(zip(names, row.tolist())))
            )
        return results


class ClassificationExport(contract.Export):
    """The label, and the probabilities of all."""

    def outputs(
        self, outputs: dict, features: dict, threshold: float = THRESHOLD
    ) -> dict:
        import tensorflow.compat.v1 as tf

        values = outputs["values"]
        ids = tf.argmax(values, axis=1)
        if len(self.task.class_names) == 2 and threshold != THRESHOLD:
            ids = tf.cast(values[:, 1] >= threshold, tf.int64)
        return {
            "label": tf.gather(tf.constant(self.task.class_names), ids),
            "probabilities": values,
        }


CLASSIFICATION = contract.TaskType(
    "classification",
    ClassificationReader,
    ClassificationHead,
    ClassificationScorer,
    has_labels=True,
    selecting_flag="task_name",
    export=ClassificationExport,
)


# ---- regression


class RegressionReader(contract.Reader):
    """The label of a row is a number."""

    def parse_label(self, cells: list) -> tuple:
        text = to_text(cells[0]).strip() if cells else ""
        if not text:
            return None, f"column '{self.task.columns.label[0]}' is empty"
        return self.parse_score(text)

    def parse_score(self, text: str) -> tuple:
        """As `parse_label`, for a cell that is not empty."""
        score, column = to_number(text), self.task.columns.label[0]
        if abs(score) <= _HIGHEST:
            return score, None
        if math.isfinite(score):
            return None, f"column '{column}': '{text}', expected at most {_HIGHEST:.6g}"
        return None, f"column '{column}': '{text}' is not a number"

    def label_array(self, rows: Sequence[Row]) -> np.ndarray:
        """float32 [n]"""
        return np.array([row.label or 0 for row in rows], np.float32)


class RegressionHead(contract.Head):
    """A score, with its squared error as the loss."""

    scope_name = "regression"

    def features(self, length: int) -> tuple:
        return (Feature("label_ids", (), "float"),)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        import tensorflow.compat.v1 as tf

        return tf.squeeze(nn.dense(nn.summary(), 1, nn.scope + "/logit"), axis=-1)

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
        import tensorflow.compat.v1 as tf

        return tf.square(logits - features["label_ids"])

    def outputs_in_words(self) -> str:
        return "scores"


class RegressionScorer(contract.Scorer):
    """A prediction, a decision and a gold label are a float32."""

    default_metrics: ClassVar[tuple[str, ...]] = ("pearson", "spearman", "mse", "mae")
    metrics = {name: getattr(split_metrics, name) for name in default_metrics}
    lower_is_better = frozenset({"mse", "mae"})
    column = "score"
    is_number = True

    def counts_in_words(self, rows: Sequence[Row]) -> str:
        scores = self.task.reader.label_array(rows)
        return f"from {scores.min():g} to {scores.max():g}, mean {scores.mean():.2f}"

    def texts(self, values: np.ndarray, threshold: float) -> list:
        return [f"{value:.9g}" for value in values]

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """The error is the absolute difference."""
        for row, predicted, value in zip(rows, self.texts(values, threshold), values):
            error = 0.0 if row.label is None else abs(float(value) - row.label)
            gold = "" if row.label is None else f"{row.label:.9g}"
            yield contract.Comparison(gold, predicted, None, error)

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """Floats."""
        return contract.checked(self, values, len(rows)).tolist()


class RegressionExport(contract.Export):
    """The score."""

    def outputs(
        self, outputs: dict, features: dict, threshold: float = THRESHOLD
    ) -> dict:
        return {"score": outputs["values"]}


REGRESSION = contract.TaskType(
    "regression",
    RegressionReader,
    RegressionHead,
    RegressionScorer,
    verb="score",
    selecting_flag="is_regression",
    export=RegressionExport,
)


# ---- several labels


@dataclasses.dataclass(frozen=True)
class MultiLabelOptions:
    """separator: the text between the labels of a cell."""

    separator: str = ","


class MultiLabelReader(contract.Reader):
    """The label of a row is a sorted tuple of names: those between separators in a cell, those of a
    list, or, of several columns, those with 1 and not 0."""

    def from_train_file(self, path: str) -> Task:
        """The names of the columns, or those in the one column, sorted."""
        columns = self.task.columns.label
        if len(columns) > 1:
            return dataclasses.replace(self.task, labels=columns)
        names = set(
            itertools.chain.from_iterable(row.label for row in self.read(path, True))
        )
        if not names:
            raise wrong(f"{path}: column '{columns[0]}'", "no label", "one or more")
        return dataclasses.replace(self.task, labels=sorted_names(names))

    def parse_label(self, cells: list) -> tuple:
        if not cells or cells[0] is None:
            return None, f"no '{self.task.columns.label[0]}'"
        try:
            names = self._names_of(cells)
        except ValueError as e:
            return None, str(e)
        for name in names:
            _, error = known_label(self.task, name)
            if error:
                return None, error
        return tuple(sorted(set(names))), None

    def _names_of(self, cells: list) -> list[str]:
        """The labels of a row; a ValueError for cells that are not in their form."""
        columns = self.task.columns.label
        if len(columns) > 1:
            names = []
            for name, cell in zip(columns, cells):
                is_label = _INDICATORS.get(to_text(cell).strip().lower())
                if is_label is None:
                    raise ValueError(
                        f"column '{name}': '{to_text(cell)}', expected 0 or 1"
                    )
                if is_label:
                    names.append(name)
            return names
        values = cells[0]
        if isinstance(values, str) and self.task.columns.label_form == "json":
            values = parsed(values)
        elif not isinstance(values, list):
            text = to_text(values).strip()
            # As pandas and databases write lists: never names.
            values = (
                None
                if text[:1] in ("[", "(", "{")
                else text.split(self.options.separator)
            )
        is_list = isinstance(values, list)
        if not is_list or any(isinstance(each, (dict, list)) for each in values):
            found = to_text(cells[0])
            expected = "names, or a list with --label_form"
            raise ValueError(
                f"column '{columns[0]}': '{found:.80}', expected {expected}"
            )
        return list(
            filter(None, (encodings.composed(to_text(each).strip()) for each in values))
        )

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

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
        import tensorflow.compat.v1 as tf

        labels = features["label_ids"]  # float32 [B,L]
        smoothing = options.label_smoothing if options else 0.0
        if smoothing:
            labels = labels * (1.0 - smoothing) + smoothing / 2
        return tf.reduce_mean(nn.sigmoid_cross_entropy(logits, labels), axis=1)

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        import tensorflow.compat.v1 as tf

        return {"values": tf.sigmoid(logits)}


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
        return (np.asarray(values, np.float32) >= np.float32(threshold)).astype(
            np.float32
        )

    def table(self, values: Any, gold_labels: Any, threshold: float) -> str:
        return split_metrics.class_table(
            self.task, self.decide(values, threshold), gold_labels
        )

    def texts(self, values: np.ndarray, threshold: float) -> list:
        """Names with separators between, or lists in JSON if some name has the separator."""
        separator, names = self.options.separator, self.task.class_names
        has_separator = any(separator in name for name in names)
        texts = []
        for row in self.decide(values, threshold):
            chosen = list(itertools.compress(names, row))
            text = json.dumps(chosen, ensure_ascii=False)
            texts.append(text if has_separator else separator.join(chosen))
        return texts

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """Probability and error are those of one label, the one with the worst decision, or else
        the least sure one. The error is the distance of its probability from 0 or 1."""
        values, gold_labels = np.asarray(values), self.gold_labels(rows)
        decisions = self.decide(values, threshold)
        golds, texts = self.texts(gold_labels, THRESHOLD), self.texts(values, threshold)
        for i, row in enumerate(rows):
            if row.label is None:
                yield contract.Comparison("", texts[i], None, 0.0)
                continue
            errors = np.abs(gold_labels[i] - values[i])
            is_wrong = gold_labels[i] != decisions[i]
            label = np.argmax(np.where(is_wrong, errors + 1, errors))
            probability = abs(1 - decisions[i, label] - values[i, label])
            error = max(errors[label], contract.LEAST_ERROR) if is_wrong.any() else 0.0
            yield contract.Comparison(
                golds[i], texts[i], float(probability), float(error)
            )

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        values, names = contract.checked(self, values, len(rows)), self.task.class_names
        results = []
        for decision, row in zip(self.decide(values, threshold), values):
            chosen = tuple(itertools.compress(names, decision))
            results.append(Labels(chosen, dict(zip(names, row.tolist()))))
        return results


class MultiLabelExport(contract.Export):
    """Whether each label is one of the text's, and its probability."""

    def outputs(
        self, outputs: dict, features: dict, threshold: float = THRESHOLD
    ) -> dict:
        values = outputs["values"]
        return {"is_label": values >= threshold, "probabilities": values}


def _with_separator(task: Task, settings: Any) -> Task:
    separator = settings.label_separator or ","
    return task.with_options(
        separator={"newline": "\n", "tab": "\t"}.get(separator, separator)
    )


MULTI_LABEL = contract.TaskType(
    "multi_label",
    MultiLabelReader,
    MultiLabelHead,
    MultiLabelScorer,
    MultiLabelOptions(),
    has_labels=True,
    with_settings=_with_separator,
    selecting_flag="multi_label",
    export=MultiLabelExport,
)


# ---- multiple choice


@dataclasses.dataclass(frozen=True)
class ChoiceOptions:
    """fills_gaps: "_" in a question is where the answer belongs."""

    fills_gaps: bool = False


class ChoiceReader(ClassificationReader):
    """The labels of a task are the C answers of a row, each read with the text. C is the maximum in
    the train file; where a row has fewer the others are padding and have probability 0."""

    forms: ClassVar = {"race": published.read_race_article}
    directory_forms: ClassVar = {"race": published.read_race}

    def from_train_file(self, path: str) -> Task:
        """The task with as many labels as the row with the most answers has, in the declared
        form."""
        rows = self.read(path, True)
        count = max(len(row.pairs) for row in rows)
        form = self.task.columns.label_form
        names = {
            "numbers": tuple(map(str, range(1, count + 1))),
            "indices": tuple(map(str, range(count))),
        }.get(form or "letters", tuple(string.ascii_uppercase[:count]))
        others = sorted({row.label for row in rows} - set(names))
        if others:
            where = f"{path}: column '{self.task.columns.label[0]}'"
            expected = f"one of {', '.join(names)}"
            raise wrong(
                where, f"'{others[0]:.{_LONGEST_SHOWN}}'", expected, "--label_form"
            )
        return dataclasses.replace(self.task, labels=names)

    def from_model(self, stored: dict) -> Task:
        options = stored.get(
            "kind_options", {}
        )  # of a converted model, those of another type
        return (
            super()
            .from_model(stored)
            .with_options(fills_gaps=options.get("fills_gaps", False))
        )

    def parse_pairs(self, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        options, columns = _answers(choices), " ".join(self.task.columns.choices)
        if len(options) < 2 or not all(option.strip() for option in options):
            return (
                None,
                f"column '{columns}': expected a list of two or more texts, none empty",
            )
        if self.task.labels and len(options) > len(self.task.labels):
            return (
                None,
                f"{len(options)} answers, expected at most {len(self.task.labels)}",
            )
        return tuple(
            (text_a, self._answered(text_b, option)) for option in options
        ), None

    def _answered(self, question: Optional[str], option: str) -> str:
        """The question with the answer in its gap, or after it."""
        if question is None:
            return option
        if self.options.fills_gaps and "_" in question:
            return re.sub("_+", lambda gap: option, question)
        return f"{question} {option}"

    def parse_label(self, cells: list) -> tuple:
        """cells: of the label, and of the answers."""
        name, error = super().parse_label(cells[:1])
        count = len(_answers(cells[1:]))
        if not error and name in (self.task.labels or ())[count:]:
            return None, f"label '{name}', but the row has {count} answers"
        return name, error

    def examples(self, rows: Sequence[Row]) -> Collection[encoding.Example]:
        """Examples of C answers, with empty texts for those that a row does not have."""
        count = len(self.task.class_names)

        def example(row: Row, label: int) -> encoding.Example:
            absent = ("", row.pairs[0][1] and "")
            return encoding.Example(
                (*row.pairs, *[absent] * (count - len(row.pairs))), label
            )

        return MappedRows(example, rows, self.label_array(rows).tolist())

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        arrays, counts = super().encode(examples, tokenizer, layout)
        is_absent = np.array(
            [[not text for text, _ in example[0]] for example in examples]
        )
        is_absent = np.repeat(
            np.repeat(is_absent, counts, axis=0), layout.max_seq_length, axis=1
        )
        arrays["input_ids"][is_absent] = 0
        arrays["input_mask"][is_absent] = 1
        arrays["segment_ids"][is_absent] = encoding.SEG_PAD
        return arrays, counts

    @property
    def texts(self) -> tuple[str, ...]:
        return (*super().texts, "choices")


class ChoiceHead(ClassificationHead):
    """A softmax over the answers, which share the weights of their score."""

    class_weights = contract.Head.class_weights
    fits_any_labels = True

    def scope(self, name: Optional[str] = None) -> str:
        return "logits"

    def num_choices(self, is_training: bool) -> int:
        return len(self.task.class_names)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,C]"""
        import tensorflow.compat.v1 as tf

        summary, count = nn.summary(), len(self.task.class_names)
        with nn.beside_network():
            scores = nn.dense(summary, 1, nn.scope + "/dense")  # [B*C,1]
        scores = tf.reshape(scores, [-1, count])
        return tf.where_v2(
            _is_real_choice(features, count), scores, tf.constant(_ABSENT, scores.dtype)
        )

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
        """Labels are smoothed over the answers that a row has."""
        import tensorflow.compat.v1 as tf

        smoothing = options.label_smoothing if options else 0.0
        loss = super().loss(nn, logits, features, None)
        if smoothing:
            is_there = _is_real_choice(features, len(self.task.class_names))
            log_probs = tf.where_v2(is_there, tf.nn.log_softmax(logits), 0.0)
            mean = tf.reduce_sum(log_probs, 1) / tf.reduce_sum(
                tf.cast(is_there, tf.float32), 1
            )
            loss = (1 - smoothing) * loss - smoothing * mean
        return loss


class ChoiceScorer(ClassificationScorer):
    """The scorer of a classification whose labels are the answers."""

    default_metrics = ("accuracy",)
    metrics = {"accuracy": split_metrics.accuracy}

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        values, names = contract.checked(self, values, len(rows)), self.task.class_names
        results = []
        for row, id, found in zip(rows, self.decide(values, threshold), values):
            results.append(
                Choice(int(id), names[id], tuple(found[: len(row.pairs)].tolist()))
            )
        return results


class ChoiceExport(ClassificationExport):
    """The outputs of a classification, for a text and its answers."""

    def features(self, encoder: Any, text: Callable) -> dict:
        return encoder.choices(
            text("text_a"),
            text("text_b") if self.task.columns.text_b else None,
            text("choices", len(self.task.class_names)),
            self.options.fills_gaps,
        )


MULTIPLE_CHOICE = contract.TaskType(
    "multiple_choice",
    ChoiceReader,
    ChoiceHead,
    ChoiceScorer,
    ChoiceOptions(),
    has_labels=True,
    verb="choose",
    selecting_flag="choice_columns",
    export=ChoiceExport,
)


def _is_real_choice(features: dict, count: int) -> Any:
    """Whether each of `count` answers exists, and is not padding: bool [B,C]."""
    import tensorflow.compat.v1 as tf

    padding = features["input_mask"]  # [B,C*T]
    return (
        tf.reduce_min(tf.reshape(padding, [tf.shape(padding)[0], count, -1]), axis=2)
        < 1
    )


def _answers(choices: list) -> list[str]:
    """The texts in the cells of several columns, or in a list in one, without empty ones at the
    end."""
    if len(choices) == 1:
        choices = choices[0] if isinstance(choices[0], list) else []
    texts = list(map(to_text, choices))
    while texts and not texts[-1].strip():
        texts.pop()
    return texts


# ---- labels


def sorted_names(names: set) -> tuple:
    """Numbers by size, such as -1, 0, 1.5, 10; others in alphabetical order."""
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?", name) for name in names):
        return tuple(sorted(sorted(names), key=float))
    return tuple(sorted(names))


def known_label(task: Task, text: str) -> tuple:
    """(the label, None) or (None, error); any text is a label of a task that does not know its
    labels yet: ()."""
    if not is_text(text):
        return None, NOT_TEXT
    if not task.labels or text in task.labels or text in task.published.skipped_labels:
        return text, None
    names = task.labels
    known = (
        ", ".join(names)
        if len(names) <= contract.LABELS_SHOWN
        else f"{len(names):,} labels"
    )
    return None, f"unknown label '{text:.{_LONGEST_SHOWN}}' (labels: {known})"


def weights_of(
    text: str, task: Task, counts: Optional[Mapping[str, int]]
) -> Optional[list]:
    """The result of `Head.class_weights`.

    Args:
      text: "balanced" (rows / (L * rows of the label), so that labels have the same total weight),
        or "label:weight,...", 1 for other labels.
      counts: the frequency of each label; None: not known.
    """
    names = task.class_names
    if text == "balanced":
        if counts is None:
            return None
        total = sum(counts.values())
        return [total / (len(names) * max(counts.get(name, 0), 1)) for name in names]
    weights = dict.fromkeys(names, 1.0)
    for part in filter(None, text.split(",")):
        name, _, number = map(str.strip, part.rpartition(":"))
        if not 0 <= to_number(number) <= sys.float_info.max:
            raise wrong(
                "class_weights", f"'{part}'", "balanced, or label:weight, ... from 0 on"
            )
        if name not in weights:
            raise UserError(
                f"class_weights: no label '{name}'{did_you_mean(name, names)} "
                f"(labels: {', '.join(names)})"
            )
        weights[name] = to_number(number)
    return list(weights.values())
