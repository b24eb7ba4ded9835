"""The registry of task types, the library's and those of a user; the known tasks; and the task of
a run's settings: a known one, or `--task_name=custom`, of a user's own files and columns.

`known.json` is a list of groups, each of tasks from one source. A group has `common`, fields of
`Task` by their names, and `tasks`, by name the fields in which a task differs from these. A task
with `languages` stands for one task of each language, whose code replaces {language} in its texts.
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
from xlnet.tasks.fields import CUSTOM, Columns, Files, Form, Published
from xlnet.tasks.files import forms
from xlnet.tasks.questions.spans import Spans
from xlnet.tasks.ranking import Ranking
from xlnet.tasks.tagging.tags import Tagging

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
TASK_TYPES = {its_type.kind: its_type for its_type in _TYPES}

# ---- the library's tasks


def _read_tasks() -> dict[str, Task]:
    """The tasks of `known.json` by name; the module's docstring describes the file."""
    path = importlib.resources.files(__package__) / "known.json"
    tasks = {}
    for group in json.loads(path.read_text("utf-8")):
        for name_pattern, entry in group["tasks"].items():
            # {language} is replaced in the text of the entry, as it may be in any field.
            pattern = json.dumps([name_pattern, {**group["common"], **entry}])
            for language in entry.get("languages", [""]):  # [""]: nothing to replace
                filled = pattern.replace("{language}", language)
                # With tuples for lists, and a `Form` for each form.
                name, fields = json.loads(filled, object_hook=_as_fields)
                task = TASK_TYPES[fields["type"]](
                    name,
                    Columns(**fields["columns"]),
                    fields["labels"],
                    fields["metrics"],
                    Files(**fields["files"]),
                    Published(**fields.get("published", {})),
                )
                tasks[name] = task.with_options(**fields.get("options", {}))
    return tasks


def _as_fields(json_object: dict[str, Any]) -> dict[str, Any]:
    """The `object_hook` of `json.loads`, which calls it for each object, inner ones first. Returns
    the object, changed: tuples in place of lists, and `Form`s for `form` and in `forms`."""
    for name, value in json_object.items():
        if isinstance(value, list):
            json_object[name] = tuple(value)
        if name == "form":
            json_object[name] = Form(**value)
        if name == "forms":
            json_object[name] = {key: Form(**form) for key, form in value.items()}
    return json_object


TASKS = _read_tasks()


# ---- own task types


def is_built_in(its_type: type[Task]) -> bool:
    """Whether a task type is one of the library's."""
    return its_type in _TYPES


def register(its_type: Any) -> Any:
    """Makes a user's task type, a subclass of `Task`, available by its name `kind`; returns it."""
    name = getattr(its_type, "kind", "")
    is_type = isinstance(its_type, type) and issubclass(its_type, Task)
    # The names of the library's types and tasks are taken; a user's type may be registered again.
    is_taken = name in TASKS or TASK_TYPES.get(name) in _TYPES
    if not is_type or not name or is_taken:
        raise ValueError(f"found the name '{name}', expected a task type of another")
    TASK_TYPES[name] = its_type
    return its_type


def load_own_types(module: str | None) -> list[type[Task]]:
    """Imports `module`, FILE.py or the name of an installed one, which registers task types;
    returns those of them that are variables of it, and raises UserError if there are none. None:
    imports nothing, returns []."""
    own = []
    for value in system.import_own_module(module).values():
        is_type = isinstance(value, type) and value in TASK_TYPES.values()
        if is_type and not is_built_in(value):
            own.append(value)
    if module and not own:
        found, expected = "no task type", "NAME = xlnet.tasks.register(...)"
        raise wrong(f"own_module: {module}", found, expected)
    return own


def type_of(stored: dict, path: str) -> type[Task]:
    """The registered type that a model's `run.json` names; UserError if there is none. Nothing that
    the file names is imported: a model may come from a stranger.

    Args:
      stored: the section `task` of the file, whose `kind` is the name of the type.
      path: of the file, for the error.
    """
    kind = str(stored.get("kind"))
    if kind not in TASK_TYPES:
        found = f"task type {kind}, which no module has registered"
        expected = f"one of {', '.join(TASK_TYPES)}"
        raise wrong(path, found, expected, "--own_module=FILE.py")
    return TASK_TYPES[kind]


