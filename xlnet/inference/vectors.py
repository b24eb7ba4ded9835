"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.finetuning.predictor import Arrays
from xlnet.inference.inference import Call, Computed, Inference
from xlnet.inference.session import Subgraph, Tensors, require_finite
from xlnet.inference.texts import count_unknown, example_of, layers_of
from xlnet.model import modeling
from xlnet.runs.model_files import LoadedModel
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.features.encoding import IDS, Padding, batches_by_length

POOLINGS = ("mean", "first", "last", "none")
_UNLIMITED = 1 << 30  # a memory of this length keeps every position
_LEAST_NORM = 1e-12  # so that a vector of zeros is not divided by zero
_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches


def vectors_call(
    inference: Inference,
    layers: Union[int, Sequence[int]] = -1,
    pooling: str = "mean",
    normalize: bool = False,
) -> Call:
    """The call that makes vectors: float32 [D], [T,D] with pooling "none"; with several layers
    [k,D] or [k,T,D]. The arguments are those of `Model.vectors`."""
    if pooling not in POOLINGS:
        raise wrong("pooling", repr(pooling), f"one of {', '.join(POOLINGS)}")
    n_layer = inference.loaded.config.n_layer
    is_one_layer = isinstance(layers, (int, np.integer))
    listed = layers_of([layers] if is_one_layer else layers, -n_layer - 1, n_layer)
    # 0 are the embeddings, 1 to n_layer the layers; -1 is the last one.
    names = [str(layer % (n_layer + 1)) for layer in listed]

    def compute(items: list[tuple[encoding.Example, int]]) -> list[Computed]:
        arrays, lengths, counts = _encode(inference, items)
        found: list[Any] = [None] * len(items)
        for numbers, batch in batches_by_length(
            arrays,
            inference.loaded.max_seq_length,
            Padding("left", (), 8),
            inference.batch_size,
            inference.most_tokens,
        ):
            by_layer = subgraph(inference)(names, batch)  # k arrays [B,T',D]
            by_text = np.stack(by_layer, axis=1)  # [B,k,T',D]
            for number, values in zip(numbers, by_text):
                # Batches are padded on the left: a text's own tokens are the last ones.
                values = values[:, -lengths[number] :]  # [k,T,D]
                if pooling == "mean":
                    values = values.mean(axis=1)
                elif pooling != "none":
                    values = values[:, 0 if pooling == "first" else -1]
                if normalize:
                    norm = np.linalg.norm(values, axis=-1, keepdims=True)
                    values = values / np.maximum(norm, _LEAST_NORM)
                require_finite(values)
                result = values[0] if is_one_layer else values
                found[number] = Computed(result, *counts[number])
        return found

    prepare = functools.partial(_example, inference)
    return Call(prepare, compute, _BATCHES_AT_ONCE * inference.batch_size)


def encoding_call(inference: Inference) -> Call:
    """The call that returns the ids of a text as the network reads them: int32 [T] for each text,
    with the special tokens, without padding."""

    def compute(items: list[tuple[encoding.Example, int]]) -> list[Computed]:
        arrays, lengths, counts = _encode(inference, items)
        found = []
        for ids, length, its_counts in zip(arrays["input_ids"], lengths, counts):
            found.append(Computed(ids[-length:], *its_counts))
        return found

    prepare = functools.partial(_example, inference)
    return Call(prepare, compute, _BATCHES_AT_ONCE * inference.batch_size)


def _example(inference: Inference, item: Any) -> tuple[encoding.Example, int]:
    """A text or a pair, and how many of its tokens are unknown."""
    tuned = inference.loaded.tuned
    given = example_of(item, tuned.task if tuned else None)
    texts = [given.text_a, given.text_b]
    if tuned:
        for number, text in enumerate(texts):
            if text is not None:
                texts[number] = tuned.task.published.replaced(text)
    present = [text for text in texts if text is not None]
    unknown = count_unknown(inference.tokenizer, present)
    return encoding.Example((tuple(texts),), 0), unknown


def layout_of(loaded: LoadedModel) -> encoding.Layout:
    """How a long text is cut: as its task cuts it; where that reads all of it in several parts, its
    end is cut."""
    if loaded.tuned and not encoding.has_windows(loaded.tuned.layout):
        return loaded.tuned.layout
    return encoding.Layout(loaded.max_seq_length)


def _encode(
    inference: Inference, items: Sequence[tuple[encoding.Example, int]]
) -> tuple[Arrays, list[int], list[tuple[int, int, int]]]:
    """Texts or pairs, each cut to what the network reads: the features `IDS` by name, [n,T] with
    T = max_seq_length, padded on the left; the length of each with its special tokens; of each how
    many tokens are read, there and unknown."""
    layout = layout_of(inference.loaded)
    examples = [example for example, _ in items]
    arrays, _ = encoding.arrays_of(examples, inference.tokenizer, layout)
    counts = encoding.pop_token_counts(arrays)
    inference.note_cut(counts.is_cut, layout.max_seq_length)
    lengths = (1 - arrays["input_mask"]).sum(axis=1).astype(int)
    unknown = [unknown for _, unknown in items]
    of_each = zip(counts.read.tolist(), counts.total.tolist(), unknown)
    return arrays, lengths.tolist(), list(of_each)


def subgraph(inference: Inference) -> Subgraph:
    """The part of the graph that computes vectors."""
    return inference.session.subgraph("vectors", lambda: build(inference.loaded))


def mask_of(loaded: LoadedModel, padding: tf.Tensor) -> tf.Tensor:
    """What no position [B,1,T], or some [B,T,T], may see; padding: float32 [B,T], 1 is padding."""
    masked = padding[:, None] > 0
    if loaded.tokens_before is not None:
        place = tf.range(tf.shape(padding)[1])
        masked |= place[:, None] - place > loaded.tokens_before
    return masked


def build(loaded: LoadedModel) -> tuple[Tensors, Tensors]:
    """The inputs, `IDS` [B,T], and the outputs by layer, float32 [B,T,D]."""
    inputs = {}
    for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32)):
        inputs[name] = tf.placeholder(dtype, [None, None], "texts/" + name)
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
    # The graph has an output for every layer; a session computes only those that a call fetches.
    outputs = {}
    for layer, sequence in enumerate([*found.new_mems, found.sequence]):
        outputs[str(layer)] = tf.cast(sequence, tf.float32)
    return inputs, outputs
