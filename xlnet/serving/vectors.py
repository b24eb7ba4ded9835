"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.model_directory.model_files import LoadedModel
from xlnet.model_directory.task_settings import Padding
from xlnet.network import heads, modeling
from xlnet.serving.batched_calls import BatchedCall, Computed, NotFinite, require_finite
from xlnet.serving.inference import Inference
from xlnet.serving.session import Arrays, Subgraph, Tensors
from xlnet.serving.settings import POOLINGS, VectorSettings, from_keywords
from xlnet.serving.texts import pair_of
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import IDS, batches_by_length
from xlnet.tasks.features.encoding import TokenCounts

_UNLIMITED = 1 << 30  # a memory of this length keeps every position
_LEAST_NORM = 1e-12  # so that a vector of zeros is not divided by zero


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
    names = output_names(layers, chosen.pooling, loaded.config.n_layer)
    is_one_layer = np.ndim(layers) == 0

    def compute(examples: list[encoding.Example]) -> list[Union[Computed, UserError]]:
        arrays, lengths, counts = encode_examples(inference, examples)
        found: list[Any] = [None] * len(lengths)
        for numbers, batch in batches_by_length(
            arrays,
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
                    values = values[:, values.shape[1] - lengths[number] :]
                if chosen.normalize:
                    norm = np.linalg.norm(values, axis=-1, keepdims=True)
                    values = values / np.maximum(norm, _LEAST_NORM)
                found[number] = values[0] if is_one_layer else values
        computed: list[Union[Computed, UserError]] = []
        for number, values in enumerate(found):
            try:
                require_finite(values)
            except NotFinite as e:  # of this text alone
                computed.append(e)
            else:
                computed.append(
                    Computed(values, int(counts.read[number]), int(counts.total[number]))
                )
        return computed

    return BatchedCall(_example_of(inference), compute, inference.at_once)


def encoding_call(inference: Inference) -> BatchedCall:
    """The call that returns the ids of a text as the network reads them: int32 [T] for each text,
    with the special tokens, without padding."""

    def compute(examples: list[encoding.Example]) -> list[Computed]:
        arrays, lengths, counts = encode_examples(inference, examples)
        padded_ids = arrays["input_ids"]  # [n,max_seq_length]
        results = []
        for number, length in enumerate(lengths):
            # The padding is on the left: a text's own tokens are the last ones of its row.
            begin = padded_ids.shape[1] - length
            ids = padded_ids[number, begin:]
            results.append(Computed(ids, int(counts.read[number]), int(counts.total[number])))
        return results

    return BatchedCall(_example_of(inference), compute, inference.at_once)


def _example_of(inference: Inference) -> Callable[[Any], encoding.Example]:
    """The function from a text or a pair to its example."""
    tuned = inference.loaded.tuned

    def example_of(item: Any) -> encoding.Example:
        text_a, text_b = pair_of(item, tuned.task if tuned else None)
        if tuned:
            text_a = tuned.task.published.replaced(text_a)
            text_b = None if text_b is None else tuned.task.published.replaced(text_b)
        return encoding.Example(((text_a, text_b),), 0)

    return example_of


def layout_of(loaded: LoadedModel) -> encoding.Layout:
    """How a long text is cut: as its task cuts it; where that reads all of it in several parts, its
    end is cut."""
    if loaded.tuned and not encoding.has_windows(loaded.tuned.layout):
        return loaded.tuned.layout
    return encoding.Layout(loaded.max_seq_length)


def encode_examples(
    inference: Inference, examples: Sequence[encoding.Example]
) -> tuple[Arrays, np.ndarray, TokenCounts]:
    """Encodes n texts or pairs, each cut to what the network reads.

    Returns:
      The features `session.IDS` by name, arrays [n,T] with T = max_seq_length, padded on the left;
      the length of each text with its special tokens, int [n]; the counts of its tokens without
      them.
    """
    layout = layout_of(inference.loaded)
    arrays, _ = encoding.arrays_of(examples, inference.tokenizer, layout)
    counts = encoding.pop_token_counts(arrays)
    inference.note_cut(counts.is_cut, layout.max_seq_length)
    lengths = (1 - arrays["input_mask"]).sum(axis=1).astype(int)
    return {name: arrays[name] for name in IDS}, lengths, counts


def subgraph(inference: Inference) -> Subgraph:
    """The part of the graph that computes vectors."""
    loaded = inference.loaded
    return inference.open().subgraph("vectors", lambda: build(loaded))


def mask_of(loaded: LoadedModel, padding: tf.Tensor) -> tf.Tensor:
    """What no position [B,1,T], or some [B,T,T], may see; padding: float32 [B,T], 1 is padding."""
    masked = padding[:, None] > 0
    if loaded.tokens_before is not None:
        place = tf.range(tf.shape(padding)[1])
        masked |= place[:, None] - place > loaded.tokens_before
    return masked


def build(loaded: LoadedModel) -> tuple[Tensors, Tensors]:
    """The inputs, `session.IDS` [B,T], and the outputs by their `output_names`: float32 [B,D], or
    [B,T,D] with "none"."""
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
        for pooling in POOLINGS:
            outputs[_name(layer, pooling)] = (
                sequence
                if pooling == "none"
                else heads.summarize(
                    loaded.config,
                    run,
                    sequence,
                    summary_type=pooling,
                    padding=padding,
                    use_proj=False,
                )
            )
    return inputs, outputs


def output_names(layers: Union[int, Sequence[int]], pooling: str, n_layer: int) -> list[str]:
    """The names of the outputs for some layers.

    Args:
      layers: numbers from 0, the embeddings, to `n_layer`; or from -1, the last layer, down.
      pooling: one of `POOLINGS`.
      n_layer: of the network.

    Raises:
      UserError: a number is not that of a layer, or there is none.
    """
    listed: list = [layers]  # not a number and not a list of numbers: the check below refuses it
    try:
        if np.ndim(layers) < 2:
            listed = np.atleast_1d(layers).tolist()
    except ValueError:  # NumPy refuses lists of different lengths
        pass
    for layer in listed:
        if type(layer) is not int or not -n_layer - 1 <= layer <= n_layer:
            raise UserError(
                f"layers: {layer}, expected 0 (embeddings) to {n_layer}, or -1 (the last one) down "
                f"to {-n_layer - 1}"
            )
    if not listed:
        raise UserError("layers: expected one or more")
    return [_name(layer % (n_layer + 1), pooling) for layer in listed]


def _name(layer: int, pooling: str) -> str:
    return f"{layer}/{pooling}"
