"""The XLNet network: a Transformer-XL with two-stream relative attention (paper, section 2).

In the order of the paper: who sees whom, how far away it is, attention, the layer with its two
streams, the stack with memory. This file is the specification. Runs compute attention in the form
that `attention_form` names; `parameters` reads the weights; the prediction of a token (paper,
equation 4) and other losses are in `heads`.

Shape letters: B batch, Q positions of the sequence, M remembered positions, K = M + Q keys,
P target positions, T query positions of a stream (Q or P), R = K + Q relative distances (K + 1 of
"uni"), D d_model, N heads, H d_head, F d_inner, S segment ids, V vocabulary, L layers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from xlnet.model import kernels_tpu, kernels_tuned, ops, parameters
from xlnet.model.kernels import (
    NO_DROPOUT,
    AdditiveMask,
    Dropout,
    Mask,
    Stream,
    Weights,
    additive_mask,
    dropout,
    relative_shift,
)
from xlnet.model.ops import count_to, dense, shape_of, split_heads
from xlnet.model.parameters import LayerContext, get_initializer, get_weight
from xlnet.model.stateless_random import fold_in
from xlnet.settings.network import RunConfig, XLNetConfig

# Lower than every rank of a sequence, so every position sees the memory.
RANK_OF_MEMORY = -(2**31)


# ---- who sees whom (paper, sections 2.2 and 2.3) ----


def permutation_mask(rank: tf.Tensor, is_target: tf.Tensor) -> Mask:
    """The mask of a factorization order z, the objective of which is (paper, equations 3 and 5):

        sum over the targets t of  log p(x_z[t] | x_z[1], ..., x_z[t - 1])

    so that position i sees j if j comes earlier: `rank[j] < rank[i] + (0 if target else 1)`. A
    target sees neither itself nor later tokens; any other token sees itself. The query stream has
    this mask as it is; in the content stream each position also sees itself.

    For the order 2, 0, 1 of three targets, rank = [1, 2, 0]: token 2 comes first and sees none of
    the three, token 0 sees token 2, token 1 sees both.

    Args:
      rank: int [B,Q], the place in the order. Tokens outside of the order have a rank that is lower
        than those of all positions that see them: see `corpus.permutation.Sampled`.
      is_target: bool [B,Q], the predicted tokens.

    Returns:
      A `Mask` by ranks, where query i sees key j if `key_rank[j] < query_rank[i]`. Queries and keys
      are the positions of the sequence, K = T = Q.
    """
    rank = tf.convert_to_tensor(rank)
    return Mask(key_rank=rank, query_rank=tf.where_v2(is_target, rank, rank + 1))


def with_memory(
    mask: Mask | None,
    own_key: tf.Tensor,
    memory_length: Any,
    attn_type: str,
    same_length: bool,
) -> Mask | None:
    """Extends a mask from the keys of the sequence to all K = M + Q keys, those of memory first.

    All of memory is visible. "uni" also masks, for each query, the keys after it and, with
    `same_length`, those more than M before it.

    Args:
      mask: over the sequence, by ranks or as `masked`; None: all see all.
      own_key: int [Q], the index of each position of the sequence among the keys: M + i.
      memory_length: M.
      attn_type: "bi" or "uni".
      same_length: as in `RunConfig`.

    Returns:
      The mask over the keys, of the same form, but always as `masked` for "uni". None: all see all.
    """
    if attn_type not in ("bi", "uni"):
        raise ValueError(f"attn_type is {attn_type!r}, expected bi or uni")
    if mask is not None and mask.masked is not None:
        # `tf.pad` adds False, which is visible, for the memory in front of the last axis.
        mask = Mask(masked=tf.pad(mask.masked, [[0, 0], [0, 0], [memory_length, 0]]))
    elif mask is not None:
        rank = tf.convert_to_tensor(mask.key_rank)  # [B or 1,Q]
        lowest = tf.constant(RANK_OF_MEMORY, rank.dtype)
        of_memory = tf.fill([shape_of(rank)[0], memory_length], lowest)
        mask = mask._replace(key_rank=tf.concat([of_memory, rank], axis=1))
    if attn_type == "bi":
        return mask

    own_key = own_key[:, None]  # [Q,1]
    num_keys = memory_length + shape_of(own_key)[0]
    key = count_to(num_keys, own_key.dtype)  # [K]
    masked = key > own_key  # [Q,K]
    if same_length:
        masked |= key < own_key - tf.cast(memory_length, own_key.dtype)
    masked = masked[None]  # [1,Q,K]
    if mask is not None:
        masked |= mask.dense()
    return Mask(masked=masked)


# ---- how far away it is (Transformer-XL, section 3.3) ----


def sinusoids_of(
    net: LayerContext, length: Any, memory_length: Any, attn_type: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """The sine and the cosine half of the encodings of all distances, from K down to -Q+1 ("bi") or
    to 0 ("uni"), clipped to ±clamp_len if `clamp_len` > 0: [1,R,D/2] each, in the dtype of the
    matmuls. Computed in float32: bfloat16 cannot tell large distances apart.

    Args:
      net: d_model, clamp_len and the dtype.
      length: Q, an int or a scalar.
      memory_length: M, an int or a scalar.
      attn_type: "bi" or "uni".
    """
    d_model, clamp_len = net.config.d_model, net.run_config.clamp_len
    # The distances fall from K, the number of keys, to 0, and with "bi" further to -Q + 1, as there
    # are keys after a position, too. No key is K away: `relative_shift` needs this first entry, and
    # drops it.
    farthest = memory_length + length  # K
    # How many distances are 0 or less: 0 alone, or with "bi" 0 to -Q + 1.
    num_not_positive = 1 if attn_type == "uni" else length
    num_distances = farthest + num_not_positive  # R
    index = count_to(num_distances, tf.float32)
    distances = tf.cast(farthest, tf.float32) - index  # [R]
    if clamp_len > 0:
        distances = tf.clip_by_value(distances, -clamp_len, clamp_len)

    exponents = 2.0 * count_to(d_model // 2, tf.float32) / d_model  # [D/2]
    frequencies = 1.0 / 10000.0**exponents
    angles = distances[:, None] * frequencies[None, :]  # [R,D/2]
    # [1,R,D/2]: the same for all batch elements.
    sine = net.cast(tf.sin(angles))[None]
    cosine = net.cast(tf.cos(angles))[None]

    return sine, cosine


def position_keys(
    net: LayerContext,
    kernel: tf.Tensor,
    sinusoids: tuple[tf.Tensor, tf.Tensor],
    sign: tf.Tensor | None = None,
) -> tf.Tensor:
    """The keys of the relative distances: the sinusoids projected by kernel [D,N*H], [B,N,R,H], or
    [1,N,R,H] without `sign`.

    Args:
      kernel: its first D/2 rows belong to the sines, the others to the cosines.
      sinusoids: sine and cosine, [1,R,D/2] each, as `sinusoids_of` returns them.
      sign: [B,1,1,1], 1, or -1 where the text runs backward. Its distances are negated; the cosine
        is even and the sine odd, so the sine half changes its sign, and both directions share the
        projection. None: all texts run forward.
    """
    of_sine, of_cosine = tf.split(kernel, 2, axis=0)  # [D/2,N*H]
    sine = split_heads(dense(sinusoids[0], of_sine), net.config.n_head)  # [1,N,R,H]
    cosine = split_heads(dense(sinusoids[1], of_cosine), net.config.n_head)
    return cosine + (sine if sign is None else sign * sine)


# ---- attention (section 2.5; Transformer-XL, section 3.3) ----


def relative_attention(
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    k_r: tf.Tensor,
    weights: Weights,
    stream: Stream,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """Attention with relative positions and segments:

        softmax(scores + mask) v,    with dropout of the probabilities: [B,N,T,H]

    Args:
      q: queries [B,N,T,H].
      k: keys [B,N,K,H].
      v: values [B,N,K,H].
      k_r: keys of the relative distances, [B or 1,N,R,H].
      weights: of the layer; r_w, r_r, r_s and seg_embed are read: the caller has projected.
      stream: whose queries they are; its mask is an `AdditiveMask`. A query that sees no key gets
        zeros.
      drops: the dropout of the probabilities.
    """
    num_keys = shape_of(k)[2]
    by_distance = scores_by_distance(q, k_r, weights)  # [B,N,T,R]
    by_key = relative_shift(by_distance, num_keys, stream.first_distance_index)
    scores = relative_scores(q, k, by_key, weights, stream)  # [B,N,T,K]
    # The softmax is float32 in every precision, the matmul that follows has the dtype of q.
    probabilities = tf.cast(masked_softmax(scores, stream.mask), q.dtype)
    return tf.matmul(dropout(probabilities, drops), v)


def scores_by_distance(q: tf.Tensor, k_r: tf.Tensor, weights: Weights) -> tf.Tensor:
    """The position term of `relative_scores` at all R distances, of queries q [B,N,T,H] and the
    distances' keys k_r [B or 1,N,R,H]: [B,N,T,R]."""
    # Not a matmul that broadcasts [1,N,R,H] over the batch: TensorFlow's is wrong in some cases
    # (`ops.repeated`).
    if k_r.shape[0] == 1:
        return tf.einsum("bnth,nrh->bntr", q + weights.r_r, k_r[0])
    return tf.matmul(q + weights.r_r, k_r, transpose_b=True)


