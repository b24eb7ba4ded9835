"""Bytes of a file to lines of text: UTF-8, the encoding of its first bytes, or a given one."""

from __future__ import annotations

import codecs
import collections
import functools
import gzip
import io
import itertools
import logging
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Optional

from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.tasks.files import row_errors, row_store

_log = logging.getLogger(__name__)

# The first bytes of a file, and the encoding that they show.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 4096  # [bytes] of a file without a mark
_CHUNK = 1 << 18  # [characters]
_IN_QUOTES = re.compile(r'"[^"]*("|\Z)')
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not of the encoding


def opener(path: str, what: str) -> Callable[[], IO[bytes]]:
    """A function that opens a file for reading, unpacked, as often as it is called; path "-" is the
    standard input, of which, as of a pipe, a copy is kept. what: its role in errors."""
    if path != "-":
        files.require_file(path, what)
    elif sys.stdin is None:
        raise UserError("input -: the standard input is closed, expected text to read")
    source = sys.stdin.buffer if path == "-" else open(path, "rb")
    if not os.path.isfile(path):  # a pipe, which can be read once
        source = row_store.temporary_copy(source)
    is_compressed = source.read(2) == b"\x1f\x8b"

    def opened() -> IO[bytes]:
        # A temporary file exists as long as this function, which holds it.
        read: Any = gzip.open if is_compressed else open
        return read(source.name, "rb")

    if is_compressed:
        try:
            with opened() as file:
                collections.deque(iter(functools.partial(file.read, _CHUNK), b""), maxlen=0)
        except (EOFError, OSError, zlib.error) as e:
            raise UserError(f"{path}: not a complete .gz file: {e}") from None
    with opened() as file:
        if foreign := encodings.foreign(path, file):
            raise UserError(f"{path}: {foreign}")
    return opened


class Lines:
    """The lines of a file, without the empty ones at its end; each iteration reads it again.

    Only a line feed ends a line, or a carriage return in a file without line feeds: texts hold
    other characters at which `str.splitlines` would break. With `skips` and no given encoding,
    bytes that are not UTF-8 stay in their lines as half surrogates, which their parser reports.
    """

    def __init__(
        self,
        path: str,
        opened: Callable[[], IO[bytes]],
        encoding: Optional[str] = None,
        skips: bool = False,
    ):
        self._path = path
        self._opened = opened
        # Phase: the encoding that is given, or that the first bytes show, or UTF-8.
        if encoding and codecs.lookup(encoding).name == "utf-8":
            encoding = None
        if encoding is None:
            with opened() as file:
                encoding = _shown(path, file.read(_LOOKED_AT))
        self._how: dict = {"encoding": encoding or "utf-8", "newline": "\n"}
        # Phase: decode all of it, so that a bad byte in the last line is found before any work.
        try:
            collections.deque(self.chunks(), maxlen=0)
        except UnicodeError:
            self._find_errors(encoding, skips)
        # Phase: lines that end in a carriage return, which the first chunk shows.
        start = self.start()
        # Excel for the Mac wrote line feeds in quoted cells.
        if "\r" in start[:-1] and "\r\n" not in start and "\n" not in _IN_QUOTES.sub("", start):
            note(path, "with lines that end in a carriage return")
            self._how["newline"] = None

    def __iter__(self) -> Iterator[str]:
        return (line.removesuffix("\r") for line in self.with_returns())

    def with_returns(self) -> Iterator[str]:
        """The lines with the carriage return before a line feed, which in a quoted cell is text."""
        blank: list[str] = []
        with io.TextIOWrapper(self._opened(), **self._how) as file:
            for number, line in enumerate(file):
                line = line.removesuffix("\n")
                if not number:
                    line = line.lstrip("\ufeff")
                if not line.strip():
                    blank.append(line)  # at the end of the file, or others follow
                    continue
                yield from blank
                blank.clear()
                yield line

    def first(self, count: int) -> list[str]:
        """The first lines, as many as there are."""
        return list(itertools.islice(self, count))

    def start(self) -> str:
        """The beginning of the text, from its first character that is not blank; or ""."""
        return next(filter(None, map(str.lstrip, self.chunks())), "")

    def chunks(self) -> Iterator[str]:
        """The text piece by piece, wherever its lines end, without a byte order mark."""
        with io.TextIOWrapper(self._opened(), **self._how) as file:
            yield file.read(_CHUNK).lstrip("\ufeff")
            yield from iter(lambda: file.read(_CHUNK), "")

    def _find_errors(self, encoding, skips):
        """Refuses a file that is not of its encoding, or warns of it."""
        # One error, with the place of the first byte: the others say the same of other columns.
        found, bad, good, error = row_errors.RowErrors(), b"", 0, ""
        self._how["errors"] = "surrogateescape"
        try:
            for number, line in enumerate(self, 1):
                escaped = _ESCAPED.search(line)
                if not escaped:
                    good += not line.isascii()
                    continue
                error = error or "not {}: byte 0x{:02x} at column {}".format(
                    encoding or "UTF-8", ord(escaped[0]) - 0xDC00, escaped.start() + 1
                )
                found.add(f"{self._path}:{number}", error)
                if len(bad) < _CHUNK:
                    bad += line.encode(self._how["encoding"], "surrogateescape") + b"\n"
        except UnicodeError as e:  # as in UTF-16, whose half characters cannot be escaped
            raise UserError(f"{self._path}: not {encoding}: {e}") from None
        # Where other lines are UTF-8 beyond ASCII, these are damaged; else it is another encoding.
        hint = encodings.hint(bad) if not encoding and len(found) > good else ""
        if encoding or not skips:
            found.refuse(hint)
        elif hint:
            _log.warning("note: %s: not UTF-8%s", self._path, hint)


def _shown(path: str, content: bytes) -> Optional[str]:
    """The encoding that the first bytes of a file show; None where they do not."""
    found = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    # ASCII in UTF-16 has a zero in each second byte; text in UTF-8 has none.
    for start, name in ((0, "utf-16-be"), (1, "utf-16-le")):
        half = content[start:_LOOKED_AT:2]
        if not found and len(half) > 1 and half.count(0) > 0.4 * len(half):
            found = name
    if found:
        note(path, "as " + found.upper())
    return found


@functools.cache  # once for each file, however often it is read
def note(path: str, how: str) -> None:
    _log.info("%s is read %s", path, how)
