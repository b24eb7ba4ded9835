"""Attention of both streams as a plot (PNG)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlnet.plots import masks

if TYPE_CHECKING:
    from xlnet.inference.factorization import Attention

_CELL = 0.14  # size of a token in a panel [inches]; smaller where there are more than:
_MOST_NAMES = 40  # next to a panel; of more tokens each second, third, ... one is named
_TITLE = 0.42  # height of a panel's title, with the space above it [inches]
_COLORS = {"content": "Blues", "query": "Oranges"}


def draw_attention(path: str, attention: Attention) -> None:
    """Writes a PNG with a row of panels for each stream and layer, a panel for each head."""
    from matplotlib.figure import Figure

    names = list(attention.pieces)
    title = "Attention weights"
    if attention.places is not None:
        title += "\nnumbers: positions in the factorization order"
        for number, place in enumerate(attention.places):
            names[number] += f" {place}"
    step = -(-len(names) // _MOST_NAMES)
    named, shown = range(0, len(names), step), names[::step]
    panel = max(_CELL * min(len(names), _MOST_NAMES), 1.1)
    heads = next(iter(attention.streams.values())).shape[1]
    rows = len(attention.streams) * len(attention.layers)
    size = (heads * (panel + 0.12), rows * (panel + _TITLE))
    drawn = Figure(figsize=size, dpi=130)
    space = {"wspace": 0.12 / panel, "hspace": _TITLE / panel}
    drawn.subplots_adjust(left=0, right=1, bottom=0, top=1, **space)
    panels = drawn.subplots(rows, heads, squeeze=False)
    ticks: Any = dict(fontsize=6, parse_math=False)
    row = 0
    for stream, weights in attention.streams.items():
        for layer, values in zip(attention.layers, weights):
            for head, axes in enumerate(panels[row]):
                image = axes.imshow(
                    values[head],
                    cmap=_COLORS[stream],
                    vmin=0,
                    vmax=max(values.max(), 1e-9),
                    interpolation="nearest",
                )
                name = f"{stream} stream\nlayer {layer}, head {head + 1}"
                axes.set_title(name, fontsize=7, pad=3)
                axes.set_xticks([])
                axes.set_yticks([])
            panels[row, 0].set_yticks(named, shown, **ticks)
            panels[row, 0].set_ylabel("query", fontsize=6)
            place = axes.inset_axes((1.05, 0, 0.08, 1))
            scale = drawn.colorbar(image, cax=place)
            scale.ax.tick_params(labelsize=5.5)
            row += 1
    for axes in panels[-1]:
        axes.set_xticks(named, shown, rotation=90, **ticks)
        axes.set_xlabel("key", fontsize=6)
    top = 1 + _TITLE / size[1]
    drawn.text(0.5, top, title, fontsize=9, ha="center", va="bottom")
    masks.save(drawn, path)
