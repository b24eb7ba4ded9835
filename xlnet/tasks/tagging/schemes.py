"""Tags of words, and the entities that they mark; scores of entities, together and by label, as in
seqeval: an entity is right if its words and its label are.

A tag is O, outside of entities, or a prefix and a label, such as B-PER. Any sequence of tags is
read by one rule, that of conlleval and seqeval: an entity begins at B, S and U, and at any other
tag but O if the word before does not belong to an open entity of the same label; it ends at E, L, S
and U, before the next one begins, and before O. So the tags of IOB1, BIO2 (IOB2), BIOES, BMES and
BILOU are read alike. They are learned and predicted in one scheme:

    scheme   one word   two   three words
    bio2     B          B I   B I I
    bioes    S          B E   B I E
    bmes     S          B E   B M E

In the scheme plain, a tag is a label without a prefix, such as a part of speech or a language: each
word is an entity of its own. O is a label like others, but not an entity.

Spans are (first word, word after the last, label).
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

OUTSIDE = "O"
PLAIN = "plain"

# Prefixes of a scheme: of the first word of several, inner ones, the last one, the only one.
_PREFIXES = {"bio2": "BIIB", "bioes": "BIES", "bmes": "BMES"}
_BEGIN, _END = "BSU", "ELSU"  # prefixes at which an entity begins, ends in any scheme
# A prefix may be alone. The tags of nested entities, B-LOC|B-ORG, are none of ours; other bars
# within a label are characters of it.
_TAG = re.compile(r"O|[BIESMLU](-(?!.*\|[BIESMLU]-).+)?")

TagSpan = tuple[int, int, str]


def split(tag: str) -> tuple[str, str]:
    """(prefix, label) of a tag; label "" for "O" and a prefix alone."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def _join(prefix: str, label: str) -> str:
    return f"{prefix}-{label}" if label else prefix


def spans(tags: Sequence[str], scheme: str) -> list[TagSpan]:
    """The entities of a sequence; raises ValueError for what is no tag."""
    for tag in tags:
        is_label = isinstance(tag, str) and tag != ""
        if not is_label or scheme != PLAIN and not _TAG.fullmatch(tag):
            expected = "O, or a prefix and a label, as in B-PER"
            raise ValueError(
                f"found tag '{tag}', expected {expected}; --label_column, --scheme"
            )
    if scheme == PLAIN:
        return [(i, i + 1, tag) for i, tag in enumerate(tags) if tag != OUTSIDE]
    found: list[TagSpan] = []
    begin, open_label = 0, None  # the entity that the word before belongs to
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, label = split(tag)
        is_outside = tag == OUTSIDE
        ends_before = is_outside or prefix in _BEGIN or label != open_label
        if open_label is not None and ends_before:
            found.append((begin, i, open_label))
            open_label = None
        if open_label is None and not is_outside:
            begin, open_label = i, label
        if prefix in _END:
            found.append((begin, i + 1, label))
            open_label = None
    return found


def tags_of(entities: Iterable[TagSpan], length: int, scheme: str) -> tuple[str, ...]:
    """The tags of `length` words with these entities, which do not overlap."""
    tags = [OUTSIDE] * length
    for start, end, label in entities:
        if scheme == PLAIN:
            tags[start:end] = [label] * (end - start)
            continue
        first, inside, last, only = tuple(_PREFIXES[scheme])
        middle = max(end - start - 2, 0) * inside
        prefixes = only if end - start == 1 else first + middle + last
        for i, prefix in enumerate(prefixes, start):
            tags[i] = _join(prefix, label)
    return tuple(tags)


def all_tags(tags: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags of a scheme that have the labels of these tags, by labels; of entities O first."""
    if scheme == PLAIN:
        return tuple(sorted(set(tags)))
    found = [OUTSIDE]
    labels = {split(tag)[1] for tag in tags if tag != OUTSIDE}
    for label in sorted(labels):
        for prefix in dict.fromkeys(_PREFIXES[scheme]):
            found.append(_join(prefix, label))
    return tuple(found)


# ---- scores


def by_label(
    found: Iterable[Sequence[TagSpan]], true: Iterable[Sequence[TagSpan]]
) -> dict[str, np.ndarray]:
    """The numbers of entities of each label, in alphabetical order: both found and true, found, and
    true, int [3]. found, true: spans of n sentences."""
    counts: dict[str, np.ndarray] = collections.defaultdict(lambda: np.zeros(3, int))
    for ours, gold in zip(found, true):
        # A span is (start, end, label): both have it only if words and label are the same.
        right = set(ours) & set(gold)
        for column, entities in enumerate((right, ours, gold)):
            for _, _, label in entities:
                counts[label][column] += 1
    return dict(sorted(counts.items()))


def total(counts: dict[str, np.ndarray]) -> np.ndarray:
    """The numbers of all labels together."""
    return sum(counts.values(), np.zeros(3, int))


def ratios(counts: np.ndarray) -> tuple[float, float, float]:
    """Precision, the fraction of the found ones that are right; recall, of the true ones that are
    found; F1, their harmonic mean. NaN where nothing is found, true, or either."""
    right, found, true = counts.tolist()
    precision = right / found if found else math.nan
    recall = right / true if true else math.nan
    both = found + true
    return precision, recall, 2 * right / both if both else math.nan


def table(counts: dict[str, np.ndarray]) -> str:
    """Precision, recall, F1 and true entities of each label and of all, as text. An undefined ratio
    is shown as 0, as in seqeval's report."""
    rows = {label or "_": count for label, count in counts.items()}
    rows["micro avg"] = total(counts)
    width = max(map(len, rows))
    lines = [f"{'label':<{width}}  precision  recall      f1  entities"]
    for name, count in rows.items():
        precision, recall, f1 = np.nan_to_num(ratios(count))
        numbers = f"{precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {count[2]:8d}"
        lines.append(f"{name:<{width}}  {numbers}")
    return "\n".join(lines)
