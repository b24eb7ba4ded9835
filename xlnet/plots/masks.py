"""The masks and the attention of both streams as figures (PNG).

Shape letters: Q tokens, M remembered positions, K = M + Q keys.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlnet.corpus import permutation
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.pretraining import SamplingSettings
from xlnet.support import files
from xlnet.support.errors import escape_control_characters, wrong

if TYPE_CHECKING:
    from xlnet.inference.factorization import Attention

_log = logging.getLogger(__name__)

# Colors of squares: in each stream of a token that is seen; of a remembered key, and a masked one.
_CONTENT, _QUERY = "#4c78a8", "#e0812b"
_MEMORY, _MASKED = "#9aa5ad", "#ececec"
_MEMORY_LENGTH = 4  # remembered positions that are plotted: M
_CELL = 0.32  # size of a square [inches]
_MARGIN = 2.0  # of a panel, for names and titles [inches]
_CAPTION = (
    "rows are queries, columns keys; numbers are positions in the factorization order\n"
    "blue, orange, dark gray (memory): the query sees the key; light gray: masked; black square: "
    "the token itself\n"
    "–: only context, seen by all, without a query in the query stream"
)


class Excerpt(NamedTuple):
    """A few tokens whose masks are plotted."""

    title: str  # the text that they are of
    pieces: list[str]  # Q
    rank: np.ndarray  # int32 [Q]: targets of lower rank come first; -1: context
    is_target: np.ndarray  # bool [Q], whether a token is predicted


def sample_excerpt(
    text: str,
    tokenizer: Tokenizer,
    sampling: SamplingSettings,
    seed: int,
    most: int,
) -> Excerpt:
    """All pieces of a text as an `Excerpt`. Targets and their order are sampled as for a part of a
    sequence of pretraining.

    Args:
      text: the text.
      tokenizer: of the vocabulary.
      sampling: how targets are sampled; all tokens are if its `num_predict` is large enough.
      seed: of the sampling.
      most: the largest number of pieces.

    Raises:
      UserError: the text has no piece, or more than `most`.
    """
    ids = np.array(tokenizer.ids(text), np.int32)  # [Q]
    if not 1 <= len(ids) <= most:
        raise wrong("text", f"{len(ids)} pieces", f"1 to {most}", "--text")
    # The functions of `permutation` take a batch, here of one sequence: epoch, stream and sequence
    # are 0.
    random = permutation.Random(seed, 0, [0], [0])
    is_special = np.zeros([1, len(ids)], bool)  # a text has no <sep> and <cls>
    word_start = tokenizer.is_word_start[ids][None]  # bool [1,Q]
    budget = np.array([min(sampling.num_predict, len(ids))])  # of targets, [1]
    is_target = permutation.sample_targets(
        random, is_special, word_start, budget, sampling
    )
    rank = permutation.ranks(random, is_target, sampling)
    pieces = []
    for id in ids.tolist():
        pieces.append(escape_control_characters(tokenizer.id_to_piece(id)))
    title = " ".join(text.split())  # in one line
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
      (content, query), bool [Q,K] each: True where the query, row i, sees the key, column j. In the
      query stream only the rows of targets are used.
    """
    from xlnet.model import modeling

    # The network's own mask of a batch of one sequence, True where a key is not seen: [1,Q,Q].
    masked = modeling.permutation_mask(rank[None], is_target[None]).dense().numpy()
    # Keys of the memory come first, and all are seen.
    seen = np.pad(~masked[0], [[0, 0], [memory_length, 0]], constant_values=True)
    # The content stream sees what the query stream sees, and the token itself.
    itself = np.eye(len(rank), seen.shape[1], memory_length, dtype=bool)
    return seen | itself, seen


def draw_masks(path: str, excerpt: Excerpt) -> None:
    """Writes a PNG with the masks of the content and of the query stream of an excerpt, its tokens
    as the model reads them and in factorization order."""
    from matplotlib.figure import Figure

    # Names of the tokens: the piece, and the number of a target in the order or "–".
    count = len(excerpt.pieces)
    context = np.flatnonzero(~excerpt.is_target)
    targets = np.flatnonzero(excerpt.is_target)
    in_order = targets[np.argsort(excerpt.rank[targets], kind="stable")]
    names = [piece + "  –" for piece in excerpt.pieces]
    for number, target in enumerate(in_order.tolist(), 1):
        names[target] = f"{excerpt.pieces[target]}  {number}"
    # A panel is as large as its squares and margin; a row of squares is at least 3 inches wide, for
    # the title. The figure has two by two panels, and 2.3 inches for its title and caption.
    width = max((_MEMORY_LENGTH + count) * _CELL, 3) + _MARGIN
    height = count * _CELL + _MARGIN
    size = (2 * width, 2 * height + 2.3)
    figure: Any = Figure(figsize=size, dpi=110, layout="constrained")
    figure.suptitle(excerpt.title, fontsize=12, parse_math=False)
    content, query = visibility(excerpt.rank, excerpt.is_target, _MEMORY_LENGTH)
    # Only targets have a query in the query stream. NumPy's mask leaves the other rows out.
    query = np.ma.array(query)
    query[~excerpt.is_target] = np.ma.masked
    # A column of panels for each stream, a row for each order of the tokens. In factorization order
    # the content stream sees the lower triangle, and the query stream sees it without the diagonal.
    streams = (("Content", content, _CONTENT), ("Query", query, _QUERY))
    orders = (
        ("as the model reads", np.arange(count)),
        ("in factorization order", np.append(context, in_order)),
    )
    for row, (order_name, order) in zip(figure.subplots(2, 2), orders):
        names_in_order = [names[token] for token in order]
        for axes, (stream, seen, color) in zip(row, streams):
            title = f"{stream} stream, {order_name}"
            axes.set_title(title, fontsize=11, weight="bold", pad=12)
            _draw_mask(axes, seen[order], order, color, names_in_order)
    figure.supxlabel(_CAPTION, fontsize=11)
    save(figure, path)


