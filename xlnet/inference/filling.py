"""Fills blanks in a text: the likeliest fillings, with the joint probability of all their pieces in
any factorization order (paper, section 2.1).

Shape letters: P pieces of all blanks, C fillings, V vocabulary.
"""

# A blank is one or more pieces. In an order z the probability of a filling x is the product over
# its pieces of p(x_z[t] | the known text, x_z[1] ... x_z[t-1]): it depends on the positions of all
# pieces, and on the pieces earlier in the order.
#
# For each number of pieces that the blanks may have (a "form"), as positions depend on it:
# 1. The known tokens are read once, and all see each other. The query of each blank's position sees
#    them: log probabilities of each piece as the first of the order (`_Search`).
# 2. A beam search follows the order. In each step the piece that was chosen last is read, which
#    sees everything read before it, and the query of the next position predicts the piece there.
#    Each beam has keys and values of its own.
# 3. With several orders, the searches in two of them propose fillings. Each filling is then scored
#    in every order, all of its pieces at once with the mask of that order as in pretraining, and
#    the probabilities are averaged.
# The fillings of all forms are compared by their probability.

from __future__ import annotations

import itertools
import logging
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.tokenizer import WORD_START, Tokenizer
from xlnet.inference.generation import best
from xlnet.inference.inference import Call, Inference, require_finite
from xlnet.inference.language_model import LanguageModel, Reading
from xlnet.inference.settings import (
    BLANK,
    CONTEXT,
    ORDERS,
    FillingSettings,
    from_keywords,
    numbers_in_order,
)
from xlnet.inference.texts import as_text, count_unknown
from xlnet.support.errors import wrong

_log = logging.getLogger(__name__)

_ALL_ORDERED = 5  # pieces, at most, of which all orders are averaged
_MOST_ORDERS = math.factorial(_ALL_ORDERED)
_MOST_FORMS = 64  # numbers of pieces of all blanks that are tried


class Filling(NamedTuple):
    """A text with its blanks filled in.

    Attributes:
      words: what is in each blank.
      probability: joint one of all pieces, given how many there are.
      log_probability: its logarithm [nats].
      pieces: those of each blank.
      tokens_read: how many tokens of the text around the blanks were read.
      tokens: how many there are.
      unknown_tokens: how many of these are not in the vocabulary.
    """

    text: str
    words: tuple[str, ...]
    probability: float
    log_probability: float
    pieces: tuple[tuple[str, ...], ...]
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None


def filling_call(inference: Inference, **settings: Any) -> Call:
    """The call that fills the blanks of texts, one after the other.

    Args:
      settings: those of `FillingSettings`.
    """
    chosen = from_keywords(FillingSettings, settings)
    model = inference.language_model()
    model.require_queries()
    if inference.blank_pieces is None:
        inference.blank_pieces = BlankPieces(inference.tokenizer)

    def prepare(item: Any) -> Blanks:
        return Blanks(inference.blank_pieces, as_text(item), chosen)

    def compute(items: list[Blanks]) -> list[list[Filling]]:
        (blanks,) = items
        inference.note_cut(np.array([blanks.tokens_read < blanks.tokens]), CONTEXT)
        fillings = []
        for filling in fill(model, blanks, chosen):
            fillings.append(
                filling._replace(
                    tokens_read=blanks.tokens_read,
                    tokens=blanks.tokens,
                    unknown_tokens=blanks.unknown,
                )
            )
        return [fillings]

    return Call(prepare, compute, 1)


def fill(
    model: LanguageModel, blanks: Blanks, settings: FillingSettings
) -> list[Filling]:
    """The likeliest fillings, at most `top`, the likeliest first.

    Fillings of different numbers of pieces are compared as if every number were as likely before.
    """
    found: list[Filling] = []
    for widths in blanks.forms:
        found += _of_widths(model, blanks, widths, settings)
    return sorted(found, key=lambda filling: -filling.log_probability)[: settings.top]


