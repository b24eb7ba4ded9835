"""Pretraining records as text and as counts.

Shape letters: W windows, Q tokens of a window, M remembered positions, K = M + Q keys.
"""

from __future__ import annotations

import dataclasses
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Optional

import numpy as np

from xlnet.corpus import input_pipeline
from xlnet.corpus import permutation as permutations
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import WORD_START, Tokenizer
from xlnet.support import errors
from xlnet.support.errors import UserError

LABELS = ("B from elsewhere", "B continues A")


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows as the trainer sees them in one epoch."""

    input_ids: np.ndarray  # int32 [W,Q]
    seg_ids: np.ndarray  # int32 [W,Q]
    is_target: np.ndarray  # bool [W,Q]
    is_special: np.ndarray  # bool [W,Q]
    rank: np.ndarray  # int32 [W,Q], see `permutation.ranks`
    direction: np.ndarray  # int32 [W]
    label: np.ndarray  # int32 [W]
    starts_stream: np.ndarray  # int32 [W]

    def __len__(self) -> int:
        return len(self.label)

    def segment_lengths(self, reuse_len: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of A and of B without <sep> and <cls>, each int [W]."""
        b = np.sum(self.seg_ids == 1, axis=1) - 1
        return self.input_ids.shape[1] - reuse_len - 3 - b, b


def read_windows(
    directory: str,
    manifest: Manifest,
    *,
    stream: Optional[int],
    count: int,
    seed: int,
    permutation: permutations.Permutation,
    special_ids: Sequence[int],
    legacy_word_start: Optional[np.ndarray] = None,
) -> Windows:
    """Reads the first windows with the targets and orders that the trainer samples for them in
    the first epoch.

    Args:
      stream: index of a text stream, or None for all of them side by side.
      count: windows of each stream.
      seed, permutation, special_ids, legacy_word_start: as of
        `input_pipeline.pretraining_batches`.

    Returns:
      `Windows`; with all streams W = count · streams, ordered by index, then stream.

    Raises:
      UserError: a damaged record file.
    """
    # Windows, targets and orders come from the trainer's input pipeline, from the step at which it
    # reads them: what is shown is exactly what is trained on.
    batch_size = manifest.num_streams if stream is None else 1
    with errors.translated_errors(records=directory):
        batches = input_pipeline.pretraining_batches(
            directory,
            manifest,
            batch_size=batch_size,
            permutation=permutation,
            special_ids=special_ids,
            seed=seed,
            start_step=(stream or 0) * manifest.windows_per_stream,
            legacy_word_start=legacy_word_start,
        ).take(count)
        found = list(batches.as_numpy_iterator())
        joined = {
            name: np.concatenate([batch[name] for batch in found]) for name in found[0]
        }
    is_target = np.zeros(joined["input_ids"].shape, bool)
    rows, targets = np.nonzero(joined.pop("weights"))
    is_target[rows, joined.pop("positions")[rows, targets]] = True
    return Windows(
        is_target=is_target,
        is_special=np.isin(joined["input_ids"], special_ids),
        **joined,
    )


# ---- order and masks ----


def places_in_order(rank: np.ndarray, is_ordered: np.ndarray) -> np.ndarray:
    """Position 1, 2, ... in the order of `rank` of each token in `is_ordered` bool [Q]; else 0."""
    ordered = np.flatnonzero(is_ordered)
    places = np.zeros(len(rank), np.int64)
    places[ordered[np.argsort(rank[ordered], kind="stable")]] = 1 + np.arange(
        len(ordered)
    )
    return places


@dataclasses.dataclass(frozen=True)
class Excerpt:
    """A few tokens whose masks are plotted; `title` says where they come from."""

    title: str
    pieces: list  # Q texts
    ids: np.ndarray  # int32 [Q]
    rank: np.ndarray  # int32 [Q]
    is_target: np.ndarray  # bool [Q]
    is_special: np.ndarray  # bool [Q]


def window_excerpt(
    windows: Windows, row: int, count: int, tokenizer: Tokenizer, title: str
) -> Excerpt:
    """The first `count` tokens of a window, as the model reads them."""
    ids = windows.input_ids[row, :count]
    return Excerpt(
        title,
        [
            errors.escape_control_characters(tokenizer.id_to_piece(int(id)))
            for id in ids
        ],
        ids,
        windows.rank[row, :count],
        windows.is_target[row, :count],
        windows.is_special[row, :count],
    )


def text_excerpt(
    text: str,
    tokenizer: Tokenizer,
    permutation: permutations.Permutation,
    seed: int,
    most: int,
) -> Excerpt:
    """A text with targets and order sampled as for a part of a window.

    Raises:
      UserError: it has no token or more than `most`, or `mask_mode` is legacy.
    """
    if permutation.mask_mode == "legacy":
        raise UserError(
            "text: mask_mode is legacy, a rule for complete windows; leave it out"
        )
    pieces, ids = tokenizer.pieces(text), np.array(tokenizer.ids(text), np.int32)
    if not 1 <= len(ids) <= most:
        raise UserError(
            f"text: {len(ids)} pieces, expected 1 to {most}, so that the figure can be read"
        )
    # All tokens are predicted if `num_predict` is large enough.
    random = permutations.Random(seed, 0, [0], [0])
    is_special = np.zeros([1, len(ids)], bool)
    word_start = (tokenizer.is_word_start[ids] | (permutation.mask_mode == "token"))[
        None
    ]
    budget = np.array([min(permutation.num_predict, len(ids))])
    is_target = permutations.sample_targets(
        random, is_special, word_start, budget, permutation
    )
    # The text is the first part of a window that has no second part.
    one_part = dataclasses.replace(
        permutation, reuse_len=len(ids), num_predict=len(ids)
    )
    sampled = permutations.arrange(random, is_target, is_special, one_part)
    return Excerpt(
        " ".join(text.split()),
        list(map(errors.escape_control_characters, pieces)),
        ids,
        sampled.rank[0],
        is_target[0],
        is_special[0],
    )


