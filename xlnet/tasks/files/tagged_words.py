"""Sentences with tagged words, whatever file they come from, and the words of a text."""

from __future__ import annotations

import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

from xlnet.tasks.files import schemes
from xlnet.tasks.output.results import Entity, Tagged
from xlnet.tokenization.tokenizer import is_text, is_unspaced

NOT_TEXT = "not UTF-8: bytes that are no characters"
ADDED = "predicted"  # the column, or key, of predictions
TEXT_KEY = "text"  # of the object in JSON that raw text becomes


class ColumnLines(NamedTuple):
    """A sentence's lines in a file with columns."""

    before: tuple[str, ...]  # lines without a word, as they are written again
    rows: tuple[str, ...]  # lines of its words, to which a column is added
    after: tuple[str, ...]  # lines without a word at the end of the file
    separator: str  # between the columns
    word_column: str = "1"  # numbers from 1 on; "" for none
    tag_column: str = ""
    splits_at: str = " \t"  # characters that a cell cannot have
    is_quoted: bool = False  # whether a cell may have them in quotation marks


class JsonLine(NamedTuple):
    """The object of a sentence in JSON."""

    line: str
    text: str  # "" if it has tokens
    starts: tuple[int, ...]  # of the words in the text [characters]
    ends: tuple[int, ...]


class TaggedSentence(NamedTuple):
    """A sentence of W words; W is 0 for one that was skipped and has no prediction."""

    words: tuple[str, ...]
    after_space: Optional[tuple[bool, ...]]  # or at the beginning; None: not known
    tags: Optional[tuple[str, ...]]  # as in the file; None: it has none
    places: tuple[str, ...]  # of the words in the file, for errors
    source: Union[ColumnLines, JsonLine]
    # (start, end, label) in characters, as in the file; None: it has tags, or nothing.
    entities: Optional[tuple[tuple[int, int, str], ...]] = None


def shown(value: Any) -> str:
    """A value as JSON, for messages and files."""
    return json.dumps(value, ensure_ascii=False)


def checked_words(words: Any, what: str) -> tuple[str, ...]:
    """Words as a tuple; raises ValueError, which begins with `what`, unless each is a word."""
    wrong = [word for word in words if not isinstance(word, str) or not word.strip()]
    if wrong or not words:
        raise ValueError(
            f"{what} {shown(wrong or words)}, expected one or more words, none of them empty"
        )
    return tuple(words)


# ---- words of a text


def find_words(text: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of the words of a text: runs of letters, runs of digits, each other sign,
    each letter of a script without spaces between words, such as Chinese, and each syllable of
    Hangul, whose words end in particles that do not belong to an entity. Combining marks belong to
    the word before."""
    start, word = 0, ""  # of the word before: its start and the kind of its characters
    for i, char in enumerate(text):
        kind = character_kind(char)
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
def character_kind(char: str) -> str:
    """The kind of a character: "letter", "digit"; "single", a word alone; "mark", which belongs to
    the word before; "", which is not in a word."""
    category = unicodedata.category(char)[0]
    if category in "ZC" or char.isspace():
        return ""
    if category == "M" or _IN_SYLLABLE.match(char):
        return "mark"
    if category == "N":
        return "digit"
    return (
        "letter"
        if category == "L" and not is_unspaced(char) and not _SYLLABLE.match(char)
        else "single"
    )


# ---- sentences of a text, or of words


def of_text(text: str, place: str = "", line: str = "", key: str = TEXT_KEY) -> TaggedSentence:
    """The sentence of a text, with the same words as in JSON. line: its object in JSON; "": one
    that has only the text. key: that of the text. Raises ValueError for a text without words."""
    words = list(find_words(text))
    if not words:
        raise ValueError(f"'{key}' has no word")
    if not is_text(text):
        raise ValueError(NOT_TEXT)
    return TaggedSentence(
        words=tuple(text[start:end] for start, end in words),
        after_space=tuple(start == 0 or text[start - 1].isspace() for start, _ in words),
        tags=None,
        places=(place,) * len(words),
        source=JsonLine(line or shown({key: text}), text, *zip(*words)),
    )


def of_words(words: Sequence[str]) -> TaggedSentence:
    """The sentence of given words, as in a CoNLL-style file. Raises ValueError unless each is a
    word."""
    checked = checked_words(words, "there are")
    return TaggedSentence(
        checked, None, None, ("",) * len(checked), ColumnLines((), checked, (), "\t")
    )


def entities_with_offsets(
    sentence: TaggedSentence, spans: Iterable[schemes.TagSpan]
) -> list[tuple[int, int, str]]:
    """Entities in the characters of the sentence's text or, if it has none, in its words."""
    source = sentence.source
    if isinstance(source, JsonLine) and source.text:
        return [
            (source.starts[first], source.ends[last - 1], label) for first, last, label in spans
        ]
    return list(spans)


def entities(
    sentence: TaggedSentence,
    located: Iterable[schemes.TagSpan],
    scores: Optional[Sequence[float]] = None,
) -> tuple[Entity, ...]:
    """Entities in characters or words, as `entities_with_offsets` returns them, with their
    texts."""
    source, words = sentence.source, sentence.words
    text = source.text if isinstance(source, JsonLine) else ""
    return tuple(
        Entity(label, text[start:end] if text else " ".join(words[start:end]), start, end, score)
        for (start, end, label), score in zip(located, scores or itertools.repeat(None))
    )


def tagged(
    sentence: TaggedSentence,
    spans: Sequence[schemes.TagSpan],
    scheme: str,
    probabilities: Sequence[float],
) -> Tagged:
    """A sentence with predicted entities and their tags in a scheme; probabilities: float [W], of
    the words' tags; an entity has their mean."""
    return Tagged(
        sentence.words,
        tuple(schemes.tags_of(spans, len(sentence.words), scheme)),
        entities(
            sentence,
            entities_with_offsets(sentence, spans),
            [float(sum(probabilities[first:last]) / (last - first)) for first, last, _ in spans],
        ),
    )
