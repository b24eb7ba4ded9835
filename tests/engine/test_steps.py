"""What a training step would do on a GPU, found without one: no operation that only a CPU has, no
tensor that makes the host wait, nothing but scalars and the batch from the host. And that a step
gives the same bits each time, with its operations side by side: nothing that it sums depends on
which of them ends first."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
import time_xlnet
from helpers import gpu_graph, gpu_steps
from helpers.networks import sizes
from run import WORKS

from xlnet.settings.network import XLNetConfig

pytestmark = pytest.mark.slow


def long_sums(graph_def):
    """The operations, those of functions too, that sum more than two tensors."""
    nodes, found = list(graph_def.node), []
    for function in graph_def.library.function:
        nodes += function.node_def
    assert any(node.op == "AddN" for node in nodes)
    for node in nodes:
        terms = [name for name in node.input if not name.startswith("^")]
        if node.op in ("AddN", "AccumulateNV2") and len(terms) > 2:
            found.append(node.name)
    return found


@pytest.mark.parametrize("name", gpu_steps.QUICK)
def test_a_step_stays_on_the_gpu_and_sums_two_at_a_time(graph, name):
    build, *arguments = gpu_steps.QUICK[name]
    found = gpu_graph.analyse(build(*arguments))
    assert gpu_graph.faults(found) == []
    assert len(found.operations) > 1500 and found.batch
    assert long_sums(graph.as_graph_def()) == []


@pytest.fixture
def weight(graph):
    return tf.get_variable("weight", [8, 4], use_resource=True).read_value()


def test_a_new_crossing_is_named(weight):
    """int32 is the host's: the batch is read there, and what is computed of it goes to the GPU."""
    batch = tf.placeholder(tf.int32, [512, 8], "batch")
    assert gpu_graph.faults(gpu_graph.analyse([tf.gather(weight, batch + 1)])) == [
        "to the host: int32 [512, 8] of Placeholder (batch), read by AddV2 (add)",
        "to the GPU: int32 [512, 8] of AddV2 (add), read by GatherV2 (GatherV2)",
    ]


def test_what_is_compiled_is_one_kernel(weight):
    def step(x):
        return x * tf.cast(tf.cast(tf.reduce_sum(x), tf.int32) + 1, tf.float32)

    compiled = tf2.function(step, jit_compile=True, autograph=False)(weight)
    assert gpu_graph.faults(gpu_graph.analyse([compiled])) == []


def test_a_run_repeats_bit_for_bit(graph):
    """Pretraining in bfloat16, where a sum of three shows its order most."""
    network = sizes(layers=2, width=256, heads=4, inner=1024)
    config = XLNetConfig(**network, n_token=4000)
    how = dict(precision="bf16", recompute=False)
    fetches, feed, session_config = time_xlnet.build(WORKS["pretrain"], config, how)
    weights = tf.global_variables()

    def run():
        with tf.Session(config=session_config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(fetches, feed)
            return session.run(weights)

    first = run()
    for _ in range(5):
        for variable, value, again in zip(weights, first, run()):
            np.testing.assert_array_equal(again, value, variable.op.name)
