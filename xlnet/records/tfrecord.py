"""The frame of a TFRecord, without TensorFlow: length, its checksum, the data, their checksum."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterator
from typing import Optional

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


def split(content: bytes) -> Iterator[Optional[bytes]]:
    """The data of the records that stand one after another in `content`.

    None for a damaged one; the last, where that hides where the next begins.
    """
    place = 0
    while place < len(content):
        size = _HEADER.unpack_from(content, place)[0] if place + BEFORE <= len(content) else -1
        begin, end = place + BEFORE, place + BEFORE + size
        if size < 0 or content[place:begin] != header(size):
            yield None
            return
        data = content[begin:end]
        is_whole = content[end:end + BEHIND] == masked(
            np.array([google_crc32c.value(data)])).tobytes()
        yield data if is_whole else None
        place = end + BEHIND


def count(path: str) -> int:
    """The number of records in a file, from their frames alone; -1 where the last one is cut."""
    records, place = 0, 0
    with open(path, "rb") as f, _mapped(f) as content:
        while place < len(content):
            if place + BEFORE > len(content):
                return -1
            place += BEFORE + _HEADER.unpack_from(content, place)[0] + BEHIND
            records += 1
        return records if place == len(content) else -1


def _mapped(f):
    """The bytes of an open file, not read before they are asked for."""
    is_empty = not os.fstat(f.fileno()).st_size      # which cannot be mapped
    return contextlib.nullcontext(b"") if is_empty else mmap.mmap(
        f.fileno(), 0, access=mmap.ACCESS_READ)


def masked(checksum: np.ndarray) -> np.ndarray:
    """TFRecord's form of a CRC-32C, so that data may hold checksums itself; uint32."""
    rotated = checksum >> 15 | checksum << 17 & 0xffffffff
    return (rotated + 0xa282ead8 & 0xffffffff).astype("<u4")
