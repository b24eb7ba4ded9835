"""Tables from files of every form: TSV, CSV, JSON lines, plain lines, TREC's files, directories.

What a form's columns mean is in a `Task`; `parsing` makes rows of tables.
"""

from __future__ import annotations

import collections
import csv
import io
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Optional

from xlnet import files
from xlnet.errors import UserError
from xlnet.tasks.task import Task

_log = logging.getLogger(__name__)

_FAULTS_LISTED = 20
_JUDGEMENT = "query 0 document grade"       # a line of TREC's qrels

# columns: names. rows: for each row its values, a list aligned with the columns (None: the row has
# none; a list in JSON), or a str: the fault of a row that cannot be read. where: row number ->
# text.
Table = collections.namedtuple("Table", "columns rows where")


def to_text(value: Any) -> str:
    """Text of a cell: of a JSON value, numbers and truth values as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(to_text, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False)


# --- Which file, and what is wrong in it

def find_file(data_dir: str, names: Any) -> str:
    """The path of the first of `names` that is there, else of the first; a str is one name."""
    paths = [os.path.join(data_dir, name) for name in
             ((names,) if isinstance(names, str) else names)]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def refuse(faults: Sequence[tuple]) -> None:
    """Raises UserError for the faults (place, text), if there are any.

    The message is the first one; where there are more, the first twenty are listed.
    """
    if not faults:
        return
    others = ""
    if len(faults) > 1:
        _log.info("%d faulty rows%s:", len(faults), "" if len(faults) <= _FAULTS_LISTED else
                  ", the first %d" % _FAULTS_LISTED)
        for fault in faults[:_FAULTS_LISTED]:
            _log.info("  %s: %s", *fault)
        others = " (and %d more faulty row(s))" % (len(faults) - 1)
    raise UserError("%s: %s%s" % (*faults[0], others))


# --- Forms of files

def read_table(task: Task, path: str, header: Optional[Sequence[str]] = None,
               form: Optional[str] = None) -> Table:
    """Returns the `Table` of a file, a directory, or the standard input ("-")."""
    if path != "-" and os.path.isdir(path) and task.tree:
        return _TREES[task.tree](task, path)
    form = form or os.path.splitext(path)[1].lstrip(".").lower()
    content = _read_content(path, "task %s" % task.name)
    forms = {**FORMS, **task.kind.forms()}
    if form not in forms:
        raise UserError("%s: unknown form '%s'; expected one of %s" % (
            path, form, ", ".join(forms)))
    return forms[form](task, path, _lines(path, content), header)


def read_lines(path: str, what: str) -> list[str]:
    """The lines of a file, or of the standard input ("-"), without the empty ones at its end.

    what: the file's role in errors.
    """
    return _lines(path, _read_content(path, what))


def _lines(path, content):
    lines = _decode(path, content)
    if not lines:
        raise UserError("%s: the file is empty" % path)
    return lines


def _read_content(path, what):
    if path == "-":
        return sys.stdin.buffer.read()
    files.require_file(path, what)
    with open(path, "rb") as f:
        return f.read()


def _decode(path, content):
    """Returns the lines of UTF-8 text, without the empty ones at its end.

    Only a line feed ends a line: texts hold other characters that `str.splitlines` would break at.
    """
    lines, faults = [], []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as e:
            faults.append(("%s:%d" % (path, number), "not UTF-8: byte 0x%02x at column %d"
                           % (line[e.start], e.start + 1)))
    refuse(faults)
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _read_tsv(task, path, lines, header):
    """Cells between tabs; a quotation mark is a character like any other."""
    first = 1 if header else 2
    header = header or [name.strip() for name in lines.pop(0).split("\t")]
    return Table(header, [line.split("\t") for line in lines],
                 lambda i: "%s:%d" % (path, first + i))


def _read_csv(task, path, lines, header):
    """Cells between commas, in quotation marks where they hold commas or line breaks."""
    csv.field_size_limit(1 << 30)
    reader = csv.reader(io.StringIO("\n".join(lines), newline=""), strict=True)
    rows, starts, start = [], [], 1
    try:
        for row in reader:
            rows.append(row)
            starts.append(start)
            start = reader.line_num + 1
    except csv.Error as e:
        refuse([("%s:%d" % (path, start), "not CSV: %s" % e)])
    if not header:
        header, starts = [name.strip() for name in rows.pop(0)], starts[1:]
    return Table(header, rows, lambda i: "%s:%d" % (path, starts[i]))


def _read_json(task, path, lines, header):
    """A JSON object on each line, or one list of objects; "a.b" is the key b in the object of a."""
    if lines[0].lstrip().startswith("["):
        where = lambda i: "%s: item %d" % (path, i + 1)
        try:
            flat = [_flat(each) for each in json.loads("\n".join(lines))]
        except ValueError as e:
            raise UserError("%s: not valid JSON: %s" % (path, e)) from None
    else:
        where = lambda i: "%s:%d" % (path, i + 1)
        flat = [_parse_json(line) for line in lines]
    columns = list(dict.fromkeys(key for each in flat if isinstance(each, dict) for key in each))
    if not columns:
        refuse([(where(i), fault) for i, fault in enumerate(flat)])
    return Table(columns, [[each.get(name) for name in columns] if isinstance(each, dict) else each
                           for each in flat], where)


def _parse_json(line):
    try:
        return _flat(json.loads(line))
    except ValueError as e:
        return "not valid JSON: %s" % e


def _flat(value):
    """{"a": {"b": 1}} to {"a.b": 1}; a str, the fault, for anything but an object."""
    if not isinstance(value, dict):
        return "expected a JSON object, found %s" % type(value).__name__
    if not any(isinstance(inner, dict) for inner in value.values()):
        return value
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, dict):
            flat.update(("%s.%s" % (key, name), each) for name, each in _flat(inner).items())
        else:
            flat[key] = inner
    return flat


def _read_plain(task, path, lines, header):
    """A text on each line; tabs part the texts of a pair, or the answers of a choice."""
    columns = [*task.text_a, *task.text_b, *task.choices]
    return Table(columns, [line.split("\t") for line in lines], lambda i: "%s:%d" % (path, i + 1))


# --- TREC's files: judgements or the documents to be ranked, and texts elsewhere

def _read_qrels(task, path, lines, header):
    """Judgements, `query 0 document grade` on each line."""
    return _join_texts(task, path, [_split(line, _JUDGEMENT) for line in lines],
                       lambda cells: cells[3])


def _read_run(task, path, lines, header):
    """Documents to be ranked, `query Q0 document rank score name` on each line.

    Grades are those of the judgements beside it, under its name with .qrels; what was not judged
    has grade 0. Without them there are no grades.
    """
    qrels, grades = _stem(path) + ".qrels", None
    if path != "-" and os.path.exists(qrels):
        judged = [_split(line, _JUDGEMENT) for line in
                  _decode(qrels, _read_content(qrels, "judgements"))]
        refuse([("%s:%d" % (qrels, i), cells) for i, cells in enumerate(judged, 1)
                if isinstance(cells, str)])
        grades = {(cells[0], cells[2]): cells[3] for cells in judged}
    return _join_texts(
        task, path, [_split(line, "query Q0 document rank score name") for line in lines],
        lambda cells: None if grades is None else grades.get((cells[0], cells[2]), "0"))


def _split(line, expected):
    """The cells of a line between spaces, or its fault."""
    cells, count = line.split(), len(expected.split())
    return cells if len(cells) == count else "%d column(s), expected %d: %s" % (
        len(cells), count, expected)


def _stem(path):
    return os.path.splitext(path)[0]


def _join_texts(task, path, rows, grade):
    """The `Table` of a ranking: lines that name query and document, with the texts of both.

    Texts are in NAME.queries.tsv or queries.tsv, and in documents.tsv, beside the file NAME.
    grade: function of a line's cells.
    """
    columns = [task.query, *task.text_a, task.id, *task.text_b, *task.label]
    if len(columns) != 5 or None in columns:
        raise UserError("%s: TREC's files are for rankings whose queries, documents and their "
                        "names have a column each" % path)
    directory = "" if path == "-" else os.path.dirname(path)
    places = [find_file(directory, (os.path.basename(_stem(path)) + ".queries.tsv",
                                    "queries.tsv")), os.path.join(directory, "documents.tsv")]
    texts = [_read_texts(place, {cells[column] for cells in rows if isinstance(cells, list)})
             for place, column in zip(places, (0, 2))]

    def join(cells):
        if isinstance(cells, str):
            return cells
        for what, name, known, place in zip(("query", "document"), cells[::2], texts, places):
            if name not in known:
                return "%s '%s' is not in %s" % (what, name, place)
        query, document = cells[0], cells[2]
        return [query, texts[0][query], document, texts[1][document], grade(cells)]

    return Table(columns, list(map(join, rows)), lambda i: "%s:%d" % (path, i + 1))


def _read_texts(path, wanted):
    """The texts of the names `wanted` from a file of `name<TAB>text`, which may be a collection
    larger than the memory."""
    files.require_file(path, "ranking")
    found: dict[str, str] = {}
    faults = []
    with open(path, "rb") as f:
        for number, line in enumerate(f, 1):
            start, tab, text = line.rstrip(b"\r\n").partition(b"\t")
            try:
                name = start.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not tab and not name:        # an empty line is nobody's
                    continue
                fault = None if tab else "expected a name, a tab and a text"
                if tab and name in wanted:
                    fault = "duplicate '%s'" % name if name in found else None
                    found.setdefault(name, text.decode("utf-8").replace("\t", " "))
            except UnicodeDecodeError as e:
                fault = "not UTF-8: byte 0x%02x" % e.object[e.start]
            if fault:
                faults.append(("%s:%d" % (path, number), fault))
    refuse(faults)
    return found


# By name, which is also a file's extension; "text" is for texts without anything else.
FORMS = {"tsv": _read_tsv, "txt": _read_tsv, "csv": _read_csv, "jsonl": _read_json,
         "json": _read_json, "text": _read_plain, "qrels": _read_qrels, "run": _read_run}


# --- Forms of directories

def _read_folders(task, path):
    """A text in each file, its label the name of the folder: LABEL/NAME.txt."""
    names = [(label, name) for label in task.class_names
             for name in sorted(_files_in(os.path.join(path, label), task), key=_natural)]
    rows = [["%s/%s" % (label, name[:-len(".txt")]), label,
             _whole_text(os.path.join(path, label, name))] for label, name in names]
    return Table([task.id, *task.label, *task.text_a], rows,
                 lambda i: os.path.join(path, *names[i]))


def _read_race(task, path):
    """RACE (https://arxiv.org/abs/1704.04683): articles in JSON files, each with its questions."""
    folders = [name for name in ("middle", "high") if os.path.isdir(os.path.join(path, name))] \
        or [""]
    rows, places = [], []
    for folder in folders:
        directory = os.path.join(path, folder)
        for name in sorted(_files_in(directory, task), key=_natural):
            file = os.path.join(directory, name)
            for row in _race_questions(file):
                rows.append(row)
                places.append(file)
    return Table([task.id, *task.text_a, *task.text_b, *task.choices, *task.label], rows,
                 lambda i: places[i])


def _race_questions(path):
    """One row for each question of an article."""
    value = files.read_json(path, "RACE")
    questions, options = value.get("questions"), value.get("options")
    if not isinstance(questions, list) or not isinstance(options, list) \
            or len(questions) != len(options):
        return ["expected article, questions and as many lists of options"]
    answers = value.get("answers") or [None] * len(questions)
    return [["%s/%d" % (value.get("id") or os.path.basename(path), i), value.get("article"),
             question, choices, answer]
            for i, (question, choices, answer) in enumerate(zip(questions, options, answers))]


_TREES = {"folders": _read_folders, "race": _read_race}


def _files_in(directory, task):
    if not os.path.isdir(directory):
        raise UserError("task %s: no such directory: %s" % (task.name, directory))
    return [name for name in os.listdir(directory) if name.endswith(".txt")]


def _natural(name):
    """Sorts numbers in names by their size: 9_1.txt before 10_1.txt."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", name)]


def _whole_text(path):
    return "\n".join(_decode(path, _read_content(path, "text")))
