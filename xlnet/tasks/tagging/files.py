"""Sentences with tagged words: from files and texts, as objects of JSON.

    form      extension          content
    conll     any other          a word a line with its columns, an empty line between sentences
    jsonl     .jsonl, .ndjson    an object a line: a text and its entities, or tokens and tags
    json      .json              a list of such objects, or an object whose `data` is the list
    parquet   .parquet           a table whose rows are such objects
    text      -                  a sentence a line, without tags

A form is declared by --input_format, or by the extension.

The columns of a sentence are lists, so that it is an object, too. Columns are split at the declared
delimiter, or at spaces and tabs, and have numbers from 1 on, or the names in the first line. A row
whose first cell is -DOCSTART- is no word. An object has a text and its entities, [start, end,
label] or an object with these keys, in characters; or a list of tokens and a list of tags.
"""

from __future__ import annotations

import bisect
import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xlnet.corpus.tokenizer import is_text, is_unspaced
from xlnet.tasks.files import forms
from xlnet.tasks.files.parsing import NOT_TEXT
from xlnet.tasks.tagging import schemes
from xlnet.tasks.tagging.schemes import TagSpan
from xlnet.tasks.task import Form

_DOCUMENT = "-DOCSTART-"
WHAT = "sentences with tagged words"  # the role of a file in errors


class Sentence(NamedTuple):
    """A sentence of W words, from a text or a list of words."""

    words: tuple[str, ...]
    cells: dict[str, Any]  # its object, to which predictions are added
    text: str = ""  # "": it has words alone
    places: tuple[tuple[int, int], ...] = ()  # of the words in the text [characters]
    # (start, end, label) in characters, as in the file; (): it has tags, or nothing.
    entities: tuple[TagSpan, ...] = ()

    def located(self, spans: Iterable[TagSpan]) -> list[TagSpan]:
        """Spans of words in the characters of the text or, if there is none, as they are."""
        if not self.text:
            return list(spans)
        found = []
        for first, last, label in spans:
            start, _ = self.places[first]
            _, end = self.places[last - 1]
            found.append((start, end, label))
        return found

    def text_at(self, start: int, end: int) -> str:
        """The text of an entity of `located`."""
        return self.text[start:end] or " ".join(self.words[start:end])


# ---- the words of a text

# Hangul syllables, and the letters that begin one; those that continue one are marks.
_SYLLABLE = re.compile("[\u1100-\u115f\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3]")
_IN_SYLLABLE = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")


