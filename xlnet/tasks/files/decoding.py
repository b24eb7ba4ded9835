"""Bytes of a file to lines of text: UTF-8, the encoding of its byte order mark, or a given one."""

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

# Byte order marks, and the encodings that they declare.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)
_MARK = "\ufeff"  # a byte order mark after decoding
RETURN_INSIDE = "a carriage return inside of a line; expected lines that end in a line feed"
_CHUNK = 1 << 18  # [characters]
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not of the encoding


def opener(path: str, what: str) -> Callable[[], IO[bytes]]:
    """A function that opens a file for reading, unpacked, as often as it is called; Path "-" is the
    standard input. Of that, and of a pipe, a copy is kept, as it can be read only once. what: its
    role in errors."""
    if path != "-":
        files.require_file(path, what)
        source: Any = open(path, "rb")
        if not os.path.isfile(path):  # a pipe
            source = row_store.temporary_copy(source)
    elif sys.stdin is None:
        raise UserError("input -: the standard input is closed, expected text to read")
    else:
        source = _copy_of_standard_input(sys.stdin.buffer)
        source.seek(0)
    is_compressed = source.read(2) == b"\x1f\x8b"

    def opened() -> IO[bytes]:
        # The closure holds the temporary file, which exists as long as the function.
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


@functools.cache  # the form of predictions looks at its beginning once more
def _copy_of_standard_input(stream: IO[bytes]) -> IO[bytes]:
    return row_store.temporary_copy(stream)


def can_be_read_again(path: str) -> bool:
    """Whether `opener` gives the content a second time: of all but pipes and directories."""
    return path == "-" or os.path.isfile(path)


def mark_of(path: str, what: str) -> Optional[str]:
    """The encoding of a file's byte order mark, as Python writes it with the mark; None: it has
    none, or is a pipe, which can be read once. what: its role in errors."""
    if not can_be_read_again(path):
        return None
    with opener(path, what)() as file:
        start = file.read(4)
    found = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    return "utf-8-sig" if found == "utf-8" else found


