"""Files of the safetensors format, read and written with NumPy alone.

A file is a little-endian uint64 N, N bytes of JSON, and the tensors' bytes one after the other. The
JSON says of each tensor `dtype`, `shape` and where in the rest it lies, `data_offsets`; its key
`__metadata__` holds texts. Nothing in it is executed, and nothing outside of the file is read.
https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xlnet import files
from xlnet.errors import UserError

_LONGEST_HEADER = 100_000_000       # bytes, as in the format's own library
_METADATA = "__metadata__"
_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


class Tensor(NamedTuple):
    """Where a tensor lies in its file: bytes `begin` to `end` of it."""
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: str) -> dict[str, Tensor]:
    """The tensors of a file by name, checked to lie one after the other and to fill it.

    Raises:
      UserError: it is no such file, or a tensor is not of float32, float16 or bfloat16.
    """
    files.require_file(path, "safetensors")
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        start = f.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        if not 0 < length <= min(_LONGEST_HEADER, size - 8):
            raise UserError("%s: not a safetensors file, or cut short" % path)
        text = f.read(length)
    try:
        header = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError("%s: not a safetensors file: its header is not JSON" % path) from None
    if not isinstance(header, dict):
        raise UserError("%s: not a safetensors file: its header is not a JSON object" % path)
    header.pop(_METADATA, None)
    tensors = {name: _entry(path, name, entry, 8 + length) for name, entry in header.items()}
    _check_layout(path, tensors, 8 + length, size)
    return tensors


def _entry(path: str, name: str, entry: Any, start: int) -> Tensor:
    """The header's entry of a tensor, in a file whose tensors begin at byte `start`."""
    values: list[Any] = [entry.get(key) if isinstance(entry, dict) else None
                         for key in ("dtype", "shape", "data_offsets")]
    dtype, shape, offsets = values
    if not (_are_sizes(shape) and _are_sizes(offsets) and len(offsets) == 2):
        raise UserError("%s: tensor %s: expected a dtype, a shape and two data_offsets"
                        % (path, name))
    if dtype not in _TYPES:
        raise UserError("%s: tensor %s is of type %s, expected one of %s"
                        % (path, name, dtype, ", ".join(_TYPES)))
    needed = math.prod(shape) * _TYPES[dtype].itemsize
    if offsets[1] - offsets[0] != needed:
        raise UserError("%s: tensor %s has %d bytes, expected %d for %s %s"
                        % (path, name, offsets[1] - offsets[0], needed, dtype, shape))
    return Tensor(dtype, tuple(shape), start + offsets[0], start + offsets[1])


def _are_sizes(values):
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_layout(path: str, tensors: Mapping[str, Tensor], start: int, size: int) -> None:
    """Raises UserError unless the tensors fill bytes `start` to `size` without gap or overlap."""
    end = start
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if tensor.begin != end:
            raise UserError("%s: tensor %s begins at byte %d, expected %d"
                            % (path, name, tensor.begin, end))
        end = tensor.end
    if end != size:
        raise UserError("%s: the tensors end at byte %d, the file at %d; it is cut short or damaged"
                        % (path, end, size))


def read(path: str) -> dict[str, np.ndarray]:
    """The tensors of a file: dict of float32 arrays; narrower ones are widened, which is exact.

    Raises:
      UserError: as `read_header`.
    """
    header, arrays = read_header(path), {}
    with open(path, "rb") as f:
        for name, tensor in header.items():
            f.seek(tensor.begin)
            stored = np.frombuffer(f.read(tensor.end - tensor.begin), _TYPES[tensor.dtype])
            arrays[name] = _widen(stored, tensor.dtype).reshape(tensor.shape)
    return arrays


def _widen(stored: np.ndarray, dtype: str) -> np.ndarray:
    """float32 of what a file holds; a bfloat16 is the upper half of a float32."""
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def stored_bytes(array: np.ndarray, dtype: str) -> int:
    """What an array takes in a file of `dtype`, one of `DTYPES`."""
    return array.size * _TYPES[DTYPES[dtype]].itemsize


def write(path: str, arrays: Mapping[str, np.ndarray], dtype: str = "float32") -> None:
    """Writes float32 arrays as a file, whole or not at all, the way the library itself does: by
    name, metadata `format` "pt", which its readers ask for.

    Args:
      dtype: one of `DTYPES`; numbers are rounded to the nearest, ties to even.

    Raises:
      UserError: a finite number is too large for `dtype`.
    """
    code = DTYPES[dtype]
    header: dict[str, Any] = {_METADATA: {"format": "pt"}}
    begin = 0
    for name in sorted(arrays):
        end = begin + stored_bytes(arrays[name], dtype)
        header[name] = {"dtype": code, "shape": list(arrays[name].shape),
                        "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with files.replacing(path) as temporary, open(temporary, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(arrays):
            f.write(_narrow(name, arrays[name], dtype).tobytes())


def _narrow(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """A float32 array as the bits of `dtype`."""
    array = np.asarray(array, np.float32)
    if dtype == "float32":
        return array.astype("<f4")
    with np.errstate(over="ignore"):
        rounded = array.astype("<f2") if dtype == "float16" else _to_bfloat16(array)
    wide = _widen(rounded, DTYPES[dtype])
    if np.any(np.isfinite(array) & ~np.isfinite(wide)):
        raise UserError("%s has numbers up to %g, too large for %s"
                        % (name, np.abs(array).max(), dtype))
    return rounded


def _to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper halves, uint16, of float32 numbers rounded to them; NaN stays NaN."""
    bits = array.view(np.uint32) if array.flags.c_contiguous else array.copy().view(np.uint32)
    rounded = (bits + (0x7fff + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(array), 0x7fc0, rounded).astype("<u2")
