"""Pretraining records as text."""

from __future__ import annotations

import dataclasses
import textwrap

import numpy as np

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.permutation import Permutation
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.support import errors

LEGEND = """\
⟦piece⟧7      predicted; the number is its position in the factorization order
reused, A, B  the part that continues the text stream, and the two segments
backward      shown in reading order; the model begins at the last token shown
"""
_LABELS = ("B from elsewhere", "B continues A")


@dataclasses.dataclass(frozen=True)
class Records:
    """Pretraining records, with what training samples for them.

    Attributes:
      directory: of the records.
      manifest: of the records.
      tokenizer: of the records.
      permutation: as of `input_pipeline.pretraining_batches`.
      seed: as there.
    """

    directory: str
    manifest: Manifest
    tokenizer: Tokenizer
    permutation: Permutation
    seed: int

    def read(self, stream: int, count: int) -> dict[str, np.ndarray]:
        """The first sequences of a text stream, with the targets and orders of the first epoch.

        Args:
          stream: index of the text stream.
          count: W, of sequences.

        Returns:
          by name, as of `input_pipeline.pretraining_batches`: `input_ids`, `seg_ids` and `rank`
          int32 [W,Q], `direction`, `label` and `starts_stream` int32 [W]; and `is_target`
          bool [W,Q].

        Raises:
          UserError: a damaged record file.
        """
        # Sequences, targets and orders come from the trainer's input pipeline, from the step at
        # which it reads them: what is shown is exactly what is trained on.
        with errors.translated_errors(records=self.directory):
            batches = input_pipeline.pretraining_batches(
                self.directory,
                self.manifest,
                batch_size=1,
                permutation=self.permutation,
                tokenizer=self.tokenizer,
                seed=self.seed,
                start_step=stream * self.manifest.windows_per_stream,
            )
            found = list(batches.take(count).as_numpy_iterator())
        joined = {}
        for name in found[0]:
            joined[name] = np.concatenate([batch[name] for batch in found])
        is_target = np.zeros(joined["input_ids"].shape, bool)
        rows, targets = np.nonzero(joined["weights"])
        is_target[rows, joined["positions"][rows, targets]] = True
        joined["is_target"] = is_target
        return joined


def positions_in_order(rank: np.ndarray, is_ordered: np.ndarray) -> np.ndarray:
    """Position 1, 2, ... in the order of `rank` of each token in `is_ordered` bool [Q]; else 0."""
    ordered = np.flatnonzero(is_ordered)
    positions = np.zeros(len(rank), np.int64)
    best_first = ordered[np.argsort(rank[ordered], kind="stable")]
    positions[best_first] = 1 + np.arange(len(ordered))
    return positions


def shown_piece(tokenizer: Tokenizer, id: int) -> str:
    """A piece without characters that control a terminal."""
    return errors.escape_control_characters(tokenizer.id_to_piece(int(id)))


def text(records: Records, stream: int, width: int) -> str:
    """The first sequence of a text stream as lines of at most `width` characters: its pieces with
    spaces between, of each part on lines of its own, and targets in brackets."""
    sequences, reuse_len = records.read(stream, 1), records.manifest.reuse_len
    is_target = sequences["is_target"][0]
    positions = positions_in_order(sequences["rank"][0], is_target)
    pieces = []
    for id, position in zip(sequences["input_ids"][0], positions):
        piece = shown_piece(records.tokenizer, id)
        pieces.append(f"⟦{piece}⟧{position}" if position else piece)

    # A backward sequence is reversed, so that its words are readable; the numbers at its parts are
    # positions in the order in which the model reads. After A and B there are <sep>, then <cls>.
    behind_a = len(pieces) - 1 - np.sum(sequences["seg_ids"] == 1)
    parts = [
        ("reused", 0, reuse_len),
        ("A", reuse_len, behind_a),
        ("B", behind_a, len(pieces)),
    ]
    is_backward = sequences["direction"][0] == 1
    direction = "backward" if is_backward else "forward"
    begins = ", the stream begins" if sequences["starts_stream"][0] else ""
    label = _LABELS[sequences["label"][0]]
    lines = [
        f"stream {stream}, sequence 0: {direction}, {label}{begins}",
        f"{is_target.sum()} of {len(pieces)} tokens predicted, {is_target[:reuse_len].sum()} of "
        f"them in the reused part",
    ]
    for name, start, end in reversed(parts) if is_backward else parts:
        inside = pieces[start:end]
        label = f"{name:<6} {start:3}-{end - 1:<3} "
        if is_backward:
            inside.reverse()
            label = f"{name:<6} {end - 1:3}-{start:<3} "
        lines += textwrap.wrap(
            " ".join(inside),
            width,
            initial_indent=label,
            subsequent_indent=" " * len(label),
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"
