"""What both streams of a pretrained network see of a text in one factorization order: the
predictions of the query stream for every token, and what each head attends to.

The predictions are equation 3 of the paper, to be looked at: log p(x) = sum over t of
log p(x_z[t] | x_z[<t]).

Known tokens are read from the start and not predicted; the others are targets. Shape letters: T
tokens, V vocabulary, C candidates, N heads, k layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.inference.generation import largest
from xlnet.inference.language_model import LanguageModel
from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    as_text,
    require_known,
)
from xlnet.inference.settings import (
    CONTEXT,
    AttentionSettings,
    FactorizationSettings,
    from_keywords,
)
from xlnet.support.errors import wrong


class Factorization(NamedTuple):
    """The masks of both streams in a factorization order, and the predictions of the query stream.

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


class Factorizing(Method):
    """Predicts each token of texts from those before it in a factorization order, one text after
    the other: a `Factorization` for each.

    Args:
      model: a pretrained one with a query stream.
      settings: those of `FactorizationSettings`.
    """

    def __init__(self, model: RestoredModel, /, **settings: Any) -> None:
        self._settings = from_keywords(FactorizationSettings, settings)
        self._network, self._tokenizer = model.language_model(), model.tokenizer
        self._network.require_queries()
        self._layers = range(model.n_layer)

    def compute_one(self, item: Any) -> Computed:
        """The `Factorization` of a text."""
        known = self._settings.known  # so many tokens of the order are not predicted
        # At least one token of the text is predicted.
        ids = ids_of(self._tokenizer, item, least=known + 1)
        count = len(ids)
        order = order_of(count, self._settings.order, self._settings.seed)  # [T]
        # The ranks of pretraining: -1 for the known tokens, which everyone sees, and for a target
        # its place in the order.
        rank = np.full(count, -1)
        rank[order[known:]] = np.arange(count - known)
        outputs = _run_network(self._network, ids, rank, self._layers)

        # Each position has a query; those of the known tokens are left out of the result.
        is_known = rank < 0
        log_probabilities = outputs.log_probabilities  # [T,V]
        of_text = log_probabilities[np.arange(count), ids].astype(float)  # [T]
        likelier = (log_probabilities > of_text[:, None]).sum(axis=1)
        candidates, candidate_log_probabilities = [], []
        for position, of_position in enumerate(log_probabilities):
            num_candidates = 0 if is_known[position] else self._settings.top
            # Of a vector, `largest` returns the indices of its only axis.
            (candidate_ids,) = largest(of_position, num_candidates)
            pieces = [self._tokenizer.id_to_piece(id) for id in candidate_ids]
            candidates.append(pieces)
            candidate_log_probabilities.append(of_position[candidate_ids].tolist())
        # The mean over heads, then over layers: [k,N,T,T] -> [T,T].
        attention = outputs.attention["query"].mean(axis=1).mean(axis=0)
        result = Factorization(
            pieces=[self._tokenizer.id_to_piece(id) for id in ids],
            order=order.tolist(),
            known=known,
            candidates=candidates,
            candidate_log_probabilities=candidate_log_probabilities,
            log_probabilities=np.where(is_known, np.nan, of_text),
            likelier=np.where(is_known, -1, likelier),
            content_hides=outputs.masks["content"],
            query_hides=outputs.masks["query"] | is_known[:, None],
            query_attention=np.where(is_known[:, None], 0, attention),
        )
        return Computed(result, tokens_read=count, tokens=count)


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


class Attending(Method):
    """Computes the attention probabilities of some layers of a pretrained network, one text after
    the other: an `Attention` for each.

    Args:
      layers: a list of their numbers, counted from 1; UserError for anything else.
      settings: those of `AttentionSettings`.
    """

    def __init__(
        self, model: RestoredModel, /, layers: Any = (1,), **settings: Any
    ) -> None:
        self._settings = from_keywords(AttentionSettings, settings)
        self._network, self._tokenizer = model.language_model(), model.tokenizer
        numbers = range(1, model.n_layer + 1)
        is_list = isinstance(layers, (list, tuple, range))
        if not is_list or not layers or any(layer not in numbers for layer in layers):
            expected = f"numbers from 1 to {len(numbers)}, in Python as a list"
            raise wrong("layers", f"{layers!r:.80}", expected)
        self._layers = layers

    def compute_one(self, item: Any) -> Computed:
        """The `Attention` of a text."""
        ids = ids_of(self._tokenizer, item)
        count = len(ids)
        order = self._settings.order
        if self._network.is_causal:
            order = "left_to_right"
        # Every token is a target, or, without an order, none is: all tokens see each other, and a
        # query sees all but its own.
        rank, places = np.full(count, -1), None
        if order != "none":
            rank[order_of(count, order, self._settings.seed)] = np.arange(count)
            places = rank + 1
        layers = [int(layer) - 1 for layer in self._layers]  # counted from 0
        outputs = _run_network(self._network, ids, rank, layers)
        result = Attention(
            pieces=[self._tokenizer.id_to_piece(id) for id in ids],
            layers=self._layers,
            streams=outputs.attention,
            hidden=outputs.masks,
            places=places,
        )
        return Computed(result, tokens_read=count, tokens=count)


