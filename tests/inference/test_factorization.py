"""Predictions in a factorization order are those of the network with the order's mask."""

import math

import numpy as np
import pytest
from helpers.language_model import hidden_in_order

from xlnet.support.errors import UserError

TEXT = "the cat sat on the mat and the dog"


def as_order(positions):
    """Positions from 0 on as the setting has them."""
    return ",".join(str(position + 1) for position in positions)


def order_of(made, seed):
    count = len(made.tokenizer.ids(TEXT))
    assert count > 6
    return np.random.RandomState(seed).permutation(count).tolist()


@pytest.mark.parametrize("seed, known", [(0, 0), (1, 3)])
def test_each_prediction_is_that_of_the_network_asked_for_it_alone(
    permuted, seed, known
):
    """The oracle: `transformer_xl` with the mask by its definition, one target at a time."""
    order = order_of(permuted, seed)
    found = permuted.loaded.factorize(TEXT, order=as_order(order), known=known, top=4)
    ids = permuted.tokenizer.ids(TEXT)
    hidden = hidden_in_order(len(ids), order[known:])
    assert (found.order, found.known) == (order, known)
    for position in order[known:]:
        expected = permuted.at_once(ids, hidden, [position])[0]  # [V]
        of_text, best = expected[ids[position]], np.argsort(-expected)[:4].tolist()
        logs = [found.log_probabilities[position]]
        logs += found.candidate_log_probabilities[position]
        np.testing.assert_allclose(logs, [of_text, *expected[best]], atol=1e-5)
        assert found.likelier[position] == (expected > of_text).sum()
        pieces = [permuted.tokenizer.id_to_piece(id) for id in best]
        assert found.candidates[position] == pieces
    for position in order[:known]:
        assert math.isnan(found.log_probabilities[position])
        assert found.likelier[position] == -1
        assert found.candidates[position] == []
        assert found.candidate_log_probabilities[position] == []


def test_what_the_streams_see(permuted):
    order, known = order_of(permuted, 3), 2
    found = permuted.loaded.factorize(TEXT, order=as_order(order), known=known)
    place = {position: index for index, position in enumerate(order)}
    for i, j in np.ndindex(found.content_hides.shape):
        both_known = place[i] < known and place[j] < known
        assert found.content_hides[i, j] == (place[j] > place[i] and not both_known)
        if place[i] >= known:
            assert found.query_hides[i, j] == (place[j] >= place[i])
        else:
            assert found.query_hides[i, j]  # nothing is predicted there
    attention = found.query_attention
    assert (attention[found.query_hides] == 0).all()
    predicted = [i for i in range(len(order)) if place[i] >= known]
    np.testing.assert_allclose(attention[predicted].sum(axis=1), 1, atol=1e-5)
    # Of the layers and heads that `attention` has, whose queries have no known tokens.
    of_all = permuted.loaded.factorize(TEXT, order=as_order(order)).query_attention
    attended = permuted.loaded.attention(TEXT, [1, 2, 3], order=as_order(order))
    expected = attended.streams["query"].mean(axis=(0, 1))
    np.testing.assert_allclose(of_all, expected, atol=1e-6)


def test_orders_by_name(permuted):
    def order(**settings):
        return permuted.loaded.factorize(TEXT, **settings).order

    positions = list(range(len(permuted.tokenizer.ids(TEXT))))
    assert order(order="left_to_right") == positions
    assert order(order="right_to_left") == positions[::-1]
    random = order(seed=5)
    assert sorted(random) == positions and random == order(seed=5)
    assert random != order(seed=6)


def test_what_does_not_fit_is_said(permuted, causal):
    for settings, said in (
        (dict(order="1,2"), "order: found '1,2', expected .* of the 14 tokens"),
        (dict(known=40), "expected 41 to 512"),
    ):
        with pytest.raises(UserError, match=said):
            permuted.loaded.factorize(TEXT, **settings)
    with pytest.raises(UserError, match="objective=causal"):
        causal.loaded.factorize(TEXT)
