"""The tuned forms of a layer's parts, which runs use on all devices: explicit gradients,
elementwise work in loops compiled by XLA.

`modeling` chooses between this form of attention and the others. Each form computes what the plain
one does, in `modeling` and `kernels`, up to rounding. The dropout masks of loops and of XLA are
others.

Gradients are named by what they are the gradient of: dx is that of x; dy is the gradient of a
function's output, which its gradient function gets.

Shape letters: B batch, Q positions of the sequence, K keys, T query positions of a stream, R
relative distances, S segment ids, N heads, H d_head, D d_model, F d_inner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model.kernels import (
    ACTIVATIONS,
    LAYER_NORM_EPSILON,
    NO_DROPOUT,
    NUM_SEGMENTS,
    Dense,
    Dropout,
    Stream,
    Weights,
    relative_shift,
)
from xlnet.model.ops import dense, dense_back, in_rows, repeated, shape_of
from xlnet.model.stateless_random import hashed

# How elementwise work enters TensorFlow's graph. "inference": TensorFlow runs one operation after
# the other, without gradients. "operations": the same with explicit gradients. "loops": XLA
# compiles each function to one loop. "xla", "tpu": XLA compiles the step, and fuses it.
Form = Literal["inference", "operations", "loops", "xla", "tpu"]

LOOPS_FROM = 1024  # d_inner from which loops save more time than compiling them takes


# ---- the choice ----


def form_of(device: str, is_training: bool, d_inner: int) -> Form:
    """The form of a run's elementwise work.

    Args:
      device: "cpu", "gpu", "tpu", "xla" or "plain", as in `RunConfig`.
      is_training: whether gradients are computed.
      d_inner: F.
    """
    if not is_training:
        return "inference"
    if device == "tpu":
        return "tpu"
    if device == "xla":
        return "xla"
    if device == "cpu" and d_inner >= LOOPS_FROM:
        return "loops"  # not on a GPU, where --xla compiles the complete step
    return "operations"


# ---- elementwise functions, and dropout in them ----


def run_elementwise(
    form: Form, function: Callable[..., Any], constants: tuple, *tensors: tf.Tensor
) -> Any:
    """An elementwise `function(*constants, *tensors)`, computed in a `Form`: a tensor or several.

    The form "loops": TensorFlow would read and write memory for each operation, and round to
    bfloat16 after it. XLA compiles all operations of the function to one loop over the elements,
    once for each shape, in less than 0.1 s. It computes in float32: tensors of the same dtype as
    the first one are cast to float32 before, and the results back to that dtype. Callers give their
    own gradients, by `tf.custom_gradient`. All calls in a graph with the same function and
    constants share the compiled code.

    Args:
      form: how it is computed.
      function: elementwise, of the constants and then the tensors.
      constants: hashable, the same in each run of the graph.
      tensors: at least one.
    """
    if form != "loops":
        return function(*constants, *tensors)

    def in_float32(*tensors: tf.Tensor) -> Any:
        """`function`, with the tensors that have the dtype of the first one as float32; its results
        in that dtype."""
        dtype = tensors[0].dtype
        cast = []
        for x in tensors:
            # Others, such as masks and seeds, stay as they are.
            cast.append(tf.cast(x, tf.float32) if x.dtype == dtype else x)
        results = function(*constants, *cast)
        return tf.nest.map_structure(lambda x: tf.cast(x, dtype), results)

    # The compiled functions are kept as an attribute of the graph: they can only be called in the
    # graph in which they were made, and are freed together with it. `init_scope` leaves the graphs
    # of functions, which share the loops of the graph around them.
    with tf.init_scope():
        graph = tf.get_default_graph()
    if not hasattr(graph, "loops"):
        graph.loops = {}
    key = function, constants
    if key not in graph.loops:
        graph.loops[key] = tf2.function(in_float32, jit_compile=True, autograph=False)
    return graph.loops[key](*tensors)


def mask_source_of(
    x_shape: Sequence[Any], drops: Dropout, form: Form
) -> list[tf.Tensor]:
    """The last arguments of `where_kept`, for the dropout mask of a tensor of shape `x_shape`: []
    without dropout; [the mask], for "operations"; else [its seed, `Dropout.first_index`], from
    which both the forward and the backward pass compute it, so that no tensor of the shape is kept.

    XLA hashes the mask where it is used; Philox's random bits would be computed and stored first,
    which took a sixth of a step on an H100.
    """
    if not drops.rate:
        return []
    if form == "operations":
        return [drops.kept(x_shape)]
    return [drops.seed, tf.convert_to_tensor(drops.first_index)]


def where_kept(threshold: int, x: tf.Tensor, *mask_source: tf.Tensor) -> tf.Tensor:
    """x [B,...] with zeros where it is dropped; the others are not scaled yet.

    threshold: `Dropout.dropped_of_65536`. mask_source: as `mask_source_of` returns it: nothing, the
    mask, or the seed and the first index.
    """
    if not mask_source:
        return x
    if len(mask_source) == 1:
        kept = mask_source[0]
    else:
        bits = hashed(shape_of(x), *mask_source)
        # 32 bits here: the fraction threshold / 65536 of all numbers is below.
        kept = bits >= tf.constant(threshold << 16, tf.uint32)
    return tf.where_v2(kept, x, tf.zeros([], x.dtype))


def dropout(form: Form, x: tf.Tensor, drops: Dropout) -> tf.Tensor:
    """Zeroes elements of x [B,...] and scales up the others, as `kernels.dropout` does. The
    gradient takes the dropout mask from the same source."""
    if not drops.rate:
        return x
    mask_source = mask_source_of(shape_of(x), drops, form)
    constants = drops.dropped_of_65536, drops.scale

    @tf.custom_gradient
    def drop(x: tf.Tensor) -> Any:
        """x after dropout; and `gradient`, for `tf.custom_gradient`."""

        def gradient(dy: tf.Tensor) -> tf.Tensor:
            return run_elementwise(
                form, _scaled_where_kept, constants, dy, *mask_source
            )

        return run_elementwise(
            form, _scaled_where_kept, constants, x, *mask_source
        ), gradient

    return drop(x)


def _scaled_where_kept(
    threshold: int, scale: float, x: tf.Tensor, *mask_source: tf.Tensor
) -> tf.Tensor:
    """x with zeros where it is dropped, and the other elements times `scale`; threshold and
    mask_source: as in `where_kept`."""
    return where_kept(threshold, x * scale, *mask_source)


# ---- relative attention ----


def relative_attention(
    form: Form,
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    k_r: tf.Tensor,
    weights: Weights,
    stream: Stream,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """Attention with relative positions and segments, [B,N,T,H], as `modeling.relative_attention`
    specifies it.

    The score is made of two matmuls, one of the content and the segment term, and one of the
    position term.

    Args:
      form: how elementwise work is computed.
      q: queries [B,N,T,H].
      k: keys [B,N,K,H].
      v: values [B,N,K,H].
      k_r: keys of the relative distances, [B or 1,N,R,H].
      weights: r_w, r_r, r_s and seg_embed of the layer are read.
      stream: its mask is an `AdditiveMask`.
      drops: the dropout of the probabilities.
    """
    scale = 1.0 / math.sqrt(shape_of(q)[3])
    q = q * scale  # q is scaled rather than the scores, which are larger
    wide_q, wide_k = widened(q, k, weights, stream, scale)
    score = tf.matmul(wide_q, wide_k, transpose_b=True)  # [B,N,T,K]
    k_r = repeated(k_r, shape_of(q)[0])
    by_distance = tf.matmul(q + weights.r_r * scale, k_r, transpose_b=True)  # [B,N,T,R]
    score += relative_shift(by_distance, shape_of(k)[2], stream.first_distance_index)
    return attend(form, score, v, stream, drops)


def widened(
    q: tf.Tensor, k: tf.Tensor, weights: Weights, stream: Stream, scale: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Queries [B,N,T,H+S] and keys [B,N,K,H+S] whose product is the content and the segment term;
    without segments [B,N,T,H] and [B,N,K,H].

    Args:
      q: queries [B,N,T,H], already multiplied by `scale`, as the score is a multiple of them.
      k: keys [B,N,K,H].
      weights: r_w, r_s and seg_embed of the layer.
      stream: its segments are read.
      scale: 1 / sqrt(H).
    """
    # The content and the segment term are one matmul of wider queries and keys. A key is
    # concatenated with its segment, one-hot; a query with its score for "same segment" at its own
    # segment. Softmax ignores terms that are equal for all keys of a query, so that score is
    # s = (q + r_s)(same - other), and 0 for other segments. A query of segment 0, and three keys:
    #
    #     wide_q                wide_k: [k_0 | 1 0], [k_1 | 1 0], [k_2 | 0 1]
    #     [q + r_w | s 0]       scores: content + s, content + s, content
    wide_q, wide_k = q + weights.r_w * scale, k
    if stream.segments is not None:
        assert weights.r_s is not None
        same, other = tf.unstack(weights.seg_embed)  # [N,1,H]
        # s is computed as vector times matrix, which takes half the time of matrix times vector.
        difference = repeated((same - other)[None], shape_of(q)[0])  # [B,N,1,H]
        q_s = q + weights.r_s * scale
        towards_same = tf.matmul(difference, q_s, transpose_b=True)  # [B,N,1,T]
        towards_same = tf.reshape(towards_same, shape_of(q)[:3] + [1])  # [B,N,T,1]
        # One-hot segments, the same for all heads: [B,1,T,S] and [B,1,K,S].
        of_queries = tf.one_hot(stream.segments, NUM_SEGMENTS, dtype=q.dtype)[:, None]
        of_keys = tf.one_hot(stream.key_segments, NUM_SEGMENTS, dtype=k.dtype)[:, None]
        wide_q = tf.concat([wide_q, towards_same * of_queries], axis=-1)
        of_keys = tf.broadcast_to(of_keys, shape_of(k)[:3] + [NUM_SEGMENTS])
        wide_k = tf.concat([wide_k, of_keys], axis=-1)
    return wide_q, wide_k


