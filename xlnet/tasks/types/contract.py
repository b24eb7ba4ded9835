"""The contract of a task type: three small objects that are made for a task.

`Reader` turns files into rows and rows into examples, `Head` is the output layer with its loss and
its outputs, `Scorer` turns outputs into predictions, metrics, tables and files. A fourth, `Export`,
is for types whose exported model is not the plain case. A new task type is one file with a subclass
of each, or a standard one where that fits, and a `TaskType` that names them, given to
`xlnet.tasks.register`. A type must define the methods that raise NotImplementedError. The others
suit the plain case: one text or pair of texts in a row, one array as the output.

Build the output layer from `nn` (`network.heads.HeadBuilder`). Import TensorFlow in the methods
that use it: files are read and checked without it.

Shape letters: n rows, m records, L labels, C choices, B records of a batch, T tokens, D width.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from xlnet.support.errors import NotFinite, UserError, did_you_mean
from xlnet.tasks.features import encoding
from xlnet.tasks.files import table_rows
from xlnet.tasks.files.row_store import MappedRows
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.output.prediction_files import PredictionFile, has_query_names, tsv
from xlnet.tasks.task import InlineExample, Row, Task

THRESHOLD = (
    0.5  # of a label's probability, where labels are independent or there are two
)
LEAST_ERROR = 1e-9  # of a wrong prediction
_NARROW = 0.01  # scores with a spread below this fraction of the labels' are degenerate
_ROUNDING = 1e-4  # relative difference of predictions that are the same
LABELS_SHOWN = 20  # maximum number of labels that are named, and whose tables are shown

# Options of the loss in training. class_weights: floats [L], weights of the rows by their label;
# None: all 1.
LossOptions = collections.namedtuple(
    "LossOptions", "label_smoothing class_weights", defaults=(0.0, None)
)

# The predictions of a checkpoint for n rows. values: probabilities float32 [n,L], scores float32
# [n], or what else the `Scorer` of the same type takes. loss: float32 [n].
Predictions = collections.namedtuple("Predictions", "values loss")


# A prediction next to its gold label, both as text, of one row. probability: of the prediction;
# None: the type has none. error: 0 if it is right, else above 0, the higher the worse. gold and
# error of a row without a label are "" and 0.
Comparison = collections.namedtuple("Comparison", "gold predicted probability error")


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """The options of a task type that has none."""


class _TaskComponent:
    """One of the objects of a task."""

    def __init__(self, task: Task):
        self.task = task
        self.options = task.options


# ---- files to examples


class Reader(_TaskComponent):
    """Files to rows, and rows to the examples of records."""

    own_forms: ClassVar[
        tuple[str, ...]
    ] = (  # extensions of a user's own files; (): any
        "tsv",
        "csv",
        "jsonl",
        "json",
        "ndjson",
        "parquet",
    )
    # Functions of (task, path, lines) that are added to `forms.FORMS`, or replace some.
    forms: ClassVar[Mapping[str, Callable]] = {}
    directory_forms: ClassVar[Mapping[str, Callable]] = {}  # of (task, path)
    takes_empty_text_b: ClassVar[bool] = False  # otherwise that is an error of the row
    pads: ClassVar[str] = "left"  # the side of the padding in a record
    cut_words: ClassVar[str] = (
        encoding.CUT_WORDS
    )  # what a note says where texts lost some tokens

    @property
    def unit(self) -> str:
        """A word for what `training_rows` returns."""
        return "rows"

    @property
    def record_options(self) -> tuple:
        """The options that `encode` depends on."""
        return ()

    def from_train_file(self, path: str) -> Task:
        """The task with what its train file determines: its labels."""
        raise UserError(
            f"task type {self.task.type.name} has no Reader.from_train_file, which finds the "
            "labels of own files; give it, or register a Task with its labels"
        )

    def from_model(self, stored: dict) -> Task:
        """The same from what a model was trained for, the section `task` of its `run.json`."""
        return dataclasses.replace(self.task, labels=tuple(stored["labels"]))

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        """The rows of a file; arguments and errors as in `parsing.read_file`. The default reads a
        table and parses its cells by the methods below."""
        return table_rows.read_tables(self, path, need_labels)

    def flag_of(self, column: str) -> str:
        """The flag that names a column of a user's own files; "": none does."""
        columns = self.task.columns
        by_flag = {
            "text_a_column": columns.text_a,
            "text_b_column": columns.text_b,
            "label_column": columns.label,
            "choice_columns": columns.choices,
            "query_id_column": (columns.query,),
        }
        return next((flag for flag, names in by_flag.items() if column in names), "")

    def files_of(self, path: str) -> Sequence[str]:
        """The files that `read` reads for `path`."""
        return (path,)

    def parse_pairs(self, text_a: str, text_b: Optional[str], choices: list) -> tuple:
        """Returns (pairs of the `Row`, None) or (None, error in words).

        A pair is (text, None) or (text, second text); there are `num_choices` of them.

        Args:
          text_a: not empty.
          text_b: not empty; None where the task has no second text.
          choices: the cells of the columns `columns.choices`, a str each, or a list in JSON.
        """
        return ((text_a, text_b),), None

    def parse_label(self, cells: list) -> tuple:
        """Returns (label, None) or (None, error in words). The label must fit into JSON. cells: of
        the columns `columns.label`, then of `columns.choices`, each a str, or any value in JSON;
        [] where the file has no labels."""
        raise NotImplementedError

    def check_row(self, row: Row, seen: dict) -> Optional[str]:
        """The error of a row in itself or among the others, in words, or None. In prediction the
        row has no label. seen: a dict for the type's own use, empty at the first row of a file."""
        return None

    def row(self, id: str, asked: InlineExample) -> tuple:
        """Returns (`Row`, None) or (None, error in words) for texts without a file."""
        pairs, error = table_rows.parse_texts(
            self, asked.text_a, asked.text_b, list(asked.choices)
        )
        return (None, error) if error else (Row(id, pairs, None), None)

    def training_rows(
        self, rows: Sequence[Row], seed: int, data_dir: str
    ) -> Sequence[Row]:
        """The rows to train on, made of those of the train file in `data_dir`."""
        return rows

    def label_array(self, rows: Sequence[Row]) -> np.ndarray:
        """The labels of rows as numbers [n, ...], int32 or float32; 0 where a row has none."""
        raise NotImplementedError

    def examples(self, rows: Sequence[Row]) -> Collection[Any]:
        """The argument of `encode` for each row: n `encoding.Example`s that fit into JSON, or an
        iterable that makes them each time."""
        return MappedRows(
            lambda row, label: encoding.Example(row.pairs, label),
            rows,
            self.label_array(rows).tolist(),
        )

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        """Returns (dict of arrays [m, ...], one for each feature of the record; int [n], the number
        of records of each example)."""
        return encoding.arrays_of(examples, tokenizer, layout)

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the texts of a served row."""
        return ("text_a", "text_b") if self.task.columns.text_b else ("text_a",)


# ---- the output layer


class Head(_TaskComponent):
    """The output layer. nn: a `network.heads.HeadBuilder`; features: a batch, dict of tensors
    [B, ...]."""

    smooths_labels: ClassVar[bool] = False  # whether `loss` uses label_smoothing
    token_features: ClassVar[tuple[str, ...]] = ()  # names of `features` per token, [T]
    targets: ClassVar[tuple[str, ...]] = ("label_ids",)  # features for `loss` alone
    scope_name: ClassVar[str] = ""  # "": that of the task type
    fits_any_labels: ClassVar[bool] = (
        False  # whether its weights do not depend on the labels
    )

    def scope(self, name: Optional[str] = None) -> str:
        """The output layer's name in a checkpoint, such as "classification_mnli"; name: instead of
        the task's."""
        type_name = self.scope_name or self.task.type.name
        return f"{type_name}_{name or self.task.published.trained_as or self.task.name}"

    def num_choices(self, is_training: bool) -> int:
        """C, the number of texts of a record, which are separate inputs of the network."""
        return 1

    def features(self, length: int) -> tuple:
        """The `records.feature_spec.Feature`s besides the ids of a record of `length` tokens."""
        raise NotImplementedError

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """The logits, from `nn.summary()` [B*C,D] or `nn.sequence` [B*C,T,D]."""
        raise NotImplementedError

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
        """The loss of each record, float32 [B]. options: None unless in training."""
        raise NotImplementedError

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        """The outputs in evaluation and prediction: dict of name to tensor [B, ...] of fixed
        shape."""
        return {"values": logits}

    def join(self, outputs: dict, windows: Optional[np.ndarray]) -> Predictions:
        """The `Predictions` for rows, from the outputs for records: dict of arrays [m, ...], `loss`
        and those of `outputs`. windows: int [n], the records of each row; None: one each."""
        # By default `outputs` has one array besides the loss, under the name of the field that it
        # becomes. A head with other outputs overrides this.
        return Predictions(
            values=mean_over_windows(outputs["values"], windows),
            loss=mean_over_windows(outputs["loss"], windows),
        )

    def class_weights(self, text: str, rows: Optional[Sequence[Row]]) -> Optional[list]:
        """The weight of each label in the training loss, floats [L], or None. text: the flag. rows:
        those of the train file; None without training."""
        raise UserError(
            f"class_weights: task {self.task.name} is not a classification into classes"
        )

    def outputs_in_words(self) -> str:
        """The outputs in words, for the banner of a training."""
        if self.task.labels is None:
            return "no labels"
        more = ", ..." if len(self.task.labels) > LABELS_SHOWN else ""
        return "labels " + ", ".join(self.task.labels[:LABELS_SHOWN]) + more


