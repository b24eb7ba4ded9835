"""Sentences with tagged words: from files and texts, and written again with predictions.

    form      extension          content
    conll     any other          a word a line with its columns, an empty line between sentences
    jsonl     .jsonl, .ndjson    an object a line: a text and its entities, or tokens and tags
    json      .json              a list of such objects, or an object whose `data` is the list
    parquet   .parquet           a table whose rows are such objects
    text      -                  a sentence a line, without tags

A form is declared by --input_format, or by the extension.

Columns are split at the declared delimiter, or at spaces and tabs, and have numbers from 1 on, or
the names in the first line. Lines that begin with -DOCSTART- are not words, nor are comments before
a sentence, if their mark is declared. An object has a text and its entities, [start, end, label] or
an object with these keys, in characters; or a list of tokens and a list of tags.
"""

from __future__ import annotations

import bisect
import csv
import itertools
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

from xlnet.corpus.tokenizer import is_text, is_unspaced
from xlnet.support import encodings
from xlnet.support.errors import wrong
from xlnet.tasks.files import forms, readers
from xlnet.tasks.files.table_rows import NOT_TEXT, RowErrors
from xlnet.tasks.tagging import schemes
from xlnet.tasks.tagging.schemes import TagSpan
from xlnet.tasks.task import Form, Task

ADDED = "predicted"  # the column, or key, of predictions
_DOCUMENT = "-DOCSTART-"
_WHAT = "sentences with tagged words"  # the role of a file in errors


class ColumnLines(NamedTuple):
    """A sentence's lines in a file with columns."""

    before: tuple[str, ...]  # lines without a word, as they are written again
    rows: tuple[str, ...]  # lines of its words, to which a column is added
    after: tuple[str, ...]  # lines without a word at the end of the file
    delimiter: Optional[str]  # None: spaces and tabs


class Sentence(NamedTuple):
    """A sentence of W words, from a text, from tokens, or from columns."""

    words: tuple[str, ...]
    tags: Optional[tuple[str, ...]] = None  # as in the file; None: they are not needed
    lines: Optional[ColumnLines] = None  # of columns
    line: str = ""  # the object in JSON of another one
    text: str = ""  # "": it has words alone
    starts: tuple[int, ...] = ()  # of the words in the text [characters]
    ends: tuple[int, ...] = ()
    # (start, end, label) in characters, as in the file; None: it has tags, or nothing.
    entities: Optional[tuple[TagSpan, ...]] = None

    def located(self, spans: Iterable[TagSpan]) -> list[TagSpan]:
        """Spans of words in the characters of the text or, if there is none, as they are."""
        if not self.text:
            return list(spans)
        found = []
        for first, last, label in spans:
            found.append((self.starts[first], self.ends[last - 1], label))
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


def sentence_of(content: Union[str, Sequence[str]], line: str = "") -> Sentence:
    """The sentence of a text, or of words; raises ValueError.

    Args:
      content: the text, with a word or more, or words, none of them empty.
      line: its object in JSON, where a file has one.
    """
    line = line or json.dumps({"text": content}, ensure_ascii=False)
    if not is_text(line):
        raise ValueError(NOT_TEXT)
    if isinstance(content, str):
        found = list(find_words(content))
        if not found:
            raise ValueError(f"found the text {json.dumps(content)}, expected a word")
        starts, ends = zip(*found)
        words = tuple(content[start:end] for start, end in found)
        return Sentence(words, line=line, text=content, starts=starts, ends=ends)
    are_words = all(isinstance(each, str) and each.strip() for each in content)
    if not content or not are_words:
        shown = json.dumps(content, ensure_ascii=False)
        expected = "one or more words, none of them empty"
        raise ValueError(f"found {shown:.200}, expected {expected}")
    return Sentence(tuple(content), line=line)


# ---- files


