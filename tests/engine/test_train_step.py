"""One training step: micro-batches."""

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step


def test_micro_batches_have_the_gradients_of_the_whole_batch(graph):
    x = tf.constant(np.random.RandomState(0).randn(6, 3), tf.float32)

    class Run:
        def micro_batch_loss(self, part, first_row):
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                w = tf.get_variable("w", [3], use_resource=True)
            losses = tf.reduce_sum(part["x"] * w, axis=1) ** 2
            return tf.reduce_mean(losses), {
                "losses": losses,
                "row": first_row + tf.range(losses.shape.as_list()[0]),
            }

    found = [
        train_step.loss_and_gradients(Run(), {"x": x}, 10, count) for count in (1, 2, 3)
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole, *parts = session.run(found)
    for loss, gradients, kept in parts:
        np.testing.assert_allclose(loss, whole[0], rtol=1e-5)
        np.testing.assert_allclose(gradients, whole[1], rtol=1e-5)
        np.testing.assert_allclose(kept["losses"], whole[2]["losses"], rtol=1e-5)
        assert kept["row"].tolist() == list(range(10, 16))