# ---- which task


def find_task(name: str) -> Task:
    """The known task of that name, in which case, hyphens and underscores do not matter; UserError
    if there is none."""
    for task in TASKS.values():
        if canonical_name(task.name) == canonical_name(name):
            return task
    names = ", ".join([*TASKS, CUSTOM])
    raise wrong("task_name", f"unknown task '{name}'", f"one of {names}")


def canonical_name(name: str) -> str:
    """A task's name without case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


# ---- the task of a run

# The default of --dev_share, the fraction of train that is held out where dev has no file.
_DEV_SHARE = 0.1  # of own files
_DEV_SHARE_OF_KNOWN = 0.05  # of known tasks


def resolve_task(settings: Any, stored: dict | None = None) -> Task:
    """The task that a run's settings describe, with its files, labels and metrics.

    Args:
      settings: a `settings.finetuning.FineTuningSettings`.
      stored: the section `task` of the `run.json` of the model in `model_dir`; None: there is no
        model. A run that does not train takes from it what otherwise the train file determines,
        the labels and options of own files; any run takes the fraction that is held out as dev.
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
    # Settings of the same names as options of the type replace these.
    task = _with_files(task, settings, stored).with_options(**vars(settings))
    # The labels of own files are those of the model or of the train file.
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
        # Loads a user's metrics, so that their errors are raised before anything is read.
        task.metric_functions  # noqa: B018
    return task


def with_metric(task: Task, name: str | None) -> Task:
    """The task with further metrics, which come before its own. name: those of --metric, separated
    by commas, such as "f1" or "FILE.py:FUNCTION:min"; None: there are none."""
    names = []
    own_metrics: dict[str, str] = {}
    for metric in names_in(name):
        task.check_metric(metric)
        _, _, short_name = metric.removesuffix(":min").rpartition(":")
        names.append(short_name)
        own_metrics.pop(short_name, None)  # of metrics of one name the last one counts
        if ":" in metric:
            own_metrics[short_name] = metric
    in_order = tuple(dict.fromkeys((*names, *task.metrics)))  # each once
    return dataclasses.replace(task, metrics=in_order, own_metrics=own_metrics)


# ---- own files: their type and columns

# The types of `xlnet classify`, by the flag that chooses one; without any it is a classification.
_TYPE_OF_FLAG: dict[str, type[Task]] = {
    "query_id_column": Ranking,
    "is_regression": Regression,
    "multi_label": MultiLabel,
    "choice_columns": MultipleChoice,
}


def _type_of_own(settings: Any, stored: dict) -> type[Task]:
    """The task type of own files, the first that there is of:

    1. the type of the model in model_dir, if it is a user's;
    2. a type that --own_module registers for the program of the run;
    3. the library's only type for this program;
    4. for `xlnet classify` the type that a flag chooses, or else a classification.

    Args:
      settings: those of the run; its `program` is one such as "xlnet tag".
      stored: the section `task` of the model's `run.json`; {}: there is no model.
    """
    own_types = load_own_types(settings.own_module)
    if "kind" in stored:
        trained = type_of(stored, "model_dir")
        if not is_built_in(trained):
            return trained
    candidates: list[type[Task]] = [*own_types, Spans, Tagging]
    for its_type in candidates:
        if its_type.program == settings.program:
            return its_type
    flags = [flag for flag in _TYPE_OF_FLAG if getattr(settings, flag)]
    if len(flags) > 1:
        raise wrong(" and ".join(flags), "two task types", "one of these flags")
    return _TYPE_OF_FLAG[flags[0]] if flags else Classification


# The flags that may name several columns, by the fields of `Columns`.
_COLUMN_FLAGS = {
    "text_a": "text_a_column",
    "text_b": "text_b_column",
    "label": "label_column",
    "choices": "choice_columns",
}


