"""A task as data: the columns of its files, the files, its metrics, what published sets add; and
what comes out of it, the predictions that the methods of a loaded model return.

Nothing here reads a file. `contract.Task` adds the methods of a type: its labels, output
layer and scores. `known` has the published tasks, and makes one of a user's own columns and files.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from xlnet.support.errors import wrong

CUSTOM = "custom"  # the task of one's own files

Names = tuple[str, ...]  # of columns, labels, metrics or splits; the words of a text

# id: str. pairs: ((text_a, text_b or None), ...), one pair, or C of them in multiple choice. label:
# as of `Task.parse_label`, or None if not known. query: name of the query of a document; None in
# tasks other than ranking and questions. source: whatever else a reader keeps of the file.
Row = collections.namedtuple(
    "Row", "id pairs label query source", defaults=(None, None)
)

# A row without a file, in a call from Python. text_a: a text, or a tuple of words to be tagged.
# text_b: the second text or None. choices: the answers to choose from.
InlineExample = collections.namedtuple(
    "InlineExample", "text_a text_b choices", defaults=(None, ())
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """What the columns of a table mean, by their names: of the first line, the keys of JSON, or
    numbers from 1 on in files without names. Several columns of one text are joined by a space.

    Attributes:
      text_a: the column or columns of the text.
      text_b: those of the second text; () if there is none.
      label: those of the label.
      id: the column of the row's name; None: rows are numbered, as are those without it.
      id_required: whether a file without the column `id` is refused.
      choices: the columns of the answers of a multiple choice, or one that lists them.
      query: the column of the query's name; rows are then documents to be ranked.
      label_form: how a cell has its labels, as --label_form says; None: not declared.
    """

    text_a: Names = ()
    text_b: Names = ()
    label: Names = ()
    id: str | None = "index"
    id_required: bool = False
    choices: Names = ()
    query: str | None = None
    label_form: str | None = None


@dataclasses.dataclass(frozen=True)
class Form:
    """How a file is written, as far as that is declared; None: not declared.

    Attributes:
      name: one of `files.forms.TABLES`; None: the extension says it.
      delimiter: the character between cells; None: a comma in .csv, a tab in .tsv.
      quoting: "standard": cells that need it are between quotation marks, as RFC 4180 says;
        "none": quotation marks are characters like others. None: as "standard".
      header: "names": the first line has the names of the columns; "none": it is a row. None: as
        "names".
      names: the names of the columns where the file has none, or in place of its own; (): they are
        numbers from 1 on, or the file's.
      encoding: of the text; None: UTF-8.
    """

    name: str | None = None
    delimiter: str | None = None
    quoting: str | None = None
    header: str | None = None
    names: Names = ()
    encoding: str | None = None


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of a task, and how they are written.

    Attributes:
      by_split: the file of each split: a name, or several, of which the first that exists is used.
        A split of several files has a name for each, such as dev_matched.
      form: how the files are written.
      forms: the same for files of one name, or of one extension: "test.tsv", ".json".
      declared: what flags say of the form of all files.
      directory_form: the form of a directory in place of a file, "folders" or "race".
      dev_share: the fraction of the training rows that is held out as dev.
      skips_errors: whether rows to train on that cannot be read are left out and counted.
    """

    by_split: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    form: Form = Form()
    forms: Mapping[str, Form] = dataclasses.field(default_factory=dict)
    declared: Form = Form()
    directory_form: str | None = None
    dev_share: float = 0.0
    skips_errors: bool = False


@dataclasses.dataclass(frozen=True)
class Published:
    """What only the files and servers of published sets need; a user's own task has none of it.

    Attributes:
      replacements: (old, new) in every text.
      label_names: labels in some of the files -> those of the task.
      rows_where: the value of these columns in the rows of the task, where a file has the rows of
        several.
      skipped_labels: labels of rows that are left out, as by the authors of the set.
      has_broken_rows: whether bad rows of official files are left out, with a note.
      submitted_range: lowest and highest score that a server accepts; None: any.
      fills_gaps: whether "_" in a question is where the answer to choose belongs.
      submissions: the file names of a server, by split; .json has an object on each line.
      trained_as: the task whose output layer this one uses.
    """

    replacements: tuple[tuple[str, str], ...] = ()
    label_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rows_where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skipped_labels: Names = ()
    has_broken_rows: bool = False
    fills_gaps: bool = False
    submissions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    submitted_range: tuple[float, float] | None = None
    trained_as: str | None = None

    def replaced(self, text: str) -> str:
        """The text after the replacements."""
        for old, new in self.replacements:
            text = text.replace(old, new)
        return text


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """The options of a task type that has none."""


