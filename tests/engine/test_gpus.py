"""Which devices a run gets, and what it says of those that it does not get. No GPU is here: what
TensorFlow and the driver would say of one stands in."""

import os
import subprocess
import sys
import types

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.paths import ROOT
from helpers.pretraining import train

from xlnet.engine import distribution, gpus, train_step
from xlnet.errors import UserError
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import NetworkSettings

V100, A100 = (types.SimpleNamespace(details={"device_name": name, "compute_capability": capability})
              for name, capability in (("Tesla V100-SXM2-16GB", (7, 0)), ("NVIDIA A100", (8, 0))))


@pytest.fixture
def machine(monkeypatch):
    """Function that says which GPUs TensorFlow finds, and which device files there are."""
    done = []

    def record(owner, name):
        monkeypatch.setattr(owner, name, lambda *given: done.append((name, *given)))

    def make(found=(), files=(), hidden=None, has_cuda=True):
        for name in ("set_visible_devices", "experimental.set_memory_growth",
                     "experimental.enable_tensor_float_32_execution",
                     "experimental.enable_op_determinism"):
            *owner, name = name.split(".")
            record(getattr(tf2.config, owner[0]) if owner else tf2.config, name)
        monkeypatch.setattr(tf2.test, "is_built_with_cuda", lambda: has_cuda)
        monkeypatch.setattr(tf2.config, "list_physical_devices", lambda kind: list(found))
        monkeypatch.setattr(tf2.config.experimental, "get_device_details", lambda gpu: gpu.details)
        monkeypatch.setattr(gpus, "device_files", lambda: list(files))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if hidden is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        return done
    return make


@pytest.mark.parametrize("there, why", (
    ({}, "there is no /dev/nvidia0; "), (dict(hidden=""), "CUDA_VISIBLE_DEVICES is ''"),
    (dict(has_cuda=False), "this TensorFlow was built without CUDA"),
    (dict(files=["/dev/nvidia0"], hidden="-1"),
     "this machine has /dev/nvidia0, but CUDA_VISIBLE_DEVICES is '-1'"),
    (dict(files=["/dev/nvidia0"]), "this machine has /dev/nvidia0, but TensorFlow cannot use it; "
     "pip install 'tensorflow[and-cuda]==%s' " % tf2.__version__)))
def test_why_there_is_no_gpu(machine, there, why):
    machine(**there)
    assert gpus.why_none().startswith(why)
    why = gpus.why_none()
    devices = distribution.connect(DeviceSettings())
    assert devices.words.endswith(" cores; no GPU: " + why) and not devices.gpus
    for asked, beginning in ((dict(num_core_per_host=8), "num_core_per_host is 8, but no GPU was "
                              "found: "), (dict(device="gpu"), "device is gpu, but no GPU was ")):
        with pytest.raises(UserError) as e:
            distribution.connect(DeviceSettings(**asked))
        assert str(e.value).startswith(beginning)
        assert str(e.value).endswith(why + "; --device=cpu trains on the CPU all the same")


def test_without_a_tpu_the_devices_are_named(machine, monkeypatch, caplog):
    machine(found=[A100])
    with caplog.at_level("INFO"), pytest.raises(UserError) as e:
        distribution.connect(DeviceSettings(use_tpu=True, tpu_name="grpc://127.0.0.1:1"))
    assert str(e.value) == (
        "use_tpu is True, but no TPU is found as tpu_name 'grpc://127.0.0.1:1': Connection "
        "refused; without --use_tpu this runs on 1 GPU (NVIDIA A100)")
    assert caplog.messages == ["note: asking for the TPU 'grpc://127.0.0.1:1'; this machine itself "
                               "has 1 GPU (NVIDIA A100)"]
    machine()

    def none(resolver):
        raise tf.errors.NotFoundError(None, None, "TPUs not found in the cluster. Failed in ...")
    for owner, name, stand_in in (
            (tf2.distribute.cluster_resolver, "TPUClusterResolver", lambda name: name),
            (tf2.config, "experimental_connect_to_cluster", lambda resolver: None),
            (tf2.tpu.experimental, "initialize_tpu_system", none)):
        monkeypatch.setattr(owner, name, stand_in)
    with pytest.raises(UserError, match="'local': TPUs not found in the cluster; without --use_tpu "
                       r"this runs on CPU, \d+ cores; no GPU: there is no /dev/nvidia0"):
        distribution.connect(DeviceSettings(use_tpu=True))


def test_beside_a_tpu_the_other_devices_are_named(machine, monkeypatch):
    machine(found=[A100])
    for owner, name, stand_in in (
            (tf2.distribute.cluster_resolver, "TPUClusterResolver", lambda name: name),
            (tf2.config, "experimental_connect_to_cluster", lambda resolver: None),
            (tf2.tpu.experimental, "initialize_tpu_system", lambda resolver: None),
            (tf2.distribute, "TPUStrategy", lambda resolver: types.SimpleNamespace(
                num_replicas_in_sync=8))):
        monkeypatch.setattr(owner, name, stand_in)
    assert distribution.connect(DeviceSettings(use_tpu=True)).words == (
        "TPU, 8 replicas; not used: 1 GPU (NVIDIA A100)")


def test_device_files_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "_DEVICE_FILES", (str(tmp_path / "nvidia[0-9]*"),))
    assert gpus.device_files() == []
    for name in ("nvidia0", "nvidiactl"):
        (tmp_path / name).touch()
    assert gpus.device_files() == [str(tmp_path / "nvidia0")]


