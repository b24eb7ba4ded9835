"""Targets and factorization orders: exact against the reference, statistical, metamorphic."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from xlnet import modeling, permutation

SETTINGS = permutation.Permutation(reuse_len=32, num_predict=11, perm_size=32, mask_alpha=6,
                                   mask_beta=1)


def window(rng, length=64):
    is_special = np.zeros(length, bool)
    is_special[[45, length - 2, length - 1]] = True
    return is_special, rng.random(length) < 0.7


@pytest.mark.parametrize("number", range(6))
def test_ranks_give_the_reference_masks(graph, golden, number):
    case = golden("any.permutation")
    given = {key: value for key, value in case.group("in/%d/" % number).items()}
    special = np.isin(given["inputs"], (case.settings["sep_id"], case.settings["cls_id"]))
    permuted = given["is_masked"] | special
    rank = permutation.ranks_of_order(given["order"], permuted)
    is_target = given["is_masked"] & ~special
    hidden = modeling.permutation_mask(tf.constant(rank[None]), tf.constant(is_target[None]))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(hidden)[0],
                                      case["out/%d/perm_mask" % number] > 0)
    np.testing.assert_array_equal(is_target, case["out/%d/target_mask" % number] > 0)
    # The reference's targets are its inputs: a slot predicts the token at its own position.
    expected = case["out/%d/target" % number][is_target]
    np.testing.assert_array_equal(given["inputs"][is_target], expected)


def test_draw_is_exact_and_deterministic():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        is_special, word_start = window(rng)
        rank, positions = permutation.draw(np.random.default_rng(seed), is_special, word_start,
                                           SETTINGS)
        again = permutation.draw(np.random.default_rng(seed), is_special, word_start, SETTINGS)
        np.testing.assert_array_equal(rank, again[0])
        np.testing.assert_array_equal(positions, again[1])
        assert len(positions) == 11 == len(set(positions.tolist()))
        assert not is_special[positions].any()
        assert (np.diff(positions) > 0).all()


def test_parts_are_set_apart():
    """The first part is blind to the second, the second sees all of the first."""
    rng = np.random.default_rng(0)
    is_special, word_start = window(rng)
    rank, positions = permutation.draw(rng, is_special, word_start, SETTINGS)
    is_target = np.isin(np.arange(64), positions)
    hidden = (rank + 1 - is_target)[:, None] <= rank[None]
    assert hidden[:32, 32:].all()
    assert not hidden[32:, :32].any()
    plain = is_target | is_special
    for part in (slice(0, 32), slice(32, 64)):
        inner = hidden[part, part]
        assert not inner[:, ~plain[part]].any()                    # plain tokens: seen by all
        assert inner[~plain[part]][:, plain[part]].all()           # and they see no permuted one
        assert inner[np.diag_indices(32)].tolist() == is_target[part].tolist()


def test_words_are_whole_but_for_one_a_part():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        is_special, word_start = window(rng)
        _, positions = permutation.draw(rng, is_special, word_start, SETTINGS)
        picked = np.isin(np.arange(64), positions)
        for start, end in ((0, 32), (32, 64)):
            cut = 0
            for a, b in permutation._words(is_special[start:end], word_start[start:end]):
                cut += 0 < picked[start + a:start + b].sum() < b - a
            assert cut <= 1


def test_every_place_has_the_same_chance():
    """Of 85 in 512 tokens each is predicted with probability 85/512 within each part's budget."""
    draws, length = 3000, 64
    word_start = np.ones(length, bool)
    counts = np.zeros(length)
    for seed in range(draws):
        picked = permutation.sample_targets(np.random.default_rng(seed), np.zeros(length, bool),
                                            word_start, 11, SETTINGS)
        counts[picked] += 1
    expected = 11 / length
    deviation = np.sqrt(expected * (1 - expected) / draws)
    assert np.abs(counts / draws - expected).max() < 4.5 * deviation


def test_orders_are_uniform():
    """Each of two targets comes first equally often; ranks within a chunk are distinct."""
    first = 0
    for seed in range(2000):
        rank = permutation.ranks(np.random.default_rng(seed), np.array([1, 0, 1, 0], bool), 4)
        assert rank[1] == rank[3] == -1 and rank[0] != rank[2]
        first += rank[0] < rank[2]
    assert abs(first - 1000) < 4.5 * np.sqrt(500)


def test_chunks_follow_one_another():
    rank = permutation.ranks(np.random.default_rng(0), np.ones(10, bool), 4)
    assert sorted(rank.tolist()) != rank.tolist()
    assert sorted(rank[:4].tolist()) == [0, 1, 2, 3]
    assert sorted(rank[4:8].tolist()) == [4, 5, 6, 7]


def test_too_many_targets_are_refused():
    with pytest.raises(ValueError, match="5 tokens to predict, but only 4 that can be"):
        permutation.sample_targets(np.random.default_rng(0), np.zeros(4, bool), np.ones(4, bool),
                                   5, SETTINGS)
