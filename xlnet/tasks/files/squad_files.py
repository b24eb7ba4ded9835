"""Files of questions and answers: SQuAD's JSON, or tables with a question in each row.

A reference answer is a text and its start in the context. If the context does not have it there, it
is searched for; a warning names and counts wrong and missing answers.
"""

from __future__ import annotations

import collections
import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple, Optional

from xlnet import json_stream
from xlnet.errors import UserError
from xlnet.tasks.files import readers, table_rows
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.task import Row, Task

_OBJECT = re.compile(r"\[?\{\s*['\"](text|answer_start)['\"]\s*:")  # as text

# start: of the text in its context; None: not given.
GoldAnswer = collections.namedtuple("GoldAnswer", "text start")


# ---- SQuAD's JSON


def _read_json(task, path, lines):
    """SQuAD's JSON, {"data": [{"paragraphs": [{"context", "qas": [{"id", "question",
    "answers"}]}]}]}, read an article at a time; Hugging Face's form, {"data": [{"id", "context",
    "question", "answers"}]}; or the common JSON of tables."""
    event = json_stream.event_at(lines.chunks(), "data")
    if event not in (None, "start_array"):
        raise UserError(f"{path}: data is not a list, expected a list of articles")
    if event is None:
        is_list = lines.start().startswith("[")
        return _read_rows("json" if is_list else "jsonl", task, path, lines)
    names = task.columns.id, *task.columns.text_a, *task.columns.text_b, *task.columns.label[:1]

    def rows():
        place = ""
        try:
            for place, cells in _questions(lines):
                yield (
                    f"{path}: {place}",
                    cells
                    if isinstance(cells, str)
                    else {**dict.fromkeys(task.columns.label), **dict(zip(names, cells))},
                )
        except ValueError as e:
            raise readers.not_json(path, lines, e, place) from None

    return readers.Table(None, rows())


def _read_rows(form, task, path, source):
    """A question in each row of a table; source: as of the function of the form in
    `readers.plain_table`."""
    table = readers.plain_table(task, path, source, form)
    # Answers of a row whose `is_impossible` is true do not count: KLUE-MRC keeps plausible ones so.
    plausible = RowErrors()

    def rows():
        for place, values in table.rows:
            if isinstance(values, str):
                yield place, values
            elif table.columns is None:
                yield place, _checked_row(task, _with_answers(task, values), place, plausible)
            elif _IMPOSSIBLE in table.columns and len(values) == len(table.columns):
                cells = _checked_row(task, dict(zip(table.columns, values)), place, plausible)
                yield (
                    place,
                    cells if isinstance(cells, str) else list(map(cells.get, table.columns)),
                )
            else:
                yield place, values
        plausible.note(path, "questions are is_impossible and have answers, which are not used")

    return readers.Table(table.columns, rows())


_IMPOSSIBLE = "is_impossible"
_SAID = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _checked_row(task, cells, place, plausible):
    """The cells of a row, or an error; the answers are [] where `is_impossible` is true, and None,
    no label, where it is false and there is none."""
    said = cells.get(_IMPOSSIBLE)
    if not task.columns.label or said is None or not readers.to_text(said).strip():
        return cells
    is_impossible = _SAID.get(readers.to_text(said).strip().lower())
    if is_impossible is None:
        return f"is_impossible is {json.dumps(said, ensure_ascii=False)}, expected true or false"
    name = task.columns.label[0]
    answers = cells.get(name)
    has_none = answers in (None, []) or isinstance(answers, str) and not answers.strip()
    if is_impossible and not has_none:
        plausible.add(place, f"plausible answer {json.dumps(answers, ensure_ascii=False)[:80]}")
    return {**cells, name: [] if is_impossible else None if has_none else answers}


def _with_answers(task, cells):
    """A row with the label, if it has that under another name, `answers`, or in Hugging Face's
    form, {"text": [...], "answer_start": [...]}."""
    found = next(
        (
            name
            for name in (*task.columns.label[:1], "answers")
            if name in cells or name + ".text" in cells
        ),
        None,
    )
    if not task.columns.label or found is None or found in task.columns.label and found in cells:
        return cells
    answers = cells.get(found)
    if cells.get(found + ".text") is not None:
        answers = _listed(
            {"text": cells[found + ".text"], "answer_start": cells.get(found + ".answer_start")}
        )
    return {**dict.fromkeys(task.columns.label), **cells, task.columns.label[0]: answers}


