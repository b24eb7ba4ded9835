"""The predictions of the query stream for every token of a text, in one factorization order.

This is equation 3 of the paper, to be looked at: log p(x) = sum over t of log p(x_z[t] | x_z[<t]).

Shape letters: T tokens, P predicted tokens, V vocabulary, C candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.errors import UserError
from xlnet.serving import sampling
from xlnet.serving.batched_calls import BatchedCall, Computed, require_finite
from xlnet.serving.inference import Inference
from xlnet.serving.language_model import LanguageModel
from xlnet.serving.settings import FactorizationSettings
from xlnet.serving.texts import as_text
from xlnet.tokenization.tokenizer import Tokenizer


class Factorization(NamedTuple):
    """The masks of both streams in a factorization order, and the predictions of the query stream.

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


def factorize_with(
    inference: Inference, text: Any, settings: FactorizationSettings
) -> Factorization:
    """The predictions of a loaded model, which is pretrained."""
    return factorize(inference.language_model(), inference.tokenizer, as_text(text), settings)


def factorization_call(inference: Inference, settings: FactorizationSettings) -> BatchedCall:
    """The call of `factorize_with`, one text after the other."""
    model = inference.language_model()
    _require_queries(model)

    def prepare(text: Any) -> Any:
        _checked_order(len(inference.tokenizer.ids(as_text(text))), settings)
        return text

    def compute(texts: list[Any]) -> list[Computed]:
        (text,) = texts
        found = factorize_with(inference, text, settings)
        return [Computed(found, len(found.ids), len(found.ids))]  # a longer text is refused

    return BatchedCall(prepare, compute, 1)


def factorize(
    model: LanguageModel, tokenizer: Tokenizer, text: str, settings: FactorizationSettings
) -> Factorization:
    """Predicts each token of a text from those before it in a factorization order.

    Args:
      model: one with a query stream.
      tokenizer: that of its vocabulary.
      text: of at most `most_tokens` tokens, more than `known`.
      settings: the order, and how many candidates are wanted.

    Raises:
      UserError: the model reads from left to right only, or the text does not fit the settings.
    """
    _require_queries(model)
    ids = tokenizer.ids(text)
    count = len(ids)
    order = _checked_order(count, settings)  # [T]
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
    rows = np.concatenate([content_hides, query_hides[targets]])  # [T+P,T]
    positions = range(count)
    asked = targets.tolist()
    tokens = np.array([ids])
    with model.reading(count) as reading:
        predicted = reading.read(tokens, positions, asked, hidden=rows)[0]  # [P,V]
    require_finite(predicted)
    with model.reading(count) as reading:
        layers = reading.attention(range(model.n_layer), tokens, positions, asked, rows)

    # From targets in their order to positions in the text.
    log_probabilities = np.full(count, np.nan)
    likelier = np.full(count, -1)
    candidates: list[list[str]] = [[] for _ in ids]
    candidate_log_probabilities: list[list[float]] = [[] for _ in ids]
    for target, scores in zip(targets, predicted):
        log_probabilities[target] = scores[ids[target]]
        likelier[target] = np.count_nonzero(scores > scores[ids[target]])
        (best,) = sampling.best(scores, settings.top)
        candidates[target] = [tokenizer.id_to_piece(int(id)) for id in best]
        candidate_log_probabilities[target] = scores[best].tolist()
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


def _require_queries(model: LanguageModel) -> None:
    if model.is_causal:
        raise UserError(
            "the model was trained with objective=causal and has no query stream, "
            "expected a model trained with objective=permutation"
        )


def _checked_order(count: int, settings: FactorizationSettings) -> np.ndarray:
    """As of `_order`; UserError if a text of `count` tokens does not fit the settings."""
    if not settings.known < count <= settings.most_tokens:
        raise UserError(
            f"text: {count} pieces, expected {settings.known + 1} to {settings.most_tokens}"
        )
    return _order(count, settings)


def _order(count: int, settings: FactorizationSettings) -> np.ndarray:
    """The positions of the tokens in the factorization order, int [T]."""
    if settings.order == "left_to_right":
        return np.arange(count)
    if settings.order == "right_to_left":
        return np.arange(count)[::-1]
    if settings.order == "random":
        return np.random.default_rng(settings.seed).permutation(count)
    tokens = settings.tokens_in_order()
    if len(tokens) != count:
        raise UserError(f"order names {len(tokens)} tokens, but the text has {count}")
    return np.array(tokens)
