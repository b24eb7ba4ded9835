"""What all figures share: a file that is complete or absent, widths of names, a color.

Figures are made without pyplot, which needs a screen or a backend of its own. Texts have the fonts
of matplotlib's `font.family`.
"""

from __future__ import annotations

from typing import Any

from xlnet.support import files

NOTES = "#555555"  # color of notes


def save(figure: Any, path: str) -> None:
    """Writes a figure as a PNG, complete or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with files.replacing(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary, metadata={"Software": None})


def longest(names: list[str]) -> int:
    """Width of the longest name in Latin letters; Chinese characters count twice."""
    widest = 0
    for name in names:
        width = len(name)
        for character in name:
            width += ord(character) > 0x2E80
        widest = max(widest, width)
    return widest
