"""The matmuls of a graph, and the time of each when it runs alone."""

import collections
import statistics

import repository  # finds the library
import tensorflow.compat.v1 as tf
from work import seconds

# A kind of matmul: dtype, shapes of the two tensors, whether each is transposed, floating-point
# operations (a multiply-add is two).
Product = collections.namedtuple(
    "Product", "dtype first second transpose_a transpose_b operations")


def products_of(graph):
    """A `Counter` of the `Product`s of a graph, those of a function once a call; shapes must be
    static."""
    calls = [op for op in graph.get_operations()
             if op.type in ("PartitionedCall", "StatefulPartitionedCall")]
    functions = function_graphs(graph)
    found = collections.Counter(_products(graph.get_operations()))
    for call in calls:
        function = functions[call.get_attr("f").name]
        # TensorFlow does not run what no output needs, as the gradient behind `tf.stop_gradient`.
        found.update(_products(ancestors([x.op for x in function.outputs] +
                                         list(function.control_outputs))))
    return found


def function_graphs(graph):
    """The functions of a graph: dict of name to `tf.Graph` with `inputs` and `outputs`.

    Private TensorFlow (2.15.1 to 2.21.0): the graph that a function was made from has all shapes; a
    `GraphDef` lacks those of the results of calls.
    """
    return {function.signature.name: graph._get_function(function.signature.name).graph
            for function in graph.as_graph_def().library.function}


def ancestors(ends):
    """The operations that `ends`, a list of them, wait for, and these."""
    found, waiting = set(), list(ends)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found


def _products(operations):
    return [_product(op) for op in operations if op.type in ("MatMul", "BatchMatMulV2")]


def _product(op):
    transposes = [op.get_attr(name) for name in (
        ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y"))]
    first, second = (tuple(x.shape.as_list()) for x in op.inputs)
    operations = 2 * op.outputs[0].shape.num_elements() * first[-2 if transposes[0] else -1]
    return Product(op.outputs[0].dtype, first, second, *transposes, operations)


def time_alone(product, repeats=10):
    """Wall time [s] with all cores, the median of `repeats`."""
    with tf.Graph().as_default(), tf.Session() as session:
        first, second = (tf.Variable(tf.random.normal(shape, dtype=product.dtype))
                         for shape in (product.first, product.second))
        output = tf.matmul(first, second, transpose_a=product.transpose_a,
                           transpose_b=product.transpose_b)
        session.run(tf.global_variables_initializer())
        wall, _ = seconds(lambda: session.run(output.op), repeats, warm_up=2)
    return statistics.median(wall)


def show(graph):
    """Prints a table of the matmuls of a graph, the slowest first."""
    print("| times | of | with | transposed | GFLOP of one | ms of one | GFLOP/s | s of all |\n"
          "|---|---|---|---|---|---|---|---|")
    found = products_of(graph)
    # In rounds, as the first product of a process finds cores that were idle and takes up to twice
    # its time.
    rounds = [{product: time_alone(product) for product in found} for _ in range(3)]
    times = {product: min(round_[product] for round_ in rounds) for product in found}
    for product in sorted(found, key=lambda product: -found[product] * times[product]):
        transposed = ", ".join(name for name, is_so in (
            ("first", product.transpose_a), ("second", product.transpose_b)) if is_so)
        print("| %d | %s | %s | %s | %.3f | %.2f | %.0f | %.3f |" % (
            found[product], " × ".join(map(str, product.first)),
            " × ".join(map(str, product.second)), transposed, product.operations / 1e9,
            times[product] * 1e3, product.operations / times[product] / 1e9,
            found[product] * times[product]))
    operations = sum(product.operations * count for product, count in found.items())
    whole = sum(times[product] * count for product, count in found.items())
    print("| %d | all | | | %.0f | | %.0f | %.3f |" % (
        sum(found.values()), operations / 1e9, operations / whole / 1e9, whole))