def _draw_mask(
    axes: Any, seen: np.ndarray, order: np.ndarray, color: str, names: list[str]
) -> None:
    """Plots a mask in a panel: a square for each row and column, colored where the row sees the
    column.

    Args:
      axes: the panel, of matplotlib.
      seen: bool [Q,K], rows in the order of the panel, columns as the model reads them. Rows that
        are masked in a masked array are left out.
      order: int [Q], the indices of the tokens in the order of the panel.
      color: where a row sees a token.
      names: of the tokens, in the order of the panel.
    """
    from matplotlib.colors import ListedColormap

    memory_length = seen.shape[1] - len(order)
    of_memory, of_tokens = seen[:, :memory_length], seen[:, memory_length:]
    # A number is the index of its color: 0 masked, 1 a token that is seen, 2 a memory that is seen.
    colors = ListedColormap((_MASKED, color, _MEMORY))
    values = np.ma.concatenate([2 * of_memory, 1 * of_tokens[:, order]], axis=1)
    axes.pcolormesh(
        values, cmap=colors, vmin=0, vmax=2, edgecolors="white", linewidth=1
    )
    ticks = 0.5 + np.arange(len(order))  # the centers of squares
    # A black square is at the token itself. A row that is left out is masked in every column, so
    # the last column says in which rows there is one.
    itself = ticks[~np.ma.getmaskarray(seen)[:, -1]]
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
    axes.invert_yaxis()  # row 0 is at the top
    axes.spines[:].set_visible(False)
    font: Any = dict(fontsize=10.5, parse_math=False)
    axes.set_yticks(ticks, names, **font)
    axes.set_xticks(memory_length + ticks, names, rotation=90, **font)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)


# ---- attention

_KEY = 0.14  # size of a token in a panel [inches]; smaller with more than `_MOST_NAMES` tokens
_MOST_NAMES = 40  # next to a panel; of more tokens each second, third, ... one is named
_TITLE = 0.42  # height of a panel's title, with the space above it [inches]
_COLORS = {"content": "Blues", "query": "Oranges"}


def draw_attention(path: str, attention: Attention) -> None:
    """Writes a PNG with a row of panels for each stream and layer, a panel for each head. `streams`
    of the attention has weights [k,N,T,T] of k layers, N heads and T tokens."""
    from matplotlib.figure import Figure

    # Names of the tokens: the piece, and its number in the factorization order if there is one.
    names = list(attention.pieces)
    title = "Attention weights"
    if attention.places is not None:
        title += "\nnumbers: positions in the factorization order"
        for number, place in enumerate(attention.places):
            names[number] += f" {place}"
    # Each `step`-th token is named: the number of tokens by `_MOST_NAMES`, rounded up.
    step = -(-len(names) // _MOST_NAMES)
    ticks, tick_names = range(0, len(names), step), names[::step]
    # Sizes in inches: panels are squares, with 0.12 between them in a row.
    panel_size = max(_KEY * min(len(names), _MOST_NAMES), 1.1)
    heads = next(iter(attention.streams.values())).shape[1]  # N, that of all streams
    rows = len(attention.streams) * len(attention.layers)
    size = (heads * (panel_size + 0.12), rows * (panel_size + _TITLE))
    figure = Figure(figsize=size, dpi=130)
    figure.subplots_adjust(
        left=0,
        right=1,
        bottom=0,
        top=1,
        wspace=0.12 / panel_size,
        hspace=_TITLE / panel_size,
    )
    panels = figure.subplots(rows, heads, squeeze=False)
    font: Any = dict(fontsize=6, parse_math=False)
    row = 0
    for stream, of_layers in attention.streams.items():
        for layer, weights in zip(attention.layers, of_layers):
            for head, axes in enumerate(panels[row]):
                image = axes.imshow(
                    weights[head],
                    cmap=_COLORS[stream],
                    vmin=0,
                    # The heads of a row share their colors. Weights may all be 0.
                    vmax=max(weights.max(), 1e-9),
                    interpolation="nearest",
                )
                name = f"{stream} stream\nlayer {layer}, head {head + 1}"
                axes.set_title(name, fontsize=7, pad=3)
                axes.set_xticks([])
                axes.set_yticks([])
            # Queries are named left of the first head, colors explained right of the last one.
            panels[row, 0].set_yticks(ticks, tick_names, **font)
            panels[row, 0].set_ylabel("query", fontsize=6)
            color_axes = axes.inset_axes((1.05, 0, 0.08, 1))
            figure.colorbar(image, cax=color_axes)
            color_axes.tick_params(labelsize=5.5)
            row += 1
    for axes in panels[-1]:
        axes.set_xticks(ticks, tick_names, rotation=90, **font)
        axes.set_xlabel("key", fontsize=6)
    # Panels fill the height of the figure, 1: its title is above the titles of the first row.
    top = 1 + _TITLE / size[1]
    figure.suptitle(title, y=top, fontsize=9, va="bottom")
    save(figure, path)


def save(figure: Any, path: str) -> None:
    """Writes a figure of matplotlib as a PNG, complete or not at all; the image grows to the texts
    that are outside of the figure's size."""
    # Figures are made without pyplot, which needs a screen or a backend of its own.
    with files.writing(path) as f, warnings.catch_warnings(record=True) as caught:
        figure.savefig(f, format="png", bbox_inches="tight")
    # matplotlib warns of each character that its font lacks; a single note is shown.
    if any("Glyph" in str(warning.message) for warning in caught):
        _log.warning("note: matplotlib's font lacks some characters; they are boxes")