def relative_scores(
    q: tf.Tensor, k: tf.Tensor, by_key: tf.Tensor, weights: Weights, stream: Stream
) -> tf.Tensor:
    """The score of query i for key j, at the distance i - j, where i is counted among the keys:
    float32 [B,N,T,K].

        ((q_i + r_w) · k_j  +  (q_i + r_r) · k_r[i - j]  +  (q_i + r_s) · seg[i, j]) / sqrt(H)

    that is what key j holds, how far away it is, and whether it is in the same segment: seg[i, j]
    is one of two learned vectors of each head. The first two terms are the four of Transformer-XL,
    section 3.3, with r_w and r_r for its u and v; the third is a_ij of the paper, section 2.5, with
    r_s for its b.

    Args:
      q: queries [B,N,T,H].
      k: keys [B,N,K,H].
      by_key: the position term, not yet divided, [B,N,T,K]: `scores_by_distance`, of which the
        distance of each key was taken.
      weights: r_w, r_s and seg_embed of the layer.
      stream: the segments of its queries and keys are read; None: there is no segment term.
    """
    # What the key holds, and how far away it is.
    scores = tf.matmul(q + weights.r_w, k, transpose_b=True) + by_key  # [B,N,T,K]
    # Whether it is in the same segment. A query has only two such scores, one for keys of its
    # segment and one for the others.
    if stream.segments is not None:
        same_vector, other_vector = tf.unstack(weights.seg_embed)  # [N,1,H]
        q_s = q + weights.r_s
        same = tf.reduce_sum(q_s * same_vector, axis=-1, keepdims=True)  # [B,N,T,1]
        other = tf.reduce_sum(q_s * other_vector, axis=-1, keepdims=True)
        of_query = tf.expand_dims(stream.segments, 2)  # [B,T,1]
        of_key = tf.expand_dims(stream.key_segments, 1)  # [B,1,K]
        is_same = tf.equal(of_query, of_key)[:, None]  # [B,1,T,K]
        scores += tf.where_v2(is_same, same, other)
    head_size = shape_of(q)[3]
    return tf.cast(scores, tf.float32) / math.sqrt(head_size)


