"""Fonts for figures: those that have the characters of a text, in any script."""

from __future__ import annotations

import functools

FONT = "DejaVu Sans"                    # comes with matplotlib


def choose(text: str) -> tuple[list[str], set[str]]:
    """Returns font families for a text, and the set of its characters that they have.

    The first one is matplotlib's own; each other one has characters that those before it lack.
    """
    from matplotlib import font_manager
    families, wanted = [FONT], set(text)
    covered = wanted & _characters(font_manager.findfont(FONT))
    for font in _installed():
        if covered == wanted:
            break
        more = (wanted - covered) & _characters(font.fname)
        if more:
            families.append(font.name)
            covered |= more
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
