"""Reads windows of record files, each by its position alone, and replaces damaged ones.

A file is a series of pieces at known positions: our records, which all have one size, or batches of
records of the original implementation.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from typing import Optional

from xlnet.errors import UserError
from xlnet.records import tfrecord

_log = logging.getLogger(__name__)

_OPEN_FILES = 256       # at a time; a batch may have more rows, each of another file


class WindowReader:
    """Reads windows, on any number of threads.

    skips_damaged: whether a damaged window is logged and replaced by the next intact one of its
      row; otherwise it is an error.
    """

    def __init__(self, skips_damaged: bool = False):
        self._skips_damaged = skips_damaged
        self._file = functools.lru_cache(maxsize=_OPEN_FILES)(_OpenFile)
        self._damaged: set[tuple[str, int, int]] = set()

    def read(self, path: str, places: Sequence[int], number: int,
             rows: Sequence[int] = (0,)) -> list[bytes]:
        """Serialized windows of the piece `number` of a file.

        Args:
          places: where the file's pieces begin, and the end of the last one [bytes].
          rows: which records of the piece.

        Raises:
          UserError: the file cannot be read, or a window is damaged and not skipped.
        """
        found = self._piece(path, places, number)
        return [_at(found, row) or self._another(path, places, number, row) for row in rows]

    def _piece(self, path, places, number):
        """The records of a piece; None for a damaged one, nothing behind a damaged length."""
        begin, end = int(places[number]), int(places[number + 1])
        try:
            return list(tfrecord.split(self._file(path).read(begin, end - begin)))
        except OSError as e:
            raise UserError("%s cannot be read: %s" % (path, e.strerror)) from None

    def _another(self, path, places, number, row):
        """The next intact window of a damaged one's row, or the last one before it."""
        self._note(path, number, row)
        for other in (*range(number + 1, len(places) - 1), *reversed(range(number))):
            window = _at(self._piece(path, places, other), row)
            if window is not None:
                return window
        raise UserError("%s: all records are damaged; regenerate them" % path)

    def _note(self, path, number, row):
        what = "%s: record %d%s is damaged" % (
            path, number, " of row %d" % row if row else "")
        if not self._skips_damaged:
            raise UserError("%s; regenerate the records, or give --on_error=skip to read the next "
                            "intact one instead" % what)
        if (path, number, row) not in self._damaged:
            self._damaged.add((path, number, row))
            _log.warning("note: %s and skipped, %d so far", what, len(self._damaged))


def _at(piece, row) -> Optional[bytes]:
    return piece[row] if row < len(piece) else None


class _OpenFile:
    """An open file, closed when it is no longer referenced."""

    def __init__(self, path: str):
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, begin: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, begin)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)
