"""The characters of a text that each of its pieces represents, in any script.

Three steps lead from one to the other: cleaning (`tokenizer.clean_text`), the normalization of the
SentencePiece model, and the cut into pieces. Each step says how many characters it makes of each
character, so nothing is searched for, or found at the wrong position.

Shape letters: N characters of the text, C of the cleaned text, S of what SentencePiece cuts, T
pieces.
"""

from __future__ import annotations

import collections
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlnet.tokenization.tokenizer import WORD_START, Tokenizer, clean_text

_QUOTES = re.compile("``|''")  # two characters of which cleaning makes one
_SPACE, _NOT_YET = 254, 255  # in the table of widths


class Aligned(NamedTuple):
    """The pieces of a text: ids [T]; piece t is `text[starts[t]:ends[t]]`; all int32.

    Starts and ends never decrease. The space before a word is not part of its first piece; a piece
    that is only a space is empty, and begins where the next one does.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Stretch(NamedTuple):
    """The origin of some characters: character i is from `text[begins[i]:ends[i]]`; int32 [i]."""

    begins: np.ndarray
    ends: np.ndarray

    def then(self, later: Stretch) -> Stretch:
        """The origin of the characters that `later` makes of these."""
        if not len(self.begins):
            return Stretch(np.zeros_like(later.begins), np.zeros_like(later.ends))
        last = len(self.begins) - 1
        return Stretch(
            self.begins[np.minimum(later.begins, last)], self.ends[np.clip(later.ends - 1, 0, last)]
        )


class Aligner:
    """Cuts texts into pieces and finds each one's characters in the text."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._pieces = [tokenizer.id_to_piece(id) for id in range(tokenizer.vocab_size)]
        self._shapes = piece_shapes(tokenizer)
        self._widths = np.full(sys.maxunicode + 1, _NOT_YET, np.uint8)

    def encode(self, texts: Sequence[str]) -> list[Aligned]:
        """The pieces of each text; their ids are those of `Tokenizer.encode_lines`."""
        ids, lengths = self._tokenizer.encode_to_array(texts)
        ends = np.cumsum(lengths)
        return [
            self._align(text, ids[end - length : end])
            for text, end, length in zip(texts, ends.tolist(), lengths.tolist())
        ]

    def _align(self, text: str, ids: np.ndarray) -> Aligned:
        shapes = self._shapes[ids]
        if (ids == self._tokenizer.unk_id).any():  # <unk> may be any number of characters
            pieces = self._tokenizer.pieces(text)
            unknown = np.flatnonzero(ids == self._tokenizer.unk_id)
            shapes[unknown] = [piece_shape(pieces[place]) for place in unknown.tolist()]
            joined = "".join(pieces)
        else:
            joined = "".join(map(self._pieces.__getitem__, ids.tolist()))
        return Aligned(ids, *self._positions(text, joined, shapes))

    def _positions(
        self, text: str, joined: str, shapes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the pieces, which are the text `joined`, are: starts, ends int32 [T]; shapes [T,3]
        as of `piece_shape`."""
        # "Zoe¨  x", where ¨ is a combining mark on the e, has N = 7 characters. Its pieces ▁Z, oe
        # and ▁x, S = 6, are its characters [0,1), [1,4) and [6,7).
        source = self._source(text, joined)  # of S characters
        size, before, after = shapes.T
        last = np.cumsum(size)
        first = np.minimum(last - size + before, len(source.begins))
        last = last - after
        # A piece without a character continues that of the piece before it, as later bytes do.
        first = np.where(size == 0, last - 1, first)
        is_empty = first >= last
        begins = np.append(source.begins, len(text))[first]
        ends = np.where(is_empty, begins, np.append(source.ends, len(text))[last - 1])
        # A space inside of a character, such as ﷺ, which normalizes to four words, is part of it.
        return begins.astype(np.int32), np.maximum.accumulate(ends).astype(np.int32)

    def _source(self, text: str, joined: str) -> Stretch:
        """The origin in the text of the S characters that SentencePiece cuts."""
        # From the S characters back to the cleaned text; normalization changes few texts.
        cleaned = self._tokenizer.clean(text)
        if joined == WORD_START + cleaned.replace(" ", WORD_START):  # almost always
            places = np.maximum(np.arange(-1, len(cleaned)), 0)
            made = Stretch(places, places + 1)
        else:
            normal, offsets = self._tokenizer.normalize_with_offsets(cleaned)
            places = np.array(offsets, np.int32)
            begins, stop = places[:-1], places[-1]
            _tell_apart(begins, stop, normal.replace(WORD_START, " "), cleaned)
            # Where one character, such as …, becomes several, all of them end where the next
            # begins.
            distinct = np.append(np.unique(begins), stop)
            made = Stretch(begins, distinct[np.searchsorted(distinct[:-1], begins, "right")])
        # From the C characters of the cleaned text back to the text.
        return made if cleaned == text else self._cleaned(text, len(cleaned)).then(made)

    def _cleaned(self, text: str, length: int) -> Stretch:
        """The origin in the text of the C characters of the cleaned text."""
        # How many characters cleaning makes of each character; of several spaces it keeps the
        # first.
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        widths = self._widths_of(codes)
        is_space = widths == _SPACE
        words = np.flatnonzero(~is_space)
        if len(words):
            kept = is_space & ~np.append(True, is_space[:-1])  # the first of several
            kept[words[-1] + 1 :] = False
            widths[is_space] = kept[is_space]
        else:
            widths[:] = 0
        for match in _QUOTES.finditer(text):
            widths[match.start() + 1] = 0
        # A character that is removed, such as a combining accent, belongs to the one before it.
        begins = np.repeat(np.arange(len(codes)), widths)
        free = np.append(np.flatnonzero((widths > 0) | is_space), len(codes))
        if len(begins) != length:
            raise RuntimeError(f"{len(begins)} characters from {text!r}, expected {length}")
        return Stretch(begins, free[np.searchsorted(free, begins, "right")])

    def _widths_of(self, codes: np.ndarray) -> np.ndarray:
        """The number of characters that cleaning makes of each, uint8 [N]; `_SPACE` for spaces."""
        widths = self._widths[codes]
        if (widths == _NOT_YET).any():
            for code in np.unique(codes[widths == _NOT_YET]).tolist():
                character = chr(code)
                if character.isspace():
                    self._widths[code] = _SPACE
                    continue
                cleaned = clean_text(
                    character,
                    self._tokenizer.uncased,
                    remove_space=False,
                    keep_accents=self._tokenizer.keep_accents,
                )
                self._widths[code] = len(cleaned)
            widths = self._widths[codes]
        return widths


def _tell_apart(begins: np.ndarray, stop: int, made: str, cleaned: str) -> None:
    """Gives each character of a span that normalization did not change a beginning of its own.

    Normalization treats some spans, such as user-defined pieces, as one: all of their characters
    have the same beginning. Changes `begins`.

    Args:
      begins: int32 [S], where the characters of `made` begin in `cleaned`.
      stop: where the last one ends.
      made: the normalized text.
      cleaned: the text before normalization.
    """
    firsts = np.flatnonzero(np.diff(begins, prepend=-1))
    ends = np.append(firsts[1:], len(begins))
    limits = np.append(begins[firsts[1:]], stop)
    several = ends - firsts > 1
    for first, end, limit in zip(*(each[several].tolist() for each in (firsts, ends, limits))):
        begin = int(begins[first])
        if cleaned[begin:limit] == made[first:end]:
            begins[first:end] = range(begin, limit)


def piece_shapes(tokenizer: Tokenizer) -> np.ndarray:
    """The `piece_shape` of each piece of a vocabulary, int32 [V,3]; that of <unk> means nothing."""
    pieces = [tokenizer.id_to_piece(id) for id in range(tokenizer.vocab_size)]
    shapes = np.array([piece_shape(piece) for piece in pieces], np.int32)
    for id in tokenizer.byte_ids:  # "<0xE4>": a first byte represents all of its character
        is_later = int(pieces[id][3:5], 16) & 0xC0 == 0x80
        shapes[id] = 0 if is_later else 1, 0, 0
    return shapes


def piece_shape(piece: str) -> tuple[int, int, int]:
    """(characters of a piece, spaces at its beginning, spaces at its end)."""
    before = len(piece) - len(piece.lstrip(WORD_START))
    after = len(piece) - len(piece.rstrip(WORD_START)) if before < len(piece) else 0
    return len(piece), before, after


# ---- spans ----

PieceSpan = collections.namedtuple("PieceSpan", "first last")  # pieces


def piece_span(aligned: Aligned, start: int, end: int) -> PieceSpan:
    """The fewest pieces that contain the characters [start, end).

    If no piece contains any of them, as between two words, first is last + 1.
    """
    return PieceSpan(
        int(np.searchsorted(aligned.ends, start, "right")),
        int(np.searchsorted(aligned.starts, end, "left")) - 1,
    )
