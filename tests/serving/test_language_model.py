"""Reading token by token gives what the network gives that reads everything at once."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import xlnet
from xlnet.config import NetworkSettings
from xlnet.network import heads, incremental, modeling
from xlnet.serving.language_model import Reading

CONFIG = xlnet.XLNetConfig(n_layer=3, d_model=16, n_head=2, d_head=8, d_inner=32,
                           ff_activation="gelu", untie_r=True, n_token=30)
RUN = NetworkSettings(init_std=0.5, clamp_len=20).run_config(is_training=False)
LENGTH = 12
TEXT = np.random.RandomState(0).randint(0, CONFIG.n_token, LENGTH)


def make(is_causal):
    """An incremental network, and one that reads everything at once: a function from ids [Q],
    hidden [Q,Q] and the positions asked for, to log probabilities [Q or P,V]."""
    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        tf.set_random_seed(1)
        network = incremental.IncrementalNetwork(CONFIG, RUN, has_queries=not is_causal)
        ids, asked = (tf.placeholder(tf.int32, [1, size]) for size in (LENGTH, None))
        hidden = tf.placeholder(tf.bool, [1, LENGTH, LENGTH])
        outputs = modeling.transformer_xl(
            CONFIG, RUN, input_ids=ids, hidden=hidden, attn_type="uni" if is_causal else "bi",
            query=None if is_causal else modeling.Query(positions=asked))
        whole = tf.nn.log_softmax(heads.lm_logits(outputs.sequence, outputs.embedding_table))[0]
        session = tf.Session(graph=graph)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def at_once(text, hides, positions=()):
        return session.run(whole, {ids: [text], hidden: [hides], asked: [positions]})
    return types.SimpleNamespace(
        at_once=at_once, reading=lambda size: Reading(session, network, size, is_causal))


@pytest.fixture(scope="module")
def permuted():
    return make(is_causal=False)


@pytest.fixture(scope="module")
def causal():
    return make(is_causal=True)


def seen_in_order(known, order):
    """hidden [Q,Q] of a factorization order, by its definition: known tokens are seen by all and
    see each other; a token of the order sees them and those before it."""
    place = {position: i for i, position in enumerate(order)}
    return np.array([[j not in known and (i in known or place[j] >= place[i])
                      for j in range(LENGTH)] for i in range(LENGTH)])


@pytest.mark.parametrize("order", ([3, 4, 8], [8, 3, 4], [4, 8, 3]))
def test_blanks_in_any_order_equal_a_forward_with_explicit_masks(permuted, order):
    known = [i for i in range(LENGTH) if i not in order]
    reading = permuted.reading(LENGTH)
    said = [reading.read(TEXT[None, known], known, order[:1])[0, 0]]
    for filled, asked in zip(order, order[1:]):
        said.append(reading.read(TEXT[None, [filled]], [filled], [asked])[0, 0])
    expected = permuted.at_once(TEXT, seen_in_order(known, order), order)
    np.testing.assert_allclose(said, expected, atol=1e-5)
    # And the whole filling at once, after the known tokens: the blanks in any order of slots.
    slots = sorted(order)
    places = np.array([order.index(position) for position in slots])
    hidden = places[None, :] > places[:, None]
    asked_hidden = places[None, :] >= places[:, None]
    joint = reading.read(TEXT[None, slots], slots, slots, again_from=len(known),
                         hidden=np.concatenate([hidden, asked_hidden]))[0]
    np.testing.assert_allclose(joint[places.argsort()], expected, atol=1e-5)


def test_writing_on_from_a_prompt_equals_a_forward_over_everything(permuted):
    """The prompt is seen by all, what follows one after the other; more than the slots hold."""
    size, prompt = 6, 5
    reading = permuted.reading(size)
    said = [reading.read(TEXT[None, :prompt], range(prompt), [prompt])[0, 0]]
    for i in range(prompt, LENGTH - 1):
        said.append(reading.read(TEXT[None, [i]], [i], [i + 1])[0, 0])
    hidden = seen_in_order(range(prompt), range(prompt, LENGTH))
    i, j = np.indices(hidden.shape)
    # A token that is read takes the slot of the one `size` before it; a blank comes after it.
    expected = [permuted.at_once(
        TEXT, hidden | np.where(i == blank, i - 1 - j >= size, i - j >= size), [blank])[0]
        for blank in range(prompt, LENGTH)]
    np.testing.assert_allclose(said, expected, atol=1e-5)


def test_a_causal_network_reads_on_as_if_at_once(causal):
    """In pieces of any size, also when the oldest tokens have given way: a span for each token."""
    reading, size = causal.reading(4), 4
    said = [reading.read(TEXT[None, low:high], range(low, high))[0]
            for low, high in ((0, 2), (2, 4), *((n, n + 1) for n in range(4, LENGTH)))]
    i, j = np.indices((LENGTH, LENGTH))
    expected = causal.at_once(TEXT, i - j >= size)
    np.testing.assert_allclose(np.concatenate(said), expected, atol=1e-5)


def test_rows_go_on_from_those_that_were_kept(permuted):
    reading = permuted.reading(8)
    start = np.array([[1, 2, 3]])
    reading.read(start, range(3), [3])
    reading.keep([0, 0])
    both = reading.read(np.array([[4], [5]]), [3], [4])
    reading.keep([1, 1, 0])
    three = reading.read(np.array([[6], [7], [6]]), [4], [5])

    def alone(*ids):
        one = permuted.reading(8)
        one.read(start, range(3), [3])
        return [one.read(np.array([[id]]), [3 + n], [4 + n])[0] for n, id in enumerate(ids)][-1]
    for row, ids in enumerate(((4,), (5,))):
        np.testing.assert_allclose(both[row], alone(*ids), atol=1e-5)
    for row, ids in enumerate(((5, 6), (5, 7), (4, 6))):
        np.testing.assert_allclose(three[row], alone(*ids), atol=1e-5)


def test_tokens_that_do_not_fit_side_by_side_are_a_mistake(causal):
    reading = causal.reading(4)
    reading.read(TEXT[None, :3], range(3))
    with pytest.raises(ValueError, match="2 tokens at slot 3 of 4"):
        reading.read(TEXT[None, 3:5], range(3, 5))
