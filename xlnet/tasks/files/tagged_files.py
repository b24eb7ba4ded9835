"""Sentences with tagged words: read from columns, JSON or raw text, and written with predictions.

Columns (CoNLL): a word a line, its columns between tabs or spaces; an empty line between sentences.
Columns have numbers from 1 on, or the names in the first line. These lines are not words:
-DOCSTART-; comments that begin with # before a sentence (CoNLL-U's `# name = value`, GermEval's
`#<TAB>url`, CoNLL-2012's `#begin document`); CoNLL-U's ranges `1-2` and empty nodes `8.1`.

JSON: an object a line, or a list of objects. An object has a text and, if it is labelled, its
entities (spaCy, Prodigy, doccano), in characters; or tokens and their tags (Hugging Face). The
words of a text are those of `find_words`.

Raw text: a sentence a line.
"""

from __future__ import annotations

import bisect
import collections
import functools
import itertools
import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

from xlnet.errors import UserError
from xlnet.tasks.files import readers, schemes
from xlnet.tasks.files.faults import Found
from xlnet.tasks.output.results import Entity, Tagged
from xlnet.tokenization.tokenizer import is_text, is_unspaced

_log = logging.getLogger(__name__)

_NOT_TEXT = "not UTF-8: bytes that are no characters"
ADDED = "predicted"                 # the column, or key, of predictions
_DOCUMENT = "-DOCSTART-"
_CONLL_2012 = "#begin document"
_CONLL_2012_COLUMNS = "4", "11"     # of the words and of the entities
JSON_SCHEME = "bio2"                # of the tags that entities become
_LOOKED_AT = 1000                   # lines by which a file's form is recognized
_RANGE = re.compile(r"\d+[-.]\d+")  # in place of a word's number

# Keys of JSON objects if columns have numbers; the first one that exists is used.
_TEXTS = ("text", "tokens", "words")
_ENTITIES = ("entities", "spans", "ents", "label", "labels")        # of a text
_TAGS = ("ner_tags", "tags", "labels", "ner")                       # of tokens
_PARTS = (("start", "start_offset"), ("end", "end_offset"),
          ("label", "type", "labels"))       # of an entity; Label Studio: a list of one label
_WEBANNO = "#FORMAT=WebAnno"


class Lines(NamedTuple):
    """A sentence's lines in a file with columns."""
    before: tuple[str, ...]         # lines without a word, as they are written again
    rows: tuple[str, ...]           # lines of its words, to which a column is added
    after: tuple[str, ...]          # lines without a word at the end of the file
    separator: str                  # between the columns
    word_column: str = "1"          # numbers from 1 on; "" for none
    tag_column: str = ""


class JsonLine(NamedTuple):
    """The object of a sentence in JSON."""
    line: str
    text: str                       # "" if it has tokens
    starts: tuple[int, ...]         # of the words in the text [characters]
    ends: tuple[int, ...]


class Sentence(NamedTuple):
    """A sentence of W words."""
    words: tuple[str, ...]
    after_space: Optional[tuple[bool, ...]]     # or at the beginning; None: not known
    tags: Optional[tuple[str, ...]]             # as in the file; None: it has none
    places: tuple[str, ...]                     # of the words in the file, for errors
    source: Union[Lines, JsonLine]
    # (start, end, label) in characters, as in the file; None: it has tags, or nothing.
    entities: Optional[tuple[tuple[int, int, str], ...]] = None


