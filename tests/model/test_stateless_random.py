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
        return session.run(
            [
                stateless_random.hashed(
                    shape, stateless_random.seed_of(*halves), first_row
                )
                for shape, halves, first_row in arguments
            ]
        )


def test_it_is_the_hash_of_its_definition():
    (found,) = drawn(([3, 4, 5], (7, 9), 2))
    for row in range(3):
        first = finished(np.uint32([row + 2]) ^ np.uint32(7))
        second = finished(first + np.uint32(9))
        expected = finished(finished(first + np.arange(20, dtype=np.uint32)) + second)
        np.testing.assert_array_equal(found[row].ravel(), expected)


HALVES = (0, 0), (7, 9), (2**32 - 1, 123456789), (5, 2**32 - 1), (2**31, 2**31 + 1)


@pytest.mark.parametrize("halves", HALVES)
def test_seeds_of_32_bits_have_the_same_bits(graph, halves):
    """Those of a TPU: in operations of 32 bits alone, as XLA compiles them, too."""

    def drawn(dtype):
        seed = stateless_random.seed_of(*halves, dtype)
        return [stateless_random.hashed([3, 5, 7], seed, 2)] + [
            draw([3, 5, 7], seed, 2)
            for draw in (stateless_random.uniform, stateless_random.bits16)
        ]

    compiled = tf2.function(
        lambda: drawn(tf.uint32)[0], jit_compile=True, autograph=False
    )
    with tf.Session() as session:
        wide, narrow, in_xla = session.run(
            [drawn(tf.uint64), drawn(tf.uint32), compiled()]
        )
    for one, other in zip(wide, narrow):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(wide[0], in_xla)


@pytest.mark.parametrize("dtype", (tf.uint32, tf.uint64))
def test_each_number_folded_in_gives_another_seed(graph, dtype):
    numbers = (-3, -2, 1, 2, 3, 11)
    seeds = [stateless_random.seed_of(*halves, dtype) for halves in HALVES]
    folded = [
        stateless_random.hashed([8], stateless_random.fold_in(seed, number), 0)
        for seed in seeds
        for number in numbers
    ]
    with tf.Session() as session:
        found = session.run(folded)
    assert len({tuple(each) for each in found}) == len(seeds) * len(numbers)


@pytest.mark.parametrize(
    "draw", (stateless_random.uniform, stateless_random.bits16, stateless_random.hashed)
)
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
        whole, part, many = session.run(
            [
                draw([4, 3, 7], [1, 2], 0),
                draw([2, 3, 7], [1, 2], tf.constant(2)),
                draw([10, 10001], [3, 4], 0),
            ]
        )
    np.testing.assert_array_equal(part, whole[2:])
    many = many / {"f": 1.0, "H": 2.0**16, "I": 2.0**32}[many.dtype.char]
    assert 0 <= many.min() and many.max() < 1 and len(np.unique(many[:, :100])) > 970
    assert abs(many.mean() - 0.5) < 0.005  # 100,010 draws: a standard error of 0.0009


# 590,000 numbers: a correlation has a standard error of 0.0013, a share of a tenth one of 0.0004.
SHIFTS = dict(
    other_seed=None,
    next_row=(1, 0, 0, 0),
    next_head=(0, 1, 0, 0),
    next_query=(0, 0, 1, 0),
    next_key=(0, 0, 0, 1),
    next_query_and_key=(0, 0, 1, 1),
    some_power_of_two=(0, 0, 32, 32),
)


@pytest.mark.parametrize("halves", ((0, 0), (0, 1), (1, 0), (2**31, 2**32 - 1)))
def test_neighbours_have_nothing_in_common(halves):
    """Nor do seeds that differ in one bit; and each bit is set as often as not."""
    numbers, other = drawn((SHAPE, halves, 0), (SHAPE, (halves[0] ^ 1, halves[1]), 0))
    dropped = numbers < 0.1 * 2**32
    assert abs(dropped.mean() - 0.1) < 0.002
    for name, shift in SHIFTS.items():
        again = np.roll(numbers, shift, range(4)) if shift else other
        for ours, theirs in ((numbers, again), (dropped, again < 0.1 * 2**32)):
            assert abs(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]) < 0.0065, name
    for bit in range(32):
        assert abs(np.mean(numbers >> np.uint32(bit) & np.uint32(1)) - 0.5) < 0.0033, (
            bit
        )
