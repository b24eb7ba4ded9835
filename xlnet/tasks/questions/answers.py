"""Gold answers: where SQuAD's JSON and a context have them; scores of predicted ones by the rules
of the official scripts: SQuAD 1.1, 2.0 and CMRC 2018.

`squad` and `cmrc` give (exact match, F1) of a predicted text with a gold answer, from 0 to 1. Shape
letter: n questions.
"""

from __future__ import annotations

import collections
import difflib
import re
import string
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlnet.tasks.files.forms import Records
from xlnet.tasks.task import Columns, Row


class GoldAnswer(NamedTuple):
    """A text, and its first character in the context; None: not given."""

    text: str
    start: int | None


def of_article(columns: Columns, place: str, article: dict) -> Records:
    """Yields (place, cells by the task's columns, or error) of every question of an article:
    {"paragraphs": [{"context": ..., "qas": [{"id", "question", "answers", "is_impossible"}]}]}."""
    try:
        for p, paragraph in enumerate(article["paragraphs"], 1):
            for q, question in enumerate(paragraph["qas"], 1):
                answers = question.get("answers")
                if question.get("is_impossible"):  # its answers are only plausible ones
                    answers = []
                elif answers == [] and question.get("is_impossible") is False:
                    answers = None  # withheld, as in test sets
                cells = {
                    columns.text_a[0]: paragraph["context"],
                    columns.text_b[0]: question["question"],
                    columns.label[0]: answers,
                    columns.id: question["id"],
                }
                yield f"{place}, paragraph {p}, question {q}", cells
    except (KeyError, TypeError, AttributeError) as e:
        yield place, f"not an article as in SQuAD ({type(e).__name__}: {e})"


def position_of(row: Row) -> tuple[int, int]:
    """The first of a question's answers as characters [start, end) of the context, without the
    spaces around it; (-1, -1): there is none, or where it is is not known.

    If the context does not have it at its start, the occurrence nearest to that counts; without a
    start, the only one.
    """
    if not row.label:
        return -1, -1
    text, given = row.label[0].text.strip(), row.label[0].start
    # Matches without a width, so that occurrences that overlap are all found.
    occurrences = re.finditer(f"(?={re.escape(text)})", row.pairs[0][0])
    starts = [match.start() for match in occurrences]
    is_given = given is not None and given >= 0  # CMRC has -1 where it is not known
    if not starts or not is_given and len(starts) > 1:
        return -1, -1
    start = min(starts, key=lambda each: abs(each - (given or 0)))
    return start, start + len(text)


# ---- SQuAD

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


# ---- CMRC

# Without the characters that CMRC's script drops; ASCII's full stop, comma and brackets are not
# among them.
_SQUEEZED = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
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
    """Chinese characters and words of other scripts, of a text in lower case."""
    found = []
    for part in _CHINESE.split(text):
        found += _WORD.findall(_OPENING.sub("“", part))
    return found


def cmrc(prediction: str, answer: str) -> tuple[float, float]:
    """CMRC 2018: F1 of the longest run of characters and words that both texts have."""
    prediction = prediction.lower().strip().translate(_SQUEEZED)
    answer = answer.lower().strip().translate(_SQUEEZED)
    predicted, true = segments(prediction), segments(answer)
    runs = difflib.SequenceMatcher(None, predicted, true, autojunk=False)
    common = runs.find_longest_match().size
    return float(prediction == answer), _f1(common, len(predicted), len(true))


def scores(rule: str, predictions: Sequence[str], rows: Sequence[Row]) -> np.ndarray:
    """Exact match and F1 of n questions with the best of their answers, float64 [n,2].

    Args:
      rule: "squad1.1", "squad2.0", "characters" (CMRC).
    """
    score = cmrc if rule == "characters" else squad
    found = np.zeros((len(rows), 2))
    for i, (prediction, row) in enumerate(zip(predictions, rows)):
        texts = [answer.text for answer in row.label or ()]
        if rule == "squad2.0":  # answers without a word do not count
            texts = [text for text in texts if _words(text)]
        if not texts:
            found[i] = not _words(prediction)
        for text in texts:
            found[i] = np.maximum(found[i], score(prediction, text))
    return found