def _own_task(settings: Any, stored: dict) -> Task:
    """The task of own files, whose columns the flags name; its labels are not known yet. stored:
    the section `task` of the model's `run.json`; {}: there is no model."""
    its_type = _type_of_own(settings, stored)
    column_names = {}
    for field, flag in _COLUMN_FLAGS.items():
        setting = getattr(settings, flag)
        names = names_in(setting)
        if setting is not None and not names:
            raise wrong(flag, f"'{setting}'", "the name of a column")
        # Only a text may have a column twice.
        if len(set(names)) < len(names) and field != "text_a":
            raise wrong(flag, f"'{setting}'", "columns that differ")
        column_names[field] = names
    columns = Columns(
        **column_names,
        id=settings.id_column,
        id_required=settings.requires_id,
        query=settings.query_id_column,
        label_form=settings.label_form,
    )
    # A user's type may read several columns; questions have the text and the start of an answer.
    is_classify = is_built_in(its_type) and its_type.program == "xlnet classify"
    if len(columns.label) > 1 and is_classify and not settings.multi_label:
        expected = "one; several are for --multi_label"
        raise wrong("label_column", "several columns", expected)
    if len(columns.label) > 2 and its_type is Spans:
        expected = "the answer, or the answer and its start"
        raise wrong("label_column", "more than two columns", expected)
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

# The split of a file with such a part in its name. testa and testb are names of CoNLL-2003.
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
# Not texts: the records in output_dir, which may be the same directory as data_dir.
_RECORDS_EXTENSION = ".tfrecord"


def _own_files(settings: Any) -> dict[str, Any]:
    """The file of each split of own files, in `data_dir`.

    If `data_dir` is a file: its absolute path. A run that trains has it as train alone, of which
    dev is held out unless --dev_file names it. Other runs have it as train, test and dev, each of
    which is all of its rows; with `dev_share` dev is not listed, as it is a part of train.

    If it is a directory: the names of its files that have a part such as "train"; train.csv and
    test.csv where there is none. So also without a `data_dir`, where a run reads none of them.
    """
    data_dir = settings.data_dir
    if os.path.isfile(data_dir):
        path = os.path.abspath(data_dir)
        if settings.do_train:
            return {"train": path}
        splits = ["train", "test"]
        if not settings.dev_share:
            splits.append("dev")
        return dict.fromkeys(splits, path)
    file_of: dict[str, str] = {}
    listed = sorted(os.listdir(data_dir)) if os.path.isdir(data_dir) else []
    for name in listed:
        if name.endswith(_RECORDS_EXTENSION):
            continue
        # The split is a part of the name, such as train-v2.0.json and eng.train.
        for part in set(re.split("[.-]", name)) & set(_SPLIT_OF):
            split = _SPLIT_OF[part]
            if file_of.setdefault(split, name) != name:
                where, both = f"data_dir: {data_dir}", f"{file_of[split]} and {name}"
                raise wrong(where, both, "one of them", forms.flag_of(split))
    # An error shows these names where a file is missing. A missing dev is held out of train.
    return {"train": "train.csv", "test": "test.csv", **file_of}


def _with_files(task: Task, settings: Any, stored: dict) -> Task:
    """The task with the files that flags name and the form that they declare in place of its own,
    and with the fraction of train that is held out where dev has no file. stored: the section
    `task` of the model's `run.json`; {}: there is no model."""
    named = {}  # by split, the paths, with commas between
    for split, paths in settings.named_files.items():
        named[split] = forms.expand_paths(paths, split + "_file")
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
    has_dev = any(name.startswith("dev") for name in by_split)  # or dev_matched
    if has_dev or "train" not in by_split:
        share = 0.0
    return task.with_files(
        by_split=by_split,
        dev_share=share,
        declared=_declared_form(settings),
        skips_errors=settings.on_error == "skip",
    )


def _declared_form(settings: Any) -> Form:
    """The form of all files as far as flags declare it; None where they do not."""
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
