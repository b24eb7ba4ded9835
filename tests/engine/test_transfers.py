"""What a training step would do on a GPU, found without one: no operation that only a CPU has, no
tensor that makes the host wait, nothing but scalars and the batch from the host."""

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers import gpu_graph, gpu_steps

pytestmark = pytest.mark.slow
WORKS = gpu_steps.QUICK


@pytest.mark.parametrize("name", WORKS)
def test_a_step_stays_on_the_gpu(name):
    found = gpu_graph.analysis_of(WORKS[name])
    assert gpu_graph.faults(found) == []
    assert found.operations > 1500 and found.batch


# ---- what it finds


def batch(dtype=tf.int32):
    return tf.placeholder(dtype, [512, 8], "batch")


def weight():
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            "weight", [8, 4], tf.float32, use_resource=True
        ).read_value()


def whole_numbers_on_the_host():
    """int32 is the host's: the batch is read there, and what is computed of it goes to the GPU."""
    return tf.gather(weight(), batch() + 1)


def a_wait_in_each_step():
    best = tf.argmax(weight(), axis=1, output_type=tf.int32)
    return tf.gather(weight(), best + 1)


@pytest.mark.parametrize(
    "build, expected",
    (
        (
            whole_numbers_on_the_host,
            [
                "to the host: int32 [512, 8] of Placeholder (batch), read by AddV2 (add)",
                "to the GPU: int32 [512, 8] of AddV2 (add), read by GatherV2 (GatherV2)",
            ],
        ),
        (
            a_wait_in_each_step,
            ["to the host: int32 [8] of ArgMax (ArgMax), read by AddV2 (add)"],
        ),
    ),
)
def test_a_new_crossing_is_named(graph, build, expected):
    assert sorted(gpu_graph.faults(gpu_graph.analyse([build()]))) == sorted(expected)


def test_what_is_compiled_is_one_kernel(graph):
    x = weight()
    compiled = tf2.function(
        lambda x: x * tf.cast(tf.cast(tf.reduce_sum(x), tf.int32) + 1, tf.float32),
        jit_compile=True,
        autograph=False,
    )
    assert gpu_graph.faults(gpu_graph.analyse([compiled(x)])) == []
