"""A task as data: the columns of its files, the files, its metrics; and what published sets add.

Nothing here reads a file. The `reader`, `head` and `scorer` that the task's type makes
(`types.contract`) define its labels, output layer and scores. `types.known` lists the published
tasks; `types.custom` makes one of a user's own columns and files.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Optional, Protocol

from xlnet.errors import UserError, did_you_mean

CUSTOM = "custom"  # the task of one's own files

# id: str. pairs: ((text_a, text_b or None), ...), one pair, or C of them in multiple choice; () for
# a row to predict that was skipped. label: as of `Reader.parse_label`, or None if not known. query:
# name of the query of a document; None in tasks other than ranking. source: whatever else a reader
# keeps of the file.
Row = collections.namedtuple("Row", "id pairs label query source", defaults=(None, None))

# A row without a file, in a call from Python. text_a: a text, or a tuple of words to be tagged.
# text_b: the second text or None. choices: the answers to choose from.
Asked = collections.namedtuple("Asked", "text_a text_b choices", defaults=(None, ()))

_THREE_FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """What the columns of a table mean, by their names: of the first line, the keys of JSON, or
    numbers from 1 on in files without names. Several columns of one text are joined by a space.

    Attributes:
      text_a: the column or columns of the text.
      text_b: those of the second text; () if there is none.
      label: those of the label.
      id: the column of the row's name; None: rows are numbered, as they are where it is missing.
      id_required: whether a file without the column `id` is refused.
      choices: the columns of the answers of a multiple choice, or one that lists them.
      query: the column of the query's name; rows are then documents to be ranked.
      label_form: how a cell has its labels, as --label_form says; None: not declared.
    """

    text_a: tuple[str, ...] = ()
    text_b: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    id: Optional[str] = "index"
    id_required: bool = False
    choices: tuple[str, ...] = ()
    query: Optional[str] = None
    label_form: Optional[str] = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All columns of texts."""
        return (*self.text_a, *self.text_b, *self.choices)


