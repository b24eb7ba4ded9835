"""Fused attention: its programs, interpreted on NumPy arrays, against the plain form and its
gradients; that they compile for a GPU; that a step holds them."""

import functools
import importlib.util
import math

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers import triton_on_numpy
from helpers.golden import constants
from helpers.kernel_laws import attention_weights
from helpers.pretraining import losses_of_steps, run_of

from xlnet.engine.devices import Devices
from xlnet.model import kernels, kernels_gpu, kernels_gpu_check, modeling
from xlnet.model.kernels import Dropout, Mask, Stream
from xlnet.support.errors import UserError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed: pip install triton",
)
SEED = 7
BLOCK = 16  # of the interpreted programs
CASES = {
    # name: (B, N, H, Q, M, P or 0 for the content stream, the two flags, rate)
    "content with memory": (2, 1, 16, 32, 48, 0, dict(), 0.0),
    "dropout": (2, 2, 16, 32, 32, 0, dict(), 0.1),
    "odd lengths": (1, 2, 16, 21, 34, 0, dict(), 0.1),
    "shorter than a block": (2, 1, 16, 5, 0, 0, dict(), 0.0),
    "directions of examples": (3, 1, 16, 17, 20, 0, dict(by_example=True), 0.1),
    "target positions": (2, 2, 16, 32, 16, 6, dict(), 0.1),
    "target positions, odd": (2, 1, 16, 37, 5, 19, dict(by_example=True), 0.0),
    "a query that sees nothing": (2, 1, 16, 16, 0, 4, dict(blind=True), 0.1),
    "ranks of all rows": (2, 1, 16, 18, 3, 0, dict(of_all=True), 0.1),
    "head of 32": (1, 2, 32, 18, 3, 0, dict(), 0.0),
}


@pytest.fixture(scope="module")
def worker():
    with triton_on_numpy.Worker() as found:
        yield found


