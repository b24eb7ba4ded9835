"""Bytes of a file to lines of text, in UTF-8 or a declared encoding."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any, Optional

from xlnet.support import files
from xlnet.support.errors import UserError
from xlnet.tasks.files import row_store

_MARK = "\ufeff"  # a byte order mark after decoding
RETURN_INSIDE = (
    "a carriage return inside of a line; expected lines that end in a line feed"
)


def opener(path: str, what: str) -> Callable[[], IO[bytes]]:
    """A function that opens a file for reading, unpacked, as often as it is called.

    Args:
      path: of a file; "-" is the standard input. Of that, and of a pipe, a copy is kept, as it can
        be read only once.
      what: the role of the file in errors.
    """
    if path != "-":
        files.require_file(path, what)
        source: Any = open(path, "rb")
        if not os.path.isfile(path):  # a pipe
            source = row_store.temporary_copy(source)
    elif sys.stdin is None:
        raise UserError("input -: the standard input is closed, expected text to read")
    else:
        source = row_store.temporary_copy(sys.stdin.buffer)

    def opened() -> IO[bytes]:
        # The closure holds the temporary file, which exists as long as the function.
        read: Any = gzip.open if path.endswith(".gz") else open
        return read(source.name, "rb")

    return opened


class Lines:
    """The lines of a file, each of which ends in a line feed, perhaps after a carriage return; each
    iteration reads the file again.

    Byte order marks at the beginning of lines, as of files that were joined, are left out. Bytes
    that are not of the encoding stay in their lines as half surrogates, which the parser of a row
    reports with its line.
    """

    def __init__(
        self, path: str, opened: Callable[[], IO[bytes]], encoding: Optional[str] = None
    ):
        self.path = path
        self._opened = opened
        self._encoding = encoding or "utf-8"

    def __iter__(self) -> Iterator[str]:
        for line in self.with_ends():
            yield line.removesuffix("\n").removesuffix("\r")

    def with_ends(self) -> Iterator[str]:
        """The lines with the characters that end them, as `csv` takes them."""
        try:
            with io.TextIOWrapper(
                self._opened(), self._encoding, errors="surrogateescape", newline="\n"
            ) as file:
                for line in file:
                    yield line.lstrip(_MARK)
        except (UnicodeError, EOFError, OSError) as e:
            raise UserError(f"{self.path}: {e}") from None

    def first(self, count: int) -> list[str]:
        """The first `count` lines, fewer if there are not so many."""
        return list(itertools.islice(self, count))

    def start(self) -> str:
        """The first line that is not blank, without blanks before it; or ""."""
        return next(filter(None, map(str.lstrip, self)), "")

    def text(self) -> str:
        """All of the text."""
        return "".join(self.with_ends())
