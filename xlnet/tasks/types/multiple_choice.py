"""Multiple choice: the right one of several answers to a text, or to a text and a question."""

from __future__ import annotations

import dataclasses
import os
import re
import string
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.tasks.features import encoding
from xlnet.tasks.files import decoding, diagnosis, readers
from xlnet.tasks.files.forms import Table, parsed, plain_object
from xlnet.tasks.files.readers import to_text
from xlnet.tasks.files.row_store import MappedRows
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.output.results import Choice
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types.classification import (
    ClassificationExport,
    ClassificationHead,
    ClassificationReader,
    ClassificationScorer,
    by_label,
    plain_spelling,
)
from xlnet.tasks.types.contract import THRESHOLD, Head, LossOptions, TaskType, checked

_LETTERS = (string.ascii_uppercase, string.ascii_lowercase)
_EXPECTED = {
    "letters": "a letter from A on, or the name of a column,",
    "numbers": "a number from 1 on",
    "indices": "a number from 0 on",
}
_ABSENT = -1e30  # the logit of an answer that a row does not have


@dataclasses.dataclass(frozen=True)
class ChoiceOptions:
    """How answers are read."""

    fills_gaps: bool = False  # "_" in a question is where the answer belongs
    labels_are_texts: bool = False  # a label is the text of the right answer


# ---- RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions


def _read_race(task: Task, path: str) -> Table:
    folders = [os.path.join(path, name) for name in ("middle", "high")]
    articles = [
        file
        for folder in list(filter(os.path.isdir, folders)) or [path]
        for file in readers.texts_in(folder, task)
    ]
    return _race_table(task, ((file, readers.text_of(file, task)) for file in articles))


def _read_race_text(task: Task, path: str, lines: decoding.Lines) -> Table:
    """An article, or the common lines of text."""
    if task.files.directory_form == "race" and lines.start().startswith("{"):
        return _race_table(task, [(path, "\n".join(lines))])
    return readers.plain_table(task, path, lines, "text")


def _race_table(task: Task, articles: Iterable[tuple[str, str]]) -> Table:
    return Table(
        [
            task.columns.id or "",
            *task.columns.text_a,
            *task.columns.text_b,
            *task.columns.choices,
            *task.columns.label,
        ],
        ((path, row) for path, text in articles for row in _questions(path, text)),
    )


def _questions(path: str, text: str) -> list[Any]:
    """One table row for each question of an article in JSON, or an error."""
    value = plain_object(parsed(text))
    if isinstance(value, str):
        return [value]
    questions, options, answers = map(value.get, ("questions", "options", "answers"))
    if (
        not isinstance(questions, list)
        or not isinstance(options, list)
        or len(questions) != len(options)
    ):
        return ["expected article, questions and as many lists of options"]
    answers = answers or [None] * len(questions)
    if not isinstance(answers, list) or len(answers) != len(questions):
        return [f"expected as many answers as questions, {len(questions)}"]
    return [
        ["{}/{}".format(value.get("id") or os.path.basename(path), i), value.get("article"), *row]
        for i, row in enumerate(zip(questions, options, answers))
    ]


