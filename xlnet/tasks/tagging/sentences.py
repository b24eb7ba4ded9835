"""Sentences with tagged words, as objects of JSON; their tags, and the entities that these mark.

    form      extension          content
    conll     any other          a word a line with its columns, an empty line between sentences
    jsonl     .jsonl, .ndjson    an object a line: a text and its entities, or tokens and tags
    json      .json              a list of such objects, or an object whose `data` is the list
    parquet   .parquet           a table whose rows are such objects
    text      -                  a sentence a line, without tags

A form is declared by --input_format, or by the extension. The columns of a sentence are lists, so
that it is an object, too. Columns are split at the declared delimiter, or at commas in .csv, at
tabs in .tsv, and elsewhere, or in the declared form conll, at spaces and tabs. They have numbers
from 1 on, or the names in the first line. A row whose first cell is -DOCSTART- is no word. An
object has a text and its entities, [start, end, label] or an object with these keys, in characters;
or a list of tokens and a list of tags.

A tag is O, outside of entities, or a prefix and a label, such as B-PER. Any sequence of tags is
read by one rule, that of conlleval and seqeval: an entity begins at B, S and U, and at any other
tag but O if the word before does not belong to an open entity of the same label; it ends at E, L, S
and U, before the next one begins, and before O. So the tags of IOB1, BIO2 (IOB2), BIOES, BMES and
BILOU are read alike. They are learned and predicted in one scheme:

    scheme   one word   two   three words
    bio2     B          B I   B I I
    bioes    S          B E   B I E
    bmes     S          B E   B M E

In the scheme plain, a tag is a label without a prefix, such as a part of speech or a language: each
word is an entity of its own. O is a label like others, but not an entity.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import regex

from xlnet.corpus.tokenizer import UNSPACED
from xlnet.tasks.files import forms
from xlnet.tasks.task import Columns, Form

OUTSIDE = "O"
PLAIN = "plain"

# Prefixes of a scheme: of the first word of several, inner ones, the last one, the only one.
_PREFIXES = {"bio2": "BIIB", "bioes": "BIES", "bmes": "BMES"}
_BEGIN, _END = "BSU", "ELSU"  # prefixes at which an entity begins, ends in any scheme
# A prefix may be alone. The tags of nested entities, B-LOC|B-ORG, are none of ours; other bars
# within a label are characters of it.
_TAG = re.compile(r"O|[BIESMLU](-(?!.*\|[BIESMLU]-).+)?")

_DOCUMENT = "-DOCSTART-"
_OBJECTS = ("jsonl", "ndjson", "json", "parquet", "text")  # forms with an object each

TagSpan = tuple[int, int, str]  # (start, end, label), in words or in characters


class Sentence(NamedTuple):
    """A sentence of W words, from a text or a list of words."""

    words: tuple[str, ...]
    cells: dict[str, Any]  # its object, to which predictions are added
    text: str = ""  # "": it has words alone
    places: tuple[tuple[int, int], ...] = ()  # of the words in the text [characters]
    entities: Sequence[TagSpan] = ()  # the true ones, where `part` has them

    def part(self, first: int, last: int) -> tuple[int, int, str]:
        """(start, end, text) of the words from `first` to before `last`, in characters; in words
        where the sentence has words alone."""
        if not self.text:
            return first, last, " ".join(self.words[first:last])
        start, end = self.places[first][0], self.places[last - 1][1]
        return start, end, self.text[start:end]


# ---- the words of a text

# A letter of a script with spaces between words. Those of Hangul, whose words end in particles that
# do not belong to an entity, are left out, too.
_LETTER = rf"(?!{UNSPACED.pattern}|\p{{Hangul}})\p{{L}}"
# Combining marks belong to the character before.
_WORD = regex.compile(
    rf"(?:{_LETTER}\p{{M}}*)+|(?:\p{{N}}\p{{M}}*)+|[^\p{{Z}}\p{{C}}]\p{{M}}*"
)


def find_words(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words of a text: runs of letters, runs of digits, each other sign, each
    letter of a script without spaces between words, such as Chinese, and each syllable of
    Hangul."""
    return [word.span() for word in _WORD.finditer(text)]


