"""Tasks as data: files, columns, labels and metrics of GLUE and of one's own TSV files.

Shape letters: n rows, L labels.
"""

import collections
import dataclasses
import math
import os
import sys
from typing import Optional

import numpy as np

from xlnet import features, files
from xlnet.errors import UserError, did_you_mean

# id: str; text_b: str or None; label: str, float (regression), or None where it is not known.
Row = collections.namedtuple("Row", "id text_a text_b label")

_THREE_FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}


@dataclasses.dataclass(frozen=True)
class Task:
    """Where the rows of a task are, what their columns mean, and how answers are scored.

    Columns are named as in the first line of a file; `headers` has the names for files that lack
    this line.
    """
    name: str
    text_a: str                      # column of the text
    text_b: Optional[str]            # column of the second text
    label: str                       # column of the label
    labels: Optional[tuple]          # L names, in the order of their ids; None: a score
    metrics: tuple                   # the official main one first
    id: Optional[str] = "index"      # column of the row's name; the row number where there is none
    id_required: bool = False        # a file without the column `id` is refused
    files: dict = dataclasses.field(default_factory=lambda: dict(_THREE_FILES))   # by split
    groups: dict = dataclasses.field(default_factory=dict)        # a split that stands for others
    headers: dict = dataclasses.field(default_factory=dict)       # column names, by split
    submissions: dict = dataclasses.field(default_factory=dict)   # GLUE's file names, by split
    trained_as: Optional[str] = None     # the task whose output layer this one uses
    broken_rows: bool = False            # the official train file has some: left out, with a note

    @property
    def is_regression(self):
        return self.labels is None

    @property
    def head(self):
        """Name of the output layer in a checkpoint, such as "classification_mnli"."""
        kind = "regression" if self.is_regression else "classification"
        return "%s_%s" % (kind, self.trained_as or self.name)


_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
_COLA_COLUMNS = ("source", "label", "mark", "sentence")