def read(path: str, form: Optional[str], word_column: str, tag_column: Optional[str],
         need_tags: bool, *, encoding: Optional[str] = None,
         delimiter: Optional[str] = None, skips: bool = False) -> Iterator[Sentence]:
    """Yields the sentences of a file, or of several. Errors are raised after the last one.

    Args:
      path: of the file; "-": the standard input.
      form: conll, jsonl or text; None: recognized by the content.
      word_column: a number or a name; in JSON, any number: the first known key.
      tag_column: the same; None: the last one.
      need_tags: whether a file without tags is refused.
      encoding: of the file; None: as it shows.
      delimiter: between columns; None: as the file shows.
      skips: leave out sentences with errors, with a warning that counts them.

    Raises:
      UserError: names the first error with its line, and the number of the others.
    """
    forms: dict[str, str] = {}      # to the first file
    for each in readers.each_path(path):
        lines = readers.read_lines(each, "sentences with tagged words", encoding, skips)
        its_form = form or _form_of(each, lines, need_tags)
        forms.setdefault(its_form, each)
        if len(forms) > 1 and not need_tags:    # predictions are written in the form of the file
            raise UserError("%s and %s have different forms: %s; expected files of one form to "
                            "predict" % (*forms.values(), " and ".join(forms)))
        if its_form == "text":
            yield from _sentences(each, readers.by_line(each, (
                pair for pair in enumerate(lines, 1) if pair[1].strip())), of_text, skips)
        elif its_form == "jsonl":
            objects = _Objects(word_column, tag_column, need_tags)
            yield from _sentences(each, readers.json_values(each, lines), objects.sentence, skips)
            objects.notes.note(each, "entities or examples are not used as they are")
        else:
            yield from _Columns(each, lines, word_column, tag_column, need_tags,
                                delimiter).read(skips)


def _sentences(path, values, sentence, skips):
    """Yields `sentence(value, place)` of (place, value) pairs, unless it is None; its ValueErrors
    are the errors of the file."""
    errors = Found()
    for place, value in values:
        try:
            made = sentence(value, place)
        except ValueError as e:
            errors.add(place, str(e))
        else:
            if made:
                yield made
    errors.end(path, skips)


# ---- the form of a file

def _form_of(path, lines, need_tags):
    """The form of a file by its content; a file that must have tags is not raw text."""
    if path.endswith((".json", ".jsonl")) or re.match(r'\{\s*"|\[\s*[{"\[]', lines.start()):
        return "jsonl"
    looked_at = lines.first(_LOOKED_AT)
    rows = _without_comments(looked_at)
    if need_tags or not rows or rows[0].startswith(_CONLL_2012) or _separator(rows) == "\t":
        return "conll"
    if _is_text(path, rows, any(not line.strip() for line in looked_at)):
        _log.info("note: %s is read as raw text, a sentence a line (--predict_form=conll: a word a "
                  "line)", path)
        return "text"
    return "conll"


def _without_comments(lines):
    return [line for line in lines if line.strip() and not line.startswith((_DOCUMENT, "# "))]


def _separator(rows):
    """The separator of columns: tabs if most rows have one."""
    return "\t" if 2 * sum("\t" in row for row in rows) > len(rows) else " "


def _is_text(path, rows, has_blank):
    """Whether lines without tabs are sentences, not words with columns; has_blank: whether there
    are empty lines between them."""
    cells = [row.split() for row in rows]
    width, count = collections.Counter(map(len, cells)).most_common(1)[0]
    if sum(row[-1] != row[0] and schemes.tag_fault(row[-1]) is None for row in cells) > len(
            rows) / 2:
        return False
    if count < 0.9 * len(rows):
        return True
    if width == 1:
        # A line of several words without spaces is longer than a word.
        longest = 3 if is_unspaced(rows[0].strip()) else 15
        return sum(len(row.strip()) for row in rows) > longest * len(rows)
    if len(rows) == 1 or 2 * sum(
            len(row[-1]) > 1 and row[-1][-1] in ".!?…。！？।" for row in cells) > len(rows):
        return True
    if has_blank:
        return False
    raise UserError("%s: %d lines of %d words each may be sentences or a word a line with its "
                    "columns; give --predict_form=text or --predict_form=conll" % (
                        path, len(rows), width))


# ---- CoNLL-style files ----

_COMMAS = "; between columns with commas give --delimiter=, with --word_column and --tag_column, " \
    "and an empty line between sentences instead of a column of their numbers"


