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
    margin = 0.9 + 0.05 * max(map(fonts.drawn_length, names))       # for names and titles [inches]
    panel = max(_CELL * len(names), 1.1) + 0.25
    figure = Figure(figsize=(margin + len(heads) * panel, margin + len(rows) * panel), dpi=130,
                    layout="constrained")
    figure.suptitle("Attention weights" + "\nnumbers: positions in the factorization order" * (
        attention.places is not None), fontsize=8)
    small: Any = dict(fontsize=6, color=figures.NOTES)
    ticks: Any = dict(fontsize=5.5, family=families, parse_math=False)
    grid = figure.subplots(len(rows), len(heads), squeeze=False, sharex=True, sharey=True)
    for panels, (stream, index) in zip(grid, rows):
        values = attention.streams[stream][index, np.array(heads) - 1]
        for axes, head, weights in zip(panels, heads, values):
            image = axes.imshow(weights, cmap=_COLORS[stream], vmin=0, vmax=max(values.max(), 1e-9),
                                aspect="auto", interpolation="nearest")
            axes.set_title("head %d" % head, fontsize=7, pad=3)
            axes.set_yticks(range(len(names)), names, **ticks)
            axes.set_xticks(range(len(names)), names, rotation=90, **ticks)
            axes.tick_params(length=0, pad=1)
            axes.spines[:].set_color(figures.LINES)
        panels[0].set_ylabel("%s, layer %d\nquery" % (stream, attention.layers[index]), **small)
        scale = figure.colorbar(image, ax=list(panels), pad=0.01)
        scale.ax.tick_params(labelsize=5.5, length=2, pad=1)
        scale.outline.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("key", **small)
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
