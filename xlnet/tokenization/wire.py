"""Messages of protocol buffers, field by field, for those without available Python classes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

# Types of fields, and the bytes of those of fixed size.
_NUMBER, _BYTES, _FLOAT = 0, 2, 5
_FIXED = {1: 8, 5: 4}


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """A field of an integer, enumeration or bool; not negative."""
    return varint(number << 3 | _NUMBER) + varint(value)


def float_field(number: int, value: float) -> bytes:
    """A field of a float32."""
    return varint(number << 3 | _FLOAT) + struct.pack("<f", value)


def to_float(content: bytes) -> float:
    """The value of a field of a float32."""
    return float(struct.unpack("<f", content)[0])


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (number, value) of each field of a message: an int, or the bytes of all else."""
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        if tag & 7 == _NUMBER:
            value, place = _read_varint(message, place)
            yield tag >> 3, value
        else:
            size, place = (_FIXED[tag & 7], place) if tag & 7 in _FIXED else \
                _read_varint(message, place)
            yield tag >> 3, message[place:place + size]
            place += size


def _read_varint(message, place):
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
