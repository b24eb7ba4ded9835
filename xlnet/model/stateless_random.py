"""Random bits that are a function of a seed and, where batch elements have indices, of the index.

So the dropout masks of a step are the same whenever it runs, and however its batch is spread over
devices and micro-batches. The operations are TensorFlow's own, called without the wrappers, which
add about forty nodes to the graph for each call.

A seed is a uint64 [1], a type that stays on a GPU; int32 is on the host. On a TPU, which has no
64-bit numbers, it is a uint32 [2], its low and its high half; an int32 [2] is accepted too. What a
TPU folds in, it folds by another function: its dropout masks are others.

The random bits are those of Philox, a function of a key, the seed, and a counter of 128 bits. Each
value of the counter gives four 32-bit numbers, so that parts of a batch can be computed alone: each
begins at its own value. Shape letters: B batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.model import ops

_PHILOX = 1  # counter-based (https://doi.org/10.1145/2063384.2063405)
_GROUP = 4  # 32-bit numbers for each value of the counter
_LOW_HALF = 2**32 - 1  # all bits of the low half of a 64-bit number
_FLOAT_BITS = 23  # of a float32's fraction

# The finalizer of MurmurHash3 (https://github.com/aappleby/smhasher), which makes each bit depend
# on all bits: pairs of a shift and the factor after it.
_MIXING = (16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)


def dropout_seed(seed: int, step: tf.Tensor) -> tf.Tensor:
    """The seed of a step, a function of the run's seed and of the step's number, a scalar: uint64
    [1], or uint32 [2] on a TPU."""
    dtype = tf.uint32 if ops.device_here() == "tpu" else tf.uint64
    return seed_of(seed, step, dtype)


def seed_of(low: Any, high: Any, dtype: tf.DType = tf.uint64) -> tf.Tensor:
    """The seed with these halves, 32-bit numbers, each an int or a scalar tensor. dtype: uint64 for
    a seed [1], uint32 for one of a TPU [2]."""
    halves = tf.stack([in_32_bits(low), in_32_bits(high)])
    return halves if dtype == tf.uint32 else _as_one_number(halves)


def fold_in(seed: tf.Tensor, number: Any) -> tf.Tensor:
    """A new seed, a function of both: uint32 [2] from a uint32 seed, uint64 [1] from any other.

    number: its lowest 32 bits count; an int, also a negative one, or a scalar tensor.
    """
    seed = tf.convert_to_tensor(seed)
    if seed.dtype == tf.uint32:
        # A hash of the seed. Philox would be better, but its products have 64 bits, which a TPU
        # computes in hundreds of operations.
        low, high = tf.unstack(seed)
        return seed_of(mixed(mixed(low) + high), number, tf.uint32)
    # The low half is that of a random number of this seed, the high half the number itself.
    random = _philox([1], seed, 0, tf.uint64)
    return seed_of(random[0], number)


def uniform(shape: Sequence[Any], seed: tf.Tensor, first_row: Any) -> tf.Tensor:
    """Uniform in [0, 1): float32 of `shape`, multiples of 2^-23.

    TensorFlow's own uniform floats differ under XLA.

    Args:
      shape: static, [B,...].
      seed: uint64 [1] or uint32 [2].
      first_row: an int or a scalar, the index of batch element 0 in the global batch.
    """
    size = math.prod(shape[1:])  # numbers of one batch element
    words = _words_of_rows(shape[0], size, seed, first_row)[:, :size]
    # The lowest 23 bits, an integer that float32 has exactly, divided by 2^23.
    bits = words & tf.constant(2**_FLOAT_BITS - 1, tf.uint32)
    numbers = tf.cast(bits, tf.float32) * 2.0**-_FLOAT_BITS
    return tf.reshape(numbers, shape)


def bits16(shape: Sequence[Any], seed: tf.Tensor, first_row: Any = None) -> tf.Tensor:
    """Random uint16 of `shape` [B,...].

    Args:
      shape: the sizes, ints or scalar tensors.
      seed: uint64 [1] or uint32 [2].
      first_row: an int or a scalar, the index of batch element 0 in the global batch; `shape` is
        then static. None: batch elements have no index, and `shape` may be dynamic.
    """
    # TensorFlow computes products of sizes on the host, but `tf.reduce_prod` on the GPU, for which
    # the host would wait.
    rows, size = shape[0], math.prod(shape[1:])
    if first_row is None:  # all numbers are those of one row
        rows, size, first_row = 1, rows * size, 0
    # A word has 32 bits, so two numbers; of an odd size one is left over.
    words = _words_of_rows(rows, (size + 1) // 2, seed, first_row)
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [rows, -1])
    return tf.reshape(bits[:, :size], shape)


def hashed(shape: Sequence[Any], seed: tf.Tensor, first_row: Any) -> tf.Tensor:
    """Random uint32 of `shape`.

    Each is a hash of the seed, its batch element and its index within that, so that a loop over
    elements (`kernels_tuned.run_elementwise`) can compute it, in a sixth of the time of `bits16`.

    Args:
      shape: [B,...] with less than 2^32 numbers in a batch element.
      seed: uint64 [1] or uint32 [2].
      first_row: an int or a scalar, the index of batch element 0 in the global batch.
    """
    first, second = keys_of_rows(shape[0], seed, first_row)  # [B]
    of_rows = [-1] + (len(shape) - 1) * [1]  # [B,1,...,1]
    first, second = tf.reshape(first, of_rows), tf.reshape(second, of_rows)
    # The index of each number within its batch element, [B,...] by broadcasting: the sum, over the
    # axes after B from the last on, of the position along the axis times its stride. The sum begins
    # with `first`, which is not known when the graph is built: of known numbers XLA would make a
    # constant of the full shape.
    index, stride = first, 1
    for axis in range(len(shape) - 1, 0, -1):
        along = in_32_bits(tf.range(shape[axis])) * in_32_bits(stride)
        # [size,1,...,1], a 1 for each later axis.
        index += tf.reshape(along, of_rows[: len(shape) - axis])
        stride *= shape[axis]
    return mixed(mixed(index) + second)


def keys_of_rows(
    rows: Any, seed: tf.Tensor, first_row: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Two numbers of each batch element, hashes of the seed and of its index: uint32 [B] each.

    rows: B; seed: 64 bits in any type; first_row: the index of batch element 0 in the global batch.
    """
    row = in_32_bits(first_row) + in_32_bits(tf.range(rows))
    halves = tf.reshape(tf.bitcast(seed, tf.uint32), [2])
    low, high = tf.unstack(halves)
    first = mixed(row ^ low)
    return first, mixed(first + high)


