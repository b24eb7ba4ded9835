"""How much each word of a text counts for a prediction: the output without each of the words.

Shape letters: W words, L labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet.corpus.offsets import Aligner
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.inference.inference import Call, Computed, Inference, example_of
from xlnet.inference.session import require_finite
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.tagging.sentences import find_words

VERBS = ("classify", "score", "rank")  # of models with one output for a text
_MOST_WORDS = 2048  # of a text that are read: it is predicted again without each


class Explanation(NamedTuple):
    """How much each word counts for an output.

    Attributes:
      words: W of them, of both texts of a pair.
      weights: float64 [W], by how much the output falls without the word; 0 for a word that was not
        read.
      is_read: bool [W], whether any of the word was read.
      first_words: the number of words of the first text.
      output: the label whose probability is explained, or "score".
      value: the output for the text.
    """

    words: tuple[str, ...]
    weights: np.ndarray
    is_read: np.ndarray
    first_words: int
    output: str
    value: float


def explanation_call(inference: Inference, label: Optional[str] = None) -> Call:
    """The call that explains texts or pairs, one after the other.

    Args:
      label: the label whose probability is explained; the most probable one if not given.
    """
    tuned = inference.tuned()
    if tuned.task.type.verb not in VERBS:
        expected = f"one that can {' or '.join(VERBS)}"
        raise wrong("model", f"one of task type {tuned.task.type.name}", expected)
    names = list(tuned.task.scorer.probabilities)  # of the outputs; none of a score
    if label is not None and label not in names:
        expected = f"one of {', '.join(names)}" if names else "none: it has one score"
        raise wrong("label", repr(label), expected)
    predictor = inference.predictor()

    def compute(items: list) -> list[Computed]:
        row, unknown = inference.row(example_of(items[0], tuned.task))
        first, second = row.pairs[0]
        texts = [first] if second is None else [first, second]
        read = characters_read(texts, inference.aligner, tuned.layout)
        words: list[str] = []
        is_read: list[bool] = []
        rows = [row]  # then without each of the words that are read
        for number, text in enumerate(texts):
            for start, end in words_of(text):
                words.append(text[start:end])
                is_read.append(overlaps(read[number], start, end))
                if is_read[-1]:
                    shorter = text[:start] + text[end:]
                    pair = (first, shorter) if number else (shorter, second)
                    rows.append(row._replace(pairs=(pair,)))
        if len(rows) > 1 + _MOST_WORDS:
            found = f"{len(rows) - 1} words that are read"
            raise wrong("text", found, f"at most {_MOST_WORDS}")
        outputs, counts = predictor.values(rows)
        values = np.asarray(outputs, np.float64)
        require_finite(values)
        inference.note_cut(counts.is_cut[:1], tuned.layout.max_seq_length)
        output, index = "score", 0
        if names:
            index = int(values[0].argmax()) if label is None else names.index(label)
            output = names[index]
        values = values[:, index] if values.ndim > 1 else values
        weights = np.zeros(len(words))
        weights[is_read] = values[0] - values[1:]
        result = Explanation(
            tuple(words),
            weights,
            np.array(is_read),
            len(words_of(texts[0])),
            output,
            float(values[0]),
        )
        return [Computed(result, int(counts.read[0]), int(counts.total[0]), unknown)]

    return Call(compute)


def words_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words: what is between spaces; in scripts without them each letter."""
    found: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", text):
        first, between_spaces = match.start(), match[0]
        words: Iterable[tuple[int, int]] = [(0, len(between_spaces))]
        if any(map(is_unspaced, between_spaces)):
            words = find_words(between_spaces)
        for start, end in words:
            found.append((first + start, first + end))
    return found


def characters_read(
    texts: Sequence[str], aligner: Aligner, layout: encoding.Layout
) -> list[np.ndarray]:
    """The (start, end) of the tokens of a text, or of both of a pair, that the network reads: int
    [tokens,2] of each."""
    # The numbers of the tokens are cut as their ids are.
    aligned = aligner.encode(texts)
    numbers = [list(range(len(each.ids))) for each in aligned]
    second = numbers[1] if len(texts) > 1 else None
    windows = encoding.fit_to_length(numbers[0], second, layout)
    spans = []
    for position, text in enumerate(aligned):
        read = sorted({number for window in windows for number in window[position]})
        spans.append(np.stack([text.starts[read], text.ends[read]], axis=1))
    return spans


def overlaps(spans: np.ndarray, start: int, end: int) -> bool:
    """Whether characters `start` to before `end` are in any of the spans, int [n,2]."""
    starts, ends = spans[:, 0], spans[:, 1]
    is_inside = (start < ends) & (starts < end)
    return bool(is_inside.any())