class ChoiceReader(ClassificationReader):
    """The labels of a task are the C answers of a row, each read with the text. C is the maximum in
    the train file; where a row has fewer the others are padding and have probability 0."""

    forms: ClassVar = {"text": _read_race_text}
    directory_forms: ClassVar = {"race": _read_race}

    def from_train_file(self, path: str) -> Task:
        """The task with as many labels as the row with the most answers has, in the declared
        form."""
        task, rows = self.task, self.read(path, True)
        count = max(len(row.pairs) for row in rows)
        choices = task.columns.choices
        form = task.columns.label_form
        if form == "texts":
            names = choices if len(choices) == count else _numbers(1, count)
            task = dataclasses.replace(task, labels=names).with_options(labels_are_texts=True)
            task.reader.read(path, True)  # raises the errors of these labels
            return task
        found = {row.label for row in rows}
        if form is None and len(choices) == count and found <= set(choices):
            return dataclasses.replace(task, labels=choices)
        found = set(map(plain_spelling, found))
        forms = {
            "letters": [tuple(letters[:count]) for letters in _LETTERS],
            "numbers": [_numbers(1, count)],
            "indices": [_numbers(0, count)],
        }
        for names in forms[form or "letters"]:
            if found <= set(names):
                return dataclasses.replace(task, labels=names)
        wrong = sorted(found - set(forms[form or "letters"][0]))[0]
        fitting = [name for name, each in forms.items() if any(found <= set(one) for one in each)]
        raise UserError(
            "{}: column '{}' has '{:.80}', expected {} of {} answers{}".format(
                path,
                task.columns.label[0],
                wrong,
                _EXPECTED[form or "letters"],
                count,
                diagnosis.of_choices(fitting),
            )
        )

    def from_model(self, stored: dict) -> Task:
        # The options in the description of a converted model may be those of another type.
        options = stored.get("kind_options", {})
        task = (
            super()
            .from_model(stored)
            .with_options(
                **{
                    field.name: options[field.name]
                    for field in dataclasses.fields(ChoiceOptions)
                    if field.name in options
                }
            )
        )
        form, trained = task.columns.label_form, _form_of(task)
        if form not in (None, trained):
            raise UserError(
                f"label_form is {form}, expected {trained}, as the model was trained; its labels "
                f"are {', '.join(task.class_names)}"
            )
        has_names = form in (None, "texts")
        if not has_names or len(task.columns.choices) < 2:  # one column has a list of all answers
            return task
        columns = by_label("choice_columns", task.columns.choices, task.class_names)
        return task.with_columns(choices=columns)

    def parse_pairs(self, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        task, options = self.task, _texts(choices)
        if len(choices) == 1 and isinstance(choices[0], str):
            # As pandas writes lists to CSV; nothing declares how to read such a cell.
            return None, (
                f"column '{task.columns.choices[0]}' is a text, expected a list of the answers; a "
                "table has a column for each: --choice_columns=first,second"
            )
        if len(options) < 2 or not all(option.strip() for option in options):
            return None, "column '{}': expected two or more answers, none of them empty".format(
                " ".join(task.columns.choices)
            )
        if task.labels and len(options) > len(task.labels):
            return None, f"{len(options)} answers, expected at most {len(task.labels)}"
        return tuple((text_a, self._answered(text_b, option)) for option in options), None

    def _answered(self, question: Optional[str], option: str) -> str:
        """The question with the answer in its gap, or after it."""
        if question is None:
            return option
        if self.options.fills_gaps and "_" in question:
            return re.sub("_+", lambda gap: option, question)
        return f"{question} {option}"

    def parse_label(self, cells: list) -> tuple:
        """cells: of the label, and of the answers."""
        task, options = self.task, _texts(cells[1:])
        if self.options.labels_are_texts and cells:
            text = to_text(cells[0]).strip()
            places = [i for i, option in enumerate(options) if option.strip() == text]
            if len(places) != 1:
                return (
                    None,
                    f"label '{text}' is the text of {len(places)} answers of its row; expected the "
                    f"text of one of the {len(options)} answers",
                )
            return task.class_names[places[0]], None
        name, error = super().parse_label(cells[:1])
        if not error and name in (task.labels or ())[len(options) :]:
            return None, f"label '{name}', but the row has {len(options)} answers"
        return name, error

    def examples(self, rows: Sequence[Row]) -> Collection[encoding.Example]:
        """Examples of C answers, with empty texts for those that a row does not have."""
        count = len(self.task.class_names)

        def example(row: Row, label: int) -> encoding.Example:
            absent = ("", row.pairs[0][1] and "")
            return encoding.Example((*row.pairs, *[absent] * (count - len(row.pairs))), label)

        return MappedRows(example, rows, self.label_array(rows).tolist())

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        arrays, counts = super().encode(examples, tokenizer, layout)
        is_absent = np.array([[not text for text, _ in example[0]] for example in examples])
        is_absent = np.repeat(np.repeat(is_absent, counts, axis=0), layout.max_seq_length, axis=1)
        for name, padding in (
            ("input_ids", 0),
            ("input_mask", 1),
            ("segment_ids", encoding.SEG_PAD),
        ):
            arrays[name][is_absent] = padding
        return arrays, counts

    @property
    def texts(self) -> tuple[str, ...]:
        return (*super().texts, "choices")


class ChoiceHead(ClassificationHead):
    """A softmax over the answers, which share the weights of their score."""

    class_weights = Head.class_weights
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

    def loss(self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]) -> Any:
        """Labels are smoothed over the answers that a row has."""
        import tensorflow.compat.v1 as tf

        smoothing = options.label_smoothing if options else 0.0
        loss = super().loss(nn, logits, features, None)
        if smoothing:
            is_there = _is_real_choice(features, len(self.task.class_names))
            log_probs = tf.where_v2(is_there, tf.nn.log_softmax(logits), 0.0)
            mean = tf.reduce_sum(log_probs, 1) / tf.reduce_sum(tf.cast(is_there, tf.float32), 1)
            loss = (1 - smoothing) * loss - smoothing * mean
        return loss


class ChoiceExport(ClassificationExport):
    """The outputs of a classification, for a text and its answers."""

    def features(self, encoder: Any, text: Callable) -> dict:
        return encoder.choices(
            text("text_a"),
            text("text_b") if self.task.columns.text_b else None,
            text("choices", len(self.task.class_names)),
            self.options.fills_gaps,
        )


class ChoiceScorer(ClassificationScorer):
    """The scorer of a classification whose labels are the answers."""

    default_metrics = ("accuracy",)
    metrics = {"accuracy": split_metrics.accuracy}

    def results(self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD) -> list:
        values = checked(self, values, len(rows))
        return [
            Choice(int(id), self.task.class_names[id], tuple(found[: len(row.pairs)].tolist()))
            for row, id, found in zip(rows, self.decide(values, threshold), values)
        ]


MULTIPLE_CHOICE = TaskType(
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


def _form_of(task: Task) -> str:
    """How the labels of a model are written, as --label_form says."""
    if task.options.labels_are_texts:
        return "texts"
    count = len(task.class_names)
    forms = {_numbers(1, count): "numbers", _numbers(0, count): "indices"}
    return forms.get(task.class_names, "letters")


def _numbers(first: int, count: int) -> tuple[str, ...]:
    return tuple(map(str, range(first, first + count)))


def _is_real_choice(features: dict, count: int) -> Any:
    """Whether each of `count` answers exists, and is not padding: bool [B,C]."""
    import tensorflow.compat.v1 as tf

    padding = features["input_mask"]  # [B,C*T]
    return tf.reduce_min(tf.reshape(padding, [tf.shape(padding)[0], count, -1]), axis=2) < 1


def _texts(choices: list) -> list[str]:
    """The texts in the cells of several columns, or in a list in one, without empty ones at the
    end."""
    cells: list = []
    if len(choices) > 1:
        cells = choices
    elif choices and isinstance(choices[0], list):
        cells = choices[0]
    texts = [to_text(cell.get("text") if isinstance(cell, dict) else cell) for cell in cells]
    while texts and not texts[-1].strip():
        texts.pop()
    return texts