def find_words(text: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of the words of a text: runs of letters, runs of digits, each other sign,
    each letter of a script without spaces between words, such as Chinese, and each syllable of
    Hangul, whose words end in particles that do not belong to an entity. Combining marks belong to
    the word before."""
    start, word = 0, ""  # of the word before: its start and the kind of its characters
    for i, char in enumerate(text):
        kind = _kind(char)
        if word and (kind == "mark" or kind == word != "single"):
            continue
        if word:
            yield start, i
        start, word = i, kind
    if word:
        yield start, len(text)


def _kind(char: str) -> str:
    """The kind of a character: "letter", "digit"; "single", a word alone; "mark", which belongs to
    the word before; "", which is not in a word."""
    category = unicodedata.category(char)[0]
    if category in "ZC" or char.isspace():
        return ""
    if category == "M" or _IN_SYLLABLE.match(char):
        return "mark"
    if category == "N":
        return "digit"
    if category == "L" and not is_unspaced(char) and not _SYLLABLE.match(char):
        return "letter"
    return "single"


def sentence_of(cells: dict[str, Any], key: str) -> Sentence:
    """The sentence of an object, which has a text with a word or more, or a list of words, none of
    them empty, under a key; raises ValueError."""
    content = cells.get(key)
    line = json.dumps(cells, ensure_ascii=False)
    if not is_text(line):
        raise ValueError(NOT_TEXT)
    text = content if isinstance(content, str) else ""
    places = tuple(find_words(text))
    words = [text[start:end] for start, end in places]
    if isinstance(content, (list, tuple)):
        words = list(content)
    are_words = all(isinstance(each, str) and each for each in words)
    if not words or not are_words:
        expected = f"'{key}' with words, a text or a list; --text_a_column"
        raise ValueError(f"found {line:.200}, expected {expected}")
    return Sentence(tuple(words), cells, text, places)


# ---- files


def of_objects(path: str, form: Form) -> Iterator[tuple[str, Any]]:
    """Yields (place, object or error) of each sentence of a file with objects."""
    for place, cells in forms.objects(path, form, WHAT):
        yield place, cells if isinstance(cells, dict) else forms.flattened(cells)


def of_columns(
    path: str, form: Form, keys: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """The same of a file with columns; a line that cannot be read is the error of its sentence.

    Args:
      keys: those of the object by the names of columns; that of "" is the last column's.
    """
    rows: list[dict[str, str]] = []
    first = ""  # place of the first word of a sentence
    error = None  # (place, error) of its first bad line
    records = forms.read(path, form, WHAT)
    for place, cells in itertools.chain(records, [("", {})]):
        if isinstance(cells, str):
            error = error or (place, cells)
        elif "\n" in "".join(cells.values()):
            several = "found a cell of several lines, expected a word; --quoting"
            error = error or (place, several)
        elif cells and next(iter(cells.values())) != _DOCUMENT:
            if not rows:
                first = place
            rows.append(cells)
        else:
            if error:
                yield error
            elif rows:
                columns = list(rows[0])
                keys = {columns[-1]: keys.get("", columns[-1]), **keys}
                found: dict[str, list[str]] = {}
                for column in columns:
                    key = keys.get(column, column)
                    found[key] = [row[column] for row in rows]
                yield first, found
            rows, error = [], None


# ---- tags


def tagged(
    sentence: Sentence, key: str, scheme: str
) -> tuple[Sentence, tuple[str, ...]]:
    """(the sentence with its entities or tags as they are read, its tags); raises ValueError.

    Args:
      key: of its entities, if it is a text, or of the tags of its words, which are lists.
      scheme: of the tags that are returned.
    """
    count = len(sentence.words)
    marks = sentence.cells.get(key)
    if not isinstance(marks, list) or not sentence.text and len(marks) != count:
        expected = "entities" if sentence.text else f"a tag for each of {count} words"
        found = f"{json.dumps(marks):.200} in '{key}'"
        raise ValueError(f"found {found}, expected a list, {expected}; --label_column")
    if sentence.text:
        entities = _entities(sentence.text, marks)
        spans = _words_of(sentence, entities)
        sentence = sentence._replace(entities=entities)
        return sentence, schemes.tags_of(spans, count, scheme)
    spans = schemes.spans(marks, scheme)
    tags = schemes.tags_of(spans, count, scheme)
    cells = {**sentence.cells, key: tags}
    return sentence._replace(cells=cells), tags


def _entities(text: str, marks: Sequence[Any]) -> tuple[TagSpan, ...]:
    """Sorted (start, end, label), without spaces at their ends; raises ValueError."""
    entities: list[TagSpan] = []
    for entity in marks:
        parts = entity if isinstance(entity, list) else []
        if isinstance(entity, dict):
            parts = [entity.get(key) for key in ("start", "end", "label")]
        is_entity = [type(part) for part in parts] == [int, int, str]
        start, end, label = parts if is_entity else (0, 0, "")
        part = text[start:end]
        is_inside = 0 <= start < end <= len(text)
        if not label or not is_inside or not any(find_words(part)):
            found = f"{json.dumps(entity):.200} in a text of {len(text)} characters"
            expected = "[start, end, label] around a word"
            raise ValueError(f"found {found}, expected {expected}; --label_column")
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        entities.append((start, end, label))
    return tuple(sorted(entities))


def _words_of(sentence: Sentence, entities: Sequence[TagSpan]) -> list[TagSpan]:
    """The spans of words of entities of a text: all words that one overlaps. Raises ValueError."""
    spans = []
    starts, ends = zip(*sentence.places)
    free = 0  # the first word that belongs to no entity yet
    for start, end, label in entities:
        # Example: in "Mr. Smith's" an entity from 4 to 9 overlaps only the word at 4.
        first = bisect.bisect_right(ends, start)
        last = bisect.bisect_left(starts, end)
        if first < free:
            word = sentence.words[first]
            raise ValueError(f"found '{word}' in two entities, expected one")
        spans.append((first, last, label))
        free = last
    return spans
