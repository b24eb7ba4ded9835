"""Texts that occur more than once: evaluated although they were trained on, or with labels that
contradict each other.

Texts are compared by their digests, whatever files, forms and encodings they come from.
Shape letter: n rows.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Sequence

import numpy as np

from xlnet.tasks.files.row_store import digest
from xlnet.tasks.task import Row

_log = logging.getLogger(__name__)


def digests_of(rows: Sequence[Row]) -> np.ndarray:
    """The digests of the texts of rows, without their labels: uint64 [n]."""
    return np.fromiter((_digest(row) for row in rows), np.uint64, len(rows))


def _digest(row: Row) -> int:
    # Only what the network reads is compared, not the names of rows and queries. Blanks are joined
    # and characters composed, since programs write the same text in different ways.
    texts: list[str] = []
    for pair in row.pairs:
        texts += [text or "" for text in pair]
    return digest(
        "\0".join(" ".join(unicodedata.normalize("NFC", str(text)).split()) for text in texts)
    )


def note_trained_on(name: str, digests: np.ndarray, trained: np.ndarray) -> None:
    """Notes how many rows that are evaluated were trained on.

    Args:
      name: the split, with its files.
      digests: of the rows that are evaluated, uint64 [n].
      trained: those of the rows that were trained on.
    """
    count = int(np.isin(digests, trained).sum())
    if count:
        _log.warning(
            "note: %s: %s of %s rows (%.1f %%) were trained on: their scores say little about "
            "other texts",
            name,
            f"{count:,}",
            f"{len(digests):,}",
            100 * count / len(digests),
        )


def note_contradictions(name: str, rows: Sequence[Row], digests: np.ndarray) -> None:
    """Notes how many rows have a text that has another label in another row.

    Args:
      name: the split, with its files.
      rows: with labels, or None for one that is not known.
      digests: as of `digests_of`.
    """
    labels = np.fromiter((digest(repr(row.label)) for row in rows), np.uint64, len(rows))
    known = np.fromiter((row.label is not None for row in rows), bool, len(rows))
    # The pairs of a text and a label, each once: a text that occurs in several pairs has labels
    # that contradict each other.
    pairs = np.unique(np.stack([digests[known], labels[known]], axis=1), axis=0)
    texts, counts = np.unique(pairs[:, 0], return_counts=True)
    contradicted = texts[counts > 1]
    if not len(contradicted):
        return
    wrong = np.isin(digests, contradicted) & known
    # Two rows to look at: the first one of a text, and the next one with another label.
    of_text = np.flatnonzero((digests == contradicted[0]) & known)
    one = of_text[0]
    other = of_text[labels[of_text] != labels[one]][0]
    _log.warning(
        "note: %s: %s of %s rows have a text that another row gives another label (%s texts), such "
        "as the rows %s and %s",
        name,
        f"{int(wrong.sum()):,}",
        f"{len(rows):,}",
        f"{len(contradicted):,}",
        rows[one].id,
        rows[other].id,
    )
