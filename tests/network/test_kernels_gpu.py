"""Fused attention: its programs, interpreted on NumPy arrays, against the plain form and its
gradients; that they compile for a GPU; that a step holds them."""

import importlib.util
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers import triton_on_numpy

from xlnet.network import kernels, kernels_gpu, modeling
from xlnet.network.kernels import Dropout, Mask, Stream

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton"
)
SEED = 7
BLOCK = 16  # of the interpreted programs
CASES = {
    # name: (B, N, H, Q, M, P or 0 for the content stream, the two flags, rate)
    "content": (2, 2, 16, 32, 0, 0, dict(), 0.0),
    "content with memory": (2, 1, 16, 32, 48, 0, dict(), 0.0),
    "dropout": (2, 2, 16, 32, 32, 0, dict(), 0.1),
    "odd lengths": (1, 2, 16, 21, 34, 0, dict(), 0.1),
    "shorter than a block": (2, 1, 16, 5, 0, 0, dict(), 0.0),
    "directions of examples": (3, 1, 16, 17, 20, 0, dict(by_example=True), 0.1),
    "without segments": (1, 1, 16, 20, 10, 0, dict(segments=False), 0.0),
    "no mask": (1, 2, 16, 20, 10, 0, dict(mask=False), 0.0),
    "target positions": (2, 2, 16, 32, 16, 6, dict(), 0.1),
    "target positions, odd": (2, 1, 16, 37, 5, 19, dict(by_example=True), 0.0),
    "a query that sees nothing": (2, 1, 16, 16, 0, 4, dict(blind=True), 0.1),
    "head of 32": (1, 2, 32, 18, 3, 0, dict(), 0.0),
}


@pytest.fixture(scope="module")
def worker():
    with triton_on_numpy.Worker() as found:
        yield found


def inputs_of(case, by_example=False, segments=True, mask=True, blind=False):
    """NumPy arrays for a case: what `relative_attention` gets."""
    batch, heads, size, length, memory, targets, _, _ = case
    rng = np.random.RandomState(SEED)
    keys, queries = memory + length, targets or length
    distances = keys + length

    def normal(*shape):
        return rng.randn(*shape).astype("f4")

    arrays = dict(
        q=normal(batch, heads, queries, size),
        k=normal(batch, heads, keys, size),
        v=normal(batch, heads, keys, size),
        k_r=normal(batch if by_example else 1, heads, distances, size),
        d_output=normal(batch, heads, queries, size),
        r_w=normal(heads, 1, size),
        r_r=normal(heads, 1, size),
        r_s=normal(heads, 1, size),
        seg_embed=normal(2, heads, 1, size),
    )
    if segments:
        arrays["key_segment"] = rng.randint(0, 2, (batch, keys))
        arrays["query_segment"] = rng.randint(0, 2, (batch, queries))
    rank = np.stack([rng.permutation(length) - length // 3 for _ in range(batch)])
    rank = np.maximum(rank, -1)
    if mask:
        arrays["key_rank"] = np.concatenate([np.full((batch, memory), -(2**31)), rank], axis=1)
        arrays["query_rank"] = rank + (rank < 0)
    if targets:
        positions = np.stack([np.sort(rng.permutation(length)[:targets]) for _ in range(batch)])
        arrays["first_distance"] = length - positions
        arrays["query_rank"] = np.take_along_axis(rank + (rank < 0), positions, 1)
        if blind:
            arrays["query_rank"][:, 0] = -2
    elif mask:
        arrays["own_key"] = np.broadcast_to(memory + np.arange(length), (batch, length))
    return arrays


@pytest.fixture
def on_numpy(worker, monkeypatch):
    """Runs each program interpreted where TensorFlow would launch it, with smaller blocks."""

    def run(self, name, num_rows, inputs, outputs):
        grid = (math.ceil(num_rows / BLOCK), self.sizes.N, self.batch)
        constants = dict(self.sizes._asdict(), BLOCK=BLOCK)
        specs = [(spec.shape.as_list(), spec.dtype.as_numpy_dtype) for spec in outputs]

        def call(*arrays):
            return worker.run(name, grid, arrays, specs, constants)

        results = tf.numpy_function(call, list(inputs), [spec.dtype for spec in outputs])
        for result, spec in zip(results, outputs):
            result.set_shape(spec.shape)
        return list(results)

    monkeypatch.setattr(kernels_gpu._Programs, "run", run)
    monkeypatch.setattr(kernels_gpu, "is_possible", lambda *inputs: True)


def stream_of(arrays, tensors, prepare_mask):
    mask = None
    if "key_rank" in arrays:
        mask = Mask(tensors["key_rank"], tensors["query_rank"], own_key=tensors.get("own_key"))
        mask = prepare_mask(mask)
    segments = key_segments = None
    if "key_segment" in arrays:
        segments = tf.one_hot(tensors["query_segment"], 2)[:, None]
        key_segments = tf.one_hot(tensors["key_segment"], 2)[:, None]
    return Stream(mask, segments, key_segments, tensors.get("first_distance"))


@pytest.mark.parametrize("name", CASES)
def test_fused_attention_is_the_plain_form(name, on_numpy, monkeypatch):
    case = CASES[name]
    rate = case[7]
    arrays = inputs_of(case, **case[6])
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = {key: tf.constant(value) for key, value in arrays.items()}
        weights = kernels.Weights(
            *[None] * 5,
            *(tensors[key] for key in ("r_w", "r_r", "r_s", "seg_embed")),
            *[None] * 4,
        )
        drops = Dropout(rate, tf.constant([99 << 32 | 5], tf.uint64), 3) if rate else Dropout()
        differentiated = [tensors[key] for key in ("q", "k", "v", "k_r", "r_w", "r_r")]
        if "key_segment" in arrays:
            differentiated += [tensors["r_s"], tensors["seg_embed"]]
        results = []
        for attention, prepare_mask in (
            (modeling.relative_attention, kernels.additive_mask),
            (
                lambda *inputs: kernels_gpu.relative_attention(None, (9, 0), *inputs),
                kernels_gpu.prepare_mask,
            ),
        ):
            # The plain form has the dropout mask of the programs.
            monkeypatch.setattr(Dropout, "kept", lambda self, shape: kernels_gpu.kept(shape, self))
            output = attention(
                *(tensors[key] for key in ("q", "k", "v", "k_r")),
                weights,
                stream_of(arrays, tensors, prepare_mask),
                drops,
            )
            gradients = tf.gradients(output, differentiated, tensors["d_output"])
            results.append(session.run([output, *gradients]))
    for plain, fused in zip(*results):
        assert np.isfinite(fused).all()
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=1e-4 * np.abs(plain).max())
