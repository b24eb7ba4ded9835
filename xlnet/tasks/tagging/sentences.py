"""Reads sentences with tagged words, each as a JSON object, and converts between their tags and the
entities that these mark.

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
from xlnet.tasks.fields import Columns, Form
from xlnet.tasks.files import forms

OUTSIDE = "O"
PLAIN = "plain"

# Prefixes of a scheme: of the first word of several, inner ones, the last one, the only one.
PREFIXES = {"bio2": "BIIB", "bioes": "BIES", "bmes": "BMES"}
_BEGIN, _END = "BSU", "ELSU"  # prefixes at which an entity begins, ends in any scheme
# A prefix may be alone. The tags of nested entities, B-LOC|B-ORG, are refused; other bars within a
# label are characters of it.
_TAG = re.compile(r"O|[BIESMLU](-(?!.*\|[BIESMLU]-).+)?")

_DOCUMENT = "-DOCSTART-"  # the first cell of a line before each document of CoNLL 2003
# Forms that have an object for each sentence.
_OBJECT_FORMS = ("jsonl", "ndjson", "json", "parquet", "text")

TagSpan = tuple[int, int, str]  # (start, end, label), in words or in characters


class Sentence(NamedTuple):
    """A sentence of W words, from a text or a list of words.

    Attributes:
      words: W.
      cells: the object that it was read from, to which predictions are added.
      text: from which the words are; "": the object has a list of words.
      offsets: (start, end) of each word in the text [characters]; () without a text.
      entities: the gold ones, in characters of the text, or in words without one.
    """

    words: tuple[str, ...]
    cells: dict[str, Any]
    text: str = ""
    offsets: tuple[tuple[int, int], ...] = ()
    entities: Sequence[TagSpan] = ()

    def span_of_words(self, first: int, end: int) -> tuple[int, int, str]:
        """(start, end, text) of the words `first` to before `end`: in characters of the sentence's
        text; without one, in words, their text with spaces between them."""
        if not self.text:
            return first, end, " ".join(self.words[first:end])
        char_start, _ = self.offsets[first]
        _, char_end = self.offsets[end - 1]
        return char_start, char_end, self.text[char_start:char_end]


# ---- the words of a text

# A letter of a script with spaces between words. Those of Hangul, whose words end in particles that
# do not belong to an entity, are left out, too.
_LETTER = rf"(?!{UNSPACED.pattern}|\p{{Hangul}})\p{{L}}"
# Combining marks belong to the character before.
_WORD = regex.compile(
    rf"(?:{_LETTER}\p{{M}}*)+|(?:\p{{N}}\p{{M}}*)+|[^\p{{Z}}\p{{C}}]\p{{M}}*"
)


def find_words(text: str) -> list[tuple[int, int]]:
    """(start, end) of each word of a text [characters]. Words are runs of letters, runs of digits,
    each other sign, each letter of a script without spaces between words, such as Chinese, and each
    syllable of Hangul."""
    return [word.span() for word in _WORD.finditer(text)]


def sentence_of(cells: dict[str, Any], key: str) -> Sentence:
    """The sentence of an object, without its entities. Raises ValueError unless the object has,
    under the key, a text with a word or more, or a list of words, none of them empty."""
    line = json.dumps(cells, ensure_ascii=False)
    forms.require_text(line)
    text, offsets = "", []
    words: Any = cells.get(key)
    if isinstance(words, str):
        text, offsets = words, find_words(words)
        words = [text[start:end] for start, end in offsets]
    is_list = isinstance(words, (list, tuple)) and bool(words)
    if not is_list or not all(isinstance(word, str) and word for word in words):
        expected = f"'{key}' with words, a text or a list; --text_a_column"
        raise ValueError(f"found {line:.200}, expected {expected}")
    return Sentence(tuple(words), cells, text, tuple(offsets))


# ---- files


def key_of(column: tuple[str, ...], usual: str) -> str:
    """The key under which objects have a column: its name; `usual` if the column has a number in
    place of a name, or is not given. column: one name, or ()."""
    name = "".join(column)
    return usual if not name or name.isdecimal() else name


def read(path: str, form: Form, columns: Columns) -> forms.Records:
    """Yields (place, object) of each sentence of a file; or (place, error) of the first line of the
    sentence that cannot be read.

    Args:
      path: the file.
      form: as it is declared; a name that is not in `forms.TABLES` counts as conll.
      columns: `text_a` and `label`, those of the words and of the tags, or these keys of objects,
        each one name or (); no column of tags: the last one.
    """
    what = "sentences with tagged words"
    words_key = key_of(columns.text_a, "text")
    if form.name in _OBJECT_FORMS:
        # A line of the form text is the text of an object.
        yield from forms.read(path, dataclasses.replace(form, names=(words_key,)), what)
        return
    header = form.header
    if not header:  # columns have names if the task calls them so
        header = "none" if "".join(columns.text_a).isdecimal() else "names"
    name = form.name if form.name in forms.DELIMITERS else "conll"
    form = dataclasses.replace(form, name=name, header=header)
    lines: list[dict[str, str]] = []  # the cells of each word of a sentence
    first_place = ""  # of these lines
    error = None  # (place, error) of the first bad line of the sentence
    # The {} at the end stands for one more empty line, which ends the last sentence.
    for place, cells in itertools.chain(forms.read(path, form, what), [("", {})]):
        if isinstance(cells, str):
            error = error or (place, cells)
        elif cells and next(iter(cells.values())) != _DOCUMENT:  # the first cell
            first_place = first_place if lines else place
            lines.append(cells)
        else:  # between sentences
            if error:
                yield error
            elif lines:
                yield first_place, _object_of_lines(lines, columns)
            lines, error = [], None


def _object_of_lines(
    lines: Sequence[dict[str, str]], columns: Columns
) -> dict[str, list[str]]:
    """The object of a sentence in columns: {"text": its words, "tags": their tags}, with the cells
    of any other column under its name. lines: the cells of each word. columns: as of `read`."""
    names = list(lines[0])
    tags_column = "".join(columns.label) or names[-1]
    # An only column has the words: they come last, and so replace the tags.
    keys = {
        tags_column: key_of(columns.label, "tags"),
        "".join(columns.text_a): key_of(columns.text_a, "text"),
    }
    return {keys.get(name, name): [line[name] for line in lines] for name in names}


# ---- the entities of a sentence


def tagged(
    sentence: Sentence, key: str, scheme: str
) -> tuple[Sentence, tuple[str, ...]]:
    """Reads the gold labels of a sentence; raises ValueError.

    Args:
      sentence: as of `sentence_of`.
      key: of its object, under which there is a list: of entities, if the sentence is a text, or of
        the tags of its words.
      scheme: of the tags that are returned.

    Returns:
      (the sentence with `entities`, its W tags in the scheme). Entities are in characters of a
      text, else in words. Without a text, the tags in the sentence's object become these.
    """
    num_words = len(sentence.words)
    labels = sentence.cells.get(key)  # entities or tags
    # A text may have any number of entities.
    if not isinstance(labels, list) or (not sentence.text and len(labels) != num_words):
        of_words = f"a tag for each of {num_words} words"
        expected = "entities" if sentence.text else of_words
        found = f"{json.dumps(labels):.200} in '{key}'"
        raise ValueError(f"found {found}, expected a list, {expected}; --label_column")
    if not sentence.text:
        entities = entities_of(labels, scheme)
        tags = tags_of(entities, num_words, scheme)
        cells = {**sentence.cells, key: tags}
        return sentence._replace(cells=cells, entities=entities), tags
    entities, in_words = _entities_of_text(sentence, labels)
    tags = tags_of(in_words, num_words, scheme)
    if scheme == PLAIN:  # each word of an entity of several is an entity of its own
        entities = []
        for (start, end), tag in zip(sentence.offsets, tags):
            if tag != OUTSIDE:
                entities.append((start, end, tag))
    return sentence._replace(entities=entities), tags


def _entities_of_text(
    sentence: Sentence, given: Sequence[Any]
) -> tuple[list[TagSpan], list[TagSpan]]:
    """(entities in characters, without spaces at their ends; the same in words, all that an entity
    overlaps). Raises ValueError. given: [start, end, label] in characters, or an object with these
    keys, of each entity."""
    in_characters, in_words = [], []
    taken: set[int] = set()  # indices of the words that belong to an entity
    for entity in given:
        fields = entity
        if isinstance(entity, dict):
            fields = [entity.get(key) for key in ("start", "end", "label")]
        start, end, label = 0, 0, ""  # refused below
        if isinstance(fields, list) and list(map(type, fields)) == [int, int, str]:
            start, end, label = fields
        # Example: in "Mr. Smith's" an entity from 4 to 9 overlaps only the word at 4.
        words = []
        for index, (word_start, word_end) in enumerate(sentence.offsets):
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
        word_start, _ = sentence.offsets[first]
        _, word_end = sentence.offsets[last]
        in_characters.append((max(start, word_start), min(end, word_end), label))
        in_words.append((first, last + 1, label))
    return in_characters, in_words


# ---- tags


def _tag_of(prefix: str, label: str) -> str:
    """The tag of a prefix and a label; the prefix alone for the label ""."""
    return f"{prefix}-{label}" if label else prefix


def entities_of(tags: Sequence[str], scheme: str) -> list[TagSpan]:
    """The entities of a sequence of tags, (start, end, label) in words. Raises ValueError for what
    is not a tag.

    scheme: whether it is plain; tags with prefixes are read by one rule, whatever their scheme.
    """
    for tag in tags:
        is_text = isinstance(tag, str) and tag != ""
        if not is_text or (scheme != PLAIN and not _TAG.fullmatch(tag)):
            expected = "O, or a prefix and a label, as in B-PER"
            raise ValueError(
                f"found tag '{tag}', expected {expected}; --label_column, --scheme"
            )
    if scheme == PLAIN:
        return [(i, i + 1, tag) for i, tag in enumerate(tags) if tag != OUTSIDE]
    entities = []
    # The first word and the label of the entity that is open after the word before; None: none is.
    begin, open_label = 0, None
    for i, tag in enumerate([*tags, OUTSIDE]):  # the last O ends an open entity
        prefix, _, label = tag.partition("-")  # label "": a prefix alone
        is_outside = tag == OUTSIDE
        ends_before = is_outside or prefix in _BEGIN or label != open_label
        if open_label is not None and ends_before:
            entities.append((begin, i, open_label))
            open_label = None
        if open_label is None and not is_outside:
            begin, open_label = i, label
        if prefix in _END:
            entities.append((begin, i + 1, label))
            open_label = None
    return entities


def tags_of(entities: Iterable[TagSpan], length: int, scheme: str) -> tuple[str, ...]:
    """The tags of `length` words with these entities, in words, which do not overlap."""
    tags = [OUTSIDE] * length
    for start, end, label in entities:
        if scheme == PLAIN:
            tags[start:end] = [label] * (end - start)
            continue
        first, inside, last, only = tuple(PREFIXES[scheme])
        middle = max(end - start - 2, 0) * inside
        prefixes = only if end - start == 1 else first + middle + last
        for i, prefix in enumerate(prefixes, start):
            tags[i] = _tag_of(prefix, label)
    return tuple(tags)


def all_tags(tags: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags that a scheme has for the labels of some tags, sorted by label, O first: for
    B-PER in bio2, O, B-PER and I-PER. In the scheme plain these tags themselves, sorted."""
    if scheme == PLAIN:
        return tuple(sorted(set(tags)))
    of_scheme = [OUTSIDE]
    # What is after the prefix.
    labels = {tag.partition("-")[2] for tag in tags if tag != OUTSIDE}
    for label in sorted(labels):
        for prefix in dict.fromkeys(PREFIXES[scheme]):  # each prefix once
            of_scheme.append(_tag_of(prefix, label))
    return tuple(of_scheme)