class Lines:
    """The lines of a file; each iteration reads it again.

    A line ends in a line feed, perhaps after a carriage return; in a file without line feeds, in a
    carriage return. Texts hold other characters at which `str.splitlines` would break. Byte order
    marks at the beginning of lines, as of files that were joined, are left out. The encoding is
    that of the byte order mark, or the given one, or UTF-8. With `skips` and no given encoding,
    bytes that are not UTF-8 stay in their lines as half surrogates, which their parser reports.
    """

    def __init__(
        self,
        path: str,
        opened: Callable[[], IO[bytes]],
        encoding: Optional[str] = None,
        skips: bool = False,
    ):
        self.path = path
        self._opened = opened
        with opened() as file:
            mark = _marked(path, file.read(4))
        given = encodings.other_than_utf8(encoding)
        encoding = None if mark == "utf-8" else mark or given
        self._how: dict = {"encoding": encoding or "utf-8", "newline": "\n"}
        # The complete file is decoded first, so that a bad byte in the last line is found before
        # any work.
        try:
            if self._find_line_end():
                raise self._no_text(encoding)
        except UnicodeError:
            self._find_errors(encoding, skips)
        else:
            if given and not mark:
                self._refuse_utf8(given)

    def __iter__(self) -> Iterator[str]:
        with io.TextIOWrapper(self._opened(), **self._how) as file:
            for line in file:
                yield line.removesuffix("\n").removesuffix("\r").lstrip(_MARK)

    def with_ends(self) -> Iterator[str]:
        """The lines with the characters that end them, as `csv` takes them: these are a line feed,
        a carriage return, or both."""
        with io.TextIOWrapper(self._opened(), **{**self._how, "newline": ""}) as file:
            for line in file:
                yield line.lstrip(_MARK)

    def first(self, count: int) -> list[str]:
        """The first `count` lines, fewer if there are not so many."""
        return list(itertools.islice(self, count))

    def start(self) -> str:
        """The beginning of the text, from its first character that is not blank; or ""."""
        return next(filter(None, map(str.lstrip, self.chunks())), "")

    def chunks(self) -> Iterator[str]:
        """The text piece by piece, wherever its lines end, without a byte order mark."""
        with io.TextIOWrapper(self._opened(), **self._how) as file:
            yield file.read(_CHUNK).lstrip(_MARK)
            yield from iter(lambda: file.read(_CHUNK), "")

    def _find_line_end(self) -> bool:
        """Finds out in which character lines end; returns whether there are NUL characters."""
        has_feed = has_return = has_zeros = False
        for chunk in self.chunks():
            has_feed = has_feed or "\n" in chunk
            has_return = has_return or "\r" in chunk
            has_zeros = has_zeros or "\0" in chunk
        if has_return and not has_feed:
            self._how["newline"] = None
        return has_zeros

    def _no_text(self, encoding: Optional[str]) -> UserError:
        """The error of a file with NUL characters; UTF-16 that is read as UTF-8 has some."""
        hint = "" if encoding else encodings.hint_of_zeros(self._opened)
        return UserError(f"{self.path}: has NUL characters, expected text{hint}")

    def _refuse_utf8(self, given: str) -> None:
        """Raises UserError for text in UTF-8 whose encoding is declared to be another one."""
        try:
            with io.TextIOWrapper(self._opened(), encoding="utf-8", newline="\n") as file:
                chunks = iter(lambda: file.read(_CHUNK), "")
                is_ascii = all([chunk.isascii() for chunk in chunks])
        except UnicodeError:
            return
        if not is_ascii and codecs.lookup(given).name not in ("utf-16", "utf-32"):
            raise UserError(
                f"{self.path}: encoding is {given}, but the file is UTF-8: give --encoding=utf-8"
            )

    def _find_errors(self, encoding: Optional[str], skips: bool) -> None:
        """Refuses a file that is not of its encoding, or warns of it."""
        # There is one error, with the place of the first byte; others would say the same of other
        # columns.
        found, bad, good, error = row_errors.RowErrors(), b"", 0, ""
        self._how["errors"] = "surrogateescape"
        try:
            has_zeros = self._find_line_end()
            for number, line in enumerate(self, 1):
                escaped = _ESCAPED.search(line)
                if not escaped:
                    good += not line.isascii()
                    continue
                error = error or "not {}: byte 0x{:02x} at column {}".format(
                    encoding or "UTF-8", ord(escaped[0]) - 0xDC00, escaped.start() + 1
                )
                found.add(f"{self.path}:{number}", error)
                if len(bad) < _CHUNK:
                    bad += line.encode(self._how["encoding"], "surrogateescape") + b"\n"
        except UnicodeError as e:  # as in UTF-16, whose half characters cannot be escaped
            raise UserError(f"{self.path}: not {encoding}: {e}") from None
        # If other lines have non-ASCII characters in UTF-8, these lines are damaged; otherwise the
        # file has another encoding.
        hint = ""
        if not encoding and len(found) > good:
            hint = encodings.hint_of_zeros(self._opened) or encodings.hint(bad)
        if encoding or not skips:
            found.refuse(hint)
        elif has_zeros:  # otherwise only some of its lines would be skipped
            raise self._no_text(encoding)
        elif hint:
            _log.warning("note: %s: not UTF-8%s", self.path, hint)


def _marked(path: str, start: bytes) -> Optional[str]:
    """The encoding of the byte order mark at the beginning of a file; None where there is none."""
    found = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    if found and found != "utf-8":
        note(path, "as " + found.upper())
    return found


def note(path: str, how: str) -> None:
    """Says how a file is read: once for each file, however often it is read."""
    _note_once(os.path.abspath(path), path, how)


@functools.cache
def _note_once(absolute_path: str, path: str, how: str) -> None:
    # A relative path alone is another file after a change of directory.
    _log.info("%s is read %s", path, how)
