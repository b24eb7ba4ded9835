"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.engine.session import Subgraph, Tensors, require_finite
from xlnet.inference.inference import (
    Call,
    Computed,
    Inference,
    count_unknown,
    example_of,
)
from xlnet.model import modeling
from xlnet.runs.model_files import LoadedModel
from xlnet.support.errors import wrong
from xlnet.tasks import encoding
from xlnet.tasks.encoding import IDS, Padding, batches_by_length

POOLINGS = ("mean", "first", "last", "none")
_UNLIMITED = 1 << 30  # a memory of this length keeps every position
_LEAST_NORM = 1e-12  # so that a vector of zeros is not divided by zero
_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches


def vectors_call(
    inference: Inference,
    layer: int = -1,
    pooling: str = "mean",
    normalize: bool = False,
) -> Call:
    """The call that makes vectors: float32 [D], or [T,D] with pooling "none". The arguments are
    those of `Model.vectors`."""
    if pooling not in POOLINGS:
        raise wrong("pooling", repr(pooling), f"one of {', '.join(POOLINGS)}")
    n_layer = inference.loaded.config.n_layer
    is_number = isinstance(layer, (int, np.integer))
    if not is_number or not -n_layer - 1 <= layer <= n_layer:
        expected = f"a number from {-n_layer - 1} to {n_layer}"
        raise wrong("layer", repr(layer), expected)
    # 0 are the embeddings, 1 to n_layer the layers; -1 is the last one.
    name = str(layer % (n_layer + 1))
    layout = layout_of(inference.loaded)

    def compute(items: list[tuple[tuple, int]]) -> list[Computed]:
        pairs = [(pair,) for pair, _ in items]
        labels = np.zeros(len(items), np.int32)  # none are read
        tokenizer = inference.tokenizer
        arrays, _, counts = encoding.arrays_of(pairs, labels, tokenizer, layout)
        inference.note_cut(counts.is_cut, layout.max_seq_length)
        found: list[Any] = [None] * len(items)
        for numbers, batch in batches_by_length(
            arrays,
            layout.max_seq_length,
            Padding("left", (), 8),
            inference.batch_size,
            inference.most_tokens,
        ):
            (outputs,) = subgraph(inference)([name], batch)  # [B,T',D]
            for number, values, padding in zip(numbers, outputs, batch["input_mask"]):
                values = values[padding < 1]  # [T,D]
                if pooling == "mean":
                    values = values.mean(axis=0)
                elif pooling != "none":
                    values = values[0 if pooling == "first" else -1]
                if normalize:
                    norm = np.linalg.norm(values, axis=-1, keepdims=True)
                    values = values / np.maximum(norm, _LEAST_NORM)
                require_finite(values)
                read, total = int(counts.read[number]), int(counts.total[number])
                found[number] = Computed(values, read, total, items[number][1])
        return found

    at_once = _BATCHES_AT_ONCE * inference.batch_size
    return Call(compute, at_once, functools.partial(_example, inference))


def _example(inference: Inference, item: Any) -> tuple[tuple, int]:
    """A text or a pair, and how many of its tokens are unknown."""
    tuned = inference.loaded.tuned
    task = tuned.task if tuned else None
    first, second, _ = example_of(item, task)
    if task:
        first = task.published.replaced(first)
        second = second and task.published.replaced(second)
    unknown = count_unknown(inference.tokenizer, (first, second))
    return (first, second), unknown


def layout_of(loaded: LoadedModel) -> encoding.Layout:
    """How a long text is cut: as its task cuts it; where that reads all of it in several parts, its
    end is cut."""
    if loaded.tuned and not encoding.has_windows(loaded.tuned.layout):
        return loaded.tuned.layout
    return encoding.Layout(loaded.max_seq_length)


def subgraph(inference: Inference) -> Subgraph:
    """The part of the graph that computes vectors: of `IDS` [B,T] the outputs by layer, float32
    [B,T,D]."""

    def build() -> tuple[Tensors, Tensors]:
        inputs = {}
        for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32)):
            inputs[name] = tf.placeholder(dtype, [None, None], "texts/" + name)
        # The graph has an output for every layer; a session computes only those that a call
        # fetches.
        outputs = {}
        for layer, sequence in enumerate(hidden_states(inference.loaded, inputs)):
            outputs[str(layer)] = tf.cast(sequence, tf.float32)
        return inputs, outputs

    return inference.session.subgraph("vectors", build)


def hidden_states(loaded: LoadedModel, inputs: Tensors) -> list[tf.Tensor]:
    """The embeddings and the outputs of all layers [B,T,D], for the inputs `IDS` [B,T]."""
    ids, padding, segments = (inputs[name] for name in IDS)
    masked = padding[:, None] > 0  # what no position [B,1,T], or some [B,T,T], may see
    if loaded.tokens_before is not None:
        place = tf.range(tf.shape(padding)[1])
        masked |= place[:, None] - place > loaded.tokens_before
    run = loaded.network.run_config(False, mem_len=_UNLIMITED)
    with train_step.model_scope(kept_in=run.precision):
        # `new_mems` has the input of each layer: the embeddings, then the outputs of all layers but
        # the last one, whose output is `sequence`.
        found = modeling.transformer_xl(
            loaded.config,
            run,
            input_ids=ids,
            seg_ids=segments,
            mask=masked,
            attn_type=loaded.attn_type,
        )
    return [*found.new_mems, found.sequence]
