"""A training step as TPUs would run it, traced by `TPUStrategy` without one.

What `benchmarks/accelerators/compile_step.py` compiles for a TPU is that step, without the sum over
replicas and the update.
"""

import functools
from unittest import mock

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers import fake_tpu, gpu_steps
from helpers.golden import assert_close
from helpers.matmuls import function_graphs
from helpers.pretraining import features, run_of
from tensorflow.python.framework import kernels

from xlnet.engine import optimizer
from xlnet.model import ops

pytestmark = pytest.mark.slow

WIDE = tf.int64, tf.uint64, tf.float64
# Types of operations that only say how a graph is wired.
WIRING = set("Const Identity IdentityN NoOp Placeholder TPUReplicateMetadata".split())
OF_TPUS = {"CrossReplicaSum"}  # whose kernel only TensorFlow for TPUs has
BF16 = dict(precision="bf16")
KINDS = {
    "permutation": (BF16, {}),
    "recomputed": (dict(precision="bf16", recompute=True), {}),
    "clipped": (dict(precision="bf16", clamp_len=100), {}),
    "causal": (BF16, dict(objective="causal", same_length=True)),
    "next segment": (BF16, dict(next_segment_loss=1.0)),
    "accumulated": (BF16, dict(grad_accum_steps=2)),
}


@functools.cache
def traced(kind):
    """The graph of a step of pretraining on four chips."""
    with (
        tf.Graph().as_default() as graph,
        fake_tpu.strategy() as strategy,
        strategy.scope(),
    ):
        model, batch = gpu_steps.pretraining_model_and_batch(*KINDS[kind])

        def on_replica(features):
            spec = model.model_fn(features)
            with tf.control_dependencies([spec.train_op]):
                return tf.identity(spec.loss)

        strategy.run(on_replica, args=(batch,))
    return graph


def operations(graph):
    """Those of the chips, and of the functions that they call."""
    found = fake_tpu.operations(graph)
    for each in function_graphs(graph).values():
        found += each.get_operations()
    return found


@pytest.fixture(scope="module")
def in_xla():
    """Whether XLA has a kernel for an operation; it registers them when used."""
    with tf.Graph().as_default(), tf.Session() as session:
        add = tf2.function(lambda x: x + 1.0, jit_compile=True, autograph=False)
        session.run(add(tf.zeros([])))

    def has_kernel(name):
        registered = kernels.get_registered_kernels_for_op(name).kernel
        return "XLA_CPU_JIT" in {kernel.device_type for kernel in registered}

    return has_kernel


@pytest.mark.parametrize("kind", KINDS)
def test_xla_has_kernels_for_all_of_it_and_numbers_have_32_bits(kind, in_xla):
    """A TPU computes with 64 bits in two parts; scalars, as the step, do no harm. Nor are scores
    by distance stored, where the kernel without a shift is taken."""
    assert not in_xla("StringJoin")
    distances = gpu_steps.MEMORY + 2 * gpu_steps.LENGTH
    without_shift = kind in ("permutation", "recomputed", "next segment")
    for op in operations(traced(kind)):
        assert op.type in WIRING | OF_TPUS or in_xla(op.type), op.type
        for x in op.outputs:
            assert x.dtype not in WIDE or x.shape.num_elements() == 1, op
            if without_shift and x.shape.rank is not None and x.shape.rank >= 4:
                assert x.shape[-1] != distances, op


loss_and_gradients = optimizer.loss_and_gradients


def compiled_step(*given, **named):
    """`loss_and_gradients`, compiled whatever `xla` is; what XLA compiles calls it without."""
    if "xla" in named:
        named["xla"] = True
    return loss_and_gradients(*given, **named)


@pytest.mark.parametrize("recompute", (False, True))
def test_its_loss_and_gradients_are_those_of_a_cpu(recompute):
    """In float32 and without dropout, compiled by XLA on a CPU."""

    def results(device):
        step = compiled_step if device == "tpu" else loss_and_gradients
        found = []

        def kept(*given, **named):
            found.append(step(*given, **named))
            return found[-1]

        network = dict(dropout=0.0, dropatt=0.0, recompute=recompute)
        with (
            mock.patch.object(ops, "device_here", lambda: device),
            mock.patch.object(optimizer, "loss_and_gradients", kept),
            tf.Graph().as_default(),
            tf.Session() as session,
        ):
            tf.set_random_seed(1)
            tf.train.get_or_create_global_step()
            run_of({}, network, dict(mem_len=12)).model_fn(features())
            session.run(tf.global_variables_initializer())
            session.run(tf.local_variables_initializer())
            return session.run(found[-1][:2])

    (loss, gradients), (wanted_loss, wanted) = results("tpu"), results("cpu")
    assert_close(loss, wanted_loss)
    for mine, other in zip(gradients, wanted):
        assert_close(mine, other)
