"""What the network guesses in a held-out window, to be read on TensorBoard."""

from __future__ import annotations

import numpy as np

from xlnet.tokenization.tokenizer import Tokenizer

# Of row 0 of a batch: what it reads, what it predicts where, and the likeliest tokens there.
NAMES = ("input_ids", "ids", "weights", "positions", "direction", "guesses")


def filled_in(tokenizer: Tokenizer, input_ids: np.ndarray, ids: np.ndarray, weights: np.ndarray,
              positions: np.ndarray, direction: int, guesses: np.ndarray) -> str:
    """A window's text in reading order, Markdown; a predicted piece is `**guess** (truth)`.

    Args:
      input_ids: int32 [Q]. ids, positions, guesses: int32 [P]. weights: float32 [P].
    """
    def piece(id):
        return tokenizer.id_to_piece(int(id))
    pieces = [piece(id) for id in input_ids]
    for place, id, weight, guess in zip(positions, ids, weights, guesses):
        if weight:
            pieces[place] = " **%s** (%s)" % (piece(guess), piece(id))
    return "".join(reversed(pieces) if direction else pieces).replace("\u2581", " ").strip()
