"""The masks of both streams as a figure (PNG).

Shape letters: Q tokens, M remembered positions, K = M + Q keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus import permutation as permutations
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.plots import figure
from xlnet.plots.figure import NOTES
from xlnet.plots.inspection import positions_in_order, shown_piece
from xlnet.support.errors import wrong

_CONTENT, _QUERY = "#4c78a8", "#e0812b"  # colors of the streams
_MEMORY, _MASKED = "#9aa5ad", "#ececec"
_CONTEXT = "#8a8a8a"
_CELL = 0.32  # [inches]
_MARGIN = 2.0  # for names and titles [inches]
_CAPTION = 11  # readable at half of the size, too [points]
_TICKS = 10.5  # [points]
_CAPTION_TEXT = (
    "rows are queries, columns keys; numbers are positions in the factorization order "
    "(–: seen by all)\n"
    "black: predicted, by a query that must not see the token itself; "
    "grey: only context, without a query in the query stream"
)


class Excerpt(NamedTuple):
    """A few tokens whose masks are plotted."""

    title: str  # where they come from
    pieces: list[str]  # Q
    rank: np.ndarray  # int32 [Q]
    is_target: np.ndarray  # bool [Q]


def of_text(
    text: str,
    tokenizer: Tokenizer,
    permutation: permutations.Permutation,
    seed: int,
    most: int,
) -> Excerpt:
    """A text with targets and order sampled as for a part of a sequence.

    Args:
      text: the text.
      tokenizer: of the vocabulary.
      permutation: all tokens are predicted if its `num_predict` is large enough.
      seed: of the sampling.
      most: the largest number of pieces.

    Raises:
      UserError: it has no token or more than `most`.
    """
    ids = np.array(tokenizer.ids(text), np.int32)
    if not 1 <= len(ids) <= most:
        raise wrong("text", f"{len(ids)} pieces", f"1 to {most}", "--text")
    random = permutations.Random(seed, 0, [0], [0])
    is_special = np.zeros([1, len(ids)], bool)
    word_start = tokenizer.is_word_start[ids][None]
    budget = np.array([min(permutation.num_predict, len(ids))])
    is_target = permutations.sample_targets(
        random, is_special, word_start, budget, permutation
    )
    rank = permutations.ranks(random, is_target, permutation)
    pieces = [shown_piece(tokenizer, id) for id in ids]
    title = " ".join(text.split())
    return Excerpt(title, pieces, rank[0], is_target[0])


def visibility(
    rank: np.ndarray, is_target: np.ndarray, memory_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The masks of the content and of the query stream (paper, figure 4 and appendix A.7).

    Args:
      rank: int32 [Q], see `permutation.ranks`.
      is_target: bool [Q].
      memory_length: M.

    Returns:
      bool [Q,K] twice, True where row i sees column j. The query stream only has the rows of
      targets.
    """
    # The mask of the network. All of the memory is visible; the content stream sees what the query
    # stream sees, and the token itself.
    from xlnet.model import modeling

    seen = ~modeling.permutation_mask(rank[None], is_target[None]).dense().numpy()[0]
    seen = np.pad(seen, [[0, 0], [memory_length, 0]], constant_values=True)
    itself = np.eye(len(rank), seen.shape[1], memory_length, dtype=bool)
    return seen | itself, seen


