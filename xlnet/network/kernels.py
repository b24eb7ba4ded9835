"""The kernels of a layer behind one interface, `Kernels`: relative attention, the feed-forward
layer, layer norm, dropout.

The plain form of each, here, is its specification: tests compare with it the forms of
`kernels_tuned`, which runs use. Tensors only, no variables. Shape letters as in `modeling`; T query
positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.network.ops import count_to, dense, shape_of
from xlnet.network.stateless_random import bits16

LAYER_NORM_EPSILON = 1e-12
MASKED_SCORE = -1e30  # added to the score of a masked key; scores are always float32


class Kernels(NamedTuple):
    """The forms that a run uses: functions with the signatures below."""

    relative_attention: Callable[..., tf.Tensor]
    feed_forward: Callable[..., tf.Tensor]
    layer_norm: Callable[..., tf.Tensor]
    dropout: Callable[..., tf.Tensor]


# ---- dropout ----


class Dropout(NamedTuple):
    """A dropout mask: a function of `seed`, see `stateless_random`, and of the batch element."""

    rate: float = 0.0  # the fraction of elements that is dropped; 0: off
    seed: Optional[tf.Tensor] = None  # uint64 [1]
    first_row: Any = None  # index of batch element 0 in the global batch, or None

    @property
    def dropped_of_65536(self) -> int:
        """The rate as a threshold for 16 random bits."""
        return min(65535, max(1, round(self.rate * 65536))) if self.rate else 0

    @property
    def scale(self) -> float:
        """The factor of the elements that are kept."""
        return 65536.0 / (65536 - self.dropped_of_65536)

    def kept(self, shape: Sequence[Any]) -> tf.Tensor:
        """bool of `shape` [B,...], True where an element is kept."""
        return bits16(shape, self.seed, self.first_row) >= tf.constant(
            self.dropped_of_65536, tf.uint16
        )


NO_DROPOUT = Dropout()


def dropout(x: tf.Tensor, drops: Dropout) -> tf.Tensor:
    """Zeroes elements of x [B,...] and scales up the others."""
    if not drops.rate:
        return x
    return tf.where_v2(drops.kept(shape_of(x)), x * drops.scale, tf.zeros([], x.dtype))


# ---- relative attention ----


class Keys(NamedTuple):
    """Keys and values. k, v: [B,N,K,H]. k_r: [B or 1,N,R,H], of the relative distances. segments:
    [B,1,K,S] one-hot, or None."""

    k: tf.Tensor
    v: tf.Tensor
    k_r: tf.Tensor
    segments: Optional[tf.Tensor] = None


class Biases(NamedTuple):
    """r_w, r_r, r_s: added to a query in the content, position and segment term, [N,1,H].
    seg_embed: [2,N,1,H], the vectors for "same segment" and "another segment"."""

    r_w: tf.Tensor
    r_r: tf.Tensor
    r_s: Optional[tf.Tensor] = None
    seg_embed: Optional[tf.Tensor] = None


class Mask(NamedTuple):
    """An attention mask. bias: float32 [B or 1,1,T or 1,K], added to scores, `MASKED_SCORE` where
    masked. has_visible_key: float32 [B or 1,1,T or 1,1], 0 for a query that sees no key; None: all
    see some."""

    bias: tf.Tensor
    has_visible_key: Optional[tf.Tensor] = None


def mask_of(masked: tf.Tensor, may_see_nothing: bool = True) -> Mask:
    """The `Mask` of masked, bool [B or 1,T or 1,K], True where a query may not see a key;
    may_see_nothing: False if every query is known to see some key, such as itself."""
    bias = tf.cast(masked, tf.float32)[:, None] * MASKED_SCORE
    if not may_see_nothing:
        return Mask(bias)
    return Mask(bias, tf.cast(~tf.reduce_all(masked, axis=-1), tf.float32)[:, None, :, None])


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


# ---- from scores by distance to scores by key, and back (Transformer-XL, appendix B) ----


def relative_shift(
    x: tf.Tensor, num_keys: int, first_distance: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Takes, for query i and key j, the score at their distance (Transformer-XL, appendix B).

    Args:
      x: [B,N,T,R], the score of query i at the distance of index r; distance d has index K - d.
      first_distance: as in `relative_attention`.

    Returns:
      [B,N,T,K] with `y[i, j] = x[i, first_distance[i] + j]`, as key j is M + i - j away from
      position i.
    """
    if first_distance is not None:
        return gather_keys(x, first_distance[:, :, None] + count_to(num_keys, first_distance.dtype))
    # The complete sequence. In memory, the next row is R cells further and its first wanted column
    # one to the left. After dropping the first Q cells, every row is R - 1 cells long and starts at
    # its first wanted column. With Q = 2, K = 2, R = 4:
    #
    #     a b c d | e f g h   ->   c d e | f g h   ->   c d | f g
    batch, heads, length, distances = shape_of(x)
    y = tf.reshape(x, [batch, heads, length * distances])[:, :, length:]  # [B,N,Q*(R-1)]
    return tf.reshape(y, [batch, heads, length, distances - 1])[..., :num_keys]  # [B,N,Q,K]


