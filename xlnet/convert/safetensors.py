"""Safetensors files as float32 arrays, by the library of that format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from xlnet import files
from xlnet.errors import UserError

DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16,
                          "bfloat16": ml_dtypes.bfloat16}


def read(path: str) -> dict[str, np.ndarray]:
    """The tensors of a file: float32 arrays by name, converted exactly from narrower types.

    Raises:
      UserError: it is not such a file, or a tensor is not float32, float16 or bfloat16.
    """
    files.require_file(path, "safetensors")
    arrays = {}
    try:
        with safe_open(path, framework="np") as f:
            for name in f.keys():
                code = f.get_slice(name).get_dtype()
                if code not in ("F32", "F16", "BF16"):
                    raise UserError("%s: tensor %s is of type %s, expected F32, F16 or BF16"
                                    % (path, name, code))
                arrays[name] = f.get_tensor(name).astype(np.float32)
    except SafetensorError as e:
        raise UserError("%s: not a safetensors file, cut short or damaged: %s" % (
            path, " ".join(str(e).split())[:200])) from None
    return arrays


def write(path: str, arrays: Mapping[str, np.ndarray], dtype: str = "float32") -> None:
    """Writes float32 arrays as a file, complete or not at all, with the metadata for its readers.

    Args:
      dtype: one of `DTYPES`; numbers are rounded to the nearest, ties to even.

    Raises:
      UserError: a finite number is too large for `dtype`.
    """
    narrow = {name: _narrow(name, array, dtype) for name, array in arrays.items()}
    with files.replacing(path) as temporary:
        save_file(narrow, temporary, {"format": "pt"})


def _narrow(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(array).reshape(array.shape).astype(DTYPES[dtype])
    if np.any(np.isfinite(array) & ~np.isfinite(narrow.astype(np.float32))):
        raise UserError("%s has numbers up to %g, too large for %s"
                        % (name, np.abs(array).max(), dtype))
    return narrow
