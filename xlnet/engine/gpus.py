"""The GPUs of this machine: which there are, what they can do, and why TensorFlow finds none."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf2

_log = logging.getLogger(__name__)

_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")     # of NVIDIA's driver; of WSL 2
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


def device_files() -> list[str]:
    """Those through which programs reach NVIDIA GPUs, whether TensorFlow can use them or not."""
    return [path for pattern in _DEVICE_FILES for path in sorted(glob.glob(pattern))]


def why_none() -> str:
    """Why TensorFlow finds no GPU, and what helps, in words."""
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
