"""What all figures share: a file that is complete or absent, and a color.

Figures are made without pyplot, which needs a screen or a backend of its own. Texts have the fonts
of matplotlib's `font.family`.
"""

from __future__ import annotations

from typing import Any

from xlnet.support import files

NOTES = "#555555"  # color of notes


def save(figure: Any, path: str) -> None:
    """Writes a figure as a PNG, complete or not at all; texts outside of its size are in it."""
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format="png", bbox_inches="tight")