def masked_softmax(scores: tf.Tensor, mask: AdditiveMask | None) -> tf.Tensor:
    """Probabilities of the visible keys, float32 [B,N,T,K] as the scores; mask None: all keys are
    visible. A query that sees no key gets zeros; in the original implementation it attends equally
    to all keys."""
    if mask is None:
        return tf.nn.softmax(scores)
    probabilities = tf.nn.softmax(scores + mask.bias)
    if mask.has_visible_key is None:  # every query sees a key
        return probabilities
    return probabilities * mask.has_visible_key


def attention_form(run_config: RunConfig, mask: Mask | None, has_segments: bool) -> str:
    """The form in which a run computes attention, by name: "plain", "fused", "without shift" or
    "tuned". It is chosen here alone.

    All forms compute what `relative_attention` says, up to rounding. Decoding token by token
    (`incremental`) computes by its equations, too.

    Args:
      run_config: how the network is run; its device is not None.
      mask: over the keys, or None.
      has_segments: whether the score has a segment term.
    """
    if run_config.device == "plain":
        return "plain"  # `relative_attention` itself
    # `kernels_gpu`: one program on an NVIDIA GPU, for networks with segments and masks by ranks of
    # static shapes. Only XLA can call it, so it is chosen within a function, which XLA compiles.
    # A training that is compiled also builds the network outside of a function, for its variables
    # alone: that is never run.
    is_compiled = tf.get_default_graph().building_function
    if run_config.fused_attention and is_compiled and has_segments and mask is not None:
        rank = mask.key_rank
        if rank is not None and rank.shape.is_fully_defined():
            return "fused"
    if run_config.device == "tpu" and run_config.clamp_len < 0:
        return "without shift"  # `kernels_tpu`; clipped distances have no addition theorems
    return "tuned"  # `kernels_tuned`: explicit gradients