def mixed(x: tf.Tensor) -> tf.Tensor:
    """A hash of each number of x, uint32 of the same shape: each bit depends on all bits of it."""
    for shift, factor in _MIXING:
        shifted = tf.bitwise.right_shift(x, in_32_bits(shift))
        x = (x ^ shifted) * in_32_bits(factor)
    return x


def in_32_bits(number: Any) -> tf.Tensor:
    """uint32 of an int or an integer tensor: its lowest 32 bits."""
    if isinstance(number, int):
        return tf.constant(number & _LOW_HALF, tf.uint32)
    return tf.cast(number, tf.uint32)


def _words_of_rows(rows: Any, count: Any, seed: tf.Tensor, first_row: Any) -> tf.Tensor:
    """uint32 [rows, count rounded up to a multiple of `_GROUP`]; each row uses its own values of
    the counter, as many as it has groups, and so has the same numbers in any part of a batch."""
    groups = -(-count // _GROUP)  # of each row, rounded up
    # The rows before `first_row` have used the values of the counter below this one.
    counter = tf.cast(first_row, tf.uint64) * tf.cast(groups, tf.uint64)
    return _philox([rows, groups * _GROUP], seed, counter, tf.uint32)


def _philox(
    shape: Sequence[Any], seed: tf.Tensor, first_counter: Any, dtype: tf.DType
) -> tf.Tensor:
    """Random integers of `shape`, uniform over all values of `dtype`. first_counter: the counter's
    first value, less than 2^64."""
    # The two halves of its 128 bits, the low one first.
    counter = tf.stack([tf.cast(first_counter, tf.uint64), tf.constant(0, tf.uint64)])
    # The key is the seed itself. TensorFlow derives another key under XLA.
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape,
        key=_as_one_number(seed),
        counter=counter,
        alg=_PHILOX,
        dtype=dtype,
    )


def _as_one_number(seed: tf.Tensor) -> tf.Tensor:
    """The bits of a seed of any type, uint64 [1] or two 32-bit halves, as uint64 [1]."""
    return tf.reshape(tf.bitcast(seed, tf.uint64), [1])
