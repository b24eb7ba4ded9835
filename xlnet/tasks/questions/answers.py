"""Reads gold answers from SQuAD's JSON, finds them in their contexts, and scores predicted ones by
the rules of the official scripts: SQuAD 1.1, 2.0 and CMRC 2018.

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

from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.files.forms import Records


class GoldAnswer(NamedTuple):
    """The text of an answer, and the index of its first character in the context; None: not
    given."""

    text: str
    start: int | None


def questions_of_article(columns: Columns, place: str, article: dict) -> Records:
    """Yields (place, cells) of every question of one of SQuAD's articles:
    {"paragraphs": [{"context": ..., "qas": [{"id", "question", "answers", "is_impossible"}]}]}.
    Where an article is not like this, yields (place, error) and ends.

    Args:
      columns: of the task; the cells are by their names. Each of them is a single column.
      place: of the article in its file.
      article: the JSON object.
    """
    try:
        for p, paragraph in enumerate(article["paragraphs"], 1):
            for q, question in enumerate(paragraph["qas"], 1):
                answers = question.get("answers")
                # [] says that there is no answer, None that the answers are not known.
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
    """The characters [start, end) of the context that are the first gold answer of a question,
    without the spaces around it; (-1, -1): the question has no answer, or its position is not
    known.

    Of several occurrences in the context the one nearest to the gold start counts; without a start
    the position is not known.
    """
    if not row.label:
        return -1, -1
    context, _ = row.pairs[0]
    gold, gold_start = row.label[0]
    text = gold.strip()
    is_known = gold_start is not None and gold_start >= 0  # CMRC has -1 for unknown
    # Matches without a width, so that occurrences that overlap are all found.
    occurrences = re.finditer(f"(?={re.escape(text)})", context)
    starts = [match.start() for match in occurrences]
    if len(starts) == 1:
        start = starts[0]
    elif starts and is_known:
        gold_start += gold.index(text)  # behind the spaces
        start = min(starts, key=lambda start: abs(start - gold_start))
    else:
        return -1, -1
    return start, start + len(text)


# ---- SQuAD

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _words(text: str) -> list[str]:
    """Words in lower case, without ASCII punctuation and English articles, as SQuAD's scripts."""
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()


def _f1(common: int, predicted: int, true: int) -> float:
    """F1, from the numbers of words that prediction and answer have in common, of the predicted
    words, and of the true ones."""
    return 2 * common / (predicted + true) if common else 0.0


def squad(prediction: str, answer: str) -> tuple[float, float]:
    """(Exact match, F1) by SQuAD 1.1: two texts without a word are equal, and have an F1 of 0."""
    predicted, true = _words(prediction), _words(answer)
    shared = collections.Counter(predicted) & collections.Counter(true)
    common = sum(shared.values())  # a word that both have twice counts twice
    return float(predicted == true), _f1(common, len(predicted), len(true))


# ---- CMRC

# Without the characters that CMRC's script drops; ASCII's full stop, comma and brackets are not
# among them.
_WITHOUT_SIGNS = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)
_CHINESE = re.compile("([\u4e00-\u9fa5])")  # in a group, so that `split` keeps it
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
_OPENING = re.compile(r'(^|(?<=[ (\[{<]))"')  # a quotation mark before a word


def segments(text: str) -> list[str]:
    """The Chinese characters, and the words and signs of other scripts, of a text in lower case, in
    their order."""
    found = []
    for part in _CHINESE.split(text):  # a Chinese character, or what is between two
        # NLTK, too, tells opening quotation marks from closing ones.
        found += _WORD.findall(_OPENING.sub("“", part))
    return found


def cmrc(prediction: str, answer: str) -> tuple[float, float]:
    """(Exact match, F1) by CMRC 2018: F1 of the longest run of `segments` that both texts have."""
    prediction = prediction.lower().strip().translate(_WITHOUT_SIGNS)
    answer = answer.lower().strip().translate(_WITHOUT_SIGNS)
    predicted, true = segments(prediction), segments(answer)
    runs = difflib.SequenceMatcher(None, predicted, true, autojunk=False)
    common = runs.find_longest_match().size
    return float(prediction == answer), _f1(common, len(predicted), len(true))


def scores(rule: str, predictions: Sequence[str], rows: Sequence[Row]) -> np.ndarray:
    """Exact match and F1 of each question, float64 [n,2]: each the highest over its gold answers;
    both 1 if there is no gold answer and no word is predicted.

    Args:
      rule: "squad1.1", "squad2.0", "characters" (CMRC).
      predictions: n texts, "" for no answer.
      rows: n questions.
    """
    score = cmrc if rule == "characters" else squad
    highest = np.zeros((len(rows), 2))
    for i, (prediction, row) in enumerate(zip(predictions, rows)):
        texts = [answer.text for answer in row.label or ()]
        if rule == "squad2.0":  # answers without a word do not count
            texts = [text for text in texts if _words(text)]
        if not texts:
            highest[i] = not _words(prediction)
        for text in texts:
            highest[i] = np.maximum(highest[i], score(prediction, text))
    return highest
