"""Which devices a run gets, and what it says of those that it does not get; what a process sets up;
the same training on any devices: replicas, hosts, micro-batches. No GPU is here: what TensorFlow
and the driver would say of one stands in."""

import ctypes
import gc
import subprocess
import sys
import types
import weakref
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.finetuning import assert_same
from helpers.matmuls import ancestors
from helpers.paths import ROOT
from helpers.pretraining import complete, curve, start_hosts, weights

from xlnet.engine import devices as engine_devices
from xlnet.engine import optimizer
from xlnet.engine.devices import Devices, connect
from xlnet.model import kernels_gpu_check, ops
from xlnet.pretraining import resolve
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import DeviceSettings
from xlnet.support.errors import UserError

A100 = types.SimpleNamespace(
    details={"device_name": "NVIDIA A100", "compute_capability": (8, 0)}
)


@pytest.fixture
def machine(monkeypatch):
    """Function that says which GPUs TensorFlow finds; returns a mock that claims them."""
    done, config, experimental = mock.Mock(), tf2.config, tf2.config.experimental
    monkeypatch.setattr(config, "set_visible_devices", done.show)
    monkeypatch.setattr(experimental, "set_memory_growth", done.grow)
    monkeypatch.setattr(tf2.distribute, "MirroredStrategy", done.mirror)
    monkeypatch.setattr(experimental, "get_device_details", lambda gpu: gpu.details)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(found=()):
        monkeypatch.setattr(config, "list_physical_devices", lambda kind: list(found))
        return done

    return make


def test_without_a_gpu_the_cpu_trains_unless_gpus_are_asked_for(machine):
    machine()
    devices = connect(DeviceSettings())
    assert devices.description.endswith(" cores; TensorFlow finds no GPU")
    assert not devices.gpus
    for flag, value in (("num_core_per_host", 8), ("device", "gpu")):
        with pytest.raises(UserError, match=f"^{flag}: found TensorFlow finds no GPU"):
            connect(DeviceSettings(**{flag: value}))


@pytest.mark.parametrize(
    "found, xla, is_compiled",
    (([A100], None, True), ([A100], False, False), ([], None, False)),
)
def test_steps_on_gpus_are_compiled_unless_the_flag_says_otherwise(
    machine, monkeypatch, found, xla, is_compiled
):
    monkeypatch.setenv("XLA_FLAGS", "")  # so that it is restored
    machine(found)
    devices = connect(DeviceSettings(xla=xla))
    assert devices.xla is is_compiled
    words = devices.precision_in_words(NetworkSettings())
    assert ("compiled by XLA" in words) == is_compiled


def test_where_attention_is_fused(machine, monkeypatch):
    """Without asking where it was tried; refused where nothing would use it. The GPUs are those of
    TensorFlow 2.21 with Triton."""
    monkeypatch.setattr(resolve.tf2, "__version__", "2.21.0")
    monkeypatch.setattr(resolve, "find_spec", lambda name: "found")
    monkeypatch.setattr(kernels_gpu_check, "check", lambda *how: None)
    machine()

    def h100s(number=1, capability=(9, 0), xla=True):
        details = dict(device_name="NVIDIA H100", compute_capability=capability)
        gpu = types.SimpleNamespace(name="GPU", details=details)
        return Devices(None, number, gpus=(gpu,) * number, xla=xla)

    def fused(asked, used, objective="permutation"):
        """The compute capability for which attention is fused on these devices."""
        asked_of = asked, objective, types.SimpleNamespace(d_head=64), NetworkSettings()
        return resolve.choose_fused_attention(*asked_of, used)

    assert fused(None, h100s()) == (9, 0)
    assert fused(False, h100s()) is None
    assert fused(None, h100s(number=2)) is None
    assert fused(None, h100s(capability=(8, 0))) is None
    assert fused(True, h100s(capability=(8, 0))) == (8, 0)
    causal = dict(objective="causal")
    for used, how in ((Devices(None), {}), (h100s(xla=False), {}), (h100s(), causal)):
        with pytest.raises(UserError, match="^fused_attention"):
            fused(True, used, **how)
    monkeypatch.setattr(resolve.tf2, "__version__", "2.20.0")
    assert fused(None, h100s()) is None
    with pytest.raises(UserError, match="^fused_attention"):
        fused(True, h100s())


def test_without_a_tpu_there_is_one_line(machine, monkeypatch):
    machine()
    with pytest.raises(UserError, match="tpu_name grpc://127.0.0.1:1: found Connecti"):
        connect(DeviceSettings(use_tpu=True, tpu_name="grpc://127.0.0.1:1"))

    def none(resolver):
        message = "TPUs not found in the cluster. Failed in ..."
        raise tf.errors.NotFoundError(None, None, message)

    for owner, name in (
        (tf2.distribute.cluster_resolver, "TPUClusterResolver"),
        (tf2.config, "experimental_connect_to_cluster"),
        (tf2.tpu.experimental, "initialize_tpu_system"),
    ):
        monkeypatch.setattr(owner, name, lambda given: None)
    strategy = types.SimpleNamespace(num_replicas_in_sync=8)
    monkeypatch.setattr(tf2.distribute, "TPUStrategy", lambda resolver: strategy)
    assert connect(DeviceSettings(use_tpu=True)).description == "TPU, 8 replicas"
    monkeypatch.setattr(tf2.tpu.experimental, "initialize_tpu_system", none)
    with pytest.raises(UserError, match="tpu_name local: found TPUs not found in the"):
        connect(DeviceSettings(use_tpu=True))


