"""What each head of a pretrained network attends to in a text, in both streams.

Shape letters: T tokens, N heads, k layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.serving.language_model import LanguageModel
from xlnet.serving.settings import AttentionSettings
from xlnet.tokenization.tokenizer import Tokenizer


class Attention(NamedTuple):
    """Attention probabilities of a text.

    Attributes:
      pieces: T of them.
      ids: theirs, T of them.
      layers: k of them, counted from 1.
      streams: "content" and, if there is one, "query": float [k,N,T,T], rows attend to columns, 0
        where a row may not see.
      hidden: of the same streams, bool [T,T]: the mask, True where a row may not see a column.
      places: int [T], position of each token in the factorization order, from 1 on; None: there is
        no order.
    """
    pieces: Sequence[str]
    layers: Sequence[int]
    streams: Mapping[str, np.ndarray]
    hidden: Mapping[str, np.ndarray]
    places: Optional[np.ndarray]
    ids: Sequence[int]


def attention(model: LanguageModel, tokenizer: Tokenizer, text: str, layers: Sequence[int],
              settings: AttentionSettings) -> Attention:
    """The attention probabilities of some layers, counted from 1.

    In the order "none" every token sees all, in the query stream all but itself. A causal network
    has only left_to_right.

    Raises:
      UserError: no text, one of more than `most_tokens` pieces, or no such layer.
    """
    ids = tokenizer.ids(text)
    if not 0 < len(ids) <= settings.most_tokens:
        raise UserError("text: %d pieces, expected 1 to %d" % (len(ids), settings.most_tokens))
    if isinstance(layers, str) or not hasattr(layers, "__len__") or not len(layers):
        raise UserError("layers is %r, expected a list of one or more" % (layers,))
    for layer in layers:
        if not isinstance(layer, (int, np.integer)) or not 1 <= layer <= model.n_layer:
            raise UserError("layers: %r, expected 1 to %d" % (layer, model.n_layer))
    order = "left_to_right" if model.is_causal else settings.order
    rank = _rank(len(ids), order, settings)                                       # [T]
    content, query = rank > rank[:, None], rank >= rank[:, None]                  # [T,T], hidden
    if order == "none":
        query = np.eye(len(ids), dtype=bool)
    positions = range(len(ids))
    with model.turn, model.reading(len(ids)) as reading:
        found = np.array(reading.attention(
            [layer - 1 for layer in layers], np.array([ids]), positions,
            () if model.is_causal else positions,
            content if model.is_causal else np.concatenate([content, query])))[:, 0]
    hidden = {"content": content, **({} if model.is_causal else {"query": query})}
    streams = {name: np.where(mask, 0, found[:, :, begin:begin + len(ids)])       # [k,N,T,T]
               for begin, (name, mask) in zip((0, len(ids)), hidden.items())}
    return Attention([tokenizer.id_to_piece(id) for id in ids], list(layers), streams, hidden,
                     None if order == "none" else rank + 1, list(ids))


def _rank(count, order, settings):
    """The position of each token in the order, from 0 on; the same for all where there is none."""
    if order == "none":
        return np.zeros(count, np.int64)
    if order == "left_to_right":
        return np.arange(count)
    if order == "random":
        return np.random.default_rng(settings.seed).permutation(count)
    tokens = settings.tokens_in_order()
    if len(tokens) != count:
        raise UserError("order names %d tokens, but the text has %d" % (len(tokens), count))
    return np.argsort(tokens)
