"""The XLNet network: a Transformer-XL with two-stream relative attention (paper, section 2).

In the order of the paper: what a position may see, how far away it is, attention, the layer with
its two streams, the stack with memory. The tuned form of attention, for all devices, is in
`kernels_tuned`; the weights are in `parameters`, the summary and the losses in `heads`.

Shape letters: B batch, Q positions of the sequence, M remembered positions, K = M + Q keys,
P target positions, T query positions of a stream (Q or P), R = K + Q relative distances (K + 1 of
"uni"), D d_model, N heads, H d_head, F d_inner, S segment ids, V vocabulary, L layers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from xlnet.network import ops, parameters
from xlnet.network.kernels import (
    NO_DROPOUT,
    Biases,
    Dropout,
    Kernels,
    Keys,
    Mask,
    dropout,
    feed_forward,
    layer_norm,
    mask_of,
    relative_shift,
)
from xlnet.network.ops import count_to, dense, shape_of, split_heads
from xlnet.network.parameters import LayerContext, Weights, get_initializer, get_weight
from xlnet.network.stateless_random import fold_in
from xlnet.settings.network import RunConfig, XLNetConfig

NUM_SEGMENTS = 8  # segment ids are 0 ... 7; released models use 0 to 4


# ---- what a position may see (paper, section 2.3) ----


def permutation_mask(rank: tf.Tensor, is_target: tf.Tensor) -> tf.Tensor:
    """The mask of both streams from ranks in the factorization order.

    The query stream has it as it is; in the content stream each position also sees itself.

    rank: int [B,Q], -1 for tokens that all positions may see. is_target: bool [B,Q], the predicted
    tokens. Returns bool [B,Q,Q], True where i may not see j:
    `rank[i] + (0 if target else 1) <= rank[j]`. So a target sees neither itself nor later tokens;
    any other token sees itself.

    For the order 2, 0, 1 of three targets, rank = [1, 2, 0]: token 2 comes first and sees none of
    the three, token 0 sees token 2, token 1 sees both.
    """
    self_rank = rank + 1 - tf.cast(is_target, rank.dtype)
    return self_rank[:, :, None] <= rank[:, None, :]


def _over_keys(mask, length, memory_length, attn_type, same_length):
    """Extends `mask` [B or 1,Q or 1,Q] to the keys, [B or 1,Q or 1,K]. All of memory is visible;
    "uni" masks later keys and, with `same_length`, keys further than M away."""
    if attn_type not in ("bi", "uni"):
        raise ValueError(f"attn_type is {attn_type!r}, expected bi or uni")
    if mask is not None:
        mask = tf.pad(mask, [[0, 0], [0, 0], [memory_length, 0]])  # pads False
    if attn_type == "bi":
        return mask
    position, key = _positions(length, memory_length)
    causal = key > position
    if same_length:
        causal |= key < position - tf.cast(memory_length, tf.int64)
    return causal[None] if mask is None else mask | causal[None]


def _positions(length, memory_length):
    """The index of each position among the keys, int64 [Q,1], and of the keys, [1,K]."""
    position = count_to(length, tf.int64)[:, None] + tf.cast(memory_length, tf.int64)
    return position, count_to(memory_length + length, tf.int64)[None, :]


# ---- how far away it is (Transformer-XL, section 3.3) ----


def sinusoids_of(
    net: LayerContext, batch: Any, length: Any, memory_length: Any, attn_type: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """The sine and the cosine half of the encodings of all distances, from K down to -Q+1 ("bi") or
    to 0 ("uni"), clipped to ±clamp_len if > 0: [1,R,D/2] each, [B,R,D/2] with dropout.

    Computed in float32: bfloat16 cannot tell large distances apart.
    """
    halves, first, clamp_len = net.config.d_model // 2, memory_length + length, net.run.clamp_len
    frequencies = 1.0 / 10000.0 ** (2.0 * count_to(halves, tf.float32) / net.config.d_model)
    distances = tf.cast(first, tf.float32) - count_to(  # [R]
        first + (1 if attn_type == "uni" else length), tf.float32
    )
    if clamp_len > 0:
        distances = tf.clip_by_value(distances, -clamp_len, clamp_len)
    angles = distances[:, None] * frequencies[None, :]  # [R,D/2]
    sine, cosine = net.cast(tf.sin(angles))[None], net.cast(tf.cos(angles))[None]
    if net.run.position_dropout == "row" and net.run.is_training:  # as in the published code
        sine, cosine = (
            net.dropout(tf.tile(half, [batch, 1, 1]), net.run.dropout) for half in (sine, cosine)
        )
    return sine, cosine


def position_keys(
    net: LayerContext,
    kernel: tf.Tensor,
    sinusoids: tuple[tf.Tensor, tf.Tensor],
    sign: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """Projects the sinusoids by kernel [D,N*H]: [B or 1,N,R,H].

    sign: [B,1,1,1], -1 where the text runs backward. Its distances are negated; the cosine is even
    and the sine odd, so the sine half changes its sign, and both directions share the projection.
    """
    sine, cosine = (
        split_heads(dense(half, part), net.config.n_head)
        for half, part in zip(sinusoids, tf.split(kernel, 2, axis=0))
    )
    return cosine + (sine if sign is None else sign * sine)


# ---- attention (section 2.5; Transformer-XL, section 3.3) ----


def relative_attention(
    q: tf.Tensor,
    keys: Keys,
    biases: Biases,
    mask: Optional[Mask] = None,
    segments: Optional[tf.Tensor] = None,
    first_distance: Optional[tf.Tensor] = None,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """Attention with relative positions and segments (paper, section 2.5, appendix A.2):

        softmax(scores + mask) v,    with dropout of the probabilities: [B,N,T,H]

    Args:
      q: [B,N,T,H].
      mask: None: every query sees every key. A query that sees no key gets zeros.
      segments: [B,1,T,S] one-hot, of the queries; or None.
      first_distance: int [B,T], the index of the distance between each query and the first key.
        None: the queries are the complete sequence, Q - i for query i.
    """
    probabilities = attention_probabilities(q, keys, biases, mask, segments, first_distance)
    return tf.matmul(dropout(tf.cast(probabilities, q.dtype), drops), keys.v)


def attention_probabilities(
    q: tf.Tensor,
    keys: Keys,
    biases: Biases,
    mask: Optional[Mask],
    segments: Optional[tf.Tensor] = None,
    first_distance: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """The probabilities of `relative_attention`, float32 [B,N,T,K]."""
    scores = relative_scores(
        q,
        keys,
        biases,
        segments,
        shift=lambda by_distance: relative_shift(by_distance, shape_of(keys.k)[2], first_distance),
    )
    return masked_softmax(scores, mask)


def relative_scores(
    q: tf.Tensor,
    keys: Keys,
    biases: Biases,
    segments: Optional[tf.Tensor],
    shift: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """The score of query i for key j, at the distance i - j: float32 [B,N,T,K].

        ((q_i + r_w) · k_j  +  (q_i + r_r) · k_r[i - j]  +  (q_i + r_s) · seg[i, j]) / sqrt(H)

    that is what key j holds, how far away it is, and whether it is in the same segment
    (Transformer-XL, section 3.3; paper, section 2.5). The position term is computed for all R
    distances, then shifted.

    Args as in `relative_attention`; shift: function from scores by distance [B,N,T,R] to scores by
    key [B,N,T,K].
    """
    # What the key holds.
    scores = tf.matmul(q + biases.r_w, keys.k, transpose_b=True)  # [B,N,T,K]
    # How far away it is.
    if keys.k_r.shape[0] == 1:  # a matmul does not broadcast: see `ops.repeated`
        by_distance = tf.einsum("bnth,nrh->bntr", q + biases.r_r, keys.k_r[0])  # [B,N,T,R]
    else:
        by_distance = tf.matmul(q + biases.r_r, keys.k_r, transpose_b=True)
    scores += shift(by_distance)
    # Whether it is in the same segment: one of two numbers of each query.
    if segments is not None:
        same, other = (
            tf.reduce_sum((q + biases.r_s) * vector, axis=-1, keepdims=True)
            for vector in tf.unstack(biases.seg_embed)
        )  # [B,N,T,1]
        scores += tf.where_v2(tf.matmul(segments, keys.segments, transpose_b=True) > 0, same, other)
    return tf.cast(scores, tf.float32) / math.sqrt(shape_of(q)[3])


def masked_softmax(scores: tf.Tensor, mask: Optional[Mask]) -> tf.Tensor:
    """Probabilities of the visible keys, float32 [B,N,T,K]. A query that sees no key gets zeros; in
    the original implementation it attends equally to all keys."""
    if mask is None:
        return tf.nn.softmax(scores)
    probabilities = tf.nn.softmax(scores + mask.bias)
    return probabilities if mask.has_visible_key is None else probabilities * mask.has_visible_key


# ---- a layer of both streams ----


class Stream(NamedTuple):
    """What the content and the query stream do not share. mask, segments, first_distance: as in
    `relative_attention`. weights: [B,T], 0 switches attention off, or None."""

    mask: Optional[Mask]
    segments: Optional[tf.Tensor]
    first_distance: Optional[tf.Tensor] = None
    weights: Optional[tf.Tensor] = None


class Shared(NamedTuple):
    """What all layers share: sinusoids and sign, as in `position_keys`; key_segments, one-hot
    [B,1,K,S] or None; the content stream; the query stream, or None without one."""

    sinusoids: tuple[tf.Tensor, tf.Tensor]
    sign: Optional[tf.Tensor]
    key_segments: Optional[tf.Tensor]
    content: Stream
    query: Optional[Stream]


def two_streams(
    net: LayerContext,
    weights: Weights,
    h: tf.Tensor,
    g: Optional[tf.Tensor],
    memory: Optional[tf.Tensor],
    shared: Shared,
    is_last_layer: bool,
    with_attention: bool,
) -> list[tf.Tensor]:
    """One layer of both streams (paper, section 2.3): the same weights and the same keys, but h
    sees its own token and g does not. Without g it is a layer of Transformer-XL.

    h: the content stream [B,Q,D]; g: the query stream [B,P,D] or None; memory: [B,M,D] or None.
    is_last_layer: no layer follows, so h is not computed if there is a g: nothing would read it.

    Returns h and g of the next layer, those that exist; then, `with_attention`, the probabilities
    of the last of them, float32 [B,N,T,K].
    """

    def project(kernel):
        """The keys or values of [memory, h]; no gradient reaches the memory."""
        projected = dense(h, kernel)
        if memory is not None:
            projected = tf.concat([dense(tf.stop_gradient(net.cast(memory)), kernel), projected], 1)
        return split_heads(projected, net.config.n_head)  # [B,N,K,H]

    keys = Keys(
        project(weights.k),
        project(weights.v),
        position_keys(net, weights.r, shared.sinusoids, shared.sign),
        shared.key_segments,
    )
    streams = []
    if g is None or not is_last_layer:
        x, probabilities = layer(net, weights, h, keys, shared.content, with_attention)
        streams.append(x)
    if g is not None and shared.query is not None:
        x, probabilities = layer(net, weights, g, keys, shared.query, with_attention)
        streams.append(x)
    return [*streams, probabilities] if with_attention else streams


def layer(
    net: LayerContext,
    weights: Weights,
    x: tf.Tensor,
    keys: Keys,
    stream: Stream,
    with_attention: bool,
) -> tuple[tf.Tensor, Optional[tf.Tensor]]:
    """Attention, then the feed-forward layer, each added to its input and normalized: [B,T,D]; and
    the probabilities if `with_attention`. All forms of attention compute what
    `relative_attention` says."""
    q = split_heads(dense(x, weights.q), net.config.n_head)  # [B,N,T,H]
    inputs = q, keys, weights.biases, stream.mask, stream.segments, stream.first_distance
    if with_attention:  # tuned forms do not have the probabilities as one tensor
        probabilities = attention_probabilities(*inputs)
        heads = tf.matmul(net.cast(probabilities), keys.v)
    else:
        probabilities = None
        heads = net.kernels.relative_attention(*inputs, net.next_dropout(net.run.dropatt))
    if stream.weights is not None:
        heads *= net.cast(stream.weights)[:, None, :, None]
    return after_attention(net, weights, x, heads), probabilities


def after_attention(
    net: LayerContext, weights: Weights, x: tf.Tensor, heads: tf.Tensor
) -> tf.Tensor:
    """The rest of `layer`: x [B,T,D] and the output of attention, heads [B,N,T,H] -> [B,T,D]."""
    run, kernels = net.run, net.kernels
    attended = net.dropout(ops.dense_back(ops.merge_heads(heads), weights.o), run.dropout)
    x = kernels.layer_norm(x + attended, *weights.attention_norm)
    fed = net.dropout(
        kernels.feed_forward(
            x, weights.inner, weights.outer, net.config.ff_activation, net.next_dropout(run.dropout)
        ),
        run.dropout,
    )
    return kernels.layer_norm(x + fed, *weights.feed_forward_norm)


# ---- the stack, with memory (Transformer-XL, section 3.2) ----


class Query(NamedTuple):
    """The query stream. positions: int [B,P], what each target position predicts; weights: float32
    [B,P], 0 switches its attention off. With `positions` None every position has a query (P = Q),
    and masked, float32 [B,Q], says which of them hide their token."""

    positions: Optional[tf.Tensor] = None
    weights: Optional[tf.Tensor] = None
    masked: Optional[tf.Tensor] = None


class Outputs(NamedTuple):
    """sequence: float32 [B,P,D] of the query stream if there is one, else [B,Q,D] of the content
    stream. new_mems: over layers [B,M',D] in the dtype of the matmuls, or None. embedding_table:
    [V,D]. attention: if asked for, over layers this stream's probabilities, float32 [B,N,T,K]."""

    sequence: tf.Tensor
    new_mems: Any
    embedding_table: tf.Tensor
    attention: Sequence[tf.Tensor] = ()


def transformer_xl(
    config: XLNetConfig,
    run: RunConfig,
    *,
    input_ids: tf.Tensor,
    seg_ids: Optional[tf.Tensor] = None,
    direction: Optional[tf.Tensor] = None,
    mask: Optional[tf.Tensor] = None,
    mems: Optional[Sequence[tf.Tensor]] = None,
    query: Optional[Query] = None,
    attn_type: str = "bi",
    seed: Optional[tf.Tensor] = None,
    first_row: Optional[tf.Tensor] = None,
    token_scale: Optional[tf.Tensor] = None,
    with_attention: bool = False,
) -> Outputs:
    """Runs the network in variable scope `transformer`.

    Args:
      run: its `bi_data` is not read, see `direction`.
      input_ids: int32 or int64 [B,Q], as are all integers; int64 stays on a GPU, int32 does not.
      seg_ids: int [B,Q], 0 <= id < NUM_SEGMENTS; memory counts as segment 0. None: no segments.
      direction: int [B], 1 where the text runs backward. None: all forward.
      mask: bool [B or 1,Q or 1,Q], True where i may not see j. The content stream sees itself all
        the same; a query that sees nothing attends to nothing.
      mems: per layer [B,M,D], the memory of earlier sequences, visible, without gradients. None:
        M = 0.
      query: `Query`, or None for the content stream alone.
      attn_type: "bi", or "uni" for the causal Transformer-XL.
      seed: of dropout in training, uint64 [1], see `stateless_random`.
      first_row: an int or a scalar, the index of batch element 0 in the global batch, so that a
        micro-batch has the dropout masks of its part. None: batch elements have no index.
      token_scale: float32 [B,Q], factors of the tokens' embeddings; None: all 1.
      with_attention: whether to return the attention probabilities; for inference.
    """
    net = LayerContext(config, run, seed, first_row)
    with tf.variable_scope("transformer"):
        batch, length = shape_of(input_ids)
        memory_length = shape_of(mems[0])[1] if mems else 0

        # The two streams begin: h from the tokens, g from one learned vector.
        table, h, g = embed(net, input_ids, query)
        h = h if token_scale is None else h * net.cast(token_scale)[:, :, None]
        h, g = (x if x is None else net.dropout(x, run.dropout) for x in (h, g))

        # What each position may see, and how far away it is: the same in all layers.
        content, query_stream, key_segments = _streams(
            net,
            _over_keys(mask, length, memory_length, attn_type, run.same_length),
            seg_ids,
            query,
            length,
            memory_length,
        )
        # A target position reads its distances from an index of its own: those to both sides.
        has_targets = query is not None and query.positions is not None
        sinusoids = sinusoids_of(
            net, batch, length, memory_length, "bi" if has_targets else attn_type
        )
        sign = None if direction is None else net.cast(1 - 2 * direction)[:, None, None, None]
        shared = Shared(sinusoids, sign, key_segments, content, query_stream)

        # A layer is `two_streams`. It reads no variables, so it can run again in the backward pass,
        # and be traced once for all layers; not for XLA, which takes all inputs of a function for
        # constants if shapes go from it to its gradient, and would compile for each batch.
        def one_layer(seed, first_row, *inputs):
            return two_streams(LayerContext(config, net.run, seed, first_row), *inputs)

        if run.is_training and run.recompute:
            one_layer = functools.partial(ops.recomputed, one_layer)
        if run.traced_once and net.run.device != "xla":
            one_layer = ops.traced_once(one_layer)

        # The layers. What is remembered is a layer's input: the next sequence sees it there.
        weights, new_mems, attention = parameters.layer_weights(net, seg_ids is not None), [], []
        for i in range(config.n_layer):
            memory = mems[i] if mems else None
            new_mems.append(update_memory(h, memory, run.mem_len, run.reuse_len))
            streams = one_layer(
                None if seed is None else fold_in(seed, -1 - i),
                first_row,
                weights(i),
                h,
                g,
                memory,
                shared,
                i == config.n_layer - 1,
                with_attention,
            )
            if with_attention:
                attention.append(streams.pop())
            # [h, g], or the one that exists: [h] without queries, [g] of the last layer with them.
            h, g = streams[0], None if g is None else streams[-1]

        # The output is the query stream's, or without one the content stream's.
        sequence = tf.cast(net.dropout(streams[-1], run.dropout), tf.float32)
    return Outputs(sequence, new_mems if run.mem_len else None, table, attention)


def embed(
    net: LayerContext, input_ids: tf.Tensor, query: Optional[Query]
) -> tuple[tf.Tensor, tf.Tensor, Optional[tf.Tensor]]:
    """The table [V,D], the beginning h [B,Q,D] of the content stream, and g [B,P,D] of the query
    stream or None: one learned vector for all targets, as a target must not see its own token."""
    config = net.config
    with tf.variable_scope("word_embedding"):
        table = get_weight(
            "lookup_table", [config.n_token, config.d_model], get_initializer(net.run)
        )
    h = net.cast(ops.lookup(table, input_ids))
    if query is None:
        return table, h, None
    with tf.variable_scope("mask_emb"):
        mask_embedding = net.variable("mask_emb", [1, 1, config.d_model])
    if query.positions is None:
        masked = net.cast(query.masked)[:, :, None]
        return table, h, masked * mask_embedding + (1.0 - masked) * h
    batch, target_count = shape_of(query.positions)
    return table, h, tf.broadcast_to(mask_embedding, [batch, target_count, config.d_model])


def _streams(net, mask, seg_ids, query, length, memory_length):
    """The content `Stream`, the query `Stream` or None, and the segments of the keys or None."""
    segments = key_segments = None
    if seg_ids is not None:  # memory counts as segment 0
        of_memory = tf.zeros([shape_of(seg_ids)[0], memory_length], seg_ids.dtype)
        key_ids = tf.concat([of_memory, seg_ids], axis=1)  # [B,K]
        segments, key_segments = (
            tf.one_hot(ids, NUM_SEGMENTS, dtype=net.dtype)[:, None] for ids in (seg_ids, key_ids)
        )
    content = Stream(None, segments)
    if mask is not None:  # the content stream sees its own token, too
        position, key = _positions(length, memory_length)
        content = Stream(
            mask_of(mask & tf.not_equal(key, position), may_see_nothing=False), segments
        )
    if query is None:
        return content, None, key_segments
    first_distance = None
    if query.positions is not None:  # of all rows, those of the target positions
        # Key 0 is d = M + i away from position i, and d has index K - d of R: that is Q - i.
        first_distance = tf.cast(length, query.positions.dtype) - query.positions
        mask = None if mask is None else _rows_at(mask, query.positions)
        if segments is not None:
            segments = _rows_at(segments[:, 0], query.positions)[:, None]  # [B,1,P,S]
    return (
        content,
        Stream(None if mask is None else mask_of(mask), segments, first_distance, query.weights),
        key_segments,
    )


def _rows_at(x, positions):
    """Rows `positions` [B,P] of x [B or 1,Q or 1,...]: [B,P or 1,...]."""
    x = tf.broadcast_to(x, tf.concat([[shape_of(positions)[0]], tf.shape(x)[1:]], axis=0))
    return x if x.shape[1] == 1 else tf.gather(x, positions, batch_dims=1)


def update_memory(
    h: tf.Tensor, memory: Optional[tf.Tensor], mem_len: Optional[int], reuse_len: Optional[int]
) -> Optional[tf.Tensor]:
    """The memory for the next sequence.

    The first `reuse_len` positions of the layer's input h [B,Q,D] (None: all) follow the old memory
    [B,M,D]; the last `mem_len` are kept, as numbers without gradient. None if `mem_len` is.
    """
    if not mem_len:
        return None
    # The rest of a sequence, after its `reuse_len` positions, is not what the next one continues.
    new = h[:, :reuse_len] if reuse_len else h
    if memory is not None:
        new = tf.concat([tf.cast(memory, h.dtype), new], axis=1)
    # A gradient would need the activations of all earlier sequences.
    return tf.stop_gradient(new[:, -mem_len:])


PLAIN = Kernels(relative_attention, feed_forward, layer_norm, dropout)