# ---- scores of the entities of n sentences


def scores(
    predicted: Iterable[Sequence[TagSpan]], gold: Iterable[Sequence[TagSpan]]
) -> tuple[tuple[float, ...], str | None]:
    """Compares the predicted entities of n sentences with the gold ones.

    Returns:
      (precision, recall, F1) of all labels together, NaN where no entity is predicted, gold, or
      either; a table of the same by label, as text, with 0 for NaN as in seqeval's report, None
      without an entity.
    """
    from sklearn import metrics

    # The label of each entity as a gold and as a predicted one, "" where it is not one of them. A
    # first pair of "" is there so that scikit-learn makes micro averages, and not the accuracy,
    # where all entities are right.
    gold_labels, predicted_labels = [""], [""]
    for of_predicted, of_gold in zip(predicted, gold):
        # Both have an entity only if its start, its end and its label are the same.
        for entity in {*of_predicted, *of_gold}:
            _, _, label = entity
            label = label or "_"  # of a tag such as B-, which has none
            gold_labels.append(label if entity in of_gold else "")
            predicted_labels.append(label if entity in of_predicted else "")
    labels = sorted({*gold_labels, *predicted_labels} - {""})
    if not labels:
        return (math.nan, math.nan, math.nan), None
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        gold_labels,
        predicted_labels,
        labels=labels,
        average="micro",
        zero_division=np.nan,
    )
    table = metrics.classification_report(
        gold_labels, predicted_labels, labels=labels, digits=4, zero_division=0
    )
    return (float(precision), float(recall), float(f1)), table
