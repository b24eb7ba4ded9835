"""The characters of a text that each of its pieces represents, in any script.

SentencePiece says which characters of the cleaned text are behind each piece; cleaning
(`tokenizer.preprocess_text`) is traced back by the number of characters that it makes of each
character, so nothing is searched for, or found at the wrong position.

Shape letters: N characters of the text, C of the cleaned text, T pieces.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import WORD_START, Tokenizer

_QUOTES = re.compile("``|''")  # two characters of which cleaning makes one
_SPACES = " " + WORD_START  # characters that SentencePiece takes for spaces


class Aligned(NamedTuple):
    """The pieces of a text: ids [T]; piece t is `text[starts[t]:ends[t]]`; all int32.

    Starts and ends never decrease. The space before a word is not part of its first piece; a piece
    that is only a space is empty, and begins where the next one does.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def align(tokenizer: Tokenizer, text: str) -> Aligned:
    """The pieces of a text; their ids are those of `Tokenizer.encode_lines`."""
    cleaned = tokenizer.clean(text)
    ids, starts, ends = [], [], []
    for id, start, end in tokenizer.spans(cleaned):
        piece = tokenizer.id_to_piece(id)
        is_space = not piece.strip(WORD_START)
        is_marked = piece.startswith(WORD_START)
        while start < end and (
            cleaned[start] in _SPACES
            # Characters without a width are spaces for some models.
            or is_marked
            and unicodedata.category(cleaned[start]) == "Cf"
        ):
            start += 1
        while start < end and cleaned[end - 1] in _SPACES:
            end -= 1
        # Where one character, such as …, becomes several pieces, or several bytes,
        # SentencePiece says of the last one alone that it has the character.
        if start == end and not is_space:
            end = start + 1
        ids.append(id)
        starts.append(-1 if is_space else start)
        ends.append(end)
    # A piece that is only a space begins and ends where the next one begins.
    following = len(cleaned)
    for index in range(len(ids) - 1, -1, -1):
        if starts[index] < 0:
            starts[index] = ends[index] = following
        following = starts[index]
    first, last = np.array(starts, np.int32), np.array(ends, np.int32)
    if cleaned != text:
        first, last = _in_text(tokenizer, text, len(cleaned), first, last)
    return Aligned(np.array(ids, np.int32), first, np.maximum.accumulate(last))


def _in_text(
    tokenizer: Tokenizer,
    text: str,
    length: int,
    starts: np.ndarray,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The `starts` and `ends` of pieces [T] in the text, of those in the cleaned text, which has
    `length` = C characters."""
    second_quotes = {match.start() + 1 for match in _QUOTES.finditer(text)}
    begins: list[int] = []  # of each character of the cleaned text
    free: list[int] = []  # spaces, and characters that are not removed
    widths: dict[str, int] = {}  # characters that cleaning makes of one
    has_word = False
    space = -1  # the first of several spaces before a word, which cleaning keeps
    for place, character in enumerate(text):
        if character.isspace():
            free.append(place)
            space = place if space < 0 else space
            continue
        if space >= 0 and has_word:
            begins.append(space)
        space, has_word = -1, True
        if character not in widths:
            widths[character] = len(tokenizer.clean(character))
        width = 0 if place in second_quotes else widths[character]
        begins += [place] * width
        if width:
            free.append(place)
    if len(begins) != length:
        raise RuntimeError(f"{len(begins)} characters from {text!r}, expected {length}")
    # A character that is removed, such as a combining accent, belongs to the one before it.
    free.append(len(text))
    following = np.searchsorted(free, begins, "right")
    stops = np.append(0, np.array(free)[following])
    found = np.append(begins, len(text))[starts]
    last = np.where(starts < ends, stops[ends], found)
    return found.astype(np.int32), last.astype(np.int32)


def piece_span(aligned: Aligned, start: int, end: int) -> tuple[int, int]:
    """The fewest pieces that contain the characters [start, end), the first and the last one.

    If no piece contains any of them, as between two words, first is last + 1.
    """
    first = int(np.searchsorted(aligned.ends, start, "right"))
    return first, int(np.searchsorted(aligned.starts, end, "left")) - 1
