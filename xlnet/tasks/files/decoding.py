"""Bytes of a file to lines of text: UTF-8, the encoding of its first bytes, or a given one."""

from __future__ import annotations

import codecs
import collections
import functools
import io
import itertools
import logging
from collections.abc import Iterator
from typing import IO, Optional

from xlnet import encodings
from xlnet.errors import UserError
from xlnet.tasks.files import faults

_log = logging.getLogger(__name__)

# The first bytes of a file, and the encoding that they show.
_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
LOOKED_AT = 4096        # [bytes] of a file without a mark
_CHUNK = 1 << 18        # [bytes]


class Lines:
    """The lines of a file, without the empty ones at its end; each iteration reads it again.

    Only a line feed ends a line, or a carriage return if `ends_in_returns` is set: texts hold other
    characters at which `str.splitlines` would break.

    Args:
      path: the file's name in errors.
      file: open for reading bytes; it is decoded once to check it.
      encoding: its name; None: UTF-16 or UTF-32 where the file shows it, or UTF-8.
      skips: keep bytes that are not UTF-8 in their lines, as half surrogates, which whoever parses
        the lines reports.

    Raises:
      UserError: the bytes are not of this encoding; the message says which it might be.
    """

    def __init__(self, path: str, file: IO[bytes], encoding: Optional[str] = None,
                 skips: bool = False):
        self._path = path
        self._file = file
        if encoding and codecs.lookup(encoding).name == "utf-8":
            encoding = None
        self._encoding = encoding or shown(path, self._read(0))
        self._on_error = "strict"
        self.ends_in_returns = False
        try:
            collections.deque(self.chunks(), maxlen=0)
        except UnicodeDecodeError:
            self._find_errors(skips)
            self._on_error = "surrogateescape"

    def __iter__(self) -> Iterator[str]:
        blank: list[str] = []
        for line in self._all():
            line = line[:-1] if line.endswith("\r") else line
            if not line.strip():
                blank.append(line)          # at the end of the file, or others follow
                continue
            if blank:
                yield from blank
                blank.clear()
            yield line

    def _all(self):
        begun: list[str] = []               # parts of a line
        for text in self.chunks():
            first, *others = text.split("\n")
            begun.append(first)
            if others:
                yield "".join(begun)
                yield from others[:-1]
                begun = others[-1:]
        yield "".join(begun)

    def first(self, count: int) -> list[str]:
        """The first lines, as many as there are."""
        return list(itertools.islice(self, count))

    def start(self) -> str:
        """The beginning of the text, from its first character that is not blank; or ""."""
        return next(filter(None, map(str.lstrip, self.chunks())), "")

    def chunks(self) -> Iterator[str]:
        """The text piece by piece, wherever its lines end, without a byte order mark."""
        encoding = self._encoding or "utf-8"
        decoder = io.IncrementalNewlineDecoder(         # keeps "\r\n" in one piece
            codecs.getincrementaldecoder(encoding)(self._on_error), translate=False)
        offset, lines, is_begun, is_end = 0, 1, False, False
        while not is_end:
            content = self._read(offset)
            offset, is_end = offset + len(content), not content
            try:
                text = decoder.decode(content, is_end)
            except UnicodeDecodeError as e:
                if self._encoding is None:
                    raise
                raise UserError("%s: not %s: byte 0x%02x in line %d" % (
                    self._path, encoding, e.object[e.start],
                    lines + e.object[:e.start].count(b"\n"))) from None
            lines += text.count("\n")
            if not is_begun:
                text = text.lstrip("\ufeff")
                is_begun = bool(text)
            yield text.replace("\r", "\n") if self.ends_in_returns else text

    def _read(self, offset):
        self._file.seek(offset)             # others may read the file at the same time
        return self._file.read(_CHUNK)

    def _find_errors(self, skips):
        """Refuses a file that is not UTF-8, or warns of it."""
        found, bad, good = faults.Found(), b"", 0
        self._file.seek(0)
        for number, line in enumerate(self._file, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                line.decode()
                good += not line.isascii()
            except UnicodeDecodeError as e:
                found.add("%s:%d" % (self._path, number), "not UTF-8: byte 0x%02x at column %d" % (
                    line[e.start], e.start + 1))
                bad += line if len(bad) < _CHUNK else b""
        # Where other lines are UTF-8 beyond ASCII, these are damaged; else it is another encoding.
        hint = encodings.hint(bad) if len(found) > good else ""
        if not skips:
            found.refuse(hint)
        elif hint:
            _log.warning("note: %s: not UTF-8%s", self._path, hint)


def shown(path: str, content: bytes) -> Optional[str]:
    """The encoding that the first bytes of a file show; None where they do not."""
    found = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if found is None:
        # ASCII in UTF-16 has a zero in each second byte; text in UTF-8 has none.
        for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            half = content[start:LOOKED_AT:2]
            if len(half) > 1 and half.count(0) > 0.4 * len(half):
                found = name
    if found is not None:
        _note_encoding(path, found)
    return found


@functools.cache      # once for each file, however often it is read
def _note_encoding(path, name):
    _log.info("%s is read as %s", path, name.upper())
