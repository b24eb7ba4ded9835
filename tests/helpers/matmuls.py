"""The matmuls of a graph. Those whose batch dimensions broadcast are refused: on some processors
TensorFlow writes out of bounds there, see `xlnet.model.ops.repeated`."""

import tensorflow.compat.v1 as tf


def refuse_broadcast(monkeypatch):
    """Checks each operation when it is made, in functions and gradients too."""
    make = tf.Graph._create_op_internal

    def checked(graph, op_type, *args, **kwargs):
        operation = make(graph, op_type, *args, **kwargs)
        if "BatchMatMul" in op_type:  # also V2, V3, and the fused forms
            first, second = (x.shape.as_list()[:-2] for x in operation.inputs[:2])
            assert first == second, f"{operation.name}: {first} and {second}"
        return operation

    monkeypatch.setattr(tf.Graph, "_create_op_internal", checked)


def operations_of(graph):
    """Floating-point operations of a graph's matmuls, those of a function once a call; a
    multiply-add is two. Shapes must be static."""
    functions = function_graphs(graph)
    found = sum(map(_operations, graph.get_operations()))
    for call in graph.get_operations():
        if call.type in ("PartitionedCall", "StatefulPartitionedCall"):
            function = functions[call.get_attr("f").name]
            # TensorFlow does not run what no output needs, as gradients behind `stop_gradient`.
            ends = [x.op for x in function.outputs] + list(function.control_outputs)
            found += sum(map(_operations, ancestors(ends)))
    return found


def _operations(op):
    if op.type not in ("MatMul", "BatchMatMulV2"):
        return 0
    is_transposed = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
    inner = op.inputs[0].shape.as_list()[-2 if is_transposed else -1]
    return 2 * op.outputs[0].shape.num_elements() * inner


def function_graphs(graph):
    """The functions of a graph: dict of name to `tf.Graph` with `inputs` and `outputs`.

    Private TensorFlow (2.15.1 to 2.21.0): the graph that a function was made from has all shapes; a
    `GraphDef` lacks those of the results of calls.
    """
    return {
        function.signature.name: graph._get_function(function.signature.name).graph
        for function in graph.as_graph_def().library.function
    }


def ancestors(ends):
    """The operations that `ends`, a list of them, wait for, and these."""
    found, waiting = set(), list(ends)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found
