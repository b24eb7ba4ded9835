"""Incremental decoding: the network reads a few tokens at a time and caches their keys and values,
so the cost of a token does not grow with the number of tokens before it.

Masks and distances are inputs of each step; nothing here knows about positions or orders. All
tokens are in one segment, whose term softmax ignores.

Shape letters: B texts, T tokens that a step reads, P blanks to predict, S slots of the cache, L
layers, N heads, H d_head, D d_model, V vocabulary. The rows of a step are its tokens, then its
blanks: T + P, of which it predicts W.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.model import heads, modeling
from xlnet.model.kernels import Mask, Stream, Weights, additive_mask, gather_keys
from xlnet.model.ops import Tensors, dense, shape_of, split_heads
from xlnet.model.parameters import LayerContext, layer_weights
from xlnet.settings.network import RunConfig, XLNetConfig


def incremental_network(
    config: XLNetConfig, run_config: RunConfig, has_queries: bool
) -> tuple[Tensors, dict[str, Any]]:
    """Builds the graph for incremental decoding, variables in scopes `transformer` and `lm_loss`.

    Args:
      config: the architecture.
      run_config: how the network is run, without training.
      has_queries: whether blanks can be predicted; a causal network has no learned vector with
        which their queries begin.

    Returns:
      (placeholders, outputs), each by name. The placeholders of a step:
        ids: int32 [B,T], the tokens.
        num_blanks: int32 scalar, P; not read without `has_queries`.
        first_slot: int32 scalar; the tokens take slots first_slot to first_slot + T - 1.
        hidden: bool [B or 1,T+P,S], True where a row may not see a slot.
        distances: int32 [T+P,S], how far the slot's token is to the left of the row, from -S+1 to
          S; any number of this range where masked.
        predicted_rows: int32 [W], the rows to predict.
      The outputs of a step:
        log_probabilities: float32 [B,W,V], for these rows: for a blank, of the token there;
          for a token, of the next one. Computing them writes the tokens into their slots.
        attention/i: of layer i float32 [B,N,T+P,S], the attention probabilities.
      And two operations, each with a placeholder:
        clear: sets S to `size`, an int32 scalar, and B to 1, with empty slots.
        select: copies the slots of text `parents[b]`, int32 [B], to text b.
    """
    net = LayerContext(config, run_config, seed=None)
    inputs = {
        "ids": tf.placeholder(tf.int32, [None, None]),
        "num_blanks": tf.placeholder(tf.int32, []),
        "first_slot": tf.placeholder(tf.int32, []),
        "hidden": tf.placeholder(tf.bool, [None, None, None]),
        "distances": tf.placeholder(tf.int32, [None, None]),
        "predicted_rows": tf.placeholder(tf.int32, [None]),
        "size": tf.placeholder(tf.int32, []),
        "parents": tf.placeholder(tf.int32, [None]),
    }
    outputs: dict[str, Any] = {}
    clears, selects = [], []  # the assignments of both operations
    empty = tf.zeros([1, config.n_head, inputs["size"], config.d_head], net.dtype)
    with tf.variable_scope("transformer"):
        # `embed` reads only the shape [B,P]: all blanks begin with the same vector.
        blanks = tf.zeros([tf.shape(inputs["ids"])[0], inputs["num_blanks"]], tf.int32)
        query = modeling.Query(positions=blanks) if has_queries else None
        table, h, g = modeling.embed(net, inputs["ids"], query)
        # Tokens and queries are rows of one tensor. They differ in their masks, and only keys and
        # values of tokens are kept.
        x = h if g is None else tf.concat([h, g], axis=1)  # [B,T+P,D]
        # Of the distances from S to -S+1, as if S slots were a sequence without memory.
        sinusoids = modeling.sinusoids_of(net, inputs["size"], 0, "bi")
        for layer, weights in enumerate(layer_weights(net, has_segments=False)):
            # What is kept between steps: keys and values of the tokens, [B,N,S,H], and keys of the
            # distances, [1,N,2S,H].
            keys = _slots(net, f"keys_{layer}")
            values = _slots(net, f"values_{layer}")
            distance_keys = _slots(net, f"distance_keys_{layer}")
            projected = modeling.position_keys(net, weights.r, sinusoids)
            clears.append(keys.assign(empty, read_value=False))
            clears.append(values.assign(empty, read_value=False))
            clears.append(distance_keys.assign(projected, read_value=False))
            for slots in (keys, values):
                selected = tf.gather(slots, inputs["parents"])
                selects.append(slots.assign(selected, read_value=False))
            x, probabilities = _layer(
                net, weights, x, keys, values, distance_keys, inputs
            )
            outputs[f"attention/{layer}"] = probabilities
        # Only the predicted rows are multiplied by the embedding table, which is large.
        x = tf.cast(tf.gather(x, inputs["predicted_rows"], axis=1), tf.float32)
    # [B,W,V] of x [B,W,D]
    logits = heads.lm_logits(x, table, str(run_config.precision))
    outputs["log_probabilities"] = tf.nn.log_softmax(logits)
    outputs["clear"], outputs["select"] = tf.group(*clears), tf.group(*selects)
    return inputs, outputs


def _slots(net: LayerContext, name: str) -> tf.Variable:
    """A variable for keys or values that are kept between steps: [B,N,S,H] or [1,N,2S,H], where B
    and S may change from one assignment to the next. Local: checkpoints do not have it."""
    config = net.config
    # The initial sizes have no meaning: the operation `clear` sets them.
    return tf.Variable(
        tf.zeros([1, config.n_head, 1, config.d_head], net.dtype),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
        name=name,
        shape=tf.TensorShape([None, config.n_head, None, config.d_head]),
    )


def _layer(
    net: LayerContext,
    weights: Weights,
    x: tf.Tensor,
    keys: tf.Variable,
    values: tf.Variable,
    distance_keys: tf.Variable,
    inputs: Tensors,
) -> tuple[tf.Tensor, tf.Tensor]:
    """One layer of a step, which also writes its tokens into the slots.

    Args:
      net: precision and sizes.
      weights: of the layer.
      x: the rows of the step, [B,T+P,D].
      keys: the layer's slots of the tokens' keys, [B,N,S,H].
      values: the layer's slots of the tokens' values, [B,N,S,H].
      distance_keys: the keys of the distances from S to -S+1, [1,N,2S,H].
      inputs: the placeholders of `incremental_network`.

    Returns:
      The rows of the next layer, [B,T+P,D], and the attention probabilities [B,N,T+P,S].
    """
    n_head, first_slot = net.config.n_head, inputs["first_slot"]
    tokens = x[:, : tf.shape(inputs["ids"])[1]]  # [B,T,D]
    new_keys = split_heads(dense(tokens, weights.k), n_head)  # [B,N,T,H]
    new_values = split_heads(dense(tokens, weights.v), n_head)
    k = _write(keys, new_keys, first_slot)
    v = _write(values, new_values, first_slot)
    q = split_heads(dense(x, weights.q), n_head)  # [B,N,T+P,H]
    by_distance = modeling.scores_by_distance(q, distance_keys, weights)  # [B,N,T+P,2S]
    # Slots are in the order of reading, not of the text, so the distance of each to a row is an
    # input. The distances fall from S, so distance d has the index S - d.
    num_slots = shape_of(k)[2]
    index = num_slots - inputs["distances"]  # [T+P,S]
    by_key = gather_keys(by_distance, index[None])  # [B,N,T+P,S]
    scores = modeling.relative_scores(q, k, by_key, weights, Stream())  # no segments
    mask = additive_mask(Mask(masked=inputs["hidden"]))
    probabilities = modeling.masked_softmax(scores, mask)
    attended = tf.matmul(net.cast(probabilities), v)
    return modeling.after_attention(net, weights, x, attended), probabilities


def _write(slots: tf.Variable, new: tf.Tensor, first_slot: tf.Tensor) -> tf.Tensor:
    """Writes new [B,N,T,H] into slots from `first_slot` on; returns all slots, [B,N,S,H]."""
    texts, _, count, _ = shape_of(new)
    # The write comes before any read, so that it can be done in place. `:texts` are all rows.
    write = slots[:texts, :, first_slot : first_slot + count].assign(new)
    with tf.control_dependencies([write]):
        return slots.read_value()
