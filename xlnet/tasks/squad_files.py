"""Files of questions and answers: SQuAD's JSON, or tables with a question in each row.

A true answer is a text and where it begins in its context. Where it does not stand there it is
searched for; what is wrong or cannot be found is named and counted.
"""

from __future__ import annotations

import collections
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

from xlnet.errors import UserError
from xlnet.tasks import decoding, parsing, readers
from xlnet.tasks.json_stream import JsonStream
from xlnet.tasks.task import Row, Task

_log = logging.getLogger(__name__)

_NAMES_SHOWN = 10

# start: of the text in its context; None: not given.
Answer = collections.namedtuple("Answer", "text start")


# ---- SQuAD's JSON

def is_squad(chunks: Iterable[str]) -> bool:
    """Whether a text is an object with a key `data`, as SQuAD's JSON is."""
    stream = JsonStream(chunks)
    try:
        for key in stream.keys():
            if key == "data":
                return True
            stream.value()
    except ValueError:
        pass
    return False


def table_of(task: Task, path: str, lines: decoding.Lines) -> readers.Table:
    """The `Table` of SQuAD's JSON, {"data": [{"paragraphs": [{"context", "qas": [{"id",
    "question", "answers"}]}]}]}, whose rows are read as they are asked for, a paragraph at a time.
    """
    columns = [task.id, *task.text_a, *task.text_b, *task.label]
    blank = [None] * (len(columns) - 4)

    def rows():
        place = ""
        try:
            for place, cells in _questions(path, JsonStream(lines.chunks())):
                yield place, cells if isinstance(cells, str) else cells + blank
        except ValueError as e:
            if isinstance(e, UserError):
                raise
            raise readers.not_json(path, lines, e, place) from None
    return readers.Table(columns, rows(), lambda place: "%s: %s" % (path, place))


def _read_json(task, path, lines, header, skips):
    """SQuAD's JSON, or the common JSON of tables."""
    if is_squad(lines.chunks()):
        return table_of(task, path, lines)
    return readers.FORMS["jsonl"](task, path, lines, header, skips)


def _questions(path, stream) -> Iterator[tuple]:
    """Yields (place in words, [id, context, question, answers] or a fault) of every question."""
    for key in stream.keys():
        if key != "data":
            stream.value()
        elif stream.peek() != "[":
            raise UserError("%s: data is %s, expected a list of articles"
                            % (path, type(stream.value()).__name__))
        else:
            for a, _ in enumerate(stream.items(), 1):
                yield from _article("article %d" % a, stream)
    if stream.peek():
        raise ValueError("more after the end of the object")


def _article(place, stream):
    fault = "expected an object with a list of paragraphs"
    if stream.peek() != "{":
        stream.value()
        yield place, fault
        return
    has_paragraphs = False
    for key in stream.keys():
        if key == "paragraphs" and stream.peek() == "[":
            has_paragraphs = True
            for p, _ in enumerate(stream.items(), 1):
                yield from _paragraph("%s, paragraph %d" % (place, p), stream.value())
        else:
            stream.value()
    if not has_paragraphs:
        yield place, fault


def _paragraph(place, paragraph):
    context, qas = (paragraph.get(name) for name in ("context", "qas")) \
        if isinstance(paragraph, dict) else (None, None)
    if not isinstance(context, str) or not isinstance(qas, list):
        yield place, "expected an object with a context and a list of qas"
        return
    for q, question in enumerate(qas, 1):
        yield "%s, question %d" % (place, q), _cells(context, question)


def _cells(context, question):
    """[id, context, question, answers] or a fault; answers: a list, None where none are given."""
    if not isinstance(question, dict):
        return "expected an object, found %s" % type(question).__name__
    if question.get("id") in (None, ""):
        return "a question without id"
    if not isinstance(question.get("question"), str):
        return "question '%s' has no text" % question["id"]
    answers, is_impossible = question.get("answers"), question.get("is_impossible", False)
    if is_impossible and answers:
        return "question '%s' is_impossible, and has answers" % question["id"]
    if answers is None and is_impossible:
        answers = []
    if isinstance(answers, list) and not answers and question.get("is_impossible") is False:
        return "question '%s' has no answers, and is not is_impossible" % question["id"]
    return [question["id"], context, question["question"], answers]


