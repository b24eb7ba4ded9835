"""Each private name of TensorFlow that is used, on this version: forgotten gradients, and
what TensorFlow knows of operations and hosts."""

import gc
import weakref

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import private_tf


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
