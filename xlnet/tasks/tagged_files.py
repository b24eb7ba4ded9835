"""Sentences with tagged words: read from CoNLL-style files and JSON lines, and written again.

CoNLL-style: a word a line, its columns between tabs, or else between blanks; an empty line between
sentences. Columns have numbers from 1 on, or the names in the first line. Lines -DOCSTART- and,
where a sentence would begin, comments that begin with # stand for no word. A line of all columns is
a comment only in CoNLL-U's form, # name = value.

JSON lines: an object a line, with a text and, if it is labelled, its entities, [start, end, label]
in characters. Its words are runs of letters, runs of digits, each other sign, and each letter of a
script whose words stand next to each other, such as Chinese.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

from xlnet import files
from xlnet.errors import UserError, did_you_mean
from xlnet.tasks import readers, schemes
from xlnet.tasks.faults import Found
from xlnet.tasks.results import Entity, Tagged
from xlnet.tokenization import is_unspaced

_log = logging.getLogger(__name__)

ADDED = "predicted"                 # the column, or key, of what is predicted
_DOCUMENT = "-DOCSTART-"
JSON_SCHEME = "bio2"                # of the tags that entities become
_TEXT, _ENTITIES = "text", "entities"       # keys in JSON, where columns have numbers


class Lines(NamedTuple):
    """Where a sentence stands in a CoNLL-style file. before, after: lines without a word, as they
    are written again; rows: those of its words, to which a column is added; columns: of a row."""
    before: tuple[str, ...]
    rows: tuple[str, ...]
    after: tuple[str, ...]
    separator: str
    columns: int


class JsonLine(NamedTuple):
    """The object that a sentence stands in; starts, ends: of its words in the text [characters]."""
    line: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class Sentence(NamedTuple):
    """A sentence of W words. after_space: whether a word stands after a space, or at the beginning;
    None: the file does not say. tags: as in the file, None: it has none. numbers: lines."""
    words: tuple[str, ...]
    after_space: Optional[tuple[bool, ...]]
    tags: Optional[tuple[str, ...]]
    numbers: tuple[int, ...]
    source: Union[Lines, JsonLine]


def form_of(path: str) -> str:
    """The form of a file by its name: jsonl or conll."""
    return "jsonl" if path.endswith((".json", ".jsonl")) else "conll"


def read(path: str, form: str, word_column: str, tag_column: Optional[str],
         need_tags: bool, encoding: Optional[str] = None) -> Iterator[Sentence]:
    """Yields the sentences of a file, "-" is the standard input. They may be used when all have
    come: faults end the last one.

    Args:
      form: conll or jsonl.
      word_column, tag_column: numbers or names; in JSON lines numbers stand for `text` and
        `entities`. tag_column None: the last one.
      need_tags: whether a file without tags is refused.
      encoding: of the file's text; None: UTF-8, or as the file shows.

    Raises:
      UserError: names the first fault with its line, and the number of the others.
    """
    if isinstance(path, readers.Paths):
        return itertools.chain.from_iterable(
            read(each, form, word_column, tag_column, need_tags, encoding) for each in path.each)
    lines = readers.read_lines(path, "sentences with tagged words", encoding)
    if form == "jsonl":
        return _read_json(path, lines, _key(word_column, _TEXT), _key(tag_column, _ENTITIES),
                          need_tags)
    return _ConllReader(path, lines, word_column, tag_column, need_tags).read()


def _key(column, default):
    return default if column is None or column.isdecimal() else column


# ---- CoNLL-style files ----

class _ConllReader:
    """Reads the lines of one file; arguments as in `read`."""

    def __init__(self, path, lines, word_column, tag_column, need_tags):
        self._path = path
        self._lines = lines
        self._separator = "\t" if any("\t" in text for text in lines.chunks()) else " "
        names = [name for name in (word_column, tag_column) if name and not name.isdecimal()]
        self._header = next((i for i, line in enumerate(lines) if line.strip(" \t")), None) \
            if names else None
        first_row = next((row for row in enumerate(lines) if self._is_row(*row)), None)
        if first_row is None:
            raise UserError("%s: no words" % path)
        # The line that has all columns.
        self._model, line = first_row if self._header is None else next(
            itertools.islice(enumerate(lines), self._header, None))
        self._columns = self._cells(line)
        self._width = len(self._columns)
        self._word = self._position(word_column)
        self._tag = self._width - 1 if tag_column is None else self._position(
            tag_column, required=need_tags)
        if need_tags and self._tag == self._word:
            raise UserError("%s: column %s is that of the words and of the tags"
                            % (path, word_column))

    def _is_row(self, i, line):
        return bool(line.strip(" \t")) and i != self._header and not line.startswith("# ") \
            and not line.startswith(_DOCUMENT)

    def _cells(self, line):
        if self._separator == "\t":
            return [cell.strip(" ") for cell in line.split("\t")]
        return re.split(" +", line.strip(" "))

    def _position(self, column, required=True):
        """The index of a column by its number or name; None where it is not there."""
        if column.isdecimal():
            known = [str(number) for number in range(1, self._width + 1)]
        else:
            known = self._columns
        if column in known:
            return known.index(column)
        if not required:
            return None
        raise UserError("%s: no column '%s'%s (columns: %s)" % (
            self._path, column, did_you_mean(column, known), ", ".join(known)))

    def read(self):
        """Yields the sentences, in order."""
        faults, held = Found(), None         # held: a sentence that lines may follow
        before: list[str] = []               # lines without a word
        rows: list[tuple] = []               # (number, line, cells)
        for i, line in enumerate(self._lines):
            is_blank = not line.strip(" \t")
            if is_blank or i == self._header or line.startswith(_DOCUMENT):
                if rows:
                    if held:
                        yield held
                    held = self._sentence(tuple(before), rows)
                    before, rows = [], []
                before.append("" if is_blank else line + self._separator + (
                    ADDED if i == self._header else schemes.OUTSIDE))
                continue
            cells = self._cells(line)
            is_whole = len(cells) == self._width and bool(cells[self._word])
            if not rows and line.startswith("#") and (" = " in line or not is_whole):
                before.append(line)
            elif is_whole:
                rows.append((i + 1, line, cells))
            else:
                faults.add("%s:%d" % (self._path, i + 1), self._row_fault(cells))
        faults.refuse()
        if held and rows:
            yield held
        if rows:
            held, before = self._sentence(tuple(before), rows), []
        assert held, "there is a row, and no fault"
        yield held._replace(source=held.source._replace(after=tuple(before)))

    def _row_fault(self, cells):
        if len(cells) != self._width:
            return "%d column(s), expected %d as in line %d" % (
                len(cells), self._width, self._model + 1)
        return "column %d is empty, expected a word" % (self._word + 1)

    def _sentence(self, before, rows):
        numbers, lines, cells = zip(*rows)
        return Sentence(
            words=tuple(row[self._word] for row in cells), after_space=None,
            tags=None if self._tag is None else tuple(row[self._tag] for row in cells),
            numbers=numbers, source=Lines(before, lines, (), self._separator, self._width))


def conll_lines(sources: Iterable[Lines], tags: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a file with one column more: the tags of each sentence."""
    for source, column in zip(sources, tags):
        for line in source.before:
            yield line + "\n"
        for row, tag in zip(source.rows, column):
            yield row + source.separator + tag + "\n"
        for line in source.after:
            yield line + "\n"


