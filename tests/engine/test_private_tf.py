"""Each private name of TensorFlow that is used, on this version: shared constants of a graph,
forgotten gradients, and what TensorFlow knows of operations and hosts."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import private_tf
from xlnet.engine.training import accumulate


def test_a_small_constant_is_one_node(graph):
    with private_tf.constants_shared():
        shared = [tf.constant(value) for value in (2, 2, [3, 4], (3, 4), np.int32(5), np.int32(5))]
    assert [shared[0] is shared[1], shared[2] is shared[3], shared[4] is shared[5]] == 3 * [True]
    assert tf.constant(2) is not shared[0]      # only inside


def test_what_differs_stays_apart(graph):
    """By type, sign, number format, device and graph; large ones are not looked at."""
    with private_tf.constants_shared():
        made = [tf.constant(1), tf.constant(1.), tf.constant(True), tf.constant(0.),
                tf.constant(-0.), tf.constant(1, tf.int64), tf.constant([1]),
                tf.constant(np.zeros(17)), tf.constant(np.zeros(17))]
        with tf.device("/cpu:0"):
            made.append(tf.constant(1))
        with tf.Graph().as_default():
            made.append(tf.constant(1))
    assert len({id(one) for one in made}) == len(made)
    with tf.Session() as session:
        assert np.signbit(session.run(made[3:5])).tolist() == [False, True]


def test_what_others_share_waits_for_nothing(graph):
    """Neither for what its first user waits for nor for the loop that it stands in."""
    with private_tf.constants_shared():
        with tf.control_dependencies([tf.placeholder(tf.float32)]):
            first = tf.constant(7)
        assert tf.constant(7) is first and not first.op.control_inputs
        counted = tf.while_loop(lambda i: i < 7, lambda i: i + 1, [tf.constant(0)])
    with tf.Session() as session:
        assert session.run([first, counted]) == [7, 7]


def constants(operations):
    return sum(op.type == "Const" for op in operations)


def test_a_step_shares_its_constants(graph):
    """Its loss and gradients are what they are with a constant for each use, to the last bit."""
    x = tf.constant(np.arange(24., dtype=np.float32).reshape(4, 6))

    def compute(inputs, first_row):
        weight = tf.get_variable("weight", [6, 6], initializer=tf.initializers.ones())
        y = tf.reduce_sum(inputs["x"] @ weight, axis=1)
        for start in range(3):
            y = tf.reshape(y, [2, 2]) * tf.sigmoid(tf.reshape(y, [2, 2])[:, :1] + start)
            y = tf.reshape(y, [-1])
        return tf.reduce_mean(y[1:] * y[:-1]), {}
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        expected_loss, _ = compute({"x": x}, 0)
        expected = expected_loss, tf.gradients(expected_loss, tf.trainable_variables())
        before = graph.get_operations()
        loss, gradients, _ = accumulate(compute, {"x": x}, 1)
    added = graph.get_operations()[len(before):]
    assert constants(added) < 0.6 * constants(before)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, expected = session.run([(loss, gradients), expected])
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


# ---- gradients, operations, functions, hosts

@tf.custom_gradient
def doubled(x):
    return 2. * x, lambda dy: 3. * dy


@pytest.mark.parametrize("forgets", (True, False))
def test_a_graph_goes_when_its_gradients_are_forgotten(forgets):
    def build():
        with tf.Graph().as_default() as graph, tf.Session() as session:
            x = tf.constant(1.)
            assert session.run(tf.gradients(doubled(x), x)) == [3.]
            return weakref.ref(graph)
    if forgets:
        with private_tf.gradients_forgotten():
            graph = build()
    else:
        graph = build()
    gc.collect()
    assert (graph() is None) == forgets


def test_the_kernels_and_arguments_of_an_operation():
    kernels = private_tf.registered_kernels("Shape")
    assert {"CPU", "GPU"} <= {kernel.device_type for kernel in kernels}
    assert any("output" in kernel.host_memory_arg for kernel in kernels)
    definition = private_tf.op_definition("MatMul")
    assert [argument.name for argument in definition.input_arg] == ["a", "b"]
    assert private_tf.op_definition("no_operation") is None


def test_the_functions_of_a_graph(graph):
    tf2.function(lambda x: tf.reduce_sum(x))(tf.placeholder(tf.float32, [3, 4]))
    function, = private_tf.function_graphs(graph).values()
    assert [tensor.shape.as_list() for tensor in (*function.inputs, *function.outputs)] == [[3, 4],
                                                                                          []]


def test_a_host_that_is_none_does_not_answer():
    with pytest.raises(tf.errors.OpError):
        private_tf.check_host_answers("/job:worker/replica:0/task:1", 1)
