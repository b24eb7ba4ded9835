"""Each tuned kernel gives what its plain form says, in values and gradients, for random sizes."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close
from helpers.kernel_laws import (
    attention_weights,
    compare,
    laws,
    plain_feed_forward,
    values_and_gradients,
)
from helpers.networks import sizes as network_sizes
from hypothesis import given
from hypothesis import strategies as st

from xlnet.model import kernels, kernels_tpu, kernels_tuned, modeling, ops
from xlnet.model.kernels import Dropout, Mask, Stream
from xlnet.model.parameters import LayerContext
from xlnet.settings.network import RunConfig, XLNetConfig

FORMS = ("operations", "loops", "xla", "tpu")
sizes = st.integers(1, 7)


def context(heads, width, **settings):
    of_network = network_sizes(layers=1, width=heads * width, heads=heads, inner=1)
    config = XLNetConfig(**of_network, n_token=10)
    run = RunConfig(True, True, False, dropout=0.1, dropatt=0.1, **settings)
    return LayerContext(config, run, tf.constant([1, 2], tf.uint32))


# targets 0: the content stream.
ATTENTION = st.builds(
    types.SimpleNamespace,
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=sizes,
    memory=st.integers(0, 5),
    targets=st.integers(0, 5),
    width=st.sampled_from((2, 4, 6)),
    has_segments=st.booleans(),
    has_directions=st.booleans(),
    rows_alike=st.booleans(),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)


@laws
@given(form=st.sampled_from((*FORMS, "without shift")), case=ATTENTION)
def test_relative_attention(form, case):
    """Both directions; rows that see nothing attend to nothing."""
    random = np.random.RandomState(case.seed)
    draw = lambda *shape: random.randn(*shape).astype(np.float32)
    batch, heads, width, length = case.batch, case.heads, case.width, case.length
    targets, memory = case.targets, case.memory
    rows, num_keys = targets or length, memory + length
    attn_type = "uni" if case.causal and not targets else "bi"
    segments = key_segments = None
    if case.has_segments:
        segments = random.randint(0, 3, [batch, rows])
        key_segments = random.randint(0, 3, [batch, num_keys])
    masked = random.rand(batch, 1 if case.rows_alike else rows, num_keys) < 0.5
    # Nobody may see keys to the right, whose distances are missing.
    if attn_type == "uni":
        ahead = np.arange(num_keys) > np.arange(length)[:, None] + memory
        masked = masked | ahead[None]
    first = random.randint(1, length + 1, [batch, targets]) if targets else None
    sign = None
    if case.has_directions:
        sign = random.choice(np.float32([-1, 1]), [batch, 1, 1, 1])

    def attention(form, q, k, v, kernel, r_w, r_r, *of_segments):
        net = context(heads, width)
        sinusoids = modeling.sinusoids_of(net, length, memory, attn_type)
        direction = None if sign is None else tf.constant(sign)
        mask = kernels.additive_mask(Mask(masked=tf.constant(masked)))
        weights = attention_weights(r_w, r_r, *of_segments)
        others = weights, Stream(mask, segments, key_segments, first)
        if form == "without shift":
            distances = kernels_tpu.Distances(kernel, *sinusoids, direction)
            return kernels_tpu.relative_attention(q, k, v, distances, *others)
        keys = modeling.position_keys(net, kernel, sinusoids, direction)
        if form == "plain":
            return modeling.relative_attention(q, k, v, keys, *others)
        return kernels_tuned.relative_attention(form, q, k, v, keys, *others)

    arrays = [
        draw(batch, heads, rows, width),
        draw(batch, heads, num_keys, width),
        draw(batch, heads, num_keys, width),
        draw(heads * width, heads * width),
        draw(heads, 1, width),
        draw(heads, 1, width),
    ]
    if case.has_segments:
        arrays += [draw(heads, 1, width), draw(2, heads, 1, width)]
    ours = functools.partial(attention, form)
    compare(ours, functools.partial(attention, "plain"), arrays, rtol=2e-5)
    if masked.all(axis=-1).any():
        values = values_and_gradients(ours, arrays)[0]
        nothing = np.broadcast_to(masked.all(axis=-1)[:, None], values.shape[:3])
        assert not values[nothing].any()


def random_arrays(seed, *shapes):
    random = np.random.RandomState(seed)
    return [random.randn(*shape).astype(np.float32) for shape in shapes]


@laws
@given(
    form=st.sampled_from((*FORMS, "inference")),
    shape=st.tuples(sizes, sizes),
    width=sizes,
    inner=sizes,
    activation=st.sampled_from(sorted(kernels.ACTIVATIONS)),
    seed=st.integers(0, 1000),
)
def test_feed_forward(form, shape, width, inner, activation, seed):
    shapes = (*shape, width), (width, inner), [inner], (inner, width), [width]
    arrays = random_arrays(seed, *shapes)

    def ours(x, kernel, bias, *outer):
        return kernels_tuned.feed_forward(form, x, (kernel, bias), outer, activation)

    def plain(x, kernel, bias, *outer):
        return plain_feed_forward(x, (kernel, bias), outer, activation)

    compare(ours, plain, arrays)


@laws
@given(
    shape=st.tuples(sizes, sizes), width=st.integers(3, 8), seed=st.integers(0, 1000)
)
def test_layer_norm(shape, width, seed):
    arrays = random_arrays(seed, (*shape, width), [width], [width])
    compare(kernels_tuned.layer_norm, kernels.layer_norm, arrays, rtol=1e-4)


# ---- dropout ----


@pytest.mark.parametrize("form", FORMS)
def test_dropout_is_a_function_of_its_seed(graph, form):
    x = tf.ones([200, 100])
    found = []
    for step in (1, 1, 2):
        drops = Dropout(0.1, tf.constant([3, step]))
        found.append(kernels_tuned.dropout(form, x, drops))
    (gradient,) = tf.gradients(found[0], x)
    with tf.Session() as session:
        first, again, other, gradient = session.run([*found, gradient])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, gradient)
    assert (first != other).any()
    assert abs(np.mean(first == 0) - 0.1) < 0.02
    assert abs(first.mean() - 1) < 0.02


@pytest.mark.parametrize("form", FORMS)
def test_dropout_is_that_of_the_batch_element(graph, form):
    """The second of two examples has the same alone, as the second of the batch, in each kernel."""
    q, k, v = map(tf.constant, random_arrays(0, *[(2, 2, 20, 4)] * 3))
    k_r, kernel = map(tf.constant, random_arrays(1, (1, 2, 40, 4), (4, 4)))
    zeros = tf.zeros([2, 1, 4])
    weights, dense = attention_weights(zeros, zeros), (kernel, zeros[0, 0])

    def outputs(index):
        drops = Dropout(0.5, tf.constant([1, 2]), tf.constant(7 + index))
        x, y, z = q[index:], k[index:], v[index:]
        inputs = x, y, z, k_r, weights, Stream()
        heads = kernels_tuned.relative_attention(form, *inputs, drops)
        fed = kernels_tuned.feed_forward(form, x[:, 0], dense, dense, "gelu", drops)
        return [heads[-1], fed[-1], kernels_tuned.dropout(form, z, drops)[-1]]

    with tf.Session() as session:
        for both, second in zip(*session.run([outputs(0), outputs(1)])):
            assert_close(both, second)


def compare_gradients(keep, ours, plain, inputs):
    """Compares two tensors, and the gradients of a random sum of each; returns what is kept."""
    (weight,) = random_arrays(2, ours.shape.as_list())
    fetches = [[y] + tf.gradients(y * weight, inputs) for y in (ours, plain)]
    with tf.Session() as session:
        kept, fetched = session.run([keep, fetches])
    for mine, wanted in zip(*fetched):
        assert_close(mine, wanted)
    return kept


@pytest.mark.parametrize("form", FORMS)
def test_dropped_probabilities_have_the_gradient_of_their_mask(graph, form):
    """With values that tell the keys apart, dropout is read off the output and held fixed."""
    shapes = [(2, 3, number, 4) for number in (5, 6, 11)]
    q, k, k_r = map(tf.constant, random_arrays(0, *shapes))
    v = tf.tile(tf.eye(6)[None, None], [2, 3, 1, 1])
    biases = list(map(tf.constant, random_arrays(1, (3, 1, 4), (3, 1, 4))))

    inputs = q, k, v, k_r, attention_weights(*biases), Stream()
    drops = Dropout(0.5, tf.constant([1, 2]))
    ours = kernels_tuned.relative_attention(form, *inputs, drops)
    keep = tf.stop_gradient(tf.cast(ours > 0, tf.float32))
    plain = modeling.relative_attention(*inputs) * keep * 2.0
    kept = compare_gradients(keep, ours, plain, [q, k, k_r, *biases])
    assert 0 < kept[0].mean() < 1 and (kept[0] != kept[1]).any()


@pytest.mark.parametrize("form", FORMS)
def test_dropped_activations_have_the_gradient_of_their_mask(graph, form):
    """With one unit a row of the kernel, dropout is read off the output and held fixed."""
    x = tf.constant(np.random.RandomState(0).rand(2, 100, 6) + 1.0, tf.float32)
    outer, zeros = tf.constant(np.diag(np.arange(1.0, 7.0)), tf.float32), tf.zeros([6])
    inner, drops = (tf.eye(6), tf.zeros([6])), Dropout(0.5, tf.constant([1, 2]))
    ours = kernels_tuned.feed_forward(form, x, inner, (outer, zeros), "gelu", drops)
    keep = tf.stop_gradient(tf.cast(ours > 0, tf.float32))
    plain = tf.tensordot(kernels.gelu(x) * keep * 2.0, outer, 1) + zeros
    kept = compare_gradients(keep, ours, plain, [x, outer, zeros])
    assert 0.4 < kept.mean() < 0.6


# ---- precision ----


@pytest.mark.parametrize("form", (*FORMS, "inference"))
@pytest.mark.parametrize("activation", sorted(kernels.ACTIVATIONS))
def test_activations_of_large_numbers_in_float16(form, activation):
    """Their slopes are 0 and 1."""
    x = np.array([-60000.0, -256.0, -30.0, 30.0, 256.0, 300.0, 60000.0], np.float16)
    x = x.reshape(1, 7, 1)
    one, zero = np.ones([1, 1], np.float16), np.zeros([1], np.float16)

    def feed_forward(x, *dense):
        return kernels_tuned.feed_forward(form, x, dense, dense, activation)

    value, gradient, *_ = values_and_gradients(feed_forward, [x, one, zero])
    weight = np.random.RandomState(1).randn(1, 7, 1).astype(np.float16)
    np.testing.assert_array_equal(value, np.maximum(x, 0))
    np.testing.assert_array_equal(gradient, np.where(x > 0, weight, 0))


# ---- the choice ----


@pytest.mark.parametrize(
    "device, is_training, d_inner, form",
    (
        ("cpu", True, 1024, "loops"),
        ("cpu", True, 1023, "operations"),
        ("cpu", False, 1024, "inference"),
        ("gpu", True, 1024, "operations"),
        ("xla", True, 1024, "xla"),
        ("tpu", True, 1024, "tpu"),
    ),
)
def test_the_form_for_a_device(graph, device, is_training, d_inner, form):
    """Loops where they pay off; random bits of Philox, which are stored, where nothing is
    compiled."""
    assert kernels_tuned.form_of(device, is_training, d_inner) == form
    kernels_tuned.dropout(form, tf.ones([2, 3]), Dropout(0.5, tf.constant([1, 2])))
    assert hasattr(graph, "loops") == (form == "loops")


@pytest.mark.parametrize(
    "scope, device",
    (
        (None, "cpu"),
        ("/cpu:0", "cpu"),
        ("/gpu:1", "gpu"),
        ("/job:worker/replica:0/task:0/device:GPU:0", "gpu"),
        ("/device:TPU:0", "tpu"),
        ("/device:TPU_REPLICATED_CORE:0", "tpu"),
    ),
)
def test_the_device_is_that_of_the_scope(graph, scope, device):
    with tf.device(scope):
        assert ops.device_here() == device


@pytest.mark.parametrize("largest", (0.0, 1e3, -1e30))
def test_probabilities_of_large_scores_lose_no_digits(graph, largest):
    """-1e30: a query whose keys are all masked. Their sum must not overflow float16."""
    score = np.float32(np.random.RandomState(0).randn(2, 50)) + np.float32(largest)
    exact = np.exp(np.float64(score) - score.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    with tf.Session() as session:
        found = session.run(kernels_tuned._softmax("tpu", tf.constant(score)))
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize(
    "settings, form",
    (
        (dict(device="plain"), "plain"),
        (dict(device="cpu"), "tuned"),
        (dict(device="tpu"), "without shift"),
        # The addition theorems do not hold for clipped distances.
        (dict(device="tpu", clamp_len=3), "tuned"),
        (dict(device="xla", fused_attention=(9, 0)), "fused"),
    ),
)
def test_the_form_of_attention(graph, settings, form):
    """Fused attention is in a function that XLA compiles, for masks by ranks and segments; a
    network that is built for its variables alone has no operation without a kernel."""
    run = context(2, 4, **settings).run_config
    others = form if form != "fused" else "tuned"
    by_ranks = Mask(tf.zeros([1, 8], tf.int32), tf.zeros([1, 8], tf.int32))
    assert modeling.attention_form(run, by_ranks, True) == others
    found = []

    def within_function():
        for mask, has_segments in ((by_ranks, True), (by_ranks, False), (None, True)):
            found.append(modeling.attention_form(run, mask, has_segments))
        return tf.zeros([])

    tf2.function(within_function, autograph=False)()
    assert found == [form, others, others]
