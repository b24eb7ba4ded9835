"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: B batch, T tokens, D d_model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    pair,
    require_known,
)
from xlnet.inference.settings import VectorSettings, from_keywords
from xlnet.model import modeling, parameters
from xlnet.model.ops import Tensors
from xlnet.support.errors import require_finite, wrong
from xlnet.tasks import encoding
from xlnet.tasks.encoding import IDS, Padding, batches_by_length

_UNLIMITED = 1 << 30  # a memory of this length keeps every position


class Vectors(Method):
    """Computes the vector of each text or pair, float32 [D], or [T,D] with pooling "none".

    Args:
      settings: those of `VectorSettings`.
    """

    def __init__(self, model: RestoredModel, /, **settings: Any) -> None:
        asked, n_layer = from_keywords(VectorSettings, settings), model.n_layer
        layer = asked.layer
        if not -n_layer - 1 <= layer <= n_layer:
            raise wrong("layer", layer, f"a number from {-n_layer - 1} to {n_layer}")
        self._model, self._pooling = model, asked.pooling
        # The name of an output of the subgraph (`_build`): "0" the embeddings, "1" to "n_layer" the
        # layers. A negative number counts from the end.
        self._layer = str(layer % (n_layer + 1))
        # A long text is cut as the model's task cuts it; where the task reads it in windows, the
        # end of the text is cut.
        tuned = model.loaded.tuned
        self._layout = tuned.layout if tuned else encoding.Layout(model.max_seq_length)
        # A model runs on one device, with one batch at a time: there is one copy.
        self._subgraph = model.session.copies("vectors", self._build)[0]
        self.at_once = model.at_once

    def prepare(self, item: Any) -> tuple[str, str | None]:
        """A text or a pair (text, second text or None), as the task reads it."""
        first, second = pair(item)
        # A question and its context are read the other way round.
        if self._model.verb == "answer" and second is not None:
            first, second = second, first
        published = self._model.published
        first = published.replaced(first)
        if second is not None:
            second = published.replaced(second)
        require_known(self._model.tokenizer, (first, second))
        return first, second

    def compute(self, items: list[tuple[str, str | None]]) -> list[Computed]:
        """The vector of each text or pair, in their order."""
        # Each item is a row of one pair, and has one record, as long texts are cut.
        tokenizer, length = self._model.tokenizer, self._layout.max_seq_length
        rows = [(item,) for item in items]
        labels = np.zeros(len(items), np.int32)  # records need some; not used
        records, _, counts = encoding.encode_pairs(
            rows, labels, tokenizer, self._layout
        )
        self._model.note_cut(counts.is_cut, length)
        computed: list[Any] = [None] * len(items)
        # Batches come in the order of length; their `index` is that of the items.
        for batch in batches_by_length(
            records,
            length,
            Padding(),
            self._model.batch_size,
            self._model.most_tokens,
        ):
            outputs = self._subgraph.compute([self._layer], batch)
            for number, states, is_padding in zip(
                batch["index"], outputs[self._layer], batch["input_mask"]
            ):  # states: [T,D]
                vector = self._pooled(states[is_padding < 1])
                read, total = counts.read[number], counts.total[number]
                computed[number] = Computed(vector, read, total)
        return computed

    def _pooled(self, states: np.ndarray) -> np.ndarray:
        """The result for a text, [D] or [T,D], of the hidden states [T,D] of its tokens; UserError
        if it is not finite."""
        pooled = states  # "none"
        if self._pooling == "mean":
            pooled = states.mean(axis=0)
        elif self._pooling == "first":
            pooled = states[0]
        elif self._pooling == "last":
            pooled = states[-1]
        require_finite(pooled)
        return pooled

    def _build(self) -> tuple[Tensors, Tensors]:
        """Builds the part of the graph that computes vectors.

        Returns:
          (placeholders [B,T] by their names in `IDS`; float32 [B,T,D] by name: "0" the embeddings,
          "1" to "n_layer" the output of each layer).
        """
        loaded = self._model.loaded
        inputs = {}
        for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32)):
            inputs[name] = tf.placeholder(dtype, [None, None], "texts/" + name)
        ids, padding, segments = inputs.values()
        # No position sees padding: [B,1,T]. Some causal networks see a limited number of tokens
        # before their own: [B,T,T].
        masked = padding[:, None] > 0
        if loaded.tokens_before is not None:
            position = tf.range(tf.shape(padding)[1])
            masked |= position[:, None] - position > loaded.tokens_before
        run_config = loaded.network.run_config(is_training=False, mem_len=_UNLIMITED)
        with parameters.model_scope(kept_in=run_config.precision):
            network = modeling.transformer_xl(
                loaded.config,
                run_config,
                input_ids=ids,
                seg_ids=segments,
                mask=masked,
                attn_type=loaded.attn_type,
            )
        # `new_mems` has what the network would remember, the input of each layer: the embeddings,
        # then the outputs of all layers but the last one, whose output is `sequence`. A session
        # computes only the layers that a call fetches.
        outputs = {}
        for layer, states in enumerate([*network.new_mems, network.sequence]):
            outputs[str(layer)] = tf.cast(states, tf.float32)
        return inputs, outputs