@dataclasses.dataclass(frozen=True)
class TaskFields:
    """Columns, files, labels and metrics of a task; L labels.

    Attributes:
      labels: names, in the order of their ids; (): the task has none (`Task.has_labels`), or they
        are not known until the train file is read.
      metrics: the names of the metrics, the main one first.
      own_metrics: a user's own metrics: name -> --metric.
      options: a frozen dataclass, those of the type; a setting of the same name changes one. None:
        `default_options`.
    """

    default_options: ClassVar[Any] = NoOptions()

    name: str
    columns: Columns
    labels: Names
    metrics: Names
    files: Files = Files()
    published: Published = Published()
    own_metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Any = None

    def __post_init__(self) -> None:
        if self.options is None:
            object.__setattr__(self, "options", self.default_options)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value of the main metric is the better one."""
        return self.own_metrics.get(self.metrics[0], "").endswith(":min")

    def with_options(self, **values: Any) -> Any:
        """The task with those of some values that are options of its type; None: not given."""
        options = self.options
        for name in vars(options):
            value = values.get(name)
            if value is not None:
                options = dataclasses.replace(options, **{name: value})
        return dataclasses.replace(self, options=options)

    def with_files(self, **changes: Any) -> Any:
        """The task with other `Files`."""
        files = dataclasses.replace(self.files, **changes)
        return dataclasses.replace(self, files=files)


def splits_of(task: TaskFields) -> Names:
    """The names of a task's splits, each of one file or held out of one."""
    held_out = ("dev",) if task.files.dev_share else ()
    return (*task.files.by_split, *held_out)


def expand_split(task: TaskFields, split: str) -> Names:
    """The splits that `split` stands for: itself, or those named `<split>_...`: MNLI's dev has two.
    A UserError if the task has none."""
    names = splits_of(task)
    if split in names:
        return (split,)
    parts = tuple(name for name in names if name.startswith(split + "_"))
    if not parts:
        flag = f"--{split}_file" if split in ("train", "dev") else ""
        all_names = dict.fromkeys([name.partition("_")[0] for name in names] + [*names])
        expected = f"one of {', '.join(all_names)}"
        raise wrong(f"task {task.name}", f"no split '{split}'", expected, flag)
    return parts


# ---- the predictions for a text


class Label(NamedTuple):
    """One label out of several."""

    label: str
    probability: float
    probabilities: dict[str, float]  # of all labels

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        probabilities = list(self.probabilities.values())
        return {"label": self.label, "probabilities": probabilities}


class Labels(NamedTuple):
    """Any number of labels."""

    labels: Names
    probabilities: dict[str, float]  # of all labels, independent of each other

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        are_labels = [name in self.labels for name in self.probabilities]
        probabilities = list(self.probabilities.values())
        return {"is_label": are_labels, "probabilities": probabilities}


class Choice(NamedTuple):
    """The right one of several answers."""

    number: int  # from 0 on
    label: str  # its name in the files of the training data
    probabilities: tuple[float, ...]  # of all answers

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        return {"label": self.label, "probabilities": list(self.probabilities)}


class Ranked(NamedTuple):
    """A document of a ranking."""

    number: int  # which of the given ones, from 0 on
    score: float  # the higher, the more relevant


class Span(NamedTuple):
    """Characters `start` to before `end` of a text."""

    text: str
    start: int
    end: int
    probability: float  # relative to the best spans, whose sum is 1
    start_log_prob: float
    end_log_prob: float


class Answer(NamedTuple):
    """The answer to a question; its characters in the context are `start` to before `end`."""

    text: str  # "" if there is no answer
    start: int | None  # None if there is no answer
    end: int | None
    best: tuple[Span, ...]  # the best spans, whether there is an answer or not
    null_probability: float  # of no answer


class Entity(NamedTuple):
    """Characters `start` to before `end` of a text, or of the words of a sentence."""

    label: str
    text: str
    start: int
    end: int
    score: float | None = None  # the mean probability of its tags


class Tagged(NamedTuple):
    """Words with their tags, and the entities of the tags."""

    words: Names
    tags: Names
    entities: tuple[Entity, ...]
