"""The registry of task types, the library's and those of a user; the known tasks; and the task of
a run's settings: a known one, or `--task_name=custom`, of a user's own columns.

`known.json` has groups of tasks from one source: the fields of `Task` by their names, in place of
those that a group has in common. An entry with `languages` is a task for each, in place of
{language}.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import os
import re
from typing import Any

from xlnet.settings.finetuning import names_in
from xlnet.support import system
from xlnet.support.errors import wrong
from xlnet.tasks.contract import (
    Classification,
    MultiLabel,
    MultipleChoice,
    Regression,
    Task,
)
from xlnet.tasks.files import forms
from xlnet.tasks.questions.spans import Spans
from xlnet.tasks.ranking import Ranking
from xlnet.tasks.tagging.tags import Tagging
from xlnet.tasks.task import CUSTOM, Columns, Files, Form, Published

_TYPES: tuple[type[Task], ...] = (
    Spans,
    Tagging,
    Ranking,
    Regression,
    MultipleChoice,
    MultiLabel,
    Classification,
)

# The task types by name. `register` adds others.
TASK_TYPES = {each.kind: each for each in _TYPES}

# ---- the library's tasks


def _read_tasks() -> dict[str, Task]:
    """The tasks of `known.json` by name. A task has what is common to its group, and its own. One
    with `languages` is a task of each of them, whose code stands for {language} in any text."""
    path = importlib.resources.files(__package__) / "known.json"
    tasks = {}
    for group in json.loads(path.read_text("utf-8")):
        for name, entry in group["tasks"].items():
            pattern = json.dumps([name, {**group["common"], **entry}])
            for language in entry.get("languages", [""]):
                filled = pattern.replace("{language}", language)
                its_name, fields = json.loads(filled, object_hook=_as_fields)
                task = TASK_TYPES[fields["type"]](
                    its_name,
                    Columns(**fields["columns"]),
                    fields["labels"],
                    fields["metrics"],
                    Files(**fields["files"]),
                    Published(**fields.get("published", {})),
                )
                tasks[its_name] = task.with_options(**fields.get("options", {}))
    return tasks


def _as_fields(values: dict[str, Any]) -> dict[str, Any]:
    """For `json.loads`: an object with tuples in place of lists, and forms of files as `Form`s."""
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
        if name == "form":
            values[name] = Form(**value)
        if name == "forms":
            values[name] = {key: Form(**form) for key, form in value.items()}
    return values


TASKS = _read_tasks()


# ---- own task types


def is_built_in(its_type: type[Task]) -> bool:
    """Whether a task type is one of the library's."""
    return its_type in _TYPES


def register(its_type: Any) -> Any:
    """As `tasks.register`."""
    name = getattr(its_type, "kind", "")
    is_type = isinstance(its_type, type) and issubclass(its_type, Task)
    is_taken = name in TASKS or any(name == each.kind for each in _TYPES)
    if not is_type or not name or is_taken:
        raise ValueError(f"found the name '{name}', expected a task type of another")
    TASK_TYPES[name] = its_type
    return its_type


def load(module: str | None) -> list[type[Task]]:
    """Imports `module`, FILE.py or the name of an installed one; returns its variables that are
    task types which it registers, of which it must have one. None: imports nothing."""
    own = []
    for part in system.import_own_module(module).values():
        is_type = isinstance(part, type) and part in TASK_TYPES.values()
        if is_type and not is_built_in(part):
            own.append(part)
    if module and not own:
        found, expected = "no task type", "NAME = xlnet.tasks.register(...)"
        raise wrong(f"own_module: {module}", found, expected)
    return own


def type_of(stored: dict, path: str) -> type[Task]:
    """The type of the `task` in a model's `run.json`. What that names is never imported: a model
    may come from a stranger."""
    kind = str(stored.get("kind"))
    if kind not in TASK_TYPES:
        found = f"task type {kind}, which no module has registered"
        expected = f"one of {', '.join(TASK_TYPES)}"
        raise wrong(path, found, expected, "--own_module=FILE.py")
    return TASK_TYPES[kind]


# ---- which task


