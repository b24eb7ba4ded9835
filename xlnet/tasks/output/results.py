"""What a model says of a text, as Python has it: the answers of `xlnet.load`'s objects."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Label(NamedTuple):
    """One label out of several. probabilities: of all labels by name."""
    label: str
    probability: float
    probabilities: dict[str, float]


class Labels(NamedTuple):
    """Any number of labels. probabilities: of all labels by name, independent of each other."""
    labels: tuple[str, ...]
    probabilities: dict[str, float]


class Choice(NamedTuple):
    """The right one of several answers. number: from 0 on. label: its name in the files that the
    model learned from. probabilities: of all of them."""
    number: int
    label: str
    probabilities: tuple[float, ...]


class Ranked(NamedTuple):
    """A document. number: which of the given ones, from 0 on. score: the higher the better."""
    number: int
    score: float


class Span(NamedTuple):
    """Characters `start` to before `end` of a text. probability: its share among the best ones."""
    text: str
    start: int
    end: int
    probability: float


class Answer(NamedTuple):
    """The answer to a question, "" where there is none. start, end: its characters in the context;
    None without an answer. best: the best spans, whether there is an answer or not.
    null_probability: that there is none."""
    text: str
    start: Optional[int]
    end: Optional[int]
    best: tuple[Span, ...]
    null_probability: float


class Entity(NamedTuple):
    """Characters `start` to before `end` of a text; of words, which words."""
    label: str
    text: str
    start: int
    end: int


class Tagged(NamedTuple):
    """Words with their tags, and the entities that these mean."""
    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[Entity, ...]
