"""Random numbers that are a function of (seed, row of the global batch) alone.

So a step has the same noise however its rows are spread over devices and micro-batches.
"""

import tensorflow.compat.v1 as tf

_PHILOX = 1     # counter-based (https://doi.org/10.1145/2063384.2063405); 4 numbers a count
_GROUP = 4


def uniform(shape, seed, first_row=0):
    """Uniform in [0, 1): float32 of `shape` = [rows, ...], static.

    Args:
      seed: int32 [2]. first_row: int32 scalar, the number in the global batch of the first row.
    """
    rows, size = shape[0], 1
    for length in shape[1:]:
        size *= length
    groups = -(-size // _GROUP)                    # of one row
    key, counter = (tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed))
    passed = tf.cast(first_row, tf.uint64) * tf.constant(groups, tf.uint64)
    counter += tf.stack([passed, tf.zeros_like(passed)])
    flat = tf.raw_ops.StatelessRandomUniformV2(shape=[rows * groups * _GROUP], key=key,
                                               counter=counter, alg=_PHILOX)
    return tf.reshape(tf.reshape(flat, [rows, groups * _GROUP])[:, :size], shape)
