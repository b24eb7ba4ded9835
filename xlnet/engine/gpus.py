"""The GPUs of this machine: which there are, what they can do, and why TensorFlow finds none."""

from __future__ import annotations

import ctypes
import glob
import logging
import os
import re
import subprocess
from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf2

_log = logging.getLogger(__name__)

# What TensorFlow loads to use a GPU, in addition to the driver; `tensorflow[and-cuda]` has it. The
# cuDNN is that of the build: 8, and 9 from TensorFlow 2.18 on.
_LIBRARIES = ("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11",
              "libcusolver.so.11", "libcusparse.so.12",
              "libcudnn.so.%s" % tf2.sysconfig.get_build_info().get("cudnn_version", 9))
_DRIVER = "libcuda.so.1"
_DRIVERS_LIST = "/proc/driver/nvidia/gpus/*/information"
_DRIVERS_VERSION = "/proc/driver/nvidia/version"
_OLDEST_DRIVER = (525, 60)      # of CUDA 12
_BFLOAT16 = (8, 0)      # the least compute capability that multiplies bfloat16, and TF32


def found() -> list:
    """TensorFlow's physical GPUs."""
    return tf2.config.list_physical_devices("GPU")


def hide() -> None:
    """Leaves GPUs to others; to be called before anything has asked for them."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def claim(used: Sequence[Any]) -> None:
    """Leaves all other GPUs to others, and takes of these what memory is needed, not all at once;
    to be called before TensorFlow has begun to use any."""
    try:
        tf2.config.set_visible_devices(list(used), "GPU")
        for gpu in used:
            tf2.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:        # in somebody else's process; a session grows all the same
        _log.info("note: TensorFlow uses GPUs already, as it was told before")


def choose_products(tf32: bool) -> None:
    """Whether GPUs multiply float32 as TF32 (https://arxiv.org/abs/2004.09602, section 2)."""
    tf2.config.experimental.enable_tensor_float_32_execution(tf32)


def only_deterministic() -> None:
    """Has TensorFlow take operations that give the same bits each time, and stop where it has none,
    for as long as the process runs."""
    tf2.config.experimental.enable_op_determinism()


def in_machine() -> list[str]:
    """Names of the NVIDIA GPUs that the driver knows, whether TensorFlow can use them or not."""
    names = []
    for path in sorted(glob.glob(_DRIVERS_LIST)):
        with open(path, encoding="utf-8") as f:
            names += [line.partition(":")[2].strip() for line in f if line.startswith("Model:")]
    return names or _listed_by_tool()


def _listed_by_tool():
    """As `in_machine`, by nvidia-smi: some containers do not show the driver's files."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def driver_version() -> Optional[str]:
    """That of NVIDIA's driver, which may be there without a GPU; None where none is loaded."""
    if not os.path.exists(_DRIVERS_VERSION):
        return None
    with open(_DRIVERS_VERSION, encoding="utf-8") as f:
        found = re.search(r"\d+\.\d+(\.\d+)?", f.read())
    return found[0] if found else "of an unknown version"


def why_none() -> str:
    """Why TensorFlow finds no GPU, and what helps, in words."""
    names, hidden = in_machine(), os.environ.get("CUDA_VISIBLE_DEVICES")
    there = "this machine has %s, but " % ", ".join(names) if names else ""
    if hidden is not None and (not hidden or hidden.startswith("-")):
        return there + "CUDA_VISIBLE_DEVICES is '%s'" % hidden
    if not tf2.test.is_built_with_cuda():
        return there + "this TensorFlow was built without CUDA"
    version = driver_version()
    if not _loads(_DRIVER):
        return there + ("there is no NVIDIA driver (%s)" % _DRIVER if version is None else
                        "of NVIDIA's driver %s there is no %s; a container gets it with "
                        "--gpus=all" % (version, _DRIVER))
    if version and _is_too_old(version):
        return "%sNVIDIA's driver %s is too old for CUDA 12, which needs %d.%d or later" % (
            there, version, *_OLDEST_DRIVER)
    missing = [name for name in _LIBRARIES if not _loads(name)]
    if missing:
        return "%sTensorFlow lacks %s; pip install 'tensorflow[and-cuda]==%s'" % (
            there, ", ".join(missing), tf2.__version__)
    refusal = _refusal()
    if refusal:
        return there + "CUDA does not start: %s" % refusal
    return there + "TensorFlow finds none; TF_CPP_MIN_LOG_LEVEL=0 shows what it says of them"


def _loads(name: str) -> bool:
    """Whether a library is there: on the system, or in the packages of `tensorflow[and-cuda]`."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(tf2.__file__)))
    if glob.glob(os.path.join(glob.escape(packages), "nvidia", "*", "lib", name)):
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _is_too_old(version):
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    return bool(numbers) and numbers < _OLDEST_DRIVER


def _refusal() -> Optional[str]:
    """Why the driver lets nobody use a GPU, in its own words; None if it does."""
    cuda, said = ctypes.CDLL(_DRIVER), ctypes.c_char_p()
    status = cuda.cuInit(0)
    if not status:
        return None
    cuda.cuGetErrorString(status, ctypes.byref(said))
    return said.value.decode() if said.value else "error %d" % status


def words(gpus: list) -> str:
    """What is trained on: "2 GPU (NVIDIA L4)"."""
    names = sorted({_details(gpu).get("device_name", "unknown") for gpu in gpus})
    return "%d GPU (%s)" % (len(gpus), ", ".join(names))


def without_bfloat16(gpus: list) -> Optional[str]:
    """What to call a GPU that has no bfloat16 arithmetic; None if all have it."""
    for gpu in gpus:
        capability = _details(gpu).get("compute_capability")
        if capability and tuple(capability) < _BFLOAT16:
            return "%s (compute capability %d.%d)" % (_details(gpu).get("device_name", "the GPU"),
                                                      *capability)
    return None


def _details(gpu) -> dict[str, Any]:
    return tf2.config.experimental.get_device_details(gpu)
