"""Scores of answers: exact match and F1, a function for each official script: SQuAD 1.1, 2.0 and
CMRC 2018.

`squad` and `cmrc` give (exact match, F1) of a predicted text with a gold answer, from 0 to 1. Shape
letter: n questions.
"""

from __future__ import annotations

import collections
import difflib
import re
import string
from collections.abc import Sequence

import numpy as np

from xlnet.tasks.task import Row

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
      rule: "squad1.1", "squad2.0", "characters" (CMRC).
    """
    found = np.zeros((len(rows), 2))
    for i, (prediction, row) in enumerate(zip(predictions, rows)):
        texts = [answer.text for answer in row.label or ()]
        if rule == "squad2.0":  # answers without a word do not count
            texts = [text for text in texts if _words(text)]
        if not texts:
            found[i] = not _words(prediction)
        for text in texts:
            score = cmrc if rule == "characters" else squad
            found[i] = np.maximum(found[i], score(prediction, text))
    return found