def shift_back(y: tf.Tensor, distances: int, back: Optional[tf.Tensor] = None) -> tf.Tensor:
    """The gradient of `relative_shift`, by the same steps backward: [B,N,T,K] -> [B,N,T,R].

    back: the result of `inverse_shift_index`; None: the queries are the complete sequence.
    """
    if back is not None:
        return gather_keys(tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, 1]]), back)
    # With Q = 2, K = 2, R = 4:  c d | f g   ->   c d 0 | f g 0   ->   0 0 c d | 0 f g 0
    batch, heads, length, num_keys = shape_of(y)
    x = tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, distances - 1 - num_keys]])  # [B,N,Q,R-1]
    x = tf.reshape(x, [batch, heads, length * (distances - 1)])
    x = tf.pad(x, [[0, 0], [0, 0], [length, 0]])  # [B,N,Q*R]
    return tf.reshape(x, [batch, heads, length, distances])


def inverse_shift_index(num_keys: int, distances: int, first_distance: tf.Tensor) -> tf.Tensor:
    """int [B,T,R]: the key that read each distance; K, a zero, where none did.

    With first_distance 1, K = 2, R = 4: 2 0 1 2, so that `a b` -> `0 a b 0`.
    """
    index = count_to(distances, first_distance.dtype) - first_distance[:, :, None]  # [B,P,R]
    beyond = tf.cast(num_keys, index.dtype)
    return tf.where_v2((index < 0) | (index >= beyond), beyond, index)


def gather_keys(x: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """x [B,N,P,R] at index [B or 1,P,K]: [B,N,P,K].

    All heads are read at the same indices, so they are transposed to be adjacent: a gather costs by
    the number of slices, not by their size.
    """
    batch, heads, length, width = shape_of(x)
    count = shape_of(index)[-1]
    cells = tf.reshape(tf.transpose(x, [0, 2, 3, 1]), [batch * length * width, heads])
    begins = count_to(batch * length, index.dtype) * tf.cast(width, index.dtype)  # [B*P]
    indices = index + tf.reshape(begins, [batch, length, 1])  # [B,P,K]
    y = tf.reshape(tf.gather(cells, tf.reshape(indices, [-1])), [batch, length, count, heads])
    return tf.transpose(y, [0, 3, 1, 2])


# ---- feed-forward layer, layer norm ----


def feed_forward(
    x: tf.Tensor,
    inner: tuple[tf.Tensor, tf.Tensor],
    outer: tuple[tf.Tensor, tf.Tensor],
    activation: str,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """dense(dropout(activation(dense(x)))): [B,T,D] -> [B,T,D].

    inner, outer: (kernel, bias), [D,F], [F] and [F,D], [D]. activation: of `ACTIVATIONS`.
    """
    return dense(dropout(ACTIVATIONS[activation](dense(x, *inner)), drops), *outer)


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Normalizes the last axis in float32, scales by gamma and shifts by beta, float32 [D] each."""
    mean, variance = tf.nn.moments(tf.cast(x, tf.float32), axes=[-1], keep_dims=True)
    normal = (tf.cast(x, tf.float32) - mean) * tf.rsqrt(variance + LAYER_NORM_EPSILON)
    return tf.cast(normal * gamma + beta, x.dtype)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, tanh form (https://arxiv.org/abs/1606.08415, section 2)."""
    if x.dtype == tf.float16:  # x^3 would be infinite beyond 40, and the slope NaN
        return tf.cast(gelu(tf.cast(x, tf.float32)), tf.float16)
    return tf2.nn.gelu(x, approximate=True)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """The exact form, with the error function; `gelu` in Hugging Face Transformers."""
    return tf2.nn.gelu(x, approximate=False)


ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "relu": tf.nn.relu,
    "gelu": gelu,
    "gelu_erf": gelu_erf,
}

PLAIN = Kernels(relative_attention, feed_forward, layer_norm, dropout)
