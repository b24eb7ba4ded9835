"""What each head of a network attends to in a text; of a pretrained one, in both streams.

Shape letters: T tokens, N heads, k layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.model_files import LoadedModel
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.serving import session
from xlnet.serving.batched_calls import BatchedCall, Computed
from xlnet.serving.inference import Inference, row_of
from xlnet.serving.language_model import LanguageModel
from xlnet.serving.settings import AttentionSettings
from xlnet.serving.texts import as_text, pair_of
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import batches_by_length
from xlnet.tasks.task import InlineExample, Row
from xlnet.tokenization.tokenizer import Tokenizer


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
    tuned = inference.loaded.tuned
    if tuned is None:
        model = inference.language_model()
        return attention(model, inference.tokenizer, as_text(text), layers, settings)
    return of_fine_tuned(
        tuned,
        inference.tokenizer,
        row_of(tuned, 0, InlineExample(*pair_of(text, tuned.task))),
        layers,
        inference.loaded.config.n_layer,
        settings,
        inference.open().subgraph("attention", lambda: build(inference.loaded, tuned)),
    )


def attention_call(
    inference: Inference, layers: Sequence[int], settings: AttentionSettings
) -> BatchedCall:
    """The call of `attention_of` for a pretrained model, one text after the other."""
    model = inference.language_model()

    def prepare(text: Any) -> Any:
        _checked_rank(model, inference.tokenizer.ids(as_text(text)), layers, settings)
        return text

    def compute(texts: list[Any]) -> list[Computed]:
        (text,) = texts
        found = attention_of(inference, text, layers, settings)
        return [Computed(found, len(found.ids), len(found.ids))]  # a longer text is refused

    return BatchedCall(prepare, compute, 1)


def attention(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    layers: Sequence[int],
    settings: AttentionSettings,
) -> Attention:
    """The attention probabilities of some layers, counted from 1."""
    ids = tokenizer.ids(text)
    # The masks of both streams follow from the ranks of the tokens, as in pretraining if every
    # token is a target: a token does not see those later in the order, and a query does not see its
    # own token, either. Without an order every token sees all tokens, and a query all but its own.
    order, rank = _checked_rank(model, ids, layers, settings)
    content, query = rank > rank[:, None], rank >= rank[:, None]  # [T,T], hidden
    if model.tokens_before is not None:
        places = np.arange(len(ids))
        content |= places[:, None] - places > model.tokens_before
    if order == "none":
        query = np.eye(len(ids), dtype=bool)
    # All tokens are read at once, with a query at each position: the rows of the result are those
    # of the content stream, then those of the query stream.
    positions = range(len(ids))
    with model.reading(len(ids)) as reading:
        found = np.array(
            reading.attention(
                [layer - 1 for layer in layers],
                np.array([ids]),
                positions,
                () if model.is_causal else positions,
                content if model.is_causal else np.concatenate([content, query]),
            )
        )[:, 0]
    hidden = {"content": content, **({} if model.is_causal else {"query": query})}
    streams = {
        name: np.where(mask, 0, found[:, :, begin : begin + len(ids)])  # [k,N,T,T]
        for begin, (name, mask) in zip((0, len(ids)), hidden.items())
    }
    return Attention(
        [tokenizer.id_to_piece(id) for id in ids],
        list(layers),
        streams,
        hidden,
        None if order == "none" else rank + 1,
        list(ids),
    )


def build(loaded: LoadedModel, tuned: FineTunedTask) -> tuple[session.Tensors, session.Tensors]:
    """From a record to the attention probabilities [B,N,T,T] of each layer, by number from 0."""
    if tuned.settings.long_document == "memory":
        raise UserError(
            "the model reads a text in segments (long_document=memory), "
            "expected one that reads it at once"
        )
    inputs = session.placeholders(tuned)
    found = TaskModel(loaded.config, tuned, loaded.network).attention(inputs)
    return inputs, {str(layer): each for layer, each in enumerate(found)}


def of_fine_tuned(
    tuned: FineTunedTask,
    tokenizer: Tokenizer,
    row: Row,
    layers: Sequence[int],
    n_layer: int,
    settings: AttentionSettings,
    subgraph: session.Subgraph,
) -> Attention:
    """The attention probabilities of a fine-tuned network, whose tokens see each other; `subgraph`
    is of `build`."""
    settings.order_of(only="none")
    # One record, without its padding: a plot shows the tokens of the text alone.
    reader, length = tuned.task.reader, tuned.layout.max_seq_length
    records, _ = reader.encode(list(reader.examples([row])), tokenizer, tuned.layout)
    counts = encoding.pop_token_counts(records)
    if len(records["input_ids"]) > 1 or tuned.task.head.num_choices(False) > 1:
        raise UserError(
            f"the text is read in several parts, expected one of at most max_seq_length {length}"
        )
    if counts.is_cut.any():
        raise UserError(
            f"{counts.read[0]} of {counts.total[0]} tokens are read, expected all: "
            f"{reader.cut_words}"
        )
    ((_, record),) = batches_by_length(records, length, tuned.padding._replace(multiple=1), 1)
    ids = record["input_ids"][0].tolist()
    _check(ids, layers, n_layer, settings)
    found = subgraph([str(layer - 1) for layer in layers], record)
    return Attention(
        [tokenizer.id_to_piece(id) for id in ids],
        list(layers),
        {"content": np.array(found)[:, 0]},
        {"content": np.zeros([len(ids)] * 2, bool)},
        None,
        ids,
    )


def _check(
    ids: Sequence[int], layers: Sequence[int], n_layer: int, settings: AttentionSettings
) -> None:
    """Raises UserError for no text, a text that is too long, or layers that do not exist."""
    if not 0 < len(ids) <= settings.most_tokens:
        raise UserError(f"text: {len(ids)} pieces, expected 1 to {settings.most_tokens}")
    if isinstance(layers, str) or not hasattr(layers, "__len__") or not len(layers):
        raise UserError(f"layers is {layers!r}, expected a list of one or more, such as layers=[1]")
    for layer in layers:
        is_number = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        if not is_number or not 1 <= layer <= n_layer:
            raise UserError(f"layers: {layer!r}, expected 1 to {n_layer}")


def _checked_rank(
    model: LanguageModel, ids: Sequence[int], layers: Sequence[int], settings: AttentionSettings
) -> tuple[str, np.ndarray]:
    """(the order, the position of each token in it, [T]); UserError if the text does not fit the
    settings, or the model."""
    _check(ids, layers, model.n_layer, settings)
    order = settings.order_of(only="left_to_right" if model.is_causal else None)
    return order, _rank(len(ids), order, settings)


def _rank(count: int, order: str, settings: AttentionSettings) -> np.ndarray:
    """The position of each token in the order, from 0 on; the same for all where there is none."""
    if order == "none":
        return np.zeros(count, np.int64)
    if order == "left_to_right":
        return np.arange(count)
    if order == "random":
        return np.random.default_rng(settings.seed).permutation(count)
    # "2,1,3" names the tokens in the order: its inverse has the place of each token.
    tokens = settings.tokens_in_order()
    if len(tokens) != count:
        raise UserError(f"order names {len(tokens)} tokens, but the text has {count}")
    return np.argsort(tokens)
