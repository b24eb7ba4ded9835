"""The predictions of the network in a held-out sequence, as text for TensorBoard."""

from __future__ import annotations

import numpy as np

from xlnet.tokenization.tokenizer import Tokenizer

# Of batch element 0: the input, the targets and their positions, and the most probable tokens.
NAMES = ("input_ids", "ids", "weights", "positions", "direction", "guesses")


def filled_in(tokenizer: Tokenizer, input_ids: np.ndarray, ids: np.ndarray, weights: np.ndarray,
              positions: np.ndarray, direction: int, guesses: np.ndarray) -> str:
    """The text of a sequence in reading order, Markdown; a target is `**prediction** (reference)`.

    Args:
      tokenizer: of the ids.
      input_ids: int32 [Q].
      ids: int32 [P], the targets.
      weights: float32 [P], 0: does not count.
      positions: int32 [P].
      direction: 1 if the text runs backward.
      guesses: int32 [P], the most probable tokens.
    """
    def piece(id):
        return tokenizer.id_to_piece(int(id))
    pieces = [piece(id) for id in input_ids]
    for position, id, weight, guess in zip(positions, ids, weights, guesses):
        if weight:
            pieces[position] = " **%s** (%s)" % (piece(guess), piece(id))
    return "".join(reversed(pieces) if direction else pieces).replace("\u2581", " ").strip()
