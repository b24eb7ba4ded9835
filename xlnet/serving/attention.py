"""What each head of a pretrained network attends to in a text, in both streams.

Shape letters: T tokens, N heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.serving.language_model import LanguageModel
from xlnet.tokenization.tokenizer import Tokenizer

ORDERS = ("random", "left_to_right", "none")


class Attention(NamedTuple):
    """pieces: T of them. layers: k, counted from 1. streams: "content" and, if there is one,
    "query": float [k,N,T,T], rows attend to columns, 0 where a row may not see. places: int [T], of
    the tokens in the factorization order, from 1 on; None: there is none."""
    pieces: Sequence[str]
    layers: Sequence[int]
    streams: Mapping[str, np.ndarray]
    places: Optional[np.ndarray]


def attention(model: LanguageModel, tokenizer: Tokenizer, text: str, *, layers: Sequence[int],
              order: str = "random", seed: int = 0, most_tokens: int = 40) -> Attention:
    """The attention probabilities of some layers, counted from 1.

    Args:
      order: the factorization order of the tokens, of `ORDERS`: "none", everyone sees everyone,
        and the query stream all but itself. A causal network has left_to_right alone.

    Raises:
      UserError: no text, one of more than `most_tokens` pieces, no such layer or order.
    """
    ids = tokenizer.ids(text)
    if not 0 < len(ids) <= most_tokens:
        raise UserError("text: %d pieces, expected 1 to %d" % (len(ids), most_tokens))
    if isinstance(layers, str) or not hasattr(layers, "__len__") or not len(layers):
        raise UserError("layers is %r, expected a list of one or more" % (layers,))
    for layer in layers:
        if not isinstance(layer, (int, np.integer)) or not 1 <= layer <= model.n_layer:
            raise UserError("layers: %r, expected 1 to %d" % (layer, model.n_layer))
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UserError("seed is %r, expected an integer from 0 on" % (seed,))
    if order not in ORDERS:
        raise UserError("order is '%s', expected one of %s" % (order, ", ".join(ORDERS)))
    if model.is_causal:
        order = "left_to_right"
    rank = _rank(len(ids), order, seed)                                           # [T]
    content, query = rank > rank[:, None], rank >= rank[:, None]                  # [T,T], hidden
    if order == "none":
        query = np.eye(len(ids), dtype=bool)
    positions = range(len(ids))
    with model.reading(len(ids)) as reading:
        found = np.array(reading.attention(
            [layer - 1 for layer in layers], np.array([ids]), positions,
            () if model.is_causal else positions,
            content if model.is_causal else np.concatenate([content, query])))[:, 0]
    streams = {"content": np.where(content, 0, found[:, :, :len(ids)])}           # [k,N,T,T]
    if not model.is_causal:
        streams["query"] = np.where(query, 0, found[:, :, len(ids):])
    return Attention([tokenizer.id_to_piece(id) for id in ids], list(layers), streams,
                     None if order == "none" else rank + 1)


def _rank(count, order, seed):
    """The place of each token in the order, from 0 on; the same for all where there is none."""
    if order == "none":
        return np.zeros(count, np.int64)
    if order == "left_to_right":
        return np.arange(count)
    return np.random.default_rng(seed).permutation(count)
