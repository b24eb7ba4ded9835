"""Fills blanks in a text: the likeliest fillings, with the joint probability of all their pieces in
a factorization order (paper, section 2.1).

Shape letters: P pieces of all blanks, C fillings, V vocabulary.
"""

# A blank is one or more pieces. In an order z the probability of a filling x is the product over
# its pieces of p(x_z[t] | the known text, x_z[1] ... x_z[t-1]): it depends on the positions of all
# pieces, and on the pieces earlier in the order.
#
# For each number of pieces that the blanks may have (a "form"), as positions depend on it:
# 1. The known tokens are read once, and all see each other. The query of the first position of the
#    order sees them: log probabilities of each piece there.
# 2. A beam search follows the order. In each step the piece that was chosen last is read, which
#    sees everything read before it, and the query of the next position predicts the piece there.
#    Each beam has keys and values of its own.
# The fillings of all forms are compared by their probability.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import WORD_START, Tokenizer
from xlnet.inference.generation import best
from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    as_text,
    require_known,
)
from xlnet.inference.settings import (
    BLANK,
    BLANKS,
    CONTEXT,
    MOST_PIECES,
    FillingSettings,
    from_keywords,
)
from xlnet.support.errors import wrong


class Filling(NamedTuple):
    """A text with its blanks filled in.

    Attributes:
      words: what is in each blank.
      probability: joint one of all pieces, given how many there are.
      log_probability: its logarithm [nats].
      pieces: those of each blank.
    """

    text: str
    words: tuple[str, ...]
    probability: float
    log_probability: float
    pieces: tuple[tuple[str, ...], ...]


