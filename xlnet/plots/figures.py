"""Figures (PNG) of pretraining records: masks of both streams, histograms.

matplotlib is imported late, with a backend that needs no screen. Shape letters as in `inspection`.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlnet import files, fonts
from xlnet.plots.inspection import Excerpt, Histogram, places_in_order, visibility

_Stream = collections.namedtuple("_Stream", "name color")

CONTENT, QUERY = STREAMS = (_Stream("Content stream", "#4c78a8"),
                            _Stream("Query stream", "#e0812b"))
MEMORY, HIDDEN, LINES, ORDER = "#9aa5ad", "#f7f7f7", "#c9c9c9", "#a03000"
NOTES, CONTEXT, FADED = "#555555", "#8a8a8a", "#c4c4c4"
_CELL, _HEAD, _FOOT = 0.32, 0.8, 1.6    # inches
_DPI = 110
_CAPTION = 11       # readable at half of the size, too [points]

# Common to the panels of a figure of masks. places [Q]: as `places_in_order`.
_Tokens = collections.namedtuple("_Tokens", "excerpt names places families memory_length")


def draw_masks(path: str, excerpt: Excerpt, memory_length: int) -> set[tuple[int, str]]:
    """Writes the content-stream and query-stream masks of an `inspection.Excerpt`.

    Rows see columns (paper, figure 4 and appendix A.7). The upper panels have the tokens as the
    model reads them, the lower ones in factorization order, where the two streams are the lower
    triangle with and without its diagonal.

    Returns:
      Set of `(id, piece)` that no installed font can show; the figure has their ids.
    """
    from matplotlib.figure import Figure
    heading, families, names, unshown = _shown(excerpt)
    places = places_in_order(excerpt.rank, excerpt.is_target | excerpt.is_special)
    tokens = _Tokens(excerpt, names, places, families, memory_length)
    layout = _Layout(names, memory_length)
    figure = Figure(figsize=layout.size, dpi=_DPI)
    orders = (("as the model reads", np.arange(len(names))),
              ("in factorization order", np.argsort(places, kind="stable")))
    streams = zip(STREAMS, visibility(excerpt.rank, excerpt.is_target, memory_length))
    for column, (stream, seen) in enumerate(streams):
        for row, (name, order) in enumerate(orders):
            axes = figure.add_axes(layout.box(row, column))
            axes.set_title("%s, %s" % (stream.name, name), pad=layout.title_pad, fontsize=11,
                           weight="bold")
            _panel(axes, seen, order, stream, tokens)
    _heading(figure, heading, tokens)
    _masks_legend(figure, memory_length, unshown)
    save(figure, path)
    return unshown


class _Layout:
    """Positions of two rows of two matrices, with their names and titles [inches]."""

    def __init__(self, names, memory_length):
        self._names = 0.45 + 0.085 * max(map(fonts.drawn_length, names))    # left and above
        self._matrix = ((memory_length + len(names)) * _CELL, len(names) * _CELL)
        self._panel = (max(self._matrix[0] + self._names + 0.5, 4.6),
                       self._matrix[1] + self._names + 0.75)
        self.size = (2 * self._panel[0] + 0.3, 2 * self._panel[1] + _HEAD + _FOOT)
        self.title_pad = 72 * self._names + 6                          # points

    def box(self, row, column):
        """Left, bottom, width and height of a matrix, as fractions of the figure."""
        width, height = self.size
        spare = self._panel[0] - self._matrix[0] - self._names
        left = column * self._panel[0] + spare / 2 + self._names + 0.15
        bottom = _FOOT + (1 - row) * self._panel[1] + 0.35
        return left / width, bottom / height, self._matrix[0] / width, self._matrix[1] / height


def _panel(axes, seen, order, stream, tokens):
    """Plots a mask: a square for each row and column, coloured where the row sees the column."""
    memory = tokens.memory_length
    columns = np.concatenate([np.arange(memory), memory + order])
    for y, i in enumerate(order):
        if stream is QUERY and not tokens.excerpt.is_target[i]:
            _square(axes, 0, y, "white", width=len(columns), edgecolor="#eeeeee")
            continue
        for x, j in enumerate(columns):
            color = MEMORY if j < memory else stream.color
            _square(axes, x, y, color if seen[i, j] else HIDDEN)
            if j == memory + i:                        # the token itself
                _square(axes, x, y, "none", inset=0.13, edgecolor="black")
    axes.set(xlim=(0, len(columns)), ylim=(len(order), 0), xticks=[], yticks=[])
    axes.set_xlabel("keys: what is seen", fontsize=_CAPTION, color=NOTES)
    axes.spines[:].set_visible(False)
    _labels(axes, order, stream, tokens)


def _square(axes, x, y, color, inset=0., width=1, edgecolor=LINES):
    from matplotlib.patches import Rectangle
    axes.add_patch(Rectangle((x + inset, y + inset), width - 2 * inset, 1 - 2 * inset,
                             facecolor=color, edgecolor=edgecolor, linewidth=0.8))


def _labels(axes, order, stream, tokens):
    """Writes the pieces and their positions in the order above the columns and left of the rows."""
    memory, is_target = tokens.memory_length, tokens.excerpt.is_target
    names = dict(fontsize=8.5, family=tokens.families, parse_math=False)
    for at, i in enumerate(order):
        place = str(tokens.places[i] or "–")
        color = "black" if is_target[i] else CONTEXT
        row_color = FADED if stream is QUERY and not is_target[i] else color
        x, y = memory + at + 0.5, at + 0.5
        axes.text(x, -0.25, place, ha="center", va="bottom", fontsize=8, color=ORDER)
        axes.text(x, -1.1, tokens.names[i], ha="center", va="bottom", rotation=90, color=color,
                  **names)
        axes.text(-0.25, y, place, ha="right", va="center", fontsize=8, color=ORDER)
        axes.text(-1.1, y, tokens.names[i], ha="right", va="center", color=row_color, **names)
    if memory:
        axes.text(memory / 2, -0.25, "memory", ha="center", va="bottom", fontsize=8.5,
                  color=NOTES, rotation=90 if memory < 3 else 0)


def _heading(figure, title, tokens):
    """Writes the title and, if it is short enough to read, the factorization order in words."""
    width, height = figure.get_size_inches()
    figure.text(0.5, 1 - 0.12 / height, title, ha="center", va="top", fontsize=13,
                family=tokens.families, parse_math=False)
    ordered = [tokens.names[i] for i in np.argsort(tokens.places, kind="stable")
               if tokens.places[i]]
    text = "factorization order:  " + "  →  ".join(ordered)
    if fonts.drawn_length(text) * 0.085 > width:
        text = "factorization order: the numbers next to the pieces"
    if not ordered:
        text = "none of these tokens is predicted"
    figure.text(0.5, 1 - 0.45 / height, text, ha="center", va="top", fontsize=10, color=ORDER,
                family=tokens.families, parse_math=False)


def _masks_legend(figure, memory_length, unshown):
    from matplotlib.patches import Patch
    entries = [Patch(facecolor=stream.color, label="query sees key, %s" % stream.name.lower())
               for stream in STREAMS]
    if memory_length:
        entries.append(Patch(facecolor=MEMORY, label="query sees the memory"))
    entries += [Patch(facecolor=HIDDEN, edgecolor=LINES, label="masked"),
                Patch(facecolor="white", edgecolor="black", label="the token itself")]
    height = figure.get_figheight()
    figure.legend(handles=entries, loc="lower center", ncol=3, frameon=False, fontsize=_CAPTION,
                  bbox_to_anchor=(0.5, (0.9 if unshown else 0.7) / height))
    notes = ["rows are queries; numbers are positions in the factorization order, – is seen by all",
             "black: predicted, by a query that must not see the token itself",
             "grey: only context, without a query"]
    if unshown:
        notes.append("#N: piece N, for whose characters no font is installed here")
    figure.text(0.5, 0.08 / height, "\n".join(notes), ha="center", va="bottom", fontsize=_CAPTION,
                color=NOTES)


def save(figure: Any, path: str) -> None:
    """Writes a figure as a PNG, complete or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    with files.replacing(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary, metadata={"Software": None})


