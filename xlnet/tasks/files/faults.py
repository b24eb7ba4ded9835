"""What is wrong in a file, told in few lines: the same fault of many rows once, with their number.

A fault is (place, text): "train.csv:17", "column 'text' is empty".
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_LISTED = 20      # different faults that are shown


class Found:
    """The faults of a file. However many there are, little is kept of them."""

    def __init__(self, faults: Iterable[tuple] = ()):
        self._count = 0
        self._has_others = False                        # beside those that are shown
        self._places: dict[str, tuple] = {}             # text -> (first place, last, rows)
        for place, text in faults:
            self.add(place, text)

    def __len__(self) -> int:
        return self._count

    def add(self, place: str, text: str) -> None:
        self._count += 1
        if text in self._places or len(self._places) < _LISTED:
            first, _, rows = self._places.get(text, (place, place, 0))
            self._places[text] = first, place, rows + 1
        else:
            self._has_others = True

    def refuse(self, hint: str = "") -> None:
        """Raises UserError for the faults, if there are any.

        The message is the first one; where there are more, they are listed, each kind once. The
        hint stands behind each.
        """
        if not self._count:
            return
        others = ""
        if self._count > 1:
            _log.info("%d faulty rows%s", self._count, self._listed(hint))
            others = " (and %d more faulty row(s))" % (self._count - 1)
        text, (place, *_) = next(iter(self._places.items()))
        raise UserError("%s: %s%s%s" % (place, text, hint, others))

    def note_skipped(self, path: str, count: int, more: str = "") -> None:
        """Warns of the faults of a file of `count` rows, whose rows were skipped; more: what else
        is to be said of them."""
        if self._count:
            _log.warning("note: %s: %d of %d rows skipped%s%s", path, self._count, count, more,
                         self._listed())

    def end(self, path: str, skips: bool) -> None:
        """Refuses the faults of a file, or warns of them where what they are in was skipped."""
        if not skips:
            self.refuse()
        elif self._count:
            _log.warning("note: %s: skipped what has a fault, %d in all%s", path, self._count,
                         self._listed())

    def _listed(self, hint=""):
        """The end of a line, and a line for each of the first different faults."""
        lines = [(", the first %d faults:" % _LISTED) if self._has_others else ":"]
        for text, (first, last, rows) in self._places.items():
            lines.append("  %s: %s%s%s" % (
                first, text, hint, "" if rows == 1 else " (%d rows, the last one %s)" % (
                    rows, last)))
        return "\n".join(lines)


def refuse(faults: Iterable[tuple]) -> None:
    """Raises UserError for the faults (place, text), if there are any."""
    Found(faults).refuse()