# ---- what `Factorizing` and `Attending` have in common


def ids_of(tokenizer: Tokenizer, item: Any, least: int = 1) -> list[int]:
    """The ids of a text, a list of `least` to `CONTEXT`; UserError if the text has fewer or more,
    or only tokens that the vocabulary does not know, or if the item is not a text."""
    text = as_text(item)
    ids = tokenizer.ids(text)
    if not least <= len(ids) <= CONTEXT:
        raise wrong("text", f"{len(ids)} pieces", f"{least} to {CONTEXT}")
    require_known(tokenizer, [text])
    return ids


def order_of(count: int, order: str, seed: int) -> np.ndarray:
    """The positions of `count` tokens in a factorization order, int [T]: the first one is that of
    the token that comes first.

    Args:
      count: T.
      order: "random", "left_to_right", "right_to_left", or the numbers of the tokens from 1 on in
        the order, such as "2,1,3", which is [1, 0, 2]; UserError for any other.
      seed: of a random order.
    """
    if order == "left_to_right":
        return np.arange(count)
    if order == "right_to_left":
        return np.arange(count)[::-1]
    if order == "random":
        return np.random.default_rng(seed).permutation(count)
    numbers = [number.strip() for number in order.split(",")]
    every_number = [str(number) for number in range(1, count + 1)]
    # Compared as texts: what is not a number differs, too.
    if sorted(numbers) != sorted(every_number):
        found = f"{order!r:.80}"
        expected = (
            f"random, left_to_right, right_to_left, or the numbers of the {count} "
            "tokens as in 2,1,3"
        )
        raise wrong("order", found, expected)
    return np.array(numbers, int) - 1


class _Outputs(NamedTuple):
    """What the network computes for a text in a factorization order.

    Attributes:
      log_probabilities: float32 [T,V], of the token at each position, predicted by its query; [1,V]
        of a causal network, which has no queries: of the token after the text.
      masks: of the streams "content" and, if the network has one, "query", bool [T,T]: True where a
        row may not see a column.
      attention: of the same streams the attention probabilities of k layers, [k,N,T,T]; 0 where the
        mask is True.
    """

    log_probabilities: np.ndarray
    masks: dict[str, np.ndarray]
    attention: dict[str, np.ndarray]


def _run_network(
    network: LanguageModel, ids: Sequence[int], rank: np.ndarray, layers: Sequence[int]
) -> _Outputs:
    """Reads a text in one pass of the network, in a factorization order.

    Args:
      network: a pretrained one.
      ids: those of the text, T of them.
      rank: int [T], of each token its place in the order, from 0 on; -1 if it is known from the
        start.
      layers: the numbers of those whose attention is returned, from 0 on; at least one.
    """
    # A row may not see a column of higher rank, which comes later in the order, nor one more than
    # `tokens_before` tokens before it. Known tokens have equal ranks: they see each other. A token
    # of the content stream also sees itself, a query not.
    positions = np.arange(len(ids))
    content_mask = rank > rank[:, None]
    if network.tokens_before is not None:
        content_mask |= positions[:, None] - positions > network.tokens_before
    masks = {"content": content_mask}
    if not network.is_causal:
        masks["query"] = content_mask | np.eye(len(ids), dtype=bool)
    with network.reading(len(ids)) as reading:
        log_probabilities, by_layer = reading.read(
            np.array([ids]),
            positions.tolist(),
            # A query at each position. A causal network has none: it predicts what follows `ids`.
            blanks=positions.tolist(),
            masked=np.concatenate(list(masks.values())),
            layers=layers,
        )
    # The rows of masks and layers are the tokens of the content stream, then the queries: of a
    # layer [1,N,2T,T], without a query stream [1,N,T,T].
    by_stream = np.split(np.concatenate(by_layer), len(masks), axis=2)  # [k,N,T,T] each
    attention = dict(zip(masks, by_stream))
    for name, mask in masks.items():
        # Also in a row that sees no column at all, where softmax makes all probabilities alike.
        attention[name][..., mask] = 0
    return _Outputs(log_probabilities[0], masks, attention)
