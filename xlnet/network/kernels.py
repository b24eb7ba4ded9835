"""The kernels of a layer behind one interface, `Kernels`: relative attention, the feed-forward
layer, layer norm, dropout.

The plain form of each, here, is its specification: tests compare the other forms with it, and XLA
compiles it. `kernels_cpu` has forms for uncompiled TensorFlow. Tensors only, no variables. Shape
letters as in `modeling`; T query positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.network.ops import dense, shape_of
from xlnet.network.relative_shift import relative_shift
from xlnet.network.stateless_random import bits16

LAYER_NORM_EPSILON = 1e-12
MASKED_SCORE = -1e30        # added to the score of a masked key; scores are always float32


class Kernels(NamedTuple):
    """The forms that a run uses: functions with the signatures below."""
    relative_attention: Callable[..., tf.Tensor]
    feed_forward: Callable[..., tf.Tensor]
    layer_norm: Callable[..., tf.Tensor]
    dropout: Callable[..., tf.Tensor]


# ---- dropout ----

class Dropout(NamedTuple):
    """A dropout mask: a function of `seed`, see `stateless_random`, and of the batch element.

    Attributes:
      rate: the fraction of elements that is dropped; 0: off.
      seed: uint64 [1].
      first_row: the index of batch element 0 in the global batch, an int or a scalar; None: batch
        elements have no index.
    """
    rate: float = 0.
    seed: Optional[tf.Tensor] = None
    first_row: Any = None

    @property
    def dropped_of_65536(self) -> int:
        """The rate as a threshold for 16 random bits."""
        return min(65535, max(1, round(self.rate * 65536))) if self.rate else 0

    @property
    def scale(self) -> float:
        """The factor of the elements that are kept."""
        return 65536. / (65536 - self.dropped_of_65536)

    def kept(self, shape: Sequence[Any]) -> tf.Tensor:
        """bool of `shape` [B,...], True where an element is kept."""
        return bits16(shape, self.seed, self.first_row) >= tf.constant(
            self.dropped_of_65536, tf.uint16)


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
    """An attention mask.

    Attributes:
      bias: float32 [B or 1,1,T or 1,K], added to scores, `MASKED_SCORE` where masked.
      has_visible_key: float32 [B or 1,1,T or 1,1], 0 for a query that sees no key; None: all see
        some.
    """
    bias: tf.Tensor
    has_visible_key: Optional[tf.Tensor] = None


def mask_of(masked: tf.Tensor, may_see_nothing: bool = True) -> Mask:
    """The `Mask` of a bool tensor.

    Args:
      masked: bool [B or 1,T or 1,K], True where a query may not see a key.
      may_see_nothing: False if every query is known to see some key, such as itself.
    """
    bias = tf.cast(masked, tf.float32)[:, None] * MASKED_SCORE
    if not may_see_nothing:
        return Mask(bias)
    return Mask(bias, tf.cast(~tf.reduce_all(masked, axis=-1), tf.float32)[:, None, :, None])


def relative_attention(q: tf.Tensor, keys: Keys, biases: Biases, mask: Optional[Mask] = None,
                       segments: Optional[tf.Tensor] = None,
                       first_distance: Optional[tf.Tensor] = None,
                       drops: Dropout = NO_DROPOUT) -> tf.Tensor:
    """Attention with relative positions and segments (paper, section 2.5, appendix A.2).

    Args:
      q: [B,N,T,H].
      keys: `Keys`.
      biases: `Biases`.
      mask: None: every query sees every key. A query that sees no key gets zeros.
      segments: [B,1,T,S] one-hot, of the queries; or None.
      first_distance: int [B,T], the index of the distance between each query and the first key.
        None: the queries are the complete sequence, Q - i for query i.
      drops: dropout of the probabilities.

    Returns:
      [B,N,T,H].
    """
    scores = relative_scores(q, keys, biases, segments, shift=lambda by_distance: relative_shift(
        by_distance, shape_of(keys.k)[2], first_distance))
    probabilities = tf.cast(masked_softmax(scores, mask), q.dtype)                   # [B,N,T,K]
    return tf.matmul(dropout(probabilities, drops), keys.v)


def relative_scores(q: tf.Tensor, keys: Keys, biases: Biases, segments: Optional[tf.Tensor],
                    shift: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """The sum of content, position and segment term, scaled: float32 [B,N,T,K].

    Args as in `relative_attention`; shift: function from scores by distance [B,N,T,R] to scores by
    key [B,N,T,K].
    """
    scores = tf.matmul(q + biases.r_w, keys.k, transpose_b=True)                     # [B,N,T,K]
    if keys.k_r.shape[0] == 1:      # a matmul does not broadcast: see `ops.repeated`
        by_distance = tf.einsum("bnth,nrh->bntr", q + biases.r_r, keys.k_r[0])       # [B,N,T,R]
    else:
        by_distance = tf.matmul(q + biases.r_r, keys.k_r, transpose_b=True)
    scores += shift(by_distance)
    if segments is not None:
        same, other = (tf.reduce_sum((q + biases.r_s) * vector, axis=-1, keepdims=True)
                       for vector in tf.unstack(biases.seg_embed))                   # [B,N,T,1]
        scores += tf.where_v2(tf.matmul(segments, keys.segments, transpose_b=True) > 0, same, other)
    return tf.cast(scores, tf.float32) / math.sqrt(shape_of(q)[3])


def masked_softmax(scores: tf.Tensor, mask: Optional[Mask]) -> tf.Tensor:
    """Probabilities of the visible keys, float32 [B,N,T,K]. A query that sees no key gets zeros; in
    the original implementation it attends equally to all keys."""
    if mask is None:
        return tf.nn.softmax(scores)
    probabilities = tf.nn.softmax(scores + mask.bias)
    return probabilities if mask.has_visible_key is None else probabilities * mask.has_visible_key


# ---- feed-forward layer, layer norm ----

def feed_forward(x: tf.Tensor, inner: tuple[tf.Tensor, tf.Tensor],
                 outer: tuple[tf.Tensor, tf.Tensor], activation: str,
                 drops: Dropout = NO_DROPOUT) -> tf.Tensor:
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
    if x.dtype == tf.float16:       # x^3 would be infinite beyond 40, and the slope NaN
        return tf.cast(gelu(tf.cast(x, tf.float32)), tf.float16)
    return tf2.nn.gelu(x, approximate=True)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """The exact form, with the error function; `gelu` in Hugging Face Transformers."""
    return tf2.nn.gelu(x, approximate=False)


ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "relu": tf.nn.relu, "gelu": gelu, "gelu_erf": gelu_erf}

PLAIN = Kernels(relative_attention, feed_forward, layer_norm, dropout)