class Filler(Method):
    """Fills the blanks of texts, one after the other.

    Args:
      model: a pretrained one with a query stream.
      settings: those of `FillingSettings`.
    """

    def __init__(self, model: RestoredModel, **settings: Any) -> None:
        self._settings = from_keywords(FillingSettings, settings)
        self._model = model
        self._network = model.language_model()
        self._network.require_queries()
        self._pieces = BlankPieces(model.tokenizer)

    def compute_one(self, item: Any) -> Computed:
        blanks = Blanks(self._pieces, as_text(item), self._settings.most_pieces)
        top = self._settings.top
        found = []
        for widths in blanks.forms:
            fillings, scores = self._search(blanks, widths)
            # At most `top` fillings of these widths can be among the best of all widths.
            for ids, score in zip(fillings[:top], scores.tolist()):
                found.append(blanks.filling(widths, ids, score))
        # The probability of a filling is given its numbers of pieces: all numbers count as equally
        # likely.
        found.sort(key=lambda filling: -filling.log_probability)
        if not found:
            raise wrong(
                "text", blanks.shown, "blanks that pieces of the vocabulary fit"
            )
        is_cut = np.array([blanks.tokens_read < blanks.tokens])
        self._model.note_cut(is_cut, CONTEXT)
        return Computed(found[:top], blanks.tokens_read, blanks.tokens)

    def _search(
        self, blanks: Blanks, widths: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest fillings of a form that a beam search finds, at most `beams`, the likeliest
        first: int [C,P]; their log probabilities [C]."""
        layout, allowed = blanks.layout(widths), blanks.allowed(widths)
        places = np.flatnonzero(layout < 0).tolist()
        positions = np.flatnonzero(layout >= 0).tolist()
        order = list(range(len(places)))
        if self._settings.order == "right_to_left":
            order.reverse()
        fillings = np.zeros((1, len(order)), np.int64)
        scores = np.zeros(1)
        ids, read = layout[None, positions], positions  # what is read next
        with self._network.reading(len(layout)) as reading:
            for place in order:
                found = reading.read(ids, read, [places[place]])
                # The candidates are all beams with every piece at this place; the best ones
                # continue.
                sums = scores[:, None] + found[:, 0]  # [C,V]
                sums = np.where(allowed[place], sums, -np.inf)
                rows, chosen = best(sums, self._settings.beams)
                fillings, scores = fillings[rows], sums[rows, chosen]
                fillings[:, place] = chosen
                # The vocabulary may have no piece for a place.
                if place == order[-1] or not len(rows):
                    break
                reading.keep(rows.tolist())
                ids, read = fillings[:, [place]], [places[place]]
        return fillings, scores


class BlankPieces:
    """The pieces of a vocabulary that may fill a blank: words, which have no punctuation.

    Attributes:
      begins_word: bool [V], pieces that begin a word; the mark of a space alone is one of them if
        the vocabulary has characters only.
      inside: bool [V], pieces that continue a word, or begin a blank that follows no space.
      is_mark: bool [V], the mark of a space alone.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        ids = range(tokenizer.vocab_size)
        names = np.array([tokenizer.id_to_piece(id) for id in ids])
        is_usable = ~tokenizer.is_special & ~tokenizer.stands_alone
        is_usable[list(tokenizer.byte_ids)] = False  # a byte alone is not a character
        is_marked = np.char.startswith(names, WORD_START)
        self.is_mark = names == WORD_START
        self.inside = is_usable & ~is_marked
        self.begins_word = is_usable & is_marked
        with_text = self.begins_word & ~self.is_mark
        if with_text.any():  # else the vocabulary has characters only
            self.begins_word = with_text


class Blanks:
    """A text cut at its blanks. Of a long one only the tokens around the blanks are read. `widths`
    are the numbers of pieces of the blanks, one of `forms`.

    Attributes:
      shown: the text, as errors show it.
      forms: the numbers of pieces that the blanks may have, a tuple for each form.
      tokens_read: how many tokens around the blanks are read.
      tokens: how many there are.
    """

    # Example: "The ___ sat ___.", whose blanks have 2 pieces and 1 piece. The text is cut at the
    # blanks; `layout` returns the known tokens, and -1 at the places of the blanks' pieces:
    #   parts                        "The "         " sat "      "."
    #   known tokens                 the            sat          .
    #   pieces of blanks                   -1  -1         -1

    def __init__(self, pieces: BlankPieces, text: str, most_pieces: int):
        self._pieces = pieces
        self._tokenizer = tokenizer = pieces.tokenizer
        self._parts = BLANKS.split(text)
        count = len(self._parts) - 1
        self.shown = f"{' '.join(text.split())!r:.80}"
        if not count:
            raise wrong("text", self.shown, f"one with a blank, {BLANK}")
        # Each part is tokenized by itself: a piece never crosses the edge of a blank.
        ids: list[list[int]] = []
        self._after_space = []  # whether each blank follows a space
        for number, part in enumerate(self._parts):
            begins_word = part[:1].isspace() if number else tokenizer.marks_first_word
            after_space = part[-1:].isspace()
            if part.strip():
                ids += tokenizer.encode_words([part.strip()], [begins_word])
            else:
                ids.append([])
                if number == 0:  # the text begins with a blank
                    after_space = tokenizer.marks_first_word
            self._after_space.append(after_space)
        if not any(ids):
            raise wrong("text", self.shown, "more than blanks")
        require_known(tokenizer, self._parts)
        self._ids = self._fit_to_context(ids)
        self.tokens_read = sum(map(len, self._ids))
        self.tokens = sum(map(len, ids))
        if max(count * most_pieces, most_pieces**count) > MOST_PIECES:
            found = f"{count} blanks of up to {most_pieces} pieces"
            expected = f"at most {MOST_PIECES} pieces, in as many combinations"
            raise wrong("text", found, expected, "--most_pieces")
        widths = range(1, most_pieces + 1)
        self.forms = list(itertools.product(widths, repeat=count))

    def _fit_to_context(self, ids: Sequence[list[int]]) -> list[list[int]]:
        """The ids of the parts without those that are too far from the blanks."""
        # All tokens between blanks are kept. The remaining room is divided equally between the text
        # before and after the blanks; if one side is shorter, the other side gets what is left.
        first, *between, last = ids
        apart = sum(map(len, between))
        if apart > CONTEXT:
            found = f"blanks that are {apart} tokens apart"
            raise wrong("text", found, f"at most {CONTEXT}")
        room = CONTEXT - apart
        before = min(len(first), max(room - room // 2, room - len(last)))
        return [first[len(first) - before :], *between, last[: room - before]]

    def layout(self, widths: Sequence[int]) -> np.ndarray:
        """The ids of the known tokens, and -1 for each piece of a blank, in the order of the
        text."""
        ids = []
        for part, width in zip(self._ids, (*widths, 0)):
            ids.extend(part)
            ids.extend([-1] * width)
        return np.array(ids)

    def allowed(self, widths: Sequence[int]) -> np.ndarray:
        """Which pieces each position of a blank may have: bool [P,V]."""
        pieces, rows = self._pieces, []
        for width, after_space in zip(widths, self._after_space):
            first = pieces.begins_word if after_space else pieces.inside
            if width == 1:  # the mark of a word's begin alone would be an empty word
                first = first & ~pieces.is_mark
            rows.append(first)
            rows += [pieces.inside] * (width - 1)
        return np.array(rows)

    def filling(
        self, widths: Sequence[int], ids: np.ndarray, log_probability: float
    ) -> Filling:
        """The `Filling` with the pieces ids [P], in the order of the text."""
        words, pieces = [], []
        text = self._parts[0]
        its_blanks = np.split(ids, np.cumsum(widths)[:-1])
        for its_ids, part in zip(its_blanks, self._parts[1:]):
            pieces.append(tuple(map(self._tokenizer.id_to_piece, its_ids)))
            words.append(self._tokenizer.decode(its_ids).strip())
            text += words[-1] + part
        return Filling(
            text,
            tuple(words),
            math.exp(log_probability),
            log_probability,
            tuple(pieces),
        )
