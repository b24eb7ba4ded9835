"""Incremental decoding: the network reads a few tokens at a time and caches their keys and values,
so the cost of a token does not grow with the number of tokens before it.

Masks and distances are inputs of each step; nothing here knows about positions or orders. All
tokens are in one segment, whose term softmax ignores.

Shape letters as in `modeling`, but for T, the tokens that a step reads, and S, the slots of the
cache. P are blanks to predict. The rows of a step are its tokens, then its blanks: T + P, of which
it predicts W. B are texts.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from xlnet.model import heads, modeling
from xlnet.model.kernels import Mask, Stream, Weights, additive_mask, gather_keys
from xlnet.model.modeling import (
    masked_softmax,
    relative_scores,
    scores_by_distance,
)
from xlnet.model.ops import dense, shape_of, split_heads
from xlnet.model.parameters import LayerContext, layer_weights
from xlnet.settings.network import RunConfig, XLNetConfig


class Inputs(NamedTuple):
    """Placeholders of a step.

    ids: int32 [B,T], the tokens.
    asked: int32 scalar, P.
    first_slot: int32 scalar; the tokens take slots first_slot to first_slot + T - 1.
    hidden: bool [B or 1,T+P,S], True where a row may not see a slot.
    distances: int32 [T+P,S], how far the slot's token is to the left of the row, from -S+1 to S;
      any number where masked.
    wanted: int32 [W], the rows to predict.
    """

    ids: tf.Tensor
    asked: tf.Tensor
    first_slot: tf.Tensor
    hidden: tf.Tensor
    distances: tf.Tensor
    wanted: tf.Tensor


class _Kept(NamedTuple):
    """What is kept of a layer. keys, values: [B,N,S,H], of the tokens. distance_keys: [1,N,2S,H],
    of the distances from S to -S+1."""

    keys: tf.Variable
    values: tf.Variable
    distance_keys: tf.Variable


class IncrementalNetwork:
    """The graph for incremental decoding, variables in scopes `transformer` and `lm_loss`.
    has_queries: whether blanks can be predicted; a causal network has no vector for them.

    Attributes:
      inputs: `Inputs` of a step.
      log_probabilities: float32 [B,W,V], for the wanted rows: for a blank, of the token there; for
        a token, of the next one. Computing them writes the tokens into their slots.
      attention: list over layers of float32 [B,N,T+P,S], the attention probabilities of a step.
      size: int32 scalar, S; the operation `clear` creates that many empty slots and resets B to 1.
      parents: int32 [B]; the operation `select` copies the slots of batch element parents[b] to b.
    """

    def __init__(self, config: XLNetConfig, run: RunConfig, has_queries: bool):
        self._net = LayerContext(config, run, seed=None)
        placeholder = lambda dtype, *shape: tf.placeholder(dtype, list(shape))
        self.inputs = Inputs(
            ids=placeholder(tf.int32, None, None),
            asked=placeholder(tf.int32),
            first_slot=placeholder(tf.int32),
            hidden=placeholder(tf.bool, None, None, None),
            distances=placeholder(tf.int32, None, None),
            wanted=placeholder(tf.int32, None),
        )
        self.size = placeholder(tf.int32)
        self.parents = placeholder(tf.int32, None)
        with tf.variable_scope("transformer"):
            sequence, table = self._build(has_queries)
        logits = heads.lm_logits(sequence, table, run.precision or "fp32")  # [B,W,V]
        self.log_probabilities = tf.nn.log_softmax(logits)
        selects = []
        for layer in self._layers:
            for slots in (layer.keys, layer.values):
                selected = tf.gather(slots, self.parents)
                selects.append(slots.assign(selected, read_value=False))
        self.select = tf.group(*selects)

    def _build(self, has_queries: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the wanted rows [B,W,D] and the embedding table [V,D]."""
        net, inputs = self._net, self.inputs
        # `embed` reads only the shape: all blanks begin with the same vector.
        blanks = tf.zeros([tf.shape(inputs.ids)[0], inputs.asked], tf.int32)  # [B,P]
        query = modeling.Query(positions=blanks) if has_queries else None
        table, h, g = modeling.embed(net, inputs.ids, query)
        # Tokens and queries are rows of one tensor. They differ in their masks, and only keys and
        # values of tokens are kept.
        x = h if g is None else tf.concat([h, g], axis=1)  # [B,T+P,D]
        self._layers, self.attention = [], []
        clears = []
        sinusoids = modeling.sinusoids_of(net, self.size, 0, "bi")
        for layer, weights in enumerate(layer_weights(net, has_segments=False)):
            kept = _Kept(*(self._slots(f"{name}_{layer}") for name in _Kept._fields))
            distance_keys = modeling.position_keys(net, weights.r, sinusoids)
            clears += [
                kept.keys.assign(self._empty(), read_value=False),
                kept.values.assign(self._empty(), read_value=False),
                kept.distance_keys.assign(distance_keys, read_value=False),
            ]
            self._layers.append(kept)
            x, probabilities = self._layer(weights, kept, x)
            self.attention.append(probabilities)
        self.clear = tf.group(*clears)
        wanted = tf.gather(x, inputs.wanted, axis=1)  # [B,W,D]
        return tf.cast(wanted, tf.float32), table

    def _slots(self, name: str) -> tf.Variable:
        """A local variable [*,N,*,H], whose size may change."""
        config = self._net.config
        return tf.Variable(
            tf.zeros([1, config.n_head, 1, config.d_head], self._net.dtype),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            name=name,
            shape=tf.TensorShape([None, config.n_head, None, config.d_head]),
        )

    def _empty(self) -> tf.Tensor:
        """Empty slots, [1,N,S,H]."""
        config = self._net.config
        return tf.zeros([1, config.n_head, self.size, config.d_head], self._net.dtype)

    def _layer(
        self, weights: Weights, kept: _Kept, x: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """x [B,T+P,D] -> the same of the next layer, attention probabilities [B,N,T+P,S]."""
        net, inputs, n_head = self._net, self.inputs, self._net.config.n_head
        tokens = x[:, : tf.shape(inputs.ids)[1]]  # [B,T,D]
        k = self._write(kept.keys, split_heads(dense(tokens, weights.k), n_head))
        v = self._write(kept.values, split_heads(dense(tokens, weights.v), n_head))
        # Slots are in the order of reading; the distance of each to a row is an input.
        q = split_heads(dense(x, weights.q), n_head)  # [B,N,T+P,H]
        index = shape_of(k)[2] - inputs.distances  # [T+P,S]
        by_distance = scores_by_distance(q, kept.distance_keys, weights)
        by_key = gather_keys(by_distance, index[None])
        scores = relative_scores(q, k, by_key, weights, Stream())
        mask = additive_mask(Mask(masked=inputs.hidden))
        probabilities = masked_softmax(scores, mask)
        attended = tf.matmul(net.cast(probabilities), v)
        return modeling.after_attention(net, weights, x, attended), probabilities

    def _write(self, slots: tf.Variable, new: tf.Tensor) -> tf.Tensor:
        """Writes new [B,N,T,H] into its slots; returns all slots, [B,N,S,H]."""
        first, texts = self.inputs.first_slot, shape_of(new)[0]
        # The write comes before any read, so that it can be done in place.
        write = slots[:texts, :, first : first + shape_of(new)[2]].assign(new)
        with tf.control_dependencies([write]):
            return slots.read_value()
