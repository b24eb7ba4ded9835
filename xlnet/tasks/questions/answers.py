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
        own = {name: array[first : first + count] for name, array in outputs.items()}
        window, start, end = np.nonzero(own["is_allowed"])
        columns = (
            own["char_start"][window, start].astype(int),
            own["char_end"][window, start, end].astype(int),
            own["start_log_prob"][window, start],
            own["end_log_prob"][window, start, end],
        )
        spans = map(ScoredSpan, *(column.tolist() for column in columns))
        best_first = sorted(spans, key=lambda span: -span.score)
        joined.append(BestSpans(best_first, float(own["null_score"].min())))
        first += count
    return joined


def null_probabilities(values: Sequence[BestSpans]) -> np.ndarray:
    """The probability that a question has no answer, float64 [n]."""
    return special.expit(np.array([found.null_score for found in values], np.float64))


def answers(
    rows: Sequence[Row], values: Sequence[BestSpans], n_best_size: int, threshold: float
) -> list[results.Answer]:
    """The answer to each question: none where the probability of no answer is above `threshold`, or
    no span is allowed; with the `n_best_size` best texts, whether there is an answer or not."""
    made = []
    for row, found, null in zip(rows, values, null_probabilities(values).tolist()):
        context = row.pairs[0][0]
        texts: dict[str, ScoredSpan] = {}  # the best span of each text
        for span in found.spans:
            text = context[span.start : span.end].strip()
            if text and len(texts) < n_best_size:
                texts.setdefault(text, span)
        scores = [span.score for span in texts.values()]
        ratios = special.softmax(scores) if scores else []
        best = []
        for (text, span), ratio in zip(texts.items(), ratios):
            start = context.index(text, span.start)  # a span may begin with spaces
            log_probs = span.start_log_prob, span.end_log_prob
            end = start + len(text)
            best.append(results.Span(text, start, end, float(ratio), *log_probs))
        answer = results.Answer("", None, None, tuple(best), null)
        if best and null <= threshold:
            first = best[0]
            answer = answer._replace(text=first.text, start=first.start, end=first.end)
        made.append(answer)
    return made


def official_files(
    rows: Sequence[Row], found: Sequence[results.Answer]
) -> list[PredictionFile]:
    """By question: the answer, "" for none; the n best answers with probabilities whose sum is 1;
    the probability of no answer."""
    texts, null = {}, {}
    n_best: dict[str, list] = {}
    for row, answer in zip(rows, found):
        texts[row.id] = answer.text
        null[row.id] = answer.null_probability
        n_best[row.id] = []
        for span in answer.best:
            entry = span._asdict()
            del entry["start"], entry["end"]
            n_best[row.id].append(entry)
    return [
        PredictionFile("json", None, [_as_json(texts)]),
        PredictionFile("nbest.json", "n best answers", [_as_json(n_best)]),
        PredictionFile("na_prob.json", "probabilities of no answer", [_as_json(null)]),
    ]


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# ---- scores: (exact match, F1) of a predicted text with a gold answer, from 0 to 1


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _words(text: str) -> list[str]:
    """Words in lower case, without ASCII punctuation and English articles, as SQuAD's scripts."""
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()


def _f1(common: int, predicted: int, true: int) -> float:
    """F1 of `common` units among those predicted and those of the answer."""
    return 2 * common / (predicted + true) if common else 0.0


def squad(prediction: str, answer: str) -> tuple[float, float]:
    """SQuAD 1.1: two texts without a word are equal, and have an F1 of 0."""
    predicted, true = _words(prediction), _words(answer)
    shared = collections.Counter(predicted) & collections.Counter(true)
    common = sum(shared.values())
    return float(predicted == true), _f1(common, len(predicted), len(true))


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


def cmrc(prediction: str, answer: str) -> tuple[float, float]:
    """CMRC 2018: F1 of the longest run of characters and words that both texts have."""
    squeezed, answer = _squeezed(prediction), _squeezed(answer)
    predicted, true = segments(squeezed), segments(answer)
    runs = difflib.SequenceMatcher(None, predicted, true, autojunk=False)
    common = runs.find_longest_match().size
    return float(squeezed == answer), _f1(common, len(predicted), len(true))


def scores(rule: str, predictions: Sequence[str], rows: Sequence[Row]) -> np.ndarray:
    """Exact match and F1 of n questions with the best of their answers, float64 [n,2].

    Args:
      rule: "squad1.1", "squad2.0", "characters" (CMRC); "": that of the version of SQuAD that the
        rows are.
    """
    if not rule:
        rule = "squad1.1" if all(row.label for row in rows) else "squad2.0"
    found = np.zeros((len(rows), 2))
    for i, (prediction, row) in enumerate(zip(predictions, rows)):
        texts = gold_texts(row)
        if rule == "squad2.0":
            # Answers without a word do not count. Where none is left, a prediction is right if it
            # has no word either.
            texts = [text for text in texts if _words(text)]
            if not texts:
                found[i] = not _words(prediction)
        for text in texts:
            one = squad(prediction, text)
            if rule == "characters":
                one = cmrc(prediction, text)
            found[i] = np.maximum(found[i], one)
    return found


def gold_texts(row: Row) -> list[str]:
    """The texts of the answers that count as right; [] where there is none."""
    return [answer.text for answer in row.label or ()]


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
