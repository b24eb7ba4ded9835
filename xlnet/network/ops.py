"""Operations with hand-written gradients: cheaper in time or memory than what TensorFlow derives.

They know tensors only, no variables and no settings. Shape letters as in `modeling`.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.network.noise import bits16, hashed

LAYER_NORM_EPSILON = 1e-12


def gradients(y: tf.Tensor, xs: Sequence[tf.Tensor], dy: Optional[tf.Tensor] = None
              ) -> list[Optional[tf.Tensor]]:
    """`tf.gradients`, with what reaches a tensor from several sides summed two at a time.

    TensorFlow's sum of more writes over the first of them that nobody else reads any more, and
    begins with it: where operations run side by side, its last bit depends on which ends first.
    """
    with _sums_of_two():
        return tf.gradients(y, xs, dy)


@contextlib.contextmanager
def _sums_of_two():
    """Makes this the default way, as no argument reaches the gradients within functions."""
    before = tf.AggregationMethod.DEFAULT
    tf.AggregationMethod.DEFAULT = tf.AggregationMethod.EXPERIMENTAL_TREE
    try:
        yield
    finally:
        tf.AggregationMethod.DEFAULT = before


def recomputed(function: Callable[..., tf.Tensor], *inputs: Any) -> tf.Tensor:
    """`function(*inputs)`, one tensor, without keeping what it computes on the way.

    The backward pass runs `function` again, so it must be a function of its inputs alone: it reads
    no variables, and its noise comes from a seed among the inputs. `inputs`: nests of tensors; what
    is not a tensor is passed on as it is.
    """
    leaves = tf.nest.flatten(inputs)
    places = [i for i, leaf in enumerate(leaves) if tf.is_tensor(leaf)]

    def call(tensors):
        filled = dict(zip(places, tensors))
        return function(*tf.nest.pack_sequence_as(
            inputs, [filled.get(i, leaf) for i, leaf in enumerate(leaves)]))

    @tf.custom_gradient
    def forward(*tensors):
        def gradient(dy):
            with tf.control_dependencies([dy]):  # not before the backward pass is here
                again = [tf.identity(x) for x in tensors]
            with tf.name_scope("recomputed"):
                return gradients(call(again), again, dy)
        return call(tensors), gradient
    return forward(*(leaves[i] for i in places))


def built_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with operations that are made once, with those of its gradient, however often it
    is called with tensors of the same shapes.

    It must be a function of its inputs, nests of tensors, alone; a variable among them would be
    that of the first call for ever. Each call is one operation, until a session puts the function's
    own in its place: see `distribution.session_config`.
    """
    made = tf2.function(lambda *inputs: function(*inputs), autograph=False)

    def call(*inputs):
        assert not any(isinstance(leaf, tf2.Variable) for leaf in tf.nest.flatten(inputs))
        return made(*inputs)
    return call


def shape_of(x: tf.Tensor) -> list[Any]:
    """The shape as a list: Python ints where they are static, scalar tensors elsewhere."""
    sizes = x.shape.as_list()
    if None not in sizes:
        return sizes
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(sizes)]


def count_to(size: Any, dtype: tf.DType) -> tf.Tensor:
    """0, 1, ... size - 1 in `dtype`: [size]; `size` as `shape_of` gives it.

    Without `tf.range`, which counts on the host.
    """
    if isinstance(size, int):
        return tf.constant(np.arange(size), dtype)
    return tf.cumsum(tf.fill([size], tf.ones([], dtype)), exclusive=True)


