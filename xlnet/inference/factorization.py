"""What both streams of a pretrained network see of a text in one factorization order: the
predictions of the query stream for every token, and what each head attends to.

The predictions are equation 3 of the paper, to be looked at: log p(x) = sum over t of
log p(x_z[t] | x_z[<t]).

Shape letters: T tokens, P predicted tokens, V vocabulary, C candidates, N heads, k layers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.inference.generation import best
from xlnet.inference.inference import Call, Computed, Inference
from xlnet.inference.language_model import LanguageModel
from xlnet.inference.session import require_finite
from xlnet.inference.settings import (
    AttentionSettings,
    FactorizationSettings,
    from_keywords,
    numbers_in_order,
)
from xlnet.inference.texts import as_text, count_unknown, layers_of
from xlnet.support.errors import escape_control_characters, wrong


@dataclasses.dataclass(frozen=True)
class Factorization:
    """The masks of both streams in a factorization order, and the predictions of the query stream.
    `print` shows them as a table, a row for each token in the order.

    Attributes:
      pieces: T of them, in the order of the text.
      ids: theirs, T of them.
      order: the positions of the tokens, from 0 on, in the factorization order, T of them.
      known: how many tokens at the beginning of the order are read, but not predicted.
      candidates: for each position, the C likeliest pieces there; none for a known token.
      candidate_log_probabilities: theirs, the likeliest first [nats].
      log_probabilities: float [T], of the token that the text has at each position [nats]; nan for
        a known token.
      likelier: int [T], how many pieces of the vocabulary are likelier than that token; -1 for a
        known token.
      content_hides: bool [T,T], the mask of the content stream: True where a row may not see a
        column.
      query_hides: bool [T,T], the mask of the query stream. A known token has no query: its row is
        True everywhere.
      query_attention: float [T,T], the attention probabilities of the query stream, rows attend to
        columns: the mean over layers and heads.
    """

    pieces: Sequence[str]
    ids: Sequence[int]
    order: Sequence[int]
    known: int
    candidates: Sequence[Sequence[str]]
    candidate_log_probabilities: Sequence[Sequence[float]]
    log_probabilities: np.ndarray
    likelier: np.ndarray
    content_hides: np.ndarray
    query_hides: np.ndarray
    query_attention: np.ndarray

    def __str__(self) -> str:
        rows = [("predicts", "rank", "sees", "probability", "likeliest instead")]
        for place, position in enumerate(self.order):
            rank, probability, candidates = "known", "", ""
            hides = self.content_hides[position]
            if place >= self.known:
                rank = str(place - self.known)
                percent = 100 * math.exp(self.log_probabilities[position])
                probability = f"{percent:.2f} %"
                candidates = " ".join(self.candidates[position])
                hides = self.query_hides[position]
            seen = [self.pieces[other] for other in np.flatnonzero(~hides).tolist()]
            piece = self.pieces[position]
            sees = " ".join(seen) or "nothing"
            rows.append((piece, rank, sees, probability, candidates))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = []
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            lines.append(escape_control_characters("  ".join(cells).rstrip()))
        total = float(np.nansum(self.log_probabilities))
        lines.append(f"log probability of the text in this order: {total:.4f}")
        return "\n".join(lines)


def factorization_call(inference: Inference, **settings: Any) -> Call:
    """The call that predicts each token of texts from those before it in a factorization order, one
    text after the other; of a pretrained model with a query stream.

    Args:
      settings: those of `FactorizationSettings`.
    """
    chosen = from_keywords(FactorizationSettings, settings)
    model, tokenizer = inference.language_model(), inference.tokenizer
    model.require_queries()

    def prepare(item: Any) -> tuple[Sequence[int], int]:
        ids = tokenizer.ids(as_text(item))
        least, most = chosen.known + 1, chosen.most_tokens
        if not least <= len(ids) <= most:
            raise wrong("text", f"{len(ids)} pieces", f"{least} to {most}")
        return ids, count_unknown(tokenizer, [item])

    def compute(items: list[tuple[Sequence[int], int]]) -> list[Computed]:
        ((ids, unknown),) = items
        found = _factorize(model, tokenizer, ids, chosen)
        return [Computed(found, len(ids), len(ids), unknown)]

    return Call(prepare, compute, 1)


def _factorize(
    model: LanguageModel,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    settings: FactorizationSettings,
) -> Factorization:
    count = len(ids)
    order = order_of(count, settings.order, settings.seed)  # [T]
    targets = order[settings.known :]  # [P], in the order in which they are predicted

    # The ranks of pretraining: -1 for the known tokens, which everyone sees, and for a target its
    # place in the order. A row sees the columns of lower rank. In the content stream it sees its
    # own token, too; a query does not. (For known tokens all ranks are equal: they see each other.)
    rank = np.full(count, -1)
    rank[targets] = np.arange(len(targets))
    content_hides = rank > rank[:, None]  # [T,T]
    query_hides = rank >= rank[:, None]  # [T,T]

    # One pass of the network predicts all targets: its rows are the T tokens of the content stream,
    # then the P queries. Their numbers do not depend on each other, as no row sees a query.
    with model.reading(count) as reading:
        predicted, layers = reading.read(
            np.array([ids]),
            range(count),
            targets.tolist(),
            hidden=np.concatenate([content_hides, query_hides[targets]]),  # [T+P,T]
            layers=range(model.n_layer),
        )
    require_finite(predicted)

    # From targets in their order to positions in the text.
    log_probabilities = np.full(count, np.nan)
    likelier = np.full(count, -1)
    candidates: list[list[str]] = [[] for _ in ids]
    candidate_log_probabilities: list[list[float]] = [[] for _ in ids]
    for target, scores in zip(targets, predicted[0]):
        log_probabilities[target] = scores[ids[target]]
        likelier[target] = np.count_nonzero(scores > scores[ids[target]])
        (likeliest,) = best(scores, settings.top)
        candidates[target] = [tokenizer.id_to_piece(int(id)) for id in likeliest]
        candidate_log_probabilities[target] = scores[likeliest].tolist()
    query_attention = np.zeros((count, count))
    mean = np.mean([layer[0] for layer in layers], axis=(0, 1))  # [T+P,T]
    query_attention[targets] = np.where(query_hides[targets], 0, mean[count:])
    return Factorization(
        pieces=[tokenizer.id_to_piece(id) for id in ids],
        ids=list(ids),
        order=order.tolist(),
        known=settings.known,
        candidates=candidates,
        candidate_log_probabilities=candidate_log_probabilities,
        log_probabilities=log_probabilities,
        likelier=likelier,
        content_hides=content_hides,
        query_hides=np.where(rank[:, None] < 0, True, query_hides),
        query_attention=query_attention,
    )


def order_of(count: int, order: str, seed: int) -> np.ndarray:
    """The positions of so many tokens in a factorization order, int [T]."""
    if order == "left_to_right":
        return np.arange(count)
    if order == "right_to_left":
        return np.arange(count)[::-1]
    if order == "random":
        return np.random.default_rng(seed).permutation(count)
    tokens = numbers_in_order(order)
    if len(tokens) != count:
        raise wrong("order", f"{len(tokens)} numbers", f"those of the {count} tokens")
    return np.array(tokens)


# ---- attention ----


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
        rank = np.argsort(order_of(len(ids), order, settings.seed))
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