# ---- a layer of both streams (paper, section 2.3 and appendix A.2) ----


def layer(
    config: XLNetConfig,
    run_config: RunConfig,
    seed: tf.Tensor | None,
    first_row: Any,
    form: str,
    weights: Weights,
    h: tf.Tensor,
    g: tf.Tensor | None,
    memory: tf.Tensor | None,
    content_stream: Stream,
    query_stream: Stream | None,
    sinusoids: tuple[tf.Tensor, tf.Tensor],
    sign: tf.Tensor | None,
    is_last_layer: bool,
) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """One layer of both streams, with the same weights and the same keys and values, those of h:

        g_i ← attention(q=g_i, kv=h_j),  key_rank[j] < query_rank[i]     not its own token
        h_i ← attention(q=h_i, kv=h_j),  key_rank[j] < query_rank[i], or j = i

    where h_j are positions of the memory and of the sequence, and the ranks are those of a `Mask`.
    Without g it is a layer of Transformer-XL. It reads no variables, so that it can be computed
    again and be built once for all layers.

    Args:
      config: the architecture.
      run_config: how the network is run; its device is not None.
      seed: of the dropout of this layer; None: there is none.
      first_row: the index of batch element 0 in the global batch; None: there are no indices.
      form: of attention, see `attention_form`.
      weights: of this layer.
      h: the content stream, [B,Q,D].
      g: the query stream, [B,P,D]; or None.
      memory: [B,M,D]; or None.
      content_stream: masks, segments and distances of the content stream's queries.
      query_stream: the same of the query stream; None without g.
      sinusoids: sine and cosine, [1,R,D/2] each, as `sinusoids_of` returns them.
      sign: of the distances, [B,1,1,1], -1 where the text runs backward; None: all run forward.
      is_last_layer: h is then not computed if there is a g: nothing would read it.

    Returns:
      h and g of the next layer, None for one that does not exist.
    """
    # A context of its own: the seed of a layer's n-th dropout folds n into the layer's seed.
    net = LayerContext(config, run_config, seed, first_row)
    k = keys_or_values(net, weights.k, h, memory)
    v = keys_or_values(net, weights.v, h, memory)
    if form == "without shift":  # which projects the queries in place of the distances
        k_r = kernels_tpu.Distances(weights.r, *sinusoids, sign)
    else:
        k_r = position_keys(net, weights.r, sinusoids, sign)

    def attend(x: tf.Tensor, stream: Stream) -> tf.Tensor:
        """Attention of the stream x [B,T,D] to the keys, in this form: [B,N,T,H]."""
        q = split_heads(dense(x, weights.q), config.n_head)  # [B,N,T,H]
        drops = net.next_dropout(run_config.dropatt)
        inputs = q, k, v, k_r, weights, stream, drops
        if form == "plain":
            heads = relative_attention(*inputs)
        elif form == "without shift":
            heads = kernels_tpu.relative_attention(*inputs)
        elif form == "fused":
            # Imported here, as it imports a part of TensorFlow that the other forms do not need.
            from xlnet.model import kernels_gpu

            assert run_config.fused_attention is not None
            heads = kernels_gpu.relative_attention(run_config.fused_attention, *inputs)
        else:
            heads = kernels_tuned.relative_attention(net.elementwise_form, *inputs)
        # Weights [B,T], of which 0 switches the attention of a query off.
        if stream.query_weights is not None:
            heads *= net.cast(stream.query_weights)[:, None, :, None]
        return heads

    # h comes first: the order of the calls decides which dropout mask is whose.
    new_h = new_g = None
    if g is None or not is_last_layer:
        new_h = after_attention(net, weights, h, attend(h, content_stream))
    if g is not None and query_stream is not None:
        new_g = after_attention(net, weights, g, attend(g, query_stream))
    return new_h, new_g