def _listed(answers):
    """A list of answers from Hugging Face's object of lists; other answers as they are."""
    if not isinstance(answers, dict):
        return answers
    texts, starts = (
        [] if value is None else value if isinstance(value, list) else [value]
        for value in (answers.get("text"), answers.get("answer_start"))
    )
    if starts and len(starts) != len(texts):
        return answers
    return [
        {"text": text, "answer_start": start}
        for text, start in itertools.zip_longest(texts, starts)
    ]


def _questions(lines):
    """Yields (place, [id, context, question, answers] or an error) of every question."""
    for a, article in enumerate(json_stream.items(lines.chunks(), "data.item"), 1):
        place = f"article {a}"
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            # Hugging Face's form: each item is a question with its context.
            is_flat = isinstance(article, dict) and isinstance(article.get("context"), str)
            yield (
                place,
                _cells(article["context"], article)
                if is_flat
                else ("expected an object with a list of paragraphs, or with a context"),
            )
            continue
        for p, paragraph in enumerate(paragraphs, 1):
            within = f"{place}, paragraph {p}"
            context, qas = (
                (paragraph.get(name) for name in ("context", "qas"))
                if isinstance(paragraph, dict)
                else (None, None)
            )
            if not isinstance(context, str) or not isinstance(qas, list):
                yield within, "expected an object with a context and a list of qas"
                continue
            for q, question in enumerate(qas, 1):
                yield f"{within}, question {q}", _cells(context, question)


def _cells(context, question):
    """[id, context, question, answers] or an error; answers: a list, None if none are given."""
    if not isinstance(question, dict):
        return f"expected an object, found {type(question).__name__}"
    if question.get("id") in (None, ""):
        return "a question without id"
    if not isinstance(question.get("question"), str):
        return "question '{}' has no text".format(question["id"])
    answers, is_impossible = _listed(question.get("answers")), question.get("is_impossible", False)
    if is_impossible and answers:
        return "question '{}' is_impossible, and has answers".format(question["id"])
    if answers is None and is_impossible:
        answers = []
    if isinstance(answers, list) and not answers and question.get("is_impossible") is False:
        return "question '{}' has no answers, and is not is_impossible".format(question["id"])
    return [question["id"], context, question["question"], answers]


# The forms of files with answers in contexts; others are as for any task.
FORMS: dict[str, Callable] = {
    **dict.fromkeys(("json", "jsonl", "ndjson"), _read_json),
    **{form: functools.partial(_read_rows, form) for form in ("tsv", "csv", "parquet")},
}


# ---- answers


def has_answers(task: Task, path: str, form: Optional[str] = None) -> bool:
    """Whether any question of a file has answers, or is marked as having none; form: as in
    `parsing.read_to_predict`."""
    table = readers.read_table(task.reader, path, False, form)
    return any(
        table_rows.by_name(table.columns, values).get(name) is not None
        for name in task.columns.label[:1]
        for _, values in table.rows
    )


def parse_answers(cells: list) -> tuple:
    """(tuple of `GoldAnswer`, None) or (None, error), from the cells of an answer and of its start.

    An answer is a text, empty if there is none, or, in JSON, a list of texts or of objects with
    `text` and `answer_start`.
    """
    if not cells or cells[0] is None:
        return None, "no answers"
    if isinstance(cells[0], str) and _OBJECT.match(cells[0]):
        return (
            None,
            f"an object as text, '{cells[0]!s:.40}', expected an answer; write JSON lines, which "
            "have objects: to_json(PATH, orient='records', lines=True)",
        )
    listed = cells[0] if isinstance(cells[0], list) else [cells[0]]
    start, error = _parse_start(cells[1] if len(cells) > 1 else None)
    found = []
    for text in listed:
        if isinstance(text, dict):
            start, error = _parse_start(text.get("answer_start"))
            text = text.get("text")
        if error:
            return None, error
        if not isinstance(text, str):
            return None, f"answer {json.dumps(text, ensure_ascii=False)}, expected a text"
        if text.strip():
            found.append(GoldAnswer(text, start))
        elif isinstance(cells[0], list):
            return None, "an answer is empty"
    return tuple(found), None


