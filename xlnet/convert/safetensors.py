"""The tensors of a folder of Hugging Face's library as float32 arrays: safetensors files."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from xlnet.support import files
from xlnet.support.errors import UserError, wrong

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = WEIGHTS_NAME + ".index.json"

DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def read_folder(folder: str) -> dict[str, np.ndarray]:
    """All tensors by name, float32 arrays. Pickles, which may run code, are never opened."""
    path, index = (os.path.join(folder, name) for name in (WEIGHTS_NAME, INDEX_NAME))
    if os.path.exists(path):
        return read(path)
    if not os.path.exists(index):
        raise wrong(
            folder, "no weights of this form", f"{WEIGHTS_NAME} or {INDEX_NAME}"
        )
    # Shards, which the index lists; a name there must not lead out of the folder.
    weight_map = files.read_json(index, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise wrong(
            f"index {index}: weight_map", repr(weight_map), "names of tensors and files"
        )
    for name in weight_map.values():
        is_plain = (
            isinstance(name, str)
            and os.path.basename(name) == name
            and "\\" not in name
        )
        if not is_plain or not name.endswith(".safetensors"):
            raise wrong(
                f"index {index}", repr(name), "a file of this folder, X.safetensors"
            )
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(set(weight_map.values())):
        tensors.update(read(os.path.join(folder, name)))
    for name, file in weight_map.items():
        if name not in tensors:
            raise wrong(f"index {index}", f"no tensor {name} in {file}", "it there")
    return tensors


def read(path: str) -> dict[str, np.ndarray]:
    """The weights of a file: float32 arrays by name, converted exactly from narrower types.

    Integers are not weights, and left out.

    Raises:
      UserError: the file is damaged, or a tensor has another type, NaN or infinity.
    """
    files.require_file(path, "safetensors")
    arrays = {}
    try:
        with safe_open(path, framework="np") as f:
            for name in f.keys():
                code = f.get_slice(name).get_dtype()
                # a buffer, such as the numbers of positions
                if not code.startswith(("F", "BF")):
                    continue
                if code not in ("F32", "F16", "BF16"):  # float64 would be rounded
                    raise wrong(
                        f"{path}: tensor {name}", f"type {code}", "F32, F16 or BF16"
                    )
                arrays[name] = f.get_tensor(name).astype(np.float32)
                if not np.isfinite(arrays[name]).all():
                    raise wrong(
                        f"{path}: tensor {name}", "NaN or infinity", "finite weights"
                    )
    except SafetensorError as e:
        reason = " ".join(str(e).split())[:200]
        raise UserError(
            f"{path}: not a safetensors file, or a damaged one: {reason}"
        ) from None
    return arrays


def write(path: str, arrays: Mapping[str, np.ndarray], dtype: str = "float32") -> None:
    """Writes float32 arrays as a file of `dtype`, complete or not at all.

    Numbers are rounded to the nearest, ties to even; one that is too large is an error.
    """
    narrow = {}
    for name, array in arrays.items():
        # `ascontiguousarray` gives a scalar a dimension, which is removed again.
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        with np.errstate(over="ignore"):
            narrow[name] = contiguous.astype(DTYPES[dtype])
        if not np.isfinite(narrow[name].astype(np.float32)).all():
            raise wrong(
                name, f"numbers up to {np.abs(array).max():g}", f"numbers of {dtype}"
            )
    with files.replacing(path) as temporary:
        try:
            save_file(narrow, temporary, {"format": "pt"})
        except (
            SafetensorError
        ) as e:  # of the system: "I/O error: No space left on device"
            raise OSError(errno.EIO, " ".join(str(e).split()), path) from e
