"""Tag schemes: how the tags of words mark the beginning and the end of entities.

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

Spans are (first word, word after the last, label).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Optional

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
    return "".join(
        dict.fromkeys(_PREFIXES[scheme] + (_TOUCHES if scheme == "iob1" else ""))
    )


def label_of(tag: str, scheme: str) -> str:
    """The label of a tag but O."""
    return tag if scheme == PLAIN else split(tag)[1]


# ---- the tags of a file


def is_tag(tag: str, scheme: str) -> bool:
    """Whether a tag is one of a scheme."""
    if scheme == PLAIN:
        return tag != ""
    prefix, label = split(tag)
    if tag == OUTSIDE:
        return True
    return (
        len(prefix) == 1
        and prefix in prefixes(scheme)
        and (label != "" or "-" not in tag)
    )


def check(tag: str, scheme: str, labels: Optional[Collection[str]] = None) -> None:
    """Raises ValueError unless a tag is one of a scheme, with one of `labels`; None: any label."""
    # The tags of nested entities are B-LOC|B-ORG; a bar within a label is a character.
    parts = tag.split("|")
    is_nested = (
        scheme != PLAIN
        and len(parts) > 1
        and all(is_tag(part, scheme) for part in parts)
    )
    if is_nested or not is_tag(tag, scheme):
        expected = "a label"
        if scheme != PLAIN:
            known = prefixes(scheme)
            expected = f"O, or {', '.join(known)} before a label, as in {known[0]}-PER"
        raise ValueError(
            f"found tag '{tag}', expected {expected}; --scheme is {scheme}"
        )
    if labels is None or label_of(tag, scheme) in labels:
        return
    if tag != OUTSIDE or scheme == PLAIN:
        listed = ", ".join(sorted(labels)[:_LABELS_LISTED])
        raise ValueError(
            f"found tag '{tag}', expected one of {len(labels)} labels: {listed}"
        )


# ---- spans and tags


def spans(tags: Sequence[str], scheme: str) -> list[TagSpan]:
    """The entities of a sequence, by the rule of the module's first lines."""
    if scheme == PLAIN:
        return [(i, i + 1, tag) for i, tag in enumerate(tags) if tag != OUTSIDE]
    found: list[TagSpan] = []
    begin, open_label = 0, None  # the entity that the word before belongs to
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, label = split(tag)
        if open_label is not None and (
            tag == OUTSIDE or prefix in _BEGIN or label != open_label
        ):
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