# ---- JSON lines ----

def _read_json(path, lines, text_key, entities_key, need_tags):
    faults, notes = Found(), _Notes()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            sentence = _json_sentence(number, line, text_key, entities_key, need_tags, notes)
        except ValueError as e:
            faults.add("%s:%d" % (path, number), str(e))
        else:
            yield sentence
    faults.refuse()
    notes.say(path)


class _Notes:
    """What is not as a file has it: lines where entities are taken otherwise."""

    def __init__(self):
        self.widened = LineNumbers()
        self.left_out = LineNumbers()

    def say(self, path):
        for numbers, what in (
                (self.widened, "begin or end inside of a word and are taken with the whole of it"),
                (self.left_out, "share a word with the one before and are left out")):
            if numbers.count:
                _log.warning("note: %s: %d entities %s: line %s", path, numbers.count, what,
                             numbers)


class LineNumbers:
    """Where something was found: how often, and the first lines, in words."""
    _LISTED = 10

    def __init__(self) -> None:
        self.count = 0
        self._first: list[int] = []

    def add(self, number: int) -> None:
        self.count += 1
        if len(self._first) <= self._LISTED and number not in self._first:
            self._first.append(number)

    def __str__(self) -> str:
        return ", ".join(map(str, self._first[:self._LISTED])) + (
            ", ..." if len(self._first) > self._LISTED else "")


def _json_sentence(number, line, text_key, entities_key, need_tags, notes):
    """Raises ValueError for a fault."""
    try:
        value = files.parse_json(line)
    except ValueError as e:
        raise ValueError("not valid JSON: %s" % e) from None
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object, found %s" % type(value).__name__)
    text = value.get(text_key)
    if not isinstance(text, str) or not text.strip():
        raise ValueError("'%s' is %s, expected a text" % (
            text_key, "empty" if isinstance(text, str) else "no text"))
    words = _words_of(text, text_key)
    entities, tags = value.get(entities_key), None
    if entities is None and need_tags:
        raise ValueError("no '%s'" % entities_key)
    if entities is not None:
        tags = _tags_of_entities(text, words, _checked_entities(text, entities, entities_key),
                                 number, notes)
    return _sentence(text, words, tags, number, line)


def _words_of(text, text_key):
    words = list(find_words(text))
    if not words:
        raise ValueError("'%s' has no word" % text_key)
    return words


