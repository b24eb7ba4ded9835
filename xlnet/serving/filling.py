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
# sees
#    everything read before it, and the query of the next position predicts the piece there. Each
#    beam has keys and values of its own.
# 3. With several orders, the searches in two of them propose fillings. Each filling is then scored
#    in every order, all of its pieces at once with the mask of that order as in pretraining, and
#    the probabilities are averaged.
# The fillings of all forms are compared by their probability.

from __future__ import annotations

import functools
import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.serving import sampling
from xlnet.serving.batched_calls import BatchedCall, Computed, require_finite
from xlnet.serving.settings import (
    MOST_PIECES,
    ORDERS,
    FillingSettings,
    from_keywords,
    stop_texts,
)
from xlnet.serving.texts import as_text
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer

if TYPE_CHECKING:
    from xlnet.serving.inference import Inference
    from xlnet.serving.language_model import LanguageModel, Reading

_log = logging.getLogger(__name__)

_ALL_ORDERED = 5  # pieces, at most, of which all orders are averaged
_MOST_ORDERS = math.factorial(_ALL_ORDERED)
_MOST_FORMS = 64  # numbers of pieces of all blanks that are tried
_SHOWN = 80  # characters of a text in an error


class Filling(NamedTuple):
    """A text with its blanks filled in.

    Attributes:
      words: what is in each blank.
      probability: joint one of all pieces, given how many there are.
      log_probability: its logarithm [nats].
      pieces: those of each blank.
      tokens_read: how many tokens of the text around the blanks were read.
      tokens: how many there are.
    """

    text: str
    words: tuple[str, ...]
    probability: float
    log_probability: float
    pieces: tuple[tuple[str, ...], ...]
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None


def filling_call(inference: Inference, **settings: Any) -> BatchedCall:
    """The call that fills the blanks of texts, one after the other.

    Args:
      settings: those of `FillingSettings`.
    """
    chosen = from_keywords(FillingSettings, settings)
    model = inference.language_model()
    check_model(model)

    def prepare(item: Any) -> Blanks:
        return Blanks(inference.tokenizer, as_text(item), chosen)

    def compute(items: list[Blanks]) -> list[Computed]:
        (blanks,) = items
        inference.note_cut(np.array([blanks.tokens_read < blanks.tokens]), chosen.context)
        fillings = [
            each._replace(tokens_read=blanks.tokens_read, tokens=blanks.tokens)
            for each in fill(model, blanks, chosen)
        ]
        return [Computed(fillings, blanks.tokens_read, blanks.tokens)]

    return BatchedCall(prepare, compute, 1)


def check_model(model: LanguageModel) -> None:
    """Raises UserError for a model that reads from left to right only."""
    if model.is_causal:
        raise UserError(
            "the model was trained with objective=causal and reads from left to right alone; "
            "it can generate text, a model trained with objective=permutation can fill in"
        )


def fill(model: LanguageModel, blanks: Blanks, settings: FillingSettings) -> list[Filling]:
    """The likeliest fillings, at most `top`, the likeliest first.

    Fillings of different numbers of pieces are compared as if every number were as likely before.
    """
    check_model(model)
    found: list[Filling] = []
    for widths, fillings in blanks.forms.items():
        found += _of_widths(model, blanks, widths, fillings, settings)
    return sorted(found, key=lambda filling: -filling.log_probability)[: settings.top]


