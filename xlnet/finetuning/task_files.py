"""Rows of a task from its files, whose forms `tables` knows.

A file is read and checked whole before anything is done with it; all of its faults are listed.
"""

import collections
import json
import math
import re
import sys

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.finetuning import tables, tasks
from xlnet.finetuning.tasks import Row

_HELD_OUT_SEED = 0


# --- Splits

def read_rows(task, data_dir, split, need_labels=None):
    """Reads and checks the whole of a split's file (or files, see `tasks.expand_split`).

    Args:
      need_labels: whether a row without a known label is a fault. Otherwise its label is None. By
        default labels are needed except in test splits.

    Returns:
      A list of `tasks.Row`, in the order of the file.

    Raises:
      UserError: names the first fault with file and line, and the number of the others.
    """
    if need_labels is None:
        need_labels = not split.startswith("test")
    rows = []
    for part in tasks.expand_split(task, split):
        if part in ("train", "dev") and task.dev_share and "dev" not in task.files:
            train = _read_part(task, data_dir, "train", need_labels)
            rows += hold_out(train, task.dev_share)[part == "dev"]
        else:
            rows += _read_part(task, data_dir, part, need_labels)
    return rows


def hold_out(rows, share):
    """Parts rows into (train, dev), always in the same way; dev is `share` of them, or of the
    queries of a ranking."""
    units = [i if row.query is None else row.query for i, row in enumerate(rows)]
    names = list(dict.fromkeys(units))
    order = np.random.default_rng(_HELD_OUT_SEED).permutation(len(names))
    held_out = {names[i] for i in order[:max(1, round(share * len(names)))]}
    return ([row for unit, row in zip(units, rows) if unit not in held_out],
            [row for unit, row in zip(units, rows) if unit in held_out])


def _read_part(task, data_dir, part, need_labels):
    return read_file(task, tables.find_file(data_dir, task.files[part]), need_labels,
                     header=task.headers.get(part))


def read_file(task, path, need_labels, header=None, form=None):
    """Reads and checks one file; arguments as in `read_rows`.

    Args:
      path: file or directory; "-" is the standard input.
      header: column names, for a file without a line of them.
      form: a key of `tables.FORMS`; from the extension if not given.

    Returns:
      A list of `tasks.Row`.
    """
    table = tables.read_table(task, path, header, form)
    columns = _find_columns(task, path, table.columns, need_labels)
    if not table.rows:
        raise UserError("%s: no rows%s" % (path, "" if header else " after the header"))
    rows, faults, seen = [], [], {}
    for i, values in enumerate(table.rows):
        row, fault = (None, values) if isinstance(values, str) else _parse_row(
            task, columns, values, i, need_labels)
        if task.query and row and not fault:
            fault = _ranking_fault(row, seen)
        rows.append(row)
        if fault:
            faults.append((table.where(i), fault))
    broken = sum(row is None for row in rows)
    if broken and broken == len(faults) and broken <= _can_lose(task, len(rows), need_labels):
        print("note: %s: left out %d row(s) of wrong width or without text" % (path, broken),
              file=sys.stderr)
    else:
        tables.refuse(faults)
    return [row for row in rows if row is not None and row is not _LEFT_OUT]


def _can_lose(task, num_rows, need_labels):
    """Returns how many broken rows the file may have: known ones, and none to be predicted."""
    return num_rows // 100 if task.broken_rows and need_labels else 0


# --- Columns and rows

# Positions in a row's values: texts, label and choices tuples of int, id an int or None. only:
# (position, value) of the wanted rows. width: columns of the header, None where rows have no order.
_Columns = collections.namedtuple("_Columns", "text_a text_b choices label id query only width")

_LEFT_OUT = Row(None, (), None)   # stands for a row that the task does not want


def _find_columns(task, path, header, need_labels):
    header = [task.renamed.get(name, name) for name in header]

    def find(name, required=True):
        if name in header:
            return header.index(name)
        if required:
            raise UserError("%s: no column '%s'%s (columns: %s)" % (
                path, name, did_you_mean(name, header), ", ".join(header)))
        return None

    texts = [tuple(map(find, names)) for names in (task.text_a, task.text_b, task.choices)]
    label = tuple(find(name, need_labels) for name in task.label)
    only = ((find(name, False), value) for name, value in task.only.items())
    return _Columns(*texts, label=() if None in label else label,
                    id=find(task.id, task.id_required) if task.id else None,
                    query=find(task.query) if task.query else None,
                    only=tuple(pair for pair in only if pair[0] is not None), width=len(header))


def _parse_row(task, columns, values, number, need_labels):
    """Returns (row, fault or None); no row where its width is wrong or a text is missing."""
    used = (*columns.text_a, *columns.text_b, *columns.choices, *columns.label,
            *([] if columns.query is None else [columns.query]))
    if len(values) <= max(used) or any(values[columns.width:]):
        return None, "%d column(s), expected %d" % (len(values), columns.width)
    if any(values[position] != value for position, value in columns.only):
        return _LEFT_OUT, None
    pairs, fault = _parse_pairs(task, columns, values)
    if fault:
        return None, fault
    label, fault = _parse_label(task, [values[position] for position in columns.label])
    if label in task.skipped_labels:
        return _LEFT_OUT, None
    id = None if columns.id is None or len(values) <= columns.id else values[columns.id]
    query = None if columns.query is None else _to_text(values[columns.query])
    return Row(str(number) if id is None else _to_text(id), pairs, label, query), (
        fault if need_labels else None)


