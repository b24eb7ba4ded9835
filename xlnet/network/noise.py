"""Random numbers that are a function of a seed and, where rows have numbers, of the row alone.

So a step has the same noise whenever it is run, and however its rows are spread over devices and
micro-batches. The operations are TensorFlow's own, called without the wrappers that add fifty nodes
to the graph for each draw.
"""

import math

import tensorflow.compat.v1 as tf

_PHILOX = 1     # counter-based (https://doi.org/10.1145/2063384.2063405)
_GROUP = 4      # 32-bit numbers of one count


def fold_in(seed, number):
    """A new seed int32 [2], a function of both: `seed` int32 [2], `number` int32 scalar."""
    return tf.stack([_whole_numbers([], *_key_and_counter(seed), tf.int32), number])


def uniform(shape, seed, first_row):
    """Uniform in [0, 1): float32 of `shape` = [rows, ...], static.

    Args:
      seed: int32 [2]. first_row: int32 scalar, the number in the global batch of the first row.
    """
    size = math.prod(shape[1:])
    groups, key, counter = _row(size, seed, first_row)
    flat = tf.raw_ops.StatelessRandomUniformV2(
        shape=[shape[0], groups * _GROUP], key=key, counter=counter, alg=_PHILOX)
    return tf.reshape(flat[:, :size], shape)


def bits16(shape, seed, first_row=None):
    """Random uint16 of `shape` = [rows, ...].

    Args:
      seed: int32 [2].
      first_row: as in `uniform`, for a static shape; None: rows have no number.
    """
    if first_row is None:
        return _bits16_without_rows(shape, seed)
    size = math.prod(shape[1:])
    groups, key, counter = _row(-(-size // 2), seed, first_row)
    words = _whole_numbers([shape[0], groups * _GROUP], key, counter, tf.uint32)
    flat = tf.reshape(tf.bitcast(words, tf.uint16), [shape[0], -1])
    return tf.reshape(flat[:, :size], shape)


def _bits16_without_rows(shape, seed):
    is_static = all(isinstance(size, int) for size in shape)
    count = math.prod(shape) if is_static else tf.reduce_prod(shape)
    words = _whole_numbers([(count + 1) // 2], *_key_and_counter(seed), tf.uint32)
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])
    if not is_static or count % 2:
        bits = bits[:count]
    return tf.reshape(bits, shape)


def _whole_numbers(shape, key, counter, dtype):
    """Uniform in all that `dtype` has."""
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=dtype)


def _key_and_counter(seed):
    """Uint64 [1] and [2]. The seed is the key as it is: TensorFlow's own way there is another one
    under XLA."""
    return tf.reshape(tf.bitcast(seed, tf.uint64), [1]), tf.zeros([2], tf.uint64)


def _row(size, seed, first_row):
    """How many counts a row of `size` numbers takes; the key, and the first row's counter."""
    groups = -(-size // _GROUP)
    key, counter = _key_and_counter(seed)
    passed = tf.cast(first_row, tf.uint64) * tf.constant(groups, tf.uint64)
    return groups, key, counter + tf.stack([passed, tf.zeros_like(passed)])
