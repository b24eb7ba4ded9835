"""Files of sentences with tagged words, read and written again with predictions.

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
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Optional

from xlnet.corpus.tokenizer import is_text
from xlnet.support import encodings
from xlnet.support.errors import wrong
from xlnet.tasks.files import decoding, forms, readers
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.tagging import schemes, words
from xlnet.tasks.tagging.schemes import TagSpan
from xlnet.tasks.tagging.words import ColumnLines, Sentence
from xlnet.tasks.task import Form, Task

ADDED = "predicted"  # the column, or key, of predictions
_DOCUMENT = "-DOCSTART-"
_WHAT = "sentences with tagged words"  # the role of a file in errors
_NOT_TEXT = "found bytes or escapes that are no characters, expected UTF-8; --encoding"


class _Columns:
    """The columns of a file, of which those of the words and tags are found in its first line."""

    def __init__(self, task: Task, form: Form, extension: str, need_tags: bool):
        self._form = form
        self.delimiter = form.delimiter or forms.DELIMITERS.get(extension)
        self._word_column = task.columns.text_a[0]
        self._tag_column = task.columns.label[0] if task.columns.label else ""
        self._need_tags = need_tags
        self.count = 0  # 0: not known yet
        self._word = self._tag = 0  # indices

    def word_and_tag(self, line: str) -> Optional[tuple[str, str]]:
        """The word and the tag of a line, None for the line with the names of the columns; raises
        ValueError."""
        cells = self._split(line)
        if not self.count:
            self._word = _index(self._word_column, cells, "--word_column")
            self._tag = len(cells) - 1
            if self._need_tags and self._tag_column:
                self._tag = _index(self._tag_column, cells, "--tag_column")
            if self._need_tags and self._tag == self._word:
                raise ValueError(
                    "found one column for words and tags, expected two; --delimiter"
                )
            self.count = len(cells)
            has_numbers = (self._word_column + self._tag_column).isdecimal()
            if (self._form.header or ("none" if has_numbers else "names")) == "names":
                return None
        if len(cells) != self.count:
            raise ValueError(
                f"found {len(cells)} columns, expected {self.count}; --delimiter"
            )
        if not cells[self._word]:
            raise ValueError(
                f"found an empty column {self._word + 1}, expected a word; --quoting"
            )
        if not is_text(line):
            raise ValueError(_NOT_TEXT)
        return cells[self._word], cells[self._tag]

    def _split(self, line: str) -> list[str]:
        if "\r" in line:
            raise ValueError(decoding.RETURN_INSIDE)
        if not self.delimiter:
            return re.split("[ \t]+", line.strip(" \t"))
        cells = line.split(self.delimiter)
        if self._form.quoting != "none" and '"' in line:
            try:
                (cells,) = csv.reader([line], delimiter=self.delimiter, strict=True)
            except csv.Error as e:
                raise ValueError(
                    f"found {e}, expected quoted cells; --quoting"
                ) from None
        return [cell.strip(" ") for cell in cells]


class SentenceReader:
    """Reads files of sentences.

    Attributes:
      need_tags: whether sentences without tags are errors; if not, tags are not read.
    """

    def __init__(
        self, task: Task, need_tags: bool, labels: Optional[Collection[str]] = None
    ):
        """
        Args:
          task: with the declarations of its files, and the scheme of their tags.
          need_tags: as the attribute.
          labels: those of the training; None: any.
        """
        self.need_tags = need_tags
        self._task = task
        self._labels = labels
        self._right_tags: set[str] = set()
        self._errors = RowErrors()
        self._notes = RowErrors()
        word, tag = task.columns.text_a[0], "".join(task.columns.label[:1])
        # The keys of objects; where columns have numbers, the usual ones.
        self._word_key = "text" if word.isdecimal() else word
        self._tag_key = "" if tag.isdecimal() else tag

    def read(self, path: str) -> Iterator[Sentence]:
        """Yields the sentences of a file, or of several; raises UserError for all errors of a file
        behind its last sentence. A sentence with an error is left out where the task says so."""
        for number, each in enumerate(readers.each_path(path)):
            form = readers.declared_form(self._task, each)
            self._errors, self._notes = RowErrors(), RowErrors()
            count = 0
            for sentence in self._sentences(each, form, is_first=number == 0):
                count += 1
                yield sentence
            self._errors.end(each, skips=self._task.files.skips_errors and count > 0)
            self._notes.note(each, "entities are not used as they are")
            if not count:
                raise wrong(each, "no sentences", "words")

    def _sentences(self, path: str, form: Form, is_first: bool) -> Iterator[Sentence]:
        if form.name in ("jsonl", "ndjson", "json", "parquet", "text"):
            return self._objects(path, form)
        # A sentence ends with its file, also where the lines of several are written as one.
        return self._columns(path, form, before=[] if is_first else [""])

    def _checked(self, tag: str) -> str:
        """A tag in Unicode's composed form; raises ValueError for one that does not fit."""
        if not self.need_tags:
            return ""
        tag = encodings.composed(tag)
        if tag not in self._right_tags:
            schemes.check(tag, self._task.options.scheme, self._labels)
            self._right_tags.add(tag)
        return tag

    def _columns(self, path: str, form: Form, before: list[str]) -> Iterator[Sentence]:
        """The sentences of columns. before: lines that are written before those of the file."""
        columns = _Columns(self._task, form, readers.extension(path), self.need_tags)
        comment = self._task.options.comment
        lines = readers.read_lines(path, _WHAT, form.encoding)
        last: Optional[Sentence] = None  # complete, but for the lines after it
        found: list[tuple[str, str, str]] = []  # (word, tag, line) of the sentence
        has_error = False
        for number, line in enumerate(itertools.chain(lines, [""]), 1):
            is_comment = bool(comment) and not found and line.startswith(comment)
            is_blank = not line.strip(" \t" + (columns.delimiter or ""))
            if is_comment or is_blank or line.startswith(_DOCUMENT):
                if found and not has_error:
                    if last:
                        yield last
                    words_of, tags, rows = zip(*found)
                    its_lines = ColumnLines(tuple(before), rows, (), columns.delimiter)
                    last = Sentence(
                        words_of, tags if self.need_tags else None, its_lines
                    )
                    before = []
                found, has_error = [], False
                is_document = line.startswith(_DOCUMENT)
                before.append(
                    _with_cell(line, schemes.OUTSIDE, columns.delimiter)
                    if is_document
                    else line
                )
                continue
            try:
                pair = columns.word_and_tag(line)
                if pair:
                    found.append((pair[0], self._checked(pair[1]), line))
                else:
                    before.append(_with_cell(line, ADDED, columns.delimiter))
            except ValueError as e:
                self._errors.add(f"{path}:{number}", str(e))
                has_error = True
                found.append(("", "", line))
                if not columns.count:  # else each line would have this error
                    break
        if last and last.lines:
            after = tuple(before[:-1])  # without the line that was added
            yield last._replace(lines=last.lines._replace(after=after))

    # ---- objects

    def _objects(self, path: str, form: Form) -> Iterator[Sentence]:
        values: Iterable[tuple[str, Any]]
        if form.name == "parquet":
            stored = forms.parquet_file(path, decoding.opener(path, _WHAT))
            values = forms.parquet_objects(path, stored)
        else:
            lines = readers.read_lines(path, _WHAT, form.encoding)
            if form.name == "text":
                values = self._texts(path, lines)
            elif form.name == "json":
                values = forms.json_items(path, lines)
            else:
                values = forms.json_lines(path, lines)
        for place, value in values:
            if value is forms.EMPTY_LINE and self.need_tags:
                continue
            try:
                yield self._of_object(value, place)
            except ValueError as e:
                self._errors.add(place, str(e))

    def _texts(self, path: str, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """(place, object) of each line of raw text."""
        if self.need_tags:
            raise wrong(path, "raw text", "words with tags", "--input_format")
        for number, line in enumerate(lines, 1):
            value: Any = {self._word_key: line}
            if "\r" in line:
                value = ValueError(decoding.RETURN_INSIDE)
            yield f"{path}:{number}", value

    def _of_object(self, value: Any, place: str) -> Sentence:
        """The sentence of an object; raises ValueError."""
        if isinstance(value, ValueError):
            raise value
        if not isinstance(value, dict):
            raise ValueError("found no object, expected an object of JSON")
        line = json.dumps(value, ensure_ascii=False)
        if not is_text(line):
            raise ValueError(_NOT_TEXT)
        value = {encodings.composed(key): each for key, each in value.items()}
        content = value.get(self._word_key)
        if isinstance(content, str):
            sentence = words.of_text(content, line)
            tag_key = self._tag_key or "entities"
        elif isinstance(content, list):
            sentence = words.of_words(content, line)
            tag_key = self._tag_key or "tags"
        else:
            raise ValueError(
                f"found keys {', '.join(value)}, expected '{self._word_key}', a text or tokens; "
                "--word_column"
            )
        if not self.need_tags:
            return sentence
        found = value.get(tag_key)
        if not isinstance(found, list):
            raise ValueError(
                f"found {', '.join(value)}, expected the list '{tag_key}'; --tag_column"
            )
        if isinstance(content, list):
            if len(found) != len(content) or not all(
                isinstance(tag, str) for tag in found
            ):
                raise ValueError(
                    f"found {json.dumps(found):.200} in '{tag_key}', expected the name of a tag "
                    f"for each of {len(content)} words"
                )
            return sentence._replace(tags=tuple(map(self._checked, found)))
        entities = _entities(content, found, tag_key)
        return sentence._replace(
            entities=entities, tags=self._tags(sentence, entities, place)
        )

    def _tags(
        self, sentence: Sentence, entities: Sequence[TagSpan], place: str
    ) -> tuple[str, ...]:
        """The tags of a text's words; an entity has all words that it overlaps."""
        starts, ends = sentence.starts, sentence.ends
        spans = []
        free = 0  # the first word that belongs to no entity yet
        for start, end, label in entities:
            # Starts and ends of words are sorted. Example: in "Mr. Smith's" an entity from 4 to 9
            # overlaps only the word at 4.
            first = bisect.bisect_right(ends, start)
            last = bisect.bisect_left(starts, end)
            if first < free:
                raise ValueError(
                    f"found '{sentence.words[first]}' in two entities, expected one"
                )
            if (starts[first], ends[last - 1]) != (start, end):
                self._notes.add(
                    place,
                    "an entity begins or ends inside of a word, so it is counted as missed",
                )
            spans.append((first, last, label))
            free = last
        tags = schemes.tags_of(spans, len(starts), self._task.options.scheme)
        return tuple(map(self._checked, tags))


def _index(column: str, cells: Sequence[str], flag: str) -> int:
    """The index of a column by its number from 1 on, or by its name among `cells`; raises
    ValueError."""
    known = list(map(encodings.composed, cells))
    if column.isdecimal():
        known = [str(number) for number in range(1, len(cells) + 1)]
    if known.count(column) != 1:
        raise ValueError(
            f"found {', '.join(known)}, expected one column '{column}'; {flag}"
        )
    return known.index(column)


def _entities(text: str, found: Sequence[Any], key: str) -> tuple[TagSpan, ...]:
    """Sorted (start, end, label), without spaces at their ends; raises ValueError."""
    entities: list[TagSpan] = []
    for entity in found:
        parts = entity
        if isinstance(entity, dict):
            parts = [entity.get("start"), entity.get("end"), entity.get("label")]
        is_entity = isinstance(parts, list) and [type(part) for part in parts] == [
            int,
            int,
            str,
        ]
        start, end, label = parts if is_entity else (0, 0, "")
        part = text[start:end]
        if not (
            label and 0 <= start < end <= len(text) and any(words.find_words(part))
        ):
            raise ValueError(
                f"found {json.dumps(entity):.200} in '{key}', expected [start, end, label] with "
                f"0 <= start < end <= {len(text)}, around a word"
            )
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        entities.append((start, end, encodings.composed(label)))
    return tuple(sorted(entities))


# ---- predictions


def check_columns(path: str, sentence: Sentence, tags: Iterable[str]) -> None:
    """Raises UserError if one of the tags would be several columns in the file of a sentence."""
    if not sentence.lines:
        return
    for tag in tags:
        if set(tag) & set(sentence.lines.delimiter or " \t"):
            found = f"tag '{tag}' of the model, which would be two columns"
            raise wrong(
                path, found, "another character between columns, or JSON", "--delimiter"
            )


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