def _parse_start(value):
    """(int or None, error or None)"""
    if value is None or value == "":
        return None, None
    found = re.fullmatch(r"(-?\d{1,99})(\.0*)?", str(value))  # pandas: 9.0 where rows have gaps
    if isinstance(value, bool) or not found:
        return None, f"answer_start {json.dumps(value)}, expected an integer"
    return int(found[1]), None


# ---- answers in their contexts


class AnswerPosition(NamedTuple):
    """Characters `start` to before `end` of the context, without the spaces around an answer; -1
    if there is none. `error`: that in the file, or None."""

    start: int
    end: int
    error: Optional[str] = None

    @property
    def is_known(self) -> bool:
        return self.start >= 0


def position_of(row: Row) -> AnswerPosition:
    """The place in its context of the answer of a row that is learned, the first one that has
    one."""
    if not row.label:
        return AnswerPosition(-1, -1)
    first = _position_in(row.pairs[0][0], row.label[0])
    if not first.is_known:
        for answer in row.label[1:]:
            other = _position_in(row.pairs[0][0], answer)
            if other.is_known:
                return other._replace(error=f"{first.error}, another one is learned")
    return first


def _position_in(context, answer):
    # Where the file says that it is, or else where it is found, the closest one.
    text, given = answer
    if given is not None and given >= 0 and context.startswith(text, given):
        start, end, error = given, given + len(text), None
    else:
        (start, end), error = _search(context, text, given)
        if given is not None and start != given:
            error = error or f"answer_start {given}, found at {start}"
    if start < 0:
        return AnswerPosition(-1, -1, error)
    text = context[start:end]
    return AnswerPosition(start + len(text) - len(text.lstrip()), start + len(text.rstrip()), error)


def as_in_context(row: Row) -> list[str]:
    """The answers of a row in the Unicode form of its context, if that has them."""
    context = row.pairs[0][0]
    found = []
    for text, start in row.label:
        begin, end = (-1, -1) if text in context else _search(context, text, start)[0]
        found.append(text if begin < 0 else context[begin:end])
    return found


def _search(context, text, near):
    """((start, end) of a text, the one closest to `near`, None), or ((-1, -1), error)."""
    # As it is written, or in another Unicode form.
    spans = _occurrences(context, text) or _equivalent(context, text)
    if not spans:
        return (-1, -1), "the answer is not in the context"
    if len(spans) > 1 and (near is None or near < 0):
        return (-1, -1), "the answer is in the context several times"
    return min(spans, key=lambda span: abs(span[0] - (near or 0))), None


def _occurrences(context, text):
    return [
        (match.start(), match.start() + len(text))
        for match in re.finditer(f"(?={re.escape(text)})", context)
    ]


def _equivalent(context, text):
    """(start, end) wherever a context has a text in another Unicode form: composed or not."""
    if context.isascii():
        return []
    decomposed, characters = _decomposed(context)
    return [
        (characters[start], characters[end])
        for start, end in _occurrences(decomposed, unicodedata.normalize("NFD", text))
        if start in characters and end in characters
    ]


@functools.lru_cache(maxsize=8)
def _decomposed(context):
    """(the context in NFD, dict of indices in it to those in the context)."""
    # Only of indices at which a character begins, with the marks that belong to it.
    starts = [i for i, char in enumerate(context) if not unicodedata.combining(char)]
    parts, characters, size = [], {}, 0
    for start, end in zip([0, *starts], [*starts, len(context)]):
        parts.append(unicodedata.normalize("NFD", context[start:end]))
        characters[size] = start
        size += len(parts[-1])
    return "".join(parts), {**characters, size: len(context)}


def note_positions(path: str, rows: Iterable[Row]) -> None:
    """Warns of questions that are empty, or whose first answer is not at its `answer_start`."""
    found = RowErrors()
    for row in rows:
        place = position_of(row)
        if place.error:
            found.add(
                f"question '{row.id}'",
                place.error + ("" if place.is_known else ", so it is not trained on"),
            )
        if row.pairs and not row.pairs[0][1].strip():
            found.add(f"question '{row.id}'", "the question is empty")
    found.note(path, "questions are empty or have no answer at its answer_start")
