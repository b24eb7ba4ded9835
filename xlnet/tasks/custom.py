"""A task made of a user's own columns: `--task_name=custom`; and known tasks as settings ask."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Optional

from xlnet.errors import UserError
from xlnet.tasks import decoding, known, parsing, readers
from xlnet.tasks.kind import Kind
from xlnet.tasks.known import CUSTOM
from xlnet.tasks.registry import KINDS
from xlnet.tasks.task import Task

_EXTENSIONS = ("tsv", "csv", "jsonl", "json")
_NEXT_EXTENSIONS = ("txt", *readers.FOREIGN)     # looked for where there is none of these


def get_task(settings: Any, labels: Optional[Sequence[str]] = None) -> Task:
    """Returns the `Task` that `settings` (`config.ClassifierSettings`) ask for.

    Args:
      labels: the names that a model knows already; otherwise those of own files are the ones that
        the train file has, numbers by size and anything else by letter.

    Raises:
      UserError: an unknown task, `is_regression` with a task that has labels, or a bad train file.
    """
    if known.plain(settings.task_name) == CUSTOM:
        task = _own_task(settings, labels)
    elif known.plain(settings.task_name) == "tsv":
        raise UserError("task_name: own files are --task_name=custom, whatever their form")
    else:
        task = known.find_task(settings.task_name)
        task = task.kind.configured(task, settings)
        if settings.is_regression and not task.is_regression:
            raise UserError("is_regression is True, but task %s has the labels %s"
                            % (task.name, ", ".join(task.class_names)))
    if settings.dev_share is not None and "dev" not in (*task.files, *task.groups) \
            and "train" in task.files:
        task = dataclasses.replace(task, dev_share=settings.dev_share)
    return with_metric(_as_written(task, settings), settings.metric)


def _as_written(task, settings):
    """The task with files of the encoding and with the delimiter of the settings."""
    if settings.encoding is not None:
        decoding.check_encoding(settings.encoding)
    delimiter = {"tab": "\t", "\\t": "\t"}.get(settings.delimiter, settings.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise UserError("delimiter is '%s', expected one character, or tab" % settings.delimiter)
    return dataclasses.replace(task, encoding=settings.encoding, delimiter=delimiter)


def with_metric(task: Task, name: Optional[str]) -> Task:
    """The task judged by the metric `name` before all others; None leaves it as it is."""
    if not name:
        return task
    task.kind.check_metric(task, name)
    return dataclasses.replace(
        task, metrics=(name,) + tuple(other for other in task.metrics if other != name))


def find_kind(settings: Any) -> Kind:
    """The kind that the flags of own files ask for."""
    return next(kind for kind in KINDS.values() if kind.is_asked_for(settings))


def _own_task(settings, labels):
    _check_flags(settings)
    kind = find_kind(settings)
    columns = {name: _listed(getattr(settings, name + "_column")) for name in
               ("text_a", "text_b", "label")}
    if len(columns["label"]) > 1 and not settings.multi_label:
        raise UserError("label_column names %d columns; several are for --multi_label=True"
                        % len(columns["label"]))
    found, dev_share = _own_files(settings.data_dir)
    task = Task(CUSTOM, labels=() if kind.has_labels else None, metrics=kind.default_metrics,
                kind=kind, query=settings.query_id_column,
                id=settings.id_column, id_required=True, files=found, dev_share=dev_share,
                choices=_listed(settings.choice_columns),
                cut_first=bool(settings.choice_columns), **columns)
    task = _as_written(kind.configured(task, settings), settings)
    if kind.has_labels:
        task = dataclasses.replace(task, labels=tuple(labels or _find_labels(task, settings)))
    return task


def _check_flags(settings):
    """Raises UserError where flags ask for two kinds at once."""
    if settings.is_regression and (settings.multi_label or settings.choice_columns):
        raise UserError("is_regression is True: a score goes with neither multi_label nor "
                        "choice_columns")
    if settings.query_id_column and (settings.is_regression or settings.multi_label
                                     or settings.choice_columns):
        raise UserError("query_id_column makes a ranking by grades, which goes with none of "
                        "is_regression, multi_label and choice_columns")


def _listed(names):
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())


def _own_files(data_dir):
    """({split: path}, share of train to hold out): `data_dir` has train.csv or its like, or is it.

    Without a file for dev, a tenth of the training rows is held out.
    """
    if os.path.isfile(data_dir):
        return {"train": os.path.abspath(data_dir)}, 0.1
    found = {}
    for split in ("train", "dev", "test"):
        names = ["%s.%s" % (split, extension) for extension in _EXTENSIONS]
        there = _there(data_dir, names) or _there(
            data_dir, ["%s.%s" % (split, extension) for extension in _NEXT_EXTENSIONS])
        if len(there) > 1:
            raise UserError("data_dir: %s has %s; expected one of them"
                            % (data_dir, " and ".join(there)))
        if there or split != "dev":
            found[split] = there[0] if there else tuple(names)
    return found, 0.0 if "dev" in found else 0.1


def _there(data_dir, names):
    return [name for name in names if os.path.exists(os.path.join(data_dir, name))]


def _find_labels(task, settings):
    path = readers.find_file(settings.data_dir, task.files["train"])
    rows = parsing.read_file(task, path, need_labels=True)
    return task.kind.find_labels(task, rows, path)