def draw_masks(path: str, excerpt: Excerpt, memory_length: int) -> None:
    """Writes the masks of the content and of the query stream of an excerpt."""
    from matplotlib.figure import Figure

    count = len(excerpt.pieces)
    positions = positions_in_order(excerpt.rank, excerpt.is_target)
    labels = []
    for piece, position in zip(excerpt.pieces, positions):
        labels.append(f"{piece}  {position or '–'}")
    width = max((memory_length + count) * _CELL, 3) + _MARGIN
    height = count * _CELL + _MARGIN
    drawn: Any = Figure(
        figsize=(2 * width, 2 * height + 2.3), dpi=110, layout="constrained"
    )
    drawn.get_layout_engine().set(h_pad=0.12)
    drawn.suptitle(excerpt.title, fontsize=12, parse_math=False)
    # Two rows of panels, a column for each stream: rows see columns (paper, figure 4 and appendix
    # A.7). In factorization order they are the lower triangle with and without its diagonal.
    grid = drawn.add_gridspec(3, 2, height_ratios=(height, height, 0.8))
    content, query = visibility(excerpt.rank, excerpt.is_target, memory_length)
    streams = (
        ("Content", content, _CONTENT, np.ones(count, bool)),
        ("Query", query, _QUERY, excerpt.is_target),
    )
    orders = (
        ("as the model reads", np.arange(count)),
        ("in factorization order", np.argsort(positions, kind="stable")),
    )
    for row, (order_name, order) in enumerate(orders):
        for column, (stream, seen, color, has_query) in enumerate(streams):
            axes = drawn.add_subplot(grid[row, column])
            title = f"{stream} stream, {order_name}"
            axes.set_title(title, fontsize=11, weight="bold", pad=12)
            _panel(axes, seen[order], order, color, has_query[order])
            _label(axes, labels, order, excerpt.is_target, memory_length)
    _legend(drawn.add_subplot(grid[2, :]), memory_length)
    drawn.supxlabel(_CAPTION_TEXT, fontsize=_CAPTION, color=NOTES)
    figure.save(drawn, path)


def _panel(
    axes: Any, seen: np.ndarray, order: np.ndarray, color: str, has_query: np.ndarray
) -> None:
    """Plots a mask: a square for each row and column, coloured where the row sees the column.

    Args:
      axes: of matplotlib.
      seen: bool [Q,K], its rows in the order of the panel.
      order: int [Q], the tokens of the rows and columns.
      color: where a row sees a token.
      has_query: bool [Q], whether a row is plotted.
    """
    from matplotlib.colors import ListedColormap

    memory_length = seen.shape[1] - len(order)
    of_memory, of_tokens = seen[:, :memory_length], seen[:, memory_length:]
    values = np.concatenate([2 * of_memory, 1 * of_tokens[:, order]], axis=1)
    without_query = np.broadcast_to(~has_query[:, None], values.shape)
    axes.pcolormesh(
        np.ma.array(values, mask=without_query),
        cmap=ListedColormap((_MASKED, color, _MEMORY)),
        vmin=0,
        vmax=2,
        edgecolors="white",
        linewidth=1,
    )
    itself = np.flatnonzero(has_query) + 0.5
    outline: Any = dict(facecolors="none", edgecolors="black", linewidths=0.8)
    axes.scatter(memory_length + itself, itself, marker="s", s=160, **outline)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)


def _label(
    axes: Any,
    labels: list[str],
    order: np.ndarray,
    is_target: np.ndarray,
    memory_length: int,
) -> None:
    """Writes the pieces and their positions in the order above the columns and left of the rows;
    those that are only context are grey."""
    ticks = 0.5 + np.arange(len(labels))
    shown = [labels[i] for i in order]
    names: Any = dict(fontsize=_TICKS, parse_math=False)
    axes.set_yticks(ticks, shown, **names)
    axes.set_xticks(memory_length + ticks, shown, rotation=90, **names)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    of_columns, of_rows = axes.get_xticklabels(), axes.get_yticklabels()
    for i in np.flatnonzero(~is_target[order]):
        of_columns[i].set_color(_CONTEXT)
        of_rows[i].set_color(_CONTEXT)


def _legend(axes: Any, memory_length: int) -> None:
    from matplotlib.patches import Patch

    entries = [
        Patch(facecolor=_CONTENT, label="query sees key, content stream"),
        Patch(facecolor=_QUERY, label="query sees key, query stream"),
    ]
    if memory_length:
        entries.append(Patch(facecolor=_MEMORY, label="query sees the memory"))
    entries.append(Patch(facecolor=_MASKED, label="masked"))
    entries.append(
        Patch(facecolor="white", edgecolor="black", label="the token itself")
    )
    axes.legend(handles=entries, loc="center", ncol=3, frameon=False, fontsize=_CAPTION)
    axes.axis("off")