def test_gpus_are_claimed_before_anything_uses_them(machine):
    """Those that are used, no others, and not their whole memory at once."""
    done = machine([A100, A100, A100])
    devices = connect(DeviceSettings(num_core_per_host=2))
    assert done.mock_calls == [
        mock.call.show([A100, A100], "GPU"),
        *[mock.call.grow(A100, True)] * 2,
        mock.call.mirror(["/gpu:0", "/gpu:1"]),
    ]
    options = devices.session_config().gpu_options
    assert options.allow_growth and options.visible_device_list == "0,1"


# ---- the process

# Eight threads hold memory at once; then the C library lists its heaps on stderr.
PROGRAM = """
import ctypes, time, concurrent.futures
from xlnet.engine import devices
devices.set_up_process()
with concurrent.futures.ThreadPoolExecutor(8) as threads:
    list(threads.map(lambda size: (bytearray(size), time.sleep(0.5)), [100000] * 8))
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_stats"),
    reason="the C library does not list its heaps",
)
@pytest.mark.slow
def test_threads_share_a_heap():
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.count("Arena ") == 1, done.stderr


@tf.custom_gradient
def doubled(x):
    return 2.0 * x, lambda dy: 3.0 * dy


def test_a_graph_goes_when_its_gradients_are_forgotten():
    def build():
        with tf.Graph().as_default() as graph, tf.Session() as session:
            x = tf.constant(1.0)
            assert session.run(tf.gradients(doubled(x), x)) == [3.0]
            return weakref.ref(graph)

    with engine_devices.unregistering_gradients():
        graph = build()
    gc.collect()
    assert graph() is None


# ---- the same training on any devices

STEPS = 50  # of every run; bi_data is on: every batch has rows of both directions
# Dropout is on, with noise that belongs to rows, and the next-segment head has its own: where that
# agrees, so does what has no noise. Some sinusoids are all but constant, which softmax ignores, so
# their gradients of r/kernel are zero but for rounding. Adam divides a gradient by its size: a
# larger epsilon keeps that rounding what it is.
SETTINGS = dict(train_steps=STEPS, next_segment_loss=1.0, adam_epsilon=1e-4)


@pytest.fixture(scope="module")
def runs(place):
    """The same run four times; name to model directory."""
    settings = dict(SETTINGS, eval_record_info_dir=place / "train")
    hosts = start_hosts(place, "hosts", **settings)
    for name, changes in (
        ("one", {}),
        ("replicas", dict(num_core_per_host=2)),
        ("micro", dict(grad_accum_steps=2)),
    ):
        complete(place, name, **settings, **changes)
    printed = [host.communicate(timeout=300)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], printed
    assert f"step {STEPS}/{STEPS}" in printed[0] and "step" not in printed[1]
    return place


def test_training_runs_the_operations_of_a_function_in_place_of_its_call(graph):
    x = tf.placeholder(tf.float32, [])
    y = ops.traced_once(lambda x: tf.exp(x) * 2.0)(x)
    fetches, metadata = ops.gradients(y, [x]), tf.RunMetadata()
    config = Devices(None).session_config(is_training=True)
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session(config=config) as session:
        found = session.run(fetches, {x: 1.0}, options, metadata)
    assert found == [pytest.approx(2.0 * np.e)]
    run = {node.op for part in metadata.partition_graphs for node in part.node}
    assert "Exp" in run and not {"PartitionedCall", "StatefulPartitionedCall"} & run


@pytest.mark.parametrize("other", ("replicas", "hosts", "micro"))
@pytest.mark.slow
def test_devices_change_nothing(runs, other):
    """Losses, gradient norms and final weights to 1e-6 over 50 steps: sums of the same float32
    numbers in another order, and this learning rate does not blow their last bits up."""
    expected = curve(runs, "one")
    assert expected.shape == (STEPS, 3)
    assert expected[-10:, 1].mean() < expected[:10, 1].mean() - 0.2
    np.testing.assert_allclose(curve(runs, other), expected, rtol=1e-6)
    assert_same(weights(runs, other), weights(runs, "one"), atol=1e-6)


# ---- sums over replicas


def test_gradients_are_summed_while_the_backward_pass_goes_on(graph, monkeypatch):
    """Of eight layers on two GPUs, the sum of what the last two need does not wait for those
    before."""
    monkeypatch.setattr(engine_devices, "_GROUP_BYTES", 2 * 4 * 16 * 16)

    def step():
        x = tf.ones([2, 16])
        for layer in range(8):
            x = tf.tanh(tf.matmul(x, tf.get_variable(f"layer_{layer}", [16, 16])))
        gradients = optimizer.gradients_of(tf.reduce_sum(x))
        return tf.group(engine_devices.mean_over_replicas(gradients))

    # Built for the CPU, where it could not run: there are no kernels of NCCL's.
    strategy = tf2.distribute.MirroredStrategy(
        ["/cpu:0", "/cpu:1"], cross_device_ops=tf2.distribute.NcclAllReduce()
    )
    with strategy.scope():
        strategy.extended.call_for_each_replica(step)
    # Of the backward pass: how many operations each sum waits for, as the sums were built.
    waited_for = []
    for one in graph.get_operations():
        if one.type == "NcclAllReduce" and one.device.endswith(":0"):
            before = {op.name for op in ancestors([one])}
            waited_for.append(sum(name.startswith("gradients") for name in before))
    assert waited_for == sorted(set(waited_for)) and len(waited_for) == 4
    assert waited_for[0] <= waited_for[-1] / 2