def test_a_gpu_that_lies_idle_is_noted(machine, caplog):
    machine(files=["/dev/nvidia0"])
    distribution.connect(DeviceSettings())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith(
        "note: training on the CPU: this machine has /dev/nvidia0, ")


def test_replicas_on_the_cpu_are_asked_for_by_name(machine):
    """GPUs are hidden then, too."""
    machine(found=[A100, A100])
    devices = distribution.connect(DeviceSettings(device="cpu", num_core_per_host=2))
    assert devices.replicas == 2 and not devices.gpus and "as 2 replicas" in devices.words
    assert not devices.on_accelerator
    assert gpus.os.environ["CUDA_VISIBLE_DEVICES"] == "-1"


def test_gpus_are_named(machine):
    machine(found=[V100, V100])
    devices = distribution.connect(DeviceSettings())
    assert devices.words == "1 GPU (Tesla V100-SXM2-16GB)" and devices.gpus == (V100,)
    assert devices.on_accelerator
    with pytest.raises(UserError, match=r"^num_core_per_host is 3, but this machine has 2 GPU "
                       r"\(Tesla V100-SXM2-16GB\)$"):
        distribution.connect(DeviceSettings(num_core_per_host=3))


def test_gpus_are_claimed_before_anything_uses_them(machine, monkeypatch):
    """Those that are used, no others, and not their whole memory at once."""
    done = machine(found=[A100, A100, A100])
    monkeypatch.setattr(tf2.distribute, "MirroredStrategy", lambda names: done.append(names))
    devices = distribution.connect(DeviceSettings(num_core_per_host=2))
    assert done == [
        ("set_visible_devices", [A100, A100], "GPU"), ("set_memory_growth", A100, True),
        ("set_memory_growth", A100, True), ("enable_tensor_float_32_execution", True),
        ["/gpu:0", "/gpu:1"]]
    options = distribution.session_config(devices).gpu_options
    assert options.allow_growth and options.visible_device_list == "0,1"


def test_gpus_that_are_in_use_stay_as_they_are(machine, monkeypatch, caplog):
    machine(found=[A100])

    def too_late(devices, kind):
        raise RuntimeError("Visible devices cannot be modified after being initialized")
    monkeypatch.setattr(tf2.config, "set_visible_devices", too_late)
    with caplog.at_level("INFO"):
        assert distribution.connect(DeviceSettings()).gpus == (A100,)
    assert caplog.messages == ["note: TensorFlow already uses GPUs; its settings stay"]


@pytest.mark.parametrize("flags, override, tf32", (
    ({}, "", True), ({}, "0", False), (dict(deterministic=True), "", False)))
def test_tf32_is_a_choice(machine, monkeypatch, flags, override, tf32):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
    done = machine(found=[A100])
    devices = distribution.connect(DeviceSettings(**flags))
    assert ("enable_tensor_float_32_execution", tf32) in done and devices.tf32 == tf32
    assert (("enable_op_determinism",) in done) == flags.get("deterministic", False)
    words = train_step.precision_in_words(NetworkSettings(), devices)
    assert words == "fp32" + ", matmuls in TF32" * tf32
    assert train_step.precision_in_words(NetworkSettings(precision="bf16"), devices) == "bf16"


def test_an_older_gpu_and_the_cpu_have_no_tf32(machine):
    machine(found=[V100])
    old = distribution.connect(DeviceSettings())
    assert train_step.precision_in_words(NetworkSettings(), old) == "fp32"
    done = machine()
    cpu = distribution.connect(DeviceSettings())
    assert not cpu.tf32 and not any("tensor_float" in call[0] for call in done[4:])


@pytest.mark.parametrize("gpu, precision, words", (
    (V100, "bf16", "bf16; Tesla V100-SXM2-16GB (compute capability 7.0) has no bfloat16 "
                   "arithmetic, --precision=fp16 is for it"),
    (V100, "fp16", "fp16"), (A100, "bf16", "bf16")))
def test_bfloat16_on_a_gpu_without_it_is_said(machine, gpu, precision, words):
    machine(found=[gpu])
    devices = distribution.connect(DeviceSettings())
    assert train_step.precision_in_words(NetworkSettings(precision=precision), devices) == words


@pytest.mark.slow
def test_an_exhausted_memory_is_one_line(place, monkeypatch):
    """A step that needs more than there are addresses for."""
    seed_of = train_step.dropout_seed

    def greedy(seed, step):
        return seed_of(seed, step) + tf.cast(tf.reduce_sum(
            tf.fill([tf.cast(step, tf.int32) + 2 ** 30, 2 ** 17], 0)), tf.uint64)
    monkeypatch.setattr(train_step, "dropout_seed", greedy)
    done = train(place, "too_large", train_steps=2)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith(
        "train_gpu.py: out of memory on CPU:0, for a tensor [1073741824,131072]; what helps: ")
    for flag in ("grad_accum_steps", "precision", "recompute", "max_seq_length"):
        assert "--" + flag in done.stderr


@pytest.mark.slow
def test_tests_for_a_gpu_do_not_run_without_one():
    if gpus.device_files():
        pytest.skip("this machine has a GPU")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_files.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=dict({name: value for name, value in os.environ.items()
                  if name != "CUDA_VISIBLE_DEVICES"}, XLNET_TEST_GPU="1"))
    assert done.returncode == 1 and "passed" not in done.stdout
    assert "XLNET_TEST_GPU=1: no GPU: " in done.stdout + done.stderr
