"""Windows of record files, each read by its place alone; what becomes of damaged ones.

A file is a row of pieces, which begin at known places: a record of ours, which all have one size,
or a batch of records of the reference's.
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

_OPEN_FILES = 256       # at a time; a batch may have more rows, each of a file of its own


class WindowReader:
    """Reads windows, on any number of threads.

    Args:
      skips_damaged: whether the next whole window of the same row is read in the place of a damaged
        one, which is noted and counted; else it is an error.
    """

    def __init__(self, skips_damaged: bool = False):
        self._skips_damaged = skips_damaged
        self._file = functools.lru_cache(maxsize=_OPEN_FILES)(_OpenFile)
        self._damaged: set[tuple[str, int, int]] = set()

    def read(self, path: str, places: Sequence[int], number: int,
             rows: Sequence[int] = (0,)) -> list[bytes]:
        """Serialized windows of the piece `number` of a file.

        Args:
          places: where the file's pieces begin [bytes], and the end of the last one.
          rows: which records of the piece.

        Raises:
          UserError: the file cannot be read; a window is damaged and that is not skipped.
        """
        found = self._piece(path, places, number)
        return [_at(found, row) or self._another(path, places, number, row) for row in rows]

    def _piece(self, path, places, number):
        """The records of a piece; None for a damaged one, nothing where its place is unknown."""
        begin, end = int(places[number]), int(places[number + 1])
        try:
            return list(tfrecord.split(self._file(path).read(begin, end - begin)))
        except OSError as e:
            raise UserError("%s cannot be read: %s" % (path, e.strerror)) from None

    def _another(self, path, places, number, row):
        """In the place of a damaged window the next whole one of its row, or the last before it."""
        self._note(path, number, row)
        for other in (*range(number + 1, len(places) - 1), *reversed(range(number))):
            window = _at(self._piece(path, places, other), row)
            if window is not None:
                return window
        raise UserError("%s: all records are damaged; make them anew" % path)

    def _note(self, path, number, row):
        what = "%s: record %d%s is damaged" % (
            path, number, " of row %d" % row if row else "")
        if not self._skips_damaged:
            raise UserError("%s; make the records anew, or --on_error=skip reads the next whole "
                            "one in its place" % what)
        if (path, number, row) not in self._damaged:
            self._damaged.add((path, number, row))
            _log.warning("note: %s and skipped, %d so far", what, len(self._damaged))


def _at(piece, row) -> Optional[bytes]:
    return piece[row] if row < len(piece) else None


class _OpenFile:
    """An open file, closed when nobody has it any more."""

    def __init__(self, path: str):
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, begin: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, begin)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)
