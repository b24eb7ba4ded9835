"""Figures: made without a screen, with the names of pieces and labels in any script.

pyplot is never imported: it obeys MPLBACKEND, which notebooks set for the programs that they start,
to a module that this environment may lack.
"""

from __future__ import annotations

import os
from typing import Any, Union

from xlnet.support import files

NOTES = "#555555"  # color of notes
_CHINESE = (  # also with Japanese and Korean, of Linux, Windows and macOS
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Arial Unicode MS",
)


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


def families() -> list[str]:
    """The fonts of texts in any script: matplotlib's own, or those of a matplotlibrc, then what is
    installed with Chinese characters. matplotlib takes the first that has a character, and warns of
    those that no font has."""
    new(1, 1)  # imports matplotlib
    from matplotlib import font_manager, rcParams

    installed = font_manager.get_font_names()
    return [*rcParams["font.family"], *(name for name in _CHINESE if name in installed)]


def drawn_length(text: str) -> int:
    """Width of a text in Latin letters; Chinese characters count twice."""
    return sum(2 if ord(c) > 0x2E80 else 1 for c in text)
