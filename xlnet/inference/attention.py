"""What each head of a pretrained network attends to in a text, in both streams.

Shape letters: T tokens, N heads, k layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.inference.factorization import order_of
from xlnet.inference.inference import Call, Computed, Inference
from xlnet.inference.language_model import LanguageModel
from xlnet.inference.settings import ATTENTION_ORDERS, AttentionSettings, from_keywords
from xlnet.inference.texts import as_text, count_unknown, layers_of
from xlnet.support.errors import wrong


class Attention(NamedTuple):
    """Attention probabilities of a text.

    Attributes:
      pieces: T of them.
      layers: k of them, counted from 1.
      streams: "content" and, if there is one, "query": float [k,N,T,T], rows attend to columns, 0
        where a row may not see.
      hidden: of the same streams, bool [T,T]: the mask, True where a row may not see a column.
      places: int [T], position of each token in the factorization order, from 1 on; None: there is
        no order.
      ids: of the pieces, T of them.
    """

    pieces: Sequence[str]
    layers: Sequence[int]
    streams: Mapping[str, np.ndarray]
    hidden: Mapping[str, np.ndarray]
    places: Optional[np.ndarray]
    ids: Sequence[int]


def attention_call(inference: Inference, layers: Any = (1,), **settings: Any) -> Call:
    """The call that computes the attention probabilities of some layers of a pretrained network,
    counted from 1, one text after the other.

    Args:
      settings: those of `AttentionSettings`.
    """
    chosen = from_keywords(AttentionSettings, settings)
    layers = layers_of(layers, 1, inference.loaded.config.n_layer)
    model, tokenizer = inference.language_model(), inference.tokenizer

    def prepare(item: Any) -> tuple[Sequence[int], int]:
        ids = tokenizer.ids(as_text(item))
        if not 0 < len(ids) <= chosen.most_tokens:
            raise wrong("text", f"{len(ids)} pieces", f"1 to {chosen.most_tokens}")
        return ids, count_unknown(tokenizer, [item])

    def compute(items: list[tuple[Sequence[int], int]]) -> list[Computed]:
        ((ids, unknown),) = items
        found = _attention(model, tokenizer, ids, layers, chosen)
        return [Computed(found, len(ids), len(ids), unknown)]

    return Call(prepare, compute, 1)


def _attention(
    model: LanguageModel,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    layers: Sequence[int],
    settings: AttentionSettings,
) -> Attention:
    order = settings.order or ("left_to_right" if model.is_causal else "random")
    if model.is_causal and order != "left_to_right":
        raise wrong("order", order, "left_to_right, the only one of a causal model")
    # The masks of both streams follow from the ranks of the tokens, as in pretraining if every
    # token is a target: a token does not see those later in the order, and a query does not see its
    # own token, either. Without an order every token sees all tokens, and a query all but its own.
    rank = np.zeros(len(ids), int)
    if order != "none":  # the inverse of an order has the place of each token
        rank = np.argsort(order_of(len(ids), order, settings.seed, ATTENTION_ORDERS))
    content, query = rank > rank[:, None], rank >= rank[:, None]  # [T,T], hidden
    places = np.arange(len(ids))
    if model.tokens_before is not None:
        content |= places[:, None] - places > model.tokens_before
    if order == "none":
        query = np.eye(len(ids), dtype=bool)
    hidden = {"content": content}
    if not model.is_causal:
        hidden["query"] = query
    # All tokens are read at once, with a query at each position: the rows of the result are those
    # of the content stream, then those of the query stream.
    with model.reading(len(ids)) as reading:
        _, by_layer = reading.read(
            np.array([ids]),
            places.tolist(),
            [] if model.is_causal else places.tolist(),
            hidden=np.concatenate(list(hidden.values())),
            layers=[layer - 1 for layer in layers],
        )
    found = np.array(by_layer)[:, 0]  # [k,N,T,T], or [k,N,2T,T]
    streams = {}
    for number, (name, mask) in enumerate(hidden.items()):
        rows = found[:, :, number * len(ids) : (number + 1) * len(ids)]
        streams[name] = np.where(mask, 0, rows)
    return Attention(
        [tokenizer.id_to_piece(id) for id in ids],
        layers,
        streams,
        hidden,
        None if order == "none" else rank + 1,
        list(ids),
    )
