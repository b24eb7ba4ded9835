"""Noise: the same under XLA; within loops, a hash of seed, row and place."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model import stateless_random

SHAPE = 6, 12, 128, 64


def finished(x):
    """The end of MurmurHash3."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ (x >> np.uint32(13))
    x = x * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def drawn(*arguments):
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = []
        for shape, halves, first_row in arguments:
            seed = stateless_random.seed_of(*halves)
            fetches.append(stateless_random.hashed(shape, seed, first_row))
        return session.run(fetches)


def test_it_is_the_hash_of_its_definition():
    (found,) = drawn(([3, 4, 5], (7, 9), 2))
    for row in range(3):
        first = finished(np.uint32([row + 2]) ^ np.uint32(7))
        second = finished(first + np.uint32(9))
        expected = finished(finished(first + np.arange(20, dtype=np.uint32)) + second)
        np.testing.assert_array_equal(found[row].ravel(), expected)


HALVES = (0, 0), (7, 9), (2**32 - 1, 123456789), (5, 2**32 - 1), (2**31, 2**31 + 1)
DRAWS = (stateless_random.hashed, stateless_random.uniform, stateless_random.bits16)


@pytest.mark.parametrize("halves", HALVES)
def test_seeds_of_32_bits_have_the_same_bits(graph, halves):
    """Those of a TPU: in operations of 32 bits alone, as XLA compiles them, too."""

    def drawn(dtype):
        seed = stateless_random.seed_of(*halves, dtype)
        return [draw([3, 5, 7], seed, 2) for draw in DRAWS]

    def compiled():
        return drawn(tf.uint32)[0]

    in_xla = tf2.function(compiled, jit_compile=True, autograph=False)()
    fetches = [drawn(tf.uint64), drawn(tf.uint32), in_xla]
    with tf.Session() as session:
        wide, narrow, in_xla = session.run(fetches)
    for one, other in zip(wide, narrow):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(wide[0], in_xla)


@pytest.mark.parametrize("dtype", (tf.uint32, tf.uint64))
def test_each_number_folded_in_gives_another_seed(graph, dtype):
    numbers, folded = (-3, -2, 1, 2, 3, 11), []
    for halves in HALVES:
        seed = stateless_random.seed_of(*halves, dtype)
        for number in numbers:
            other = stateless_random.fold_in(seed, number)
            folded.append(stateless_random.hashed([8], other, 0))
    with tf.Session() as session:
        found = session.run(folded)
    assert len({tuple(each) for each in found}) == len(HALVES) * len(numbers)


@pytest.mark.parametrize("draw", DRAWS)
def test_noise_belongs_to_rows(draw):
    """Rows 2 and 3 of four have the noise that they have alone, also by XLA, whose seed is fed: of
    constants it need not compute anything. It is uniform."""

    def of_seed(seed):
        return draw([3, 5, 7], stateless_random.fold_in(seed, -1), 2)

    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.placeholder(tf.uint64, [1])
        compiled = tf2.function(of_seed, jit_compile=True, autograph=False)(seed)
        plain = of_seed(seed)
        for value in (0, 7, 2**32 + 7, 2**64 - 1):
            one, other = session.run([plain, compiled], {seed: [value]})
            np.testing.assert_array_equal(one, other)
            assert len(np.unique(one)) > 100
        whole, part = (
            draw([4, 3, 7], [1, 2], 0),
            draw([2, 3, 7], [1, 2], tf.constant(2)),
        )
        many = draw([10, 10001], [3, 4], 0)
        whole, part, many = session.run([whole, part, many])
    np.testing.assert_array_equal(part, whole[2:])
    many = many / {"f": 1.0, "H": 2.0**16, "I": 2.0**32}[many.dtype.char]
    assert 0 <= many.min() and many.max() < 1 and len(np.unique(many[:, :100])) > 970
    assert abs(many.mean() - 0.5) < 0.005  # 100,010 draws: a standard error of 0.0009


# 590,000 numbers: a correlation has a standard error of 0.0013, a share of a tenth one of 0.0004.
# Rows, heads, queries and keys.
SHIFTS = [*np.eye(4, dtype=int), (0, 0, 1, 1), (0, 0, 32, 32)]


@pytest.mark.parametrize("halves", ((0, 0), (0, 1), (1, 0), (2**31, 2**32 - 1)))
def test_neighbours_have_nothing_in_common(halves):
    """Nor do seeds that differ in one bit; and each bit is set as often as not."""
    numbers, other = drawn((SHAPE, halves, 0), (SHAPE, (halves[0] ^ 1, halves[1]), 0))
    dropped = numbers < 0.1 * 2**32
    assert abs(dropped.mean() - 0.1) < 0.002
    for again in (other, *(np.roll(numbers, shift, range(4)) for shift in SHIFTS)):
        for ours, theirs in ((numbers, again), (dropped, again < 0.1 * 2**32)):
            assert abs(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]) < 0.0065
    for bit in range(32):
        is_set = numbers >> np.uint32(bit) & np.uint32(1)
        assert abs(np.mean(is_set) - 0.5) < 0.0033, bit
