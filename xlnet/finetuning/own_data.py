"""A task made of a user's own columns: `--task_name=custom`."""

import dataclasses
import os
import string

from xlnet.errors import UserError, did_you_mean
from xlnet.finetuning import tables, task_files, tasks
from xlnet.finetuning.tasks import CUSTOM, Task

_EXTENSIONS = ("tsv", "csv", "jsonl", "json")

# Metrics by kind of task, the one that selects checkpoints first.
METRICS = {"regression": ("pearson", "spearman"),
           "ranking": ("ndcg", "map", "err"),
           "classification": ("accuracy", "macro_f1", "auc"),
           "multi_label": ("micro_f1", "macro_f1", "accuracy", "auc"),
           "multiple_choice": ("accuracy",)}


def get_task(settings, labels=None):
    """Returns the `Task` that `settings` (`config.ClassifierSettings`) ask for.

    Args:
      labels: the names that a model knows already; otherwise those of own files are the ones that
        the train file has, numbers by size and anything else by letter.

    Raises:
      UserError: an unknown task, `is_regression` with a task that has labels, or a bad train file.
    """
    if tasks.plain(settings.task_name) == CUSTOM:
        task = _own_task(settings, labels)
    elif tasks.plain(settings.task_name) == "tsv":
        raise UserError("task_name: own files are --task_name=custom, whatever their form")
    else:
        task = tasks.find_task(settings.task_name)
        if settings.is_regression and not task.is_regression:
            raise UserError("is_regression is True, but task %s has the labels %s"
                            % (task.name, ", ".join(task.labels)))
    if settings.dev_share is not None and "dev" not in (*task.files, *task.groups) \
            and "train" in task.files:
        task = dataclasses.replace(task, dev_share=settings.dev_share)
    if task.query:
        task = _as_asked(task, settings)
    return with_metric(task, settings.metric)


def _as_asked(task, settings):
    """A ranking, trained and measured as the settings say."""
    metrics = tuple("%s@%d" % (name, settings.ranking_cutoff) if name != "map" else name
                    for name in METRICS["ranking"])
    return dataclasses.replace(task, pairwise=settings.ranking_loss == "pairwise", metrics=metrics,
                               highest_grade=settings.highest_grade)


def with_metric(task, name):
    """The task judged by the metric `name` before all others; None leaves it as it is."""
    if not name:
        return task
    known = task.metrics if task.query else METRICS[task.kind]
    known += {"classification": ("matthews", "micro_f1")}.get(task.kind, ())
    known += ("f1",) if task.kind == "classification" and len(task.labels) == 2 else ()
    if name not in known + task.metrics:
        raise UserError("metric: task %s has no %s%s (metrics: %s)" % (
            task.name, name, did_you_mean(name, known), ", ".join(known)))
    return dataclasses.replace(
        task, metrics=(name,) + tuple(other for other in task.metrics if other != name))


def _own_task(settings, labels):
    if settings.is_regression and (settings.multi_label or settings.choice_columns):
        raise UserError("is_regression is True: a score goes with neither multi_label nor "
                        "choice_columns")
    if settings.query_id_column and (settings.is_regression or settings.multi_label
                                     or settings.choice_columns):
        raise UserError("query_id_column makes a ranking by grades, which goes with none of "
                        "is_regression, multi_label and choice_columns")
    columns = {name: _listed(getattr(settings, name + "_column")) for name in
               ("text_a", "text_b", "label")}
    if len(columns["label"]) > 1 and not settings.multi_label:
        raise UserError("label_column names %d columns; several are for --multi_label=True"
                        % len(columns["label"]))
    found, dev_share = _own_files(settings.data_dir)
    has_scores = settings.is_regression or bool(settings.query_id_column)
    task = Task(CUSTOM, labels=None if has_scores else (), metrics=(),
                query=settings.query_id_column,
                id=settings.id_column, id_required=True, files=found, dev_share=dev_share,
                choices=_listed(settings.choice_columns), multi_label=settings.multi_label,
                label_separator=settings.label_separator,
                cut_first=bool(settings.choice_columns), **columns)
    if not has_scores:
        task = dataclasses.replace(task, labels=tuple(labels or _find_labels(task, settings)))
    return dataclasses.replace(task, metrics=METRICS[task.kind])


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
        there = [name for name in names if os.path.exists(os.path.join(data_dir, name))]
        if len(there) > 1:
            raise UserError("data_dir: %s has %s; expected one of them"
                            % (data_dir, " and ".join(there)))
        if there or split != "dev":
            found[split] = there[0] if there else tuple(names)
    return found, 0.0 if "dev" in found else 0.1


def _find_labels(task, settings):
    path = tables.find_file(settings.data_dir, task.files["train"])
    rows = task_files.read_file(task, path, need_labels=True)
    if task.choices:
        return _choice_names(task, path, rows)
    if len(task.label) > 1:
        return task.label
    if task.multi_label:
        names = {name for row in rows for name in row.label}
    else:
        names = {row.label for row in rows}
    if len(names) < 2 - task.multi_label:
        raise UserError("%s: column '%s' holds a single label, '%s'; expected two or more" % (
            path, task.label[0], "".join(names)))
    return sorted(names, key=int) if all(map(str.isdecimal, names)) else sorted(names)


def _choice_names(task, path, rows):
    """How the file names its answers: by their columns, by letters, by numbers from 0 or from 1."""
    count = len(rows[0].pairs)
    found = {row.label for row in rows}
    for names in (task.choices, string.ascii_uppercase[:count], string.ascii_lowercase[:count],
                  map(str, range(count)), map(str, range(1, count + 1))):
        names = tuple(names)
        if len(names) == count and found <= set(names):
            return names
    raise UserError("%s: column '%s' has %s; expected the right one of %d answers as a column's "
                    "name, a letter or a number" % (path, task.label[0],
                                                    ", ".join(sorted(found)[:6]), count))
