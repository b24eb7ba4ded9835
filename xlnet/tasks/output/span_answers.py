"""The best spans over all windows of a paragraph, as texts and in the official forms.

Shape letters: n questions, m windows, S starts, E ends of each start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import regex
from scipy import special

from xlnet.tasks.output import results
from xlnet.tasks.output.results import Answer
from xlnet.tasks.task import Row
from xlnet.tokenization.tokenizer import HAN_OR_KANA


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
    """The spans of n questions from the network's outputs for their m windows, a dict of
    `start_log_prob`, `char_start` [m,S], `end_log_prob`, `char_end`, `is_allowed` [m,S,E],
    `null_score` [m]. windows: int [n], how many each question has, in order."""
    shape = outputs["is_allowed"].shape
    starts, start_scores = (
        np.broadcast_to(outputs[name][:, :, None], shape)
        for name in ("char_start", "start_log_prob")
    )
    found, first = [], 0
    for count in windows.tolist():
        part = slice(first, first + count)
        chosen = outputs["is_allowed"][part]
        # Spans [m,S,E] become a list for each question. The spans of all its windows compete by the
        # sum of both log probabilities, each normalized over its own window, as in the original.
        spans = [
            ScoredSpan(int(start), int(end), float(start_score), float(end_score))
            for start, end, start_score, end_score in zip(
                starts[part][chosen],
                outputs["char_end"][part][chosen],
                start_scores[part][chosen],
                outputs["end_log_prob"][part][chosen],
            )
        ]
        found.append(
            BestSpans(
                sorted(spans, key=lambda span: -span.score),
                float(outputs["null_score"][part].min()),
            )
        )
        first += count
    return found


def distinct(context: str, spans: Sequence[ScoredSpan], most: int) -> list[tuple[str, ScoredSpan]]:
    """The best (text, span) pairs, `most` of them, each text once and none empty."""
    texts: dict[str, ScoredSpan] = {}
    for span in spans:
        text = context[span.start : span.end].strip()
        if text and text not in texts:
            texts[text] = span
            if len(texts) == most:
                break
    return list(texts.items())


def texts(rows: Sequence[Row], values: Sequence[BestSpans]) -> list[str]:
    """The best span of each question as text, whether there is an answer or not; "" if no span is
    allowed."""
    best = [distinct(row.pairs[0][0], found.spans, 1) for row, found in zip(rows, values)]
    return [pairs[0][0] if pairs else "" for pairs in best]


def null_probabilities(values: Sequence[BestSpans]) -> np.ndarray:
    """The probability that a question has no answer, float64 [n]."""
    return special.expit(np.array([found.null_score for found in values], np.float64))


def official(
    rows: Sequence[Row], values: Sequence[BestSpans], n_best_size: int, threshold: float
) -> tuple[dict, dict, dict]:
    """Dicts by question: the answer, "" for none; the n best answers with probabilities whose sum
    is 1, whether there is an answer or not; the probability of no answer."""
    answers, n_best, null = {}, {}, {}
    for row, best, has_answer, probability in _predicted(rows, values, n_best_size, threshold):
        answers[row.id] = best[0][0] if has_answer else ""
        null[row.id] = probability
        n_best[row.id] = [
            {
                "text": text,
                "probability": ratio,
                "start_log_prob": span.start_log_prob,
                "end_log_prob": span.end_log_prob,
                "start": span.start,
            }
            for text, span, ratio in best
        ]
    return answers, n_best, null


def answers(
    rows: Sequence[Row], values: Sequence[BestSpans], n_best_size: int, threshold: float
) -> list[Answer]:
    """The same as `official`, as an object for each question."""
    made = []
    for row, best, has_answer, probability in _predicted(rows, values, n_best_size, threshold):
        starts = [
            row.pairs[0][0].index(text, span.start)  # a span may begin with spaces
            for text, span, _ in best
        ]
        spans = tuple(
            results.Span(text, start, start + len(text), ratio)
            for (text, _, ratio), start in zip(best, starts)
        )
        text, start, end = spans[0][:3] if has_answer else ("", None, None)
        made.append(Answer(text, start, end, spans, probability))
    return made


def _predicted(
    rows: Sequence[Row], values: Sequence[BestSpans], most: int, threshold: float
) -> Iterator[tuple[Row, list[tuple[str, ScoredSpan, float]], bool, float]]:
    """Yields of each question: row, its best (text, span, probability), whether it has an answer,
    the probability of no answer."""
    for row, found, probability in zip(rows, values, null_probabilities(values).tolist()):
        best = distinct(row.pairs[0][0], found.spans, most)
        ratios = special.softmax([span.score for _, span in best]).tolist() if best else []
        yield (
            row,
            [(*one, ratio) for one, ratio in zip(best, ratios)],
            bool(best) and probability <= threshold,
            probability,
        )


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# ---- the baseline

_SURELY_ANSWERED = -1e9  # a null score

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_UNIT = regex.compile(f"[{HAN_OR_KANA}]|\\w+")


def closest_sentence(context: str, question: str) -> BestSpans:
    """The first of the sentences with the most words of the question."""
    wanted = set(_UNIT.findall(question.lower()))
    ends = [match.start() for match in _SENTENCE_END.finditer(context)] + [len(context)]
    best, start = (-1, 0, 0), 0
    for end in ends:
        shared = len(wanted & set(_UNIT.findall(context[start:end].lower())))
        if shared > best[0]:
            best = (shared, start, end)
        start = end
    return BestSpans([ScoredSpan(best[1], best[2], 0.0, 0.0)], _SURELY_ANSWERED)
