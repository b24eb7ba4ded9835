"""The task of a run's settings: a known one, or `--task_name=custom`, of a user's own columns."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any, Optional

from xlnet.settings.finetuning import names_in
from xlnet.support import files
from xlnet.support.errors import wrong
from xlnet.tasks import known, metrics
from xlnet.tasks.files import forms
from xlnet.tasks.task import CUSTOM, Columns, Files, Task
from xlnet.tasks.types.contract import TaskType

_DEV_SHARE = 0.1  # of own files
_DEV_SHARE_OF_KNOWN = 0.05  # where no file of dev is known or named


def resolve_task(settings: Any, stored: Optional[dict] = None) -> Task:
    """The `Task` of `settings` (`settings.finetuning.FineTuningSettings`).

    stored: the `task` of a model's `run.json`: without training it has what otherwise the train
    file determines, such as the labels of own files; also the fraction that is held out.
    """
    stored = stored or {}
    if known.canonical_name(settings.task_name) == CUSTOM:
        task = _own_task(settings, stored)
    else:
        task = known.find_task(settings.task_name)
        if task.type.program != settings.program:
            found = f"{task.name}, a task of {task.type.program}"
            raise wrong("task_name", found, f"one of {settings.program}")
        if settings.is_regression and task.labels is not None:
            expected = f"False for the labels of task {task.name}"
            raise wrong("is_regression", "True", expected)
    task = _with_forms(_with_named_files(task, settings), settings)

    task = _with_held_out(task, settings, stored)
    task = with_options(task, vars(settings))
    # Its labels, which the model or the train file has.
    if task.labels == () and stored and not settings.do_train:
        task = dataclasses.replace(task, labels=tuple(stored["labels"]))
        task = with_options(task, stored.get("kind_options", {}))
    task = with_metric(complete(task, settings.data_dir), settings.metric)
    if settings.do_train or settings.do_eval:
        task.scorer.metrics  # noqa: B018  its errors are raised before anything is read
    return task


def with_options(task: Task, values: Mapping[str, Any]) -> Task:
    """The task with the options of its type that are among some values by name."""
    options = {}
    for field in dataclasses.fields(task.type.options):
        if values.get(field.name) is not None:
            options[field.name] = values[field.name]
    return task.with_options(**options)


def _with_held_out(task: Task, settings: Any, stored: dict) -> Task:
    """The task with the fraction of train that is held out as dev, where dev has no file."""
    share = settings.dev_share
    if share is None:  # the rows that a model held out stay held out
        share = stored.get("dev_share")
    if share is None:
        share = _DEV_SHARE if task.name == CUSTOM else _DEV_SHARE_OF_KNOWN
    splits = (*task.files.by_split, *task.files.groups)
    if "dev" in splits or "train" not in splits:
        share = 0.0
    return task.with_files(dev_share=share)


def complete(task: Task, data_dir: str) -> Task:
    """The task with the labels of its train file if they are not known."""
    if task.labels != ():
        return task
    names = task.files.by_split.get("train", "train.csv")
    path = forms.require_file(data_dir, names, "train")
    return task.reader.from_train_file(path)


def with_metric(task: Task, name: Optional[str]) -> Task:
    """The task with the comma-separated metrics `name` before the others; None: unchanged."""
    given = {}  # name, as results have it -> as the flag has it
    for each in names_in(name):
        task.scorer.check_metric(each)
        given[metrics.name_of(each)] = each
    own = {name: each for name, each in given.items() if metrics.is_own(each)}
    in_order = tuple(dict.fromkeys((*given, *task.metrics)))
    return dataclasses.replace(task, metrics=in_order, own_metrics=own)


# ---- own files: their type and columns

# The types of `xlnet classify`, by the flag that chooses one; of the others, by the program.
_OF_FLAG = {
    "query_id_column": "ranking",
    "is_regression": "regression",
    "multi_label": "multi_label",
    "choice_columns": "multiple_choice",
}
_OF_PROGRAM = {"xlnet squad": "spans", "xlnet tag": "tagging"}
_COLUMNS = {
    "text_a": "text_a_column",
    "text_b": "text_b_column",
    "label": "label_column",
    "choices": "choice_columns",
}


def find_type(settings: Any, stored: Optional[dict] = None) -> TaskType:
    """The type of own files: that of the model in model_dir if it is a user's, that which
    --own_module registers for this program, or the library's that the program or a flag chooses."""
    own = known.load(settings.own_module)
    if stored:
        trained = known.type_of(stored, "model_dir")
        if not known.is_built_in(trained):
            return trained
    for each in own:
        if each.program == settings.program:
            return each
    if settings.program in _OF_PROGRAM:
        return known.TASK_TYPES[_OF_PROGRAM[settings.program]]
    chosen = [flag for flag in _OF_FLAG if getattr(settings, flag)]
    if len(chosen) > 1:
        raise wrong(" and ".join(chosen), "two task types", "one of these flags")
    return known.TASK_TYPES[_OF_FLAG[chosen[0]] if chosen else "classification"]


