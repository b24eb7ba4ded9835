"""The best sequence of classes among those that are allowed."""

import itertools

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.model.heads import HeadBuilder

B, T, L = 24, 5, 4


def best_by_enumeration(logits, edges, may_follow, may_begin, may_end):
    """Of the steps alone: logits [S,L], edges [2]."""

    def allowed(path):
        return (
            (may_begin[path[0]] or not edges[0])
            and (may_end[path[-1]] or not edges[1])
            and all(may_follow[pair] for pair in zip(path, path[1:]))
        )

    paths = filter(allowed, itertools.product(range(L), repeat=len(logits)))
    return max(
        paths, key=lambda path: sum(logits[i, each] for i, each in enumerate(path))
    )


def test_it_is_the_best_of_all_that_are_allowed(graph):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=[B, T, L]).astype(np.float32)
    is_step = rng.random([B, T]) < 0.7
    is_step[:, 2] = True
    edges = rng.random([B, 2]) < 0.5
    may_follow = rng.random([L, L]) < 0.6
    may_follow[0] = may_follow[:, 0] = True  # so that there is a way
    may_begin, may_end = (
        np.array([True, *(rng.random(L - 1) < 0.5)]) for _ in range(2)
    )
    assert not (may_follow.all() or may_begin.all() or may_end.all())
    constraints = may_follow, may_begin, may_end
    found = HeadBuilder.best_path(
        tf.constant(logits), tf.constant(is_step), tf.constant(edges), *constraints
    )
    with tf.Session(graph=graph) as session:
        found = session.run(found)
    assert found.shape == (B, T) and found.dtype == np.int32
    for i in range(B):
        expected = best_by_enumeration(logits[i][is_step[i]], edges[i], *constraints)
        assert tuple(found[i][is_step[i]]) == expected


def test_where_all_is_allowed_each_step_has_its_own_best(graph):
    logits = np.random.default_rng(1).normal(size=[2, T, L]).astype(np.float32)
    found = HeadBuilder.best_path(
        tf.constant(logits),
        tf.fill([2, T], True),
        tf.fill([2, 2], True),
        np.ones([L, L], bool),
        np.ones(L, bool),
        np.ones(L, bool),
    )
    with tf.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(found), logits.argmax(axis=2))
