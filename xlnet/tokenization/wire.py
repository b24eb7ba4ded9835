"""Fields of protocol buffers, for messages without available Python classes."""


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value):
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
