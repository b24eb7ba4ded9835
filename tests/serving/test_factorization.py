"""Predictions in a factorization order are those of the network with the order's mask."""

import json
import math

import numpy as np
import pytest
from helpers.language_model import hidden_in_order

import xlnet
from xlnet.errors import UserError
from xlnet.serving import factorization
from xlnet.serving.server.served_model import ServedModel
from xlnet.serving.settings import FactorizationSettings
from xlnet.settings.devices import DeviceSettings

TEXT = "the cat sat on the mat and the dog"


def factorize(made, text=TEXT, **settings):
    settings = FactorizationSettings(**settings)
    settings.check()
    return factorization.factorize(made.model, made.tokenizer, text, settings)


def as_order(positions):
    """Positions from 0 on as the setting has them."""
    return ",".join(str(position + 1) for position in positions)


def order_of(made, seed):
    count = len(made.tokenizer.ids(TEXT))
    assert count > 6
    return np.random.RandomState(seed).permutation(count).tolist()


@pytest.mark.parametrize("known", (0, 3))
@pytest.mark.parametrize("seed", (0, 1))
def test_each_prediction_is_that_of_the_network_asked_for_it_alone(permuted, seed, known):
    """The oracle: `transformer_xl` with the mask by its definition, one target at a time."""
    order = order_of(permuted, seed)
    found = factorize(permuted, order=as_order(order), known=known, top=4)
    ids = permuted.tokenizer.ids(TEXT)
    hidden = hidden_in_order(len(ids), order[known:])
    assert (found.order, found.known, list(found.ids)) == (order, known, ids)
    for position in order[known:]:
        expected = permuted.at_once(ids, hidden, [position])[0]  # [V]
        assert found.log_probabilities[position] == pytest.approx(expected[ids[position]], abs=1e-5)
        assert found.likelier[position] == (expected > expected[ids[position]]).sum()
        best = np.argsort(-expected)[:4]
        assert found.candidates[position] == [permuted.tokenizer.id_to_piece(int(i)) for i in best]
        assert found.candidate_log_probabilities[position] == pytest.approx(
            expected[best].tolist(), abs=1e-5
        )
    for position in order[:known]:
        assert math.isnan(found.log_probabilities[position]) and found.likelier[position] == -1
        assert found.candidates[position] == found.candidate_log_probabilities[position] == []


def test_a_prediction_depends_on_the_tokens_before_it_in_the_order_alone(permuted):
    """With the tokens that come later replaced, the earlier predictions stay, the later ones go."""
    order, ids = order_of(permuted, 2), permuted.tokenizer.ids(TEXT)
    first = factorize(permuted, order=as_order(order))
    hidden = hidden_in_order(len(ids), order)
    replaced = list(ids)
    for position in order[3:]:
        replaced[position] = (replaced[position] + 1) % 50
    other = permuted.at_once(replaced, hidden, order)  # [T,V]
    said = np.array([first.log_probabilities[position] for position in order])
    now = other[np.arange(len(order)), [ids[position] for position in order]]
    np.testing.assert_allclose(said[:4], now[:4], atol=1e-5)
    assert np.abs(said[4:] - now[4:]).max() > 0.1


def test_what_the_streams_see(permuted):
    order = order_of(permuted, 3)
    known = 2
    found = factorize(permuted, order=as_order(order), known=known)
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
    layers = permuted.model.reading(len(order))
    with layers as reading:
        rows = np.concatenate([found.content_hides, found.query_hides])
        every = reading.attention(
            range(3), np.array([found.ids]), range(len(order)), range(len(order)), rows
        )
    expected = np.mean([layer[0].mean(axis=0)[len(order) :] for layer in every], axis=0)
    np.testing.assert_allclose(attention[predicted], expected[predicted], atol=1e-5)


def test_orders_by_name(permuted):
    count = len(permuted.tokenizer.ids(TEXT))
    assert factorize(permuted, order="left_to_right").order == list(range(count))
    assert factorize(permuted, order="right_to_left").order == list(range(count))[::-1]
    random = factorize(permuted, seed=5).order
    assert sorted(random) == list(range(count)) and random == factorize(permuted, seed=5).order
    assert random != factorize(permuted, seed=6).order


def test_what_does_not_fit_is_said(permuted, causal):
    for settings, said in (
        (dict(order="1,2"), "order names 2 tokens"),
        (dict(order="sideways"), "order is 'sideways'"),
        (dict(known=40), "expected 41 to 64"),
        (dict(most_tokens=2), "expected 1 to 2"),
    ):
        with pytest.raises(UserError, match=said):
            factorize(permuted, **settings)
    with pytest.raises(UserError, match="objective=causal"):
        factorize(causal)


@pytest.mark.slow
def test_the_server_and_python_give_the_same_numbers(permuted, causal):
    model = ServedModel(str(permuted.folder), DeviceSettings(device="cpu"))
    assert "factorize" in model.names and model.default == "fill"
    call = model.call("factorize", {"order": "left_to_right", "known": 1, "top": 2})
    (found,) = model.run(call, [{"text": TEXT}])
    count = len(permuted.tokenizer.ids(TEXT))
    assert found.reading.tokens_read == found.reading.tokens == count
    answer = json.loads(json.dumps(found.prediction, allow_nan=False))
    with xlnet.load(permuted.folder, device="cpu") as other:
        expected = other.factorize(TEXT, order="left_to_right", known=1, top=2)
    assert answer["pieces"] == list(expected.pieces) and answer["order"] == expected.order
    assert answer["log_probabilities"][0] is answer["likelier"][0] is None
    assert answer["log_probabilities"][1:] == pytest.approx(expected.log_probabilities[1:])
    assert answer["candidates"] == expected.candidates
    assert answer["probabilities"][1] == pytest.approx(
        np.exp(expected.candidate_log_probabilities[1]).tolist()
    )
    assert answer["sees"]["query"] == (~expected.query_hides).tolist()
    assert answer["query_attention"][0] == [0] * len(expected.pieces)
    for parameters, said in ((dict(most_tokens=65), "at most 64"), (dict(topp=1), "no 'topp'")):
        with pytest.raises(UserError, match=said):
            model.call("factorize", parameters)
    model.close()
