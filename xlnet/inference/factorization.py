"""What both streams of a pretrained network see of a text in one factorization order: the
predictions of the query stream for every token, and what each head attends to.

The predictions are equation 3 of the paper, to be looked at: log p(x) = sum over t of
log p(x_z[t] | x_z[<t]).

Shape letters: T tokens, P predicted tokens, V vocabulary, C candidates, N heads, k layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.inference.generation import best
from xlnet.inference.inference import (
    Call,
    Computed,
    Inference,
    as_text,
    count_unknown,
)
from xlnet.inference.settings import (
    CONTEXT,
    AttentionSettings,
    FactorizationSettings,
    from_keywords,
)
from xlnet.support.errors import escape_control_characters, wrong


class Factorization(NamedTuple):
    """The masks of both streams in a factorization order, and the predictions of the query stream.
    `print` shows them as a table, a row for each token in the order.

    Attributes:
      pieces: T of them, in the order of the text.
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
                rank = str(place - self.known + 1)
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

    def compute(items: list) -> list[Computed]:
        ids, unknown = _tokens(inference, items[0], chosen.known + 1)
        count = len(ids)
        order = order_of(count, chosen.order, chosen.seed)  # [T]
        targets = order[chosen.known :]  # [P], in the order in which they are predicted

        # The ranks of pretraining: -1 for the known tokens, which everyone sees, and for a target
        # its place in the order.
        rank = np.full(count, -1)
        rank[targets] = np.arange(len(targets))
        content_hides, query_hides = _masks(rank)

        # One pass of the network predicts all targets: its rows are the T tokens of the content
        # stream, then the P queries. Their numbers do not depend on each other, as no row sees a
        # query.
        with model.reading(count) as reading:
            predicted, layers = reading.read(
                np.array([ids]),
                range(count),
                targets.tolist(),
                hidden=np.concatenate([content_hides, query_hides[targets]]),  # [T+P,T]
                layers=range(model.n_layer),
            )

        # From targets in their order to positions in the text.
        log_probabilities = np.full(count, np.nan)
        likelier = np.full(count, -1)
        candidates: list[list[str]] = [[] for _ in ids]
        candidate_log_probabilities: list[list[float]] = [[] for _ in ids]
        for target, scores in zip(targets, predicted[0]):
            log_probabilities[target] = scores[ids[target]]
            likelier[target] = np.count_nonzero(scores > scores[ids[target]])
            (likeliest,) = best(scores, chosen.top)
            candidates[target] = [tokenizer.id_to_piece(int(id)) for id in likeliest]
            candidate_log_probabilities[target] = scores[likeliest].tolist()
        query_attention = np.zeros((count, count))
        mean = np.mean([layer[0] for layer in layers], axis=(0, 1))  # [T+P,T]
        query_attention[targets] = np.where(query_hides[targets], 0, mean[count:])
        found = Factorization(
            pieces=[tokenizer.id_to_piece(id) for id in ids],
            order=order.tolist(),
            known=chosen.known,
            candidates=candidates,
            candidate_log_probabilities=candidate_log_probabilities,
            log_probabilities=log_probabilities,
            likelier=likelier,
            content_hides=content_hides,
            query_hides=np.where(rank[:, None] < 0, True, query_hides),
            query_attention=query_attention,
        )
        return [Computed(found, count, count, unknown)]

    return Call(compute)


def _tokens(
    inference: Inference, item: Any, least: int = 1
) -> tuple[Sequence[int], int]:
    """The ids of a text of `least` to `CONTEXT` tokens, and how many of them are unknown."""
    text = as_text(item)
    ids = inference.tokenizer.ids(text)
    if not least <= len(ids) <= CONTEXT:
        raise wrong("text", f"{len(ids)} pieces", f"{least} to {CONTEXT}")
    return ids, count_unknown(inference.tokenizer, [text])


def order_of(count: int, order: str, seed: int) -> np.ndarray:
    """The positions of so many tokens in a factorization order, int [T]."""
    if order == "left_to_right":
        return np.arange(count)
    if order == "right_to_left":
        return np.arange(count)[::-1]
    if order == "random":
        return np.random.default_rng(seed).permutation(count)
    numbers = [number.strip() for number in order.split(",")]
    places = {str(place + 1): place for place in range(count)}
    if sorted(numbers) != sorted(places):
        found = f"{order!r:.80}"
        expected = (
            f"random, left_to_right, right_to_left, or the numbers of the {count} "
            "tokens as in 2,1,3"
        )
        raise wrong("order", found, expected)
    return np.array([places[number] for number in numbers])


def _masks(rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each token may not see, bool [T,T], in the content stream and in the query stream, by
    the ranks of the tokens."""
    # A row sees the columns of lower or equal rank: those before it in the order, and known tokens
    # see each other. In the content stream a row sees its own token, too; a query does not.
    content = rank > rank[:, None]
    return content, content | np.eye(len(rank), dtype=bool)


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
    """

    pieces: Sequence[str]
    layers: Sequence[int]
    streams: Mapping[str, np.ndarray]
    hidden: Mapping[str, np.ndarray]
    places: np.ndarray | None


def attention_call(inference: Inference, layers: Any = (1,), **settings: Any) -> Call:
    """The call that computes the attention probabilities of some layers of a pretrained network,
    counted from 1, one text after the other.

    Args:
      settings: those of `AttentionSettings`.
    """
    chosen = from_keywords(AttentionSettings, settings)
    model, tokenizer = inference.language_model(), inference.tokenizer
    numbers = range(1, model.n_layer + 1)
    is_list = isinstance(layers, (list, tuple, range))
    if not is_list or not layers or any(layer not in numbers for layer in layers):
        expected = f"a list of numbers from 1 to {model.n_layer}, such as [1]"
        raise wrong("layers", f"{layers!r:.80}", expected)

    def compute(items: list) -> list[Computed]:
        ids, unknown = _tokens(inference, items[0])
        count = len(ids)
        # Every token is a target, or, without an order, none is: all tokens see each other, and a
        # query sees all but its own.
        rank = np.full(count, -1)
        if model.is_causal:
            rank = np.arange(count)
        elif chosen.order != "none":
            rank = np.argsort(order_of(count, chosen.order, chosen.seed))
        content, query = _masks(rank)
        positions = np.arange(count)
        if model.tokens_before is not None:
            content |= positions[:, None] - positions > model.tokens_before
        hidden = {"content": content}
        if not model.is_causal:
            hidden["query"] = query
        # All tokens are read at once, with a query at each position: the rows of the result are
        # those of the content stream, then those of the query stream.
        with model.reading(count) as reading:
            _, by_layer = reading.read(
                np.array([ids]),
                positions.tolist(),
                [] if model.is_causal else positions.tolist(),
                hidden=np.concatenate(list(hidden.values())),
                layers=[int(layer) - 1 for layer in layers],
            )
        both = np.array(by_layer)[:, 0]  # [k,N,T,T], or [k,N,2T,T]
        streams = {}
        for number, (name, mask) in enumerate(hidden.items()):
            rows = both[:, :, number * count : (number + 1) * count]
            streams[name] = np.where(mask, 0, rows)
        pieces = [tokenizer.id_to_piece(id) for id in ids]
        places = None if rank[0] < 0 else rank + 1
        found = Attention(pieces, layers, streams, hidden, places)
        return [Computed(found, count, count, unknown)]

    return Call(compute)
