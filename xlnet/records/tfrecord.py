"""The frame of a TFRecord, without TensorFlow: length, its checksum, the data, their checksum."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np

_HEADER = struct.Struct("<Q")
BEFORE, BEHIND = _HEADER.size + 4, 4       # [bytes] of a record around its data


def frame(data: bytes) -> bytes:
    """Returns the record of `data` as it stands in a file."""
    return header(len(data)) + data + masked(np.array([google_crc32c.value(data)])).tobytes()


def header(size: int) -> bytes:
    """The `BEFORE` bytes in front of `size` bytes of data."""
    length = _HEADER.pack(size)
    return length + masked(np.array([google_crc32c.value(length)])).tobytes()


def masked(checksum: np.ndarray) -> np.ndarray:
    """TFRecord's form of a CRC-32C, so that data may hold checksums itself; uint32."""
    rotated = checksum >> 15 | checksum << 17 & 0xffffffff
    return (rotated + 0xa282ead8 & 0xffffffff).astype("<u4")
