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
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from xlnet.tasks.files import decoding, forms, readers, table_rows
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.task import Row, Task

_OBJECT = re.compile(r"\[?\{\s*['\"](text|answer_start)['\"]\s*:")  # as text
_IMPOSSIBLE = "is_impossible"
_SAID = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}

# start: of the text in its context; None: not given.
GoldAnswer = collections.namedtuple("GoldAnswer", "text start")


# ---- a function for each form: (task, path, lines) to a `forms.Table` with a question in each row


def _read_json(task: Task, path: str, lines: decoding.Lines) -> forms.Table:
    """A list, or an object whose `data` is the list, of SQuAD's articles or of questions with their
    context; read an item at a time."""
    return _of_values(task, path, forms.json_items(path, lines))


def _read_json_lines(task: Task, path: str, lines: decoding.Lines) -> forms.Table:
    """A question with its context on each line, or an article."""
    return _of_values(task, path, forms.json_lines(path, lines))


def _read_table(name: str, task: Task, path: str, source: Any) -> forms.Table:
    """A table of `forms.FORMS`; source: as for `readers.plain_table`."""
    return _checked(task, path, readers.plain_table(task, path, source, name))


# Other forms are those of any task.
FORMS: dict[str, Callable[[Task, str, Any], forms.Table]] = {
    "json": _read_json,
    "jsonl": _read_json_lines,
    "ndjson": _read_json_lines,
    "csv": functools.partial(_read_table, "csv"),
    "tsv": functools.partial(_read_table, "tsv"),
    "parquet": functools.partial(_read_table, "parquet"),
}


# ---- values of JSON


def _of_values(task: Task, path: str, values: Iterable[tuple[str, Any]]) -> forms.Table:
    """The table of articles, or of questions, in (place, value) pairs."""

    def rows() -> Iterator[tuple[str, forms.Cells]]:
        for number, (place, value) in enumerate(values, 1):
            if value is forms.EMPTY_LINE:
                yield place, []
            elif isinstance(value, dict) and "paragraphs" in value:
                yield from _of_article(task, f"{path}: article {number}", value["paragraphs"])
            else:
                yield place, _other_form(value) or forms.plain_object(value)

    return _checked(task, path, forms.Table(None, rows()))


def _other_form(value: Any) -> Optional[str]:
    """The error of a value of a known form that is not read; None for others."""
    if not isinstance(value, dict):
        return None
    if "header" in value and len(value) == 1 or "context_tokens" in value:
        return (
            "MRQA's JSON lines, which are not read; expected SQuAD's JSON, or a row for each "
            "question: context, question, answer"
        )
    if "qas" in value:
        return (
            "a context with qas and without paragraphs, as in KorQuAD 2, which is not read; "
            "expected SQuAD's articles with paragraphs, or a row for each question: context, "
            "question, answer"
        )
    return None


def _of_article(task: Task, place: str, paragraphs: Any) -> Iterator[tuple[str, forms.Cells]]:
    """Yields (place, cells or error) of every question of an article of SQuAD:
    [{"context": ..., "qas": [{"id", "question", "answers", "is_impossible"}]}]."""
    if not isinstance(paragraphs, list):
        yield place, "expected an object with a list of paragraphs"
        return
    for p, paragraph in enumerate(paragraphs, 1):
        within = f"{place}, paragraph {p}"
        context = paragraph.get("context") if isinstance(paragraph, dict) else None
        questions = paragraph.get("qas") if isinstance(paragraph, dict) else None
        if not isinstance(context, str) or not isinstance(questions, list):
            yield within, "expected an object with a context and a list of qas"
            continue
        for q, question in enumerate(questions, 1):
            yield f"{within}, question {q}", _of_question(task, context, question)


def _of_question(task: Task, context: str, question: Any) -> Union[dict[str, Any], str]:
    """The cells of a question of SQuAD by the task's columns, or its error."""
    if not isinstance(question, dict):
        return f"expected an object, found {type(question).__name__}"
    name = question.get("id")
    if name in (None, ""):
        return "a question without id"
    if not isinstance(question.get("question"), str):
        return f"question '{name}' has no text"
    columns = task.columns
    cells: dict[str, Any] = dict.fromkeys(columns.label)
    cells[_IMPOSSIBLE] = question.get(_IMPOSSIBLE)
    if columns.id:
        cells[columns.id] = name
    cells[columns.text_a[0]] = context
    cells[columns.text_b[0]] = question["question"]
    if columns.label:
        cells[columns.label[0]] = _listed(question.get("answers"))
    return cells


# ---- the answers of a row


def _checked(task: Task, path: str, table: forms.Table) -> forms.Table:
    """The table with the answers of each row in the column of the label: [] if `is_impossible` is
    true; None, that is no label, if it is false and there are no answers; a ValueError, which is an
    error only where labels are needed, if it is neither."""
    # Answers of a row whose `is_impossible` is true do not count: in KLUE-MRC these are only
    # plausible.
    plausible = RowErrors()

    def rows() -> Iterator[tuple[str, forms.Cells]]:
        for place, values in table.rows:
            # An error, or an empty row, which in JSON lines is an empty line.
            if isinstance(values, str) or forms.is_blank(values):
                yield place, values
                continue
            cells = table_rows.by_name(table.columns, values)
            if table.columns is None:
                cells = _with_answers(task, cells)
            yield place, _checked_row(task, cells, place, plausible)
        plausible.note(path, "questions are is_impossible and have answers, which are not used")

    return forms.Table(table.columns, rows())