def visibility(
    rank: np.ndarray, is_target: np.ndarray, memory_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The masks of the content and of the query stream (paper, figure 4 and appendix A.7): bool
    [Q,K] twice, True where row i sees column j. The query stream only has the rows of targets."""
    # The mask of the network. All of the memory is visible; the content stream sees what the query
    # stream sees, and the token itself.
    from xlnet.model import modeling

    seen = ~modeling.permutation_mask(rank[None], is_target[None]).dense().numpy()[0]
    seen = np.pad(seen, [[0, 0], [memory_length, 0]], constant_values=True)
    itself = np.eye(len(rank), seen.shape[1], memory_length, dtype=bool)
    return seen | itself, seen


# ---- windows as text ----

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LEGEND = """\
⟦piece⁷ piece²⟧  predicted; the number is its place in the factorization order
segments         reused (continues the stream), A, B
◀ backward       shown in reading order; the model begins at the last token shown
"""


def window_text(
    windows: Windows,
    row: int,
    title: str,
    *,
    tokenizer: Tokenizer,
    reuse_len: int,
    width: int,
) -> str:
    """A window as lines of at most `width` columns, with parts and targets marked."""
    # A backward window is reversed, so that its words are readable; the numbers at its parts are
    # positions in the order in which the model reads.
    backward = windows.direction[row] == 1
    a_len, b_len = (int(lengths[row]) for lengths in windows.segment_lengths(reuse_len))
    targets = windows.is_target[row]
    lines = [
        "{}  {}  {}{}".format(
            title,
            "◀ backward" if backward else "forward ▶",
            LABELS[windows.label[row]],
            "  the stream begins" if windows.starts_stream[row] else "",
        )
    ]
    lines.append(
        f"{targets.sum()} of {len(targets)} tokens predicted, {targets[:reuse_len].sum()} "
        f"of them in the reused part; A {a_len} tokens, B {b_len}"
    )
    parts = [
        ("reused", 0, reuse_len),
        ("A", reuse_len, reuse_len + a_len + 1),
        ("B", reuse_len + a_len + 1, len(targets)),
    ]
    texts = _marked_texts(windows, row, tokenizer, parts, backward)
    for name, start, end in parts[::-1] if backward else parts:
        first, last = (end - 1, start) if backward else (start, end - 1)
        inside = texts[start:end][::-1] if backward else texts[start:end]
        lines += _wrapped(
            f"{name:<6} {first:3}-{last:<3} ", "".join(inside).strip(), width
        )
    return "\n".join(lines) + "\n"


def _marked_texts(
    windows: Windows,
    row: int,
    tokenizer: Tokenizer,
    parts: Sequence[tuple[str, int, int]],
    backward: bool,
) -> list[str]:
    """The text of each piece of a window, with the space before it; targets are in brackets that
    open on the left."""
    targets, is_special = windows.is_target[row], windows.is_special[row]
    places = places_in_order(windows.rank[row], targets)
    # A bracket opens if the token before is not a target, or is a target of another part.
    before, after = np.roll(targets, 1), np.roll(targets, -1)
    before[[start for _, start, _ in parts]] = after[[end - 1 for *_, end in parts]] = (
        False
    )
    left, right = (after, before) if backward else (before, after)
    texts = []
    for i, id in enumerate(windows.input_ids[row]):
        piece = tokenizer.id_to_piece(int(id))
        on_the_left = (i + 1 if backward else i - 1) % len(targets)
        space = piece.startswith(WORD_START) or is_special[[i, on_the_left]].any()
        text = errors.escape_control_characters(piece[piece.startswith(WORD_START) :])
        if targets[i]:
            text = "".join(
                [
                    "⟦" * (not left[i]),
                    text or WORD_START,
                    str(places[i]).translate(_SUPERSCRIPT),
                    "⟧" * (not right[i]),
                ]
            )
        texts.append(" " * bool(space) + text)
    return texts


def _wrapped(label: str, text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, of which an East Asian wide character takes two."""
    # A filler in front of each wide character makes it count as two; the fillers are removed
    # afterwards.
    filled = "".join(
        "\0" + c if unicodedata.east_asian_width(c) in "WF" else c for c in text
    )
    return [
        line.replace("\0", "")
        for line in textwrap.wrap(
            filled,
            width - 1,
            initial_indent=label,
            subsequent_indent=" " * len(label),
            break_on_hyphens=False,
        )
    ]


# ---- counts ----


def summary(windows: Windows, reuse_len: int) -> list[str]:
    """Lines with counts over all windows."""
    tokens = windows.input_ids.size
    counts = np.bincount(windows.direction, minlength=2)
    a_len, b_len = windows.segment_lengths(reuse_len)
    return [
        f"{_grouped(len(windows))} windows, {_grouped(tokens)} tokens",
        f"{_grouped(windows.is_target.sum())} targets, "
        f"{100 * windows.is_target.sum() / tokens:.2f} % of the tokens",
        "{} windows forward, {} backward".format(*tuple(map(_grouped, counts))),
        f"A of on average {a_len.mean():.1f} tokens, B of {b_len.mean():.1f}; B continues "
        f"A in {100 * windows.label.mean():.2f} %",
        f"{_grouped(windows.starts_stream.sum())} windows begin a stream",
    ]


def _grouped(number: int) -> str:
    return f"{int(number):,}"
