"""What a kind of task is: one object that says all that differs from kind to kind.

`Kind` lists the contract in the order in which a run needs it: from cells of a file to rows, to
records, to an output layer and its loss, to answers, to metrics, to prediction files. A new kind is
one file with one subclass; it goes into `registry.KINDS`, by which saved models are found again,
and into a `Task`, and nothing else changes. Methods that raise NotImplementedError every kind has
to say; the others have the answer of the plain case: one text or pair of texts in a row, one array
of numbers as the answer.

Kinds do not import TensorFlow: the output layer is built from `nn`, which the network hands in
(`network.heads.Layers`), and which has the rest of TensorFlow as `nn.tf`.

The kind least like the plain case is span answers (`spans`): a form of files gives a question in
each row, `label` is its answers with their offsets. `encode` makes a record of each window of the
document, with `label_features` for start, end and answerability. `logits` uses `nn.sequence`, and
the true start in training; `answers` returns several arrays, of the best starts and their ends.
`join` finds the best spans over all windows of a row, `evaluate` compares their texts with those of
the rows, which are its `truth`. `prediction_files` writes JSON: the answers, the n best, and null
scores.

Shape letters: n rows, m records, L labels, C choices, B records of a batch, T tokens, D width.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.tasks.features import encoding
from xlnet.tasks.files import parsing, readers
from xlnet.tasks.files.row_store import Mapped, kept
from xlnet.tasks.metrics import split_metrics as measures
from xlnet.tasks.output.prediction_files import PredictionFile, json_lines, tsv
from xlnet.tasks.types.task import Asked, Row, Task

THRESHOLD = 0.5      # of a label's probability, where labels are independent or there are two
LABELS_SHOWN = 20    # labels of a task that are named, and whose tables are shown

# What settings ask of the loss in training. class_weights: floats [L], how much a row counts, or
# None: all rows alike.
LossOptions = collections.namedtuple("LossOptions", "label_smoothing class_weights",
                                     defaults=(0.0, None))

# What a checkpoint says of n rows. values: probabilities float32 [n,L], scores float32 [n], or
# whatever else `decide`, `evaluate` and `prediction_files` of the same kind take.
# loss: float32 [n].
Answers = collections.namedtuple("Answers", "values loss")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of task. Fields, where a subclass has some, are options that a `Task` chooses."""
    name: ClassVar[str] = ""                # in task.json and in `registry.KINDS`
    has_labels: ClassVar[bool] = False      # whether a task has a list of labels
    smooths_labels: ClassVar[bool] = False  # whether `loss` knows label_smoothing
    baseline_words: ClassVar[str] = "majority class"    # what `baseline` answers
    default_metrics: ClassVar[tuple[str, ...]] = ()     # of own data; the first selects checkpoints
    metrics: ClassVar[Mapping[str, measures.Metric]] = {}        # by name
    lower_is_better: ClassVar[frozenset[str]] = frozenset()     # names of metrics
    program: ClassVar[str] = "run_classifier.py"        # that trains it
    own_forms: ClassVar[tuple[str, ...]] = (    # extensions of a user's own files; (): any
        "tsv", "csv", "jsonl", "json", "ndjson", "parquet")
    plain_form: ClassVar[str] = "text"      # form of files to be predicted whose name says none
    pads: ClassVar[str] = "left"            # the side of a record where padding is
    takes_empty_text_b: ClassVar[bool] = False          # which otherwise is a fault of a row
    token_features: ClassVar[tuple[str, ...]] = ()      # those of `label_features` by token, [T]
    targets: ClassVar[tuple[str, ...]] = ("label_ids",)     # those that only `loss` depends on
    verb: ClassVar[str] = "classify"        # the method of a loaded model that asks it

    # ---- from the command line to a task, for own files

    def is_asked_for(self, settings: Any) -> bool:
        """Whether the flags of own files (`FineTuningSettings`) ask for this kind; the first
        one of the registry that says yes is taken."""
        return False

    def own_columns(self, settings: Any) -> Optional[dict]:
        """The fields of a `Task` that say what the columns of own files mean, by name; None: those
        of a table, which `custom` knows."""
        return None

    def own_file_names(self, names: Sequence[str], there: Sequence[str]) -> list:
        """The files of a split in a directory of own files: train.csv, or where there is none a
        name of which a part is that of the split, train-v2.0.json and eng.train.

        Args:
          names: the names that the split may have.
          there: the names of the files in the directory.
        """
        for forms in (self.own_forms, ("txt", *readers.FOREIGN)) if self.own_forms else ((),):
            # What else a directory has, notes or the export of a table, is looked at in need alone.
            fitting = [name for name in there if not forms or readers.extension(name) in forms]
            found = self.own_forms and [
                name for name in fitting if readers.stem(name) in names] or [
                name for name in fitting if set(re.split("[.-]", name)) & set(names)]
            if found:
                return found
        return []

    def configured(self, task: Task, settings: Any) -> Task:
        """The task with the options of this kind that the settings have."""
        return task

    def from_train_file(self, task: Task, path: str) -> Task:
        """The task with all that its train file says of it: its labels."""
        rows = parsing.read_file(task, path, need_labels=True)
        return dataclasses.replace(task, labels=self.find_labels(task, rows, path))

    def from_model(self, task: Task, stored: dict) -> Task:
        """The same, as the `task.json` of a model says it."""
        return dataclasses.replace(task, labels=tuple(stored["labels"]))

    def find_labels(self, task: Task, rows: Sequence[Row], path: str) -> Optional[tuple]:
        """The labels of own data, from the rows of the train file `path`, whose labels were parsed
        by a task with `labels` (); None for a kind without a list of labels.

        Raises:
          UserError: the file has too few of them.
        """
        return None

    def check_metric(self, task: Task, name: str) -> None:
        """Raises UserError unless checkpoints may be selected by the metric `name`."""
        if measures.is_own(name) and type(self).evaluate is Kind.evaluate:
            return
        known = self.known_metrics(task)
        if name not in known + task.metrics:
            raise UserError("metric: task %s has no %s%s (metrics: %s)" % (
                task.name, name, did_you_mean(name, known), ", ".join(known)))

    def known_metrics(self, task: Task) -> tuple:
        """Names of the metrics that this task may be judged by."""
        return tuple(self.metrics)

    # ---- from a file to rows

    def read_rows(self, task: Task, path: str, need_labels: bool,
                  form: Optional[str]) -> Optional[Sequence[Row]]:
        """The rows of a file in a form of the kind's own; None: it is a table, whose cells the
        methods below parse. Arguments and errors as in `parsing.read_file`."""
        return None

    def forms(self) -> Mapping[str, Callable]:
        """Forms of tables that only this kind has, or has otherwise: as `readers.FORMS`."""
        return {}

    def parse_pairs(self, task: Task, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        """Returns (pairs of the `Row`, None) or (None, fault in words).

        A pair is (text, None) or (text, second text); there are as many as `num_choices` says.

        text_a, text_b: not empty; None where the task has no second text. choices: the cells of the
        columns `task.choices`, a str each, or a list in JSON.
        """
        return ((text_a, text_b),), None

    def parse_label(self, task: Task, cells: list) -> tuple:
        """Returns (label, None) or (None, fault in words).

        cells: of the columns `task.label`, then of `task.choices`; [] where the file has no labels.
        Each is a str, or any value in JSON.
        The label may be of any type that `json` can write.
        """
        raise NotImplementedError

    def check_row(self, task: Task, row: Row, seen: dict) -> Optional[str]:
        """The fault of a row beside others or as a whole, in words; None if it has none.

        seen: a dict that is empty at the first row of a file, for the kind's own use.
        """
        return None

    def note_faults(self, task: Task, path: str, rows: Sequence[Row]) -> None:
        """Warns of what is wrong with a file whose rows can be used all the same."""

    def training_rows(self, task: Task, rows: Sequence[Row], seed: int,
                      data_dir: str) -> Sequence[Row]:
        """Rows to train on, made of those of the train file in `data_dir`."""
        return rows

    def training_unit(self, task: Task) -> str:
        """What `training_rows` returns, in a word."""
        return "rows"

    # ---- from rows to records

    def label_array(self, task: Task, rows: Sequence[Row]) -> np.ndarray:
        """The labels of rows as numbers [n, ...], int32 or float32; 0 where a row has none."""
        raise NotImplementedError

    def label_features(self, task: Task, length: int) -> tuple:
        """The features that a record of T = `length` tokens has beside the ids:
        `records.feature_spec.Feature`s."""
        raise NotImplementedError

    def record_options(self) -> tuple:
        """The kind's options that decide what `encode` makes; they are part of a record file's
        name."""
        return ()

    def num_choices(self, task: Task, is_training: bool) -> int:
        """C, the texts that stand side by side in a record."""
        return 1

    def examples(self, task: Task, rows: Sequence[Row]) -> Collection[Any]:
        """What `encode` takes of each row: n `encoding.Example`s that `json` can write, or what
        makes them each time that it is gone through."""
        labels = self.label_array(task, rows).tolist()
        return Mapped(lambda row, label: encoding.Example(row.pairs, label), rows, labels)

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        """Returns (dict of arrays [m, ...], one for each feature of the record; int [n], how many
        of the m records each example has)."""
        return encoding.arrays_of(examples, tokenizer, layout)

    # ---- the output layer; nn: `network.heads.Layers`, features: a batch, dict of tensors [B, ...]

    def head_scope(self, name: str) -> str:
        """The output layer's name in a checkpoint, for the task `name`."""
        return "%s_%s" % (self.name, name)

    def logits(self, nn: Any, task: Task, features: dict, is_training: bool) -> Any:
        """What the output layer computes of `nn.summary()` [B*C,D] or `nn.sequence` [B*C,T,D]."""
        raise NotImplementedError

    def loss(self, nn: Any, task: Task, logits: Any, features: dict,
             options: Optional[LossOptions]) -> Any:
        """The loss of each record, float32 [B]. options: None unless in training."""
        raise NotImplementedError

    def answers(self, nn: Any, task: Task, logits: Any) -> dict:
        """What is kept of the logits where nothing is trained: dict of name to tensor [B, ...] of
        fixed shape."""
        return {"values": logits}

    # ---- served as a graph, where there is no Python

    def texts_of_row(self, task: Task) -> tuple[str, ...]:
        """The names of the texts that a row is served by: strings [B], `choices` [B,C]."""
        return ("text_a", "text_b") if task.text_b else ("text_a",)

    def graph_features(self, encoder: Any, task: Task, texts: dict) -> dict:
        """What `encode` makes of texts, in the graph: a dict of tensors [B, ...]. `parse_pairs` may
        arrange the texts in other pairs, but not change them.

        encoder: `serving.export.graph_encoding.GraphEncoder`. texts: dict of string tensors.

        Raises:
          UserError: this kind's texts cannot be encoded in the graph.
        """
        names = ["  <Text %s>  " % name for name in texts]
        found = dict(zip((*names, None), (*texts.values(), None)))
        pairs, fault = self.parse_pairs(task, names[0], names[1] if names[1:] else None, [])
        if type(self).encode is not Kind.encode or fault or any(
                text not in found for pair in pairs for text in pair):
            raise UserError("texts of task type %s cannot be encoded in the graph; export with "
                            "--signatures=ids" % self.name)
        return encoder.records([[found[text] for text in pair] for pair in pairs])

    def graph_join(self, tf: Any, answers: dict, row: Any) -> dict:
        """What `join` does, in the graph: a dict of tensors [B, ...] of what `answers` says of m
        windows; row: int64 [m], the row that each of them is of, in order."""
        return {name: tf.math.segment_mean(value, row) for name, value in answers.items()}

    def served(self, tf: Any, task: Task, answers: dict, features: dict,
               threshold: float = THRESHOLD) -> dict:
        """What a server says of a row, by names for people: a dict of tensors [B, ...].

        answers: as `answers` or `graph_join` returns them. features: what they were computed of.
        threshold: as for `decide`.
        """
        return answers

    def class_weights(self, text: str, task: Task, rows: Optional[Sequence[Row]]) -> Optional[list]:
        """The weight of each label in the training loss, floats [L], or None.

        text: the flag. rows: those of the train file; None where nothing is trained.
        """
        raise UserError("class_weights: task %s is no classification into classes" % task.name)

    # ---- from answers to decisions

    def join(self, task: Task, outputs: dict, windows: Optional[np.ndarray]) -> Answers:
        """The `Answers` to rows from the outputs of the network for records.

        Args:
          outputs: dict of arrays [m, ...], `loss` and what `answers` has. windows: int [n], the
            records of each row, in order; None: one each.
        """
        return Answers(*(mean_over_windows(outputs[name], windows) for name in Answers._fields))

    def answer_shape(self, task: Task) -> tuple:
        """The shape of the answer to one row: () or (L,)."""
        return () if task.labels is None else (len(task.labels),)

    def decide(self, task: Task, values: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
        """What is predicted, in the form of `truth`.

        threshold: least probability of a label of a multi-label task, and of the second one of two.
        """
        return np.asarray(values)

    # ---- metrics

    def truth(self, task: Task, rows: Sequence[Row]) -> Any:
        """What answers to these rows are compared with."""
        return self.label_array(task, rows)

    def evaluate(self, task: Task, values: Any, truth: Any, threshold: float = THRESHOLD) -> dict:
        """Returns an ordered dict of metric name to float, the task's main metric first.

        Raises:
          UserError: a prediction is not a finite number.
        """
        truth = np.asarray(truth)
        values = self.checked(task, values, len(truth))
        refuse_nan(task, values)
        decisions = self.decide(task, values, threshold)
        return {name: float((measures.own(name) if measures.is_own(name) else self.metrics[name])(
            task, decisions, truth, values)) for name in task.metrics}

    def baseline(self, task: Task, truth: Any) -> dict:
        """Returns the metrics of a constant answer, that of `constant_answer`, in `evaluate`'s
        form."""
        constant = self.constant_answer(task, np.asarray(truth))
        return self.evaluate(task, np.broadcast_to(constant, (len(truth), *np.shape(constant))),
                             truth)

    def constant_answer(self, task: Task, truth: np.ndarray) -> np.ndarray:
        """The best answer that looks at no row."""
        raise NotImplementedError

    def collapsed(self, task: Task, values: Any, truth: Any) -> Optional[str]:
        """Says in words that the answers no longer depend on the text although the true ones
        differ, or returns None."""
        return None

    def mean_loss(self, task: Task, answers: Answers, truth: Any) -> float:
        """The loss of a split."""
        return float(np.mean(answers.loss, dtype=np.float64))

    def table(self, task: Task, values: Any, truth: Any, threshold: float) -> Optional[str]:
        """What was confused with what, as text; None for a kind without such a table."""
        return None

    def draw(self, path: str, task: Task, values: Any, truth: Any, threshold: float) -> None:
        """Writes the same as a PNG, if the kind has a picture of it."""

    # ---- prediction files

    def prediction_files(self, task: Task, rows: Sequence[Row], values: Any,
                         threshold: float = THRESHOLD) -> list:
        """The contents of the files that are written, the main one first: `PredictionFile`s.

        rows: n, of which those without texts were skipped and have no values.
        """
        answered = kept(row for row in rows if row.pairs)
        return [PredictionFile("tsv", None, tsv(self.prediction_columns(
            task, answered, self.checked(task, values, len(answered)), threshold), rows))]

    def prediction_columns(self, task: Task, rows: Sequence[Row], values: np.ndarray,
                           threshold: float) -> list:
        """(name, n texts, made one by one) of each column of the prediction file, the rows' names
        under "id"."""
        raise NotImplementedError

    def submission(self, task: Task, rows: Sequence[Row], values: Any,
                   threshold: float = THRESHOLD) -> Iterator[str]:
        """The lines that the server of the task takes: the columns `index` and `prediction` for
        GLUE's, JSON for CLUE's."""
        values = self.checked(task, values, len(rows))
        answers = self.answer_texts(task, values, threshold)
        if task.submission_form == "json":
            return json_lines({"id": int(row.id) if row.id.isdecimal() else row.id, "label": answer}
                              for row, answer in zip(rows, answers))
        return tsv([("index", (row.id for row in rows)), ("prediction", answers)], rows)

    def answer_texts(self, task: Task, values: np.ndarray, threshold: float) -> list:
        """The predicted label(s) or the score of each row as text."""
        raise NotImplementedError

    # ---- from Python: rows without a file, answers without one

    def row(self, task: Task, id: str, asked: Asked) -> tuple:
        """Returns (`Row`, None) or (None, fault in words)."""
        pairs, fault = parsing.parse_texts(task, asked.text_a, asked.text_b, list(asked.choices))
        return (None, fault) if fault else (Row(id, pairs, None), None)

    def results(self, task: Task, rows: Sequence[Row], values: Any,
                threshold: float = THRESHOLD) -> list:
        """What is said of each row, the same as in the prediction file: n plain values, or tuples
        of `tasks.output.results`."""
        return self.answer_texts(task, self.checked(task, values, len(rows)), threshold)

    # ---- words

    def words(self, task: Task) -> str:
        """What the answers are, for the lines before a training."""
        if task.labels is None:
            return "no labels"
        names = task.class_names
        more = ", ..." if len(names) > LABELS_SHOWN else ""
        return "labels " + ", ".join(names[:LABELS_SHOWN]) + more

    def counts_in_words(self, task: Task, rows: Sequence[Row]) -> str:
        """How often each label is in the rows of the train file, for the lines before a
        training."""
        if task.labels is None:
            return "{:,} rows".format(len(rows))
        found = collections.Counter(
            name for row in rows
            for name in (row.label if isinstance(row.label, tuple) else (row.label,)))
        counts = [(name, found[name]) for name in task.class_names]
        if len(counts) <= LABELS_SHOWN:
            return ", ".join("%s: %s" % (name, "{:,}".format(count)) for name, count in counts)
        least, most = (pick(counts, key=lambda one: one[1]) for pick in (min, max))
        return "%s labels, from %d rows (%s) to %d (%s)" % (
            "{:,}".format(len(counts)), least[1], least[0], most[1], most[0])

    # ---- for the methods above

    def checked(self, task: Task, values: Any, count: int) -> np.ndarray:
        """Values as an array [count, *answer_shape].

        Raises:
          ValueError: they have another shape.
        """
        values, expected = np.asarray(values), (count, *self.answer_shape(task))
        if values.shape != expected:
            raise ValueError("task %s: values have shape %s, expected %s"
                             % (task.name, values.shape, expected))
        return values


def refuse_nan(task: Task, values: np.ndarray) -> None:
    """Raises UserError where a prediction is NaN or infinite."""
    bad = np.count_nonzero(~np.isfinite(values))
    if bad:
        raise UserError("task %s: %d of %d predictions are not finite numbers"
                        % (task.name, bad, values.size))


def mean_over_windows(values: np.ndarray, windows: Optional[np.ndarray]) -> np.ndarray:
    """The mean over the records of each row: values [m, ...], windows int [n] -> [n, ...]."""
    if windows is None:
        return values
    starts = np.concatenate([[0], np.cumsum(windows)[:-1]])
    sums = np.add.reduceat(values, starts, axis=0)
    return sums / windows.reshape([-1] + [1] * (values.ndim - 1))
