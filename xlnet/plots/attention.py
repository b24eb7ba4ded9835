"""Attention of both streams as a plot (PNG), and as an HTML page that works offline."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlnet import files, fonts
from xlnet.plots import figures

if TYPE_CHECKING:
    from xlnet.serving.attention import Attention

_PAGE = pathlib.Path(__file__).with_name("attention.html")
_CELL = 0.14        # size of a token in a panel [inches]
_COLORS = {"content": "Blues", "query": "Oranges"}


def draw_attention(path: str, attention: Attention, heads: Sequence[int]) -> None:
    """Writes a PNG with a row of panels for each stream and layer, a panel for each head.

    Args:
      heads: numbers of the heads, from 1 on.
    """
    from matplotlib.figure import Figure
    rows = [(stream, index) for stream in attention.streams
            for index in range(len(attention.layers))]
    names = _names(attention)
    families, _ = fonts.choose("".join(names))
    margin = 0.35 + 0.05 * max(map(fonts.drawn_length, names))
    panel = max(_CELL * len(names), 1.1)
    width = margin + len(heads) * (panel + 0.12) + 0.5
    height = 0.6 + len(rows) * (panel + 0.3) + margin
    figure = Figure(figsize=(width, height), dpi=130)
    figure.text(0.5, 1 - 0.12 / height, "Attention weights", ha="center", va="top",
                fontsize=10, weight="bold")
    if attention.places is not None:
        figure.text(0.5, 1 - 0.32 / height, "numbers: positions in the factorization order",
                    ha="center", va="top", fontsize=6, color=figures.NOTES)
    small: Any = dict(fontsize=6, color=figures.NOTES)
    for y, (stream, index) in enumerate(rows):
        values = attention.streams[stream][index, np.array(heads) - 1]
        bottom = 1 - (0.72 + y * (panel + 0.3) + panel) / height
        lefts = (margin + np.arange(len(heads) + 1) * (panel + 0.12)) / width
        for x, head in enumerate(heads):
            axes = figure.add_axes((lefts[x], bottom, panel / width, panel / height))
            image = axes.imshow(values[x], cmap=_COLORS[stream], vmin=0, aspect="auto",
                                vmax=max(values.max(), 1e-9), interpolation="nearest")
            axes.set_title("%s, layer %d, head %d" % (stream, attention.layers[index], head)
                           if not x else "head %d" % head, fontsize=7, pad=3,
                           loc="left" if not x else "center")
            ticks: Any = dict(fontsize=5.5, family=families, parse_math=False)
            axes.set_yticks(range(len(names)), names if not x else [], **ticks)
            axes.set_xticks(range(len(names)), names if y == len(rows) - 1 else [], rotation=90,
                            **ticks)
            axes.set_ylabel("" if x else "query", **small)
            axes.set_xlabel("key" if y == len(rows) - 1 else "", **small)
            axes.tick_params(length=0, pad=1)
            axes.spines[:].set_color(figures.LINES)
        scale = figure.colorbar(image, cax=figure.add_axes(
            (lefts[-1], bottom, 0.08 / width, panel / height)))
        scale.ax.tick_params(labelsize=5.5, length=2, pad=1)
        scale.outline.set_visible(False)
    figures.save(figure, path)


def _names(attention):
    if attention.places is None:
        return list(attention.pieces)
    return ["%s %d" % named for named in zip(attention.pieces, attention.places)]


def write_page(path: str, attention: Attention, title: str) -> None:
    """Writes an HTML page with all heads of the layers, without other files."""
    data = json.dumps({
        "title": title, "pieces": list(attention.pieces), "layers": list(attention.layers),
        "places": None if attention.places is None else attention.places.tolist(),
        "streams": {name: np.round(values.astype(float), 3).tolist()
                    for name, values in attention.streams.items()}}, ensure_ascii=False)
    # Without "<" the text cannot end the script element.
    page = _PAGE.read_text("utf-8")
    files.write_text(path, page.replace("DATA", data.replace("<", "\\u003c"), 1))
