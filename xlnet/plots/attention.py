"""Attention of both streams as a plot (PNG)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlnet.support import figure

if TYPE_CHECKING:
    from xlnet.inference.attention import Attention

_CELL = 0.14  # size of a token in a panel [inches]; smaller where there are more than:
_MOST_NAMES = 40  # next to a panel; of more tokens each second, third, ... one is named
_TITLE = 0.42  # height of a panel's title, with the space above it [inches]
_LINES = "#c9c9c9"
_COLORS = {"content": "Blues", "query": "Oranges"}


def draw_attention(path: str, attention: Attention) -> None:
    """Writes a PNG with a row of panels for each stream and layer, a panel for each head."""
    heads = next(iter(attention.streams.values())).shape[1]
    rows = [
        (stream, index)
        for stream in attention.streams
        for index in range(len(attention.layers))
    ]
    names, families = attention.pieces, figure.families()
    if attention.places is not None:
        names = ["{} {}".format(*each) for each in zip(names, attention.places)]
    margin = 0.35 + 0.05 * max(map(figure.drawn_length, names))
    panel = max(_CELL * min(len(names), _MOST_NAMES), 1.1)
    named = range(0, len(names), -(-len(names) // _MOST_NAMES))
    width = margin + heads * (panel + 0.12) + 0.5
    height = 0.6 + len(rows) * (panel + _TITLE) + margin
    drawn = figure.new(width, height, dpi=130)
    drawn.text(
        0.5,
        1 - 0.12 / height,
        "Attention weights",
        ha="center",
        va="top",
        fontsize=10,
        weight="bold",
    )
    small: Any = dict(fontsize=6, color=figure.NOTES)
    if attention.places is not None:
        drawn.text(
            0.5,
            1 - 0.32 / height,
            "numbers: positions in the factorization order",
            ha="center",
            va="top",
            **small,
        )
    for y, (stream, index) in enumerate(rows):
        values = attention.streams[stream][index]
        bottom = 1 - (0.84 + y * (panel + _TITLE) + panel) / height
        lefts = (margin + np.arange(heads + 1) * (panel + 0.12)) / width
        for x in range(heads):
            axes = drawn.add_axes((lefts[x], bottom, panel / width, panel / height))
            image = axes.imshow(
                values[x],
                cmap=_COLORS[stream],
                vmin=0,
                aspect="auto",
                vmax=max(values.max(), 1e-9),
                interpolation="nearest",
            )
            axes.set_title(
                f"{stream} stream\nlayer {attention.layers[index]}, head {x + 1}",
                fontsize=7,
                pad=3,
            )
            ticks: Any = dict(fontsize=6, family=families, parse_math=False)
            shown = [names[place] for place in named]
            axes.set_yticks(named, shown if not x else [], **ticks)
            axes.set_xticks(
                named, shown if y == len(rows) - 1 else [], rotation=90, **ticks
            )
            axes.set_ylabel("" if x else "query", **small)
            axes.set_xlabel("key" if y == len(rows) - 1 else "", **small)
            axes.tick_params(length=0, pad=1)
            axes.spines[:].set_color(_LINES)
        scale = drawn.colorbar(
            image, cax=drawn.add_axes((lefts[-1], bottom, 0.08 / width, panel / height))
        )
        scale.ax.tick_params(labelsize=5.5, length=2, pad=1)
        scale.outline.set_visible(False)
    figure.save(drawn, path)
