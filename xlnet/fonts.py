"""Fonts for figures: those that have the characters of a text, in any script."""

from __future__ import annotations

import functools
from typing import Any

FONT = "DejaVu Sans"                    # comes with matplotlib


def choose(text: str) -> tuple[list[str], set[str]]:
    """Returns font families for a text, and the set of its characters that they have.

    The first one is matplotlib's own; the others are sorted by how many characters they add.
    """
    from matplotlib import font_manager
    families, wanted = [FONT], set(text)
    covered = wanted & _characters(font_manager.findfont(FONT))
    while wanted - covered:
        best: Any = None
        added: set[str] = set()
        for font in _installed():
            more = (wanted - covered) & _characters(font.fname)
            if len(more) > len(added):
                best, added = font, more
        if not best:
            break
        families.append(best.name)
        covered |= added
    return families, covered


def _installed():
    """Upright fonts of normal weight, without Last Resort, which has a box for every character."""
    from matplotlib import font_manager
    return sorted((font for font in font_manager.fontManager.ttflist
                   if font.style == "normal" and font.weight in (400, "normal", "regular")
                   and not font.name.startswith("Last Resort")), key=lambda f: (f.name, f.fname))


@functools.cache
def _characters(path):
    from matplotlib import ft2font
    return frozenset(chr(code) for code in ft2font.FT2Font(path).get_charmap())


def drawn_length(text: str) -> int:
    """Width of a text in Latin letters; Chinese characters count twice."""
    return sum(2 if ord(c) > 0x2e80 else 1 for c in text)
