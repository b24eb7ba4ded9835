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

Spans are (first word, word after the last, label).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Optional

import numpy as np

from xlnet.errors import did_you_mean

OUTSIDE = "O"

# Prefixes of a scheme: of the first word of several, inner ones, the last one, the only one.
_PREFIXES = {
    "bio2": "BIIB",
    "iob1": "IIII",
    "bioes": "BIES",
    "bmes": "BMES",
    "bilou": "BILU",
    "ioe2": "IIEE",
}
SCHEMES = tuple(_PREFIXES)
_TOUCHES = "B"  # iob1: begins right after an entity of the same label
_BEGIN, _END = "BSU", "ELSU"  # prefixes at which an entity begins, ends in any scheme
_ALL = "BIMESLU"
_LABELS_LISTED = 20  # in an error; of more, their number

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
    return "".join(dict.fromkeys(_PREFIXES[scheme] + (_TOUCHES if scheme == "iob1" else "")))


def tag_error(tag: str, scheme: Optional[str] = None) -> Optional[str]:
    """The error of a tag in a file of the scheme, or of any scheme; None if it is right."""
    if "|" in tag and all(_is_tag(part, _ALL) for part in tag.split("|")):
        return f"tags '{tag}', expected one tag: nested entities are not read"
    known = prefixes(scheme) if scheme else _ALL
    if _is_tag(tag, known):
        return None
    return "tag '{}', expected O, or {} before a label, as in {}-PER{}".format(
        tag, ", ".join(known), known[0], f" (scheme {scheme})" if scheme else ""
    )


def _is_tag(tag: str, known: str) -> bool:
    """Whether a tag is O, or has one of the `known` prefixes, with a label or without hyphen."""
    if tag == OUTSIDE:
        return True
    prefix, label = split(tag)
    return len(prefix) == 1 and prefix in known and (label != "" or "-" not in tag)


# ---- spans and tags ----


def spans(tags: Sequence[str]) -> list[TagSpan]:
    """The entities of a sequence, by the rule of the module's first lines."""
    found: list[TagSpan] = []
    begin, open_label = 0, None  # the entity that the word before belongs to
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, label = split(tag)
        if open_label is not None and (tag == OUTSIDE or prefix in _BEGIN or label != open_label):
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
    first, inside, last, only = tuple(_PREFIXES[scheme])
    tags = [OUTSIDE] * length
    before = None  # (end, label) of the entity before
    for start, end, label in sorted(entities):
        middle = max(end - start - 2, 0) * inside
        prefixes = only if end - start == 1 else first + middle + last
        if scheme == "iob1" and before == (start, label):
            prefixes = _TOUCHES + prefixes[1:]
        tags[start:end] = [join(prefix, label) for prefix in prefixes]
        before = end, label
    return tuple(tags)


def repaired(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """The legal sequence with the same entities; a legal one is returned as it is."""
    return tags_of(spans(tags), len(tags), scheme)


def illegal(tags: Sequence[str], scheme: str) -> list[int]:
    """The words whose tags `repaired` changes."""
    return [i for i, pair in enumerate(zip(tags, repaired(tags, scheme))) if pair[0] != pair[1]]


def legal_transitions(tags: Sequence[str], scheme: str) -> tuple:
    """The legal transitions between L different `tags` of a learned scheme: bool arrays [L,L],
    whether a tag (row) may be followed by another one (column); [L], whether it may be the first;
    [L], whether it may be the last."""
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


# ---- the scheme of a file ----


def fitting(sequences: Collection[Sequence[str]]) -> Optional[str]:
    """The scheme in which the fewest tags of a file are illegal; None if no scheme has all of its
    prefixes. It only words errors: a file has the scheme that was declared."""
    found = set()
    for tags in sequences:
        for tag in tags:
            if tag_error(tag) is not None:
                return None
            if tag != OUTSIDE:
                found.add(split(tag)[0])
    best: Optional[str] = None
    fewest = 0
    for scheme in SCHEMES:
        if not found <= set(prefixes(scheme)):
            continue
        count = sum(len(illegal(tags, scheme)) for tags in sequences)
        if best is None or count < fewest:
            best, fewest = scheme, count
    return best


def learned(scheme: str) -> str:
    """The scheme that a network learns for files of `scheme`: bio2 for iob1, whose prefix B is too
    rare to learn, and for ioe2, whose prefixes do not mark where an entity begins."""
    return "bio2" if scheme in ("iob1", "ioe2") else scheme


def labels_of(sequences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The labels of all entities, sorted."""
    return tuple(sorted({split(tag)[1] for tags in sequences for tag in tags if tag != OUTSIDE}))


def all_tags(labels: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags of a scheme with these labels, O first."""
    return (OUTSIDE, *(join(prefix, label) for label in labels for prefix in prefixes(scheme)))


def unknown_label(tag: str, labels: Sequence[str], has_nearest: bool = True) -> Optional[str]:
    """The error of a tag whose label was not in training; None if it was. has_nearest: whether to
    name the nearest label, which takes long where there are thousands."""
    label = split(tag)[1]
    if tag == OUTSIDE or label in labels:
        return None
    nearest = did_you_mean(label, labels) if has_nearest else ""
    listed = f"labels: {', '.join(labels)}"
    if len(labels) > _LABELS_LISTED:
        listed = f"{len(labels):,} labels"
    return f"tag '{tag}' was not in training{nearest} ({listed})"