def keys_or_values(
    net: LayerContext, kernel: tf.Tensor, h: tf.Tensor, memory: tf.Tensor | None
) -> tf.Tensor:
    """The keys or the values: memory [B,M,D], if there is one, and h [B,Q,D] one after the other,
    projected by kernel [D,N*H]: [B,N,K,H]. No gradient reaches the memory."""
    projected = dense(h, kernel)
    if memory is not None:
        of_memory = dense(tf.stop_gradient(net.cast(memory)), kernel)
        projected = tf.concat([of_memory, projected], axis=1)
    return split_heads(projected, net.config.n_head)


def after_attention(
    net: LayerContext, weights: Weights, x: tf.Tensor, heads: tf.Tensor
) -> tf.Tensor:
    """The rest of a layer (paper, appendix A.2), of its input x [B,T,D] and the output of
    attention, heads [B,N,T,H]: [B,T,D].

        x ← LayerNorm(x + heads projected)
        x ← LayerNorm(x + feed_forward(x))

    with dropout of both terms that are added, and within the feed-forward layer.
    """
    rate = net.run_config.dropout
    # weights.o is [D,N*H], as the other projections are: it is multiplied transposed.
    projected = ops.dense_back(ops.merge_heads(heads), weights.o)
    attended = x + net.dropout(projected, rate)
    x = kernels_tuned.layer_norm(attended, *weights.attention_norm)
    fed = kernels_tuned.feed_forward(
        net.elementwise_form,
        x,
        weights.inner,
        weights.outer,
        net.config.ff_activation,
        net.next_dropout(rate),
    )
    fed = x + net.dropout(fed, rate)
    return kernels_tuned.layer_norm(fed, *weights.feed_forward_norm)


# ---- the stack, with memory (paper, section 2.4; Transformer-XL, section 3.2) ----


class Query(NamedTuple):
    """What the query stream predicts.

    positions: int [B,P], the position of the sequence that each target position predicts; None:
      every position of the sequence has a query, P = Q.
    weights: float32 [B,P], 0 switches the attention of a target position off; None: all are on.
    masked: float32 [B,Q], read only where `positions` is None: 1 for a position whose query does
      not begin with its token.
    """

    positions: tf.Tensor | None = None
    weights: tf.Tensor | None = None
    masked: tf.Tensor | None = None


class Outputs(NamedTuple):
    """What the network returns.

    sequence: float32 [B,P,D] of the query stream if there is one, else [B,Q,D] of the content
      stream.
    new_mems: the memory for the next sequence, a list over layers of [B,M',D] in the dtype of the
      matmuls, M' <= mem_len; None without `mem_len`.
    embedding_table: [V,D].
    """

    sequence: tf.Tensor
    new_mems: Any
    embedding_table: tf.Tensor


