"""JSON that is larger than the memory, an item at a time: `ijson`, and the errors it ignores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import ijson

# An escape of half a character, which ijson's parser would turn into "?"; at the end of the text,
# the next chunk may have the other half.
_HALF = re.compile(
    r"(?<!\\)(?:\\\\)*(\\ud[89ab]..(?!\\ud[c-f]|\\ud\Z|\\u\Z|\\\Z|\Z)"
    r"|(?<!\\ud[89ab]..)\\ud[c-f]..)",
    re.IGNORECASE | re.DOTALL,
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Brackets that a chunk may leave open: ijson's time and memory grow with the square of the depth.
_DEEPEST = 1000
_OVERLAP, _CONTEXT = 12, 64  # of chunks: escapes across their borders, and the text before


def items(chunks: Iterable[str], prefix: str, are_several: bool = False) -> Iterator[Any]:
    """Yields the values at a place of a text, such as "item" or "data.item", as ijson names it; a
    ValueError if the text is not JSON, or if an object has a key twice.

    are_several: the text may be several values, one after the other.
    """
    again: list[str] = []  # names of keys that an object has twice

    class Object(dict):
        def __setitem__(self, key: str, value: Any) -> None:
            if key in self:
                again.append(key)
            super().__setitem__(key, value)

    try:
        for value in ijson.items(
            _Bytes(chunks), prefix, use_float=True, multiple_values=are_several, map_type=Object
        ):
            if again:
                raise ValueError(f"the key '{again[0]}' twice in an object")
            yield value
    except ijson.JSONError as e:
        raise ValueError(str(e).partition("\n")[0]) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def event_at(chunks: Iterable[str], key: str) -> Optional[str]:
    """ijson's event, such as "start_array", at a key of the object in a text, which is read up to
    there; None if the text is not an object or has no such key."""
    try:
        for place, event, _ in ijson.parse(_Bytes(chunks), use_float=True):
            if place == key:
                return event
            if not place and event not in ("map_key", "start_map"):
                break
    except (ijson.JSONError, ValueError):
        pass
    return None


def top_level(chunks: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields each key of the object in a text, and ijson's event of its value; ends where the text
    is not JSON."""
    try:
        for place, event, _ in ijson.parse(_Bytes(chunks), use_float=True):
            if place and "." not in place and event not in ("map_key", "end_map", "end_array"):
                yield place, event
    except (ijson.JSONError, ValueError):
        return


def check_top_level(chunks: Iterable[str]) -> None:
    """Raises ValueError if the object in a text has a key twice."""
    seen = set()
    for key, _ in top_level(chunks):
        if key in seen:
            raise ValueError(f"the key '{key}' twice in an object")
        seen.add(key)


class _Bytes:
    """Chunks of a text as a file of UTF-8."""

    def __init__(self, chunks: Iterable[str]) -> None:
        self._chunks = filter(None, chunks)
        self._before = ""
        self._is_in_string = False
        self._backslash = ""  # the last character of the text, if the next one is escaped

    def read(self, size: int) -> bytes:
        if not size:
            return b""
        chunk = next(self._chunks, "")
        outside = self._outside_strings(chunk)
        if sum(map(outside.count, "[{")) - sum(map(outside.count, "]}")) > _DEEPEST:
            raise ValueError("nested too deeply")
        # Refuse half characters, also where two chunks meet.
        text = self._before + chunk
        half = _SURROGATE.search(text) and _HALF.search(text, max(len(self._before) - _OVERLAP, 0))
        if half:
            raise ValueError(f"{half[1]} is half a character")
        self._before = text[-_CONTEXT:]
        return chunk.encode()

    def _outside_strings(self, chunk: str) -> str:
        """What of the next chunk is not in a string."""
        # Two backslashes are a character; one that is left escapes the character behind it.
        text = (self._backslash + chunk).replace(r"\\", "")
        self._backslash = "\\" if text.endswith("\\") else ""
        parts = text.replace(r"\"", "").split('"')
        outside = "".join(parts[self._is_in_string :: 2])
        if len(parts) % 2 == 0:
            self._is_in_string = not self._is_in_string
        return outside
