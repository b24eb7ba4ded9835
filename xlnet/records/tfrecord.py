"""The frame of a TFRecord, without TensorFlow: length, its checksum, the data, their checksum.

Shape letter: n records.
"""

from __future__ import annotations

import functools
import io
import os
import struct
from collections.abc import Iterable, Iterator
from typing import IO, Optional

import google_crc32c
import numpy as np

from xlnet import files
from xlnet.errors import UserError

# | length of the data, 8 bytes | its checksum, 4 | data | checksum of the data, 4 |
_HEADER, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
BEFORE, BEHIND = _HEADER.size + 4, 4  # [bytes] of a record around its data
_BLOCK, _BLOCKS = 1 << 18, 2048  # [bytes] of remote files kept, at most 512 MiB


def frame(data: bytes) -> bytes:
    """Returns the record of `data` in a file."""
    return header(len(data)) + data + _checksum(data)


@functools.lru_cache
def header(size: int) -> bytes:
    """The `BEFORE` bytes in front of `size` bytes of data."""
    length = _HEADER.pack(size)
    return length + _checksum(length)


def first_size(path: str) -> Optional[int]:
    """The bytes of a file's first record; None if its length is damaged."""
    with files.open_binary(path) as f:
        size = _data_size(f.read(BEFORE))
    return None if size is None else BEFORE + size + BEHIND


def _data_size(head: bytes) -> Optional[int]:
    """The bytes of data that a header announces; None if it is damaged or cut off."""
    size = _HEADER.unpack_from(head)[0] if len(head) == BEFORE else -1
    return size if size >= 0 and head == header(size) else None


def _checksum(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    # Masked: data may contain checksums itself, and the checksum of those is a poor one.
    checksum = google_crc32c.value(data)
    rotated = checksum >> 15 | checksum << 17 & 0xFFFFFFFF
    return _CHECKSUM.pack(rotated + 0xA282EAD8 & 0xFFFFFFFF)


def checksums(pieces: Iterable[bytes]) -> np.ndarray:
    """The checksums of the data of n records: uint8 [n,BEHIND]."""
    return np.frombuffer(b"".join(map(_checksum, pieces)), np.uint8).reshape(-1, BEHIND)


def split(file: IO[bytes]) -> Iterator[Optional[bytes]]:
    """Yields the data of all records of an open file; None for a damaged one, which is the last
    one if its length is damaged."""
    for head in iter(lambda: file.read(BEFORE), b""):
        size = _data_size(head)
        if size is None:
            yield None
            return
        rest = file.read(size + BEHIND)
        yield rest[:size] if rest[size:] == _checksum(rest[:size]) else None


def first_damaged(path: str) -> Optional[int]:
    """The number of the first damaged record of a file, from 0; None if all are intact."""
    with files.open_binary(path) as f:
        return next((number for number, data in enumerate(split(f)) if data is None), None)


def read_record(path: str, size: int, number: int) -> bytes:
    """The data of the record `number` of a file whose records all have `size` bytes; a UserError if
    it is damaged."""
    try:
        begin, end = number * size, (number + 1) * size
        # Remote files are read and kept in blocks, local ones by the system.
        if files.is_remote(path):
            first, last = begin // _BLOCK, (end - 1) // _BLOCK
            content = b"".join(_remote_block(path, block) for block in range(first, last + 1))
            content = content[begin - first * _BLOCK : end - first * _BLOCK]
        else:
            with open(path, "rb") as f:
                f.seek(begin)
                content = f.read(size)
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror or e}") from None
    # `split` compares both checksums; a record of another size is of another file.
    data = next(split(io.BytesIO(content)), None)
    if data is None or BEFORE + len(data) + BEHIND != size:
        raise UserError(
            f"{path}: record {number} is damaged; remove the records and make them again"
        )
    return data


@functools.lru_cache(maxsize=_BLOCKS)
def _remote_block(path: str, block: int) -> bytes:
    """A block of a remote file: a request for one record takes as long as one for dozens."""
    with files.open_binary(path) as f:
        f.seek(block * _BLOCK)
        return f.read(_BLOCK)


class EqualRecords:
    """Random access to the records of a file that all have one size, as ours have."""

    def __init__(self, path: str):
        self._path = path
        total, size = os.path.getsize(path), first_size(path) or 0
        if not size or total % size:
            raise UserError(
                f"{path}: {total} bytes are not a multiple of the {size} bytes of a record; the "
                "file was cut off: remove it, it will be regenerated"
            )
        self._size, self._count = size, total // size

    def __len__(self) -> int:
        return self._count

    def read(self, numbers: np.ndarray) -> list[bytes]:
        """The data of the records `numbers`, int [n], from 0; UserError if one is damaged."""
        return [read_record(self._path, self._size, number) for number in numbers.tolist()]
