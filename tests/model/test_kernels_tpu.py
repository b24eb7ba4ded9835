"""The form of attention for TPUs gives what `modeling.relative_attention` says, without a shift."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.kernel_laws import attention_weights, compare, laws
from hypothesis import given
from hypothesis import strategies as st

from xlnet.model import kernels_tpu, kernels_tuned, modeling
from xlnet.model.kernels import Mask, Stream
from xlnet.model.modeling import PLAIN
from xlnet.model.parameters import LayerContext
from xlnet.settings.network import RunConfig, XLNetConfig

FORM = kernels_tpu.without_shift(kernels_tuned.tuned("tpu", is_training=True))
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
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=sizes,
    memory=st.integers(0, 5),
    targets=st.integers(0, 5),
    width=st.sampled_from((2, 4, 6)),
    has_segments=st.booleans(),
    has_directions=st.booleans(),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_relative_attention(
    batch,
    heads,
    length,
    memory,
    targets,
    width,
    has_segments,
    has_directions,
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
    masked = random.rand(batch, rows, num_keys) < 0.5
    if attn_type == "uni":
        masked = (
            masked | (np.arange(num_keys) > np.arange(length)[:, None] + memory)[None]
        )
    first = random.randint(1, length + 1, [batch, targets]) if targets else None
    sign = random.choice([-1.0, 1.0], [batch, 1, 1, 1]) if has_directions else None
    stream = Stream(None, segments, key_segments, first)

    def run(form):
        def attention(q, k, v, kernel, r_w, r_r, *of_segments):
            net = context(heads, width)
            sinusoids = modeling.sinusoids_of(net, length, memory, attn_type)
            direction = None if sign is None else tf.constant(sign, tf.float32)
            keys = (form.position_keys or modeling.position_keys)(
                net, kernel, sinusoids, direction
            )
            mask = form.prepare_mask(Mask(masked=tf.constant(masked)))
            return form.relative_attention(
                q,
                k,
                v,
                keys,
                attention_weights(r_w, r_r, *of_segments),
                stream._replace(mask=mask),
            )

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
    compare(run(FORM), run(PLAIN), arrays, rtol=2e-5)


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
