"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: n texts, B batch, T tokens, D d_model, k layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine.session import require_finite
from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    pair,
    require_known,
)
from xlnet.model import modeling, parameters
from xlnet.model.ops import Tensors
from xlnet.support.errors import wrong
from xlnet.tasks import encoding
from xlnet.tasks.encoding import IDS, Padding, batches_by_length

POOLINGS = ("mean", "first", "last", "none")
_UNLIMITED = 1 << 30  # a memory of this length keeps every position


class Vectors(Method):
    """Makes vectors: float32 [D], or [T,D] with pooling "none". The settings are those of
    `Model.vectors`."""

    def __init__(
        self,
        model: RestoredModel,
        layer: int = -1,
        pooling: str = "mean",
    ) -> None:
        if pooling not in POOLINGS:
            raise wrong("pooling", repr(pooling), f"one of {', '.join(POOLINGS)}")
        n_layer = model.n_layer
        is_number = isinstance(layer, (int, np.integer))
        if not is_number or not -n_layer - 1 <= layer <= n_layer:
            expected = f"a number from {-n_layer - 1} to {n_layer}"
            raise wrong("layer", repr(layer), expected)
        self._model, self._pooling = model, pooling
        # 0 are the embeddings, 1 to n_layer the layers; -1 is the last one. The outputs of the
        # subgraph have these names.
        self._layer = str(layer % (n_layer + 1))
        # A long text is cut as the model's task cuts it; if the task reads it in windows, the end
        # of the text is cut.
        self._layout = encoding.Layout(model.max_seq_length)
        tuned = model.loaded.tuned
        if tuned and tuned.layout.long_document == "truncate":
            self._layout = tuned.layout
        self._subgraph = model.session.copies("vectors", self._build)[0]
        self.at_once = model.at_once

    def prepare(self, item: Any) -> tuple[str, str | None]:
        """A text or a pair, as the task reads it."""
        first, second = pair(item)
        # A question and its context are read the other way round.
        if self._model.verb == "answer" and second is not None:
            first, second = second, first
        published = self._model.published
        first = published.replaced(first)
        second = second and published.replaced(second)
        require_known(self._model.tokenizer, (first, second))
        return first, second

    def compute(self, items: list[tuple[str, str | None]]) -> list[Computed]:
        tokenizer, length = self._model.tokenizer, self._layout.max_seq_length
        pairs = [(item,) for item in items]
        labels = np.zeros(len(items), np.int32)  # none are read
        arrays, _, counts = encoding.arrays_of(pairs, labels, tokenizer, self._layout)
        self._model.note_cut(counts.is_cut, length)
        found: list[Any] = [None] * len(items)
        for numbers, batch in batches_by_length(
            arrays,
            length,
            Padding(),
            self._model.batch_size,
            self._model.most_tokens,
        ):
            (outputs,) = self._subgraph([self._layer], batch)  # [B,T',D]
            for number, values, padding in zip(numbers, outputs, batch["input_mask"]):
                vector = self._pooled(values[padding < 1])
                read, total = counts.read[number], counts.total[number]
                found[number] = Computed(vector, read, total)
        return found

    def _pooled(self, values: np.ndarray) -> np.ndarray:
        """The result for the values [T,D] of the tokens of a text."""
        if self._pooling == "mean":
            values = values.mean(axis=0)
        elif self._pooling != "none":
            values = values[0 if self._pooling == "first" else -1]
        require_finite(values)
        return values

    def _build(self) -> tuple[Tensors, Tensors]:
        """The part of the graph that computes vectors: of `IDS` [B,T] the embeddings and the
        outputs of all layers by their number, float32 [B,T,D]."""
        loaded = self._model.loaded
        inputs = {}
        for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32)):
            inputs[name] = tf.placeholder(dtype, [None, None], "texts/" + name)
        ids, padding, segments = inputs.values()
        # What no position [B,1,T], or some [B,T,T], may see.
        masked = padding[:, None] > 0
        if loaded.tokens_before is not None:
            place = tf.range(tf.shape(padding)[1])
            masked |= place[:, None] - place > loaded.tokens_before
        run = loaded.network.run_config(False, mem_len=_UNLIMITED)
        with parameters.model_scope(kept_in=run.precision):
            # `new_mems` has the input of each layer: the embeddings, then the outputs of all layers
            # but the last one, whose output is `sequence`.
            found = modeling.transformer_xl(
                loaded.config,
                run,
                input_ids=ids,
                seg_ids=segments,
                mask=masked,
                attn_type=loaded.attn_type,
            )
        # A session computes only the layers that a call fetches.
        outputs = {}
        for layer, sequence in enumerate([*found.new_mems, found.sequence]):
            outputs[str(layer)] = tf.cast(sequence, tf.float32)
        return inputs, outputs