def sentence_of(cells: dict[str, Any], key: str) -> Sentence:
    """The sentence of an object, which has a text with a word or more, or a list of words, none of
    them empty, under a key; raises ValueError."""
    line = json.dumps(cells, ensure_ascii=False)
    forms.require_text(line)
    text, places = "", []
    words: Any = cells.get(key)
    if isinstance(words, str):
        text, places = words, find_words(words)
        words = [text[start:end] for start, end in places]
    is_list = isinstance(words, (list, tuple)) and bool(words)
    if not is_list or not all(isinstance(word, str) and word for word in words):
        expected = f"'{key}' with words, a text or a list; --text_a_column"
        raise ValueError(f"found {line:.200}, expected {expected}")
    return Sentence(tuple(words), cells, text, tuple(places))


# ---- files


def key_of(column: tuple[str, ...], usual: str) -> str:
    """The key under which objects have a column: its name, or the usual key if it has none, but a
    number, or is not given, ()."""
    name = "".join(column)
    return usual if not name or name.isdecimal() else name


def read(path: str, form: Form, columns: Columns) -> forms.Records:
    """Yields (place, object or error) of each sentence of a file; a line that cannot be read is the
    error of its sentence.

    Args:
      path: the file.
      form: as it is declared.
      columns: those of the words and of the tags, or the keys of objects; no column of tags: the
        last one.
    """
    what = "sentences with tagged words"
    words_key = key_of(columns.text_a, "text")
    if form.name in _OBJECTS:
        yield from forms.read(path, dataclasses.replace(form, names=(words_key,)), what)
        return
    # Each is the name of one column, or "".
    words, tags = "".join(columns.text_a), "".join(columns.label)
    form = dataclasses.replace(
        form,
        name=form.name if form.name in forms.DELIMITERS else "conll",
        # Columns have names if the task calls them so.
        header=form.header or ("none" if words.isdecimal() else "names"),
    )
    rows: list[dict[str, str]] = []
    first = ""  # place of the first word of a sentence
    error = None  # (place, error) of its first bad line
    # The {} at the end stands for one more empty line, which ends the last sentence.
    for place, cells in itertools.chain(forms.read(path, form, what), [("", {})]):
        if isinstance(cells, str):
            error = error or (place, cells)
        elif cells and next(iter(cells.values())) != _DOCUMENT:
            first = first if rows else place
            rows.append(cells)
        else:
            if error:
                yield error
            elif rows:
                found = {}
                for column in rows[0]:
                    key = column
                    if column == words:
                        key = words_key
                    elif column == (tags or list(rows[0])[-1]):
                        key = key_of(columns.label, "tags")
                    found[key] = [row[column] for row in rows]
                yield first, found
            rows, error = [], None


# ---- the entities of a sentence


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
    cells = sentence.cells
    if sentence.text:
        entities, of_words = _entities(sentence, marks)
        tags = tags_of(of_words, count, scheme)
    else:
        entities = spans(marks, scheme)
        tags = tags_of(entities, count, scheme)
        cells = {**cells, key: tags}
    if scheme == PLAIN:
        entities = []
        for first, last, label in spans(tags, scheme):
            start, end, _ = sentence.part(first, last)
            entities.append((start, end, label))
    return sentence._replace(cells=cells, entities=entities), tags


def _entities(
    sentence: Sentence, marks: Sequence[Any]
) -> tuple[list[TagSpan], list[TagSpan]]:
    """(start, end, label) of the entities of a text, without spaces at their ends; and in words:
    all that an entity overlaps. Raises ValueError."""
    entities, of_words = [], []
    taken: set[int] = set()  # words that belong to an entity
    for entity in marks:
        parts = entity
        if isinstance(entity, dict):
            parts = [entity.get(key) for key in ("start", "end", "label")]
        start, end, label = 0, 0, ""
        if isinstance(parts, list) and list(map(type, parts)) == [int, int, str]:
            start, end, label = parts
        # Example: in "Mr. Smith's" an entity from 4 to 9 overlaps only the word at 4.
        words = []
        for index, (word_start, word_end) in enumerate(sentence.places):
            if word_start < end and start < word_end:
                words.append(index)
        if not label or not words or not 0 <= start < end <= len(sentence.text):
            of_text = f"in a text of {len(sentence.text)} characters"
            expected = "[start, end, label] around a word; --label_column"
            raise ValueError(f"found {str(entity):.200} {of_text}, expected {expected}")
        first, last = words[0], words[-1]
        if taken.intersection(words):
            word = sentence.words[first]
            raise ValueError(f"found '{word}' in two entities, expected one")
        taken.update(words)
        start = max(start, sentence.places[first][0])
        end = min(end, sentence.places[last][1])
        entities.append((start, end, label))
        of_words.append((first, last + 1, label))
    return entities, of_words


