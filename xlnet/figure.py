"""Figures: made without a screen, with the names of pieces and labels in any script.

pyplot is never imported: it obeys MPLBACKEND, which notebooks set for the programs that they start,
to a module that this environment may lack.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Union

from xlnet import errors, files, fonts

_log = logging.getLogger(__name__)

NOTES = "#555555"       # color of notes


def new(width: float, height: float, **settings: Any) -> Any:
    """An empty matplotlib `Figure` of this size [inches].

    matplotlib reads MPLBACKEND when it is imported, and refuses values that it does not know.
    """
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        from matplotlib.figure import Figure
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    return Figure(figsize=(width, height), **settings)


def save(figure: Any, path: Union[str, os.PathLike[str]]) -> None:
    """Writes a figure as a PNG, complete or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    with files.replacing(os.fspath(path)) as temporary:
        FigureCanvasAgg(figure).print_png(temporary, metadata={"Software": None})


@contextlib.contextmanager
def optional(path: Union[str, os.PathLike[str]]) -> Iterator[None]:
    """Logs a note if the figure `path` cannot be plotted: a run must not end for want of it."""
    try:
        yield
    except Exception as e:
        _log.warning("note: %s is not plotted: %s", path,
                     errors.in_one_line(e) or "%s: %s" % (type(e).__name__, errors.reason(e)))


@dataclasses.dataclass(frozen=True)
class Names:
    """Names as a figure can show them.

    Attributes:
      shown: the names; "#id" for those with a character for which no font is installed.
      families: of fonts, for matplotlib.
      unshown: set of the (id, name) of the others.
    """
    shown: list[str]
    families: list[str]
    unshown: set[tuple[int, str]]

    @classmethod
    def of(cls, names: Sequence[str], ids: Iterable[int], more: str = "") -> Names:
        """Finds fonts for names and for `more`, further text of the figure."""
        new(1, 1)       # imports matplotlib
        families, characters = fonts.choose(more + "".join(names))
        pairs = [(int(id), name) for id, name in zip(ids, names)]
        return cls([name if set(name) <= characters else "#%d" % id for id, name in pairs],
                   families, {(id, name) for id, name in pairs if not set(name) <= characters})

    def note(self, what: str) -> str:
        """The line below the figure that explains "#id"; "" if it is not needed.

        Args:
          what: has the id, "piece" or "label".
        """
        return "#N: %s number N; no font with its characters is installed here" % what \
            if self.unshown else ""

    def log(self, what: str) -> None:
        """Logs which names the figure does not show."""
        if self.unshown:
            listed = ["#%d is %s" % each for each in sorted(self.unshown)]
            _log.info("note: no installed font shows %d %s(s) of the figure: %s", len(listed), what,
                      ", ".join(listed))
