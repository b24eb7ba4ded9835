"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.finetuning.predictor import Arrays
from xlnet.model_directory.model_files import LoadedModel
from xlnet.network import heads, modeling
from xlnet.serving.batched_calls import BatchedCall, Computed, NotFinite, require_finite
from xlnet.serving.inference import Inference
from xlnet.serving.session import Subgraph, Tensors
from xlnet.serving.settings import POOLINGS, VectorSettings, from_keywords
from xlnet.serving.texts import count_unknown, layers_of, pair_of
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import IDS, Padding, batches_by_length

_UNLIMITED = 1 << 30  # a memory of this length keeps every position
_LEAST_NORM = 1e-12  # so that a vector of zeros is not divided by zero
_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches


class _Encoded(NamedTuple):
    """Texts or pairs, each cut to what the network reads.

    Attributes:
      arrays: the features `IDS` by name, [n,T] with T = max_seq_length, padded on the left.
      lengths: int [n], of each text with its special tokens.
      counts: of its tokens without them.
    """

    arrays: Arrays
    lengths: np.ndarray
    counts: encoding.TokenCounts


def vectors_call(
    inference: Inference, layers: Union[int, Sequence[int]] = -1, **settings: Any
) -> BatchedCall:
    """The call that makes vectors: float32 [D], [T,D] with pooling "none"; with several layers
    [k,D] or [k,T,D].

    Args:
      settings: those of `VectorSettings`.
    """
    chosen = from_keywords(VectorSettings, settings)
    loaded = inference.loaded
    is_one_layer = isinstance(layers, (int, np.integer))
    n_layer = loaded.config.n_layer
    listed = layers_of([layers] if is_one_layer else layers, -n_layer - 1, n_layer)
    # 0 are the embeddings, 1 to n_layer the layers; -1 is the last one.
    names = [_name(layer % (n_layer + 1), chosen.pooling) for layer in listed]

    def prepare(item: Any) -> tuple[encoding.Example, int]:
        example = _example(inference, item)
        texts = [text for text in example.choices[0] if text is not None]
        return example, count_unknown(inference.tokenizer, texts)

    def compute(items: list[tuple[encoding.Example, int]]) -> list[Union[Computed, UserError]]:
        encoded = _encode(inference, [example for example, _ in items])
        found: list[Any] = [None] * len(items)
        for numbers, batch in batches_by_length(
            encoded.arrays,
            loaded.max_seq_length,
            Padding("left", (), 8),
            inference.batch_size,
            inference.most_tokens,
        ):
            by_layer = subgraph(inference)(names, batch)  # k arrays [B,D], or [B,T',D]
            by_text = np.stack(by_layer, axis=1)  # [B,k,D], or [B,k,T',D]
            for number, values in zip(numbers, by_text):
                # Batches are padded on the left: a text's own tokens are the last ones.
                if chosen.pooling == "none":
                    values = values[:, values.shape[1] - encoded.lengths[number] :]
                if chosen.normalize:
                    norm = np.linalg.norm(values, axis=-1, keepdims=True)
                    values = values / np.maximum(norm, _LEAST_NORM)
                found[number] = values[0] if is_one_layer else values
        computed: list[Union[Computed, UserError]] = []
        for number, values in enumerate(found):
            read, total = encoded.counts.read[number], encoded.counts.total[number]
            try:
                require_finite(values)
            except NotFinite as e:  # of this text alone
                computed.append(e)
            else:
                unknown = items[number][1]
                computed.append(Computed(values, int(read), int(total), unknown_tokens=unknown))
        return computed

    return BatchedCall(prepare, compute, _BATCHES_AT_ONCE * inference.batch_size)


def encoding_call(inference: Inference) -> BatchedCall:
    """The call that returns the ids of a text as the network reads them: int32 [T] for each text,
    with the special tokens, without padding."""

    def prepare(item: Any) -> encoding.Example:
        return _example(inference, item)

    def compute(examples: list[encoding.Example]) -> list[Computed]:
        encoded = _encode(inference, examples)
        results = []
        for ids, length in zip(encoded.arrays["input_ids"], encoded.lengths):
            results.append(Computed(ids[len(ids) - length :]))  # the padding is on the left
        return results

    return BatchedCall(prepare, compute, _BATCHES_AT_ONCE * inference.batch_size)


def _example(inference: Inference, item: Any) -> encoding.Example:
    tuned = inference.loaded.tuned
    text_a, text_b = pair_of(item, tuned.task if tuned else None)
    if tuned:
        text_a = tuned.task.published.replaced(text_a)
        text_b = None if text_b is None else tuned.task.published.replaced(text_b)
    return encoding.Example(((text_a, text_b),), 0)


def layout_of(loaded: LoadedModel) -> encoding.Layout:
    """How a long text is cut: as its task cuts it; where that reads all of it in several parts, its
    end is cut."""
    if loaded.tuned and not encoding.has_windows(loaded.tuned.layout):
        return loaded.tuned.layout
    return encoding.Layout(loaded.max_seq_length)


def _encode(inference: Inference, examples: Sequence[encoding.Example]) -> _Encoded:
    layout = layout_of(inference.loaded)
    arrays, _ = encoding.arrays_of(examples, inference.tokenizer, layout)
    counts = encoding.pop_token_counts(arrays)
    inference.note_cut(counts.is_cut, layout.max_seq_length)
    lengths = (1 - arrays["input_mask"]).sum(axis=1).astype(int)
    return _Encoded({name: arrays[name] for name in IDS}, lengths, counts)


def subgraph(inference: Inference) -> Subgraph:
    """The part of the graph that computes vectors."""
    return inference.open().subgraph("vectors", lambda: build(inference.loaded))


def mask_of(loaded: LoadedModel, padding: tf.Tensor) -> tf.Tensor:
    """What no position [B,1,T], or some [B,T,T], may see; padding: float32 [B,T], 1 is padding."""
    masked = padding[:, None] > 0
    if loaded.tokens_before is not None:
        place = tf.range(tf.shape(padding)[1])
        masked |= place[:, None] - place > loaded.tokens_before
    return masked


def build(loaded: LoadedModel) -> tuple[Tensors, Tensors]:
    """The inputs, `IDS` [B,T], and the outputs by layer and pooling: float32 [B,D], or [B,T,D]
    with "none"."""
    inputs = {
        name: tf.placeholder(dtype, [None, None], "texts/" + name)
        for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32))
    }
    ids, padding, segments = (inputs[name] for name in IDS)
    run = loaded.network.run_config(False, mem_len=_UNLIMITED)
    with train_step.model_scope(kept_in=run.precision):
        # `new_mems` has the input of each layer: the embeddings, then the outputs of all layers but
        # the last one, whose output is `sequence`.
        found = modeling.transformer_xl(
            loaded.config,
            run,
            input_ids=ids,
            seg_ids=segments,
            mask=mask_of(loaded, padding),
            attn_type=loaded.attn_type,
        )
    # The graph has an output for every layer and pooling; a session computes only those that a call
    # fetches.
    outputs = {}
    for layer, sequence in enumerate([*found.new_mems, found.sequence]):
        sequence = tf.cast(sequence, tf.float32)  # [B,T,D]
        outputs[_name(layer, "none")] = sequence
        for pooling in POOLINGS[:-1]:
            outputs[_name(layer, pooling)] = heads.summarize(
                loaded.config,
                run,
                sequence,
                summary_type=pooling,
                padding=padding,
                use_proj=False,
            )
    return inputs, outputs


def _name(layer: int, pooling: str) -> str:
    return f"{layer}/{pooling}"