def _checked_row(
    task: Task, cells: dict[str, Any], place: str, plausible: RowErrors
) -> dict[str, Any]:
    """The cells of a row after `is_impossible` was looked at."""
    said = cells.get(_IMPOSSIBLE)
    if not task.columns.label or table_rows.is_missing(said):
        return cells
    name = task.columns.label[0]
    is_impossible = _said(cells)
    if is_impossible is None:
        found = json.dumps(said, ensure_ascii=False)
        return {**cells, name: ValueError(f"is_impossible is {found}, expected true or false")}
    answers = cells.get(name)
    has_none = _is_none(answers)
    if is_impossible:
        if not has_none:
            plausible.add(place, f"plausible answer {json.dumps(answers, ensure_ascii=False)[:80]}")
        return {**cells, name: []}
    return {**cells, name: None if has_none else answers}


def _said(cells: Mapping[str, Any]) -> Optional[bool]:
    """What the column `is_impossible` of a row says; None: neither true nor false."""
    return _SAID.get(readers.to_text(cells.get(_IMPOSSIBLE)).strip().lower())


def _is_none(answers: Any) -> bool:
    return answers == [] or table_rows.is_missing(answers) or isinstance(answers, ValueError)


def _with_answers(task: Task, cells: dict[str, Any]) -> dict[str, Any]:
    """A row of JSON whose label is set from `answers`, or from Hugging Face's form {"text": [...],
    "answer_start": [...]}, which is two keys in a flattened object."""
    label = task.columns.label
    for name in (*label[:1], "answers"):
        if cells.get(f"{name}.text") is not None:
            texts, starts = cells[f"{name}.text"], cells.get(f"{name}.answer_start")
            answers = _listed({"text": texts, "answer_start": starts})
        elif name in cells or f"{name}.text" in cells:
            answers = cells.get(name)
        else:
            continue
        return {**dict.fromkeys(label), **cells, label[0]: answers}
    return cells


def _listed(answers: Any) -> Any:
    """A list of answers from Hugging Face's object of lists; other answers as they are."""
    if not isinstance(answers, dict):
        return answers
    texts, starts = _as_list(answers.get("text")), _as_list(answers.get("answer_start"))
    if starts and len(starts) != len(texts):
        return answers
    return [
        {"text": text, "answer_start": start}
        for text, start in itertools.zip_longest(texts, starts)
    ]


def _as_list(value: Any) -> list:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


# ---- answers


def has_answers(task: Task, path: str) -> bool:
    """Whether any question of a file has answers, or is marked as having none. Where none has, and
    none is marked, they are withheld: SQuAD's form then has empty lists."""
    table = readers.read_table(task.reader, path)
    for _, values in table.rows:
        cells = table_rows.by_name(table.columns, values)
        answers = [cells.get(name) for name in task.columns.label[:1]]
        if answers and (_said(cells) or not _is_none(answers[0])):
            return True
    return False


def parse_answers(cells: list) -> tuple:
    """(tuple of `GoldAnswer`, None) or (None, error), from the cells of an answer and of its start.

    An answer is a text, empty if there is none, or, in JSON, a list of texts or of objects with
    `text` and `answer_start`; or a ValueError, what is wrong with it.
    """
    if not cells or cells[0] is None:
        return None, "no answers"
    if isinstance(cells[0], ValueError):
        return None, str(cells[0])
    if isinstance(cells[0], str) and _OBJECT.match(cells[0]):
        return (
            None,
            f"an object as text, '{cells[0]!s:.40}', expected an answer; write JSON lines, which "
            "have objects: to_json(PATH, orient='records', lines=True)",
        )
    listed = cells[0] if isinstance(cells[0], list) else [cells[0]]
    found = []
    for text in listed:
        start_cell = cells[1] if len(cells) > 1 else None
        if isinstance(text, dict):
            start_cell = text.get("answer_start")
            text = text.get("text")
        start, error = _parse_start(start_cell)
        if error:
            return None, error
        if not isinstance(text, str):
            return None, f"answer {json.dumps(text, ensure_ascii=False)}, expected a text"
        if text.strip():
            found.append(GoldAnswer(text, start))
        elif isinstance(cells[0], list):
            return None, "an answer is empty"
    return tuple(found), None


def _parse_start(value: Any) -> tuple[Optional[int], Optional[str]]:
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
    """The position in its context of the answer that is learned of a row: the first answer whose
    position is known."""
    if not row.label:
        return AnswerPosition(-1, -1)
    first = _position_in(row.pairs[0][0], row.label[0])
    if not first.is_known:
        for answer in row.label[1:]:
            other = _position_in(row.pairs[0][0], answer)
            if other.is_known:
                return other._replace(error=f"{first.error}, another one is learned")
    return first


def _position_in(context: str, answer: GoldAnswer) -> AnswerPosition:
    # The answer is where the file says, or else at the occurrence closest to that.
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


def _search(context: str, text: str, near: Optional[int]) -> tuple[tuple[int, int], Optional[str]]:
    """((start, end) of a text, the one closest to `near`, None), or ((-1, -1), error)."""
    # Look for the text as it is written, then in another Unicode form.
    spans = _occurrences(context, text) or _equivalent(context, text)
    if not spans:
        return (-1, -1), "the answer is not in the context"
    if len(spans) > 1 and (near is None or near < 0):
        return (-1, -1), "the answer is in the context several times"
    return min(spans, key=lambda span: abs(span[0] - (near or 0))), None


def _occurrences(context: str, text: str) -> list[tuple[int, int]]:
    return [
        (match.start(), match.start() + len(text))
        for match in re.finditer(f"(?={re.escape(text)})", context)
    ]


def _equivalent(context: str, text: str) -> list[tuple[int, int]]:
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
def _decomposed(context: str) -> tuple[str, dict[int, int]]:
    """(the context in NFD, dict of indices in it to those in the context)."""
    # The dict has only the indices at which a character begins together with its combining marks.
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
