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


def a_wait_in_a_loop():
    return tf.while_loop(
        lambda i, x: i < 3,
        lambda i, x: [
            i + 1,
            x * tf.cast(tf.cast(tf.reduce_sum(x), tf.int32) + 1, tf.float32),
        ],
        [0, weight()],
    )[1]


def nothing_for_a_gpu():
    return tf.strings.to_number(tf.strings.as_string(weight()))


def a_constant_that_the_host_reads():
    return tf.range(0.0, 4.0) * weight()


def of_unknown_size():
    return weight()[0, 0] * tf.cast(
        tf.range(tf.shape(tf.placeholder(tf.float32, [None], "batch"))[0]), tf.float32
    )


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
        (
            a_wait_in_a_loop,
            ["to the host: int32 [] of Cast (BODY/Cast), read by AddV2 (BODY/add_1)"],
        ),
        (
            nothing_for_a_gpu,
            [
                "no CUDA kernel: AsString of float32, string (AsString)",
                "no CUDA kernel: StringToNumber of float32, string (StringToNumber)",
                "to the host: float32 [8, 4] of Identity (Identity), read by AsString (AsString)",
            ],
        ),
        (
            a_constant_that_the_host_reads,
            [
                f"to the host: float32 [] of {source}, read by Range (range)"
                for source in (
                    "Cast (range/Cast)",
                    "Const (range/limit)",
                    "Const (range/start)",
                )
            ],
        ),
        (
            of_unknown_size,
            ["to the GPU: int32 [None] of Range (range), read by Cast (Cast)"],
        ),
    ),
)
def test_a_new_crossing_is_named(graph, build, expected):
    found = gpu_graph.faults(gpu_graph.analyse([build()]))
    loops = [name for name in gpu_graph.function_graphs(graph) if "body" in name]
    assert sorted(found) == sorted(
        fault.replace("BODY", *loops) if loops else fault for fault in expected
    )


def test_what_is_compiled_is_one_kernel(graph):
    x = weight()
    compiled = tf2.function(
        lambda x: x * tf.cast(tf.cast(tf.reduce_sum(x), tf.int32) + 1, tf.float32),
        jit_compile=True,
        autograph=False,
    )
    assert gpu_graph.faults(gpu_graph.analyse([compiled(x)])) == []
