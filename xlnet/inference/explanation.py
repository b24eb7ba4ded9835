"""How much each word of a text counts for a prediction: the output without each of the words.

Shape letters: W words, L labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.offsets import Aligner
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.inference.inference import Call, Inference, require_finite, row_of
from xlnet.inference.settings import ExplanationSettings, from_keywords
from xlnet.inference.texts import count_unknown, pair_of, texts_of
from xlnet.runs.task_settings import FineTunedTask
from xlnet.support.errors import UserError, did_you_mean, wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.tagging.files import find_words
from xlnet.tasks.task import InlineExample, Row

VERBS = ("classify", "score", "rank")  # of models with one output for a text


class Explanation(NamedTuple):
    """How much each word counts for an output.

    Attributes:
      words: W of them, of both texts of a pair.
      weights: float64 [W], by how much the output falls without the word; 0 for a word that was not
        read.
      first_words: the number of words of the first text.
      output: the label whose probability is explained, or "score".
      value: the output for the text.
      tokens_read: how many tokens of the texts were read.
      tokens: how many there are, without special ones.
      unknown_tokens: how many of these are not in the vocabulary.
    """

    words: tuple[str, ...]
    weights: np.ndarray
    first_words: int
    output: str
    value: float
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None


def explanation_call(inference: Inference, **settings: Any) -> Call:
    """The call that explains texts or pairs, one after the other.

    Args:
      settings: those of `ExplanationSettings`.
    """
    tuned = inference.tuned()
    chosen = from_keywords(ExplanationSettings, settings)
    if tuned.task.type.verb not in VERBS:
        expected = f"one that can {' or '.join(VERBS)}"
        raise wrong("model", f"one of task type {tuned.task.type.name}", expected)
    check_label(tuned, chosen.label)
    predictor = inference.predictor()

    def prepare(item: Any) -> tuple[Row, int]:
        row = row_of(tuned, 0, InlineExample(*pair_of(item, tuned.task)))
        return row, count_unknown(inference.tokenizer, texts_of(row))

    def compute(items: list[tuple[Row, int]]) -> list[Explanation]:
        ((row, unknown),) = items
        texts: list[Any] = texts_of(row)
        read = characters_read(texts, inference.aligner, tuned.layout)
        words: list[str] = []
        words_read: list[int] = []
        rows = [
            row
        ]  # the complete text, then the text without each of its words that are read
        for number, text in enumerate(texts):
            for start, end in words_of(text):
                if any(start < last and first < end for first, last in read[number]):
                    shorter = [*texts, None]
                    shorter[number] = text[:start] + text[end:]
                    rows.append(row._replace(pairs=((shorter[0], shorter[1]),)))
                    words_read.append(len(words))
                words.append(text[start:end])
        values, counts = predictor.values(rows)
        values = np.asarray(values, np.float64)
        require_finite(values)
        inference.note_cut(counts.is_cut[:1], tuned.layout.max_seq_length)
        index, name = _output(tuned, values, chosen.label)
        values = values[:, index] if values.ndim > 1 else values
        weights = np.zeros(len(words))
        weights[words_read] = values[0] - values[1:]
        first_words = len(words_of(texts[0]))
        return [
            Explanation(
                tuple(words),
                weights,
                first_words,
                name,
                float(values[0]),
                tokens_read=int(counts.read[0]),
                tokens=int(counts.total[0]),
                unknown_tokens=unknown,
            )
        ]

    return Call(prepare, compute, 1)


def check_label(tuned: FineTunedTask, label: Optional[str], source: str = "") -> None:
    """Raises UserError, which begins with `source`, for a label that a model does not have."""
    names = tuned.task.scorer.probabilities
    if label is not None and label not in names:
        expected = (
            f"one of {', '.join(names)}" if names else "none: the model has one score"
        )
        where = f"{source}: label" if source else "label"
        raise wrong(where, repr(label), expected + did_you_mean(label, names))


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
) -> list[list[tuple[int, int]]]:
    """The (start, end) of the parts of a text, or of both of a pair, that the network reads."""
    # The numbers of the tokens are cut as their ids are.
    aligned = aligner.encode(texts)
    numbers = [list(range(len(each.ids))) for each in aligned]
    windows = encoding.fit_to_length(
        numbers[0], numbers[1] if len(texts) > 1 else None, layout
    )
    spans: list[list[tuple[int, int]]] = []
    for position, text in enumerate(aligned):
        kept = sorted({number for window in windows for number in window[position]})
        parts: list[tuple[int, int]] = []
        last = -1
        for number in kept:
            start, end = int(text.starts[number]), int(text.ends[number])
            # Tokens that follow each other are one part, with the space between them.
            if parts and number - 1 == last:
                start = parts.pop()[0]
            parts.append((start, end))
            last = number
        spans.append(parts)
    return spans


def _output(
    tuned: FineTunedTask, values: np.ndarray, label: Optional[str]
) -> tuple[int, str]:
    """(index, name) of the output that is explained: of the label, or the most probable one of the
    first of `values`."""
    names = tuned.task.scorer.probabilities
    if values.ndim > 2:
        raise UserError(
            f"a prediction of task type {tuned.task.type.name} has the shape "
            f"{values.shape[1:]}, expected a number, or some numbers in a row"
        )
    if not names:
        return 0, "score"
    index = list(names).index(label) if label is not None else int(values[0].argmax())
    return index, names[index]