# The forms of files whose questions have answers in their contexts; others are as for any task.
FORMS = {"json": _read_json}


# ---- answers

def has_answers(task: Task, path: str, form: Optional[str] = None) -> bool:
    """Whether any question of a file has answers, or is said to have none; form: as for
    `parsing.read_to_predict`."""
    table = readers.read_table(task, path, form=parsing.form_to_predict(task, path, form))
    if not task.label or task.label[0] not in table.columns:
        return False
    column = table.columns.index(task.label[0])
    return any(isinstance(cells, list) and cells[column:column + 1] not in ([], [None])
               for _, cells in table.rows)


def parse_answers(cells: list) -> tuple:
    """(tuple of `Answer`, None) or (None, fault), from the cells of an answer and of its start.

    An answer is a text, empty where there is none, or, in JSON, a list of texts or of objects with
    `text` and `answer_start`.
    """
    if not cells or cells[0] is None:
        return None, "no answers"
    listed = cells[0] if isinstance(cells[0], list) else [cells[0]]
    start, fault = _parse_start(cells[1] if len(cells) > 1 else None)
    found = []
    for each in listed:
        text = each
        if isinstance(each, dict):
            text = each.get("text")
            start, fault = _parse_start(each.get("answer_start"))
        if fault:
            return None, fault
        if not isinstance(text, str):
            return None, "answer %s, expected a text" % json.dumps(text, ensure_ascii=False)
        if text.strip():
            found.append(Answer(text, start))
        elif isinstance(cells[0], list):
            return None, "an answer is empty"
    return tuple(found), None


def _parse_start(value):
    """(int or None, fault or None)"""
    if value is None or value == "":
        return None, None
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,99}", str(value)):
        return None, "answer_start %s, expected a whole number" % json.dumps(value)
    return int(value), None


# ---- where answers stand

class Place(NamedTuple):
    """Characters `start` to before `end` of the context, without the spaces around an answer; -1
    where there is none. fault: what was wrong with the file, in words."""
    start: int
    end: int
    fault: Optional[str] = None

    @property
    def is_known(self) -> bool:
        return self.start >= 0


def place_of(row: Row) -> Place:
    """Where the first answer of a row stands in its context."""
    if not row.label:
        return Place(-1, -1)
    context, (text, start) = row.pairs[0][0], row.label[0]
    fault = None
    if start is None or start < 0 or not context.startswith(text, start):
        given, (start, fault) = start, _search(context, text, start)
        if given is not None:
            fault = fault or "answer_start %d, found at %d" % (given, start)
    if start < 0:
        return Place(-1, -1, fault)
    return Place(start + len(text) - len(text.lstrip()), start + len(text.rstrip()), fault)


def _search(context, text, near):
    """(where a text stands, None), or (-1, why that is not known).

    near: where the file has it; of several places the one closest to it is taken.
    """
    places = [match.start() for match in re.finditer("(?=%s)" % re.escape(text), context)]
    if not places:
        return -1, "the answer is not in the context"
    if len(places) > 1 and (near is None or near < 0):
        return -1, "the answer stands in the context several times"
    return min(places, key=lambda place: abs(place - (near or 0))), None


def note_places(path: str, rows: Sequence[Row]) -> None:
    """Names and counts the questions whose first answer is not where the file says, and those that
    are empty."""
    moved: list[str] = []
    lost: list[str] = []
    for row in rows:
        place = place_of(row)
        if place.fault:
            (moved if place.is_known else lost).append("%s (%s)" % (row.id, place.fault))
    empty = [row.id for row in rows if not row.pairs[0][1].strip()]
    for names, what in ((empty, "are empty"),
                        (moved, "have a wrong answer_start, and their answer was found elsewhere"),
                        (lost, "have an answer without a place, and are not trained on")):
        if names:
            _log.warning("note: %s: %d of %d questions %s: %s%s", path, len(names), len(rows), what,
                         ", ".join(names[:_NAMES_SHOWN]),
                         ", ..." if len(names) > _NAMES_SHOWN else "")
