"""What each head of a network attends to in a text; of a pretrained one, in both streams.

Shape letters: T tokens, N heads, k layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.finetuning import predictor
from xlnet.finetuning.model import TaskModel
from xlnet.inference import session
from xlnet.inference.inference import Inference, row_of
from xlnet.inference.settings import (
    ATTENTION_ORDERS,
    AttentionSettings,
    numbers_in_order,
)
from xlnet.inference.texts import as_text, layers_of, pair_of
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import batches_by_length
from xlnet.tasks.task import InlineExample


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


def attention_of(
    inference: Inference, text: Any, layers: Sequence[int], settings: AttentionSettings
) -> Attention:
    """The attention probabilities of some layers, counted from 1, of a pretrained network, or of a
    fine-tuned one, whose text may be a pair."""
    layers = layers_of(layers, 1, inference.loaded.config.n_layer)
    if inference.loaded.tuned:
        return _of_fine_tuned(inference, text, layers, settings)
    return _of_pretrained(inference, as_text(text), layers, settings)


def _of_pretrained(
    inference: Inference, text: str, layers: Sequence[int], settings: AttentionSettings
) -> Attention:
    model, tokenizer = inference.language_model(), inference.tokenizer
    order = settings.order or ("left_to_right" if model.is_causal else "random")
    if model.is_causal and order != "left_to_right":
        raise wrong("order", order, "left_to_right, the only one of a causal model")
    ids = tokenizer.ids(text)
    _check_length(ids, settings)
    # The masks of both streams follow from the ranks of the tokens, as in pretraining if every
    # token is a target: a token does not see those later in the order, and a query does not see its
    # own token, either. Without an order every token sees all tokens, and a query all but its own.
    rank = _rank(len(ids), order, settings)
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


def _of_fine_tuned(
    inference: Inference, text: Any, layers: Sequence[int], settings: AttentionSettings
) -> Attention:
    """The attention probabilities of a fine-tuned network, whose tokens see each other."""
    tuned, tokenizer = inference.tuned(), inference.tokenizer
    if settings.order not in (None, "none"):
        raise wrong(
            "order", settings.order, "none: tokens of a fine-tuned model see each other"
        )
    # One record, without its padding: a plot shows the tokens of the text alone.
    row = row_of(tuned, 0, InlineExample(*pair_of(text, tuned.task)))
    reader, layout = tuned.task.reader, tuned.layout
    records, _ = reader.encode(list(reader.examples([row])), tokenizer, layout)
    counts = encoding.pop_token_counts(records)
    is_in_parts = (
        len(records["input_ids"]) > 1 or tuned.task.head.num_choices(False) > 1
    )
    if is_in_parts or layout.long_document == "memory" or counts.is_cut.any():
        raise wrong(
            "text", "one that is cut or read in parts", "one that is read at once"
        )
    padding = tuned.padding._replace(multiple=1)
    ((_, record),) = batches_by_length(records, layout.max_seq_length, padding, 1)
    ids = record["input_ids"][0].tolist()
    _check_length(ids, settings)

    def build() -> tuple[session.Tensors, session.Tensors]:
        inputs = predictor.placeholders(tuned)
        by_layer = TaskModel(
            inference.loaded.config, tuned, inference.loaded.network
        ).attention(inputs)
        return inputs, {str(layer + 1): each for layer, each in enumerate(by_layer)}

    subgraph = inference.open().subgraph("attention", build)
    found = np.array(subgraph([str(layer) for layer in layers], record))[
        :, 0
    ]  # [k,N,T,T]
    return Attention(
        [tokenizer.id_to_piece(id) for id in ids],
        layers,
        {"content": found},
        {"content": np.zeros([len(ids)] * 2, bool)},
        None,
        ids,
    )


def _check_length(ids: Sequence[int], settings: AttentionSettings) -> None:
    if not 0 < len(ids) <= settings.most_tokens:
        raise wrong("text", f"{len(ids)} pieces", f"1 to {settings.most_tokens}")


def _rank(count: int, order: str, settings: AttentionSettings) -> np.ndarray:
    """The position of each token in the order, from 0 on; the same for all where there is none."""
    if order == "none":
        return np.zeros(count, np.int64)
    if order == "left_to_right":
        return np.arange(count)
    if order == "random":
        return np.random.default_rng(settings.seed).permutation(count)
    # "2,1,3" names the tokens in the order: its inverse has the place of each token.
    tokens = numbers_in_order(order, ATTENTION_ORDERS, "tokens")
    if len(tokens) != count:
        raise wrong("order", f"{len(tokens)} numbers", f"those of the {count} tokens")
    return np.argsort(tokens)
