"""Predictions for a text as Python objects: the return values of `xlnet.load`'s objects.

`tokens_read` is how many tokens of its texts the network read, of `tokens`, without special ones;
where it is less, the rest was cut; `unknown_tokens` of them are not in the vocabulary. None: they
were not counted, as in prediction files.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional


class Label(NamedTuple):
    """One label out of several."""

    label: str
    probability: float
    probabilities: dict[str, float]  # of all labels
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The label alone, as of `Labels`."""
        return (self.label,)


class Labels(NamedTuple):
    """Any number of labels."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]  # of all labels, independent of each other
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None

    @property
    def label(self) -> str:
        """The most probable label, whether it is one of `labels` or not."""
        return max(self.probabilities, key=lambda name: self.probabilities[name])

    @property
    def probability(self) -> float:
        """That of `label`."""
        return self.probabilities[self.label]


class Choice(NamedTuple):
    """The right one of several answers."""

    number: int  # from 0 on
    label: str  # its name in the files of the training data
    probabilities: tuple[float, ...]  # of all answers
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None


class Ranked(NamedTuple):
    """A document of a ranking."""

    number: int  # which of the given ones, from 0 on
    score: float  # the higher, the more relevant


class Span(NamedTuple):
    """Characters `start` to before `end` of a text."""

    text: str
    start: int
    end: int
    probability: float  # relative to the best spans, whose sum is 1


class Answer(NamedTuple):
    """The answer to a question; its characters in the context are `start` to before `end`."""

    text: str  # "" if there is no answer
    start: Optional[int]  # None if there is no answer
    end: Optional[int]
    best: tuple[Span, ...]  # the best spans, whether there is an answer or not
    null_probability: float  # of no answer
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None


class Entity(NamedTuple):
    """Characters `start` to before `end` of a text, or of the words of a sentence."""

    label: str
    text: str
    start: int
    end: int
    score: Optional[float] = None  # the mean probability of its tags


class Tagged(NamedTuple):
    """Words with their tags, and the entities of the tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[Entity, ...]
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None


def as_json(result: Any, names: Any) -> dict[str, Any]:
    """A result of `Scorer.results` by the names of `Export.outputs`, as of an exported model;
    names: of all labels."""
    if isinstance(result, Label):
        return {
            "label": result.label,
            "probabilities": list(result.probabilities.values()),
        }
    if isinstance(result, Choice):
        absent = [0.0] * (len(names) - len(result.probabilities))
        return {
            "label": result.label,
            "probabilities": [*result.probabilities, *absent],
        }
    if isinstance(result, Labels):
        return {
            "is_label": [name in result.labels for name in names],
            "probabilities": list(result.probabilities.values()),
        }
    if isinstance(result, Answer):
        return {
            "answer": result.text,
            "start": -1 if result.start is None else result.start,
            "end": -1 if result.end is None else result.end,
            "probability": result.best[0].probability if result.best else 0.0,
            "null_probability": result.null_probability,
            "texts": [span.text for span in result.best],
            "probabilities": [span.probability for span in result.best],
        }
    if isinstance(result, Tagged):
        return {
            "words": list(result.words),
            "tags": list(result.tags),
            "entity_labels": [each.label for each in result.entities],
            "entity_starts": [each.start for each in result.entities],
            "entity_ends": [each.end for each in result.entities],
            "entity_scores": [each.score for each in result.entities],
        }
    return {"score": result}
