"""Relative attention for TPUs, without a shift and without gathers of scores.

`modeling.relative_attention` is the specification. Shape letters: B batch, Q positions of the
sequence, M remembered positions, K = M + Q keys, T query positions of a stream, R relative
distances, N heads, H d_head, D d_model.

The plain form computes the score of each query at all R distances and then reads, for each key, the
score at its distance. A TPU's memory is laid out in tiles of 8 x 128 numbers: a shift that moves
each row by another number of cells copies the scores several times, and a gather reads them one by
one. Distances here are encoded by sines and cosines, so that the addition theorems do without both,
as in Funnel-Transformer (https://arxiv.org/abs/2006.03236). With a the distance from a query to the
first key, key j is a - j away, and for each frequency w

    u sin((a - j) w) + v cos((a - j) w)
        = (u sin(a w) + v cos(a w)) cos(j w)  +  (v sin(a w) - u cos(a w)) sin(j w)

where (u, v) are the query multiplied by the position kernel. In brackets are vectors of the query
alone; they are multiplied by vectors of the key alone, the same for all examples and heads: the
position term is one matmul. It has D terms in place of H, almost half more operations for a step of
Base, and writes nothing but the scores: a tenth of the traffic (benchmarks/README.md). Distances
must not be clipped: then the addition theorems do not hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from xlnet.model.kernels import NO_DROPOUT, Dropout, Stream, Weights
from xlnet.model.kernels_tuned import attend, widened
from xlnet.model.ops import shape_of


class Distances(NamedTuple):
    """What this form reads as the keys of the distances.

    kernel: [D,N*H], the position kernel.
    sine, cosine: [1,R,D/2], as `modeling.sinusoids_of` returns them, of the distances from K down.
    sign: [B,1,1,1], 1, or -1 where the text runs backward; None: all run forward.
    """

    kernel: tf.Tensor
    sine: tf.Tensor
    cosine: tf.Tensor
    sign: tf.Tensor | None


def relative_attention(
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    distances: Distances,
    weights: Weights,
    stream: Stream,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """Attention with relative positions and segments, [B,N,T,H], as `modeling.relative_attention`
    specifies it.

    Args:
      q: queries [B,N,T,H].
      k: keys [B,N,K,H].
      v: values [B,N,K,H].
      distances: what there is in place of the keys of the distances.
      weights: r_w, r_r, r_s and seg_embed of the layer are read.
      stream: its mask is an `AdditiveMask`.
      drops: the dropout of the probabilities.
    """
    scale = 1.0 / math.sqrt(shape_of(q)[3])
    q = q * scale  # the scores are divided by sqrt(H) here, where the tensor is smaller
    wide_q, wide_k = widened(q, k, weights, stream, scale)
    turned = _turned(q + weights.r_r * scale, distances, stream.first_distance_index)
    # The vectors of the keys, cos(j w) and sin(j w): [K,D]. Distance d has the index K - d, so that
    # of j = 0, 1, ... is K, K - 1, ...: these entries in reverse.
    num_keys = shape_of(k)[2]
    cosine = tf.reverse(distances.cosine[0, 1 : num_keys + 1], [0])
    sine = tf.reverse(distances.sine[0, 1 : num_keys + 1], [0])
    of_keys = tf.stop_gradient(tf.concat([cosine, sine], axis=-1))
    score = tf.matmul(wide_q, wide_k, transpose_b=True)  # [B,N,T,K]
    score += tf.einsum("bntd,kd->bntk", turned, of_keys)
    return attend("tpu", score, v, stream, drops)


def _turned(
    q_r: tf.Tensor, distances: Distances, first_distance_index: tf.Tensor | None
) -> tf.Tensor:
    """The vectors of the queries, the two brackets in this file's docstring: [B,N,T,D]. q_r: the
    queries with r_r, [B,N,T,H]; first_distance_index: as in `Stream`."""
    batch, heads, rows, head_size = shape_of(q_r)
    # The sine and the cosine of a w, where a is the distance to the first key, which has the index
    # `first_distance_index` among the R distances.
    if first_distance_index is None:  # Q - i for query i
        sine = tf.reverse(distances.sine[:, 1 : rows + 1], [1])  # [1,T,D/2]
        cosine = tf.reverse(distances.cosine[:, 1 : rows + 1], [1])
    else:
        sine = tf.gather(distances.sine[0], first_distance_index)  # [B,T,D/2]
        cosine = tf.gather(distances.cosine[0], first_distance_index)
    sine, cosine = sine[:, None], cosine[:, None]  # the same for all heads
    # u and v, [B,N,T,D/2] each. The first half of the kernel's rows belongs to the sines.
    of_sine, of_cosine = tf.split(
        tf.reshape(distances.kernel, [distances.kernel.shape[0], heads, head_size]), 2
    )
    u, v = (tf.einsum("bnth,dnh->bntd", q_r, kernel) for kernel in (of_sine, of_cosine))
    if distances.sign is not None:  # the sine of a negated distance is negative
        u = u * distances.sign
    return tf.concat([u * sine + v * cosine, v * sine - u * cosine], axis=-1)