def lookup(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Rows of table [V,D] by ids [B,T]: [B,T,D]. The gradient is dense, as that of a table that is
    the softmax's too has to be."""
    @tf.custom_gradient
    def run(table):
        def gradient(dy):
            size, width = table.shape.as_list()
            return tf.math.unsorted_segment_sum(
                tf.reshape(dy, [-1, width]), tf.reshape(ids, [-1]), size)
        return tf.gather(table, ids), gradient
    return run(table)


def gather_rows(x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Rows [B,P] of x [B,T,D]: [B,P,D]."""
    @tf.custom_gradient
    def run(x, rows):
        batch, length, width = shape_of(x)

        def gradient(dy):
            begins = count_to(batch, rows.dtype) * tf.cast(length, rows.dtype)       # [B]
            dx = tf.math.unsorted_segment_sum(
                tf.reshape(dy, [-1, width]), tf.reshape(rows + begins[:, None], [-1]),
                batch * length)
            return tf.reshape(dx, [batch, length, width]), None
        return tf.gather(x, rows, batch_dims=1), gradient
    return run(x, rows)


# ---- dropout ----

class Dropout(NamedTuple):
    """Which elements of a tensor stay: a function of `seed`, see `noise`, and of the row.

    rate: the share that does not; 0: all stay. seed: uint64 [1]. first_row: the index of the first
    row in a larger batch that the noise is drawn for; None: there is none.
    """
    rate: float = 0.
    seed: Optional[tf.Tensor] = None
    first_row: Any = None

    @property
    def scale(self) -> float:
        """What the elements that stay are multiplied by, for the rate as 16 bits have it."""
        return 65536. / (65536 - _dropped_of_65536(self.rate))

    def noise(self, shape: Sequence[Any], in_loops: bool) -> list[tf.Tensor]:
        """What `where_kept` needs for a tensor of this shape: nothing, which elements stay, or, in
        a `loop`, what tells it of each, so that there is no tensor of the shape to make and keep.

        16 random bits decide on an element, at a third of the cost of a random float32.
        """
        if not self.rate:
            return []
        if in_loops:
            first_row = 0 if self.first_row is None else self.first_row
            return [self.seed, tf.convert_to_tensor(first_row)]
        return [bits16(shape, self.seed, self.first_row)
                >= tf.constant(_dropped_of_65536(self.rate), tf.uint16)]


NO_DROPOUT = Dropout()


def _dropped_of_65536(rate):
    return min(65535, max(1, round(rate * 65536))) if rate else 0


def where_kept(x: tf.Tensor, rate: float, noise: Sequence[tf.Tensor]) -> tf.Tensor:
    """x with zeros where it is dropped, not scaled; `noise`: see `Dropout`, x has the shape."""
    if not noise:
        return x
    keep = noise[0] if len(noise) == 1 else (
        hashed(shape_of(x), *noise) >= tf.constant(_dropped_of_65536(rate) << 16, tf.uint32))
    return tf.where_v2(keep, x, tf.zeros([], x.dtype))


def dropout(x: tf.Tensor, drops: Dropout, in_loops: bool = False) -> tf.Tensor:
    """Zeroes elements, scales up the rest. in_loops: forward and backward are a `loop` each."""
    noise = drops.noise(shape_of(x), in_loops)
    scaled = _scaled_where_kept(drops.rate, drops.scale)
    scaled = loop(scaled) if in_loops else scaled

    @tf.custom_gradient
    def drop(x):
        return scaled(x, *noise), lambda dy: scaled(dy, *noise)
    return drop(x)


@functools.cache
def _scaled_where_kept(rate, scale):
    return lambda x, *noise: where_kept(x * scale, rate, noise)


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: Optional[tf.Tensor] = None) -> tf.Tensor:
    """`x [..., I] @ kernel [I, O] + bias [O]`."""
    y = dense_rows(in_rows(x), kernel, bias)
    return tf.reshape(y, shape_of(x)[:-1] + [kernel.shape[1]])


def dense_rows(x: tf.Tensor, kernel: tf.Tensor, bias: Optional[tf.Tensor] = None) -> tf.Tensor:
    """`dense` of a matrix. TensorFlow may compute what follows it within the product, and rounds
    otherwise then."""
    y = tf.matmul(x, kernel)
    return y if bias is None else tf.nn.bias_add(y, bias)


def dense_back(y: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """`y [..., O] @ kernel [I, O]` transposed: [..., I], the way back through a `dense`."""
    x = tf.matmul(in_rows(y), kernel, transpose_b=True)
    return tf.reshape(x, shape_of(y)[:-1] + [kernel.shape[0]])


def dense_after_memory(memory: Optional[tf.Tensor], x: tf.Tensor, slots: Any,
                       kernels: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """`[memory, h] @ kernel [D,O]` for each kernel: [B,M+Q,O]; memory [B,M,D] or None, h the rows
    of x [B,Q(+P),D] before the last P, `slots`; None: all of them.

    [memory, h] is not kept beside both, and no gradient is computed for the memory, a constant.
    """
    def content(x):
        return x if slots is None else x[:, :-slots]

    if memory is None:
        return [dense(content(x), kernel) for kernel in kernels]

    @tf.custom_gradient
    def run(memory, x, *kernels):
        def joined(x):
            return tf.concat([tf.cast(memory, x.dtype), content(x)], axis=1)        # [B,M+Q,D]

        def gradient(*dys):
            with tf.control_dependencies(dys):      # else it would share the forward's, and keep it
                keys = in_rows(joined(tf.identity(x)))
            of_h = [dy[:, shape_of(memory)[1]:] for dy in dys]                      # [B,Q,O]
            dx = functools.reduce(tf.add, map(dense_back, of_h, kernels))
            if slots is not None:
                dx = tf.pad(dx, [[0, 0], [0, slots], [0, 0]])
            return [None, dx] + [tf.matmul(keys, in_rows(dy), transpose_a=True) for dy in dys]
        keys = joined(x)
        return [dense(keys, kernel) for kernel in kernels], gradient
    return run(memory, x, *kernels)


def in_rows(x: tf.Tensor) -> tf.Tensor:
    """x [...,D] as a matrix [rows,D]."""
    return tf.reshape(x, [-1, x.shape[-1]])


def plus_head_bias(q: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """q [B,N,T,H] + bias [N,1,H]."""
    @tf.custom_gradient
    def add(q, bias):
        def gradient(dy):
            # One axis after the other: both at once take TensorFlow several times as long.
            return dy, tf.reduce_sum(tf.reduce_sum(dy, axis=2, keepdims=True), axis=0)
        return q + bias, gradient
    return add(q, bias)


def along_head_vector(x: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
    """The products of x [B,N,T,H] with vector [N,1,H]: [B,N,T,1]. A row times a matrix, which takes
    half the time of a matrix times a column."""
    products = tf.matmul(vector[None], x, transpose_b=True)                         # [B,N,1,T]
    return tf.reshape(products, shape_of(x)[:3] + [1])


def column_sums(x: tf.Tensor) -> tf.Tensor:
    """x [...,D] over all but the last axis: [D], in half the time of `tf.reduce_sum`."""
    return tf.raw_ops.BiasAddGrad(out_backprop=in_rows(x))


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Normalizes the last axis in float32, then scales by gamma and shifts by beta.

    With n the normalized x and g the gradient that reaches it, that of x is
    (g - mean(g) - n mean(g n)) / deviation; only n and the deviation are kept.
    """
    @tf.custom_gradient
    def normalize(x, gamma, beta):
        wide = tf.cast(x, tf.float32)
        centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        inverse = tf.rsqrt(variance + LAYER_NORM_EPSILON)
        normal = centred * inverse

        def gradient(dy):
            dy = tf.cast(dy, tf.float32)
            dn = dy * gamma
            along = tf.reduce_mean(dn * normal, axis=-1, keepdims=True)
            dx = (dn - tf.reduce_mean(dn, axis=-1, keepdims=True) - normal * along) * inverse
            return tf.cast(dx, x.dtype), column_sums(dy * normal), column_sums(dy)
        return tf.cast(normal * gamma + beta, x.dtype), gradient
    return normalize(x, gamma, beta)


def negative_log_likelihood(logits: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[target]: float32 [T,V], int [T] -> [T], in nats.

    Keeps the probabilities p alone. With m the largest logit, log sum exp = m - log max p, as exact
    as the usual form because max p is at least 1/V; the gradient of the logits is
    (p - one-hot of the target) dy.
    """
    @tf.custom_gradient
    def loss(logits):
        p = tf.nn.softmax(logits)                                                # [T,V]
        log_sum = tf.reduce_max(logits, axis=1) - tf.log(tf.reduce_max(p, axis=1))

        def gradient(dy):
            rows = count_to(shape_of(target)[0], target.dtype)
            cells = tf.stack([rows, target], axis=1)                             # [T,2]
            return tf.tensor_scatter_nd_sub(p * dy[:, None], cells, dy)
        return log_sum - tf.gather(logits, target, batch_dims=1), gradient
    return loss(logits)


# ---- the feed-forward layer's second half ----

def activated_dense(z: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor,
                    activation: Callable[..., Any], drops: Dropout = NO_DROPOUT,
                    in_loops: bool = False) -> tf.Tensor:
    """dropout(activation(z)) kernel + bias, keeping z and the noise, no more.

    The activation is computed again in the backward pass, which needs its parts for the slope: the
    widest tensor of a layer is kept once instead of twice.

    Args:
      z: [B,rows,F]. kernel: [F,D]. bias: [D].
      activation: function of z that returns its value and its slope.
      in_loops: whether activation and dropout are one `loop` for each pass.

    Returns:
      [B,rows,D].
    """
    scale = drops.scale
    forward, backward = _passes(activation, drops.rate)
    if in_loops:
        forward, backward = loop(forward), loop(backward)
    noise = drops.noise(shape_of(z), in_loops)

    @tf.custom_gradient
    def run(z, kernel, bias):
        def gradient(dy):
            with tf.control_dependencies([dy]):     # else it would share the forward's, and keep it
                again = tf.identity(z)
            scaled = dy * scale
            dz, value = backward(again, dense_back(scaled, kernel), *noise)
            return (dz, tf.matmul(in_rows(value), in_rows(scaled), transpose_a=True),
                    column_sums(dy))
        # Scaled here, where the tensor is narrow.
        return dense(forward(z, *noise), kernel) * scale + bias, gradient
    return run(z, kernel, bias)


@functools.cache
def _passes(activation, rate):
    """What `activated_dense` does to each element: forward, (z, *noise) -> value, and backward,
    (z, its value's gradient, *noise) -> (gradient, value).
    """
    def forward(z, *noise):
        return where_kept(activation(z)[0], rate, noise)

    def backward(z, dvalue, *noise):
        value, slope = activation(z)
        return where_kept(dvalue, rate, noise) * slope, where_kept(value, rate, noise)
    return forward, backward


def loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes one loop of a function of tensors whose elements do not depend on each other.

    TensorFlow reads and writes memory for each operation, and rounds to bfloat16 after it; XLA
    compiles them to one loop over the elements, for each shape once, in less than a tenth of a
    second. Numbers are float32 within it. Only for functions of a graph's processor: their results
    have no gradients. All calls in a graph share what is compiled.
    """
    def wide(*tensors):
        dtype = tensors[0].dtype
        results = function(*(tf.cast(x, tf.float32) if x.dtype == dtype else x for x in tensors))
        return tf.nest.map_structure(lambda x: tf.cast(x, dtype), results)

    def call(*tensors):
        with tf.init_scope():       # a function's graph shares what that around it has
            graph = tf.get_default_graph()
        if not hasattr(graph, "loops"):
            graph.loops = {}
        if function not in graph.loops:
            graph.loops[function] = tf2.function(wide, jit_compile=True, autograph=False)
        return graph.loops[function](*tensors)
    return call


def gelu(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Gaussian error linear unit, tanh form (https://arxiv.org/abs/1606.08415, section 2), and its
    slope.

    0.5 x (1 + tanh(u)) = x sigmoid(2 u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
    """
    linear = 2. * math.sqrt(2. / math.pi)
    cubic = 0.044715 * linear
    square = x * x
    gate = tf.sigmoid(x * (linear + cubic * square))
    value = x * gate
    return value, gate + value * (1. - gate) * (linear + 3. * cubic * square)


def gelu_erf(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Gaussian error linear unit, exact form, and its slope: x P(X <= x) of a standard normal X, by
    the error function; what Hugging Face's library calls `gelu`.
    """
    below = 0.5 * (1. + tf.math.erf(x * math.sqrt(0.5)))
    return x * below, below + x * tf.exp(-0.5 * x * x) * (1. / math.sqrt(2. * math.pi))


def relu(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The positive part of x, and its slope."""
    return tf.nn.relu(x), tf.cast(x > 0, x.dtype)


# By name: for inference, the value in the form that TensorFlow on a CPU computes within the product
# before it; for training, value and slope.
ACTIVATIONS = {
    "relu": (tf.nn.relu, relu),
    "gelu": (lambda x: tf2.nn.gelu(x, approximate=True), gelu),
    "gelu_erf": (lambda x: tf2.nn.gelu(x, approximate=False), gelu_erf),
}