def attend(
    form: Form, score: tf.Tensor, v: tf.Tensor, stream: Stream, drops: Dropout
) -> tf.Tensor:
    """softmax(score + mask) v with dropout of the probabilities: [B,N,T,H]. `kernels_tpu` calls it,
    too.

    TensorFlow's own gradient would keep several tensors as large as the scores; this one keeps the
    probabilities.

    Args:
      form: how elementwise work is computed.
      score: [B,N,T,K].
      v: values [B,N,K,H].
      stream: its mask is an `AdditiveMask`; a query that sees no key gets zeros.
      drops: the dropout of the probabilities.
    """
    mask = stream.mask
    threshold, scale = drops.dropped_of_65536, drops.scale
    mask_source = mask_source_of(shape_of(score), drops, form)

    @tf.custom_gradient
    def from_scores(score: tf.Tensor, v: tf.Tensor) -> Any:
        """The output [B,N,T,H]; and `gradient`, for `tf.custom_gradient`."""
        # The softmax is float32 in every precision: bfloat16 loses a sum of many small numbers.
        masked_score = tf.cast(score, tf.float32)
        if mask is not None:
            masked_score += mask.bias
        p = tf.cast(_softmax(form, masked_score), v.dtype)  # [B,N,T,K]
        dropped_out_p = run_elementwise(form, where_kept, (threshold,), p, *mask_source)
        # The scale of dropout is applied after the matmul, where the tensor is narrower.
        output = tf.matmul(dropped_out_p, v) * scale  # [B,N,T,H]

        def gradient(dy: tf.Tensor) -> Any:
            """The gradients of score [B,N,T,K] and of v [B,N,K,H], from that of the output."""
            # Go back through dropout and the softmax to the gradient of the scores. For one query
            # with the probabilities p, d = dropout(p), which is scaled, and the output o it is
            # dscore = d (v dy) - p sum(o dy). Here the scale of d is in dy.
            #
            # Three keys, H = 1, no dropout: p = [.5, .3, .2], v = [1, 2, 0] give o = 1.1. With
            # dy = 1, v dy is [1, 2, 0] and sum(o dy) = 1.1, so dscore = p ([1, 2, 0] - 1.1)
            # = [-.05, .27, -.22], which sums to 0, as adding a constant to all scores changes
            # nothing.
            scaled_dy = dy * scale  # [B,N,T,H]
            dp = tf.matmul(scaled_dy, v, transpose_b=True)  # [B,N,T,K]
            products = tf.cast(output * dy, tf.float32)  # [B,N,T,H]
            total = tf.reduce_sum(products, axis=-1, keepdims=True)  # [B,N,T,1]
            total = tf.cast(total, p.dtype)
            dscore, dropped_out_p = run_elementwise(
                form, _score_gradient, (threshold,), p, dp, total, *mask_source
            )  # [B,N,T,K] both
            return dscore, tf.matmul(dropped_out_p, scaled_dy, transpose_a=True)

        return output, gradient

    heads = from_scores(score, v)
    if mask is None or mask.has_visible_key is None:
        return heads
    return heads * tf.cast(mask.has_visible_key, heads.dtype)


