"""A task as data: its files, the meaning of their columns, its metrics.

`parsing` reads the files; `known` lists the public tasks, `custom` makes one of a user's own
columns. The `reader`, `head` and `scorer` of its type (`contract`) define its labels, output layer
and scores. Shape letters: n rows, L labels, C choices.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Optional

from xlnet.errors import UserError, did_you_mean

# For annotations alone: a task makes the objects of its type, and they know their task.
if TYPE_CHECKING:
    from xlnet.tasks.types.contract import Export, Head, Reader, Scorer, TaskType

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
class Task:
    """The files of a task, the meaning of their columns, and its metrics.

    Columns have the names in the first line of a file or the keys of JSON lines; `header` has the
    names for files without this line. Several columns of one text are joined with a space. A file's
    form follows from its extension: .tsv and .txt, .csv, .json and .jsonl (a JSON object on each
    line); `directory_form` is the form of a directory.
    """

    name: str
    text_a: tuple  # column(s) of the text
    text_b: tuple  # column(s) of the second text; () if there is none
    label: tuple  # column(s) of the label
    labels: Optional[tuple]  # L names, in the order of their ids; None: a score
    metrics: tuple  # names of them, the official main one first
    type: TaskType  # of `known.TASK_TYPES`, possibly with other options
    id: Optional[str] = "index"  # column of the row's name; the row number where there is none
    id_required: bool = False  # a file without the column `id` is refused
    choices: tuple = ()  # columns of the C answers, or one column that lists them
    query: Optional[str] = None  # column of the query's name; rows are documents to be ranked
    files: dict = dataclasses.field(default_factory=lambda: dict(_THREE_FILES))
    # by split: a name, or several; the first that exists is used
    directory_form: Optional[str] = None  # of directories: "folders" or "race"
    groups: dict = dataclasses.field(default_factory=dict)  # a split -> its parts
    header: tuple = ()  # column names of the files that have no line of them
    column_aliases: dict = dataclasses.field(default_factory=dict)  # in some files -> column
    keep_where: dict = dataclasses.field(default_factory=dict)  # column -> value of wanted rows
    replacements: tuple = ()  # (old, new) in every text
    label_names: dict = dataclasses.field(default_factory=dict)  # label in some files -> label
    skipped_labels: tuple = ()  # labels of rows that are left out, as by the set's authors
    submissions: dict = dataclasses.field(default_factory=dict)  # a server's file names, by split
    submission_form: str = "tsv"  # "tsv" for GLUE's server, "json" for CLUE's
    trained_as: Optional[str] = None  # the task whose output layer this one uses
    broken_rows: bool = False  # bad rows of official files are left out, with a note
    label_at_end: bool = False  # the label is the last cell of a row, which may be wider
    cut_first: bool = False  # only the first text is truncated
    dev_share: float = 0.0  # fraction of the training rows held out as dev
    encoding: Optional[str] = None  # of the files' text; None: UTF-8, or as the file shows
    delimiter: Optional[str] = None  # between the columns of tables; None: as the header shows
    skips_errors: bool = False  # rows that cannot be read are left out and counted; if no
    # labels are needed they stay, without texts, so that predictions are aligned with the file
    own_metrics: dict = dataclasses.field(default_factory=dict)  # a user's: name -> --metric
    quoted: bool = True  # .tsv: cells may be quoted; those of public sets are not

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

    @functools.cached_property
    def reader(self) -> Reader:
        return self.type.reader(self)

    @functools.cached_property
    def head(self) -> Head:
        return self.type.head(self)

    @functools.cached_property
    def export(self) -> Export:
        return self.type.export(self)

    @functools.cached_property
    def scorer(self) -> Scorer:
        return self.type.scorer(self)

    @property
    def options(self) -> Any:
        """The options of its type."""
        return self.type.options

    def with_options(self, **changes: Any) -> Task:
        """The task with other options of its type."""
        options = dataclasses.replace(self.options, **changes)
        return dataclasses.replace(self, type=dataclasses.replace(self.type, options=options))


def splits_of(task: Task) -> tuple[str, ...]:
    """The names of a task's splits: of several files, of one, and held out."""
    return (*task.groups, *task.files, *(("dev",) if task.dev_share else ()))


def expand_split(task: Task, split: str) -> tuple:
    """Returns the parts of `split`, each of one file: MNLI's dev has two."""
    if split in task.groups:
        return task.groups[split]
    known = splits_of(task)
    if split not in known:
        raise UserError(
            "task {} has no split '{}'{} (splits: {}){}".format(
                task.name,
                split,
                did_you_mean(split, known),
                ", ".join(known),
                f"; train on task {task.trained_as}" if task.trained_as else "",
            )
        )
    return (split,)