class _Columns:
    """Reads the lines of one file; arguments as in `read`."""

    def __init__(self, path, lines, word_column, tag_column, need_tags, delimiter):
        self._path = path
        self._lines = lines
        if lines.start().startswith(_WEBANNO):
            raise UserError("%s: WebAnno TSV; expected INCEpTION's or WebAnno's export CoNLL 2002"
                            % path)
        self._separator = delimiter or _separator(_without_comments(lines.first(_LOOKED_AT)))
        self._is_2012 = lines.start().startswith(_CONLL_2012)
        if self._is_2012 and (word_column, tag_column) == ("1", None):
            word_column, tag_column = _CONLL_2012_COLUMNS
            _log.info("note: %s is read as CoNLL-2012: words in column %s, entities in column %s",
                      path, word_column, tag_column)
        self._header = None             # the line of the columns' names
        if any(name and not name.isdecimal() for name in (word_column, tag_column)):
            self._header, line = next(pair for pair in enumerate(lines) if pair[1].strip(" \t"))
        first_row = next((pair for pair in enumerate(lines) if self._is_row(*pair)), None)
        if first_row is None:
            raise UserError("%s: no words" % path)
        # The line that has all columns.
        self._model, line = first_row if self._header is None else (self._header, line)
        self._columns = self._cells(line)
        self._width = len(self._columns)
        self._word = self._position(word_column)
        self._tag = self._width - 1 if tag_column is None else self._position(
            tag_column, required=need_tags)
        self._counts = self._counts_words()
        if self._counts and self._word == 0:
            if self._width == 1 or need_tags and self._tag == 1:
                raise UserError("%s: column 1 counts the words (1, 2, 3), expected words; give "
                                "--word_column" % path)
            self._word = 1
            _log.info("note: %s: column 1 counts the words, column 2 is taken for the words", path)
        if need_tags and not self._columns[self._tag] and tag_column is None:
            filled = [i for i, cell in enumerate(self._columns) if cell]
            raise UserError("%s: the last column is empty, expected tags; give --tag_column=%d" % (
                path, filled[-1] + 1))
        if need_tags and self._tag == self._word:
            raise UserError("%s: column %s is that of the words and of the tags%s" % (
                path, word_column, _COMMAS if "," in line else ""))

    def _is_row(self, i, line):
        return bool(line.strip(" \t")) and i != self._header \
            and not line.startswith((_DOCUMENT, "# ", "#\t", _CONLL_2012)) \
            and not (line.startswith("#") and " = " in line)

    def _cells(self, line):
        if self._separator == " ":
            return re.split("[ \t]+", line.strip(" \t"))
        return [cell.strip(" ") for cell in line.split(self._separator)]

    def _position(self, column, required=True):
        """The index of a column by its number or name; None if it does not exist."""
        known = self._columns
        if column.isdecimal():
            known = [str(number) for number in range(1, self._width + 1)]
        if required and len(known) < 3 and "," in "".join(known) and column not in known:
            raise UserError("%s: %s%s" % (
                self._path, readers.no_column(column, known), _COMMAS))
        return readers.column(self._path, column, known) if required or column in known else None

    def _counts_words(self):
        """Whether the first column counts the words of each sentence, from 1 or 0 on."""
        before, count = None, 0
        for i, line in enumerate(self._lines.first(_LOOKED_AT)):
            if not line.strip(" \t"):
                before = None
            elif self._is_row(i, line) and not (before is None and line.startswith("#")):
                cell = self._cells(line)[0]
                if not _RANGE.fullmatch(cell):
                    if cell not in (("0", "1") if before is None else (str(before + 1),)):
                        return False
                    before, count = int(cell), count + 1
        return count > 1

    def read(self, skips):
        """Yields the sentences, in order."""
        errors, known, last = Found(), 0, None      # known: errors of the sentences before
        before: list[str] = []               # lines without a word
        rows: list[tuple] = []               # (place, line, cells)
        ranges: list[str] = []               # lines of CoNLL-U that are written before the next row
        for i, line in enumerate(itertools.chain(self._lines, [""])):     # the end is a border
            is_blank = not line.strip(" \t")
            is_mark = self._is_2012 and line.startswith("#")
            if is_blank or is_mark or i == self._header or line.startswith(_DOCUMENT):
                if rows and not (skips and len(errors) > known):
                    sentence = self._sentence(tuple(before), rows, errors)
                    if sentence:
                        if last:
                            yield last
                        last, before = sentence, []
                known, rows = len(errors), []
                before += [row.rstrip("\n") for row in ranges]
                ranges.clear()
                before.append("" if is_blank else line if is_mark else line + self._separator + (
                    ADDED if i == self._header else schemes.OUTSIDE))
                continue
            cells, place = self._cells(line), "%s:%d" % (self._path, i + 1)
            is_complete = self._is_complete(cells, rows)
            if not rows and line.startswith("#") and (" = " in line or self._counts
                                                      or not is_complete):
                before.append(line)
            elif self._counts and self._word and _RANGE.fullmatch(cells[0]):
                ranges.append(line + self._separator + "_\n")
            elif not is_text(line):
                errors.add(place, _NOT_TEXT)
            elif is_complete:
                rows.append((place, "".join((*ranges, line)), cells))
                ranges.clear()
            elif len(cells) != self._width:
                errors.add(place, "%d column(s), expected %d as in line %d%s" % (
                    len(cells), self._width, self._model + 1,
                    _COMMAS if "," in line and self._separator != "," else ""))
            else:
                errors.add(place, "column %d is empty, expected a word" % (self._word + 1))
        errors.end(self._path, skips and bool(last))
        if last is None:
            raise UserError("%s: no words" % self._path)
        yield last._replace(source=last.source._replace(after=tuple(before[:-1])))

    def _is_complete(self, cells, rows):
        """Whether a row has all columns; in CoNLL-2012 their number differs between sentences."""
        width = self._width
        if self._is_2012:
            width = len(rows[0][2]) if rows else max(
                len(cells), 1 + max(self._word, self._tag or 0))
        return len(cells) == width and bool(cells[self._word])

    def _sentence(self, before, rows, errors):
        """The sentence of some rows; None, and one more of `errors`, if its tags are wrong."""
        places, lines, cells = zip(*rows)
        tags = None
        if self._tag is not None:
            try:
                tags = _without_brackets(tuple(row[self._tag] for row in cells))
            except ValueError as e:
                errors.add(places[0], str(e))
                return None
        return Sentence(
            words=tuple(row[self._word] for row in cells), after_space=None, tags=tags,
            places=places, source=Lines(
                before, lines, (), self._separator, str(self._word + 1),
                "" if self._tag is None else str(self._tag + 1)))


