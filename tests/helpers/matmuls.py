"""Refuses batched matmuls whose batch dimensions broadcast, in all graphs that a test builds: on
some processors TensorFlow writes out of bounds there, see `xlnet.network.ops.repeated`."""

import tensorflow.compat.v1 as tf


def refuse_broadcast(monkeypatch):
    """Checks each operation when it is made, in functions and gradients too."""
    make = tf.Graph._create_op_internal

    def checked(graph, op_type, *args, **kwargs):
        operation = make(graph, op_type, *args, **kwargs)
        if "BatchMatMul" in op_type:        # also V2, V3, and the fused forms
            batches = [x.shape.as_list()[:-2] for x in operation.inputs[:2]
                       if x.shape.rank is not None]
            assert len(batches) == 2 and batches[0] == batches[1], (
                "%s: batch dimensions %s" % (operation.name, batches))
        return operation
    monkeypatch.setattr(tf.Graph, "_create_op_internal", checked)
