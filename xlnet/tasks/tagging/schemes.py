"""Tag schemes: how the tags of words mark the beginning and the end of entities; and the scores of
entities, together and by label, as in seqeval: an entity is right if its words and its label are.

A tag is O, outside of entities, or a prefix and a label, such as B-PER:

    scheme   one word   two   three words       begins an entity
    iob1     I          I I   I I I             I; B only right after an entity of the same label
    bio2     B          B I   B I I             B
    bioes    S          B E   B I E             B or S
    bmes     S          B E   B M E             B or S
    bilou    U          B L   B I L             B or U
    ioe2     E          I E   I I E             the word after the one before, which ends at E

Any sequence, legal or not, is read as conlleval and seqeval read it: an entity begins at B, S and
U, and at any other tag but O if the word before does not belong to an open entity of the same
label; it ends at E, L, S and U, before the next one begins, and before O. A sequence is repaired by
writing the entities that were read in this way by the scheme's rules.

In the scheme plain, a tag is a label without a prefix, such as a part of speech or a language: each
word is an entity of its own. O is a label like others, but not an entity.

Spans are (first word, word after the last, label). Shape letters: n sentences, W words of one, L
tags.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np

OUTSIDE = "O"
PLAIN = "plain"

# Prefixes of a scheme: of the first word of several, inner ones, the last one, the only one.
_PREFIXES = {
    "bio2": "BIIB",
    "iob1": "IIII",
    "bioes": "BIES",
    "bmes": "BMES",
    "bilou": "BILU",
    "ioe2": "IIEE",
}
_TOUCHES = "B"  # iob1: begins right after an entity of the same label
_BEGIN, _END = "BSU", "ELSU"  # prefixes at which an entity begins, ends in any scheme
_LABELS_LISTED = 20  # in an error

TagSpan = tuple[int, int, str]


def split(tag: str) -> tuple[str, str]:
    """(prefix, label) of a tag; label "" for "O" and a prefix alone."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def join(prefix: str, label: str) -> str:
    """The tag of a prefix and a label."""
    return f"{prefix}-{label}" if label else prefix


def prefixes(scheme: str) -> str:
    """The prefixes that occur in a scheme, each once."""
    found = _PREFIXES[scheme] + (_TOUCHES if scheme == "iob1" else "")
    return "".join(dict.fromkeys(found))


def label_of(tag: str, scheme: str) -> str:
    """The label of a tag but O."""
    return tag if scheme == PLAIN else split(tag)[1]


# ---- the tags of a file


def is_tag(tag: str, scheme: str) -> bool:
    """Whether a tag is one of a scheme."""
    if scheme == PLAIN:
        return tag != ""
    prefix, label = split(tag)
    is_known = len(prefix) == 1 and prefix in prefixes(scheme)
    return tag == OUTSIDE or is_known and (label != "" or "-" not in tag)


def check(tag: str, scheme: str, labels: Optional[Collection[str]] = None) -> None:
    """Raises ValueError unless a tag is one of a scheme, with one of `labels`; None: any label."""
    # The tags of nested entities are B-LOC|B-ORG; a bar within a label is a character.
    parts = tag.split("|") if scheme != PLAIN else [tag]
    are_tags = all(is_tag(part, scheme) for part in parts)
    is_nested = len(parts) > 1 and are_tags
    if is_nested or not is_tag(tag, scheme):
        expected = "a label"
        if scheme != PLAIN:
            known = prefixes(scheme)
            expected = f"O, or {', '.join(known)} before a label, as in {known[0]}-PER"
        found = f"found tag '{tag}', expected {expected}"
        raise ValueError(f"{found}; --scheme is {scheme}")
    if tag == OUTSIDE and scheme != PLAIN:
        return
    if labels is not None and label_of(tag, scheme) not in labels:
        listed = ", ".join(sorted(labels)[:_LABELS_LISTED])
        expected = f"one of {len(labels)} labels: {listed}"
        raise ValueError(f"found tag '{tag}', expected {expected}")


# ---- spans and tags


def spans(tags: Sequence[str], scheme: str) -> list[TagSpan]:
    """The entities of a sequence, by the rule of the module's first lines."""
    if scheme == PLAIN:
        return [(i, i + 1, tag) for i, tag in enumerate(tags) if tag != OUTSIDE]
    found: list[TagSpan] = []
    begin, open_label = 0, None  # the entity that the word before belongs to
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, label = split(tag)
        begins_anew = prefix in _BEGIN or label != open_label
        if open_label is not None and (tag == OUTSIDE or begins_anew):
            found.append((begin, i, open_label))
            open_label = None
        if tag == OUTSIDE:
            continue
        if open_label is None:
            begin, open_label = i, label
        if prefix in _END:
            found.append((begin, i + 1, label))
            open_label = None
    return found


