"""The best spans over all windows of a paragraph, as texts and in the official forms.

Shape letters: n questions, m windows, S starts, E ends of each start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from xlnet.tasks.output import results
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.task import Row


class ScoredSpan(NamedTuple):
    """Characters `start` to before `end` of the context, and log probabilities."""

    start: int
    end: int
    start_log_prob: float
    end_log_prob: float

    @property
    def score(self) -> float:
        return self.start_log_prob + self.end_log_prob


class BestSpans(NamedTuple):
    """The predictions for a question."""

    spans: list[ScoredSpan]  # best first
    null_score: float  # lowest logit of "no answer" over its windows


def join(outputs: dict[str, np.ndarray], windows: np.ndarray) -> list[BestSpans]:
    """The spans of n questions from the network's outputs for their m windows.

    Args:
      outputs: `start_log_prob`, `char_start` [m,S], `end_log_prob`, `char_end`, `is_allowed`
        [m,S,E], `null_score` [m].
      windows: int [n], how many windows each question has, in order.
    """
    joined, first = [], 0
    for count in windows.tolist():
        # The spans of all windows of a question compete by the sum of both log probabilities, each
        # normalized over its own window, as in the original.
        spans = []
        for window in range(first, first + count):
            for s, e in np.argwhere(outputs["is_allowed"][window]):
                spans.append(
                    ScoredSpan(
                        int(outputs["char_start"][window, s]),
                        int(outputs["char_end"][window, s, e]),
                        float(outputs["start_log_prob"][window, s]),
                        float(outputs["end_log_prob"][window, s, e]),
                    )
                )
        spans.sort(key=lambda span: -span.score)
        null_score = outputs["null_score"][first : first + count].min()
        joined.append(BestSpans(spans, float(null_score)))
        first += count
    return joined


def distinct(
    context: str, spans: Sequence[ScoredSpan], most: int
) -> list[tuple[str, ScoredSpan]]:
    """The best (text, span) pairs, `most` of them, each text once and none empty."""
    texts: dict[str, ScoredSpan] = {}
    for span in spans:
        text = context[span.start : span.end].strip()
        if text and len(texts) < most:
            texts.setdefault(text, span)
    return list(texts.items())


def null_probabilities(values: Sequence[BestSpans]) -> np.ndarray:
    """The probability that a question has no answer, float64 [n]."""
    return special.expit(np.array([found.null_score for found in values], np.float64))


def answers(
    rows: Sequence[Row], values: Sequence[BestSpans], n_best_size: int, threshold: float
) -> list[results.Answer]:
    """The answer to each question: none where the probability of no answer is above `threshold`, or
    no span is allowed; with the `n_best_size` best spans, whether there is an answer or not."""
    made = []
    for row, found, null in zip(rows, values, null_probabilities(values).tolist()):
        context = row.pairs[0][0]
        best = []
        pairs = distinct(context, found.spans, n_best_size)
        ratios = special.softmax([span.score for _, span in pairs]) if pairs else []
        for (text, span), ratio in zip(pairs, ratios):
            start = context.index(text, span.start)  # a span may begin with spaces
            best.append(results.Span(text, start, start + len(text), float(ratio)))
        has_answer = bool(best) and null <= threshold
        text, start, end = best[0][:3] if has_answer else ("", None, None)
        made.append(results.Answer(text, start, end, tuple(best), null))
    return made


def official_files(
    rows: Sequence[Row], values: Sequence[BestSpans], n_best_size: int, threshold: float
) -> list[PredictionFile]:
    """By question: the answer, "" for none; the n best answers with probabilities whose sum is 1;
    the probability of no answer."""
    texts, null = {}, {}
    n_best: dict[str, list] = {}
    found = answers(rows, values, n_best_size, threshold)
    for row, answer, value in zip(rows, found, values):
        texts[row.id] = answer.text
        null[row.id] = answer.null_probability
        n_best[row.id] = []
        pairs = distinct(row.pairs[0][0], value.spans, n_best_size)
        for best, (_, span) in zip(answer.best, pairs):
            n_best[row.id].append(
                {
                    "text": best.text,
                    "probability": best.probability,
                    "start_log_prob": span.start_log_prob,
                    "end_log_prob": span.end_log_prob,
                }
            )
    return [
        PredictionFile("json", None, [_as_json(texts)]),
        PredictionFile("nbest.json", "n best answers", [_as_json(n_best)]),
        PredictionFile("na_prob.json", "probabilities of no answer", [_as_json(null)]),
    ]


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
