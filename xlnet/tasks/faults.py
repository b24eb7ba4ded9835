"""What is wrong in a file, told in few lines: the same fault of many rows once, with their number.

A fault is (place, text): "train.csv:17", "column 'text' is empty".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_LISTED = 20      # different faults that are shown


def refuse(faults: Sequence[tuple]) -> None:
    """Raises UserError for the faults, if there are any.

    The message is the first one; where there are more, they are listed, each kind once.
    """
    if not faults:
        return
    others = ""
    if len(faults) > 1:
        _log.info("%d faulty rows%s", len(faults), _listed(faults))
        others = " (and %d more faulty row(s))" % (len(faults) - 1)
    raise UserError("%s: %s%s" % (*faults[0], others))


def note_skipped(path: str, faults: Sequence[tuple], count: int) -> None:
    """Warns of the faults of a file of `count` rows, whose rows were skipped."""
    if faults:
        _log.warning("note: %s: %d of %d rows skipped, their answers are empty%s", path,
                     len(faults), count, _listed(faults))


def _listed(faults):
    """The end of a line, and a line for each of the first different faults."""
    places: dict[str, list[str]] = {}
    for place, text in faults:
        places.setdefault(text, []).append(place)
    lines = ["" if len(places) <= _LISTED else ", the first %d faults" % _LISTED]
    lines[0] += ":"
    for text, found in list(places.items())[:_LISTED]:
        lines.append("  %s: %s%s" % (found[0], text, "" if len(found) == 1 else
                                     " (%d rows, the last one %s)" % (len(found), found[-1])))
    return "\n".join(lines)
