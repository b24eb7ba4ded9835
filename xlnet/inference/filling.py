"""Fills blanks in a text: the likeliest fillings, with the joint probability of all their pieces in
a factorization order (paper, section 2.1).

The form of a filling is how many pieces each blank has, such as (2, 1). Known tokens are those
around the blanks. Shape letters: P pieces of all blanks, C fillings, T known tokens, V vocabulary.
"""

# A blank is one or more pieces. In an order z the probability of a filling x is the product over
# its pieces of p(x_z[t] | the known text, x_z[1] ... x_z[t-1]): it depends on the positions of all
# pieces, and on the pieces earlier in the order.
#
# For each form, as positions depend on it:
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
from xlnet.inference.generation import largest
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
      words: the text of each blank.
      probability: the joint one of all pieces, given how many pieces each blank has.
      log_probability: its logarithm [nats].
      pieces: a tuple of pieces for each blank.
    """

    text: str
    words: tuple[str, ...]
    probability: float
    log_probability: float
    pieces: tuple[tuple[str, ...], ...]


class Filler(Method):
    """Fills the blanks of texts, one after the other: a list of `Filling` for each, the likeliest
    first.

    Args:
      model: a pretrained one with a query stream.
      settings: those of `FillingSettings`.
    """

    def __init__(self, model: RestoredModel, /, **settings: Any) -> None:
        self._settings = from_keywords(FillingSettings, settings)
        self._model = model
        self._network = model.language_model()
        self._network.require_queries()
        self._pieces = BlankPieces(model.tokenizer)

    def compute_one(self, item: Any) -> Computed:
        """The likeliest fillings of a text, a list of `top` `Filling`s, or fewer."""
        blanks = Blanks(self._pieces, as_text(item), self._settings.most_pieces)
        top = self._settings.top
        fillings = []
        # For each choice of the numbers of pieces of the blanks:
        for widths in blanks.forms:
            ids, log_probabilities = self._search(blanks, widths)  # [C,P], [C]
            # At most `top` fillings of one form can be among the `top` best of all.
            for row, log_probability in zip(ids[:top], log_probabilities.tolist()):
                fillings.append(blanks.filling(widths, row, log_probability))
        # The probability of a filling is given its numbers of pieces: all numbers count as equally
        # likely.
        fillings.sort(key=lambda filling: -filling.log_probability)
        if not fillings:
            raise wrong(
                "text", blanks.shown, "blanks that pieces of the vocabulary fit"
            )
        is_cut = np.array([blanks.tokens_read < blanks.tokens])
        self._model.note_cut(is_cut, CONTEXT)
        return Computed(fillings[:top], blanks.tokens_read, blanks.tokens)

    def _search(
        self, blanks: Blanks, widths: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds the likeliest fillings of the blanks by a beam search.

        Args:
          blanks: of the text.
          widths: of each blank the number of its pieces; P is their sum.

        Returns:
          (the ids of the pieces of the C best fillings, int [C,P], the likeliest first; their log
          probabilities, [C]). C is at most `beams` or `top`, whichever is more, and 0 if no piece
          of the vocabulary fits.
        """
        layout = blanks.layout(widths)
        is_allowed = blanks.is_allowed(widths)  # [P,V]
        blank_positions = np.flatnonzero(layout < 0).tolist()  # [P]
        known_positions = np.flatnonzero(layout >= 0).tolist()
        order = list(range(len(blank_positions)))  # indices of the P pieces
        if self._settings.order == "right_to_left":
            order.reverse()
        # The beams: at first one without pieces; each step chooses one more piece for all.
        fillings = np.zeros((1, len(order)), np.int64)  # [C,P]
        sums = np.zeros(1)  # [C], of log probabilities
        # What is read next: first the known tokens [1,T], then the piece [C,1] chosen last.
        ids, positions = layout[None, known_positions], known_positions
        with self._network.reading(len(layout)) as reading:
            for index in order:
                blank = blank_positions[index]
                log_probabilities = reading.read(ids, positions, [blank])  # [C,1,V]
                # The candidates are all beams with every piece here; the best ones continue.
                scores = sums[:, None] + log_probabilities[:, 0]  # [C,V]
                scores = np.where(is_allowed[index], scores, -np.inf)
                count = max(self._settings.beams, self._settings.top)
                beams, chosen = largest(scores, count)
                fillings, sums = fillings[beams], scores[beams, chosen]
                fillings[:, index] = chosen
                # The vocabulary may have no piece that fits here.
                if index == order[-1] or not len(beams):
                    break
                reading.select(beams.tolist())
                ids, positions = fillings[:, [index]], [blank]
        return fillings, sums


