"""The GPUs of this machine: names, capabilities, and why TensorFlow finds none."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf2

_log = logging.getLogger(__name__)

_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")     # of NVIDIA's driver; of WSL 2
_BFLOAT16 = (8, 0)      # lowest compute capability with bfloat16 and TF32 arithmetic


def found() -> list:
    """TensorFlow's physical GPUs."""
    return tf2.config.list_physical_devices("GPU")


def hide() -> None:
    """Hides all GPUs from TensorFlow. Call it before anything has queried them."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def claim(used: Sequence[Any]) -> None:
    """Hides all other GPUs, and lets memory use of these grow as needed. Call it before TensorFlow
    uses any."""
    try:
        tf2.config.set_visible_devices(list(used), "GPU")
        for gpu in used:
            tf2.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:        # within another program; the session's memory grows all the same
        _log.info("note: TensorFlow already uses GPUs; its settings stay")


def choose_products(tf32: bool) -> None:
    """Whether GPUs multiply float32 as TF32 (https://arxiv.org/abs/2004.09602, section 2)."""
    tf2.config.experimental.enable_tensor_float_32_execution(tf32)


def only_deterministic() -> None:
    """Makes TensorFlow use deterministic operations, and raise an error where it has none, until
    the process ends."""
    tf2.config.experimental.enable_op_determinism()


def device_files() -> list[str]:
    """The device files of NVIDIA GPUs, whether TensorFlow can use them or not."""
    return [path for pattern in _DEVICE_FILES for path in sorted(glob.glob(pattern))]


def why_none() -> str:
    """Why TensorFlow finds no GPU, and the remedy."""
    there, hidden = ", ".join(device_files()), os.environ.get("CUDA_VISIBLE_DEVICES")
    but = "this machine has %s, but " % there if there else ""
    if hidden is not None and (not hidden or hidden.startswith("-")):
        return but + "CUDA_VISIBLE_DEVICES is '%s'" % hidden
    if not tf2.test.is_built_with_cuda():
        return but + "this TensorFlow was built without CUDA"
    if not there:
        return "there is no /dev/nvidia0; NVIDIA's driver makes it, in a container with --gpus=all"
    return but + ("TensorFlow cannot use it; pip install 'tensorflow[and-cuda]==%s' has CUDA's "
                  "libraries, nvidia-smi shows whether the driver works and is for CUDA 12 (525.60 "
                  "or later), TF_CPP_MIN_LOG_LEVEL=0 shows what TensorFlow says"
                  % tf2.__version__)


def words(gpus: list) -> str:
    """Number and names: "2 GPU (NVIDIA L4)"."""
    names = sorted({_details(gpu).get("device_name", "unknown") for gpu in gpus})
    return "%d GPU (%s)" % (len(gpus), ", ".join(names))


def without_bfloat16(gpus: list) -> Optional[str]:
    """The name of a GPU without bfloat16 arithmetic; None if all have it."""
    for gpu in gpus:
        capability = _details(gpu).get("compute_capability")
        if capability and tuple(capability) < _BFLOAT16:
            return "%s (compute capability %d.%d)" % (_details(gpu).get("device_name", "the GPU"),
                                                      *capability)
    return None


def _details(gpu) -> dict[str, Any]:
    return tf2.config.experimental.get_device_details(gpu)