def inputs_of(case, by_example=False, blind=False, of_all=False):
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
    arrays["key_segment"] = rng.randint(0, 2, (batch, keys))
    arrays["query_segment"] = rng.randint(0, 2, (batch, queries))
    rank = np.stack([rng.permutation(length) - length // 3 for _ in range(batch)])
    rank = np.maximum(rank, -1)
    of_memory = np.full((batch, memory), -(2**31))
    arrays["key_rank"] = np.concatenate([of_memory, rank], axis=1)
    arrays["query_rank"] = rank + (rank < 0)
    if targets:
        positions = [np.sort(rng.permutation(length)[:targets]) for _ in range(batch)]
        positions = np.stack(positions)
        arrays["first_distance_index"] = length - positions
        arrays["query_rank"] = np.take_along_axis(rank + (rank < 0), positions, 1)
        if blind:
            arrays["query_rank"][:, 0] = -2
    else:
        arrays["own_key"] = memory + np.arange(length)[None]
    if of_all:
        for name in ("key_rank", "query_rank"):
            arrays[name] = arrays[name][:1]
    return arrays


@pytest.fixture
def on_numpy(worker, monkeypatch):
    """Runs each program interpreted where TensorFlow would launch it, with smaller blocks."""

    def run(name, sizes, compute_capability, inputs, outputs):
        batch, num_rows, heads, _ = outputs[0].shape.as_list()
        grid = (math.ceil(num_rows / BLOCK), heads, batch)
        constants = dict(sizes._asdict(), BLOCK=BLOCK)
        specs = [(spec.shape.as_list(), spec.dtype.as_numpy_dtype) for spec in outputs]

        def call(*arrays):
            return worker.run(name, grid, arrays, specs, constants)

        dtypes = [spec.dtype for spec in outputs]
        results = tf.numpy_function(call, list(inputs), dtypes)
        for result, spec in zip(results, outputs):
            result.set_shape(spec.shape)
        return list(results)

    monkeypatch.setattr(kernels_gpu, "run_program", run)


def stream_of(tensors, is_fused):
    ranks = tensors["key_rank"], tensors["query_rank"]
    mask = Mask(*ranks, own_key=tensors.get("own_key"))
    if not is_fused:
        mask = kernels.additive_mask(mask)
    segments, key_segments = tensors["query_segment"], tensors["key_segment"]
    return Stream(mask, segments, key_segments, tensors.get("first_distance_index"))


@pytest.mark.parametrize("name", CASES)
def test_fused_attention_is_the_plain_form(name, on_numpy, monkeypatch):
    case = CASES[name]
    rate = case[7]
    arrays = inputs_of(case, **case[6])
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = constants(arrays)
        names = ("q", "k", "v", "k_r", "r_w", "r_r", "r_s", "seg_embed")
        differentiated = [tensors[name] for name in names]
        weights = attention_weights(*differentiated[4:])
        drops = Dropout()
        if rate:
            drops = Dropout(rate, tf.constant([99 << 32 | 5], tf.uint64), 3)
        results = []
        # The plain form has the dropout mask of the programs.
        monkeypatch.setattr(
            Dropout, "kept", lambda self, shape: kernels_gpu.kept(shape, self)
        )
        fused = functools.partial(kernels_gpu.relative_attention, (9, 0))
        for attention in (modeling.relative_attention, fused):
            stream = stream_of(tensors, attention is fused)
            output = attention(*differentiated[:4], weights, stream, drops)
            gradients = tf.gradients(output, differentiated, tensors["d_output"])
            results.append(session.run([output, *gradients]))
    for plain, fused in zip(*results):
        assert np.isfinite(fused).all()
        bound = 1e-4 * np.abs(plain).max()
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=bound)


@pytest.mark.slow
def test_a_step_is_the_same_in_micro_batches_and_recomputed(on_numpy, monkeypatch):
    """Of both streams, with memories and directions. Dropout of half the probabilities would show
    other masks; without dropout it is the step of the tuned form."""
    in_graph = tf2.function
    monkeypatch.setattr(
        tf2, "function", lambda step, **how: in_graph(step, autograph=False)
    )

    def losses(fused, dropout, recompute=False, micro_batches=1):
        model = run_of(
            dict(d_model=16, n_head=1, d_head=16),
            dict(dropout=0.0, dropatt=dropout, recompute=recompute, init_std=0.3),
            dict(mem_len=8, grad_accum_steps=micro_batches),
            devices=Devices(None, xla=True),
            fused_attention=(9, 0) if fused else None,
        )
        return losses_of_steps(model)

    np.testing.assert_allclose(losses(True, 0.0), losses(False, 0.0), rtol=1e-5)
    whole = losses(True, 0.5)
    np.testing.assert_allclose(losses(True, 0.5, recompute=True), whole, rtol=1e-5)
    np.testing.assert_allclose(losses(True, 0.5, micro_batches=2), whole, rtol=1e-5)
    assert np.abs(np.array(whole) - losses(True, 0.0)).max() > 1e-3


def test_the_check_before_a_run_finds_what_differs(on_numpy, monkeypatch):
    """As if the GPU dropped other probabilities than the plain form."""
    monkeypatch.setattr(kernels_gpu, "PRECISIONS", ("fp32",))
    monkeypatch.setattr(kernels_gpu_check.tf2, "function", lambda f, **how: f)
    monkeypatch.setattr(kernels_gpu_check, "_BATCH", 1)  # less work for NumPy
    monkeypatch.setattr(kernels_gpu_check, "_HEADS", 1)
    kernels_gpu_check.check((9, 0), "fp32", 16, None)
    monkeypatch.setattr(
        kernels_gpu_check._SameDropout, "kept", lambda self, shape: tf.fill(shape, True)
    )
    with pytest.raises(UserError, match="found results on this GPU that differ by"):
        kernels_gpu_check.check((9, 0), "fp32", 16, None)
    with pytest.raises(UserError, match="found precision fp32 and d_head 24"):
        kernels_gpu_check.check((9, 0), "fp32", 24, None)


SIZES = kernels_gpu._Sizes(
    T=512, K=896, R=1408, N=12, H=64, DROPPED=6554, SEES_ITSELF=True, HAS_BAND=True
)


@pytest.mark.slow
@pytest.mark.parametrize("in_tile", (True, False))
@pytest.mark.parametrize("name", ("forward", "backward"))
def test_programs_compile_for_an_h100(name, in_tile):
    """To PTX of tensor cores of that GPU, with as many parameters as are passed, or more."""
    half, integer, single = "*bf16", "*i32", "*fp32"
    types = (*[half] * 6, single, *[integer] * 6, half, single)
    if name == "backward":
        types += (half, half, single, half, half, half)
    sizes = SIZES._replace(HAS_BAND=in_tile)
    program, num_parameters = kernels_gpu.compiled(name, types, sizes, (9, 0))
    assert ".target sm_90a" in program["kernel_data"]
    assert "wgmma.mma_async" in program["kernel_data"]
    assert num_parameters >= len(types)
    assert program["shared_mem_bytes"] <= 227 * 1024  # of an H100's block


def test_a_missing_triton_is_named(monkeypatch):
    monkeypatch.setattr(kernels_gpu.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="fused_attention: found no triton"):
        kernels_gpu.compiled("forward", (), SIZES, (8, 0))
