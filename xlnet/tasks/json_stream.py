"""JSON that is larger than the memory, one value after another.

A list or an object is entered with `items` or `keys`; whoever goes through them takes each value
before the next one comes, whole by `value` or by entering it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

_decode = json.JSONDecoder().raw_decode
_BLANKS = " \t\n\r"
_ENDS = _BLANKS + ",:]}"        # what may stand behind a value


class JsonStream:
    """Args: chunks: of the text.

    Whatever is no JSON raises ValueError; its message does not know the place in the file.
    """

    def __init__(self, chunks: Iterable[str]):
        self._chunks = iter(chunks)
        self._text = ""
        self._place = 0
        self._taken = 1          # chunks that are read together where a value is cut off

    def _read_on(self):
        """Reads more of the text; returns False at its end."""
        more = "".join(itertools.islice(self._chunks, self._taken))
        if more:
            self._text, self._place = self._text[self._place:] + more, 0
        return bool(more)

    def peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            while self._place < len(self._text):
                if self._text[self._place] not in _BLANKS:
                    return self._text[self._place]
                self._place += 1
            if not self._read_on():
                return ""

    def _take(self, expected):
        """Takes a character that is among the expected ones, and returns it."""
        found = self.peek()
        if not found or found not in expected:
            raise ValueError("expected %s" % " or ".join(expected))
        self._place += 1
        return found

    def value(self) -> Any:
        """Takes a whole value."""
        self.peek()
        self._taken = 1
        while True:
            try:
                value, end = _decode(self._text, self._place)
                # What else follows may go on: 12. is the beginning of 12.5.
                is_whole = self._text[end:end + 1] in _ENDS and end < len(self._text)
                if is_whole or not self._read_more():
                    self._place = end
                    return value
            except RecursionError:
                raise ValueError("nested too deeply") from None
            except ValueError:
                if not self._read_more():
                    raise

    def _read_more(self):
        """Reads as much again as before: a long value is not decoded for each chunk of it."""
        self._taken *= 2
        return self._read_on()

    def items(self) -> Iterator[None]:
        """Enters a list: yields before each item."""
        yield from self._members("[", "]", lambda: None)

    def keys(self) -> Iterator[str]:
        """Enters an object: yields each key before its value."""
        yield from self._members("{", "}", self._key)

    def _key(self):
        key = self.value()
        if not isinstance(key, str):
            raise ValueError("expected a key")
        self._take(":")
        return key

    def _members(self, begin, end, head):
        self._take(begin)
        if self.peek() == end:
            self._take(end)
            return
        while True:
            yield head()
            if self._take("," + end) == end:
                return
