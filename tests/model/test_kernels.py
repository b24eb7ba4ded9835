"""Each tuned kernel gives what its plain form says, in values and gradients, for random sizes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close
from helpers.kernel_laws import attention_weights, compare, laws, values_and_gradients
from hypothesis import given
from hypothesis import strategies as st

from xlnet.model import kernels, kernels_tpu, kernels_tuned, modeling
from xlnet.model.kernels import Dropout, Mask, Stream
from xlnet.model.modeling import PLAIN
from xlnet.model.parameters import LayerContext
from xlnet.settings.network import RunConfig, XLNetConfig

FORMS = ("operations", "loops", "xla", "tpu")


def tuned(form, is_training=True):
    return kernels_tuned.tuned(form, is_training)


WITHOUT_SHIFT = kernels_tpu.without_shift(tuned("tpu"))
sizes = st.integers(1, 7)


def context(heads, width, **settings):
    config = XLNetConfig(
        n_layer=1,
        d_model=heads * width,
        n_head=heads,
        d_head=width,
        d_inner=1,
        ff_activation="relu",
        untie_r=True,
        n_token=10,
    )
    run = RunConfig(
        is_training=True,
        use_tpu=True,
        use_bfloat16=False,
        dropout=0.1,
        dropatt=0.1,
        **settings,
    )
    return LayerContext(config, run, tf.constant([1, 2], tf.uint32))


@laws
@given(
    form=st.sampled_from((*FORMS, "tpu without shift")),
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
def test_relative_attention(
    form,
    batch,
    heads,
    length,
    memory,
    targets,
    width,
    has_segments,
    has_directions,
    rows_alike,
    causal,
    seed,
):
    """targets 0: the content stream. Both directions; rows that see nothing attend to nothing."""
    random = np.random.RandomState(seed)
    draw = lambda *shape: random.randn(*shape).astype(np.float32)
    rows, num_keys = targets or length, memory + length
    attn_type = "uni" if causal and not targets else "bi"
    one_hot = lambda *shape: np.eye(3, dtype=np.float32)[random.randint(0, 3, shape)]
    segments = one_hot(batch, 1, rows) if has_segments else None
    key_segments = one_hot(batch, 1, num_keys) if has_segments else None
    masked = random.rand(batch, 1 if rows_alike else rows, num_keys) < 0.5
    # Nobody may see keys to the right, whose distances are missing.
    if attn_type == "uni":
        ahead = np.arange(num_keys) > np.arange(length)[:, None] + memory
        masked = masked | ahead[None]
    first = random.randint(1, length + 1, [batch, targets]) if targets else None
    sign = random.choice([-1.0, 1.0], [batch, 1, 1, 1]) if has_directions else None

    def run(kernels):
        def attention(q, k, v, kernel, r_w, r_r, *of_segments):
            net = context(heads, width)
            sinusoids = modeling.sinusoids_of(net, length, memory, attn_type)
            direction = None if sign is None else tf.constant(sign, tf.float32)
            make_keys = kernels.position_keys or modeling.position_keys
            keys = make_keys(net, kernel, sinusoids, direction)
            mask = kernels.prepare_mask(Mask(masked=tf.constant(masked)))
            weights = attention_weights(r_w, r_r, *of_segments)
            stream = Stream(mask, segments, key_segments, first)
            return kernels.relative_attention(q, k, v, keys, weights, stream)

        return attention

    arrays = [
        draw(batch, heads, rows, width),
        draw(batch, heads, num_keys, width),
        draw(batch, heads, num_keys, width),
        draw(heads * width, heads * width),
        draw(heads, 1, width),
        draw(heads, 1, width),
    ]
    if has_segments:
        arrays += [draw(heads, 1, width), draw(2, heads, 1, width)]
    ours = WITHOUT_SHIFT if form == "tpu without shift" else tuned(form)
    compare(run(ours), run(PLAIN), arrays, rtol=2e-5)
    if masked.all(axis=-1).any():
        values = values_and_gradients(run(ours), arrays)[0]
        nothing = np.broadcast_to(masked.all(axis=-1)[:, None], values.shape[:3])
        assert not values[nothing].any()


@laws
@given(
    form=st.sampled_from(FORMS),
    shape=st.tuples(sizes, sizes),
    width=sizes,
    inner=sizes,
    activation=st.sampled_from(sorted(kernels.ACTIVATIONS)),
    is_training=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_feed_forward(form, shape, width, inner, activation, is_training, seed):
    random = np.random.RandomState(seed)
    arrays = [
        random.randn(*size).astype(np.float32)
        for size in ((*shape, width), (width, inner), [inner], (inner, width), [width])
    ]

    def run(kernels):
        return lambda x, kernel, bias, outer, outer_bias: kernels.feed_forward(
            x, (kernel, bias), (outer, outer_bias), activation
        )

    compare(run(tuned(form, is_training)), run(PLAIN), arrays)


@laws
@given(
    form=st.sampled_from(FORMS),
    shape=st.tuples(sizes, sizes),
    width=st.integers(3, 8),
    seed=st.integers(0, 1000),
)
def test_layer_norm(form, shape, width, seed):
    random = np.random.RandomState(seed)
    arrays = [
        random.randn(*size).astype(np.float32)
        for size in ((*shape, width), [width], [width])
    ]
    compare(tuned(form).layer_norm, PLAIN.layer_norm, arrays, rtol=1e-4)


# ---- dropout ----


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rate", (0.1, 0.5))
def test_dropout_is_a_function_of_its_seed(graph, form, rate):
    x = tf.ones([200, 100])
    first, again, other = (
        tuned(form).dropout(x, Dropout(rate, tf.constant([3, step])))
        for step in (1, 1, 2)
    )
    (gradient,) = tf.gradients(first, x)
    with tf.Session() as session:
        first, again, other, gradient = session.run([first, again, other, gradient])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, gradient)
    assert (first != other).any()
    assert abs(np.mean(first == 0) - rate) < 0.02
    assert abs(first.mean() - 1) < 0.02


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("first", (0, 7))
def test_dropout_is_that_of_the_batch_element(graph, form, first):
    """The second of two examples has the same alone, as the second of the batch, in each kernel."""
    drops = lambda index: Dropout(0.5, tf.constant([1, 2]), tf.constant(first + index))
    random = np.random.RandomState(0)
    q, k, v = (tf.constant(random.randn(2, 2, 20, 4), tf.float32) for _ in range(3))
    k_r, kernel = (
        tf.constant(random.randn(*shape), tf.float32)
        for shape in ((1, 2, 40, 4), (4, 4))
    )
    tuned_form, zeros = tuned(form), tf.zeros([2, 1, 4])

    def outputs(index):
        return [
            tuned_form.relative_attention(
                q[index:],
                k[index:],
                v[index:],
                k_r,
                attention_weights(zeros, zeros),
                Stream(),
                drops(index),
            )[-1],
            tuned_form.feed_forward(
                q[index:, 0],
                (kernel, zeros[0, 0]),
                (kernel, zeros[0, 0]),
                "gelu",
                drops(index),
            )[-1],
            tuned_form.dropout(v[index:], drops(index))[-1],
        ]

    with tf.Session() as session:
        for both, second in zip(*session.run([outputs(0), outputs(1)])):
            assert_close(both, second)


@pytest.mark.parametrize("form", FORMS)
def test_dropped_probabilities_have_the_gradient_of_their_mask(graph, form):
    """With values that tell the keys apart, dropout is read off the output and held fixed."""
    random = np.random.RandomState(0)
    q, k, k_r = (tf.constant(random.randn(2, 3, n, 4), tf.float32) for n in (5, 6, 11))
    v = tf.tile(tf.eye(6)[None, None], [2, 3, 1, 1])
    biases = [tf.constant(random.randn(3, 1, 4), tf.float32) for _ in range(2)]
    weight = tf.constant(random.randn(2, 3, 5, 6), tf.float32)

    def attention(kernels, **more):
        return kernels.relative_attention(
            q, k, v, k_r, attention_weights(*biases), Stream(), **more
        )

    ours = attention(tuned(form), drops=Dropout(0.5, tf.constant([1, 2])))
    keep = tf.stop_gradient(tf.cast(ours > 0, tf.float32))
    plain = attention(PLAIN) * keep * 2.0
    with tf.Session() as session:
        kept = session.run(keep)
        ours, plain = session.run(
            [
                [y] + tf.gradients(y * weight, [q, k, k_r, *biases])
                for y in (ours, plain)
            ]
        )
    assert 0 < kept[0].mean() < 1 and (kept[0] != kept[1]).any()
    for mine, wanted in zip(ours, plain):
        assert_close(mine, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_dropped_activations_have_the_gradient_of_their_mask(graph, form):
    """With one unit a row of the kernel, dropout is read off the output and held fixed."""
    x = tf.constant(np.random.RandomState(0).rand(2, 100, 6) + 1.0, tf.float32)
    outer, zeros = tf.constant(np.diag(np.arange(1.0, 7.0)), tf.float32), tf.zeros([6])
    weight = tf.constant(np.random.RandomState(1).randn(2, 100, 6), tf.float32)
    ours = tuned(form).feed_forward(
        x,
        (tf.eye(6), tf.zeros([6])),
        (outer, zeros),
        "gelu",
        Dropout(0.5, tf.constant([1, 2])),
    )
    keep = tf.stop_gradient(tf.cast(ours > 0, tf.float32))
    plain = tf.tensordot(kernels.gelu(x) * keep * 2.0, outer, 1) + zeros
    with tf.Session() as session:
        kept = session.run(keep)
        ours, plain = session.run(
            [[y] + tf.gradients(y * weight, [x, outer, zeros]) for y in (ours, plain)]
        )
    assert 0.4 < kept.mean() < 0.6
    for mine, wanted in zip(ours, plain):
        assert_close(mine, wanted)


# ---- precision ----


@pytest.mark.parametrize("form", (*FORMS, "plain"))
@pytest.mark.parametrize("dtype, tolerance", ((tf.bfloat16, 0.02), (tf.float16, 0.01)))
def test_gradients_of_biases_in_half_precision(form, dtype, tolerance):
    """Of 16 sequences of 512 tokens: sums of many small numbers."""
    kernels_of_form = PLAIN if form == "plain" else tuned(form)
    random = np.random.RandomState(0)
    arrays = [
        random.randn(*shape) * scale
        for shape, scale in (
            ((16, 512, 8), 1.0),
            ((8, 16), 0.3),
            ([16], 0.1),
            ((16, 8), 0.3),
            ([8], 0.1),
        )
    ]

    def run(dtype):
        def feed(*inputs):
            x, kernel, bias, outer, outer_bias = (
                tf.cast(value, dtype) for value in inputs
            )
            y = kernels_of_form.feed_forward(
                x, (kernel, bias), (outer, outer_bias), "gelu"
            )
            return tf.cast(y, tf.float32) + 0.5  # the same sign, so that sums are large

        return values_and_gradients(feed, [x.astype(np.float32) for x in arrays])

    for name, mine, wanted in zip("yxkbkb", run(dtype), run(tf.float32)):
        assert np.linalg.norm(mine - wanted) < tolerance * np.linalg.norm(wanted), name


@pytest.mark.parametrize("form", (*FORMS, "plain"))
@pytest.mark.parametrize("activation", sorted(kernels.ACTIVATIONS))
def test_activations_of_large_numbers_in_float16(form, activation):
    """Their slopes are 0 and 1."""
    kernels_of_form = PLAIN if form == "plain" else tuned(form)
    x = np.array(
        [[[-60000.0], [-256.0], [-30.0], [30.0], [256.0], [300.0], [60000.0]]],
        np.float16,
    )
    one, zero = np.ones([1, 1], np.float16), np.zeros([1], np.float16)
    value, gradient, *_ = values_and_gradients(
        lambda x, *dense: kernels_of_form.feed_forward(x, dense, dense, activation),
        [x, one, zero],
    )
    weight = np.random.RandomState(1).randn(1, 7, 1).astype(np.float16)
    np.testing.assert_array_equal(value, np.maximum(x, 0))
    np.testing.assert_array_equal(gradient, np.where(x > 0, weight, 0))


# ---- the choice ----


@pytest.mark.parametrize(
    "device, is_training, d_inner, in_loops, is_hashed",
    (
        ("cpu", True, 1024, True, True),
        ("cpu", True, 1023, False, False),
        ("cpu", False, 1024, False, False),
        ("gpu", True, 1024, False, False),
        ("xla", True, 1024, False, True),
        ("tpu", True, 1024, False, True),
    ),
)
def test_what_a_device_takes(graph, device, is_training, d_inner, in_loops, is_hashed):
    """Loops where they pay off; random bits of Philox, which are stored, where nothing is
    compiled."""
    chosen = kernels_tuned.choose(device, is_training, d_inner)
    chosen.dropout(tf.ones([2, 3]), Dropout(0.5, tf.constant([1, 2])))
    assert hasattr(graph, "loops") == in_loops
    philox = {op.type for op in graph.get_operations()} & {
        "StatelessRandomUniformFullIntV2"
    }
    assert (not philox) == is_hashed


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
        assert kernels_tuned.device_here() == device


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
    "settings, is_without_shift", (({}, True), ({"clamp_len": 3}, False))
)
def test_where_the_addition_theorems_do_not_hold_distances_are_shifted(
    graph, settings, is_without_shift
):
    chosen = context(2, 4, device="tpu", **settings).kernels
    assert (
        chosen.relative_attention is kernels_tpu.relative_attention
    ) == is_without_shift
    assert context(2, 4, device="xla").kernels.position_keys is None
