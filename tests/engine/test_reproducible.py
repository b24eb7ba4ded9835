"""A training step gives the same bits each time, with its operations side by side: nothing that it
sums depends on which of them ends first."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import time_xlnet
from helpers import gpu_steps
from helpers.networks import sizes
from run import WORKS

from xlnet.model import ops
from xlnet.settings.network import XLNetConfig

pytestmark = pytest.mark.slow


def long_sums(graph_def):
    """The operations, those of functions too, that sum more than two tensors."""
    nodes = [
        *graph_def.node,
        *(
            node
            for function in graph_def.library.function
            for node in function.node_def
        ),
    ]
    assert any(node.op == "AddN" for node in nodes)
    return [
        node.name
        for node in nodes
        if node.op in ("AddN", "AccumulateNV2")
        and sum(not name.startswith("^") for name in node.input) > 2
    ]


@pytest.mark.parametrize("name", gpu_steps.QUICK)
def test_two_are_summed_at_a_time(graph, name):
    build, *arguments = gpu_steps.QUICK[name]
    build(*arguments)
    assert long_sums(graph.as_graph_def()) == []


@pytest.fixture
def step(graph):
    """Pretraining in bfloat16, where a sum of three shows its order most."""
    config = XLNetConfig(
        **sizes(layers=2, width=256, heads=4, inner=1024), n_token=4000
    )
    return time_xlnet.build(
        WORKS["pretrain"], config, dict(precision="bf16", recompute=False)
    )


def test_a_run_repeats_bit_for_bit(step):
    fetches, feed, session_config = step
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


def test_gradients_that_meet_are_summed_two_at_a_time(graph):
    x = tf.constant([1.0])
    (dx,) = ops.gradients(x * x * x + tf.exp(x) + 3.0 * x, [x])
    assert long_sums(graph.as_graph_def()) == []
    with tf.Session() as session:
        assert session.run(dx) == pytest.approx(6.0 + np.e)
