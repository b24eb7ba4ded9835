"""Errors in files, reported in few lines: equal errors of table rows once, with their number.

An error is (place, text): "train.csv:17", "column 'text' is empty".
"""

from __future__ import annotations

import logging

from xlnet.support.errors import UserError

_log = logging.getLogger(__name__)

LISTED = 20  # different errors that are shown


class RowErrors:
    """The errors of a file; memory does not grow with their number."""

    def __init__(self) -> None:
        self._count = 0
        self._has_others = False  # besides those that are shown
        # Errors with the same text share an entry: a forgotten column gives a million of them.
        self._places: dict[str, tuple] = {}  # text -> (first place, last, rows)

    def __len__(self) -> int:
        return self._count

    def add(self, place: str, text: str) -> None:
        self._count += 1
        if text in self._places or len(self._places) < LISTED:
            first, _, rows = self._places.get(text, (place, place, 0))
            self._places[text] = first, place, rows + 1
        else:
            self._has_others = True

    def refuse(self, hint: str = "", remedy: str = "") -> None:
        """Raises UserError with the first error, if there is one, and logs a list of several; each
        is followed by `hint`, all of them by `remedy`."""
        if not self._count:
            return
        others = ""
        if self._count > 1:
            _log.info("%d faulty rows%s", self._count, self._listed(hint))
            others = " (and %s more faulty row(s))" % (self._count - 1)
        text, (place, *_) = next(iter(self._places.items()))
        raise UserError(f"{place}: {text}{hint}{others}{remedy}")

    def note(self, path: str, what: str) -> None:
        """Warns of them, if there are any, as "PATH: COUNT WHAT", with a list."""
        if self._count:
            _log.warning("note: %s: %d %s%s", path, self._count, what, self._listed())

    def end(self, path: str, skips: bool) -> None:
        """Raises UserError for the errors, or warns of them if the entries that have them were
        skipped."""
        if not skips:
            self.refuse()
        self.note(path, "entries with errors are skipped")

    def _listed(self, hint: str = "") -> str:
        """The end of a line, and a line for each of the first different errors."""
        lines = [(f", the first {LISTED} errors:") if self._has_others else ":"]
        for text, (first, last, rows) in self._places.items():
            lines.append(
                "  {}: {}{}{}".format(
                    first,
                    text,
                    hint,
                    "" if rows == 1 else f" ({rows} rows, the last one {last})",
                )
            )
        return "\n".join(lines)