def _own_task(settings: Any, stored: dict) -> Task:
    its_type = find_type(settings, stored if "kind" in stored else None)
    columns: dict[str, Any] = {
        "id": settings.id_column,
        "id_required": settings.requires_id,
        "query": settings.query_id_column,
        "group": settings.group_column,
        "label_form": settings.label_form,
    }
    for name, flag in _COLUMNS.items():
        given = getattr(settings, flag)
        columns[name] = names_in(given)
        if given is not None and not columns[name]:
            raise wrong(flag, f"'{given}'", "the name of a column")
        if len(set(columns[name])) < len(columns[name]) and name != "text_a":
            raise wrong(flag, f"'{given}'", "columns that differ")
    is_of_one = known.is_built_in(its_type) and its_type.program == "xlnet classify"
    if len(columns["label"]) > 1 and is_of_one and not settings.multi_label:
        expected = "one; several are for --multi_label"
        raise wrong("label_column", "several columns", expected)
    if columns["query"] and not columns["text_b"]:
        expected = "the column of the documents"
        raise wrong("query_id_column", "no --text_b_column", expected)
    return Task(
        CUSTOM,
        Columns(**columns),
        labels=() if its_type.has_labels else None,
        metrics=its_type.default_metrics,
        type=its_type,
        files=Files(by_split=_own_files(settings)),
    )


# ---- which files

# The names of the files of a split, with those of the first tagging sets.
_SPLIT_NAMES = {
    "train": ("train",),
    "test": ("test", "testb"),
    "dev": ("dev", "valid", "validation", "val", "eval", "testa"),
}
_OF_RECORDS = ".tfrecord"  # of output_dir, which may be the directory of the texts, too


def _own_files(settings: Any) -> dict[str, Any]:
    """{split: path} for `data_dir`, which is one file, or has train.csv or the like. Without
    training, all splits are all rows of one file, unless `dev_share` says that a part of it is
    dev."""
    data_dir = settings.data_dir
    if os.path.isfile(data_dir):
        path = os.path.abspath(data_dir)
        if settings.do_train:
            return {"train": path}
        splits = ("train", "test") if settings.dev_share else _SPLIT_NAMES
        return dict.fromkeys(splits, path)
    # The name of a file has that of the split as a part, such as train-v2.0.json and eng.train.
    listed = sorted(os.listdir(data_dir)) if os.path.isdir(data_dir) else []
    found = {}
    for split, names in _SPLIT_NAMES.items():
        of_split = []
        for name in listed:
            parts = set(re.split("[.-]", name))
            if parts & set(names) and not name.endswith(_OF_RECORDS):
                of_split.append(name)
        if len(of_split) > 1:
            where, both = f"data_dir: {data_dir}", " and ".join(of_split)
            raise wrong(where, both, "one of them", f"--{split}_file")
        if of_split:
            found[split] = of_split[0]
        elif split != "dev":
            # This name is shown where the file is needed. A missing dev is a part of train.
            found[split] = f"{split}.csv"
    return found


def _with_named_files(task: Task, settings: Any) -> Task:
    """The task with the files that flags name instead of those in `data_dir`."""
    named: dict[str, str] = {}
    for split, paths in settings.named_files.items():
        named[split] = forms.expanded(paths, split + "_file")
    if settings.file_to_predict and "dev" not in named:
        named["dev"] = forms.expanded(settings.file_to_predict, "predict_file")
    if not named:
        return task
    if "train" in named and os.path.isfile(settings.data_dir):
        both = f"the file {settings.data_dir}, and train_file names {named['train']}"
        raise wrong("data_dir", both, "one of them")
    found: dict[str, Any] = dict(task.files.by_split) if settings.data_dir else {}
    found.update(named)
    groups = {}
    for split, parts in task.files.groups.items():
        if split not in named and set(parts) <= set(found):
            groups[split] = parts
    return task.with_files(by_split=found, groups=groups)


def _with_forms(task: Task, settings: Any) -> Task:
    """The task with what flags declare of the form of its files in place of its own."""
    if settings.encoding is not None:
        files.require_encoding(settings.encoding)
    delimiter = {"tab": "\t", "\\t": "\t"}.get(settings.delimiter, settings.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise wrong("delimiter", f"'{settings.delimiter}'", "one character, or tab")
    declared: dict[str, Any] = {
        "delimiter": delimiter,
        "quoting": settings.quoting,
        "header": settings.header,
        "encoding": settings.encoding,
    }
    declared = {name: value for name, value in declared.items() if value is not None}
    forms = {}
    for name, form in task.files.forms.items():
        forms[name] = dataclasses.replace(form, **declared)
    return task.with_files(
        form=dataclasses.replace(task.files.form, **declared),
        forms=forms,
        input_format=settings.input_format,
        skips_errors=settings.on_error == "skip",
    )
