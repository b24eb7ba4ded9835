"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.model_directory.task_settings import Padding
from xlnet.network import heads, modeling
from xlnet.serving.batched_calls import BatchedCall, Computed
from xlnet.serving.inference import Inference
from xlnet.serving.session import IDS, Arrays, Part, Tensors, batches_by_length
from xlnet.serving.settings import POOLINGS, VectorSettings, from_keywords
from xlnet.serving.texts import pair
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks.features import encoding
from xlnet.tasks.features.encoding import TokenCounts

_ALL = 1 << 30  # a memory of so many positions is of all of them
_LEAST_NORM = 1e-12  # a vector of zeros stays one


def vectorizing(
    inference: Inference, layers: Union[int, Sequence[int]] = -1, **settings: Any
) -> BatchedCall:
    """The call that makes vectors: float32 [D], [T,D] with pooling "none"; with several layers
    [k,D] or [k,T,D].

    Args:
      settings: those of `VectorSettings`.
    """
    chosen = from_keywords(VectorSettings, settings)
    loaded = inference.loaded
    names = wanted(layers, chosen.pooling, loaded.config.n_layer)
    is_one_layer = np.ndim(layers) == 0

    def compute(examples: list[encoding.Example]) -> list[Computed]:
        arrays, lengths, counts = laid_out(inference, examples)
        found: list[Any] = [None] * len(lengths)
        for numbers, batch in batches_by_length(
            arrays,
            loaded.max_seq_length,
            Padding("left", (), 8),
            inference.batch_size,
            inference.most_tokens,
        ):
            by_text = np.stack(part(inference)(names, batch), axis=1)  # [B,k,D] or [B,k,T',D]
            for number, values in zip(numbers, by_text):
                # Batches are padded on the left: a text's own tokens are the last ones.
                if chosen.pooling == "none":
                    values = values[:, values.shape[1] - lengths[number] :]
                if chosen.normalize:
                    norm = np.linalg.norm(values, axis=-1, keepdims=True)
                    values = values / np.maximum(norm, _LEAST_NORM)
                found[number] = values[0] if is_one_layer else values
        return [Computed(*each) for each in zip(found, counts.read.tolist(), counts.total.tolist())]

    return BatchedCall(example_of, compute, inference.at_once)


def encoding_call(inference: Inference) -> BatchedCall:
    """The call that gives the ids which the network sees, int32 [T] of each text."""

    def compute(examples: list[encoding.Example]) -> list[Computed]:
        arrays, lengths, counts = laid_out(inference, examples)
        ids = [row[len(row) - length :] for row, length in zip(arrays["input_ids"], lengths)]
        return [Computed(*each) for each in zip(ids, counts.read.tolist(), counts.total.tolist())]

    return BatchedCall(example_of, compute, inference.at_once)


def example_of(item: Any) -> encoding.Example:
    """The example of a text or a pair."""
    return encoding.Example((pair(item),), 0)


def laid_out(
    inference: Inference, examples: Sequence[encoding.Example]
) -> tuple[Arrays, np.ndarray, TokenCounts]:
    """(arrays [n,T] of texts or pairs; int [n], their tokens with special ones; the counts of their
    tokens without them, [n])."""
    most = inference.loaded.max_seq_length
    arrays, _ = encoding.arrays_of(examples, inference.tokenizer, encoding.Layout(most))
    counts = encoding.pop_token_counts(arrays)
    inference.note_cut(counts.is_cut, most)
    lengths = (1 - arrays["input_mask"]).sum(axis=1).astype(int)
    return {name: arrays[name] for name in IDS}, lengths, counts


def part(inference: Inference) -> Part:
    """The part of the graph that computes vectors."""
    loaded = inference.loaded
    return inference.open().part("vectors", lambda: build(loaded.config, loaded.network))


def build(config: XLNetConfig, network: NetworkSettings) -> tuple[Tensors, Tensors]:
    """The inputs, `session.IDS` [B,T], and the outputs by the names of `wanted`: float32 [B,D], or
    [B,T,D] with "none"."""
    inputs = {
        name: tf.placeholder(dtype, [None, None], "texts/" + name)
        for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32))
    }
    ids, padding, segments = (inputs[name] for name in IDS)
    run = network.run_config(False, mem_len=_ALL)
    with train_step.model_scope(kept_in=run.precision):
        # The memory of a layer is what enters it: the embeddings, then the layers but the last one.
        found = modeling.transformer_xl(
            config, run, input_ids=ids, seg_ids=segments, mask=padding[:, None] > 0
        )
    # All of them are in the graph; a session computes those that are asked for.
    outputs = {}
    for layer, sequence in enumerate([*found.new_mems, found.sequence]):
        sequence = tf.cast(sequence, tf.float32)  # [B,T,D]
        for pooling in POOLINGS:
            outputs[_name(layer, pooling)] = (
                sequence
                if pooling == "none"
                else heads.summarize(
                    config, run, sequence, summary_type=pooling, padding=padding, use_proj=False
                )
            )
    return inputs, outputs


def wanted(layers: Union[int, Sequence[int]], pooling: str, n_layer: int) -> list[str]:
    """The names of outputs: of layers 0 to `n_layer`, or from -1 down, counted from the last."""
    try:
        listed: list = np.atleast_1d(layers).tolist() if np.ndim(layers) < 2 else [layers]
    except ValueError:  # lists of different lengths
        listed = [layers]
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