@dataclasses.dataclass(frozen=True)
class Form:
    """How a file is written, as far as that is declared; None: not declared.

    Attributes:
      name: a key of `files.forms.FORMS` or `Reader.forms`; None: the extension says it.
      delimiter: the character between cells; None: a comma in .csv, a tab in .tsv.
      quoting: "standard": cells that need it are between quotation marks, as RFC 4180 says;
        "none": quotation marks are characters like others. None: as "standard".
      header: "names": the first line has the names of the columns; "none": it is a row. None: as
        "names".
      names: the names of the columns where the file has none; (): they are numbers from 1 on.
      encoding: of the text; None: UTF-8, or as a byte order mark says.
      decimal: the decimal mark of scores.
      is_wider: whether rows may have more cells than names; the last one is then the label.
    """

    name: Optional[str] = None
    delimiter: Optional[str] = None
    quoting: Optional[str] = None
    header: Optional[str] = None
    names: tuple[str, ...] = ()
    encoding: Optional[str] = None
    decimal: str = "."
    is_wider: bool = False


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of a task, and how they are written.

    Attributes:
      by_split: the file of each split: a name, or several, of which the first that exists is used.
      groups: the parts of a split that has several files.
      form: how the files are written.
      forms: the same for files of one name, or of one extension: "test.tsv", ".json".
      directory_form: the form of a directory in place of a file, "folders" or "race".
      dev_share: the fraction of the training rows that is held out as dev.
      keep_where: the value that each of these columns has in rows that are wanted; others are left
        out and counted. None: nothing is declared, as {}, but rows that an annotator rejected are
        an error.
      skips_errors: whether rows that cannot be read are left out and counted. In a file to predict
        they stay, without texts, so that predictions are aligned with it.
    """

    by_split: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(_THREE_FILES))
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    form: Form = Form()
    forms: Mapping[str, Form] = dataclasses.field(default_factory=dict)
    directory_form: Optional[str] = None
    dev_share: float = 0.0
    keep_where: Optional[Mapping[str, str]] = None
    skips_errors: bool = False


@dataclasses.dataclass(frozen=True)
class Published:
    """What only the files and servers of published sets need; a user's own task has none of it.

    Attributes:
      column_aliases: names of columns in some of the files -> those of the task.
      replacements: (old, new) in every text.
      label_names: labels in some of the files -> those of the task.
      skipped_labels: labels of rows that are left out, as by the authors of the set.
      has_broken_rows: whether bad rows of official files are left out, with a note.
      submissions: the file names of a server, by split.
      submission_form: "tsv" for GLUE's server, "json" for CLUE's.
      trained_as: the task whose output layer this one uses.
    """

    column_aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    replacements: tuple[tuple[str, str], ...] = ()
    label_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skipped_labels: tuple[str, ...] = ()
    has_broken_rows: bool = False
    submissions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    submission_form: str = "tsv"
    trained_as: Optional[str] = None


class TypeOfTask(Protocol):
    """What a task needs of its type, a `contract.TaskType`."""

    @property
    def name(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def options(self) -> Any: ...
    @property
    def reader(self) -> Any: ...
    @property
    def head(self) -> Any: ...
    @property
    def scorer(self) -> Any: ...
    @property
    def export(self) -> Any: ...
    @property
    def configured(self) -> Any: ...
    @property
    def fixed(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Task:
    """Columns, files, labels and metrics of a task; L labels.

    Attributes:
      labels: names, in the order of their ids; None: a score, or no list of labels; (): not known
        until the train file is read.
      metrics: the names of the metrics, the main one first.
      cut_first: whether only the first text is truncated.
      own_metrics: a user's own metrics: name -> --metric.
    """

    name: str
    columns: Columns
    labels: Optional[tuple[str, ...]]
    metrics: tuple[str, ...]
    type: TypeOfTask
    files: Files = Files()
    published: Published = Published()
    cut_first: bool = False
    own_metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def class_names(self) -> tuple[str, ...]:
        """`labels` of a task that has labels."""
        assert self.labels is not None, f"task {self.name} has scores, not labels"
        return self.labels

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value of the main metric is the better one."""
        own = self.own_metrics.get(self.metrics[0])
        return own.endswith(":min") if own else self.metrics[0] in self.scorer.lower_is_better

    @property
    def is_regression(self) -> bool:
        """Whether predictions are scores, as the flag of this name says."""
        return self.labels is None

    # The objects of the type for this task, as `types.contract` describes them.

    @functools.cached_property
    def reader(self) -> Any:
        return self.type.reader(self)

    @functools.cached_property
    def head(self) -> Any:
        return self.type.head(self)

    @functools.cached_property
    def export(self) -> Any:
        return self.type.export(self)

    @functools.cached_property
    def scorer(self) -> Any:
        return self.type.scorer(self)

    @property
    def options(self) -> Any:
        """The options of its type."""
        return self.type.options

    def with_options(self, **changes: Any) -> Task:
        """The task with other options of its type."""
        its_type: Any = self.type
        options = dataclasses.replace(self.options, **changes)
        return dataclasses.replace(self, type=dataclasses.replace(its_type, options=options))

    def with_columns(self, **changes: Any) -> Task:
        """The task with other `Columns`."""
        return dataclasses.replace(self, columns=dataclasses.replace(self.columns, **changes))

    def with_files(self, **changes: Any) -> Task:
        """The task with other `Files`."""
        return dataclasses.replace(self, files=dataclasses.replace(self.files, **changes))


def splits_of(task: Task) -> tuple[str, ...]:
    """The names of a task's splits: of several files, of one, and held out."""
    held_out = ("dev",) if task.files.dev_share else ()
    return (*task.files.groups, *task.files.by_split, *held_out)


def expand_split(task: Task, split: str) -> tuple[str, ...]:
    """Returns the parts of `split`, each of one file: MNLI's dev has two."""
    if split in task.files.groups:
        return task.files.groups[split]
    known = splits_of(task)
    if split not in known:
        trained_as = task.published.trained_as
        raise UserError(
            "task {} has no split '{}'{} (splits: {}){}".format(
                task.name,
                split,
                did_you_mean(split, known),
                ", ".join(known),
                f"; train on task {trained_as}" if trained_as else "",
            )
        )
    return (split,)
