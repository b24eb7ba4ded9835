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
from typing import NamedTuple

import numpy as np
from scipy import special

from xlnet.tasks import results
from xlnet.tasks.results import PredictionFile
from xlnet.tasks.task import Row


class BestSpans(NamedTuple):
    """The predictions for a question."""

    # [start, end, log probability of the start, of the end] each, in characters, best first.
    spans: list[list[float]]
    null_probability: float  # of no answer, the lowest one of its windows


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
            own["char_start"][window, start],
            own["char_end"][window, start, end],
            own["start_log_prob"][window, start],
            own["end_log_prob"][window, start, end],
        )
        spans = np.stack(columns, axis=1).astype(np.float64)
        best_first = np.argsort(-spans[:, 2:].sum(axis=1), kind="stable")
        null = special.expit(float(own["null_score"].min()))
        joined.append(BestSpans(spans[best_first].tolist(), float(null)))
        first += count
    return joined


def answers(
    rows: Sequence[Row], values: Sequence[BestSpans], n_best_size: int, threshold: float
) -> list[results.Answer]:
    """The answer to each question: none where the probability of no answer is above `threshold`, or
    no span is allowed; with the `n_best_size` best texts, whether there is an answer or not."""
    made = []
    for row, found in zip(rows, values):
        context = row.pairs[0][0]
        texts: dict[str, list] = {}  # the best span of each text
        for span in found.spans:
            text = context[int(span[0]) : int(span[1])].strip()
            if text and len(texts) < n_best_size:
                texts.setdefault(text, span)
        scores = [sum(span[2:]) for span in texts.values()]
        ratios = special.softmax(scores) if scores else []
        best = []
        for (text, span), ratio in zip(texts.items(), ratios):
            start = context.index(text, int(span[0]))  # a span may begin with spaces
            end = start + len(text)
            best.append(results.Span(text, start, end, float(ratio), *span[2:]))
        null = found.null_probability
        answer = results.Answer("", None, None, tuple(best), null)
        if best and null <= threshold:
            text, start, end = best[0][:3]
            answer = answer._replace(text=text, start=start, end=end)
        made.append(answer)
    return made


def official_files(
    rows: Sequence[Row], found: Sequence[results.Answer]
) -> list[PredictionFile]:
    """By question: the answer, "" for none; the n best answers with probabilities whose sum is 1;
    the probability of no answer."""
    contents: dict[str, dict] = {"json": {}, "nbest.json": {}, "na_prob.json": {}}
    for row, answer in zip(rows, found):
        entries = []
        for span in answer.best:
            entry = span._asdict()
            del entry["start"], entry["end"]
            entries.append(entry)
        contents["json"][row.id] = answer.text
        contents["nbest.json"][row.id] = entries
        contents["na_prob.json"][row.id] = answer.null_probability
    files = []
    for extension, content in contents.items():
        what = None if extension == "json" else extension
        text = json.dumps(content, indent=2, ensure_ascii=False)
        files.append(PredictionFile(extension, what, [text, "\n"]))
    return files


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
            one = squad(prediction, text)
            if rule == "characters":
                one = cmrc(prediction, text)
            found[i] = np.maximum(found[i], one)
    return found


def metrics(
    texts: Sequence[str],
    null: np.ndarray,
    threshold: float,
    rows: Sequence[Row],
    rule: str,
) -> dict[str, float]:
    """The official script's numbers in percent: means over all questions, over those with and
    without an answer, and the best means with their thresholds.

    Args:
      texts: the best text of each question.
      null: the probability of no answer, float [n]. Where it is above the threshold, the answer is
        "".
      threshold: of the means that are not the best ones.
      rows: n of them.
      rule: as of `scores`.
    """
    values = scores(rule, texts, rows)
    of_none = scores(rule, [""] * len(rows), rows)
    written = np.where(null[:, None] > threshold, of_none, values)
    has_answer = np.array([bool(row.label) for row in rows])
    parts = {
        "": np.ones(len(rows), bool),
        "HasAns_": has_answer,
        "NoAns_": ~has_answer,
    }
    found = {}
    for name, chosen in parts.items():
        if chosen.any():
            exact, f1 = 100.0 * written[chosen].mean(axis=0)
            found[name + "exact"] = float(exact)
            found[name + "f1"] = float(f1)

    # As in the official script, the questions are answered one after the other, those with the
    # surest answers first. One with an answer then adds its value; one without loses the 1 that it
    # has as long as no answer is predicted, unless the text that is predicted is empty anyway.
    for i, text in enumerate(texts):
        if not has_answer[i]:
            values[i] = -1.0 if text else 0.0
    order = np.argsort(null, kind="stable")
    thresholds = [0.0, *null[order].tolist()]
    unanswerable = np.count_nonzero(~has_answer)
    for name, column in zip(("exact", "f1"), values[order].T):
        totals = np.cumsum([unanswerable, *column])
        best = int(np.argmax(totals))
        found["best_" + name] = 100.0 * float(totals[best]) / len(rows)
        found[f"best_{name}_thresh"] = thresholds[best]
    return found