class Blanks:
    """A text cut at its blanks. Of a long one only the tokens around the blanks are read.

    Attributes:
      forms: by the numbers of pieces of all blanks, a tuple: the fillings that are compared, int
        [C,P]; None: any.
      tokens_read: how many tokens around the blanks are read.
      tokens: how many there are.
    """

    # Example: "The ___ sat ___.", whose blanks have 2 pieces and 1 piece. The text is cut at the
    # blanks; `layout` returns the positions of the known tokens and those of the blanks' pieces:
    #   parts                        "The "         " sat "      "."
    #   known tokens, positions      0              3            5
    #   pieces of blanks, places           1  2           4

    def __init__(self, tokenizer: Tokenizer, text: str, settings: FillingSettings):
        self._tokenizer, self._settings = tokenizer, settings
        self._parts = settings.split(text)
        self.count = len(self._parts) - 1
        on_one_line = " ".join(text[: _SHOWN + 1].split())
        shown = f"'{on_one_line}'" if len(text) <= _SHOWN else f"'{on_one_line[:_SHOWN]} ...'"
        if not self.count:
            other = next((mark for mark in ("[MASK]", "<mask>") if mark in text), None)
            raise UserError(
                "no blank {} in {}{}".format(
                    settings.blank,
                    shown,
                    (
                        f"; write {settings.blank} for {other}, or set blank to '{other}'"
                        if other
                        else ""
                    ),
                )
            )
        # Each part is tokenized by itself: a piece never crosses the edge of a blank.
        ids: list[list[int]] = []
        for number, part in enumerate(self._parts):
            if not part.strip():
                ids.append([])
                continue
            begins_word = part[0].isspace() if number else tokenizer.marks_first_word
            ids += tokenizer.encode_words([part.strip()], [begins_word])
        if not any(ids):
            raise UserError(f"nothing but blanks in {shown}")
        self._ids = self._fit_to_context(ids)
        self.tokens_read, self.tokens = sum(map(len, self._ids)), sum(map(len, ids))
        # Whether the first piece of each blank has the mark of a space, which is before its word.
        self._after_space = []
        for number, part in enumerate(self._parts[:-1]):
            is_first_word = number == 0 and not part.strip()
            self._after_space.append(
                tokenizer.marks_first_word if is_first_word else part[-1:].isspace()
            )
        if settings.order not in ORDERS and len(settings.blanks_in_order()) != self.count:
            raise UserError(
                f"order is '{settings.order}', but there are {self.count} blanks in {shown}"
            )
        self.forms: dict = self._targets() if settings.targets else dict.fromkeys(self._forms())
        if not self.forms:
            raise UserError(
                "no piece of the vocabulary fits a blank of "
                f"whole_words={settings.whole_words}, pieces={settings.pieces}"
            )

    def _fit_to_context(self, ids: Sequence[list[int]]) -> list[list[int]]:
        """The ids of the parts without those that are too far from the blanks."""
        # All tokens between blanks are kept. The remaining room is divided equally between the text
        # before and after the blanks; if one side is shorter, the other side gets what is left.
        first, *between, last = ids
        room = self._settings.context - sum(map(len, between))
        if room < 0:
            raise UserError(
                f"the blanks are {sum(map(len, between))} tokens apart, expected at most "
                f"context, {self._settings.context}"
            )
        before = min(len(first), max(room - room // 2, room - len(last)))
        return [first[len(first) - before :], *between, last[: room - before]]

    def _targets(self) -> dict[tuple[int, ...], np.ndarray]:
        """The forms of the words that are compared."""
        if self.count != 1:
            raise UserError(f"targets: there are {self.count} blanks, expected one")
        found: dict[tuple[int, ...], list] = {}
        for word in stop_texts(self._settings.targets, "targets"):
            ids = self._tokenizer.encode_words([word.strip()], self._after_space)[0]
            if not ids or len(ids) > MOST_PIECES or self._tokenizer.unk_id in ids:
                raise UserError(
                    "targets: '{!s:.80}' has {}, expected 1 to {} of the vocabulary".format(
                        " ".join(word.split()),
                        "a piece that is not in the vocabulary"
                        if self._tokenizer.unk_id in ids
                        else f"{len(ids)} pieces",
                        MOST_PIECES,
                    )
                )
            found.setdefault((len(ids),), []).append(ids)
        return {widths: np.unique(ids, axis=0) for widths, ids in found.items()}

    def _forms(self) -> list[tuple[int, ...]]:
        """The numbers of pieces of all blanks for which the vocabulary has pieces."""
        numbers = self._settings.pieces_range()
        if len(numbers) ** min(self.count, 20) > _MOST_FORMS:
            raise UserError(
                "pieces is {}: {} blanks have {} forms, expected at most {}; give pieces={}".format(
                    self._settings.pieces,
                    self.count,
                    len(numbers) ** self.count if self.count <= 20 else "too many",
                    _MOST_FORMS,
                    numbers[0],
                )
            )
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
        special, punctuation = self._tokenizer.is_special.copy(), self._tokenizer.is_punctuation
        special[list(self._tokenizer.byte_ids)] = True  # a byte alone is not a character
        (marked, mark_alone), rows = _marked_pieces(self._tokenizer), []
        # In a vocabulary of characters every word begins with a piece that is only the mark.
        may_be_alone = self._settings.whole_words or not (marked & ~mark_alone).any()
        for width, after_space in zip(widths, self._after_space):
            for place in range(width):
                # The first piece of a word carries the mark of a space, and no other piece does. A
                # piece that is only the mark begins a word if more pieces follow.
                row = ~special
                if not place:
                    row &= marked if after_space else ~marked
                if self._settings.whole_words:
                    row &= ~punctuation
                    if place:
                        row &= ~marked
                if width == 1 or place or not may_be_alone:
                    row &= ~mark_alone
                rows.append(row)
        return np.array(rows)

    def filling(self, widths: Sequence[int], ids: np.ndarray, log_probability: float) -> Filling:
        """The `Filling` of pieces ids [P]."""
        pieces, ends = [], np.cumsum(widths)
        for end, width in zip(ends, widths):
            pieces.append(
                tuple(self._tokenizer.id_to_piece(int(id)) for id in ids[end - width : end])
            )
        words = tuple(
            self._tokenizer.decode(ids[end - width : end]).strip()
            for end, width in zip(ends, widths)
        )
        text = "".join(part + word for part, word in zip(self._parts, (*words, "")))
        return Filling(text, words, math.exp(log_probability), log_probability, tuple(pieces))


@functools.lru_cache(maxsize=2)
def _marked_pieces(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Whether each piece begins with the mark of a space, and whether it is nothing but the mark:
    bool [V] twice."""
    pieces = np.array([tokenizer.id_to_piece(id) for id in range(tokenizer.vocab_size)])
    return np.char.startswith(pieces, WORD_START), pieces == WORD_START


def _of_widths(
    model: LanguageModel,
    blanks: Blanks,
    widths: Sequence[int],
    fillings: Optional[np.ndarray],
    settings: FillingSettings,
) -> Iterator[Filling]:
    """The best fillings for blanks of these widths, their numbers of pieces.

    fillings: int [C,P], those that are compared; None: any.
    """
    ids, positions, places = blanks.layout(widths)
    orders, allowed = _orders(widths, settings), blanks.allowed(widths)
    with model.reading(len(ids) + len(places)) as reading:
        search = _Search(reading, ids, positions, places, allowed)
        scores: Optional[np.ndarray] = None
        if fillings is None:
            # With several orders only the first and the last one are searched, which go from left
            # to right and from right to left. A filling that is likely on average over the orders
            # is mostly among the best of one of these.
            searched = [orders[0], orders[-1]] if len(orders) > 1 else orders
            found = [search.best(order, settings.beams) for order in searched]
            fillings, first = np.unique(
                np.concatenate([each for each, _ in found]), axis=0, return_index=True
            )
            if len(orders) == 1:
                scores = np.concatenate([each for _, each in found])[first]
        if scores is None:  # the mean of the probabilities in all orders decides
            every = np.array([search.joint(fillings, order) for order in orders])
            scores = np.logaddexp.reduce(every, axis=0) - math.log(len(orders))
    # At most `top` fillings of these widths can be among the best of all widths.
    for row in sampling.best(scores, settings.top)[0]:
        yield blanks.filling(widths, fillings[row], float(scores[row]))


def _orders(widths: Sequence[int], settings: FillingSettings) -> list[list[int]]:
    """The factorization orders, each of the places 0 ... P - 1 in the text."""
    count = sum(widths)
    places = list(range(count))
    random = np.random.default_rng([settings.seed, count])
    if settings.order == "left_to_right":
        return [places]
    if settings.order == "right_to_left":
        return [places[::-1]]
    if settings.order == "random":
        return [random.permutation(count).tolist()]
    if settings.order == "all":
        if count <= _ALL_ORDERED:
            return [list(order) for order in itertools.permutations(places)]
        number_of_orders = f"over 10^{int(math.lgamma(count + 1) / math.log(10))}"
        if count <= 20:
            number_of_orders = f"{math.factorial(count):,}"
        _log.info(
            "note: %d pieces have %s orders; %d of them are averaged, sampled with the seed",
            count,
            number_of_orders,
            _MOST_ORDERS,
        )
        # The first and the last one are searched.
        between = [random.permutation(count).tolist() for _ in range(_MOST_ORDERS - 2)]
        return [places, *between, places[::-1]]
    begins = np.cumsum([0, *widths])
    order: list[int] = []
    for blank in settings.blanks_in_order():
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
            rows, ids = sampling.best(sums, beams)
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
        of_pieces = np.take_along_axis(log_probabilities, fillings[:, :, None], axis=2)  # [C,P,1]
        return of_pieces.sum(axis=(1, 2))
