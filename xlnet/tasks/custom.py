"""The task of a run's settings: a known one, or `--task_name=custom`, of a user's own columns."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Sequence
from typing import Any, Optional

from xlnet.settings.finetuning import names_in
from xlnet.support import encodings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks import known
from xlnet.tasks.files import readers
from xlnet.tasks.known import TASK_TYPES
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.task import CUSTOM, Columns, Files, Task
from xlnet.tasks.types.contract import TaskType


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
            raise UserError(f"task_name: {task.name} is a task of {task.type.program}")
        if settings.is_regression and not task.is_regression:
            raise wrong(
                "is_regression", "True", f"False for the labels of task {task.name}"
            )
    task = _with_forms(_with_named_files(task, settings), settings)
    if task.type.with_settings:
        task = task.type.with_settings(task, settings)
    task = _with_held_out(task, settings, stored)
    # Its labels, which the train file or the model has.
    if task.labels == () and stored and not settings.do_train:
        task = task.reader.from_model(stored)
    task = complete(task, settings.data_dir)
    task = with_metric(task, settings.metric)
    if settings.do_train or settings.do_eval:
        task.scorer.own_metrics  # noqa: B018  its errors are raised before anything is read
    return task


def _with_held_out(task: Task, settings: Any, stored: dict) -> Task:
    """The task with the fraction of train that is held out as dev, if dev has no file."""
    share = settings.dev_share
    if share is None:  # the rows that a model held out stay held out
        share = stored.get("dev_share")
    if share:
        task = _without_missing_dev(task, settings.data_dir)
    if share is None and task.name == CUSTOM:
        share = _DEV_SHARE
    elif share is None:
        share = task.files.dev_share
        if settings.named_files:
            share = share or known.DEV_SHARE
    has_dev = "dev" in task.files.by_split or "dev" in task.files.groups
    if has_dev or "train" not in task.files.by_split:
        share = 0.0
    return task.with_files(dev_share=share)


def _without_missing_dev(task: Task, data_dir: str) -> Task:
    """The task without the split dev if none of its files exist: a known task names them all."""
    by_split, groups = dict(task.files.by_split), dict(task.files.groups)
    for part in groups.pop("dev", ("dev",)):
        if part in by_split:
            found = readers.find_file(data_dir, by_split.pop(part))
            if any(map(os.path.exists, readers.each_path(found))):
                return task
    return task.with_files(by_split=by_split, groups=groups)


def _with_forms(task: Task, settings: Any) -> Task:
    """The task with what flags declare of the form of its files in place of its own."""
    if settings.encoding is not None:
        encodings.check(settings.encoding)
    delimiter = {"tab": "\t", "\\t": "\t"}.get(settings.delimiter, settings.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise wrong("delimiter", f"'{settings.delimiter}'", "one character, or tab")
    declared: dict[str, Any] = {
        "delimiter": delimiter,
        "quoting": settings.quoting,
        "header": settings.header,
        "encoding": settings.encoding,
        "names": () if settings.header == "names" else None,
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


def complete(task: Task, data_dir: str) -> Task:
    """The task with the labels of its train file if they are not known."""
    if task.labels != ():
        return task
    if "train" not in task.files.by_split:
        raise UserError(
            "data_dir: no file of split train, which names the labels; give it, or --train_file"
        )
    return task.reader.from_train_file(
        readers.require_file(data_dir, task.files.by_split["train"], "train")
    )


def with_metric(task: Task, name: Optional[str]) -> Task:
    """The task with the comma-separated metrics `name` before the others; None: unchanged."""
    given: dict[str, str] = {}  # name, as results have it -> as the flag has it
    own = {}
    for each in names_in(name):
        task.scorer.check_metric(each)
        its_name = split_metrics.name_of(each)
        if given.setdefault(its_name, each) != each:
            found = f"two functions called '{its_name}'"
            raise wrong("metric", found, "names that differ")
        if split_metrics.is_own(each):
            own[its_name] = each
    metrics = tuple(dict.fromkeys((*given, *task.metrics)))
    return dataclasses.replace(task, metrics=metrics, own_metrics=own)


def find_type(settings: Any, stored: Optional[dict] = None) -> TaskType:
    """The task type of a user's own files, by the first of:

    1. the type of the model in model_dir, if that is not one of the library's;
    2. the type that --own_module registers for this program;
    3. the library's type whose `selecting_flag` is given; of several the first of `TASK_TYPES`,
       which ends with the types whose flag always has a value.
    """
    own = known.load(settings.own_module)
    if stored and (stored.get("module") or stored.get("kind") not in TASK_TYPES):
        return known.type_of(stored, "model_dir")
    for each in (*own, *TASK_TYPES.values()):
        flag = each.selecting_flag
        is_selected = each in own or (flag and getattr(settings, flag, None))
        if each.program == settings.program and is_selected:
            return each
    raise AssertionError(f"no task type of {settings.program} is selected")


def _own_task(settings: Any, stored: dict) -> Task:
    its_type = find_type(settings, stored if "kind" in stored else None)
    if its_type.own_columns:
        columns = its_type.own_columns(settings)
    else:
        columns = _table_columns(settings)
        takes_several = settings.multi_label or not known.is_built_in(its_type)
        if len(columns["label"]) > 1 and not takes_several:
            raise wrong(
                "label_column", "several columns", "one; several are for --multi_label"
            )
    return Task(
        CUSTOM,
        Columns(**columns),
        labels=() if its_type.has_labels else None,
        metrics=its_type.default_metrics,
        type=its_type,
        files=Files(by_split=_own_files(settings, its_type.reader)),
        cut_first=bool(columns.get("choices")),
    )


def _table_columns(settings: Any) -> dict[str, Any]:
    """The fields of `Columns`; raises UserError for missing names."""
    columns: dict[str, Any] = {"id": settings.id_column, "id_required": True}
    for name in ("text_a", "text_b", "label"):
        columns[name] = names_in(getattr(settings, name + "_column"))
    columns["choices"] = names_in(settings.choice_columns)
    by_flag = {
        "text_a_column": columns["text_a"],
        "label_column": columns["label"],
        "choice_columns": columns["choices"],
    }
    for flag, names in by_flag.items():
        given = getattr(settings, flag)
        if not names and (given or flag != "choice_columns"):
            raise wrong(flag, f"'{given}'", "the name of a column")
        if len(set(names)) < len(names) and flag != "text_a_column":
            raise wrong(flag, f"'{given}'", "columns that differ")
    _check_type_flags(settings)
    return dict(
        columns,
        query=settings.query_id_column,
        group=settings.group_column,
        label_form=settings.label_form,
    )


def _check_type_flags(settings: Any) -> None:
    """Raises UserError for flags of two task types, or of another one."""
    chosen = []
    for name in ("query_id_column", "is_regression", "multi_label", "choice_columns"):
        if getattr(settings, name):
            chosen.append(name)
    if len(chosen) > 1:
        raise wrong(" and ".join(chosen), "two task types", "one of these flags")
    if settings.query_id_column and not settings.text_b_column:
        raise wrong(
            "query_id_column", "no --text_b_column", "the column of the documents"
        )
    forms = ("json",) if settings.multi_label else ("letters", "numbers", "indices")
    if settings.label_form not in (None, *forms):
        raise wrong("label_form", settings.label_form, f"one of {', '.join(forms)}")


# ---- which files

# The names of the files of a split, with those of the first tagging sets.
_SPLIT_NAMES = {
    "train": ("train",),
    "test": ("test", "testb"),
    "dev": ("dev", "valid", "validation", "val", "eval", "testa"),
}
_DEV_SHARE = 0.1
# Files of records, if output_dir is the directory of the texts, too.
_OF_RECORDS = ".tfrecord"


def _own_files(settings: Any, reader: Any) -> dict[str, Any]:
    """{split: path} for `data_dir`, which has train.csv or the like, or is one file. Without
    training, all splits are all rows of that file, unless `dev_share` says that a part of it is
    dev.
    """
    data_dir = settings.data_dir
    if os.path.isfile(data_dir):
        found = dict.fromkeys(_SPLIT_NAMES, os.path.abspath(data_dir))
        if settings.do_train:
            return {"train": found["train"]}
        if settings.dev_share:
            del found["dev"]
        return found
    # In a directory, the file of each split is found by its name.
    listed = os.listdir(data_dir) if os.path.isdir(data_dir) else []
    there = sorted(name for name in listed if not name.endswith(_OF_RECORDS))
    found = {}
    for split, names in _SPLIT_NAMES.items():
        fitting = _named(names, there, reader.own_forms)
        if len(fitting) > 1:
            found_files = " and ".join(fitting)
            raise wrong(
                f"data_dir: {data_dir}", found_files, "one of them", f"--{split}_file"
            )
        if fitting:
            found[split] = fitting[0]
        elif split != "dev":
            # These names are shown where the file is needed. A missing dev is a part of train.
            extensions = reader.own_forms or ("txt", "jsonl")
            pairs = itertools.product(names, extensions)
            found[split] = tuple(f"{name}.{each}" for name, each in pairs)
    return found


def _named(
    names: Sequence[str], there: Sequence[str], forms: tuple[str, ...]
) -> list[str]:
    """The files of a directory that are named after a split.

    Args:
      names: of the split; a file has one of them as its name, or as a part of it, such as
        train-v2.0.json and eng.train. Files of the first kind take precedence.
      there: the names of the files in the directory.
      forms: the extensions of the task type; (): any. Text files are a last resort: they may be
        notes, or need a flag that says their form.
    """
    if not forms:
        return [name for name in there if set(re.split("[.-]", name)) & set(names)]
    for extensions in (forms, ("txt",)):
        files = [name for name in there if readers.extension(name) in extensions]
        complete = [name for name in files if readers.stem(name) in names]
        partial = [name for name in files if set(re.split("[.-]", name)) & set(names)]
        if complete or partial:
            return complete or partial
    return []


def _with_named_files(task: Task, settings: Any) -> Task:
    """The task with the files that flags name instead of those in `data_dir`."""
    named = {}
    for split, paths in settings.named_files.items():
        named[split] = readers.expanded(paths, split + "_file")
    if not named:
        return task
    if "train" in named and os.path.isfile(settings.data_dir):
        raise UserError(
            f"data_dir: {settings.data_dir} is a file, and train_file names {named['train']}; "
            "expected one of them"
        )
    found = dict(task.files.by_split if settings.data_dir else {}, **named)
    groups = {}
    for split, parts in task.files.groups.items():
        if split not in named and set(parts) <= set(found):
            groups[split] = parts
    return task.with_files(by_split=found, groups=groups)
