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

_CONTENT, _QUERY = "#4c78a8", "#e0812b"  # colors of the streams
_MEMORY, _MASKED = "#9aa5ad", "#ececec"
_MEMORY_LENGTH = 4  # remembered positions beside the tokens: M
_CELL = 0.32  # [inches]
_MARGIN = 2.0  # for names and titles [inches]
_CAPTION = (
    "rows are queries, columns keys; numbers are positions in the factorization order\n"
    "blue, orange, dark gray (memory): the query sees the key; light gray: masked; black square: "
    "the token itself\n"
    "–: only context, seen by all, without a query in the query stream"
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
    sampling: SamplingSettings,
    seed: int,
    most: int,
) -> Excerpt:
    """A text with targets and order sampled as for a part of a sequence.

    Args:
      text: the text.
      tokenizer: of the vocabulary.
      sampling: all tokens are predicted if its `num_predict` is large enough.
      seed: of the sampling.
      most: the largest number of pieces.

    Raises:
      UserError: it has no token or more than `most`.
    """
    ids = np.array(tokenizer.ids(text), np.int32)
    if not 1 <= len(ids) <= most:
        raise wrong("text", f"{len(ids)} pieces", f"1 to {most}", "--text")
    random = permutation.Random(seed, 0, [0], [0])
    is_special = np.zeros([1, len(ids)], bool)
    word_start = tokenizer.is_word_start[ids][None]
    budget = np.array([min(sampling.num_predict, len(ids))])
    is_target = permutation.sample_targets(
        random, is_special, word_start, budget, sampling
    )
    rank = permutation.ranks(random, is_target, sampling)
    pieces = []
    for id in ids.tolist():
        pieces.append(escape_control_characters(tokenizer.id_to_piece(id)))
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


def draw_masks(path: str, excerpt: Excerpt) -> None:
    """Writes the masks of the content and of the query stream of an excerpt."""
    from matplotlib.figure import Figure

    count = len(excerpt.pieces)
    context = np.flatnonzero(~excerpt.is_target)
    targets = np.flatnonzero(excerpt.is_target)
    in_order = targets[np.argsort(excerpt.rank[targets], kind="stable")]
    labels = [piece + "  –" for piece in excerpt.pieces]
    for position, target in enumerate(in_order.tolist(), 1):
        labels[target] = f"{excerpt.pieces[target]}  {position}"
    width = max((_MEMORY_LENGTH + count) * _CELL, 3) + _MARGIN
    height = count * _CELL + _MARGIN
    size = (2 * width, 2 * height + 2.3)
    drawn: Any = Figure(figsize=size, dpi=110, layout="constrained")
    drawn.suptitle(excerpt.title, fontsize=12, parse_math=False)
    # Two rows of panels, a column for each stream: rows see columns (paper, figure 4 and appendix
    # A.7). In factorization order they are the lower triangle with and without its diagonal.
    content, query = visibility(excerpt.rank, excerpt.is_target, _MEMORY_LENGTH)
    # The query stream only has the rows of targets.
    query = np.ma.array(query)
    query[~excerpt.is_target] = np.ma.masked
    streams = (("Content", content, _CONTENT), ("Query", query, _QUERY))
    orders = (
        ("as the model reads", np.arange(count)),
        ("in factorization order", np.append(context, in_order)),
    )
    for row, (order_name, order) in zip(drawn.subplots(2, 2), orders):
        names = [labels[i] for i in order]
        for axes, (stream, seen, color) in zip(row, streams):
            title = f"{stream} stream, {order_name}"
            axes.set_title(title, fontsize=11, weight="bold", pad=12)
            _panel(axes, seen[order], order, color, names)
    drawn.supxlabel(_CAPTION, fontsize=11)
    save(drawn, path)


def _panel(
    axes: Any, seen: np.ndarray, order: np.ndarray, color: str, names: list[str]
) -> None:
    """Plots a mask: a square for each row and column, colored where the row sees the column.

    Args:
      axes: of matplotlib.
      seen: bool [Q,K], its rows in the order of the panel; a masked array leaves rows out.
      order: int [Q], the tokens of the rows and columns.
      color: where a row sees a token.
      names: of the rows and columns.
    """
    from matplotlib.colors import ListedColormap

    memory_length = seen.shape[1] - len(order)
    of_memory, of_tokens = seen[:, :memory_length], seen[:, memory_length:]
    values = np.ma.concatenate([2 * of_memory, 1 * of_tokens[:, order]], axis=1)
    colors = ListedColormap((_MASKED, color, _MEMORY))
    axes.pcolormesh(
        values, cmap=colors, vmin=0, vmax=2, edgecolors="white", linewidth=1
    )
    ticks = 0.5 + np.arange(len(order))
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
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    font: Any = dict(fontsize=10.5, parse_math=False)
    axes.set_yticks(ticks, names, **font)
    axes.set_xticks(memory_length + ticks, names, rotation=90, **font)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)


# ---- attention

_KEY = 0.14  # size of a token in a panel [inches]; smaller where there are more than:
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
    panel = max(_KEY * min(len(names), _MOST_NAMES), 1.1)
    heads = next(iter(attention.streams.values())).shape[1]
    rows = len(attention.streams) * len(attention.layers)
    size = (heads * (panel + 0.12), rows * (panel + _TITLE))
    drawn = Figure(figsize=size, dpi=130)
    drawn.subplots_adjust(
        left=0, right=1, bottom=0, top=1, wspace=0.12 / panel, hspace=_TITLE / panel
    )
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
            drawn.colorbar(image, cax=place)
            place.tick_params(labelsize=5.5)
            row += 1
    for axes in panels[-1]:
        axes.set_xticks(named, shown, rotation=90, **ticks)
        axes.set_xlabel("key", fontsize=6)
    top = 1 + _TITLE / size[1]
    drawn.suptitle(title, y=top, fontsize=9, va="bottom")
    save(drawn, path)


def save(figure: Any, path: str) -> None:
    """Writes a figure as a PNG, complete or not at all; texts outside of its size are in it."""
    # Figures are made without pyplot, which needs a screen or a backend of its own.
    with files.writing(path) as f, warnings.catch_warnings(record=True) as caught:
        figure.savefig(f, format="png", bbox_inches="tight")
    # One for each character that the font lacks.
    if any("Glyph" in str(warning.message) for warning in caught):
        _log.warning("note: matplotlib's font lacks some characters; they are boxes")
