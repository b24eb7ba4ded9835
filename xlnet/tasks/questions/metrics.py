"""Exact match and F1 of answers, a function for each official script: SQuAD 1.1, 2.0 and CMRC 2018.

Each compares a predicted text with the gold answers of a question, and returns (exact match, F1) of
the best one, from 0 to 1. Shape letters: n questions.
"""

from __future__ import annotations

import collections
import difflib
import re
import string
from collections.abc import Sequence

import numpy as np

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