def find_task(name: str) -> Task:
    """The known task of that name; case, hyphens and underscores do not matter."""
    for task in TASKS.values():
        if canonical_name(task.name) == canonical_name(name):
            return task
    names = ", ".join([*TASKS, CUSTOM])
    raise wrong("task_name", f"unknown task '{name}'", f"one of {names}")


def canonical_name(name: str) -> str:
    """A task's name without case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


# ---- the task of a run

_DEV_SHARE = 0.1  # of own files
_DEV_SHARE_OF_KNOWN = 0.05  # where no file of dev is known or named


def resolve_task(settings: Any, stored: dict | None = None) -> Task:
    """The `Task` of `settings` (`settings.finetuning.FineTuningSettings`).

    stored: the `task` of a model's `run.json`: without training it has what otherwise the train
    file determines, such as the labels of own files; also the fraction that is held out.
    """
    stored = stored or {}
    if canonical_name(settings.task_name) == CUSTOM:
        task = _own_task(settings, stored)
    else:
        task = find_task(settings.task_name)
        if task.program != settings.program:
            found = f"{task.name}, a task of {task.program}"
            raise wrong("task_name", found, f"one of {settings.program}")
        if settings.is_regression and task.has_labels:
            expected = f"False for the labels of task {task.name}"
            raise wrong("is_regression", "True", expected)
    task = _with_files(task, settings, stored).with_options(**vars(settings))
    # Its labels, which the model or the train file has.
    lacks_labels = task.has_labels and not task.labels
    if lacks_labels and stored and not settings.do_train:
        task = dataclasses.replace(task, labels=tuple(stored["labels"]))
        task = task.with_options(**stored.get("kind_options", {}))
    elif lacks_labels:
        names = task.files.by_split.get("train", "train.csv")
        path = forms.require_file(settings.data_dir, names, "train")
        task = task.from_train_file(path)
    task = with_metric(task, settings.metric)
    if settings.do_train or settings.do_eval:
        task.metric_functions  # noqa: B018  its errors are raised before anything is read
    return task


def with_metric(task: Task, name: str | None) -> Task:
    """The task with the comma-separated metrics `name` before the others; None: unchanged."""
    names = []
    own: dict[str, str] = {}
    for each in names_in(name):
        task.check_metric(each)
        _, _, function = each.removesuffix(":min").rpartition(":")
        names.append(function)
        own.pop(function, None)  # of metrics of one name the last one counts
        if ":" in each:
            own[function] = each
    in_order = tuple(dict.fromkeys((*names, *task.metrics)))
    return dataclasses.replace(task, metrics=in_order, own_metrics=own)


# ---- own files: their type and columns

# The types of `xlnet classify`, by the flag that chooses one.
_OF_FLAG: dict[str, type[Task]] = {
    "query_id_column": Ranking,
    "is_regression": Regression,
    "multi_label": MultiLabel,
    "choice_columns": MultipleChoice,
}


def _type_of_own(settings: Any, stored: dict) -> type[Task]:
    """The type of own files: that of the model in model_dir if it is a user's, that which
    --own_module registers for this program, or the library's that the program or a flag chooses."""
    own = load(settings.own_module)
    if "kind" in stored:
        trained = type_of(stored, "model_dir")
        if not is_built_in(trained):
            return trained
    of_programs: list[type[Task]] = [*own, Spans, Tagging]
    for each in of_programs:
        if each.program == settings.program:
            return each
    chosen = [flag for flag in _OF_FLAG if getattr(settings, flag)]
    if len(chosen) > 1:
        raise wrong(" and ".join(chosen), "two task types", "one of these flags")
    return _OF_FLAG[chosen[0]] if chosen else Classification


# The flags of several columns, by the fields of `Columns`.
_COLUMN_FLAGS = {
    "text_a": "text_a_column",
    "text_b": "text_b_column",
    "label": "label_column",
    "choices": "choice_columns",
}