# ---- predictions, metrics, files


class Scorer(_TaskComponent):
    """Predictions, metrics, tables and prediction files. values: as in `Predictions`, of n rows."""

    default_metrics: ClassVar[
        tuple[str, ...]
    ] = ()  # of own data; the first selects checkpoints
    lower_is_better: ClassVar[frozenset[str]] = frozenset()  # names of metrics
    column: ClassVar[str] = "label"  # of the predictions in their file
    # Whether a prediction is one number; if not, and `probabilities` names none, it has any shape.
    is_number: ClassVar[bool] = False

    @property
    def metrics(self) -> Mapping[str, split_metrics.Metric]:
        """The metrics of the task, by name."""
        return {}

    @functools.cached_property
    def own_metrics(self) -> dict[str, split_metrics.Metric]:
        """The functions of `Task.own_metrics`, loaded once: a file may be edited in a run."""
        return {
            name: split_metrics.own(each)
            for name, each in self.task.own_metrics.items()
        }

    @property
    def probabilities(self) -> Sequence[str]:
        """The names of `values` [n,L] in the prediction file; (): they are not probabilities."""
        return ()

    @property
    def has_threshold(self) -> bool:
        """Whether the `threshold` of `decide` and `results` has a meaning for the task."""
        return False

    def check_metric(self, name: str) -> None:
        """Raises UserError unless the metric `name` can select checkpoints."""
        if split_metrics.is_own(name) and type(self).evaluate is Scorer.evaluate:
            return
        if name not in (*self.metrics, *self.task.metrics):
            raise UserError(
                "metric: task {} has no {}{} (metrics: {}{})".format(
                    self.task.name,
                    name,
                    did_you_mean(name, self.metrics),
                    ", ".join(self.metrics),
                    "; FILE.py:FUNCTION is your own, with :min if lower is better, "
                    "docs/reference/files.md"
                    if type(self).evaluate is Scorer.evaluate
                    else "",
                )
            )

    def gold_labels(self, rows: Sequence[Row]) -> Any:
        """The gold labels of rows."""
        return self.task.reader.label_array(rows)

    def decide(self, values: Any, threshold: float = THRESHOLD) -> Any:
        """The predicted labels, in the form of `gold_labels`. threshold: minimum probability of a
        label of a multi-label task, and of the second one of two."""
        return np.asarray(values)

    def evaluate(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> dict:
        """Returns a dict of metric name to float, the task's main metric first; with `loss` if that
        is not the mean loss of the records. A prediction that is not finite is a UserError."""
        gold_labels = np.asarray(gold_labels)
        values = checked(self, values, len(gold_labels))
        refuse_nan(self.task, values)
        decisions = self.decide(values, threshold)
        metrics = {**self.metrics, **self.own_metrics}
        found = {}
        for name in self.task.metrics:
            metric = metrics[name]
            found[name] = float(metric(self.task, decisions, gold_labels, values))
        return found

    def constant_prediction(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> Optional[str]:
        """Describes predictions that do not depend on the text although the gold labels differ;
        None for others. The default compares what `decide` returns. threshold: as for `decide`."""
        if self.is_number:
            if not differ(gold_labels) or np.std(values) >= _NARROW * np.std(
                gold_labels
            ):
                return None
            return f"all scores are about {np.mean(values):.2f}"
        decisions = np.asarray(self.decide(values, threshold))
        if (
            decisions.dtype.kind not in "biuf"
            or not differ(gold_labels)
            or differ(decisions)
        ):
            return None
        return f"every row is '{self.texts(np.asarray(values)[:1], threshold)[0]}'"

    def table(self, values: Any, gold_labels: Any, threshold: float) -> Optional[str]:
        """A table of the errors, such as a confusion matrix, as text; None for a type without
        one."""
        return None

    def counts_in_words(self, rows: Sequence[Row]) -> str:
        """The frequencies of the labels in the train file, for the banner of a training."""
        labels = self.task.labels
        if labels is None:
            return f"{len(rows):,} rows"
        count_of: collections.Counter = collections.Counter()
        for row in rows:
            several = isinstance(row.label, tuple)
            count_of.update(row.label if several else (row.label,))
        if len(labels) <= LABELS_SHOWN:
            return ", ".join(f"{label}: {count_of[label]:,}" for label in labels)
        rarest = min(labels, key=lambda label: count_of[label])
        commonest = max(labels, key=lambda label: count_of[label])
        return (
            f"{len(labels):,} labels, from {count_of[rarest]} rows ({rarest}) to "
            f"{count_of[commonest]} ({commonest})"
        )

    def texts(self, values: np.ndarray, threshold: float) -> Sequence[str]:
        """The predicted labels or the score of each row as text."""
        raise NotImplementedError

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[Comparison]:
        """Yields the `Comparison` of each row. By default a prediction is wrong if its text is not
        that of the label, and worse the less probable the label was."""
        places = {name: place for place, name in enumerate(self.probabilities)}
        for row, predicted, found in zip(rows, self.texts(values, threshold), values):
            gold = "" if row.label is None else str(row.label)
            probability = (
                float(found[places[predicted]]) if predicted in places else None
            )
            error = float(row.label is not None and predicted != gold)
            if error and gold in places:
                error = max(1 - float(found[places[gold]]), LEAST_ERROR)
            yield Comparison(gold, predicted, probability, error)

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """The `PredictionFile`s to write, the main one first. By default a table: the rows' names,
        predictions, probabilities and, if some row has one, the gold labels. Probabilities and
        scores that are not finite are a UserError."""
        values = checked(self, values, len(rows))
        # Texts are made one at a time to save memory.
        columns = [
            ("id", (row.id for row in rows)),
            (self.column, self.texts(values, threshold)),
        ]
        if has_query_names(self.task):
            columns.insert(0, ("query", (row.query for row in rows)))
        for name, column in zip(self.probabilities, values.T):
            columns.append(("p_" + name, map("%.9g".__mod__, column)))
        if any(row.label is not None for row in rows):
            cases = self.compare(rows, values, threshold)
            columns.append(("gold", (case.gold for case in cases)))
        return [PredictionFile("tsv", None, tsv(columns))]

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """The predictions for a call from Python, the same as in the prediction file: n plain
        values, or tuples of `tasks.output.results`. A UserError where `prediction_files` has
        one."""
        return list(self.texts(checked(self, values, len(rows)), threshold))


# ---- an exported model


class Export(_TaskComponent):
    """The graph of an exported model. A type without it has the inputs of a text or a pair of
    texts, and the outputs of its `Head`."""

    def features(self, encoder: Any, text: Callable) -> dict:
        """The same as `Reader.encode`, in the graph: a dict of tensors [B, ...]; a UserError where
        texts of this type cannot be encoded so.

        Args:
          encoder: `serving.export.graph_encoding.GraphEncoder`.
          text: function of a name of `Reader.texts`, and of further dimensions, to a string tensor
            [B, ...].
        """
        reader = self.task.reader
        if (
            type(reader).encode is not Reader.encode
            or type(reader).parse_pairs is not Reader.parse_pairs
        ):
            raise UserError(
                f"texts of task type {self.task.type.name} cannot be encoded in the graph; serve "
                "the model directory (xlnet serve), or export with --signatures=ids"
            )
        names = reader.texts
        first = text(names[0])
        second = text(names[1]) if len(names) > 1 else None
        return encoder.records([[first, second]])

    def outputs(
        self, outputs: dict, features: dict, threshold: float = THRESHOLD
    ) -> dict:
        """The outputs by readable names: a dict of tensors [B, ...]; outputs: as of `Head.outputs`;
        features: their inputs; threshold: as for `Scorer.decide`."""
        return outputs


# ---- a task type


@dataclasses.dataclass(frozen=True)
class TaskType:
    """A task type. `selecting_flag`, `own_columns` and `with_settings` are optional: they serve the
    flags for your own files."""

    name: str  # in run.json and in `known.TASK_TYPES`
    reader: type[Reader]
    head: type[Head]
    scorer: type[Scorer]
    options: Any = NoOptions()  # a frozen dataclass: options of a `Task`
    has_labels: bool = False  # whether a task has a list of labels
    verb: str = "classify"  # the method of a loaded model that calls it
    program: str = "xlnet classify"  # that trains it
    # The setting that chooses the type if it is not empty; the first such type of the registry is
    # used. Each program has one with "task_name", which always has a value.
    selecting_flag: Optional[str] = None
    # settings (`FineTuningSettings`) -> dict of the fields of a `Task` that name columns of own
    # files; None: those of a table.
    own_columns: Optional[Callable[[Any], dict]] = None
    # (task, settings) -> the task with the options of the settings.
    with_settings: Optional[Callable[[Task, Any], Task]] = None
    export: type[Export] = Export  # not needed in the plain case


# ---- for the methods of all types


def checked(scorer: Scorer, values: Any, count: int) -> np.ndarray:
    """Predictions as an array: [count,L] if they are probabilities of names
    (`Scorer.probabilities`), [count] if they are numbers, otherwise [count,...]. Raises ValueError
    if they have another shape, and UserError for probabilities and numbers that are not finite."""
    values, names = np.asarray(values), scorer.probabilities
    expected: tuple[int, ...] = (count, *values.shape[1:])
    if names:
        expected = (count, len(names))
    elif scorer.is_number:
        expected = (count,)
    if values.shape != expected:
        raise ValueError(
            f"task {scorer.task.name}: values have shape {values.shape}, expected {expected}"
        )
    if names or scorer.is_number:
        refuse_nan(scorer.task, values)
    return values


def differ(values: Any) -> bool:
    """Whether any two of `values` [n, ...] differ, by more than rounding if they are fractions."""
    values = np.asarray(values)
    if len(values) < 2:
        return False
    if values.dtype.kind == "f":
        return not np.allclose(values, values[:1], rtol=_ROUNDING, atol=0.0)
    return bool((values != values[:1]).any())


def refuse_nan(task: Task, values: np.ndarray) -> None:
    """Raises NotFinite where a prediction is NaN or infinite."""
    are_finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    bad = np.count_nonzero(~are_finite)
    if bad:
        raise NotFinite(
            f"task {task.name}: {bad} of {len(values)} predictions are not finite numbers; if "
            "--precision is fp16, give fp32"
        )


def mean_over_windows(values: np.ndarray, windows: Optional[np.ndarray]) -> np.ndarray:
    """The mean over the records of each row: values [m, ...], windows int [n] -> [n, ...]."""
    if windows is None:
        return values
    starts = np.concatenate([[0], np.cumsum(windows)[:-1]])
    sums = np.add.reduceat(values, starts, axis=0)
    return sums / windows.reshape([-1] + [1] * (values.ndim - 1))
