"""A task as data: the columns of its files, the files, its metrics, what published sets add; and
the predictions that the methods of a loaded model return, such as `model.classify`.

Nothing here reads a file. `contract.Task` adds the methods of a type: its labels, output layer and
scores. `known` has the published tasks, and makes one of a user's own columns and files. A row is
an example, a line of a table; a split, such as train or dev, is the rows of a file.
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
# what `Task.parse_label` returns, or None if not known. query: name of the query of a document;
# None in tasks other than ranking and questions. source: whatever else a reader keeps of the file.
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
    """Which columns of a table have the texts, the label and the name of a row. A column is named
    by the first line of its file, by a key of JSON, or, in files without names, by its number from
    1 on. Several columns of one text are joined by a space.

    Attributes:
      text_a: the column or columns of the text.
      text_b: those of the second text; () if there is none.
      label: those of the label.
      id: the column of the row's name; rows without it, and all rows if it is None, are numbered.
      id_required: whether a file without the column `id` is refused.
      choices: the columns of the answers of a multiple choice, or one that lists them; () in other
        tasks.
      query: the column of the query's name; rows are then documents to be ranked. None: there is
        none.
      label_form: how the text of a cell has labels, as --label_form says: "json", "letters",
        "numbers" or "indices"; None: not declared.
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
    """How a file is written, as far as that is declared; None: not declared, with the meaning that
    is given below.

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
      by_split: the file of each split: a name (str), or several (tuple), of which the first that
        exists is used. Where dev has several files, each is a split, such as dev_matched.
      form: how the files are written.
      forms: the form of files of one name, or of one extension, by "test.tsv" or ".json", in place
        of `form`.
      declared: the form of all files as far as flags declare it, in place of the others.
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
      replacements: (old, new) parts of every text, replaced one after the other.
      label_names: for labels that some of the files write in another way, those of the task.
      rows_where: by the name of a column the value that rows of this task have there; a file with
        such a column has rows of several tasks.
      skipped_labels: labels of rows that are left out, as by the authors of the set.
      has_broken_rows: whether bad rows of official files are left out, with a note.
      fills_gaps: whether "_" in a question is where the answer to choose belongs.
      submissions: the names of files for a benchmark's server, by split; .json has an object on
        each line, others a table.
      submitted_range: lowest and highest score that the server accepts; None: any.
      trained_as: the name of the task whose model predicts this one; None: its own.
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
        """The text with all replacements."""
        for old, new in self.replacements:
            text = text.replace(old, new)
        return text


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """The options of a task type without any."""


@dataclasses.dataclass(frozen=True)
class TaskFields:
    """Columns, files, labels and metrics of a task.

    Attributes:
      default_options: the options of the type where a task does not change them.
      name: of the task, such as "mnli".
      columns: those of its tables.
      labels: the L names, in the order of their ids; (): the type has none (see
        `Task.has_labels`), or they are not known until the train file is read.
      metrics: the names of the metrics, the main one first.
      files: where its rows are.
      published: what only a published task has.
      own_metrics: which of the metrics are a user's: by name what --metric says of it, such as
        "FILE.py:FUNCTION:min".
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
            # The dataclass is frozen: an assignment would be an error.
            object.__setattr__(self, "options", self.default_options)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value of the main metric is the better one, which only a user's own
        metric can say, by ":min" at its end."""
        return self.own_metrics.get(self.metrics[0], "").endswith(":min")

    def with_options(self, **values: Any) -> Any:
        """The task with changed options. values: by name; those that are None, or not options of
        the type, change nothing."""
        changes = {}
        for name in vars(self.options):
            if values.get(name) is not None:
                changes[name] = values[name]
        options = dataclasses.replace(self.options, **changes)
        return dataclasses.replace(self, options=options)

    def with_files(self, **changes: Any) -> Any:
        """The task with changed `files`. changes: fields of `Files`."""
        files = dataclasses.replace(self.files, **changes)
        return dataclasses.replace(self, files=files)


def splits_of(task: TaskFields) -> Names:
    """The names of a task's splits: those with a file, and dev if it is held out of train."""
    held_out = ("dev",) if task.files.dev_share else ()
    return (*task.files.by_split, *held_out)


def expand_split(task: TaskFields, split: str) -> Names:
    """The names of the task's splits that `split` stands for: itself, or those that begin with it
    and "_": dev of MNLI stands for dev_matched and dev_mismatched. A UserError if there are
    none."""
    names = splits_of(task)
    if split in names:
        return (split,)
    parts = tuple(name for name in names if name.startswith(split + "_"))
    if not parts:
        flag = f"--{split}_file" if split in ("train", "dev") else ""
        beginnings = [name.partition("_")[0] for name in names]
        all_names = dict.fromkeys([*beginnings, *names])  # each once
        expected = f"one of {', '.join(all_names)}"
        raise wrong(f"task {task.name}", f"no split '{split}'", expected, flag)
    return parts


# ---- the predictions for a text. `named` returns one as an exported model names its outputs,
# which are those of `contract.Task.named_outputs`; the server replies with it.


class Label(NamedTuple):
    """The prediction of a classification: one label out of several."""

    label: str
    probability: float  # of this label
    probabilities: dict[str, float]  # of all labels, in the order of their ids

    def named(self) -> dict[str, Any]:
        """{"label": str, "probabilities": a float for each label}, as of an exported model."""
        probabilities = list(self.probabilities.values())
        return {"label": self.label, "probabilities": probabilities}


class Labels(NamedTuple):
    """The prediction where a text has any number of labels."""

    labels: Names
    probabilities: dict[str, float]  # of all labels, independent of each other

    def named(self) -> dict[str, Any]:
        """{"is_label": a bool, "probabilities": a float for each label of the task}, as of an
        exported model."""
        are_labels = [name in self.labels for name in self.probabilities]
        probabilities = list(self.probabilities.values())
        return {"is_label": are_labels, "probabilities": probabilities}


class Choice(NamedTuple):
    """The prediction of a multiple choice: one of the given answers."""

    number: int  # of the answer, from 0 on
    label: str  # its name in the files of the training data, such as "A"
    probabilities: tuple[float, ...]  # of all answers

    def named(self) -> dict[str, Any]:
        """{"label": str, "probabilities": a float for each answer}, as of an exported model."""
        return {"label": self.label, "probabilities": list(self.probabilities)}


class Ranked(NamedTuple):
    """A document in a ranking, which is a list of these with the best one first."""

    number: int  # which of the given documents, from 0 on
    score: float  # the higher, the more relevant


class Span(NamedTuple):
    """A possible answer to a question: the characters `start` to before `end` of the context."""

    text: str
    start: int
    end: int
    probability: float  # relative to the spans in `Answer.best`, whose sum is 1
    start_log_prob: float
    end_log_prob: float


class Answer(NamedTuple):
    """The answer to a question; its characters in the context are `start` to before `end`."""

    text: str  # "" if there is no answer
    start: int | None  # None if there is no answer
    end: int | None  # as start
    best: tuple[Span, ...]  # the best spans, whether there is an answer or not
    null_probability: float  # of no answer


class Entity(NamedTuple):
    """An entity, `start` to before `end`: characters of a text, or words of a sentence that is
    given as words."""

    label: str
    text: str
    start: int
    end: int
    score: float | None = None  # the mean probability of its tags


class Tagged(NamedTuple):
    """The prediction for a sentence: its words, a tag for each, and the entities of the tags."""

    words: Names
    tags: Names
    entities: tuple[Entity, ...]
