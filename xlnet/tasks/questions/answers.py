"""Answers: the best spans over all windows of a paragraph as texts, in the official forms; exact
match and F1, a function for each official script: SQuAD 1.1, 2.0 and CMRC 2018.

Shape letters: n questions, m windows, S starts, E ends of each start.
"""

from __future__ import annotations

import collections
import difflib
import json
import re
import string
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
            entry: dict[str, Any] = {"text": best.text, "probability": best.probability}
            entry["start_log_prob"] = span.start_log_prob
            entry["end_log_prob"] = span.end_log_prob
            n_best[row.id].append(entry)
    return [
        PredictionFile("json", None, [_as_json(texts)]),
        PredictionFile("nbest.json", "n best answers", [_as_json(n_best)]),
        PredictionFile("na_prob.json", "probabilities of no answer", [_as_json(null)]),
    ]


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# ---- scores: (exact match, F1) of a predicted text with the best of the gold answers, from 0 to 1


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _words(text: str) -> list[str]:
    """Words in lower case, without ASCII punctuation and English articles, as SQuAD's scripts."""
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()


def _f1(common: int, predicted: int, true: int) -> float:
    """F1 of `common` units among those predicted and those of the answer."""
    return 2 * common / (predicted + true) if common else 0.0


def squad_1(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
    """SQuAD 1.1: two texts without a word are equal, and have an F1 of 0."""
    predicted, exact, f1 = _words(prediction), 0.0, 0.0
    for answer in answers:
        true = _words(answer)
        shared = collections.Counter(predicted) & collections.Counter(true)
        exact = max(exact, float(predicted == true))
        f1 = max(f1, _f1(sum(shared.values()), len(predicted), len(true)))
    return exact, f1


def squad_2(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
    """SQuAD 2.0: answers without a word do not count. Where none is left, a prediction is right if
    it has no word either."""
    with_words = [answer for answer in answers if _words(answer)]
    if not with_words:
        is_right = float(not _words(prediction))
        return is_right, is_right
    return squad_1(prediction, with_words)


# The characters that CMRC's script drops; ASCII's full stop, comma and brackets are not among them.
_LEFT_OUT = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE = re.compile("([\u4e00-\u9fa5])")
# Words between Chinese, almost as in NLTK's word_tokenize: commas and colons stay before a digit,
# a word keeps its points except one at the end.
_WORD = re.compile(
    r"""n't\b | '(?:s|m|d|ll|re|ve)\b
                       | (?: (?!n't\b) (?: [^\s;@\#$%&?!()\[\]{}<>"“—,:'.] | [,:](?=\d)
                                           | (?<=\w)'(?=\w)(?!(?:s|m|d|ll|re|ve|t)\b)
                                           | \.(?=\w) | (?<=\w)\.(?!\s*$|\.)) )+
                       | \.+ | \S""",
    re.VERBOSE,
)
_OPENING = re.compile(r'(^|(?<=[ (\[{<]))"')


def segments(text: str) -> list[str]:
    """Chinese characters and words of other scripts, of a text of `_squeezed`."""
    found = []
    for part in _CHINESE.split(text):
        found += _WORD.findall(_OPENING.sub("“", part))
    return found


def _squeezed(text: str) -> str:
    """Lower case, without punctuation."""
    return "".join(c for c in text.lower().strip() if c not in _LEFT_OUT)


def cmrc(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
    """CMRC 2018: F1 of the longest run of characters and words that both texts have."""
    exact, f1 = 0.0, 0.0
    squeezed = _squeezed(prediction)
    predicted = segments(squeezed)
    for answer in answers:
        true = segments(_squeezed(answer))
        runs = difflib.SequenceMatcher(None, predicted, true, autojunk=False)
        common = runs.find_longest_match(0, len(predicted), 0, len(true)).size
        exact = max(exact, float(squeezed == _squeezed(answer)))
        f1 = max(f1, _f1(common, len(predicted), len(true)))
    return exact, f1


RULES = {"squad1.1": squad_1, "squad2.0": squad_2, "characters": cmrc}


def scores(
    rule: str, predictions: Sequence[str], answers: Sequence[Sequence[str]]
) -> np.ndarray:
    """Exact match and F1 of n questions, float64 [n,2]. rule: a key of `RULES`. A question without
    answers, which only SQuAD 2.0's script knows, wants the empty text."""
    found = np.zeros((len(predictions), 2))
    for i, (prediction, texts) in enumerate(zip(predictions, answers)):
        found[i] = RULES[rule](prediction, texts) if prediction or texts else 1.0
    return found


def summary(found: np.ndarray, has_answer: np.ndarray) -> dict:
    """Means in percent, named as in the official script: over all questions, and if some have no
    answer, over those with and without one.

    Args:
      found: as of `scores`, [n,2].
      has_answer: bool [n].
    """
    parts = {"": np.ones(len(found), bool)}
    if not has_answer.all():
        parts.update({"HasAns_": has_answer, "NoAns_": ~has_answer})
    result = {}
    for name, chosen in parts.items():
        if chosen.any():
            exact, f1 = 100.0 * found[chosen].mean(axis=0)
            result[name + "exact"] = float(exact)
            result[name + "f1"] = float(f1)
    return result


def best_threshold(
    values: np.ndarray,
    predictions: Sequence[str],
    has_answer: np.ndarray,
    null: np.ndarray,
) -> tuple[float, float]:
    """(the best mean in percent, its threshold): no answer counts where `null` is above.

    Args:
      values: a column of `scores` for the predictions, [n].
      predictions: the best texts, whether there is an answer or not.
      has_answer: bool [n].
      null: the probability of no answer, float [n].
    """
    # As in the official script, the questions are answered one after the other, those with the
    # surest answers first. One with an answer then adds its value; one without loses the 1 that it
    # has as long as no answer is predicted, unless the text that is predicted is empty anyway.
    total = best = float(np.count_nonzero(~has_answer))
    threshold = 0.0
    for i in np.argsort(null, kind="stable"):
        if has_answer[i]:
            total += values[i]
        elif predictions[i]:
            total -= 1
        if total > best:
            best, threshold = total, float(null[i])
    return 100.0 * best / len(values), threshold
