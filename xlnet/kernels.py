"""Operations with hand-written gradients: cheaper in time or memory than what TensorFlow derives.

They know tensors only, no variables and no settings. Shape letters as in `modeling`.
"""

import math

import tensorflow.compat.v1 as tf

LAYER_NORM_EPSILON = 1e-12


def recomputed(function, *inputs):
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
                return tf.gradients(call(again), again, dy)
        return call(tensors), gradient
    return forward(*(leaves[i] for i in places))


def shape_of(x):
    """The shape as a list: Python ints where they are static, scalar tensors elsewhere."""
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(x.shape.as_list())]


def dropout(x, rate, seed):
    """Zeroes elements with probability `rate`, scales up the rest; `seed` int32 [2]."""
    keep = tf.random.stateless_uniform(tf.shape(x), seed) >= rate
    return tf.where(keep, x * (1. / (1. - rate)), tf.zeros_like(x))


def dense(x, kernel, bias=None):
    """`x [..., I] @ kernel [I, O] + bias [O]`."""
    sizes = shape_of(x)
    y = tf.matmul(tf.reshape(x, [-1, sizes[-1]]), kernel)
    if bias is not None:
        y = tf.nn.bias_add(y, bias)
    return tf.reshape(y, sizes[:-1] + [kernel.shape[1]])


def layer_norm(x, gamma, beta):
    """Normalizes the last axis in float32, then scales by gamma and shifts by beta."""
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, axes=[-1], keepdims=True)
    wide = tf.nn.batch_normalization(wide, mean, variance, beta, gamma, LAYER_NORM_EPSILON)
    return tf.cast(wide, x.dtype)


def gelu(x):
    """Gaussian error linear unit, tanh form (https://arxiv.org/abs/1606.08415, section 2)."""
    return 0.5 * x * (1. + tf.tanh(math.sqrt(2. / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS = {"relu": tf.nn.relu, "gelu": gelu}


def relative_shift(x, num_keys):
    """Reads off, for query i and key j, the score at their distance (Transformer-XL, appendix B).

    Args:
      x: [B,N,Q,R], scores of query i with distance number r; distance d is number K - d.
      num_keys: K.

    Returns:
      [B,N,Q,K] with `y[i, j] = x[i, Q - i + j]`, as key j is M + i - j away from query i.

    In memory, one row further is R cells on and the wanted column one to the left: after dropping
    the first Q cells every row is R - 1 cells long and starts at its first wanted column. With
    Q = 2, K = 2, R = 4: `a b c d | e f g h` -> drop 2 -> `c d e | f g h` -> `c d | f g`.
    """
    batch, heads, length, distances = shape_of(x)

    @tf.custom_gradient
    def shift(x):
        y = tf.reshape(x, [batch, heads, length * distances])[:, :, length:]
        y = tf.reshape(y, [batch, heads, length, distances - 1])[..., :num_keys]

        def gradient(dy):  # the same steps backward; far cheaper than that of strided slices
            dx = tf.pad(dy, [[0, 0], [0, 0], [0, 0], [0, distances - 1 - num_keys]])
            dx = tf.reshape(dx, [batch, heads, length * (distances - 1)])
            dx = tf.pad(dx, [[0, 0], [0, 0], [length, 0]])
            return tf.reshape(dx, [batch, heads, length, distances])
        return y, gradient
    return shift(x)


def relative_shift_at(x, num_keys, first_distance):
    """`relative_shift` for some rows of the window, e.g. those of the prediction slots.

    x [B,N,P,R] -> y [B,N,P,K] with `y[p, j] = x[p, first_distance[p] + j]`; `first_distance` int32
    [B,P] is Q - i for a row that stands at position i.
    """
    batch, heads, slots, distances = shape_of(x)

    def take(x, index):
        index = tf.broadcast_to(index[:, None], [batch, heads, slots, shape_of(index)[-1]])
        return tf.gather(x, index, batch_dims=3)

    @tf.custom_gradient
    def shift(x):
        first = first_distance[:, :, None]                                  # [B,P,1]

        def gradient(dy):  # a shift back, with zeros (the padded cell K) where y did not read
            index = tf.range(distances)[None, None] - first
            index = tf.where((index < 0) | (index >= num_keys),
                             tf.fill(tf.shape(index), num_keys), index)
            return take(tf.pad(dy, [[0, 0], [0, 0], [0, 0], [0, 1]]), index)
        return take(x, first + tf.range(num_keys)[None, None]), gradient
    return shift(x)