def _softmax(form: Form, score: tf.Tensor) -> tf.Tensor:
    """The softmax over the last axis of float32 scores: probabilities of the same shape."""
    if form != "tpu":
        return tf.nn.softmax(score)
    # `tf.nn.softmax` divides exponentials by their sum, and XLA would store the exponentials, in
    # float32; here it computes them twice. The largest score is subtracted first: large numbers
    # would lose the digits of the logarithm.
    score -= tf.reduce_max(score, axis=-1, keepdims=True)
    total = tf.reduce_sum(tf.exp(score), axis=-1, keepdims=True)
    return tf.exp(score - tf.math.log(total))


def _score_gradient(
    threshold: int,
    p: tf.Tensor,
    dp: tf.Tensor,
    total: tf.Tensor,
    *mask_source: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradient of the score, and p after dropout, not scaled: [B,N,T,K] each.

    The elementwise part of the gradient in `attend`, with the output o and its gradient dy.

    Args:
      threshold: as in `where_kept`.
      p: the probabilities [B,N,T,K].
      dp: v times dy, which has the scale of dropout, [B,N,T,K].
      total: sum(o dy) of each query, [B,N,T,1].
      mask_source: as in `where_kept`.
    """
    dropped_out_p = where_kept(threshold, p, *mask_source)
    return dropped_out_p * dp - p * total, dropped_out_p


# ---- feed-forward layer ----


def feed_forward(
    form: Form,
    x: tf.Tensor,
    inner: Dense,
    outer: Dense,
    activation: str,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """dense(dropout(activation(dense(x)))): [B,T,D] -> [B,T,D].

    Args:
      form: how it is computed.
      x: [B,T,D].
      inner: kernel [D,F] and bias [F].
      outer: kernel [F,D] and bias [D].
      activation: of `ACTIVATIONS`.
      drops: the dropout between the two.
    """
    if form == "inference":  # without dropout
        # TensorFlow fuses a matmul with the bias and the activation that follow it.
        z = tf.nn.bias_add(tf.matmul(in_rows(x), inner[0]), inner[1])  # [B*T,F]
        value = ACTIVATIONS[activation](z)
        y = tf.nn.bias_add(tf.matmul(value, outer[0]), outer[1])
        return tf.reshape(y, shape_of(x))

    # For the backward pass are kept: x, z [B,T,F] and, in the form "operations", the dropout mask.
    # It computes the activation of z again, as it needs its parts for the slope.
    constants = activation, drops.dropped_of_65536  # of the elementwise functions below
    scale = drops.scale
    z_shape = shape_of(x)[:-1] + inner[0].shape.as_list()[1:]  # [B,T,F]
    mask_source = mask_source_of(z_shape, drops, form)

    @tf.custom_gradient
    def feed(x: tf.Tensor, *weights: tf.Tensor) -> Any:
        """The output [B,T,D]; and `gradient`, for `tf.custom_gradient`."""
        kernel, bias, outer_kernel, outer_bias = weights
        z = dense(x, kernel, bias)  # [B,T,F]

        def gradient(dy: tf.Tensor) -> Any:
            """The gradients of x, kernel, bias, outer_kernel and outer_bias, from that of the
            output."""
            # A copy of z that is made in the backward pass: TensorFlow would merge the activation
            # of z itself with that of the forward pass, and keep it until here.
            with tf.control_dependencies([dy]):
                z_again = tf.identity(z)
            scaled_dy = dy * scale
            dvalue = dense_back(scaled_dy, outer_kernel)  # [B,T,F]
            dz, value = run_elementwise(
                form, _activation_gradient, constants, z_again, dvalue, *mask_source
            )
            return (
                dense_back(dz, kernel),
                tf.matmul(in_rows(x), in_rows(dz), transpose_a=True),
                column_sums(dz),
                tf.matmul(in_rows(value), in_rows(scaled_dy), transpose_a=True),
                column_sums(dy),
            )

        value = run_elementwise(form, _activated, constants, z, *mask_source)  # [B,T,F]
        # The scale of dropout is applied after the matmul, where the tensor is narrower.
        return dense(value, outer_kernel) * scale + outer_bias, gradient

    return feed(x, *inner, *outer)


def column_sums(x: tf.Tensor) -> tf.Tensor:
    """The sum of x [...,D] over all but the last axis: [D], in the dtype of x.

    `BiasAddGrad` takes half the time of `tf.reduce_sum`, but sums bfloat16 in bfloat16, which loses
    most of many small numbers.
    """
    rows = in_rows(x)
    # `tf.reduce_sum` sums bfloat16 in float32.
    if x.dtype == tf.bfloat16:
        return tf.reduce_sum(rows, axis=0)
    sums = tf.raw_ops.BiasAddGrad(out_backprop=tf.cast(rows, tf.float32))
    return tf.cast(sums, x.dtype)


def _activated(
    activation: str, threshold: int, z: tf.Tensor, *mask_source: tf.Tensor
) -> tf.Tensor:
    """The activation of z after dropout: zeroed, not yet scaled."""
    value, _ = VALUE_AND_SLOPE[activation](z)
    return where_kept(threshold, value, *mask_source)


def _activation_gradient(
    activation: str,
    threshold: int,
    z: tf.Tensor,
    dvalue: tf.Tensor,
    *mask_source: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradient of z, and `_activated` again, in the shape of z. dvalue: the gradient of what
    `_activated` returns, with the scale of dropout."""
    value, slope = VALUE_AND_SLOPE[activation](z)
    dz = where_kept(threshold, dvalue, *mask_source) * slope
    return dz, where_kept(threshold, value, *mask_source)


def gelu(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`kernels.gelu` and its slope.

    0.5 x (1 + tanh(u)) = x sigmoid(2 u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
    """
    # 2 u = linear x + cubic x^3
    linear = 2.0 * math.sqrt(2.0 / math.pi)
    cubic = 0.044715 * linear
    # x^2 is clipped to 100^2: 256^2 overflows float16, and the slope would be 0 times infinity.
    # Beyond |x| = 10 the gate is 0 or 1 in any case.
    square = tf.minimum(x * x, tf.constant(1e4, x.dtype))
    gate = tf.sigmoid(x * (linear + cubic * square))
    value = x * gate
    return value, gate + value * (1.0 - gate) * (linear + 3.0 * cubic * square)


def gelu_erf(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`kernels.gelu_erf` and its slope: x P(X <= x) for a standard normal X."""
    below = 0.5 * (1.0 + tf.math.erf(x * math.sqrt(0.5)))  # P(X <= x)
    density = tf.exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi))
    return x * below, below + x * density


def relu(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The positive part of x, and its slope."""
    return tf.nn.relu(x), tf.cast(x > 0, x.dtype)


VALUE_AND_SLOPE = {"relu": relu, "gelu": gelu, "gelu_erf": gelu_erf}


# ---- layer norm ----


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Normalizes the last axis of x [...,D], scales by gamma and shifts by beta, float32 [D] each,
    as `kernels.layer_norm` does. The gradient is explicit: it keeps one tensor of the shape of x,
    the normalized x."""

    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        """x normalized, scaled and shifted; and `gradient`, for `tf.custom_gradient`."""
        wide = tf.cast(x, tf.float32)
        centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        inverse = tf.rsqrt(variance + LAYER_NORM_EPSILON)
        normal = centred * inverse

        # With n the normalized x and g its gradient, the gradient of x is
        # (g - mean(g) - n mean(g n)) / deviation: n and the deviation are all that it needs.
        def gradient(dy: tf.Tensor) -> Any:
            """The gradients of x, gamma and beta, from that of the output."""
            dy = tf.cast(dy, tf.float32)
            dn = dy * gamma  # g
            mean_gn = tf.reduce_mean(dn * normal, axis=-1, keepdims=True)
            mean_g = tf.reduce_mean(dn, axis=-1, keepdims=True)
            dx = (dn - mean_g - normal * mean_gn) * inverse
            return tf.cast(dx, x.dtype), column_sums(dy * normal), column_sums(dy)

        return tf.cast(normal * gamma + beta, x.dtype), gradient

    return normalize(x, gamma, beta)
