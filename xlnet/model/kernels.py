"""What the forms of attention are given and share: masks, weights, the shift by distances; and the
plain forms of dropout, of the activations and of layer norm.

The plain forms are specifications: tests compare with them those of `kernels_tuned`, in which runs
compute. The plain form of attention is the equation of the paper, in `modeling`. Tensors only, no
variables.

Shape letters: B batch, Q positions of the sequence, M remembered positions, K = M + Q keys, T query
positions, R relative distances, N heads, H d_head, D d_model, F d_inner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model.ops import count_to, shape_of
from xlnet.model.stateless_random import bits16

LAYER_NORM_EPSILON = 1e-12
NUM_SEGMENTS = 8  # segment ids are 0 ... 7; released models use 0 to 4
MASKED_SCORE = -1e30  # added to the score of a masked key; scores are always float32

Dense = tuple[tf.Tensor, tf.Tensor]  # kernel and bias
Norm = tuple[tf.Tensor, tf.Tensor]  # gamma and beta


# ---- dropout ----


class Dropout(NamedTuple):
    """A dropout mask: a function of `seed`, see `stateless_random`, and of the batch element."""

    rate: float = 0.0  # the fraction of elements that is dropped; 0: off
    seed: tf.Tensor | None = None  # uint64 [1]
    first_row: Any = None  # index of batch element 0 in the global batch, or None

    @property
    def dropped_of_65536(self) -> int:
        """The rate as a threshold: an element is dropped if its 16 random bits, as a number, are
        below. 0: dropout is off."""
        if not self.rate:
            return 0
        # At least 1, so that a rate above 0 is never off; not all, as `scale` would be infinite.
        return min(65535, max(1, round(self.rate * 65536)))

    @property
    def scale(self) -> float:
        """The factor of the elements that are kept."""
        return 65536.0 / (65536 - self.dropped_of_65536)

    @property
    def first_index(self) -> Any:
        """`first_row`, 0 where batch elements have no index."""
        return 0 if self.first_row is None else self.first_row

    def kept(self, shape: Sequence[Any]) -> tf.Tensor:
        """bool of `shape` [B,...], True where an element is kept."""
        bits = bits16(shape, self.seed, self.first_row)  # uniform over all uint16
        return bits >= tf.constant(self.dropped_of_65536, tf.uint16)


NO_DROPOUT = Dropout()


def dropout(x: tf.Tensor, drops: Dropout) -> tf.Tensor:
    """Zeroes elements of x [B,...] and scales up the others, so that the mean stays."""
    if not drops.rate:
        return x
    return tf.where_v2(drops.kept(shape_of(x)), x * drops.scale, tf.zeros([], x.dtype))


# ---- what attention is given ----


class Mask(NamedTuple):
    """Which keys a query may see, in a form from which each implementation of attention makes what
    it needs.

    Query i sees key j if `key_rank[j] < query_rank[i]`; or, where `masked` is given instead of the
    ranks, if it is False there. A query also sees its own key, if it has one.

    key_rank: int [B or 1,K].
    query_rank: int [B or 1,T].
    masked: bool [B or 1,T or 1,K].
    own_key: int [1,T], the index of each query's own key, where the queries are the complete
      sequence: M + i for query i; None: queries have no key of their own.
    """

    key_rank: tf.Tensor | None = None
    query_rank: tf.Tensor | None = None
    masked: tf.Tensor | None = None
    own_key: tf.Tensor | None = None

    def dense(self) -> tf.Tensor:
        """bool [B or 1,T or 1,K], True where a query may not see a key."""
        masked = self.masked
        if masked is None:
            assert self.key_rank is not None and self.query_rank is not None
            masked = self.query_rank[:, :, None] <= self.key_rank[:, None, :]  # [B,T,K]
        if self.own_key is not None:
            num_keys = shape_of(masked)[2]
            key = count_to(num_keys, self.own_key.dtype)  # [K]
            masked &= tf.not_equal(self.own_key[:, :, None], key)
        return masked


class AdditiveMask(NamedTuple):
    """A mask as a number for each score: all forms of attention but the fused one read it.

    bias: float32 [B or 1,1,T or 1,K], added to scores, `MASKED_SCORE` where masked.
    has_visible_key: float32 [B or 1,1,T or 1,1], 0 for a query that sees no key; None: all see one.
    """

    bias: tf.Tensor
    has_visible_key: tf.Tensor | None = None


def additive_mask(mask: Mask) -> AdditiveMask:
    """The mask as a number for each score, as most forms of attention read it. It is made once for
    all layers."""
    masked = mask.dense()
    bias = tf.cast(masked, tf.float32)[:, None] * MASKED_SCORE
    if mask.own_key is not None:  # every query sees a key, its own
        return AdditiveMask(bias)
    sees_none = tf.reduce_all(masked, axis=-1)  # [B or 1,T or 1]
    return AdditiveMask(bias, tf.cast(~sees_none, tf.float32)[:, None, :, None])


class Stream(NamedTuple):
    """The inputs of attention that the T queries of one stream have in all layers.

    mask: an `AdditiveMask`, or, for fused attention, a `Mask` by ranks; None: every query sees
      every key.
    segments, key_segments: int [B,T] and [B,K]; None: there are no segments.
    first_distance_index: int [B,T], the index, among the R distances, of the distance from each
      query to the first key: Q - i for a query at position i. None: the queries are all positions,
      in their order.
    query_weights: [B,T], 0 switches a query's attention off; None: all are on.
    """

    mask: Any = None
    segments: tf.Tensor | None = None
    key_segments: tf.Tensor | None = None
    first_distance_index: tf.Tensor | None = None
    query_weights: tf.Tensor | None = None


class Weights(NamedTuple):
    """The weights of a layer, in the compute dtype except for the norms.

    q, k, v, r, o: the kernels [D,N*H] of attention: of queries, keys, values, relative distances,
      and of the output, which is multiplied transposed.
    r_w, r_r, r_s: added to a query in the content, position and segment term, [N,1,H].
    seg_embed: [2,N,1,H], the vectors for "same segment" and "another segment". It and r_s are None
      in a network without segments.
    attention_norm, feed_forward_norm: (gamma, beta), float32 [D] each.
    inner, outer: (kernel, bias) of the feed-forward layer, [D,F], [F] and [F,D], [D].
    """

    q: tf.Tensor
    k: tf.Tensor
    v: tf.Tensor
    r: tf.Tensor
    o: tf.Tensor
    r_w: tf.Tensor
    r_r: tf.Tensor
    r_s: tf.Tensor | None
    seg_embed: tf.Tensor | None
    attention_norm: Norm
    inner: Dense
    outer: Dense
    feed_forward_norm: Norm


# ---- from scores by distance to scores by key (Transformer-XL, appendix B) ----


def relative_shift(
    x: tf.Tensor, num_keys: int, first_distance_index: tf.Tensor | None = None
) -> tf.Tensor:
    """Takes, for query i and key j, the score at their distance (Transformer-XL, appendix B).

    Args:
      x: [B,N,T,R], the score of query i at the distance of index r; distance d has index K - d.
      num_keys: K.
      first_distance_index: as in `Stream`.

    Returns:
      [B,N,T,K] with `y[i, j] = x[i, first_distance_index[i] + j]`, as key j is M + i - j away from
      position i.
    """
    if first_distance_index is None:
        return _shifted_rows(x, num_keys)

    # For each key the index of its distance. For the gradient, for each distance the index of the
    # key that has it, or K, that of an added zero: with first_distance_index 1, K = 2, R = 4 it is
    # 2 0 1 2, so that `a b` -> `0 a b 0`. Both are computed in the forward pass, where TensorFlow
    # merges equal operations of all layers.
    dtype = first_distance_index.dtype
    first = first_distance_index[:, :, None]  # [B,T,1]
    distance_index = first + count_to(num_keys, dtype)  # [B,T,K]
    num_distances = shape_of(x)[3]
    key_index = count_to(num_distances, dtype) - first  # [B,T,R]
    zero_index = tf.cast(num_keys, dtype)
    has_no_key = (key_index < 0) | (key_index >= zero_index)
    key_index = tf.where_v2(has_no_key, zero_index, key_index)

    @tf.custom_gradient
    def shift(x: tf.Tensor) -> Any:
        """The scores by key [B,N,T,K] of x [B,N,T,R]; and `gradient`, for `tf.custom_gradient`."""

        # The gradient is a gather, too; TensorFlow's own would be a scatter, which is slower.
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            with_zero = tf.pad(dy, [[0, 0], [0, 0], [0, 0], [0, 1]])
            return gather_keys(with_zero, key_index)

        return gather_keys(x, distance_index), gradient

    return shift(x)


def _shifted_rows(x: tf.Tensor, num_keys: int) -> tf.Tensor:
    """`relative_shift` of x [B,N,Q,R] where all positions of the sequence are queries, in their
    order: [B,N,Q,K]."""
    batch, heads, length, distances = shape_of(x)

    # In memory, a row begins R cells after the row before, and its first wanted column is one
    # further to the left. If the first Q cells are dropped, and the rest is read as rows of R - 1
    # cells, each row begins at its first wanted column. Example with Q = 2, K = 2, R = 4:
    #
    #     a b c d | e f g h   ->   c d e | f g h   ->   c d | f g
    #
    # The gradient goes the same steps backward, in a twentieth of the time of TensorFlow's, which
    # writes slices:
    #
    #     c d | f g   ->   c d 0 | f g 0   ->   0 0 c d | 0 f g 0
    @tf.custom_gradient
    def shift(x: tf.Tensor) -> Any:
        """The scores by key [B,N,Q,K] of x [B,N,Q,R]; and `gradient`, for `tf.custom_gradient`."""

        def gradient(dy: tf.Tensor) -> tf.Tensor:
            """The gradient of x [B,N,Q,R], from that of the scores by key, dy [B,N,Q,K]: zeros for
            the scores that no key reads."""
            added = distances - 1 - num_keys
            rows = tf.pad(dy, [[0, 0], [0, 0], [0, 0], [0, added]])  # [B,N,Q,R-1]
            cells = tf.reshape(rows, [batch, heads, length * (distances - 1)])
            cells = tf.pad(cells, [[0, 0], [0, 0], [length, 0]])  # [B,N,Q*R]
            return tf.reshape(cells, [batch, heads, length, distances])

        cells = tf.reshape(x, [batch, heads, length * distances])
        cells = cells[:, :, length:]  # [B,N,Q*(R-1)]
        rows = tf.reshape(cells, [batch, heads, length, distances - 1])
        return rows[..., :num_keys], gradient  # [B,N,Q,K]

    return shift(x)


def gather_keys(x: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Reads x [B,N,T,R] along its last axis: `y[b, n, t, k] = x[b, n, t, index[b, t, k]]`.

    index: int [B or 1,T,K]; y: [B,N,T,K].
    """
    batch, heads, num_queries, num_distances = shape_of(x)
    num_keys = shape_of(index)[-1]
    # All heads are read at the same indices, so they are transposed to be adjacent: a gather costs
    # by the number of slices, not by their size. A slice is a row [N] of a matrix [B*T*R,N], where
    # the R rows of a query begin R rows after those of the query before.
    heads_inside = tf.transpose(x, [0, 2, 3, 1])  # [B,T,R,N]
    slices = tf.reshape(heads_inside, [batch * num_queries * num_distances, heads])
    query = count_to(batch * num_queries, index.dtype)
    begins = query * tf.cast(num_distances, index.dtype)  # [B*T]
    rows = index + tf.reshape(begins, [batch, num_queries, 1])  # [B,T,K]
    y = tf.gather(slices, tf.reshape(rows, [-1]))  # [B*T*K,N]
    y = tf.reshape(y, [batch, num_queries, num_keys, heads])
    return tf.transpose(y, [0, 3, 1, 2])


# ---- layer norm, activations ----


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Normalizes the last axis of x [...,D] in float32, scales by gamma and shifts by beta, float32
    [D] each."""
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, axes=[-1], keep_dims=True)
    normal = (wide - mean) * tf.rsqrt(variance + LAYER_NORM_EPSILON)
    return tf.cast(normal * gamma + beta, x.dtype)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, tanh form (https://arxiv.org/abs/1606.08415, section 2)."""
    if x.dtype == tf.float16:  # x^3 would be infinite beyond 40, and the slope NaN
        return tf.cast(gelu(tf.cast(x, tf.float32)), tf.float16)
    return tf2.nn.gelu(x, approximate=True)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """The exact form, with the error function; `gelu` in Hugging Face Transformers."""
    return tf2.nn.gelu(x, approximate=False)


ACTIVATIONS = {"relu": tf.nn.relu, "gelu": gelu, "gelu_erf": gelu_erf}