class BlankPieces:
    """The pieces of a vocabulary that may fill a blank."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        names = np.array(
            [tokenizer.id_to_piece(id) for id in range(tokenizer.vocab_size)]
        )
        self._is_marked = np.char.startswith(
            names, WORD_START
        )  # bool [V], with that of a space
        self._is_mark = names == WORD_START  # nothing but the mark
        self._is_special = tokenizer.is_special.copy()
        self._is_special[list(tokenizer.byte_ids)] = (
            True  # a byte alone is not a character
        )

    def allowed(
        self, width: int, after_space: bool, whole_words: bool
    ) -> list[np.ndarray]:
        """Which pieces each position of a blank of `width` pieces may have, bool [V] of each."""
        # In a vocabulary of characters every word begins with a piece that is only the mark.
        may_be_alone = not whole_words or not (self._is_marked & ~self._is_mark).any()
        rows = []
        for place in range(width):
            # The first piece of a word carries the mark of a space, and no other piece does. A
            # piece that is only the mark begins a word if more pieces follow.
            row = ~self._is_special
            if not place:
                row &= self._is_marked if after_space else ~self._is_marked
            if whole_words:
                row &= ~self.tokenizer.is_punctuation
                if place:
                    row &= ~self._is_marked
            if width == 1 or place or not may_be_alone:
                row &= ~self._is_mark
            rows.append(row)
        return rows


class Blanks:
    """A text cut at its blanks. Of a long one only the tokens around the blanks are read.

    Attributes:
      forms: the numbers of pieces that the blanks may have, a tuple for each form.
      tokens_read: how many tokens around the blanks are read.
      tokens: how many there are.
      unknown: how many of these are not in the vocabulary.
    """

    # Example: "The ___ sat ___.", whose blanks have 2 pieces and 1 piece. The text is cut at the
    # blanks; `layout` returns the positions of the known tokens and those of the blanks' pieces:
    #   parts                        "The "         " sat "      "."
    #   known tokens, positions      0              3            5
    #   pieces of blanks, places           1  2           4

    def __init__(self, pieces: BlankPieces, text: str, settings: FillingSettings):
        tokenizer = pieces.tokenizer
        self._pieces, self._tokenizer, self._settings = pieces, tokenizer, settings
        self._parts = re.split(BLANK + "_*", text)
        self.count = len(self._parts) - 1
        shown = f"{' '.join(text.split())!r:.80}"
        if not self.count:
            raise wrong("text", shown, f"one with a blank, {BLANK}")
        # Each part is tokenized by itself: a piece never crosses the edge of a blank.
        ids: list[list[int]] = []
        self._after_space = []  # whether the first piece of each blank has the mark of a space
        for number, part in enumerate(self._parts):
            begins_word = part[:1].isspace() if number else tokenizer.marks_first_word
            words = (
                tokenizer.encode_words([part.strip()], [begins_word])
                if part.strip()
                else [[]]
            )
            ids += words
            is_first_word = number == 0 and not part.strip()
            self._after_space.append(
                tokenizer.marks_first_word if is_first_word else part[-1:].isspace()
            )
        if not any(ids):
            raise wrong("text", shown, "more than blanks")
        self.unknown = count_unknown(tokenizer, self._parts)
        self._ids = self._fit_to_context(ids)
        self.tokens_read = sum(map(len, self._ids))
        self.tokens = sum(map(len, ids))
        if settings.order not in ORDERS:
            if len(numbers_in_order(settings.order, ORDERS, "blanks")) != self.count:
                raise wrong(
                    "order", repr(settings.order), f"the numbers of {self.count} blanks"
                )
        self.forms = self._forms()
        if not self.forms:
            found = f"{settings.pieces} with whole_words={settings.whole_words}"
            raise wrong("pieces", found, "pieces of the vocabulary that fit the blanks")

    def _fit_to_context(self, ids: Sequence[list[int]]) -> list[list[int]]:
        """The ids of the parts without those that are too far from the blanks."""
        # All tokens between blanks are kept. The remaining room is divided equally between the text
        # before and after the blanks; if one side is shorter, the other side gets what is left.
        first, *between, last = ids
        apart = sum(map(len, between))
        if apart > CONTEXT:
            raise wrong(
                "text", f"blanks that are {apart} tokens apart", f"at most {CONTEXT}"
            )
        room = CONTEXT - apart
        before = min(len(first), max(room - room // 2, room - len(last)))
        return [first[len(first) - before :], *between, last[: room - before]]

    def _forms(self) -> list[tuple[int, ...]]:
        """The numbers of pieces of all blanks for which the vocabulary has pieces."""
        numbers = self._settings.pieces_range()
        if self.count * math.log(len(numbers)) > math.log(_MOST_FORMS):
            expected = f"{_MOST_FORMS} forms of {self.count} blanks; pieces={numbers[0]} is one"
            raise wrong("pieces", self._settings.pieces, "at most " + expected)
        forms = itertools.product(numbers, repeat=self.count)
        return [widths for widths in forms if self.allowed(widths).any(axis=1).all()]

    def layout(self, widths: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """Ids and positions of the known tokens, and positions [P] of the blanks' pieces."""
        ids: list[int] = []
        positions: list[int] = []
        places: list[int] = []
        position = 0
        for part, width in zip(self._ids, (*widths, 0)):
            ids += part
            positions += range(position, position + len(part))
            position += len(part)
            places += range(position, position + width)
            position += width
        return ids, positions, places

    def allowed(self, widths: Sequence[int]) -> np.ndarray:
        """Which pieces each position of a blank may have: bool [P,V]."""
        rows = []
        for width, after_space in zip(widths, self._after_space):
            rows += self._pieces.allowed(width, after_space, self._settings.whole_words)
        return np.array(rows)

    def filling(
        self, widths: Sequence[int], ids: np.ndarray, log_probability: float
    ) -> Filling:
        """The `Filling` of pieces ids [P]."""
        words: list[str] = []
        pieces: list[tuple[str, ...]] = []
        text = self._parts[0]
        end = 0
        for width, part in zip(widths, self._parts[1:]):
            begin, end = end, end + width
            its_ids = ids[begin:end].tolist()
            pieces.append(tuple(map(self._tokenizer.id_to_piece, its_ids)))
            words.append(self._tokenizer.decode(its_ids).strip())
            text += words[-1] + part
        probability = math.exp(log_probability)
        return Filling(text, tuple(words), probability, log_probability, tuple(pieces))


