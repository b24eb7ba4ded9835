"""Draws the badges of README.md from what the repository says of itself:
`python scripts/documents/badges.py`. Files of its own, as the site loads nothing from elsewhere.
"""

import re

from place import ROOT

from xlnet import __version__, files

_IMAGES = ROOT / "docs" / "images"
_LETTER = 6.6       # the width of a letter, 11 px high [px]
_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img">
<title>{name} {value}</title>
<rect width="{width}" height="20" rx="3" fill="#555"/>
<path fill="#37699b" d="M{left} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{rest}z"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{name_at}" y="14">{name}</text><text x="{value_at}" y="14">{value}</text></g>
</svg>
"""


def values():
    """What the badges say: {name: value}."""
    def found(pattern, path):
        return re.search(pattern, (ROOT / path).read_text(encoding="utf-8")).groups()
    low, high = found(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', "pyproject.toml")
    oldest, newest = found(r"tensorflow>=(\d+\.\d+)\.\d+,<2\.(\d+)", "requirements.txt")
    return {"version": __version__, "Python": "3.%s to 3.%d" % (low, int(high) - 1),
            "TensorFlow": "%s to 2.%d" % (oldest, int(newest) - 1),
            "licence": found(r'license = { text = "([^"]+)" }', "pyproject.toml")[0]}


def badges():
    """The pictures: {path: SVG}."""
    return {_IMAGES / ("badge_%s.svg" % name.lower()): badge(name, value)
            for name, value in values().items()}


def badge(name, value):
    left, right = (round(len(text) * _LETTER) + 12 for text in (name, value))
    return _BADGE.format(name=name, value=value, width=left + right, left=left, rest=right - 3,
                         name_at=left / 2, value_at=left + right / 2)


if __name__ == "__main__":
    for path, picture in badges().items():
        files.write_text(str(path), picture)