def tags_of(entities: Iterable[TagSpan], length: int, scheme: str) -> tuple[str, ...]:
    """The legal tags of `length` words with these entities, which do not overlap."""
    tags = [OUTSIDE] * length
    before = None  # (end, label) of the entity before
    for start, end, label in sorted(entities):
        if scheme == PLAIN:
            tags[start:end] = [label] * (end - start)
            continue
        first, inside, last, only = tuple(_PREFIXES[scheme])
        middle = max(end - start - 2, 0) * inside
        prefixes = only if end - start == 1 else first + middle + last
        if scheme == "iob1" and before == (start, label):
            prefixes = _TOUCHES + prefixes[1:]
        tags[start:end] = [join(prefix, label) for prefix in prefixes]
        before = end, label
    return tuple(tags)


def legal_transitions(tags: Sequence[str], scheme: str) -> tuple:
    """The legal transitions between L different `tags` of a learned scheme: bool arrays [L,L],
    whether a tag (row) may be followed by another one (column); [L], whether it may be the first;
    [L], whether it may be the last."""
    if scheme == PLAIN:
        count = len(tags)
        return np.ones((count, count), bool), np.ones(count, bool), np.ones(count, bool)
    # Example: bioes has O, B-X, I-X, E-X and S-X. I and E continue an entity. After B and I the
    # entity is open and unfinished, so I or E of the same label must follow. In bio2 an entity is
    # open after B and I, too, but is never unfinished, as its last word has the prefix of an inner
    # one.
    first, inside, last, only = tuple(_PREFIXES[scheme])
    prefixes, labels = zip(*map(split, tags))
    continues = np.isin(prefixes, (inside, last)) & ~np.isin(prefixes, (first, only))
    is_open = np.isin(prefixes, (first, inside))
    is_unfinished = is_open & ~np.isin(prefixes, (last, only))
    same = np.equal.outer(labels, labels)
    after = np.where(continues[None], same & is_open[:, None], ~is_unfinished[:, None])
    return after, ~continues, ~is_unfinished


# ---- the tags of a task


def learned(scheme: str) -> str:
    """The scheme that a network learns for files of `scheme`: bio2 for iob1, whose prefix B is too
    rare to learn, and for ioe2, whose prefixes do not mark where an entity begins."""
    return "bio2" if scheme in ("iob1", "ioe2") else scheme


def labels_of(sequences: Iterable[Sequence[str]], scheme: str) -> tuple[str, ...]:
    """The labels of all tags, sorted: those of entities, and the O of plain."""
    found = set()
    for tags in sequences:
        for tag in tags:
            if tag != OUTSIDE or scheme == PLAIN:
                found.add(label_of(tag, scheme))
    return tuple(sorted(found))


def all_tags(labels: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags of a scheme with these labels, O first."""
    if scheme == PLAIN:
        return tuple(labels)
    tags = [OUTSIDE]
    for label in labels:
        tags += [join(prefix, label) for prefix in prefixes(scheme)]
    return tuple(tags)


# ---- scores


class Counts(NamedTuple):
    """Numbers of entities: both found and true, found, and true."""

    right: int
    found: int
    true: int

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Precision, the fraction of the found ones that are right; recall, of the true ones that
        are found; F1, their harmonic mean. NaN where nothing is found, true, or either."""
        precision = self.right / self.found if self.found else math.nan
        recall = self.right / self.true if self.true else math.nan
        both = self.found + self.true
        return precision, recall, 2 * self.right / both if both else math.nan


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
    """Precision, recall, F1 and true entities of each label and of all, as text. An undefined ratio
    is shown as 0, as in seqeval's report."""
    rows = {label or "_": count for label, count in counts.items()}
    rows["micro avg"] = total(counts)
    width = max(map(len, rows))
    lines = [f"{'label':<{width}}  precision  recall      f1  entities"]
    for name, count in rows.items():
        precision, recall, f1 = np.nan_to_num(count.ratios)
        lines.append(
            f"{name:<{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {count.true:8d}"
        )
    return "\n".join(lines)
