"""How many operations of a training step launch a kernel on a GPU, counted without one.

The step is built as for a GPU and run on the CPU, so that what is counted is the graph as the
session leaves it: functions inlined, equal operations merged, constants folded. Widths do not
matter, and each layer adds the same: two small networks give the counts of Base and Large.
"""

import collections
import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers import gpu_graph, gpu_steps
from tensorflow.python.framework import op_def_registry

from xlnet.engine.devices import connect
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import XLNetConfig
from xlnet.settings.training import OptimizationSettings

pytestmark = pytest.mark.slow

LAYERS = dict(base=12, large=24)
# They only pass a tensor on.
FREE = {
    "Bitcast",
    "Const",
    "ExpandDims",
    "Identity",
    "IdentityN",
    "NoOp",
    "PreventGradient",
    "ReadVariableOp",
    "Reshape",
    "Shape",
    "Snapshot",
    "Squeeze",
    "StopGradient",
    "VarHandleOp",
    "_Arg",
    "_Recv",
    "_Retval",
    "_Send",
}


@pytest.fixture
def count(monkeypatch):
    """Function of a work of `gpu_steps` to the launches of each kind of operation, in a
    network of 2 layers and in one more layer; XLA's cluster is one operation."""

    def of_layers(layers, build, *arguments):
        sizes = dict(gpu_steps.CONFIG.to_dict(), n_layer=layers)
        for name, value in (
            ("ROWS", 2),
            ("CONFIG", XLNetConfig(**sizes)),
            ("OPTIMIZATION", OptimizationSettings(train_steps=100, weight_decay=0.01)),
        ):
            monkeypatch.setattr(gpu_steps, name, value)
        with tf.Graph().as_default():
            return launches(build(*arguments))

    def of_work(*work):
        two, three = of_layers(2, *work), of_layers(3, *work)
        return two, collections.Counter({kind: three[kind] - two[kind] for kind in three})

    return of_work


def launches(fetches):
    """Kind of operation to how many of it one step launches."""
    config = connect(DeviceSettings(device="cpu")).session_config(is_training=True)
    ran = tf.RunMetadata()
    with tf.Session(config=config) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        batch = {
            op.outputs[0]: np.zeros(op.outputs[0].shape, op.outputs[0].dtype.as_numpy_dtype)
            for op in session.graph.get_operations()
            if op.type == "Placeholder"
        }
        session.run(fetches, batch, tf.RunOptions(output_partition_graphs=True), ran)
    return collections.Counter(
        node.op.replace("_Mkl", "")
        for graph in ran.partition_graphs
        for node in graph.node
        if launches_kernel(node)
    )


def launches_kernel(node):
    """False for what only passes on a tensor, and for what computes on the host."""
    if node.op in FREE:
        return False
    kernel = gpu_graph.kernel_of(node.op, node.attr)
    outputs = [output.name for output in op_def_registry.get(node.op).output_arg]
    return kernel is None or not outputs or not set(outputs) <= set(kernel.host_memory_arg)


def in_full(counted):
    """The launches of Base and Large."""
    two, more = (sum(kinds.values()) for kinds in counted)
    return {size: two + (layers - 2) * more for size, layers in LAYERS.items()}


@pytest.mark.parametrize(
    "work, most",
    (
        ((gpu_steps.pretraining, {}, {}), dict(base=5489, large=10973)),
        ((gpu_steps.pretraining, dict(precision="bf16"), {}), dict(base=6015, large=12015)),
        ((gpu_steps.finetuning, "classification", {}, {}, True), dict(base=3188, large=6224)),
        (
            (gpu_steps.finetuning, "classification", dict(precision="bf16"), {}, True),
            dict(base=3560, large=6956),
        ),
    ),
)
def test_a_step_launches_no_more_than_it_did(count, work, most):
    counted = count(*work)
    found = in_full(counted)
    # Fewer than half would rather be launches that are not counted.
    assert all(most[size] / 2 < found[size] <= most[size] for size in most), (
        f"{found}; a layer has {counted[1].most_common()}"
    )


def test_xla_leaves_the_update_alone(count, monkeypatch):
    """The gradients are one cluster; the norm, clipping and Adam are outside."""
    monkeypatch.setattr(
        gpu_steps.pretraining_model,
        "PretrainingModel",
        functools.partial(gpu_steps.pretraining_model.PretrainingModel, xla=True),
    )
    counted = count(gpu_steps.pretraining, {}, {})
    found = in_full(counted)
    assert counted[0]["StatefulPartitionedCall"] == 1
    found_of_layer = (found, counted[1].most_common())
    assert 354 < found["base"] <= 708 and 672 < found["large"] <= 1344, found_of_layer
