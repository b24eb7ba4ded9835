"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.finetuning.predictor import Arrays
from xlnet.inference.inference import Call, Computed, Inference
from xlnet.inference.session import Subgraph, Tensors, require_finite
from xlnet.inference.settings import VectorSettings, from_keywords
from xlnet.inference.texts import count_unknown, example_of, layers_of
from xlnet.model import modeling
from xlnet.runs.model_files import LoadedModel
from xlnet.tasks.features import encoding
from xlnet.tasks.features.encoding import IDS, Padding, batches_by_length

_UNLIMITED = 1 << 30  # a memory of this length keeps every position
_LEAST_NORM = 1e-12  # so that a vector of zeros is not divided by zero
_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches


def vectors_call(
    inference: Inference, layers: Union[int, Sequence[int]] = -1, **settings: Any
) -> Call:
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
    names = [str(layer % (n_layer + 1)) for layer in listed]

    def prepare(item: Any) -> tuple[encoding.Example, int]:
        example = _example(inference, item)
        texts = [text for text in example.choices[0] if text is not None]
        return example, count_unknown(inference.tokenizer, texts)

    def compute(items: list[tuple[encoding.Example, int]]) -> list[Computed]:
        arrays, counts, lengths = _encode(inference, [example for example, _ in items])
        found: list[Any] = [None] * len(items)
        for numbers, batch in batches_by_length(
            arrays,
            loaded.max_seq_length,
            Padding("left", (), 8),
            inference.batch_size,
            inference.most_tokens,
        ):
            by_layer = subgraph(inference)(names, batch)  # k arrays [B,T',D]
            by_text = np.stack(by_layer, axis=1)  # [B,k,T',D]
            for number, values in zip(numbers, by_text):
                # Batches are padded on the left: a text's own tokens are the last ones.
                values = values[:, values.shape[1] - lengths[number] :]  # [k,T,D]
                if chosen.pooling == "mean":
                    values = values.mean(axis=1)
                elif chosen.pooling != "none":
                    values = values[:, 0 if chosen.pooling == "first" else -1]
                if chosen.normalize:
                    norm = np.linalg.norm(values, axis=-1, keepdims=True)
                    values = values / np.maximum(norm, _LEAST_NORM)
                require_finite(values)
                found[number] = Computed(
                    values[0] if is_one_layer else values,
                    int(counts.read[number]),
                    int(counts.total[number]),
                    items[number][1],
                )
        return found

    return Call(prepare, compute, _BATCHES_AT_ONCE * inference.batch_size)


def encoding_call(inference: Inference) -> Call:
    """The call that returns the ids of a text as the network reads them: int32 [T] for each text,
    with the special tokens, without padding."""

    def prepare(item: Any) -> encoding.Example:
        return _example(inference, item)

    def compute(examples: list[encoding.Example]) -> list[Computed]:
        arrays, counts, lengths = _encode(inference, examples)
        found = []
        for number, ids in enumerate(arrays["input_ids"]):
            ids = ids[len(ids) - lengths[number] :]  # the padding is on the left
            read, total = int(counts.read[number]), int(counts.total[number])
            unknown = np.count_nonzero(ids == inference.tokenizer.unk_id)
            found.append(Computed(ids, read, total, int(unknown)))
        return found

    return Call(prepare, compute, _BATCHES_AT_ONCE * inference.batch_size)


def _example(inference: Inference, item: Any) -> encoding.Example:
    tuned = inference.loaded.tuned
    given = example_of(item, tuned.task if tuned else None)
    text_a, text_b = given.text_a, given.text_b
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


def _encode(
    inference: Inference, examples: Sequence[encoding.Example]
) -> tuple[Arrays, encoding.TokenCounts, np.ndarray]:
    """Texts or pairs, each cut to what the network reads: the features `IDS` by name, [n,T] with
    T = max_seq_length, padded on the left; the counts of their tokens; the length of each with its
    special tokens, int [n]."""
    layout = layout_of(inference.loaded)
    arrays, _ = encoding.arrays_of(examples, inference.tokenizer, layout)
    counts = encoding.pop_token_counts(arrays)
    inference.note_cut(counts.is_cut, layout.max_seq_length)
    lengths = (1 - arrays["input_mask"]).sum(axis=1).astype(int)
    return {name: arrays[name] for name in IDS}, counts, lengths


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
