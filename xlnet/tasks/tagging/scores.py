"""Precision, recall and F1 of entities, together and by label, as in seqeval.

An entity is right if its words and its label are. Shape letters: n sentences, W words of one.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xlnet.tasks.tagging.schemes import TagSpan


class Counts(NamedTuple):
    """Numbers of entities: both found and true, found, and true."""

    right: int
    found: int
    true: int

    @property
    def precision(self) -> float:
        """The fraction of the found ones that are right; NaN without any."""
        return self.right / self.found if self.found else math.nan

    @property
    def recall(self) -> float:
        """The fraction of the true ones that are found; NaN without any."""
        return self.right / self.true if self.true else math.nan

    @property
    def f1(self) -> float:
        """The harmonic mean of both; NaN if nothing is found or true."""
        both = self.found + self.true
        return 2 * self.right / both if both else math.nan


def by_label(
    found: Iterable[Sequence[TagSpan]], true: Iterable[Sequence[TagSpan]]
) -> dict[str, Counts]:
    """The `Counts` of each label in alphabetical order; found, true: spans of n sentences."""
    right: collections.Counter[str] = collections.Counter()
    all_found: collections.Counter[str] = collections.Counter()
    all_true: collections.Counter[str] = collections.Counter()
    for ours, gold in zip(found, true):
        # A span is (start, end, label): both have it only if words and label are the same.
        right.update(label for _, _, label in set(ours) & set(gold))
        all_found.update(label for _, _, label in ours)
        all_true.update(label for _, _, label in gold)
    counts = {}
    for label in sorted(all_found | all_true):
        counts[label] = Counts(right[label], all_found[label], all_true[label])
    return counts


def total(counts: dict[str, Counts]) -> Counts:
    """The counts of all labels together."""
    return Counts(*map(sum, zip(*counts.values()))) if counts else Counts(0, 0, 0)


def accuracy(found: Iterable[Sequence[str]], true: Iterable[Sequence[str]]) -> float:
    """The fraction of the words whose tags are right; found, true: tags of n sentences [W]."""
    right = count = 0
    for ours, gold in zip(found, true):
        right += sum(map(str.__eq__, ours, gold))
        count += len(gold)
    return right / max(count, 1)


def table(counts: dict[str, Counts]) -> str:
    """Precision, recall, F1 and true entities of each label, as text, and their means: over
    entities (micro), over labels (macro), over labels by their true entities (weighted). An
    undefined ratio is shown and averaged as 0, as in seqeval's report."""
    together = total(counts)
    rows = [
        (label or "_", _ratios(count), count.true) for label, count in counts.items()
    ]
    macro, weighted = [0.0] * 3, [0.0] * 3
    for count in counts.values():
        for i, ratio in enumerate(_ratios(count)):
            macro[i] += ratio / len(counts)
            weighted[i] += ratio * count.true / max(together.true, 1)
    rows.append(("micro avg", _ratios(together), together.true))
    rows.append(("macro avg", macro, together.true))
    rows.append(("weighted avg", weighted, together.true))
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{'label':<{width}}  precision  recall      f1  entities"]
    for name, (precision, recall, f1), true in rows:
        lines.append(
            f"{name:<{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {true:8d}"
        )
    return "\n".join(lines)


def _ratios(count: Counts) -> list[float]:
    """Precision, recall and F1; 0 where undefined."""
    ratios = [count.precision, count.recall, count.f1]
    return [0.0 if math.isnan(ratio) else ratio for ratio in ratios]
