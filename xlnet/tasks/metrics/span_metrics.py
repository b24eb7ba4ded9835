"""Exact match and F1 of answers to questions, as in the scripts of SQuAD and CMRC.

A rule compares a prediction with one answer; the score of a question is that of its best answer.
The right prediction for a question without answers is the empty text. Shape letters: n questions.
"""

from __future__ import annotations

import collections
import difflib
import re
import string
from collections.abc import Sequence
from typing import Callable, NamedTuple, Union

import numpy as np

Numbers = Union[Sequence[float], np.ndarray]


# ---- words, as SQuAD's scripts

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces."""
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_words(prediction: str, answer: str) -> float:
    return float(normalized(prediction) == normalized(answer))


def f1_words(prediction: str, answer: str) -> float:
    """F1 of the words, as in version 2.0: if one has no words, 1 if the other has none, else 0."""
    predicted, true = normalized(prediction).split(), normalized(answer).split()
    if not predicted or not true:
        return float(predicted == true)
    return _f1(
        sum((collections.Counter(predicted) & collections.Counter(true)).values()),
        len(predicted),
        len(true),
    )


def f1_words_1(prediction: str, answer: str) -> float:
    """The same as in version 1.1: 0 if one has no words."""
    return f1_words(prediction, answer) if normalized(prediction) and normalized(answer) else 0.0


def _f1(common: int, num_predicted: int, num_true: int) -> float:
    """F1 of `common` units among those predicted and those of the answer."""
    if not common:
        return 0.0
    precision, recall = common / num_predicted, common / num_true
    return 2 * precision * recall / (precision + recall)


# ---- characters, as CMRC's script

# The characters that the script drops; ASCII's full stop, comma and brackets are not among them.
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
    """Chinese characters and words of other scripts, without punctuation."""
    return [
        word
        for part in _CHINESE.split(squeezed(text))
        for word in _WORD.findall(_OPENING.sub("“", part))
    ]


def squeezed(text: str) -> str:
    """Lower case, without punctuation."""
    return "".join(c for c in text.lower().strip() if c not in _LEFT_OUT)


def exact_characters(prediction: str, answer: str) -> float:
    return float(squeezed(prediction) == squeezed(answer))


def f1_characters(prediction: str, answer: str) -> float:
    """F1 of the longest run of segments that both have."""
    predicted, true = segments(prediction), segments(answer)
    return _f1(longest_common_run(predicted, true), len(predicted), len(true))


def longest_common_run(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest contiguous sequence of both."""
    return (
        difflib.SequenceMatcher(None, a, b, autojunk=False)
        .find_longest_match(0, len(a), 0, len(b))
        .size
    )


# ---- rules by name


class Rule(NamedTuple):
    """exact, f1: functions of (prediction, answer) to a number from 0 to 1."""

    exact: Callable[[str, str], float]
    f1: Callable[[str, str], float]


RULES = {
    "squad1.1": Rule(exact_words, f1_words_1),
    "squad2.0": Rule(exact_words, f1_words),
    "characters": Rule(exact_characters, f1_characters),
}


class Scores(NamedTuple):
    """Scores of questions, float64 [n] from 0 to 1, and whether each has an answer, bool [n]."""

    exact: np.ndarray
    f1: np.ndarray
    has_answer: np.ndarray


def score(rule_name: str, predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> Scores:
    """Compares predictions, n texts, with the answers to each question; () where there is none."""
    rule = RULES[rule_name]
    exact: list[float] = []
    f1: list[float] = []
    for prediction, texts in zip(predictions, answers):
        if rule_name == "squad2.0":  # answers without a word do not count
            texts = list(filter(normalized, texts))
        references = texts or [""]  # without an answer, an empty prediction is right
        exact.append(max(rule.exact(prediction, text) for text in references))
        f1.append(max(rule.f1(prediction, text) for text in references))
    has_answer = np.array([bool(texts) for texts in answers])
    return Scores(np.array(exact), np.array(f1), has_answer)


def with_threshold(scores: Scores, null_scores: Numbers, threshold: float) -> Scores:
    """The scores if no answer is predicted where the null score, float [n], is above
    `threshold`."""
    says_none = np.asarray(null_scores) > threshold
    score_of_none = (~scores.has_answer).astype(float)  # 1 where there is no answer to find
    return scores._replace(
        exact=np.where(says_none, score_of_none, scores.exact),
        f1=np.where(says_none, score_of_none, scores.f1),
    )


def summary(scores: Scores) -> dict:
    """Means in percent, named as in the official script: over all questions, and if some have no
    answer, over those with and without one."""
    parts = {"": np.ones(len(scores.exact), bool)}
    if not scores.has_answer.all():
        parts.update({"HasAns_": scores.has_answer, "NoAns_": ~scores.has_answer})
    found = {}
    for name, chosen in parts.items():
        if chosen.any():
            found[name + "exact"] = 100.0 * float(np.mean(scores.exact[chosen]))
            found[name + "f1"] = 100.0 * float(np.mean(scores.f1[chosen]))
    return found


class Best(NamedTuple):
    """value: in percent. threshold: no answer is predicted where the null score is above."""

    value: float
    threshold: float


def best_threshold(
    values: np.ndarray, has_prediction: Sequence[bool], scores: Scores, null_scores: Numbers
) -> Best:
    """The threshold of null scores with the best mean of `values`, exact or f1 of `scores`, float
    [n]. has_prediction: bool [n], whether the predicted text is not empty."""
    # The threshold is raised from below all null scores, so that one question after the other is
    # answered, those with the surest answers first. A question with an answer then adds its value;
    # one without loses the 1 that it has as long as no answer is predicted, unless the text that is
    # predicted is empty anyway.
    order = np.argsort(np.asarray(null_scores, np.float64), kind="stable")
    gains = np.where(scores.has_answer, values, -np.asarray(has_prediction, float))[order]
    none_predicted = float((~scores.has_answer).sum())  # the sum if no question is answered
    totals = np.cumsum([none_predicted, *gains])  # [n+1], by the number of answered questions
    num_answered = int(totals.argmax())
    threshold = 0.0
    if num_answered:
        threshold = float(null_scores[order[num_answered - 1]])
    return Best(100.0 * float(totals[num_answered]) / len(order), threshold)
