"""The same training on any devices: replicas, hosts, micro-batches."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.pretraining import curve, start_hosts, train, weights
from transfers import ancestors

from xlnet.engine import distribution, optimizer
from xlnet.network import ops

STEPS = 50      # of every run; bi_data is on: every batch has rows of both directions
# Dropout is on, with noise that belongs to rows, and the next-segment head has its own: where that
# agrees, so does what has no noise. The sinusoids have noise too: some are all but constant, which
# softmax ignores, so that without it gradients of r/kernel are zero but for rounding, and Adam
# makes of that what it makes of any gradient.
SETTINGS = dict(train_steps=STEPS, next_segment_loss=1., position_dropout="row")


@pytest.fixture(scope="module")
def runs(place):
    """The same run four times; name to model directory."""
    settings = dict(SETTINGS, eval_record_info_dir=place / "train")
    hosts = start_hosts(place, "hosts", **settings)
    for name, changes in (("one", {}), ("replicas", dict(num_core_per_host=2)),
                          ("micro", dict(grad_accum_steps=2))):
        done = train(place, name, **settings, **changes)
        assert done.returncode == 0, done.stderr
    printed = [host.communicate(timeout=300)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], printed
    assert "step %d/%d" % (STEPS, STEPS) in printed[0] and "step" not in printed[1]
    return place


def test_training_runs_the_operations_of_a_function_in_place_of_its_call(graph):
    y = ops.built_once(lambda x: tf.exp(x) * 2.)(tf.placeholder(tf.float32, []))
    fetches, metadata = ops.gradients(y, [y.op.inputs[0]]), tf.RunMetadata()
    config = distribution.session_config(distribution.Devices(None), is_training=True)
    with tf.Session(config=config) as session:
        found = session.run(fetches, {y.op.inputs[0]: 1.},
                            tf.RunOptions(output_partition_graphs=True), metadata)
    assert found == [pytest.approx(2. * np.e)]
    run = {node.op for part in metadata.partition_graphs for node in part.node}
    assert "Exp" in run and not {"PartitionedCall", "StatefulPartitionedCall"} & run


@pytest.mark.parametrize("other", ("replicas", "hosts", "micro"))
@pytest.mark.slow
def test_devices_change_nothing(runs, other):
    """Losses, gradient norms and final weights to 1e-6 over 50 steps: sums of the same float32
    numbers in another order, and this learning rate does not blow their last bits up."""
    expected = curve(runs, "one")
    assert expected.shape == (STEPS, 3) and expected[-10:, 1].mean() < expected[:10, 1].mean() - 0.2
    np.testing.assert_allclose(curve(runs, other), expected, rtol=1e-6)
    ours, theirs = weights(runs, other), weights(runs, "one")
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("other", ("replicas", "hosts", "micro"))
@pytest.mark.slow
def test_devices_evaluate_alike(runs, other):
    """Each device has rows of its own and carries their memories; every window is judged once."""
    judged, expected = held_out(runs, other), held_out(runs, "one")
    assert list(expected[:, 0]) == [0, STEPS]
    np.testing.assert_allclose(judged, expected, rtol=1e-5)


def held_out(place, name):
    """The table of a run's evaluations: step, loss and what follows from it."""
    return np.loadtxt(place / name / "held_out.tsv", skiprows=1)


@pytest.mark.slow
def test_each_host_saves_the_memories_of_its_rows(runs):
    whole = np.load(runs / "one" / ("memory-%d-0.npy" % STEPS))
    parts = [np.load(runs / "hosts" / ("memory-%d-%d.npy" % (STEPS, row))) for row in (0, 2)]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)


# ---- sums over replicas

def sums(graph):
    """The names of the backward pass's operations that each sum over replicas waits for, of what
    one of two GPUs does with eight layers; in the order in which they were built."""
    def step():
        x = tf.ones([2, 16])
        for layer in range(8):
            x = tf.tanh(tf.matmul(x, tf.get_variable("layer_%d" % layer, [16, 16])))
        gradients = optimizer.gradients_of(tf.reduce_sum(x))
        return tf.group(distribution.mean_over_replicas(gradients))
    # Built for the CPU, where it could not run: there are no kernels of NCCL's.
    strategy = tf2.distribute.MirroredStrategy(
        ["/cpu:0", "/cpu:1"], cross_device_ops=tf2.distribute.NcclAllReduce())
    with strategy.scope():
        strategy.extended.call_for_each_replica(step)
    return [{op.name for op in ancestors([one]) if op.name.startswith("gradients")}
            for one in graph.get_operations()
            if one.type == "NcclAllReduce" and one.device.endswith(":0")]


def test_gradients_are_summed_while_the_backward_pass_goes_on(graph, monkeypatch):
    """The sum of what the last two layers need does not wait for those before."""
    monkeypatch.setattr(distribution, "_GROUP_BYTES", 2 * 4 * 16 * 16)
    waited_for = [len(names) for names in sums(graph)]
    assert len(waited_for) == len(set(waited_for)) == 4 and waited_for == sorted(waited_for)
    assert waited_for[0] <= waited_for[-1] / 2