def transformer_xl(
    config: XLNetConfig,
    run_config: RunConfig,
    *,
    input_ids: tf.Tensor,
    seg_ids: tf.Tensor | None = None,
    direction: tf.Tensor | None = None,
    mask: Mask | tf.Tensor | None = None,
    mems: Sequence[tf.Tensor] | None = None,
    query: Query | None = None,
    attn_type: str = "bi",
    seed: tf.Tensor | None = None,
    first_row: tf.Tensor | None = None,
) -> Outputs:
    """Runs the network in variable scope `transformer`.

    Args:
      config: the architecture.
      run_config: how the network is run; its `bi_data` is not read, see `direction`.
      input_ids: int32 or int64 [B,Q], as are all integers; int64 stays on a GPU, int32 does not;
        a TPU computes int64 in two parts.
      seg_ids: int [B,Q], 0 <= id < NUM_SEGMENTS; memory counts as segment 0. None: no segments.
      direction: int [B], 1 where the text runs backward. None: all forward.
      mask: who sees whom in the sequence: by ranks, as `permutation_mask` returns it, or bool
        [B or 1,Q or 1,Q], True where i may not see j. The content stream sees itself all the same;
        a query that sees nothing attends to nothing. None: all see all.
      mems: per layer [B,M,D], the memory of earlier sequences, visible, without gradients. None or
        empty: M = 0.
      query: `Query`, or None for the content stream alone.
      attn_type: "bi", or "uni" for the causal Transformer-XL.
      seed: of dropout in training: uint64 [1], or two 32-bit halves, see `stateless_random`. None:
        no dropout.
      first_row: an int or a scalar, the index of batch element 0 in the global batch, so that a
        micro-batch has the dropout masks of its part. None: batch elements have no index.
    """
    net = LayerContext(config, run_config, seed, first_row)
    run_config = net.run_config  # with the device
    with tf.variable_scope("transformer"):
        _, length = shape_of(input_ids)
        memory_length = shape_of(mems[0])[1] if mems else 0

        # Begin the two streams: h with the embeddings of the tokens, g with one learned vector.
        table, h, g = embed(net, input_ids, query)
        h = net.dropout(h, run_config.dropout)
        if g is not None:
            g = net.dropout(g, run_config.dropout)

        # Prepare who sees whom, and the encodings of the distances: they are the same in all
        # layers.
        has_segments = seg_ids is not None
        if mask is not None and not isinstance(mask, Mask):
            mask = Mask(masked=mask)
        # In the type of the ids: int64 stays on a GPU, int32 is a TPU's own.
        own_key = count_to(length, input_ids.dtype)  # [Q]
        own_key += tf.cast(memory_length, input_ids.dtype)
        mask = with_memory(
            mask, own_key, memory_length, attn_type, run_config.same_length
        )
        form = attention_form(run_config, mask, has_segments)
        content_stream, query_stream = streams_of(
            form, mask, seg_ids, query, own_key, memory_length
        )
        # A query at a target position reads the scores of all keys, also of those after it, which
        # are masked if `attn_type` is "uni": it needs the distances to both sides in any case.
        has_targets = query is not None and query.positions is not None
        sinusoids = sinusoids_of(
            net, length, memory_length, "bi" if has_targets else attn_type
        )
        sign = None
        if direction is not None:
            sign = net.cast(1 - 2 * direction)[:, None, None, None]

        if run_config.device == "tpu":
            # XLA would compute beforehand what each layer makes of these constant tables, and store
            # it in the program, as half of its size.
            sinusoids = tuple(ops.optimization_barrier(*sinusoids))

        # How a layer enters TensorFlow's graph makes no difference to its numbers.
        run_layer: Callable[..., Any] = functools.partial(layer, config, run_config)
        is_compiled = run_config.device in ("xla", "tpu")
        if run_config.is_training and run_config.recompute:
            run_layer = functools.partial(ops.recomputed, run_layer, is_compiled)
        # Not for XLA: where a function passes shapes on to its gradient, XLA takes all inputs of
        # the function for constants, and would compile again for each batch.
        if run_config.traced_once and not is_compiled:
            run_layer = ops.traced_once(run_layer)

        # Run the layers. The memory of a layer is its input, since the next sequence sees it as
        # input of the same layer.
        weights = parameters.layer_weights(net, has_segments)
        memories = list(mems) if mems else [None] * config.n_layer
        new_mems = []
        for i in range(config.n_layer):
            # Seeds of layers are folded in as -1, -2 ..., as the network's own dropouts count up
            # from 1.
            layer_seed = None if seed is None else fold_in(seed, -1 - i)
            new_mems.append(
                update_memory(h, memories[i], run_config.mem_len, run_config.reuse_len)
            )
            h, g = run_layer(
                layer_seed,
                first_row,
                form,
                weights[i],
                h,
                g,
                memories[i],
                content_stream,
                query_stream,
                sinusoids,
                sign,
                i == config.n_layer - 1,
            )

        # The output is that of the query stream, or, without one, of the content stream.
        sequence = tf.cast(
            net.dropout(h if g is None else g, run_config.dropout), tf.float32
        )
    return Outputs(sequence, new_mems if run_config.mem_len else None, table)


