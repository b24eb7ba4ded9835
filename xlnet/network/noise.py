"""Random numbers that are a function of a seed and, where rows have indices, of the row alone.

So a step has the same noise whenever it is run, and however its rows are spread over devices and
micro-batches. The operations are TensorFlow's own, called without the wrappers that add some
forty nodes to the graph for each draw.

A seed is a uint64 [1]: a type that stays on a GPU, which leaves int32 to the host. Where one is
taken, an int32 [2], its two halves, is taken too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

_PHILOX = 1     # counter-based (https://doi.org/10.1145/2063384.2063405)
_GROUP = 4      # 32-bit numbers of one count
_LOW_HALF = 2 ** 32 - 1
_FLOAT_BITS = 23        # of a float32's fraction

# The end of MurmurHash3 (https://github.com/aappleby/smhasher), after which each bit of a number
# depends on all of them: shifts, and the factor after each.
_MIXING = (16, 0x85ebca6b), (13, 0xc2b2ae35), (16, 1)


def seed_of(low: Any, high: Any) -> tf.Tensor:
    """The seed uint64 [1] with these halves: numbers of 32 bits, ints or scalar tensors."""
    return tf.reshape(_in_low_half(low) | _in_high_half(high), [1])


def fold_in(seed: tf.Tensor, number: Any) -> tf.Tensor:
    """A new seed uint64 [1], a function of both: `number` is one of 32 bits, an int or a scalar."""
    return _folded(seed) | _in_high_half(number)


def fold_in_each(seed: tf.Tensor, numbers: Sequence[int]) -> list[tf.Tensor]:
    """`fold_in` of each of these numbers, by two operations for all of them."""
    high = np.array([(number & _LOW_HALF) << 32 for number in numbers], np.uint64)
    return tf.split(_folded(seed) | tf.constant(high), len(numbers))


def _folded(seed):
    """The low half of the seeds that are made of this one."""
    return _whole_numbers([1], seed, _counter(0), tf.uint64) & tf.constant(_LOW_HALF, tf.uint64)


def _in_low_half(number):
    if isinstance(number, int):
        return tf.constant(number & _LOW_HALF, tf.uint64)
    return tf.cast(number, tf.uint64) & tf.constant(_LOW_HALF, tf.uint64)


def _in_high_half(number):
    if isinstance(number, int):
        return tf.constant((number & _LOW_HALF) << 32, tf.uint64)
    return tf.bitwise.left_shift(tf.cast(number, tf.uint64), tf.constant(32, tf.uint64))


def uniform(shape: Sequence[Any], seed: tf.Tensor, first_row: Any) -> tf.Tensor:
    """Uniform in [0, 1): float32 of `shape` = [rows, ...], static, multiples of 2^-23.

    TensorFlow's own floats are of other bits under XLA.

    Args:
      seed: uint64 [1]. first_row: an int or a scalar, the index of the first row in the global
        batch.
    """
    size = math.prod(shape[1:])
    words = _words_of_rows(shape[0], size, seed, first_row)[:, :size]
    numbers = tf.cast(words & tf.constant(2 ** _FLOAT_BITS - 1, tf.uint32), tf.float32)
    return tf.reshape(numbers * 2. ** -_FLOAT_BITS, shape)


def bits16(shape: Sequence[Any], seed: tf.Tensor,
           first_row: Any = None) -> tf.Tensor:
    """Random uint16 of `shape` = [rows, ...].

    Args:
      seed: uint64 [1].
      first_row: as in `uniform`, for a static shape; None: rows have no index.
    """
    if first_row is None:
        return _bits16_without_rows(shape, seed)
    size = math.prod(shape[1:])
    words = _words_of_rows(shape[0], -(-size // 2), seed, first_row)
    flat = tf.reshape(tf.bitcast(words, tf.uint16), [shape[0], -1])
    return tf.reshape(flat[:, :size] if size % (2 * _GROUP) else flat, shape)


def hashed(shape: Sequence[Any], seed: tf.Tensor, first_row: Any) -> tf.Tensor:
    """Random uint32 of `shape` = [rows, ...], less than 2^32 of them in a row.

    Each is a hash of the seed, its row and its index in the row, so that a loop over elements
    (`kernels_cpu.loop`) can compute it, at a sixth of what `bits16` takes there.

    Args:
      seed: uint64 [1]. first_row: a scalar, the index of the first row in the global batch.
    """
    def count(axis, stride):
        """0, stride, 2 stride, ... along one axis."""
        numbers = _in_32_bits(tf.range(shape[axis])) * _in_32_bits(stride)
        return tf.reshape(numbers, [-1] + (len(shape) - 1 - axis) * [1])

    key = _key(seed)
    row = _in_32_bits(first_row) + count(0, 1)                          # [rows,1, ...]
    first = _mixed(row ^ tf.cast(key & tf.constant(_LOW_HALF, tf.uint64), tf.uint32))
    second = _mixed(first + tf.cast(tf.bitwise.right_shift(
        key, tf.constant(32, tf.uint64)), tf.uint32))
    place, stride = first, 1    # from a key on: XLA would write numbers that it knows to a constant
    for axis in range(len(shape) - 1, 0, -1):
        place, stride = place + count(axis, stride), stride * shape[axis]
    return _mixed(_mixed(place) + second)


def _mixed(x):
    for shift, factor in _MIXING:
        x = (x ^ tf.bitwise.right_shift(x, _in_32_bits(shift))) * _in_32_bits(factor)
    return x


def _in_32_bits(number):
    return (tf.constant(number, tf.uint32) if isinstance(number, int)
            else tf.cast(number, tf.uint32))


def _words_of_rows(rows, count, seed, first_row):
    """uint32 [rows, at least `count`]; a row takes whole counts of the generator."""
    groups = -(-count // _GROUP)
    return _whole_numbers([rows, groups * _GROUP], seed, _row_counter(first_row, groups),
                          tf.uint32)


def _bits16_without_rows(shape, seed):
    count = math.prod(shape)        # of ints, or of scalars on the host: `reduce_prod` is the GPU's
    words = _whole_numbers([(count + 1) // 2], seed, _counter(0), tf.uint32)
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])
    if not isinstance(count, int) or count % 2:
        bits = bits[:count]
    return tf.reshape(bits, shape)


def _whole_numbers(shape, seed, counter, dtype):
    """Uniform in all that `dtype` has."""
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=_key(seed), counter=counter, alg=_PHILOX, dtype=dtype)


def _key(seed):
    """Uint64 [1]. The seed is the key as it is: TensorFlow's own way there is another one under
    XLA."""
    seed = tf.convert_to_tensor(seed)
    return seed if seed.dtype == tf.uint64 else tf.reshape(tf.bitcast(seed, tf.uint64), [1])


def _row_counter(first_row, groups):
    """The counter at the first row, where a row takes `groups` counts."""
    if isinstance(first_row, int):
        return _counter(first_row * groups)
    return _counter(tf.cast(first_row, tf.uint64) * tf.constant(groups, tf.uint64))


def _counter(passed):
    """Uint64 [2]: as many counts have passed, a number of 128 bits with the low half first."""
    if isinstance(passed, int):
        return tf.constant([passed, 0], tf.uint64)
    return tf.stack([passed, tf.zeros([], tf.uint64)])