def _ranking_fault(row, seen):
    """What is wrong with a document of a query, beside the rows before; None if nothing is.

    seen: of those rows, the text of each query and the (query, document) pairs.
    """
    for what, name in (("query", row.query), ("document", row.id)):
        if not name or name.split() != [name]:
            return "%s '%s': expected a name without blanks" % (what, name)
    text = row.pairs[0][0]
    if seen.setdefault(row.query, text) != text:
        return "query '%s' has another text than in the rows before" % row.query
    if (row.query, row.id) in seen:
        return "document '%s' of query '%s' for the second time" % (row.id, row.query)
    seen[row.query, row.id] = True
    return None


def _parse_pairs(task, columns, values):
    text_a = _text(task, values, columns.text_a)
    if not text_a.strip():
        return None, "column '%s' is empty" % " ".join(task.text_a)
    text_b = _text(task, values, columns.text_b) if columns.text_b else None
    if text_b is not None and not text_b.strip():
        return None, "column '%s' is empty" % " ".join(task.text_b)
    if not task.choices:
        return ((text_a, text_b),), None
    options = _options(values, columns.choices)
    if len(options) < 2 or not all(option.strip() for option in options):
        return None, "column '%s': expected two or more answers, none of them empty" % " ".join(
            task.choices)
    if task.labels and len(options) != len(task.labels):
        return None, "%d answers, expected %d" % (len(options), len(task.labels))
    return tuple((text_a, _answered(text_b, option)) for option in options), None


def _text(task, values, positions):
    """The text of one or several columns, joined with a blank."""
    parts = [_to_text(values[position]) for position in positions]
    text = parts[0] if len(parts) == 1 else " ".join(filter(None, parts))
    for old, new in task.replacements:
        text = text.replace(old, new)
    return text


def _options(values, positions):
    if len(positions) == 1:
        listed = values[positions[0]]
        return list(map(_to_text, listed)) if isinstance(listed, list) else []
    return [_to_text(values[position]) for position in positions]


def _answered(question, option):
    """The answer in its question's gap, or after the question."""
    if question is None:
        return option
    if "_" in question:
        return re.sub("_+", lambda gap: option, question)
    return "%s %s" % (question, option)


def _to_text(value):
    """Text of a JSON value; numbers and truth values as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(_to_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


# --- Labels

def _parse_label(task, values):
    """Returns (label, None) or (None, fault). A task with `labels` () takes every name."""
    if len(values) > 1:
        return _parse_indicators(task, values)
    value = values[0] if values else None
    if task.multi_label:
        return _parse_several(task, value)
    text = _to_text(value).strip()
    if not text:
        return None, "column '%s' is empty" % task.label[0]
    if task.query:
        return _parse_grade(task, text)
    if task.is_regression:
        return _parse_score(task, text)
    return _known(task, task.label_names.get(text, text))


def _known(task, name):
    if not task.labels or name in task.labels or name in task.skipped_labels:
        return name, None
    return None, "unknown label '%s' (labels: %s)" % (name, ", ".join(task.labels))


def _parse_score(task, text):
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    return (score, None) if math.isfinite(score) else (
        None, "column '%s': '%s' is not a number" % (task.label[0], text))


def _parse_grade(task, text):
    """A whole number; junk, which TREC grades below 0, is as little relevant as anything else."""
    if not re.fullmatch(r"-?\d{1,2}", text, re.ASCII):
        return None, "column '%s': '%s', expected a whole number below 100" % (task.label[0], text)
    grade = max(float(text), 0.0)
    if task.highest_grade and grade > task.highest_grade:
        return None, "column '%s': %s is above highest_grade %d" % (
            task.label[0], text, task.highest_grade)
    return grade, None


def _parse_several(task, value):
    """Labels of a list, or of a cell in which they are separated; an empty one has none."""
    if value is None:
        return None, "no '%s'" % task.label[0]
    names = map(_to_text, value) if isinstance(value, list) else _to_text(value).split(
        task.label_separator)
    names = tuple(sorted({name.strip() for name in names} - {""}))
    faults = [fault for _, fault in (_known(task, name) for name in names) if fault]
    return (None, faults[0]) if faults else (names, None)


def _parse_indicators(task, values):
    """Labels as columns of 0 and 1, named after them."""
    values = [_to_text(value).strip() for value in values]
    for name, value in zip(task.label, values):
        if value not in ("0", "1"):
            return None, "column '%s': '%s', expected 0 or 1" % (name, value)
    return tuple(sorted(name for name, value in zip(task.label, values) if value == "1")), None
