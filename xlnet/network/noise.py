"""Random numbers that are a function of (seed, row of the global batch) alone.

So a step has the same noise however its rows are spread over devices and micro-batches.
"""

import math

import tensorflow.compat.v1 as tf

_PHILOX = 1     # counter-based (https://doi.org/10.1145/2063384.2063405)
_GROUP = 4      # 32-bit numbers of one count


def uniform(shape, seed, first_row):
    """Uniform in [0, 1): float32 of `shape` = [rows, ...], static.

    Args:
      seed: int32 [2]. first_row: int32 scalar, the number in the global batch of the first row.
    """
    size = math.prod(shape[1:])
    groups, key, counter = _groups(size, seed, first_row)
    flat = tf.raw_ops.StatelessRandomUniformV2(
        shape=[shape[0], groups * _GROUP], key=key, counter=counter, alg=_PHILOX)
    return tf.reshape(flat[:, :size], shape)


def bits16(shape, seed, first_row):
    """Random uint16 of `shape` = [rows, ...], static; arguments as in `uniform`."""
    size = math.prod(shape[1:])
    groups, key, counter = _groups(-(-size // 2), seed, first_row)
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[shape[0], groups * _GROUP], key=key, counter=counter, alg=_PHILOX, dtype=tf.uint32)
    flat = tf.reshape(tf.bitcast(words, tf.uint16), [shape[0], -1])
    return tf.reshape(flat[:, :size], shape)


def _groups(size, seed, first_row):
    """How many counts a row of `size` numbers takes; the key, and the first row's counter."""
    groups = -(-size // _GROUP)
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    passed = tf.cast(first_row, tf.uint64) * tf.constant(groups, tf.uint64)
    return groups, key, counter + tf.stack([passed, tf.zeros_like(passed)])
