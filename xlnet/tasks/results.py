"""Predictions: Python objects, which `xlnet.load`'s methods return, and lines of files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


def separated(rows: Iterable[Iterable[str]], delimiter: str = "\t") -> Iterator[str]:
    """Yields the lines of a table. Cells with a delimiter, a line end or a quotation mark are
    between quotation marks."""
    for cells in rows:
        # A cell with a character of the end of a line is quoted, also with a carriage return alone.
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
        yield text.getvalue().removesuffix("\r\n") + "\n"


def json_lines(values: Iterable[dict]) -> Iterator[str]:
    """Yields a JSON object a line."""
    for value in values:
        yield json.dumps(value, ensure_ascii=False) + "\n"


# ---- the predictions for a text


class Label(NamedTuple):
    """One label out of several."""

    label: str
    probability: float
    probabilities: dict[str, float]  # of all labels

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        probabilities = list(self.probabilities.values())
        return {"label": self.label, "probabilities": probabilities}


class Labels(NamedTuple):
    """Any number of labels."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]  # of all labels, independent of each other

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        are_labels = [name in self.labels for name in self.probabilities]
        probabilities = list(self.probabilities.values())
        return {"is_label": are_labels, "probabilities": probabilities}


class Choice(NamedTuple):
    """The right one of several answers."""

    number: int  # from 0 on
    label: str  # its name in the files of the training data
    probabilities: tuple[float, ...]  # of all answers

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        return {"label": self.label, "probabilities": list(self.probabilities)}


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
    start_log_prob: float
    end_log_prob: float


class Answer(NamedTuple):
    """The answer to a question; its characters in the context are `start` to before `end`."""

    text: str  # "" if there is no answer
    start: int | None  # None if there is no answer
    end: int | None
    best: tuple[Span, ...]  # the best spans, whether there is an answer or not
    null_probability: float  # of no answer

    def named(self) -> dict[str, Any]:
        """As of an exported model. "probability" is that of the best span, also where there is no
        answer."""
        return {
            "answer": self.text,
            "start": -1 if self.start is None else self.start,
            "end": -1 if self.end is None else self.end,
            "probability": self.best[0].probability if self.best else 0.0,
            "null_probability": self.null_probability,
            "texts": [span.text for span in self.best],
            "probabilities": [span.probability for span in self.best],
        }


class Entity(NamedTuple):
    """Characters `start` to before `end` of a text, or of the words of a sentence."""

    label: str
    text: str
    start: int
    end: int
    score: float | None = None  # the mean probability of its tags


class Tagged(NamedTuple):
    """Words with their tags, and the entities of the tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[Entity, ...]

    def named(self) -> dict[str, Any]:
        """As of an exported model."""
        return {
            "words": list(self.words),
            "tags": list(self.tags),
            "entity_labels": [each.label for each in self.entities],
            "entity_starts": [each.start for each in self.entities],
            "entity_ends": [each.end for each in self.entities],
            "entity_scores": [each.score for each in self.entities],
        }