def _of_widths(
    model: LanguageModel,
    blanks: Blanks,
    widths: Sequence[int],
    settings: FillingSettings,
) -> Iterator[Filling]:
    """The best fillings for blanks of these widths, their numbers of pieces."""
    ids, positions, places = blanks.layout(widths)
    orders, allowed = _orders(widths, settings), blanks.allowed(widths)
    with model.reading(len(ids) + len(places)) as reading:
        search = _Search(reading, ids, positions, places, allowed)
        if len(orders) == 1:
            fillings, scores = search.best(orders[0], settings.beams)
        else:
            # Only the first and the last order are searched, which go from left to right and from
            # right to left. A filling that is likely on average over the orders is mostly among the
            # best of one of these. The mean of the probabilities in all orders decides.
            found = [
                search.best(order, settings.beams)[0]
                for order in (orders[0], orders[-1])
            ]
            fillings = np.unique(np.concatenate(found), axis=0)
            every = np.array([search.joint(fillings, order) for order in orders])
            scores = np.logaddexp.reduce(every, axis=0) - math.log(len(orders))
    # At most `top` fillings of these widths can be among the best of all widths.
    for row in best(scores, settings.top)[0]:
        yield blanks.filling(widths, fillings[row], float(scores[row]))


def _orders(widths: Sequence[int], settings: FillingSettings) -> list[list[int]]:
    """The factorization orders, each of the places 0 ... P - 1 in the text."""
    count = sum(widths)
    places = list(range(count))
    if settings.order == "left_to_right":
        return [places]
    if settings.order == "right_to_left":
        return [places[::-1]]
    if settings.order == "all":
        if count <= _ALL_ORDERED:
            return [list(order) for order in itertools.permutations(places)]
        _log.info(
            "note: of the orders of %d pieces %d are averaged, sampled",
            count,
            _MOST_ORDERS,
        )
        # The first and the last one are searched.
        random = np.random.default_rng(count)
        between = [random.permutation(count).tolist() for _ in range(_MOST_ORDERS - 2)]
        return [places, *between, places[::-1]]
    begins = np.cumsum([0, *widths])
    order: list[int] = []
    for blank in numbers_in_order(settings.order, ORDERS, "blanks"):
        order += range(begins[blank], begins[blank + 1])
    return [order]


class _Search:
    """Fillings of the blanks of one text. positions: of its known tokens; places: [P], of the
    blanks' pieces."""

    def __init__(
        self,
        reading: Reading,
        ids: Sequence[int],
        positions: Sequence[int],
        places: Sequence[int],
        allowed: np.ndarray,
    ):
        self._reading, self._known, self._places = reading, len(ids), places
        self._allowed = allowed
        self._first = reading.read(np.array([ids]), positions, places)[0]  # [P,V]
        require_finite(self._first)

    def best(self, order: Sequence[int], beams: int) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest fillings in this order that a beam search finds, at most `beams`: int
        [C,P]; their log probabilities [C]."""
        # Go back to one text with the known tokens: what earlier searches have read is forgotten.
        self._reading.keep([0])
        fillings = np.zeros((1, len(order)), np.int64)
        scores = np.zeros(1)
        log_probabilities = self._first[order[0]][None]  # [1,V]
        again_from = self._known
        for step, place in enumerate(order):
            if step:
                before = order[step - 1]
                log_probabilities = self._reading.read(
                    fillings[:, [before]],
                    [self._places[before]],
                    [self._places[place]],
                    again_from=again_from,
                )[:, 0]  # [C,V]
                require_finite(log_probabilities)
                again_from += 1
            # The candidates are all beams with every piece at this place; the best ones continue.
            sums = scores[:, None] + log_probabilities  # [C,V]
            sums = np.where(self._allowed[place], sums, -np.inf)
            rows, ids = best(sums, beams)
            fillings, scores = fillings[rows], sums[rows, ids]
            fillings[:, place] = ids
            if step + 1 < len(order):
                self._reading.keep(rows.tolist())
        return fillings, scores

    def joint(self, fillings: np.ndarray, order: Sequence[int]) -> np.ndarray:
        """The log probabilities [C] of fillings int [C,P] in this order, in one pass."""
        # All pieces are read together. In the content stream a piece does not see those later in
        # the order; the query that predicts it does not see the piece itself, either.
        self._reading.keep([0] * len(fillings))
        rank = np.argsort(order)
        content_hides = rank > rank[:, None]  # [P,P]
        query_hides = rank >= rank[:, None]
        log_probabilities = self._reading.read(
            fillings,
            self._places,
            self._places,
            again_from=self._known,
            hidden=np.concatenate([content_hides, query_hides]),
        )  # [C,P,V]
        require_finite(log_probabilities)
        of_pieces = np.take_along_axis(
            log_probabilities, fillings[:, :, None], axis=2
        )  # [C,P,1]
        return of_pieces.sum(axis=(1, 2))