class BlankPieces:
    """The pieces of a vocabulary that may fill a blank: words, which have no punctuation.

    Attributes:
      begins_word: bool [V], pieces that begin a word; the mark of a space alone is one of them if
        the vocabulary has characters only.
      continues_word: bool [V], pieces that continue a word, or begin a blank that follows no space.
      is_mark: bool [V], True for the mark of a space alone.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        every_id = range(tokenizer.vocab_size)
        pieces = np.array([tokenizer.id_to_piece(id) for id in every_id])
        is_usable = ~tokenizer.is_special & ~tokenizer.stands_alone
        is_usable[list(tokenizer.byte_ids)] = False  # a byte alone is not a character
        has_mark = np.char.startswith(pieces, WORD_START)
        self.is_mark = pieces == WORD_START
        self.continues_word = is_usable & ~has_mark
        self.begins_word = is_usable & has_mark
        has_text = self.begins_word & ~self.is_mark
        if has_text.any():  # else all pieces are characters, the mark is one of them
            self.begins_word = has_text


class Blanks:
    """A text cut at its blanks; UserError if it has none, or nothing else. Of a long text only the
    tokens around the blanks are read. The `widths` of methods are one of `forms`.

    Args:
      pieces: those that may fill a blank.
      text: with blanks, "___" each.
      most_pieces: of a blank.

    Attributes:
      shown: the text, as errors show it.
      forms: the numbers of pieces that the blanks may have: with two blanks of up to two pieces
        (1, 1), (1, 2), (2, 1) and (2, 2).
      tokens_read: how many tokens around the blanks are read.
      tokens: how many tokens there are around the blanks.
    """

    # Example: "The ___ sat ___.", whose blanks have 2 pieces and 1 piece. The text is cut at the
    # blanks; `layout` returns the known tokens, and -1 at the places of the blanks' pieces:
    #   parts                        "The "         " sat "      "."
    #   known tokens                 the            sat          .
    #   pieces of blanks                   -1  -1         -1

    def __init__(self, pieces: BlankPieces, text: str, most_pieces: int):
        self._pieces = pieces
        self._tokenizer = tokenizer = pieces.tokenizer
        # The known text before, between and after the blanks: one part more than there are blanks.
        self._parts = BLANKS.split(text)
        num_blanks = len(self._parts) - 1
        self.shown = f"{' '.join(text.split())!r:.80}"
        if not num_blanks:
            raise wrong("text", self.shown, f"one with a blank, {BLANK}")

        # Each part is tokenized by itself: a piece never crosses the edge of a blank.
        ids: list[list[int]] = []  # of each part
        self._after_space = []  # of each part, whether a blank behind it follows a space
        for number, part in enumerate(self._parts):
            # At the beginning of a text there may be no space; some vocabularies mark one there.
            begins_word = part[:1].isspace() if number else tokenizer.marks_first_word
            after_space = part[-1:].isspace()
            ids_of_part: list[int] = []
            if part.strip():
                (ids_of_part,) = tokenizer.encode_words([part.strip()], [begins_word])
            elif number == 0:  # the text begins with a blank
                after_space = tokenizer.marks_first_word
            ids.append(ids_of_part)
            self._after_space.append(after_space)
        if not any(ids):
            raise wrong("text", self.shown, "more than blanks")
        require_known(tokenizer, self._parts)
        self._ids_of_parts = self._fit_to_context(ids)
        self.tokens_read = sum(map(len, self._ids_of_parts))
        self.tokens = sum(map(len, ids))

        # The network reads the text once for each form.
        num_forms = most_pieces**num_blanks
        if max(num_blanks * most_pieces, num_forms) > MOST_PIECES:
            found = f"{num_blanks} blanks of up to {most_pieces} pieces"
            expected = f"at most {MOST_PIECES} pieces, in as many combinations"
            raise wrong("text", found, expected, "--most_pieces")
        widths = range(1, most_pieces + 1)
        self.forms = list(itertools.product(widths, repeat=num_blanks))

    def _fit_to_context(self, ids: Sequence[list[int]]) -> list[list[int]]:
        """The ids of the parts without those that are too far from the blanks: `CONTEXT` of them at
        most. UserError if those between the blanks are more."""
        # All tokens between blanks are kept. The remaining room is divided equally between the text
        # before and after the blanks; if one side is shorter, the other side gets what is left.
        first, *between, last = ids
        num_between = sum(map(len, between))
        if num_between > CONTEXT:
            found = f"blanks that are {num_between} tokens apart"
            raise wrong("text", found, f"at most {CONTEXT}")
        room = CONTEXT - num_between
        num_before = min(len(first), max(room - room // 2, room - len(last)))
        num_after = room - num_before  # at most
        return [first[len(first) - num_before :], *between, last[:num_after]]

    def layout(self, widths: Sequence[int]) -> np.ndarray:
        """The ids of the known tokens, and -1 for each piece of a blank, in the order of the text:
        int, 1-D. widths: of each blank the number of its pieces."""
        layout = []
        # No blank follows the last part: 0 pieces.
        for ids, width in zip(self._ids_of_parts, (*widths, 0)):
            layout.extend(ids)
            layout.extend([-1] * width)
        return np.array(layout)

    def is_allowed(self, widths: Sequence[int]) -> np.ndarray:
        """Whether each position of the blanks may have each piece of the vocabulary: bool [P,V].
        widths: of each blank the number of its pieces."""
        pieces, rows = self._pieces, []
        for width, after_space in zip(widths, self._after_space):
            first = pieces.begins_word if after_space else pieces.continues_word
            if width == 1:  # the mark of a space alone would be an empty word
                first = first & ~pieces.is_mark
            rows.append(first)
            rows += [pieces.continues_word] * (width - 1)
        return np.array(rows)

    def filling(
        self, widths: Sequence[int], ids: np.ndarray, log_probability: float
    ) -> Filling:
        """The `Filling` whose pieces have the ids [P], in the order of the text. widths: of each
        blank the number of its pieces."""
        words, pieces = [], []
        text = self._parts[0]
        ids_by_blank = np.split(ids, np.cumsum(widths)[:-1])
        for blank_ids, part in zip(ids_by_blank, self._parts[1:]):
            pieces.append(tuple(map(self._tokenizer.id_to_piece, blank_ids)))
            words.append(self._tokenizer.decode(blank_ids).strip())
            text += words[-1] + part
        return Filling(
            text,
            tuple(words),
            math.exp(log_probability),
            log_probability,
            tuple(pieces),
        )
