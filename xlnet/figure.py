"""Figures: made without a screen, with the names of pieces and labels in any script.

pyplot is never imported: it obeys MPLBACKEND, which notebooks set for the programs that they start,
to a module that this environment may lack.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Union

from xlnet import errors, files

_log = logging.getLogger(__name__)

NOTES = "#555555"  # color of notes
_FONT = "DejaVu Sans"  # comes with matplotlib


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
        _log.warning(
            "note: %s is not plotted: %s",
            path,
            errors.in_one_line(e) or f"{type(e).__name__}: {errors.reason(e)}",
        )


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
        new(1, 1)  # imports matplotlib
        families, characters = choose_fonts(more + "".join(names))
        pairs = [(int(id), name) for id, name in zip(ids, names)]
        return cls(
            [name if set(name) <= characters else f"#{id}" for id, name in pairs],
            families,
            {(id, name) for id, name in pairs if not set(name) <= characters},
        )

    def note(self, what: str) -> str:
        """The line below the figure that explains "#id", of a "piece" or "label"; "" if it is not
        needed."""
        return (
            f"#N: {what} number N; no font with its characters is installed here"
            if self.unshown
            else ""
        )

    def log(self, what: str) -> None:
        """Logs which names the figure does not show."""
        if self.unshown:
            listed = ["#{} is {}".format(*each) for each in sorted(self.unshown)]
            _log.info(
                "note: no installed font shows %d %s(s) of the figure: %s",
                len(listed),
                what,
                ", ".join(listed),
            )


# ---- fonts


def choose_fonts(text: str) -> tuple[list[str], set[str]]:
    """Font families for a text, and the set of its characters that they have: matplotlib's own one,
    then each one with characters that those before it lack."""
    from matplotlib import font_manager

    families, wanted = [_FONT], set(text)
    covered = wanted & _characters(font_manager.findfont(_FONT))
    for font in _installed():
        if covered == wanted:
            break
        more = (wanted - covered) & _characters(font.fname)
        if more:
            families.append(font.name)
            covered |= more
    return families, covered


def _installed() -> list[Any]:
    """Upright fonts of normal weight, without Last Resort, which has a box for every character."""
    from matplotlib import font_manager

    return sorted(
        (
            font
            for font in font_manager.fontManager.ttflist
            if font.style == "normal"
            and font.weight in (400, "normal", "regular")
            and not font.name.startswith("Last Resort")
        ),
        key=lambda f: (f.name, f.fname),
    )


@functools.cache
def _characters(path: str) -> frozenset[str]:
    from matplotlib import ft2font

    return frozenset(chr(code) for code in ft2font.FT2Font(path).get_charmap())


def drawn_length(text: str) -> int:
    """Width of a text in Latin letters; Chinese characters count twice."""
    return sum(2 if ord(c) > 0x2E80 else 1 for c in text)