def _sentence(text, words, tags, number, line):
    return Sentence(
        words=tuple(text[start:end] for start, end in words),
        after_space=tuple(start == 0 or text[start - 1].isspace() for start, _ in words),
        tags=tags, numbers=(number,) * len(words), source=JsonLine(line, *zip(*words)))


# ---- without a file

def of_text(text: str) -> Sentence:
    """The sentence of a text, whose words are those of JSON lines. Raises ValueError for a text
    without words."""
    return _sentence(text, _words_of(text, _TEXT), None, 1,
                     json.dumps({_TEXT: text}, ensure_ascii=False))


def of_words(words: Sequence[str]) -> Sentence:
    """The sentence of given words, as the lines of a CoNLL-style file. Raises ValueError unless
    each is a word."""
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError("expected one or more words, none of them empty")
    return Sentence(tuple(words), None, None, tuple(range(1, len(words) + 1)),
                    Lines((), tuple(words), (), "\t", 1))


def tagged(sentence: Sentence, spans: Sequence[schemes.Span], scheme: str) -> Tagged:
    """A sentence with the entities that were found, and their tags in a scheme. Entities are places
    in the text, or, where there is none, among the words."""
    source, words = sentence.source, sentence.words
    if isinstance(source, JsonLine):
        text = json.loads(source.line)[_TEXT]
        places = [(source.starts[first], source.ends[last - 1]) for first, last, _ in spans]
        texts = [text[start:end] for start, end in places]
    else:
        places = [(first, last) for first, last, _ in spans]
        texts = [" ".join(words[first:last]) for first, last in places]
    return Tagged(words, tuple(schemes.tags_of(spans, len(words), scheme)), tuple(
        Entity(label, text, *place) for (_, _, label), text, place in zip(spans, texts, places)))


def _checked_entities(text, entities, key):
    """Sorted (start, end, label); raises ValueError for a fault."""
    if not isinstance(entities, list):
        raise ValueError("'%s' is no list" % key)
    for entity in entities:
        if not (isinstance(entity, list) and len(entity) == 3
                and [type(part) for part in entity] == [int, int, str] and entity[2]
                and 0 <= entity[0] < entity[1] <= len(text)):
            raise ValueError("'%s' has %s, expected [start, end, label] with 0 <= start < end <= %d"
                             % (key, json.dumps(entity, ensure_ascii=False), len(text)))
        if not any(True for _ in find_words(text[entity[0]:entity[1]])):
            raise ValueError("'%s' has %s, which is no word" % (
                key, json.dumps(entity, ensure_ascii=False)))
    entities = sorted(entities)
    for one, other in zip(entities, entities[1:]):
        if other[0] < one[1]:
            raise ValueError("'%s': %s and %s overlap" % (
                key, json.dumps(one, ensure_ascii=False), json.dumps(other, ensure_ascii=False)))
    return entities


def _tags_of_entities(text, words, entities, number, notes):
    """The words' tags; an entity is of all words that it touches."""
    starts, ends = zip(*words)
    spans, free = [], 0
    for start, end, label in entities:
        part = text[start:end]
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        first, last = bisect.bisect_right(ends, start), bisect.bisect_left(starts, end)
        if (starts[first], ends[last - 1]) != (start, end):
            notes.widened.add(number)
        if first < free:
            notes.left_out.add(number)
            continue
        spans.append((first, last, label))
        free = last
    return schemes.tags_of(spans, len(words), JSON_SCHEME)


def find_words(text: str) -> Iterator[tuple[int, int]]:
    """Yields where the words of a text begin and end, by the rule of the module's first lines;
    combining marks belong to the word before."""
    start, word = 0, ""             # where the word before begins, and what it is made of
    for i, char in enumerate(text):
        kind = kind_of(char)
        if word and (kind == "mark" or kind == word != "single"):
            continue
        if word:
            yield start, i
        start, word = i, kind
    if word:
        yield start, len(text)


@functools.cache
def kind_of(char):
    """What a word of this character is made of, "letter", "digit" or, of it alone, "single"; "mark"
    for what belongs to the word before; "" where there is no word."""
    category = unicodedata.category(char)[0]
    if category in "ZC" or char.isspace():
        return ""
    if category == "M":
        return "mark"
    if category == "N":
        return "digit"
    return "letter" if category == "L" and not is_unspaced(char) else "single"


def json_lines(sources: Iterable[JsonLine],
               spans: Iterable[Sequence[schemes.Span]]) -> Iterator[str]:
    """Yields JSON lines with one key more: the entities of each text, [start, end, label]."""
    for source, entities in zip(sources, spans):
        value: dict[str, Any] = json.loads(source.line)
        value[ADDED] = [[source.starts[first], source.ends[last - 1], label]
                        for first, last, label in entities]
        yield json.dumps(value, ensure_ascii=False) + "\n"
