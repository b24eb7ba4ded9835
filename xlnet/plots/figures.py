"""Figures (PNG): the masks of both streams.

Shape letters as in `inspection`.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlnet.plots.inspection import Excerpt, places_in_order, visibility
from xlnet.support import figure
from xlnet.support.figure import NOTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Stream = collections.namedtuple("_Stream", "name color")

QUERY = _Stream("Query stream", "#e0812b")
STREAMS = (_Stream("Content stream", "#4c78a8"), QUERY)
MEMORY, HIDDEN = "#9aa5ad", "#ececec"
CONTEXT, FADED = "#8a8a8a", "#c4c4c4"
_CELL = 0.32  # [inches]
_CAPTION = 11  # readable at half of the size, too [points]
_TICKS = 10.5  # [points]
_CAPTION_TEXT = (
    "rows are queries, columns keys; numbers are positions in the factorization order "
    "(–: seen by all)\n"
    "black: predicted, by a query that must not see the token itself; "
    "grey: only context, without a query in the query stream"
)


def draw_masks(path: str, excerpt: Excerpt, memory_length: int) -> None:
    """Writes the content-stream and query-stream masks of an `inspection.Excerpt`."""
    families, names = figure.families(), excerpt.pieces
    places = places_in_order(excerpt.rank, excerpt.is_target | excerpt.is_special)
    labels = ["{}  {}".format(name, place or "–") for name, place in zip(names, places)]
    margin = 1.1 + 0.1 * max(
        map(figure.drawn_length, names)
    )  # for names and titles [inches]
    width = max((memory_length + len(names)) * _CELL + margin, 4.6)
    height = len(names) * _CELL + margin
    drawn = figure.new(2 * width, 2 * height + 2.3, dpi=110, layout="constrained")
    drawn.get_layout_engine().set(h_pad=0.12)
    drawn.suptitle(excerpt.title, fontsize=12, family=families, parse_math=False)
    # Two rows of panels, a column for each stream: rows see columns (paper, figure 4 and appendix
    # A.7). In factorization order they are the lower triangle with and without its diagonal.
    grid = drawn.add_gridspec(3, 2, height_ratios=(height, height, 0.8))
    orders = (
        ("as the model reads", np.arange(len(names))),
        ("in factorization order", np.argsort(places, kind="stable")),
    )
    streams = zip(STREAMS, visibility(excerpt.rank, excerpt.is_target, memory_length))
    for column, (stream, seen) in enumerate(streams):
        for row, (name, order) in enumerate(orders):
            axes = drawn.add_subplot(grid[row, column])
            axes.set_title(f"{stream.name}, {name}", fontsize=11, weight="bold", pad=12)
            _panel(axes, seen, order, stream, excerpt.is_target, memory_length)
            _label(axes, [labels[i] for i in order], memory_length, families)
            for i, x, y in zip(order, axes.get_xticklabels(), axes.get_yticklabels()):
                color = "black" if excerpt.is_target[i] else CONTEXT
                x.set_color(color)
                y.set_color(
                    FADED if stream is QUERY and not excerpt.is_target[i] else color
                )
    _masks_legend(drawn.add_subplot(grid[2, :]), memory_length)
    drawn.supxlabel(_CAPTION_TEXT, fontsize=_CAPTION, color=NOTES)
    figure.save(drawn, path)


def _panel(
    axes: Axes,
    seen: np.ndarray,
    order: np.ndarray,
    stream: _Stream,
    is_target: np.ndarray,
    memory_length: int,
) -> None:
    """Plots a mask: a square for each row and column, coloured where the row sees the column."""
    from matplotlib.colors import ListedColormap

    columns = np.concatenate([np.arange(memory_length), memory_length + order])
    values = seen[order][:, columns] * np.where(columns < memory_length, 2, 1)
    has_query = is_target[order] | (stream is not QUERY)
    values = np.ma.array(
        values, mask=np.broadcast_to(~has_query[:, None], values.shape)
    )
    axes.pcolormesh(
        values,
        cmap=ListedColormap((HIDDEN, stream.color, MEMORY)),
        vmin=0,
        vmax=2,
        edgecolors="white",
        linewidth=1,
    )
    itself = np.flatnonzero(has_query) + 0.5
    axes.scatter(
        memory_length + itself,
        itself,
        marker="s",
        s=160,
        facecolors="none",
        edgecolors="black",
        linewidths=0.8,
    )
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)


def _label(
    axes: Axes, labels: Sequence[str], memory_length: int, families: Sequence[str]
) -> None:
    """Writes the pieces and their positions in the order above the columns and left of the rows."""
    names: Any = dict(fontsize=_TICKS, family=families, parse_math=False)
    ticks = 0.5 + np.arange(len(labels))
    axes.set_yticks(ticks, labels, **names)
    axes.set_xticks(memory_length + ticks, labels, rotation=90, **names)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    if memory_length:
        axes.text(
            memory_length / 2,
            -0.3,
            "memory",
            ha="center",
            va="bottom",
            fontsize=_TICKS,
            color=NOTES,
            rotation=90 if memory_length < 3 else 0,
        )


def _masks_legend(axes: Axes, memory_length: int) -> None:
    from matplotlib.patches import Patch

    entries = [
        Patch(facecolor=stream.color, label=f"query sees key, {stream.name.lower()}")
        for stream in STREAMS
    ]
    if memory_length:
        entries.append(Patch(facecolor=MEMORY, label="query sees the memory"))
    entries += [
        Patch(facecolor=HIDDEN, label="masked"),
        Patch(facecolor="white", edgecolor="black", label="the token itself"),
    ]
    axes.legend(handles=entries, loc="center", ncol=3, frameon=False, fontsize=_CAPTION)
    axes.axis("off")
