"""The frame of a TFRecord, without TensorFlow: length, its checksum, the data, their checksum.

Shape letters: n records, R bytes of one.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Optional

import google_crc32c
import numpy as np

from xlnet.errors import UserError

_HEADER, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
BEFORE, BEHIND = _HEADER.size + 4, 4       # [bytes] of a record around its data


def frame(data: bytes) -> bytes:
    """Returns the record of `data` as it stands in a file."""
    return header(len(data)) + data + _checksum(data)


@functools.lru_cache
def header(size: int) -> bytes:
    """The `BEFORE` bytes in front of `size` bytes of data."""
    length = _HEADER.pack(size)
    return length + _checksum(length)


def first_size(path: str) -> Optional[int]:
    """How many bytes of a file the first record takes; None if its length is damaged."""
    with open(path, "rb") as f:
        head = f.read(BEFORE)
    size = _HEADER.unpack(head[:_HEADER.size])[0] if len(head) == BEFORE else 0
    return BEFORE + size + BEHIND if head == header(size) else None


def damage(path: str) -> Optional[str]:
    """What is wrong with the first damaged record of a file, in words; None if all are whole."""
    count = 0
    with open(path, "rb") as f:
        while True:
            head = f.read(BEFORE)
            if not head:
                return None
            size = _HEADER.unpack(head[:_HEADER.size])[0] if len(head) == BEFORE else 0
            if len(head) == BEFORE and head != header(size):
                return "record %d: its length is damaged" % count
            rest = f.read(size + BEHIND)
            if len(head) < BEFORE or len(rest) < size + BEHIND:
                return "cut off in record %d" % count
            if rest[size:] != _checksum(rest[:size]):
                return "record %d is damaged" % count
            count += 1


def _checksum(data):
    """TFRecord's form of a CRC-32C, so that data may hold checksums itself."""
    checksum = google_crc32c.value(data)
    rotated = checksum >> 15 | checksum << 17 & 0xffffffff
    return _CHECKSUM.pack(rotated + 0xa282ead8 & 0xffffffff)


def checksums(pieces: Iterable[bytes]) -> np.ndarray:
    """What stands behind the data of n records: uint8 [n,BEHIND]."""
    return np.frombuffer(b"".join(map(_checksum, pieces)), np.uint8).reshape(-1, BEHIND)


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
        yield data if content[end:end + BEHIND] == _checksum(data) else None
        place = end + BEHIND


class EqualRecords:
    """The records of a file that are all of one size, as ours are: any of them without the others.

    Args:
      path: of the file, which is not read yet, but for its first bytes.

    Raises:
      UserError: the file has no records of one size: it is empty, or was cut short.
    """

    def __init__(self, path: str):
        self._path = path
        with open(path, "rb") as f:
            head = f.read(_HEADER.size)
        total = os.path.getsize(path)
        size = _HEADER.unpack(head)[0] + BEFORE + BEHIND if len(head) == _HEADER.size else 0
        if not size or total % size:
            raise UserError("%s: %d bytes are no whole number of records of %d bytes; the file was "
                            "cut short: remove it, it is made again" % (path, total, size))
        self._records = np.memmap(path, np.uint8, "r", shape=(total // size, size))

    def __len__(self) -> int:
        return len(self._records)

    def read(self, numbers: np.ndarray) -> list[bytes]:
        """The data of the records `numbers`, int [n], counted from 0.

        Raises:
          UserError: a record is damaged.
        """
        found = self._records[numbers]                                             # [n,R]
        data = [record[BEFORE:-BEHIND].tobytes() for record in found]
        damaged = checksums(data) != found[:, -BEHIND:]
        if damaged.any():
            raise UserError("%s: record %d is damaged; remove the file, it is made again" % (
                self._path, numbers[damaged.any(axis=1).argmax()]))
        return data