def _own_task(settings: Any, stored: dict) -> Task:
    """The task of own files, whose columns the flags name; its labels are not known yet."""
    its_type = _type_of_own(settings, stored)
    named = {}
    for field, flag in _COLUMN_FLAGS.items():
        given = getattr(settings, flag)
        named[field] = names = names_in(given)
        if given is not None and not names:
            raise wrong(flag, f"'{given}'", "the name of a column")
        if len(set(names)) < len(names) and field != "text_a":
            raise wrong(flag, f"'{given}'", "columns that differ")
    columns = Columns(
        **named,
        id=settings.id_column,
        id_required=settings.requires_id,
        query=settings.query_id_column,
        label_form=settings.label_form,
    )
    is_of_one = is_built_in(its_type) and its_type.program == "xlnet classify"
    if len(columns.label) > 1 and is_of_one and not settings.multi_label:
        expected = "one; several are for --multi_label"
        raise wrong("label_column", "several columns", expected)
    if columns.query and not columns.text_b:
        expected = "the column of the documents"
        raise wrong("query_id_column", "no --text_b_column", expected)
    return its_type(
        CUSTOM,
        columns,
        labels=(),
        metrics=its_type.default_metrics,
        files=Files(by_split=_own_files(settings)),
    )


# ---- which files

# The split of a file with such a part in its name; the last of each are of the first tagging sets.
_SPLIT_OF = {
    "train": "train",
    "test": "test",
    "testb": "test",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "eval": "dev",
    "testa": "dev",
}
_OF_RECORDS = ".tfrecord"  # of output_dir, which may be the directory of the texts, too


def _own_files(settings: Any) -> dict[str, Any]:
    """{split: file} for `data_dir`: the path of one file, or names of files in a directory, found
    by a part such as "train"; without one, train.csv and test.csv, which need not exist. Without
    training, all splits are all rows of one file, unless `dev_share` says that a part of it is
    dev."""
    data_dir = settings.data_dir
    if os.path.isfile(data_dir):
        path = os.path.abspath(data_dir)
        if settings.do_train:
            return {"train": path}
        splits = ["train", "test"]
        if not settings.dev_share:
            splits.append("dev")
        return dict.fromkeys(splits, path)
    found: dict[str, str] = {}
    listed = sorted(os.listdir(data_dir)) if os.path.isdir(data_dir) else []
    for name in listed:
        if name.endswith(_OF_RECORDS):
            continue
        # The split is a part of the name, such as train-v2.0.json and eng.train.
        for part in set(re.split("[.-]", name)) & set(_SPLIT_OF):
            split = _SPLIT_OF[part]
            if found.setdefault(split, name) != name:
                where, both = f"data_dir: {data_dir}", f"{found[split]} and {name}"
                raise wrong(where, both, "one of them", f"--{split}_file")
    # These names are shown where a file is needed. A missing dev is a part of train.
    return {"train": "train.csv", "test": "test.csv", **found}


def _with_files(task: Task, settings: Any, stored: dict) -> Task:
    """The task with the files that flags name and the form that they declare in place of its own,
    and with the fraction of train that is held out where dev has no file."""
    named = {}
    for split, paths in settings.named_files.items():
        named[split] = forms.expanded(paths, split + "_file")
    if "train" in named and os.path.isfile(settings.data_dir):
        both = f"the file {settings.data_dir}, and train_file names {named['train']}"
        raise wrong("data_dir", both, "one of them")
    by_split = {**task.files.by_split, **named}
    if named and not settings.data_dir:  # there are no others
        by_split = named

    share = settings.dev_share
    if share is None:  # the rows that a model held out stay held out
        share = stored.get("dev_share")
    if share is None:
        share = _DEV_SHARE if task.name == CUSTOM else _DEV_SHARE_OF_KNOWN
    has_dev = any(name.startswith("dev") for name in by_split)
    return task.with_files(
        by_split=by_split,
        dev_share=0.0 if has_dev or "train" not in by_split else share,
        declared=_declared_form(settings),
        skips_errors=settings.on_error == "skip",
    )


def _declared_form(settings: Any) -> Form:
    """What flags say of the form of the files."""
    delimiter = settings.delimiter
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    elif delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise wrong("delimiter", f"'{delimiter}'", "one character, or tab")
    return Form(
        settings.input_format,
        delimiter,
        settings.quoting,
        settings.header,
        encoding=settings.encoding,
    )