def embed(
    net: LayerContext, input_ids: tf.Tensor, query: Query | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
    """The embeddings of the tokens, and with them the beginning of both streams.

    Args:
      input_ids: int [B,Q].
      query: the query stream; None: there is none.

    Returns:
      The embedding table [V,D]; h [B,Q,D], which begins the content stream; g [B,P,D], which begins
      the query stream, with one learned vector for all targets, as a target must not see its own
      token; None without a query.
    """
    config = net.config
    with tf.variable_scope("word_embedding"):
        table = get_weight(
            "lookup_table",
            [config.n_token, config.d_model],
            get_initializer(net.run_config),
        )
    h = net.cast(ops.lookup(table, input_ids))
    if query is None:
        return table, h, None
    with tf.variable_scope("mask_emb"):
        mask_embedding = net.variable("mask_emb", [1, 1, config.d_model])
    # With a query at every position, g begins with the vector where the token is masked, else with
    # the token's embedding.
    if query.positions is None:
        masked = net.cast(query.masked)[:, :, None]  # [B,Q,1]
        return table, h, masked * mask_embedding + (1.0 - masked) * h
    batch, target_count = shape_of(query.positions)
    shape = [batch, target_count, config.d_model]
    return table, h, tf.broadcast_to(mask_embedding, shape)


def streams_of(
    form: str,
    mask: Mask | None,
    seg_ids: tf.Tensor | None,
    query: Query | None,
    own_key: tf.Tensor,
    memory_length: Any,
) -> tuple[Stream, Stream | None]:
    """The content and the query stream as attention reads them, the latter None without a query.

    Args:
      form: of attention, see `attention_form`.
      mask: for each position of the sequence, over all keys, without its own key; None: all see
        all.
      seg_ids: int [B,Q]; None: there are no segments.
      query: what the query stream predicts; None: there is no query stream.
      own_key: int [Q], the index of each position among the keys: M + i.
      memory_length: M.
    """
    key_segments = None
    if seg_ids is not None:  # memory counts as segment 0
        of_memory = tf.zeros([shape_of(seg_ids)[0], memory_length], seg_ids.dtype)
        key_segments = tf.concat([of_memory, seg_ids], axis=1)  # [B,K]

    # The content stream: all positions, which see their own token, too.
    content_mask = mask
    if mask is not None:
        content_mask = mask._replace(own_key=own_key[None])
    content_stream = Stream(mask_for_form(form, content_mask), seg_ids, key_segments)
    if query is None:
        return content_stream, None

    # The query stream: its queries do not see their own token. They are at all positions, or at
    # those of the targets. Then segments and mask are gathered at the targets' positions.
    segments, first_distance_index, positions = seg_ids, None, query.positions
    if positions is not None:
        # The distance from position i to key 0 is d = M + i. Among the R distances it has the index
        # K - d, which is Q - i.
        length = shape_of(own_key)[0]
        first_distance_index = tf.cast(length, positions.dtype) - positions
        if segments is not None:
            segments = tf.gather(segments, positions, batch_dims=1)  # [B,P]
        if mask is not None:
            mask = mask_at_positions(mask, positions)
    query_stream = Stream(
        mask_for_form(form, mask),
        segments,
        key_segments,
        first_distance_index,
        query.weights,
    )
    return content_stream, query_stream


def mask_at_positions(mask: Mask, positions: tf.Tensor) -> Mask:
    """The mask for the queries at `positions`, int [B,P], of one for all positions of the sequence,
    in the same form."""
    if mask.masked is None:
        query_rank = tf.gather(mask.query_rank, positions, batch_dims=1)  # [B,P]
        return mask._replace(query_rank=query_rank)
    masked = mask.masked  # [B or 1,Q or 1,K]
    if masked.shape[1] != 1:  # else it is the same for all positions
        # A gather for each batch element needs all B of them.
        shape = [shape_of(positions)[0], *shape_of(masked)[1:]]
        masked = tf.broadcast_to(masked, shape)
        masked = tf.gather(masked, positions, batch_dims=1)  # [B,P,K]
    return Mask(masked=masked)


def mask_for_form(form: str, mask: Mask | None) -> Mask | AdditiveMask | None:
    """The mask as attention of this form reads it in all layers: the fused form by ranks, the
    others as a number for each score."""
    if mask is None or form == "fused":
        return mask
    return additive_mask(mask)


def update_memory(
    h: tf.Tensor,
    memory: tf.Tensor | None,
    mem_len: int | None,
    reuse_len: int | None,
) -> tf.Tensor | None:
    """The memory for the next sequence: [B,M',D], M' <= mem_len.

    The first `reuse_len` positions of the layer's input h [B,Q,D] (None or 0: all) follow the old
    memory [B,M,D], if there is one; the last `mem_len` are kept, as numbers without gradient. None
    if `mem_len` is None or 0: no memory is kept.
    """
    if not mem_len:
        return None
    # The next sequence continues the text after the first `reuse_len` positions, so the rest of
    # this one is not remembered.
    new = h[:, :reuse_len] if reuse_len else h
    if memory is not None:
        new = tf.concat([tf.cast(memory, h.dtype), new], axis=1)
    # The gradient stops here: it would need the activations of all earlier sequences.
    return tf.stop_gradient(new[:, -mem_len:])
