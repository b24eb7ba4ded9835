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

from xlnet import files
from xlnet.errors import UserError

WEIGHTS_NAME = "model.safetensors"
_INDEX_NAME = WEIGHTS_NAME + ".index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
NAMES = (WEIGHTS_NAME, _INDEX_NAME, *_PICKLES)  # such a folder has one of them

DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def read_folder(folder: str, class_name: str) -> dict[str, np.ndarray]:
    """All tensors by name, float32 arrays. class_name: for the error on how to get such files."""
    path, index = (os.path.join(folder, name) for name in (WEIGHTS_NAME, _INDEX_NAME))
    if os.path.exists(path):
        return read(path)
    if os.path.exists(index):
        # Shards, which the index lists; a name there must not lead out of the folder.
        weight_map = files.read_json(index, "index").get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise UserError(f"index {index}: expected weight_map, an object of names and files")
        for name in weight_map.values():
            if (
                not isinstance(name, str)
                or os.path.basename(name) != name
                or "\\" in name
                or not name.endswith(".safetensors")
            ):
                raise UserError(
                    f"index {index}: {name!r} is not a file of this folder; expected a plain name "
                    "that ends in .safetensors"
                )
        tensors: dict[str, np.ndarray] = {}
        for name in sorted(set(weight_map.values())):
            tensors.update(read(os.path.join(folder, name)))
        missing = sorted(set(weight_map) - set(tensors))
        if missing:
            raise UserError(f"index {index}: no tensor {missing[0]} in {weight_map[missing[0]]}")
        return tensors
    # Without safetensors: a pickle is never opened, as it may run code; the message says how to
    # convert it.
    for name in _PICKLES:
        if os.path.exists(os.path.join(folder, name)):
            raise UserError(
                f"{folder} has its weights as {name}, a pickle, which can run any code "
                "when it is read; where you trust it, and have that library: "
                'python -c "import transformers; '
                f"transformers.{class_name}.from_pretrained('{folder}')"
                f".save_pretrained('{folder}', safe_serialization=True)\""
            )
    raise UserError(f"{folder}: no {WEIGHTS_NAME} and no {_INDEX_NAME}")


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
                if not code.startswith(("F", "BF")):  # a buffer, such as the numbers of positions
                    continue
                if code not in ("F32", "F16", "BF16"):  # float64 would be rounded
                    raise UserError(
                        f"{path}: tensor {name} is of type {code}, expected F32, F16 or BF16"
                    )
                arrays[name] = f.get_tensor(name).astype(np.float32)
                _require_finite(path, name, arrays[name])
    except SafetensorError as e:
        raise UserError(
            "{}: not a safetensors file, cut short or damaged: {}".format(
                path, " ".join(str(e).split())[:200]
            )
        ) from None
    return arrays


def _require_finite(path: str, name: str, array: np.ndarray) -> None:
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise UserError(
            f"{path}: tensor {name} is {array[first]} at {list(first)}, in all NaN or infinite in "
            f"{len(wrong):,} of {array.size:,} values, expected finite weights"
        )


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
        if np.any(np.isfinite(array) & ~np.isfinite(narrow[name].astype(np.float32))):
            raise UserError(
                f"{name} has numbers up to {np.abs(array).max():g}, too large for {dtype}"
            )
    with files.replacing(path) as temporary:
        try:
            save_file(narrow, temporary, {"format": "pt"})
        except SafetensorError as e:  # of the system: "I/O error: No space left on device"
            raise OSError(errno.EIO, " ".join(str(e).split()), path) from e