_GLUE_TASKS = (
    Task("cola", "sentence", None, "label", ("0", "1"), ("matthews", "accuracy"),
         headers={"train": _COLA_COLUMNS, "dev": _COLA_COLUMNS}, submissions={"test": "CoLA.tsv"}),
    Task("sst-2", "sentence", None, "label", ("0", "1"), ("accuracy",),
         submissions={"test": "SST-2.tsv"}),
    Task("mrpc", "#1 String", "#2 String", "Quality", ("0", "1"), ("f1", "accuracy"),
         submissions={"test": "MRPC.tsv"}),
    Task("sts-b", "sentence1", "sentence2", "score", None, ("pearson", "spearman"),
         submissions={"test": "STS-B.tsv"}),
    Task("qqp", "question1", "question2", "is_duplicate", ("0", "1"), ("f1", "accuracy"), id="id",
         submissions={"test": "QQP.tsv"}, broken_rows=True),
    Task("mnli", "sentence1", "sentence2", "gold_label", _NLI, ("accuracy",),
         files={"train": "train.tsv",
                "dev_matched": "dev_matched.tsv", "dev_mismatched": "dev_mismatched.tsv",
                "test_matched": "test_matched.tsv", "test_mismatched": "test_mismatched.tsv"},
         groups={"dev": ("dev_matched", "dev_mismatched"),
                 "test": ("test_matched", "test_mismatched")},
         submissions={"test_matched": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"}),
    Task("qnli", "question", "sentence", "label", _ENTAILMENT, ("accuracy",),
         submissions={"test": "QNLI.tsv"}),
    Task("rte", "sentence1", "sentence2", "label", _ENTAILMENT, ("accuracy",),
         submissions={"test": "RTE.tsv"}),
    Task("wnli", "sentence1", "sentence2", "label", ("0", "1"), ("accuracy",),
         submissions={"test": "WNLI.tsv"}),
    # The diagnostic set: predicted with a model that was trained on MNLI.
    Task("ax", "sentence1", "sentence2", "label", _NLI, ("matthews",),
         files={"test": "diagnostic.tsv"}, submissions={"test": "AX.tsv"}, trained_as="mnli"),
)
GLUE = {task.name: task for task in _GLUE_TASKS}


# --- Which task

def get_task(settings):
    """Returns the `Task` that `settings` (`config.ClassifierSettings`) ask for.

    For `tsv` the labels are those found in the train file, sorted.

    Raises:
      UserError: an unknown task, `is_regression` with a task that has labels, or a bad train file.
    """
    if _plain(settings.task_name) == "tsv":
        return _own_task(settings)
    task = find_task(settings.task_name)
    if settings.is_regression and not task.is_regression:
        raise UserError("is_regression is True, but task %s has the labels %s"
                        % (task.name, ", ".join(task.labels)))
    return task


def find_task(name):
    """Returns the GLUE task of that name; case, hyphens and underscores do not matter.

    `mnli_matched` and `mnli_mismatched` are MNLI with this half of its dev and test files.
    """
    by_name = {_plain(task.name): task for task in _GLUE_TASKS}
    for half in ("matched", "mismatched"):
        by_name["mnli" + half] = dataclasses.replace(GLUE["mnli"], groups={
            "dev": ("dev_" + half,), "test": ("test_" + half,)})
    if _plain(name) not in by_name:
        known = [*GLUE, "tsv"]
        raise UserError("task_name: unknown task '%s'%s (tasks: %s)"
                        % (name, did_you_mean(name.lower(), known), ", ".join(known)))
    return by_name[_plain(name)]


def _plain(name):
    return name.lower().replace("-", "").replace("_", "")


def _own_task(settings):
    task = Task("tsv", settings.text_a_column, settings.text_b_column, settings.label_column,
                labels=None, metrics=("pearson", "spearman"), id=settings.id_column,
                id_required=True)
    if settings.is_regression:
        return task
    anything = dataclasses.replace(task, labels=())
    labels = sorted({row.label for row in read_rows(anything, settings.data_dir, "train")})
    if len(labels) < 2:
        raise UserError("%s: column '%s' holds a single label, '%s'; expected two or more" % (
            os.path.join(settings.data_dir, task.files["train"]), task.label, labels[0]))
    return dataclasses.replace(task, labels=tuple(labels), metrics=("accuracy", "macro_f1"))


# --- Rows of a file

def expand_split(task, split):
    """Returns the splits, each of one file, that `split` stands for: MNLI's dev is two of them."""
    if split in task.groups:
        return task.groups[split]
    if split not in task.files:
        known = [*task.groups, *task.files]
        raise UserError("task %s has no split '%s'%s (splits: %s)%s" % (
            task.name, split, did_you_mean(split, known), ", ".join(known),
            "; train on task %s" % task.trained_as if task.trained_as else ""))
    return (split,)


def read_rows(task, data_dir, split, need_labels=None):
    """Reads and checks the whole of a split's file (or files, see `expand_split`).

    Args:
      need_labels: whether a row without a known label is a fault. Otherwise its label is None. By
        default labels are needed except in test splits.

    Returns:
      A list of `Row`, in the order of the file.

    Raises:
      UserError: names the first fault with file and line, and the number of the others.
    """
    if need_labels is None:
        need_labels = not split.startswith("test")
    rows = []
    for part in expand_split(task, split):
        path = os.path.join(data_dir, task.files[part])
        rows += _read_file(task, path, task.headers.get(part), need_labels)
    return rows


def _read_file(task, path, header, need_labels):
    lines = _read_lines(task, path)
    first_line = 1
    if header is None:
        header = [name.strip() for name in lines.pop(0).split("\t")]
        first_line = 2
    columns = _find_columns(task, path, header, need_labels)
    if not lines:
        raise UserError("%s: no rows after the header" % path)
    rows, faults = [], []
    for i, line in enumerate(lines):
        row, fault = _parse_row(task, columns, line.split("\t"), str(i), need_labels)
        rows.append(row)
        if fault:
            faults.append((first_line + i, fault))
    broken = rows.count(None)
    if broken and broken == len(faults) and broken <= _can_lose(task, len(rows), need_labels):
        print("note: %s: left out %d row(s) of wrong width or without text" % (path, broken),
              file=sys.stderr)
    else:
        _refuse(path, faults)
    return [row for row in rows if row is not None]


def _can_lose(task, num_rows, need_labels):
    """Returns how many broken rows the file may have: known ones, and none to be predicted."""
    return num_rows // 100 if task.broken_rows and need_labels else 0


def _read_lines(task, path):
    """Returns the lines of a UTF-8 file, without the empty ones at its end.

    Only a line feed ends a line: texts hold other characters that `str.splitlines` would break at.
    """
    files.require_file(path, "task %s" % task.name)
    with open(path, "rb") as f:
        content = f.read()
    lines, faults = [], []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as e:
            faults.append((number, "not UTF-8: byte 0x%02x at column %d"
                           % (line[e.start], e.start + 1)))
    _refuse(path, faults)
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise UserError("%s: the file is empty" % path)
    return lines


def _refuse(path, faults):
    """Raises UserError with the first of the faults (line number, text), if there is one."""
    if faults:
        number, fault = faults[0]
        others = len(faults) - 1
        rest = " (and %d more faulty row(s))" % others if others else ""
        raise UserError("%s:%d: %s%s" % (path, number, fault, rest))


# Positions of the columns; None where the file or the task has none. width: columns of the header.
_Columns = collections.namedtuple("_Columns", "text_a text_b label id width")


def _find_columns(task, path, header, need_labels):
    def find(name, required):
        if name in header:
            return header.index(name)
        if required:
            raise UserError("%s: no column '%s'%s (tab-separated columns: %s)" % (
                path, name, did_you_mean(name, header), ", ".join(header)))
        return None
    return _Columns(text_a=find(task.text_a, True),
                    text_b=find(task.text_b, task.text_b is not None),
                    label=find(task.label, need_labels),
                    id=find(task.id, task.id is not None and task.id_required),
                    width=len(header))


def _parse_row(task, columns, cells, number, need_labels):
    """Returns (row, fault or None); no row where its width is wrong or a text is empty."""
    needed = max(position for position in columns[:4] if position is not None)
    if len(cells) <= needed or any(cells[columns.width:]):
        return None, "%d column(s), expected %d" % (len(cells), columns.width)
    text_a = cells[columns.text_a]
    text_b = None if columns.text_b is None else cells[columns.text_b]
    for name, text in ((task.text_a, text_a), (task.text_b, text_b)):
        if text is not None and not text.strip():
            return None, "column '%s' is empty" % name
    label, fault = None, None
    if columns.label is not None:
        label, fault = _parse_label(task, cells[columns.label].strip())
    id = number if columns.id is None else cells[columns.id]
    return Row(id, text_a, text_b, label), fault if need_labels else None


def _parse_label(task, text):
    """Returns (label, None) or (None, fault). A task with `labels` () takes every name."""
    if not text:
        return None, "column '%s' is empty" % task.label
    if task.is_regression:
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        return (score, None) if math.isfinite(score) else (
            None, "column '%s': '%s' is not a number" % (task.label, text))
    if task.labels and text not in task.labels:
        return None, "unknown label '%s' (labels: %s)" % (text, ", ".join(task.labels))
    return text, None


# --- Labels as numbers

def label_ids(task, rows):
    """Returns the labels as int32 [n], or scores as float32 [n]; 0 where a row has none."""
    if task.is_regression:
        return np.array([row.label or 0 for row in rows], np.float32)
    position = {None: 0, **{label: id for id, label in enumerate(task.labels)}}
    return np.array([position[row.label] for row in rows], np.int32)


def examples(task, rows):
    """Returns the rows as a list of `features.Example`."""
    return [features.Example(((row.text_a, row.text_b),), label)
            for row, label in zip(rows, label_ids(task, rows).tolist())]


# --- Metrics

def evaluate(task, predictions, labels):
    """Returns an ordered dict of metric name to float, the task's main metric first.

    Args:
      predictions, labels: label ids, int [n], or scores, float [n].

    Raises:
      UserError: a predicted score is not a finite number.
    """
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape or labels.ndim != 1:
        raise ValueError("predictions have shape %s, labels %s, expected both [n]"
                         % (predictions.shape, labels.shape))
    bad = np.count_nonzero(~np.isfinite(predictions))
    if bad:
        raise UserError("task %s: %d of %d predicted scores are not finite numbers"
                        % (task.name, bad, len(predictions)))
    return {name: float(_METRICS[name](task, predictions, labels)) for name in task.metrics}


def majority_baseline(task, labels):
    """Returns the metrics of a constant answer: the most frequent label id, or the mean score."""
    labels = np.asarray(labels)
    constant = labels.mean() if task.is_regression else np.bincount(labels).argmax()
    return evaluate(task, np.full(labels.shape, constant), labels)


def _accuracy(task, predictions, labels):
    return np.mean(predictions == labels)


def _f1(task, predictions, labels):
    from sklearn import metrics
    positive = task.labels.index("1")
    return metrics.f1_score(labels == positive, predictions == positive, zero_division=0)


def _macro_f1(task, predictions, labels):
    from sklearn import metrics
    return metrics.f1_score(labels, predictions, labels=range(len(task.labels)), average="macro",
                            zero_division=0)


def _matthews(task, predictions, labels):
    from sklearn import metrics
    return metrics.matthews_corrcoef(labels, predictions)


def _pearson(task, predictions, labels):
    from scipy import stats
    return _correlation(stats.pearsonr, predictions, labels)


def _spearman(task, predictions, labels):
    from scipy import stats
    return _correlation(stats.spearmanr, predictions, labels)


def _correlation(measure, predictions, labels):
    """Returns the correlation; 0 where one side is constant and it has no value."""
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    # In float64: a narrow range of float32 scores loses digits when the mean is taken off.
    return measure(predictions.astype(np.float64), labels.astype(np.float64))[0]


_METRICS = {"accuracy": _accuracy, "f1": _f1, "macro_f1": _macro_f1, "matthews": _matthews,
            "pearson": _pearson, "spearman": _spearman}


# --- Prediction files

def write_predictions(path, task, rows, values):
    """Writes a TSV of a header and one line per row, in order, whole or not at all.

    Args:
      values: probabilities [n, L] (columns `id label p_<label>...`, the label being the likeliest),
        or scores [n] (columns `id score`).
    """
    answers = _answers(task, rows, values)
    if task.is_regression:
        lines = ["id\tscore"] + ["%s\t%s" % (row.id, answer) for row, answer in zip(rows, answers)]
    else:
        lines = ["\t".join(["id", "label"] + ["p_" + label for label in task.labels])]
        for row, answer, probabilities in zip(rows, answers, values):
            lines.append("\t".join([row.id, answer] + ["%.6f" % p for p in probabilities]))
    files.write_text(path, "\n".join(lines) + "\n")


def write_submission(path, task, rows, values):
    """Writes the columns `index` and `prediction`, as the GLUE server takes them.

    The server wants the name `task.submissions[split]`; `rows` and `values` are as in
    `write_predictions`.
    """
    answers = _answers(task, rows, values)
    lines = ["index\tprediction"] + ["%s\t%s" % (row.id, answer)
                                     for row, answer in zip(rows, answers)]
    files.write_text(path, "\n".join(lines) + "\n")


def _answers(task, rows, values):
    """Returns the predicted label or the score of each row as text."""
    values = np.asarray(values)
    expected = (len(rows),) if task.is_regression else (len(rows), len(task.labels))
    if values.shape != expected:
        raise ValueError("task %s: values have shape %s, expected %s"
                         % (task.name, values.shape, expected))
    if task.is_regression:
        return ["%.6f" % value for value in values]
    return [task.labels[id] for id in values.argmax(axis=1)]