_BRACKET = re.compile(r"(?:\(([^()*]+))?\*?(\))?")


def _without_brackets(tags):
    """CoNLL-2012's brackets, "(PERSON*" "*)", as bio2 tags; other tags unchanged. Raises ValueError
    if brackets are nested or do not match."""
    parts = [part for part in map(_BRACKET.fullmatch, tags) if part]
    if len(parts) < len(tags) or not any("*" in tag or "(" in tag for tag in tags):
        return tags
    found, label = [], None         # label: of the entity that is open
    for tag, part in zip(tags, parts):
        begins, ends = part.groups()
        if begins and label or ends and not (begins or label):
            raise ValueError("tag '%s' %s, expected entities in brackets that are not nested" % (
                tag, "opens inside of another one" if begins else "closes what is not open"))
        label = begins or label
        found.append("%s-%s" % ("B" if begins else "I", label) if label else schemes.OUTSIDE)
        label = None if ends else label
    if label:
        raise ValueError("the bracket of '%s' is not closed in its sentence" % label)
    return tuple(found)


def conll_lines(sources: Iterable[Lines], tags: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a file with one column more: the tags of each sentence."""
    for source, column in zip(sources, tags):
        rows = (row + source.separator + tag for row, tag in zip(source.rows, column))
        for line in (*source.before, *rows, *source.after):
            yield line + "\n"


# ---- JSON ----

class _Objects:
    """Makes sentences of objects; arguments as in `read`. notes: what is not used as it is."""

    def __init__(self, word_column, tag_column, need_tags):
        self._text_keys = _TEXTS if word_column.isdecimal() else (word_column,)
        self._tag_keys = () if tag_column is None or tag_column.isdecimal() else (tag_column,)
        self._need_tags = need_tags
        self.notes = Found()

    def sentence(self, value, place):
        """None for an example that an annotator rejected; raises ValueError for an error."""
        if isinstance(value, ValueError):
            raise value
        if isinstance(value, list) and list(map(type, value)) == [str, dict]:
            value = dict(value[1], text=value[0])       # spaCy: [text, {"entities": ...}]
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object, found %s" % type(value).__name__)
        if self._need_tags and value.get("answer") in ("reject", "ignore"):     # Prodigy
            self.notes.add(place, "an example whose answer is reject or ignore is left out")
            return None
        key = next((key for key in self._text_keys if value.get(key) is not None), None)
        if key is None and {"annotations", "data"} <= value.keys():
            raise ValueError("Label Studio's complete JSON; expected its export JSON-MIN, or "
                             "CoNLL2003")
        if key is None:
            raise ValueError("no '%s' (keys: %s)" % (
                "' or '".join(self._text_keys), ", ".join(value) or "none"))
        line = json.dumps(value, ensure_ascii=False)
        if not is_text(line):
            raise ValueError("an escape such as \\ud83d that is half a character")
        if isinstance(value[key], list):
            tag_key = self._tag_key(value, _TAGS)
            words = _checked_words(value[key], "'%s' has" % key)
            tags = None if tag_key is None else self._checked_tags(words, value[tag_key], tag_key)
            return Sentence(words, None, tags, (place,) * len(words), JsonLine(line, "", (), ()))
        text = value[key]
        if not isinstance(text, str) or not text.strip():
            raise ValueError("'%s' is %s, expected a text" % (
                key, "empty" if isinstance(text, str) else "not a text"))
        made = of_text(text, place, line, key)
        tag_key = self._tag_key(value, _ENTITIES)
        if tag_key is None:
            return made
        entities = _checked_entities(text, value[tag_key], tag_key)
        return made._replace(entities=entities, tags=self._tags(made.source, entities, place))

    def _tag_key(self, value, names):
        """The key of the entities or tags, None if it does not exist and is not needed."""
        key = next((key for key in self._tag_keys or names if value.get(key) is not None), None)
        if key is None and self._need_tags:
            raise ValueError("no '%s'" % (self._tag_keys or names)[0])
        return key

    def _checked_tags(self, words, tags, key):
        """The tags of tokens; None if they are numbers and not needed."""
        if not isinstance(tags, list) or len(tags) != len(words):
            raise ValueError("'%s' has %s, expected a tag for each of %d words" % (
                key, len(tags) if isinstance(tags, list) else _shown(tags), len(words)))
        wrong = [tag for tag in tags if not isinstance(tag, str)]
        if wrong and self._need_tags:
            raise ValueError("'%s' has %s, expected tags such as B-PER; in datasets, "
                             "features['%s'].feature.names has the names of numbers" % (
                                 key, _shown(wrong[0]), key))
        return None if wrong else tuple(tags)

    def _tags(self, source, entities, place):
        """The tags of a text's words; an entity has all words that it overlaps."""
        spans, free = [], 0
        for start, end, label in entities:
            first = bisect.bisect_right(source.ends, start)
            last = bisect.bisect_left(source.starts, end)
            if (source.starts[first], source.ends[last - 1]) != (start, end):
                self.notes.add(place, "an entity begins or ends inside of a word: the complete "
                               "word is tagged, so it is counted as wrong in an evaluation")
            if first < free:
                self.notes.add(place, "an entity shares a word with the one before and is not "
                               "learned")
                continue
            spans.append((first, last, label))
            free = last
        return schemes.tags_of(spans, len(source.starts), JSON_SCHEME)


def _shown(value):
    return json.dumps(value, ensure_ascii=False)


def _checked_words(words, what):
    """Words as a tuple; raises ValueError, which begins with `what`, unless each is a word."""
    wrong = [word for word in words if not isinstance(word, str) or not word.strip()]
    if wrong or not words:
        raise ValueError("%s %s, expected one or more words, none of them empty" % (
            what, _shown(wrong or words)))
    return tuple(words)


def _checked_entities(text, entities, key):
    """Sorted (start, end, label), without spaces at their ends; raises ValueError for an error."""
    if not isinstance(entities, list):
        raise ValueError("'%s' is not a list" % key)
    found = []
    for entity in entities:
        parts = [next((entity[name] for name in names if name in entity), None)
                 for names in _PARTS] if isinstance(entity, dict) else entity
        if isinstance(parts, list) and parts and isinstance(parts[-1], list) \
                and len(parts[-1]) == 1:
            parts = [*parts[:-1], *parts[-1]]
        if not (isinstance(parts, list) and [type(part) for part in parts] == [int, int, str]
                and parts[2] and 0 <= parts[0] < parts[1] <= len(text)):
            raise ValueError("'%s' has %s, expected [start, end, label] with 0 <= start < end <= %d"
                             % (key, _shown(entity), len(text)))
        start, end, label = parts
        part = text[start:end]
        if not any(find_words(part)):
            raise ValueError("'%s' has %s, which is not a word" % (key, _shown(entity)))
        found.append((start + len(part) - len(part.lstrip()),
                      end - len(part) + len(part.rstrip()), label))
    found.sort()
    for one, other in zip(found, found[1:]):
        if other[0] < one[1]:
            raise ValueError("'%s': %s and %s overlap" % (key, _shown(one), _shown(other)))
    return tuple(found)


def json_lines(sources: Iterable[JsonLine], spans: Iterable[Sequence[schemes.Span]],
               tags: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields JSON lines with one key more: the entities of each text, [start, end, label], or the
    tags of its tokens."""
    for source, entities, column in zip(sources, spans, tags):
        value: dict[str, Any] = json.loads(source.line)
        value[ADDED] = [[source.starts[first], source.ends[last - 1], label]
                        for first, last, label in entities] if source.text else list(column)
        yield json.dumps(value, ensure_ascii=False) + "\n"


# ---- words of a text

def find_words(text: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of the words of a text: runs of letters, runs of digits, each other sign,
    each letter of a script without spaces between words, such as Chinese, and each syllable of
    Hangul, whose words end in particles that do not belong to an entity. Combining marks belong to
    the word before."""
    start, word = 0, ""             # of the word before: its start and the kind of its characters
    for i, char in enumerate(text):
        kind = kind_of(char)
        if word and (kind == "mark" or kind == word != "single"):
            continue
        if word:
            yield start, i
        start, word = i, kind
    if word:
        yield start, len(text)


# Hangul syllables, and the letters that begin one; those that continue one are marks.
_SYLLABLE = re.compile("[\u1100-\u115f\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3]")
_IN_SYLLABLE = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")


@functools.cache
def kind_of(char):
    """The kind of a character: "letter", "digit"; "single", a word alone; "mark", which belongs to
    the word before; "", which is not in a word."""
    category = unicodedata.category(char)[0]
    if category in "ZC" or char.isspace():
        return ""
    if category == "M" or _IN_SYLLABLE.match(char):
        return "mark"
    if category == "N":
        return "digit"
    return "letter" if category == "L" and not is_unspaced(char) and not _SYLLABLE.match(char) \
        else "single"


# ---- without a file

def of_text(text: str, place: str = "", line: str = "", key: str = _TEXTS[0]) -> Sentence:
    """The sentence of a text, with the same words as in JSON.

    Args:
      place: of the text, for errors.
      line: its object in JSON; "": one that has only the text.
      key: that of the text.

    Raises:
      ValueError: a text without words.
    """
    words = list(find_words(text))
    if not words:
        raise ValueError("'%s' has no word" % key)
    if not is_text(text):
        raise ValueError(_NOT_TEXT)
    return Sentence(
        words=tuple(text[start:end] for start, end in words),
        after_space=tuple(start == 0 or text[start - 1].isspace() for start, _ in words),
        tags=None, places=(place,) * len(words),
        source=JsonLine(line or _shown({key: text}), text, *zip(*words)))


def of_words(words: Sequence[str]) -> Sentence:
    """The sentence of given words, as in a CoNLL-style file. Raises ValueError unless each is a
    word."""
    checked = _checked_words(words, "there are")
    return Sentence(checked, None, None, ("",) * len(checked), Lines((), checked, (), "\t"))


def located(sentence: Sentence, spans: Iterable[schemes.Span]) -> list[tuple[int, int, str]]:
    """Entities in the characters of the sentence's text or, if it has none, in its words."""
    source = sentence.source
    if isinstance(source, JsonLine) and source.text:
        return [(source.starts[first], source.ends[last - 1], label)
                for first, last, label in spans]
    return list(spans)


def tagged(sentence: Sentence, spans: Sequence[schemes.Span], scheme: str) -> Tagged:
    """A sentence with predicted entities, as `located` returns them, and their tags in a scheme."""
    source, words = sentence.source, sentence.words
    text = source.text if isinstance(source, JsonLine) else ""
    return Tagged(words, tuple(schemes.tags_of(spans, len(words), scheme)), tuple(
        Entity(label, text[start:end] if text else " ".join(words[start:end]), start, end)
        for start, end, label in located(sentence, spans)))
