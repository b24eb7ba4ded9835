"""Sentences with tagged words, whatever file they come from, and the words of a text."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

from xlnet.corpus.tokenizer import is_text, is_unspaced
from xlnet.tasks.tagging.schemes import TagSpan


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
        return [
            (self.starts[first], self.ends[last - 1], label)
            for first, last, label in spans
        ]

    def text_at(self, start: int, end: int) -> str:
        """The text of an entity of `located`."""
        return self.text[start:end] or " ".join(self.words[start:end])


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


def of_text(text: str, line: str) -> Sentence:
    """The sentence of a text. line: its object in JSON. Raises ValueError for a text without
    words."""
    words = list(find_words(text))
    if not words:
        raise ValueError(f"found the text {json.dumps(text)}, expected a word")
    starts, ends = zip(*words)
    found = tuple(text[start:end] for start, end in words)
    return Sentence(found, line=line, text=text, starts=starts, ends=ends)


def of_words(words: Any, line: str) -> Sentence:
    """The sentence of given words. line: its object in JSON. Raises ValueError unless each is a
    word."""
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        found = json.dumps(words, ensure_ascii=False)
        raise ValueError(
            f"found {found:.200}, expected one or more words, none of them empty"
        )
    return Sentence(tuple(words), line=line)


def of_call(content: Union[str, Sequence[str]]) -> Sentence:
    """The sentence of a text, or of words, without a file. Raises ValueError as `of_text`."""
    line = json.dumps({"text": content}, ensure_ascii=False)
    if not is_text(line):
        raise ValueError("found half a character, expected text")
    return (
        of_text(content, line) if isinstance(content, str) else of_words(content, line)
    )
