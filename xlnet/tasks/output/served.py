"""The outputs of a served model by name: tensors of an export, or Python values of a result."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

from xlnet.tasks.output import results


class Label(NamedTuple):
    """Of one label out of several, also of a choice."""
    label: Any
    probabilities: Any


class Labels(NamedTuple):
    """Of any number of labels, each in the order of the names of all."""
    is_label: Any
    probabilities: Any


class Score(NamedTuple):
    score: Any


class Answer(NamedTuple):
    """Of an answer to a question; "" and -1 if there is none. texts, probabilities: of the best
    spans; probability: of the first of these."""
    answer: Any
    start: Any
    end: Any
    probability: Any
    null_probability: Any
    texts: Any
    probabilities: Any


class Tagged(NamedTuple):
    """Of words with tags, and entities by characters."""
    words: Any
    tags: Any
    entity_labels: Any
    entity_starts: Any
    entity_ends: Any


def of(result: Any, names: Any) -> Union[Label, Labels, Score, Answer, Tagged]:
    """The outputs for a result of `Scorer.results`. names: of all labels."""
    if isinstance(result, results.Label):
        return Label(result.label, list(result.probabilities.values()))
    if isinstance(result, results.Choice):
        return Label(result.label, list(result.probabilities))
    if isinstance(result, results.Labels):
        return Labels([name in result.labels for name in names],
                      list(result.probabilities.values()))
    if isinstance(result, results.Answer):
        return Answer(result.text, -1 if result.start is None else result.start,
                      -1 if result.end is None else result.end,
                      result.best[0].probability if result.best else 0., result.null_probability,
                      [span.text for span in result.best],
                      [span.probability for span in result.best])
    if isinstance(result, results.Tagged):
        entities = result.entities
        return Tagged(list(result.words), list(result.tags), [each.label for each in entities],
                      [each.start for each in entities], [each.end for each in entities])
    return Score(result)