def read(
    task: Task, path: str, need_tags: bool, labels: Optional[Collection[str]] = None
) -> Iterator[Sentence]:
    """Yields the sentences of a file, or of several; raises UserError for all errors of a file
    behind its last sentence. A sentence with an error is left out where the task says so.

    Args:
      task: with the declarations of its files, and the scheme of their tags.
      path: of the file or files.
      need_tags: whether sentences without tags are errors; if not, tags are not read.
      labels: those of the training; None: any.
    """
    for number, each in enumerate(readers.each_path(path)):
        form = readers.declared_form(task, each)
        reader = _Reader(task, form, need_tags, labels)
        if form.name in ("jsonl", "ndjson", "json", "parquet", "text"):
            found = reader.objects(each)
        else:
            # A sentence ends with its file, also where the lines of several are written as one.
            found = reader.columns(each, before=[""] if number else [])
        count = 0
        for sentence in found:
            count += 1
            yield sentence
        if task.files.skips_errors and count:
            reader.errors.note(each, "entries with errors are skipped")
        else:
            reader.errors.refuse()
        if not count:
            raise wrong(each, "no sentences", "words")


class _Reader:
    """Reads a file of sentences, and keeps the errors of those that are left out."""

    def __init__(
        self,
        task: Task,
        form: Form,
        need_tags: bool,
        labels: Optional[Collection[str]],
    ):
        self.errors = RowErrors()
        self._form = form
        self._need_tags = need_tags
        self._labels = labels
        self._scheme = task.options.scheme
        self._comment = task.options.comment
        self._word_column = task.columns.text_a[0]
        self._tag_column = "".join(task.columns.label[:1])
        self._delimiter = form.delimiter
        self._count = 0  # columns; 0: not known yet
        self._word = self._tag = 0  # indices of their columns

    def _checked(self, tag: str) -> str:
        """A tag in Unicode's composed form; raises ValueError for one that does not fit."""
        if not self._need_tags:
            return ""
        tag = encodings.composed(tag)
        schemes.check(tag, self._scheme, self._labels)
        return tag

    # ---- columns

    def columns(self, path: str, before: list[str]) -> Iterator[Sentence]:
        """The sentences of columns. before: lines that are written before those of the file."""
        if not self._delimiter:
            self._delimiter = forms.DELIMITERS.get(readers.extension(path))
        delimiter = self._delimiter
        last: Optional[Sentence] = None  # complete, but for the lines after it
        found: list[tuple[str, str, str]] = []  # (word, tag, line) of the sentence
        has_error = False
        lines = forms.lines(path, _WHAT, self._form.encoding)
        for number, line in enumerate(itertools.chain(lines, [""]), 1):
            between = self._between(line, is_first=not found)
            if between is not None:
                if found and not has_error:
                    if last:
                        yield last
                    words, tags, rows = zip(*found)
                    its_lines = ColumnLines(tuple(before), rows, (), delimiter)
                    last = Sentence(words, tags if self._need_tags else None, its_lines)
                    before = []
                found, has_error = [], False
                before.append(between)
                continue
            try:
                pair = self._word_and_tag(line)
                if pair:
                    found.append((*pair, line))
                else:
                    before.append(_with_cell(line, ADDED, delimiter))
            except ValueError as e:
                self.errors.add(f"{path}:{number}", str(e))
                if not self._count:  # else each line would have this error
                    return
                found.append(("", "", line))
                has_error = True
        if last and last.lines:
            after = tuple(before[:-1])  # without the line that was added
            yield last._replace(lines=last.lines._replace(after=after))

    def _between(self, line: str, is_first: bool) -> Optional[str]:
        """A line without a word as it is written again: an empty one, one that begins a document,
        or a comment before the first word of a sentence; None for a line with a word."""
        if line.startswith(_DOCUMENT):
            return _with_cell(line, schemes.OUTSIDE, self._delimiter)
        is_comment = bool(self._comment) and line.startswith(str(self._comment))
        is_blank = not line.strip(" \t" + (self._delimiter or ""))
        return line if is_blank or (is_comment and is_first) else None

    def _word_and_tag(self, line: str) -> Optional[tuple[str, str]]:
        """The word and the tag of a line, None for the line with the names of the columns; raises
        ValueError."""
        cells = self._cells(line)
        if not self._count:
            self._word = _index(self._word_column, cells, "--text_a_column")
            self._tag = len(cells) - 1
            if self._need_tags and self._tag_column:
                self._tag = _index(self._tag_column, cells, "--label_column")
            if self._need_tags and self._tag == self._word:
                found = "found one column for words and tags, expected two"
                raise ValueError(f"{found}; --delimiter")
            self._count = len(cells)
            has_numbers = (self._word_column + self._tag_column).isdecimal()
            if (self._form.header or ("none" if has_numbers else "names")) == "names":
                return None
        if len(cells) != self._count:
            found = f"found {len(cells)} columns, expected {self._count}"
            raise ValueError(f"{found}; --delimiter")
        if not cells[self._word]:
            found = f"found an empty column {self._word + 1}, expected a word"
            raise ValueError(f"{found}; --quoting")
        if not is_text(line):
            raise ValueError(NOT_TEXT)
        return cells[self._word], self._checked(cells[self._tag])

    def _cells(self, line: str) -> list[str]:
        """The cells of a line; raises ValueError."""
        if "\r" in line:
            raise ValueError(forms.RETURN_INSIDE)
        if not self._delimiter:
            return re.split("[ \t]+", line.strip(" \t"))
        cells = line.split(self._delimiter)
        if self._form.quoting != "none" and '"' in line:
            try:
                (cells,) = csv.reader([line], delimiter=self._delimiter, strict=True)
            except csv.Error as e:
                found = f"found {e}, expected quoted cells; --quoting"
                raise ValueError(found) from None
        return [cell.strip(" ") for cell in cells]

    # ---- objects

    def objects(self, path: str) -> Iterator[Sentence]:
        """The sentences of objects, or of lines of raw text."""
        values = forms.objects(path, self._form, _WHAT)
        if self._form.name == "text":
            values = self._texts(path, forms.lines(path, _WHAT, self._form.encoding))
        for place, value in values:
            if value == {} and self._need_tags:  # an empty line
                continue
            try:
                yield self._of_object(value)
            except ValueError as e:
                self.errors.add(place, str(e))

    def _texts(self, path: str, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """(place, object) of each line of raw text."""
        if self._need_tags:
            raise wrong(path, "raw text", "words with tags", "--input_format")
        key = "text" if self._word_column.isdecimal() else self._word_column
        for number, line in enumerate(lines, 1):
            value: Any = {key: line}
            if "\r" in line:
                value = ValueError(forms.RETURN_INSIDE)
            yield f"{path}:{number}", value

    def _of_object(self, value: Any) -> Sentence:
        """The sentence of an object; raises ValueError."""
        if isinstance(value, ValueError):
            raise value
        if not isinstance(value, dict):
            raise ValueError("found no object, expected an object of JSON")
        line = json.dumps(value, ensure_ascii=False)
        by_key = {encodings.composed(key): each for key, each in value.items()}
        # Where columns have numbers, the keys are the usual ones.
        key = "text" if self._word_column.isdecimal() else self._word_column
        content = by_key.get(key)
        if not isinstance(content, (str, list)):
            found = (
                f"found keys {', '.join(by_key)}, expected '{key}', a text or tokens"
            )
            raise ValueError(f"{found}; --text_a_column")
        sentence = sentence_of(content, line)
        if not self._need_tags:
            return sentence
        key = "" if self._tag_column.isdecimal() else self._tag_column
        key = key or ("entities" if sentence.text else "tags")
        marks = by_key.get(key)
        if not isinstance(marks, list):
            found = f"found {', '.join(by_key)}, expected the list '{key}'"
            raise ValueError(f"{found}; --label_column")
        if sentence.text:
            entities = _entities(sentence.text, marks, key)
            tags = _tags_of(sentence, entities, self._scheme)
            return sentence._replace(
                entities=entities, tags=tuple(map(self._checked, tags))
            )
        are_names = all(isinstance(tag, str) for tag in marks)
        if len(marks) != len(content) or not are_names:
            found = f"found {json.dumps(marks):.200} in '{key}'"
            expected = f"the name of a tag for each of {len(content)} words"
            raise ValueError(f"{found}, expected {expected}")
        return sentence._replace(tags=tuple(map(self._checked, marks)))


def _index(column: str, cells: Sequence[str], flag: str) -> int:
    """The index of a column by its number from 1 on, or by its name among `cells`; raises
    ValueError."""
    known = list(map(encodings.composed, cells))
    if column.isdecimal():
        known = [str(number) for number in range(1, len(cells) + 1)]
    if known.count(column) != 1:
        found = f"found {', '.join(known)}, expected one column '{column}'"
        raise ValueError(f"{found}; {flag}")
    return known.index(column)


def _entities(text: str, found: Sequence[Any], key: str) -> tuple[TagSpan, ...]:
    """Sorted (start, end, label), without spaces at their ends; raises ValueError."""
    entities: list[TagSpan] = []
    for entity in found:
        parts = entity
        if isinstance(entity, dict):
            parts = [entity.get("start"), entity.get("end"), entity.get("label")]
        types = [type(part) for part in parts] if isinstance(parts, list) else []
        start, end, label = parts if types == [int, int, str] else (0, 0, "")
        part = text[start:end]
        is_inside = 0 <= start < end <= len(text)
        if not label or not is_inside or not any(find_words(part)):
            raise ValueError(
                f"found {json.dumps(entity):.200} in '{key}', expected [start, end, label] with "
                f"0 <= start < end <= {len(text)}, around a word"
            )
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        entities.append((start, end, encodings.composed(label)))
    return tuple(sorted(entities))


def _tags_of(
    sentence: Sentence, entities: Sequence[TagSpan], scheme: str
) -> tuple[str, ...]:
    """The tags of a text's words; an entity has all words that it overlaps. Raises ValueError."""
    spans = []
    free = 0  # the first word that belongs to no entity yet
    for start, end, label in entities:
        # Starts and ends of words are sorted. Example: in "Mr. Smith's" an entity from 4 to 9
        # overlaps only the word at 4.
        first = bisect.bisect_right(sentence.ends, start)
        last = bisect.bisect_left(sentence.starts, end)
        if first < free:
            word = sentence.words[first]
            raise ValueError(f"found '{word}' in two entities, expected one")
        spans.append((first, last, label))
        free = last
    return schemes.tags_of(spans, len(sentence.words), scheme)


# ---- predictions


def check_columns(path: str, sentence: Sentence, tags: Iterable[str]) -> None:
    """Raises UserError if one of the tags would be several columns in the file of a sentence."""
    if not sentence.lines:
        return
    for tag in tags:
        if set(tag) & set(sentence.lines.delimiter or " \t"):
            found = f"tag '{tag}' of the model, which would be two columns"
            expected = "another character between columns, or JSON"
            raise wrong(path, found, expected, "--delimiter")


def _with_cell(line: str, cell: str, delimiter: Optional[str]) -> str:
    """A line with one column more."""
    return line + (delimiter or ("\t" if "\t" in line else " ")) + cell


def predicted_lines(
    sentence: Sentence, spans: Sequence[TagSpan], tags: Sequence[str]
) -> Iterator[str]:
    """Yields the lines of a sentence with its predictions: with one column more; or an object with
    one key more, the entities of its text or the tags of its tokens."""
    lines = sentence.lines
    if not lines:
        value = json.loads(sentence.line)
        value[ADDED] = sentence.located(spans) if sentence.text else tags
        yield json.dumps(value, ensure_ascii=False) + "\n"
        return
    for line in lines.before:
        yield line + "\n"
    for line, tag in zip(lines.rows, tags):
        yield _with_cell(line, tag, lines.delimiter) + "\n"
    for line in lines.after:
        yield line + "\n"
