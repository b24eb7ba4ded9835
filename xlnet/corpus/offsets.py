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
    """The pieces of a text: int32 [T] each; piece t has the characters `text[starts[t]:ends[t]]`.

    Starts and ends never decrease. The space before a word is not part of its first piece; a piece
    that is only a space is empty, and begins where the next one does.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def align(tokenizer: Tokenizer, text: str) -> Aligned:
    """Returns the pieces of a text with their characters; the ids are those of
    `Tokenizer.encode_lines`."""
    cleaned = tokenizer.clean(text)
    ids, starts, ends = [], [], []  # starts and ends in the cleaned text
    for id, start, end in tokenizer.spans(cleaned):
        piece = tokenizer.id_to_piece(id)
        is_space = not piece.strip(WORD_START)  # the mark of a word and nothing else
        is_marked = piece.startswith(WORD_START)
        # Without the spaces around it, among which some models count characters of no width (Cf).
        while start < end and (
            cleaned[start] in _SPACES
            or (is_marked and unicodedata.category(cleaned[start]) == "Cf")
        ):
            start += 1
        while start < end and cleaned[end - 1] in _SPACES:
            end -= 1
        # Where one character, such as …, becomes several pieces, or several bytes,
        # SentencePiece says of the last one alone that it has the character.
        if start == end and not is_space:
            end = start + 1
        ids.append(id)
        starts.append(-1 if is_space else start)  # -1: see below
        ends.append(end)
    # A piece that is only a space begins and ends where the next one begins.
    following = len(cleaned)
    for index in range(len(ids) - 1, -1, -1):
        if starts[index] < 0:
            starts[index] = ends[index] = following
        following = starts[index]
    text_starts, text_ends = np.array(starts, np.int32), np.array(ends, np.int32)
    if cleaned != text:
        text_starts, text_ends = _in_text(
            tokenizer, text, len(cleaned), text_starts, text_ends
        )
    # One character, such as ﷺ, may become several words. A space between them is at the beginning
    # of the character, before the end of the word to its left: its end is raised to that.
    text_ends = np.maximum.accumulate(text_ends)
    return Aligned(np.array(ids, np.int32), text_starts, text_ends)


def _in_text(
    tokenizer: Tokenizer,
    text: str,
    cleaned_length: int,
    starts: np.ndarray,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the starts and the ends of pieces in the text, int32 [T] each, from those in the
    cleaned text, `starts` and `ends`, int32 [T]. cleaned_length: C.

    Example: of the five characters o, a combining accent, two spaces and x, cleaning makes the
    three of "o x". These begin at 0, 2 and 4 of the text, and end at 2, 3 and 5.
    """
    second_quotes = {match.start() + 1 for match in _QUOTES.finditer(text)}
    # [C], where in the text the character is of which each is made.
    begins: list[int] = []
    # Where the text has spaces, and characters that are not removed.
    kept: list[int] = []
    widths: dict[str, int] = {}  # how many characters cleaning makes of a character
    has_word = False  # spaces before the first word are removed
    # The first of the spaces before a word, which cleaning keeps; -1: there are none.
    space = -1
    for place, character in enumerate(text):
        if character.isspace():
            kept.append(place)
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
            kept.append(place)
    if len(begins) != cleaned_length:
        raise RuntimeError(
            f"{len(begins)} characters from {text!r}, expected {cleaned_length}"
        )
    # A character ends where the next one that is kept begins: so one that is removed, such as a
    # combining accent, belongs to the one before it.
    kept.append(len(text))
    following = np.searchsorted(kept, begins, "right")  # [C], indices in `kept`
    # [C+1], by the end of a piece in the cleaned text: where its last character ends.
    character_ends = np.append(0, np.array(kept)[following])
    text_starts = np.append(begins, len(text))[starts]
    # A piece without characters ends where it begins.
    text_ends = np.where(starts < ends, character_ends[ends], text_starts)
    return text_starts.astype(np.int32), text_ends.astype(np.int32)


def piece_span(aligned: Aligned, start: int, end: int) -> tuple[int, int]:
    """The indices (first, last) of the fewest pieces that contain the characters [start, end).

    If no piece contains any of them, as between two words, first is last + 1.
    """
    # The first piece that ends behind `start`, and how many begin before `end`.
    first = int(np.searchsorted(aligned.ends, start, "right"))
    num_begun = int(np.searchsorted(aligned.starts, end, "left"))
    return first, num_begun - 1
