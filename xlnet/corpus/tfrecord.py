"""The frame of a TFRecord, without TensorFlow: length, its checksum, the data, their checksum.

Shape letter: n records.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import IO, Optional

import google_crc32c
import numpy as np

from xlnet.support import errors, files

# | length of the data, 8 bytes | its checksum, 4 | data | checksum of the data, 4 |
_HEADER, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
BEFORE, BEHIND = _HEADER.size + 4, 4  # [bytes] of a record around its data
_BLOCK = 1 << 18  # [bytes] of remote files read at once


def frame(data: bytes) -> bytes:
    """Returns the record of `data` in a file."""
    return header(len(data)) + data + _checksum(data)


def header(size: int) -> bytes:
    """The `BEFORE` bytes in front of `size` bytes of data."""
    length = _HEADER.pack(size)
    return length + _checksum(length)


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


class EqualRecords:
    """Random access to the records of a file that all have one size, as ours have.

    Of a remote file the last block that was read is kept: a request for one record takes as long as
    one for dozens.
    """

    def __init__(self, path: str, size: Optional[int] = None):
        """size: of a record, if it is known [bytes]."""
        self._path = path
        if size is None:  # that of the first one
            with files.open_binary(path) as f:
                size = (_data_size(f.read(BEFORE)) or 0) + BEFORE + BEHIND
        self._size = size
        self._block, self._begin = b"", 0

    def __len__(self) -> int:
        total = files.size(self._path)
        if total % self._size:
            raise errors.wrong(
                self._path, f"{total} bytes", f"records of {self._size} bytes"
            )
        return total // self._size

    def read(self, number: int) -> bytes:
        """The data of the record `number`, from 0; a UserError if it is damaged."""
        begin = number * self._size
        at = begin - self._begin
        if at < 0 or at + self._size > len(self._block):
            try:
                with files.open_binary(self._path) as f:
                    f.seek(begin)
                    is_remote = files.is_remote(self._path)
                    least = _BLOCK if is_remote else 0
                    self._block = f.read(max(least, self._size))
            except OSError as e:
                found = f"a file that cannot be read: {e.strerror or e}"
                raise errors.wrong(self._path, found, "records") from None
            self._begin, at = begin, 0
        # `split` compares both checksums; a record of another size is of another file.
        data = next(split(io.BytesIO(self._block[at : at + self._size])), None)
        if data is None or BEFORE + len(data) + BEHIND != self._size:
            where = f"{self._path}: record {number}"
            raise errors.wrong(where, "damage", "a record", "make the records again")
        return data
