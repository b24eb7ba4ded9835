"""Attention of both streams as a plot (PNG)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlnet.plots import figure

if TYPE_CHECKING:
    from xlnet.inference.factorization import Attention

_CELL = 0.14  # size of a token in a panel [inches]; smaller where there are more than:
_MOST_NAMES = 40  # next to a panel; of more tokens each second, third, ... one is named
_TITLE = 0.42  # height of a panel's title, with the space above it [inches]
_LINES = "#c9c9c9"
_COLORS = {"content": "Blues", "query": "Oranges"}


def draw_attention(path: str, attention: Attention) -> None:
    """Writes a PNG with a row of panels for each stream and layer, a panel for each head."""
    from matplotlib.figure import Figure

    names = list(attention.pieces)
    if attention.places is not None:
        for number, place in enumerate(attention.places):
            names[number] += f" {place}"
    heads = next(iter(attention.streams.values())).shape[1]
    rows = len(attention.streams) * len(attention.layers)
    margin = 0.35 + 0.05 * figure.longest(names)
    panel = max(_CELL * min(len(names), _MOST_NAMES), 1.1)
    width = margin + heads * (panel + 0.12) + 0.5
    height = 0.6 + rows * (panel + _TITLE) + margin
    drawn = Figure(figsize=(width, height), dpi=130)
    centered: Any = dict(ha="center", va="top")
    small: Any = dict(fontsize=6, color=figure.NOTES)
    top = 1 - 0.12 / height
    drawn.text(0.5, top, "Attention weights", fontsize=10, weight="bold", **centered)
    if attention.places is not None:
        note = "numbers: positions in the factorization order"
        drawn.text(0.5, 1 - 0.32 / height, note, **centered, **small)

    named = range(0, len(names), -(-len(names) // _MOST_NAMES))
    shown = names[:: named.step]
    ticks: Any = dict(fontsize=6, parse_math=False)
    lefts = (margin + np.arange(heads + 1) * (panel + 0.12)) / width
    row = 0
    for stream, weights in attention.streams.items():
        for layer, values in zip(attention.layers, weights):
            bottom = 1 - (0.84 + row * (panel + _TITLE) + panel) / height
            row += 1
            is_last = row == rows
            for head in range(heads):
                axes = drawn.add_axes(
                    (lefts[head], bottom, panel / width, panel / height)
                )
                image = axes.imshow(
                    values[head],
                    cmap=_COLORS[stream],
                    vmin=0,
                    aspect="auto",
                    vmax=max(values.max(), 1e-9),
                    interpolation="nearest",
                )
                title = f"{stream} stream\nlayer {layer}, head {head + 1}"
                axes.set_title(title, fontsize=7, pad=3)
                axes.set_yticks(named, [] if head else shown, **ticks)
                axes.set_xticks(named, shown if is_last else [], rotation=90, **ticks)
                axes.set_ylabel("" if head else "query", **small)
                axes.set_xlabel("key" if is_last else "", **small)
                axes.tick_params(length=0, pad=1)
                axes.spines[:].set_color(_LINES)
            place = drawn.add_axes((lefts[-1], bottom, 0.08 / width, panel / height))
            scale = drawn.colorbar(image, cax=place)
            scale.ax.tick_params(labelsize=5.5, length=2, pad=1)
            scale.outline.set_visible(False)
    figure.save(drawn, path)
