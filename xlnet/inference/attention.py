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
from xlnet.inference.factorization import order_of
from xlnet.inference.inference import Call, Computed, Inference, row_of
from xlnet.inference.settings import (
    ATTENTION_ORDERS,
    AttentionSettings,
    from_keywords,
)
from xlnet.inference.texts import (
    as_text,
    count_unknown,
    example_of,
    layers_of,
    texts_of,
)
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import batches_by_length
from xlnet.tasks.task import Row


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
    """The call that computes the attention probabilities of some layers, counted from 1, one text
    after the other; of a pretrained network, or of a fine-tuned one, whose text may be a pair.

    Args:
      settings: those of `AttentionSettings`.
    """
    chosen = from_keywords(AttentionSettings, settings)
    layers = layers_of(layers, 1, inference.loaded.config.n_layer)
    tuned, tokenizer = inference.loaded.tuned, inference.tokenizer

    def prepare(item: Any) -> tuple[Any, int]:
        if tuned:
            row = row_of(tuned, 0, example_of(item, tuned.task))
            return row, count_unknown(tokenizer, texts_of(row))
        return as_text(item), count_unknown(tokenizer, [as_text(item)])

    def compute(items: list[tuple[Any, int]]) -> list[Computed]:
        ((given, unknown),) = items
        of_model = _of_fine_tuned if tuned else _of_pretrained
        found = of_model(inference, given, layers, chosen)
        return [Computed(found, len(found.ids), len(found.ids), unknown)]

    return Call(prepare, compute, 1)


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


def _of_fine_tuned(
    inference: Inference, row: Row, layers: Sequence[int], settings: AttentionSettings
) -> Attention:
    """The attention probabilities of a fine-tuned network, whose tokens see each other."""
    tuned, tokenizer = inference.tuned(), inference.tokenizer
    if settings.order not in (None, "none"):
        raise wrong("order", settings.order, "none of a fine-tuned model")
    # One record, without its padding: a plot shows the tokens of the text alone.
    reader, layout = tuned.task.reader, tuned.layout
    records, _ = reader.encode(list(reader.examples([row])), tokenizer, layout)
    counts = encoding.pop_token_counts(records)
    is_in_parts = len(counts.read) > 1 or tuned.task.head.num_choices(False) > 1
    if is_in_parts or layout.long_document == "memory" or counts.is_cut.any():
        raise wrong("text", "one that is cut or read in parts", "one read at once")
    padding = tuned.padding._replace(multiple=1)
    ((_, record),) = batches_by_length(records, layout.max_seq_length, padding, 1)
    ids = record["input_ids"][0].tolist()
    _check_length(ids, settings)

    def build() -> tuple[session.Tensors, session.Tensors]:
        loaded, outputs = inference.loaded, {}
        inputs = predictor.placeholders(tuned)
        model = TaskModel(loaded.config, tuned, loaded.network)
        for number, probabilities in enumerate(model.attention(inputs), 1):
            outputs[str(number)] = probabilities
        return inputs, outputs

    subgraph = inference.session.subgraph("attention", build)
    by_layer = subgraph([str(layer) for layer in layers], record)
    found = np.array(by_layer)[:, 0]  # [k,N,T,T]
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
