"""Precision, recall and F1 of entities, together and by label, as in seqeval.

An entity is right if its words and its label are. Shape letters: n sentences, W words of one.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlnet.tasks.files import schemes


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
    found: Sequence[Sequence[schemes.TagSpan]], true: Sequence[Sequence[schemes.TagSpan]]
) -> dict[str, Counts]:
    """The `Counts` of each label in alphabetical order; found, true: spans of n sentences."""
    # A span is (start, end, label): both sets have it only if words and label are the same.
    right, all_found, all_true = (
        collections.Counter(span[2] for spans in sentences for span in spans)
        for sentences in ([set(a) & set(b) for a, b in zip(found, true)], found, true)
    )
    return {
        label: Counts(right[label], all_found[label], all_true[label])
        for label in sorted(all_found | all_true)
    }


def total(counts: dict[str, Counts]) -> Counts:
    """The counts of all labels together."""
    return Counts(*(sum(column) for column in zip(*counts.values()))) if counts else Counts(0, 0, 0)


def accuracy(found: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> float:
    """The fraction of the words whose tags are right; found, true: tags of n sentences [W]."""
    right = sum(a == b for tags in zip(found, true) for a, b in zip(*tags))
    return right / max(sum(map(len, true)), 1)


def table(counts: dict[str, Counts]) -> str:
    """Precision, recall, F1 and true entities of each label, as text, and their means: over
    entities (micro), over labels (macro), over labels by their true entities (weighted). An
    undefined ratio is shown and averaged as 0, as in seqeval's report."""
    # The micro average counts entities of all labels; the others are means of the lines above.
    together = total(counts)
    weights = [count.true for count in counts.values()]
    lines = [_line(label or "_", count) for label, count in counts.items()]
    columns = [[line[i] for line in lines] for i in (1, 2, 3)]
    lines += [
        _line("micro avg", together),
        ("macro avg", *(_mean(column, [1] * len(lines)) for column in columns), together.true),
        ("weighted avg", *(_mean(column, weights) for column in columns), together.true),
    ]
    width = max(len(line[0]) for line in lines)
    return "\n".join(
        ["{:<{}}  precision  recall      f1  entities".format("label", width)]
        + [
            "{:<{}}  {:9.4f}  {:6.4f}  {:6.4f}  {:8d}".format(line[0], width, *line[1:])
            for line in lines
        ]
    )


def _line(label: str, count: Counts) -> tuple[Any, ...]:
    ratios = (count.precision, count.recall, count.f1)
    return (label, *(0.0 if math.isnan(ratio) else ratio for ratio in ratios), count.true)


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    return sum(v * w for v, w in zip(values, weights)) / max(sum(weights), 1)