# ---- tags


def _join(prefix: str, label: str) -> str:
    return f"{prefix}-{label}" if label else prefix


def spans(tags: Sequence[str], scheme: str) -> list[TagSpan]:
    """The entities of a sequence; raises ValueError for what is no tag."""
    for tag in tags:
        is_label = isinstance(tag, str) and tag != ""
        if not is_label or scheme != PLAIN and not _TAG.fullmatch(tag):
            expected = "O, or a prefix and a label, as in B-PER"
            raise ValueError(
                f"found tag '{tag}', expected {expected}; --label_column, --scheme"
            )
    if scheme == PLAIN:
        return [(i, i + 1, tag) for i, tag in enumerate(tags) if tag != OUTSIDE]
    found = []
    begin, open_label = 0, None  # the entity that the word before belongs to
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, label = tag.partition("-")  # label "": a prefix alone
        is_outside = tag == OUTSIDE
        ends_before = is_outside or prefix in _BEGIN or label != open_label
        if open_label is not None and ends_before:
            found.append((begin, i, open_label))
            open_label = None
        if open_label is None and not is_outside:
            begin, open_label = i, label
        if prefix in _END:
            found.append((begin, i + 1, label))
            open_label = None
    return found


def tags_of(entities: Iterable[TagSpan], length: int, scheme: str) -> tuple[str, ...]:
    """The tags of `length` words with these entities, which do not overlap."""
    tags = [OUTSIDE] * length
    for start, end, label in entities:
        if scheme == PLAIN:
            tags[start:end] = [label] * (end - start)
            continue
        first, inside, last, only = tuple(_PREFIXES[scheme])
        middle = max(end - start - 2, 0) * inside
        prefixes = only if end - start == 1 else first + middle + last
        for i, prefix in enumerate(prefixes, start):
            tags[i] = _join(prefix, label)
    return tuple(tags)


def all_tags(tags: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags of a scheme that have the labels of these tags, by labels; of entities O first."""
    if scheme == PLAIN:
        return tuple(sorted(set(tags)))
    found = [OUTSIDE]
    labels = {tag.partition("-")[2] for tag in tags if tag != OUTSIDE}
    for label in sorted(labels):
        for prefix in dict.fromkeys(_PREFIXES[scheme]):
            found.append(_join(prefix, label))
    return tuple(found)


# ---- scores of the entities of n sentences


def scores(
    found: Iterable[Sequence[TagSpan]], true: Iterable[Sequence[TagSpan]]
) -> tuple[tuple[float, ...], str | None]:
    """(Precision, recall and F1 of all labels together, NaN where nothing is found, true, or
    either; a table of the same by label, with 0 for NaN as in seqeval's report, None without an
    entity)."""
    from sklearn import metrics

    # Of each entity its label among the true and among the found ones, "" where it is not one of
    # them. The first one is none, so that there are micro averages where all entities are right.
    true_labels, found_labels = [""], [""]
    for ours, gold in zip(found, true):
        # A span is (start, end, label): both have it only if words and label are the same.
        for span in {*ours, *gold}:
            label = span[2] or "_"  # of a tag such as B-, which has none
            true_labels.append(label if span in gold else "")
            found_labels.append(label if span in ours else "")
    labels = sorted({*true_labels, *found_labels} - {""})
    if not labels:
        return (math.nan, math.nan, math.nan), None
    ratios = metrics.precision_recall_fscore_support(
        true_labels, found_labels, labels=labels, average="micro", zero_division=np.nan
    )
    table = metrics.classification_report(
        true_labels, found_labels, labels=labels, digits=4, zero_division=0
    )
    return tuple(map(float, ratios[:3])), table