def _shown(excerpt):
    """(title, font families, names of the tokens, `(id, piece)` that no font can show)."""
    families, shown = fonts.choose(excerpt.title + "".join(excerpt.pieces))
    names, unshown = [], set()
    for piece, id in zip(excerpt.pieces, excerpt.ids):
        if set(piece) <= shown:
            names.append(piece)
        else:
            names.append("#%d" % id)
            unshown.add((int(id), piece))
    title = excerpt.title if set(excerpt.title) <= shown else "A text of %d pieces" % len(names)
    return title, families, names, unshown


# ---- histograms ----

def draw_histograms(path: str, title: str, lines: Sequence[str],
                    histograms: Sequence[Histogram]) -> None:
    """Writes a panel for each of five histograms, and lines of text in the sixth one."""
    from matplotlib.figure import Figure
    figure = Figure(figsize=(13, 7.4), dpi=_DPI, layout="constrained")
    figure.suptitle(title, weight="bold", fontsize=13, parse_math=False)
    panels = figure.subplots(2, 3).ravel()
    for axes, histogram in zip(panels, histograms):
        _bars(axes, histogram)
    panels[-1].axis("off")
    panels[-1].text(0, 0.95, "\n".join(lines), va="top", fontsize=10, linespacing=2.,
                    transform=panels[-1].transAxes).set_in_layout(False)
    save(figure, path)


def _bars(axes, histogram):
    x, count = np.arange(len(histogram.labels)), len(histogram.series)
    width = 0.8 / count
    for index, (name, values) in enumerate(histogram.series.items()):
        bars = axes.bar(x + (index - (count - 1) / 2) * width, values, width, label=name,
                        color=STREAMS[index].color)
        if len(x) * count <= 10:
            axes.bar_label(bars, fmt="%.1f", fontsize=7, padding=1)
    for name, values in histogram.levels.items():
        axes.step(x, values, where="mid", color="black", linewidth=1.2, label=name)
    crowded = len(x) > 4 and max(map(len, histogram.labels)) > 3
    axes.set_xticks(x, histogram.labels, rotation=60 if crowded else 0, fontsize=8)
    axes.set_title(histogram.title, fontsize=11)
    axes.set_xlabel(histogram.unit)
    axes.set_ylabel("% " + histogram.measure)
    axes.margins(y=0.2)
    axes.grid(axis="y", color="#e5e5e5")
    axes.set_axisbelow(True)
    if count > 1:
        axes.legend(frameon=False, fontsize=8.5, ncol=3, loc="upper right")
