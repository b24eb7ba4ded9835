"""Pretraining records as text and as counts.

Windows, targets and orders come from `input_pipeline` and masks from `modeling`, as in training.

Shape letters: W windows, Q tokens of a window, M remembered positions, K = M + Q keys.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Sequence
from typing import Callable, Optional, Union

import numpy as np

from xlnet import errors
from xlnet.batches import input_pipeline
from xlnet.batches import permutation as permutations
from xlnet.errors import UserError
from xlnet.records import feature_spec
from xlnet.records.manifest import Manifest
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer

DIRECTIONS = ("forward", "backward")     # the value of `direction` is the index
LABELS = ("B from elsewhere", "B continues A")
_BINS = 16                               # of the positions in a window
_LONGEST_SPAN = 10                       # longer ones are counted together


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows as the trainer sees them in one epoch."""
    input_ids: np.ndarray        # int32 [W,Q]
    seg_ids: np.ndarray          # int32 [W,Q]
    word_start: np.ndarray       # bool [W,Q]
    is_target: np.ndarray        # bool [W,Q]
    is_special: np.ndarray       # bool [W,Q]
    rank: np.ndarray             # int32 [W,Q], see `permutation.ranks`
    direction: np.ndarray        # int32 [W]
    label: np.ndarray            # int32 [W]
    starts_stream: np.ndarray    # int32 [W]

    def __len__(self):
        return len(self.label)

    def segment_lengths(self, reuse_len: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of A and of B without <sep> and <cls>, each int [W]."""
        b = np.sum(self.seg_ids == 1, axis=1) - 1
        return self.input_ids.shape[1] - reuse_len - 3 - b, b


def read_windows(directory: str, manifest: Manifest, *, stream: Optional[int], first: int,
                 count: int, epoch: int, seed: int, permutation: permutations.Permutation,
                 special_ids: Sequence[int],
                 legacy_word_start: Optional[np.ndarray] = None) -> Windows:
    """Reads windows with the targets and orders that the trainer samples for them.

    Args:
      stream: index of a text stream, or None for all of them side by side.
      first: index of the first window of each stream.
      count: windows of each stream.
      epoch: number of the epoch, from 0 on.
      seed, permutation, special_ids, legacy_word_start: as of
        `input_pipeline.pretraining_batches`.

    Returns:
      `Windows`; with all streams W = count · streams, ordered by index, then stream.

    Raises:
      UserError: a damaged record file.
    """
    paths = manifest.stream_paths(directory)
    batch_size = manifest.num_streams if stream is None else 1
    step = epoch * input_pipeline.steps_per_epoch(manifest, batch_size) + first
    step += (stream or 0) * manifest.windows_per_stream
    with errors.explained(records=directory):
        batches = input_pipeline.pretraining_batches(
            directory, manifest, batch_size=batch_size, permutation=permutation,
            special_ids=special_ids, seed=seed, start_step=step,
            legacy_word_start=legacy_word_start).take(count)
        found = list(batches.as_numpy_iterator())
        joined = {name: np.concatenate([batch[name] for batch in found]) for name in found[0]}
        starts = [_word_starts(path, manifest.seq_len, first, count)
                  for path in (paths if stream is None else paths[stream:stream + 1])]
    is_target = np.zeros(joined["input_ids"].shape, bool)
    rows, targets = np.nonzero(joined.pop("weights"))
    is_target[rows, joined.pop("positions")[rows, targets]] = True
    return Windows(is_target=is_target, is_special=np.isin(joined["input_ids"], special_ids),
                   word_start=np.stack(starts, axis=1).reshape(is_target.shape) > 0, **joined)


def _word_starts(path, seq_len, first, count):
    """Where words begin, [count, Q], which the trainer's batches do not have."""
    import tensorflow as tf
    serialized = tf.data.TFRecordDataset(path).skip(first).batch(count).take(1)
    parsed = feature_spec.parse(feature_spec.pretraining_features(seq_len),
                                serialized.get_single_element())
    return parsed["word_start"].numpy()


# ---- order and masks ----

def places_in_order(rank: np.ndarray, is_ordered: np.ndarray) -> np.ndarray:
    """Position 1, 2, ... in the order of `rank` of each token in `is_ordered` bool [Q]; else 0."""
    ordered = np.flatnonzero(is_ordered)
    places = np.zeros(len(rank), np.int64)
    places[ordered[np.argsort(rank[ordered], kind="stable")]] = 1 + np.arange(len(ordered))
    return places


@dataclasses.dataclass(frozen=True)
class Excerpt:
    """A few tokens whose masks are plotted; `title` says where they come from."""
    title: str
    pieces: list             # Q texts
    ids: np.ndarray          # int32 [Q], shown where no font has the characters of the piece
    rank: np.ndarray         # int32 [Q]
    is_target: np.ndarray    # bool [Q]
    is_special: np.ndarray   # bool [Q]


def window_excerpt(windows: Windows, row: int, count: int, tokenizer: Tokenizer,
                   title: str) -> Excerpt:
    """The first `count` tokens of a window, as the model reads them."""
    ids = windows.input_ids[row, :count]
    return Excerpt(
        title, [_printable(tokenizer.id_to_piece(int(id))) for id in ids], ids,
        windows.rank[row, :count], windows.is_target[row, :count], windows.is_special[row, :count])


def sentence_excerpt(text: str, tokenizer: Tokenizer, permutation: permutations.Permutation,
                     seed: int, most: int) -> Excerpt:
    """A sentence with targets and order sampled as for a part of a window.

    All of it is predicted if `permutation.num_predict` is large enough.

    Raises:
      UserError: it has no token or more than `most`, or `mask_mode` is legacy.
    """
    if permutation.mask_mode == "legacy":
        raise UserError("sentence: mask_mode is legacy, a rule for complete windows; leave it out")
    pieces, ids = tokenizer.pieces(text), np.array(tokenizer.ids(text), np.int32)
    if not 1 <= len(ids) <= most:
        raise UserError("sentence: %d pieces, expected 1 to %d, so that the figure can be read"
                        % (len(ids), most))
    random = permutations.Random(seed, 0, [0], [0])
    is_special = np.zeros([1, len(ids)], bool)
    word_start = (tokenizer.is_word_start[ids] | (permutation.mask_mode == "token"))[None]
    budget = np.array([min(permutation.num_predict, len(ids))])
    is_target = permutations.sample_targets(random, is_special, word_start, budget, permutation)
    rank = permutations.ranks(random, is_target, permutation.perm_size)
    return Excerpt(" ".join(text.split()), [_printable(piece) for piece in pieces], ids, rank[0],
                   is_target[0], is_special[0])


def visibility(rank: np.ndarray, is_target: np.ndarray,
               memory_length: int) -> tuple[np.ndarray, np.ndarray]:
    """What each position sees in the two streams (paper, figure 4 and appendix A.7).

    The content stream sees what the query stream sees, and the token itself. All of the memory is
    visible.

    Args:
      rank: int32 [Q].
      is_target: bool [Q].
      memory_length: M.

    Returns:
      content, query: bool [Q,K], True where row i sees column j. The query stream only has the rows
      of targets.
    """
    from xlnet.network import modeling
    seen = ~modeling.permutation_mask(rank[None], is_target[None]).numpy()[0]
    seen = np.pad(seen, [[0, 0], [memory_length, 0]], constant_values=True)
    itself = np.eye(len(rank), seen.shape[1], memory_length, dtype=bool)
    return seen | itself, seen


# ---- windows as text ----

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# Colours that are readable on dark and on light terminals.
_COLORS = {"bold": "1", "dim": "2", "reused": "39", "A": "38;5;34", "B": "38;5;33",
           "forward": "1;38;5;34", "backward": "1;38;5;170"}
# Backgrounds of targets, from those predicted first (light) to those predicted last (dark).
_ORDER_COLORS = ("30;48;5;229", "30;48;5;222", "30;48;5;215", "97;48;5;166", "97;48;5;88")


# Function from a text and a colour to the text in it. The colour is a name, or how far the token is
# in the order, in [0, 1).
Paint = Callable[[str, Union[str, float]], str]


def plain(text: str, color: Union[str, float]) -> str:
    """A `Paint` that leaves the text as it is."""
    return text


def ansi(text: str, color: Union[str, float]) -> str:
    """A `Paint` for terminals."""
    if isinstance(color, float):
        code = _ORDER_COLORS[int(color * len(_ORDER_COLORS))]
    else:
        code = _COLORS[color]
    return "\x1b[%sm%s\x1b[0m" % (code, text)


def legend(paint: Paint) -> str:
    """Lines that explain the marks of `window_text`."""
    early, late = paint("⟦early⁵⟧", 0.), paint("⟦late³¹⟧", 0.99)
    lines = (
        "⟦piece⁷ piece²⟧  predicted; the number is its place in the factorization order: %s %s\n"
        "segments         %s (continues the stream), %s, %s\n"
        "◀ backward       shown in reading order; the model begins at the last token shown\n")
    return lines % (early, late, paint("reused", "reused"), paint("A", "A"), paint("B", "B"))


def window_text(windows: Windows, row: int, title: str, *, tokenizer: Tokenizer, reuse_len: int,
                paint: Paint, width: int) -> str:
    """A window as lines of at most `width` columns, with parts and targets marked.

    A backward window is reversed, so that its words are readable; the numbers at its parts are
    positions in the order in which the model reads.
    """
    backward = windows.direction[row] == 1
    a_len, b_len = (int(lengths[row]) for lengths in windows.segment_lengths(reuse_len))
    targets = windows.is_target[row]
    lines = ["%s  %s  %s%s" % (
        paint(title, "bold"),
        paint("◀ backward" if backward else "forward ▶", DIRECTIONS[int(backward)]),
        LABELS[windows.label[row]], "  the stream begins" if windows.starts_stream[row] else "")]
    lines.append("%d of %d tokens predicted, %d of them in the reused part; A %d tokens, B %d" % (
        targets.sum(), len(targets), targets[:reuse_len].sum(), a_len, b_len))
    parts = [("reused", 0, reuse_len), ("A", reuse_len, reuse_len + a_len + 1),
             ("B", reuse_len + a_len + 1, len(targets))]
    units = _units(windows, row, tokenizer, parts, backward, paint)
    for name, start, end in parts[::-1] if backward else parts:
        first, last = (end - 1, start) if backward else (start, end - 1)
        label = "%-6s %3d-%-3d " % (name, first, last)
        inside = units[start:end][::-1] if backward else units[start:end]
        for line in _wrapped(inside, width - len(label)):
            lines.append(paint(label, "dim") + line)
            label = " " * len(label)
    return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class _Unit:
    """One piece as it is shown."""
    space: bool       # whether a space precedes it
    painted: str
    columns: int      # of the terminal
    may_break: bool   # whether a line may begin with it


def _units(windows, row, tokenizer, parts, backward, paint):
    """The pieces of a window, in stored order; targets in brackets that open on the left."""
    targets = windows.is_target[row]
    places = places_in_order(windows.rank[row], targets)
    begins, ends = np.zeros(len(targets), bool), np.zeros(len(targets), bool)
    for _, start, end in parts:
        inside = np.concatenate([[False], targets[start:end], [False]])
        begins[start:end] = inside[1:-1] & ~inside[:-2]
        ends[start:end] = inside[1:-1] & ~inside[2:]
    opens, closes = (ends, begins) if backward else (begins, ends)
    units = []
    for name, start, end in parts:
        for i in range(start, end):
            space, text = _spelled(tokenizer.id_to_piece(int(windows.input_ids[row, i])))
            on_the_left = (i + 1 if backward else i - 1) % len(targets)
            space |= bool(windows.is_special[row, [i, on_the_left]].any())
            if targets[i]:
                number = str(places[i]).translate(_SUPERSCRIPT)
                text = "⟦" * int(opens[i]) + (text or WORD_START) + number + "⟧" * int(closes[i])
            color = (places[i] - 1) / len(targets[targets]) if targets[i] else name
            columns = _columns(text)
            painted = paint(text, color) if text else ""
            units.append(_Unit(space, painted, columns, space or columns > len(text)))
    return units


def _spelled(piece):
    """Whether a space precedes a piece, and its characters."""
    return piece.startswith(WORD_START), _printable(piece[piece.startswith(WORD_START):])


def _printable(text):
    """`text` with control and invisible characters escaped."""
    return "".join(c if c.isprintable() else "\\x%x" % ord(c) for c in text)


def _columns(text):
    """Columns of a terminal that a text takes: two for each East Asian wide character."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
               for c in text)


def _wrapped(units, width):
    """Lines of at most `width` columns, broken between words, or within one that is too long."""
    lines, line, used = [], "", 0
    for chunk in _chunks(units, width):
        space = chunk[0].space and used > 0
        needed = sum(unit.columns for unit in chunk)
        if used and used + space + needed > width:
            lines.append(line)
            line, used, space = "", 0, False
        line += " " * space + "".join(unit.painted for unit in chunk)
        used += space + needed
    return lines + [line]


def _chunks(units, width):
    """Yields words as lists of units, cut where a word is wider than a line."""
    used = 0
    chunk: list[_Unit] = []
    for unit in units:
        if chunk and (unit.may_break or used + unit.columns > width):
            yield chunk
            chunk, used = [], 0
        chunk.append(unit)
        used += unit.columns
    if chunk:
        yield chunk


# ---- counts ----

@dataclasses.dataclass(frozen=True)
class Histogram:
    """Percentages by label. series, and levels to compare them with: by name, [labels] each."""
    title: str
    unit: str          # of the labels
    measure: str       # of what they are percentages
    labels: list
    series: dict
    levels: dict = dataclasses.field(default_factory=dict)


def summary(windows: Windows, reuse_len: int) -> list[str]:
    """Lines with counts over all windows."""
    spans = _spans(windows, reuse_len)
    tokens = windows.input_ids.size
    counts = np.bincount(windows.direction, minlength=2)
    return [
        "%s windows, %s tokens" % (_grouped(len(windows)), _grouped(tokens)),
        "%s targets, %.2f %% of the tokens" % (
            _grouped(windows.is_target.sum()), 100 * windows.is_target.sum() / tokens),
        "%s spans of on average %.2f words, %.2f tokens" % (
            _grouped(len(spans.tokens)), spans.words.mean(), spans.tokens.mean()),
        "%.2f %% of the spans are whole words" % (100 * spans.is_whole.mean()),
        "%s windows forward, %s backward" % tuple(map(_grouped, counts)),
        "B continues A in %.2f %%" % (100 * windows.label.mean()),
        "%s windows begin a stream" % _grouped(windows.starts_stream.sum()),
    ]


def _grouped(number):
    return "{:,}".format(int(number))


@dataclasses.dataclass(frozen=True)
class _Spans:
    """Runs of adjacent targets in one part of a window; adjacent n-grams are one run."""
    tokens: np.ndarray      # int [spans]
    words: np.ndarray       # int [spans], of which it has a token
    is_whole: np.ndarray    # bool [spans], whether it begins and ends with a word


def _spans(windows, reuse_len):
    targets, length = windows.is_target, windows.input_ids.shape[1]
    before = np.pad(targets[:, :-1], [[0, 0], [1, 0]])
    before[:, reuse_len] = False                      # the parts are sampled separately
    after = np.pad(targets[:, 1:], [[0, 0], [0, 1]])
    after[:, reuse_len - 1] = False
    begins, ends = (np.flatnonzero((targets & ~other).ravel()) for other in (before, after))
    word = np.cumsum(windows.word_start.ravel())
    starts = np.append(windows.word_start.ravel(), True)
    starts[::length] = True                           # a window begins with a word
    return _Spans(ends - begins + 1, word[ends] - word[begins] + 1,
                  starts[begins] & starts[ends + 1])


def histograms(windows: Windows, reuse_len: int) -> list[Histogram]:
    """The counts as a list of `Histogram`."""
    spans = _spans(windows, reuse_len)
    a_len, b_len = windows.segment_lengths(reuse_len)
    return [
        _lengths("Length of predicted spans", "words", spans.words),
        _lengths("Length of predicted spans", "tokens", spans.tokens),
        _share_by_position(windows, reuse_len),
        _segment_lengths({"A": a_len, "B": b_len}, int((a_len + b_len)[0]) - 1),
        _directions_and_labels(windows),
    ]


def _lengths(title, unit, lengths):
    counts = np.bincount(np.minimum(lengths, _LONGEST_SPAN), minlength=_LONGEST_SPAN + 1)[1:]
    labels = [str(n) for n in range(1, _LONGEST_SPAN)] + ["%d+" % _LONGEST_SPAN]
    return Histogram(title, unit, "of all spans", labels, {"spans": _percent(counts)})


def _share_by_position(windows, reuse_len):
    """Percentage of predicted tokens among predictable ones; the level is their mean in a part."""
    length = windows.input_ids.shape[1]
    edges = _edges(0, length, _BINS)
    series = {}
    for direction, name in enumerate(DIRECTIONS):
        rows = windows.direction == direction
        if rows.any():
            series[name] = _shares(windows, rows, edges[:-1])
    parts = _shares(windows, slice(None), [0, reuse_len])
    middles = (edges[:-1] + edges[1:] - 1) / 2
    return Histogram("Predicted share by position", "position in the window, as the model reads",
                     "of the tokens there", _ranges(edges), series,
                     {"even in each part": parts[(middles >= reuse_len).astype(int)]})


def _shares(windows, rows, begins):
    """Predicted tokens of `rows` in % of the predictable ones, between the positions `begins`."""
    predicted = np.add.reduceat(windows.is_target[rows].sum(axis=0), begins)
    possible = np.add.reduceat((~windows.is_special[rows]).sum(axis=0), begins)
    return 100. * predicted / np.maximum(possible, 1)


def _segment_lengths(lengths, longest):
    edges = _even_edges(1, longest + 1)
    return Histogram("Length of segments", "tokens", "of all windows", _ranges(edges), {
        name: _percent(np.histogram(values, bins=edges)[0]) for name, values in lengths.items()})


def _directions_and_labels(windows):
    series = {}
    for direction, name in enumerate(DIRECTIONS):
        counts = np.bincount(windows.label[windows.direction == direction], minlength=2)
        series[name] = 100. * counts / len(windows)
    return Histogram("Directions and labels", "label", "of all windows", list(LABELS), series)


def _edges(low, high, bins):
    """Edges of at most `bins` ranges of integers that cover low ... high - 1."""
    return np.unique(np.linspace(low, high, bins + 1).astype(np.int64))


def _even_edges(low, high):
    """Edges of ranges of equal width, ideally 10 of them; the last one may be shorter."""
    size = high - low
    bins = next((n for n in (10, 9, 11, 8, 12, 7, 6) if size % n == 0), 10)
    width = -(-size // bins)
    return np.append(np.arange(low, high, width), high)


def _ranges(edges):
    return ["%d-%d" % (low, high - 1) if high - low > 1 else str(low)
            for low, high in zip(edges[:-1], edges[1:])]


def _percent(counts):
    return 100. * counts / max(counts.sum(), 1)


def histogram_text(histogram: Histogram, width: int) -> str:
    """A histogram as lines of text: a line for each label, a bar for each series."""
    margin = max(map(len, histogram.labels))
    series = histogram.series
    room = (width - margin - 20 * len(histogram.levels)) // len(series) - 10
    room = max(min(room, 40), 5)
    largest = max(values.max() for values in series.values()) or 1
    lines = ["%s [%s], %% %s" % (histogram.title, histogram.unit, histogram.measure)]
    heads = ["%-*s" % (room + 8, name) for name in series] + list(histogram.levels)
    if len(heads) > 1:
        lines.append("  ".join([" " * margin] + heads))
    for i, label in enumerate(histogram.labels):
        cells = ["%-*s" % (room + 8, "%s %.1f" % (
            "█" * int(round(room * values[i] / largest)), values[i])) for values in series.values()]
        cells += ["%.1f" % values[i] for values in histogram.levels.values()]
        lines.append("  ".join(["%*s" % (margin, label)] + cells))
    return "\n".join(map(str.rstrip, lines)) + "\n"
