"""What a fine-tuned model was trained for, and how much each word of a text counts for that: the
output without each of the words.

Shape letters: W words, L labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.offsets import align
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.engine.session import require_finite
from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    as_text,
    pair,
    plain,
    require_list,
)
from xlnet.inference.settings import PredictSettings, from_keywords
from xlnet.support.errors import wrong
from xlnet.tasks import encoding, ranking
from xlnet.tasks.tagging.sentences import find_words
from xlnet.tasks.task import InlineExample, Ranked, Row

VERBS = ("classify", "score", "choose", "rank", "answer", "tag")
EXPLAINED = ("classify", "score", "rank")  # of models with one output for a text
_MOST_WORDS = 2048  # of a text that are read: it is predicted again without each


class Prediction(Method):
    """A method such as `Model.classify`, the model's own one if `verb` is None. An item is what the
    method takes, or an `InlineExample`.

    Args:
      settings: those of `PredictSettings`; of those not given the model's own hold.
    """

    def __init__(
        self, model: RestoredModel, verb: str | None = None, **settings: Any
    ) -> None:
        self._model = model
        self._tuned = tuned = model.tuned(verb)
        self._threshold = tuned.settings.threshold
        threshold = from_keywords(PredictSettings, settings).threshold
        if threshold is not None:
            if not tuned.task.has_threshold:
                raise wrong("threshold", threshold, f"none for {tuned.task.name}")
            self._threshold = threshold
        self._predictor = model.predictor()
        self.at_once = model.at_once

    def prepare(self, item: Any) -> tuple[list[Row], bool]:
        """The rows of an item, such as one for each document of a query, and whether they are
        ranked."""
        verb = self._tuned.task.verb
        examples = examples_of(verb, item)
        rows = []
        for number, example in enumerate(examples):
            place = f"document {number}: " if len(examples) > 1 else ""
            rows.append(self._model.row(example, place))
        return rows, verb == "rank" and not isinstance(item, InlineExample)

    def compute(self, items: list[tuple[list[Row], bool]]) -> list[Computed]:
        # Of each item its rows and whether they are ranked (`prepare`). The rows of all items are
        # batched together.
        rows: list[Row] = []
        for its_rows, _ in items:
            for row in its_rows:
                rows.append(row._replace(id=str(len(rows))))
        if not rows:  # queries without documents
            return [Computed([], 0, 0)] * len(items)
        predictions, counts = self._predictor.predict(rows)
        self._model.note_cut(counts.is_cut, self._tuned.layout.max_seq_length)
        found = self._tuned.task.results(rows, predictions.values, self._threshold)
        computed = []
        end = 0
        for its_rows, is_ranking in items:
            begin, end = end, end + len(its_rows)
            result = ranked(found[begin:end]) if is_ranking else found[begin]
            read, total = counts.read[begin:end].sum(), counts.total[begin:end].sum()
            computed.append(Computed(result, read, total))
        return computed


def examples_of(verb: str, item: Any) -> list[InlineExample]:
    """The examples of an item: one, or of the method "rank" one for each document of a query.

    Args:
      verb: name of the method, one of `VERBS` or "explain".
      item: what this method takes, such as (question, context) of "answer".
    """
    if isinstance(item, InlineExample):
        return [item]
    if verb == "choose":
        text, choices, question = _parts(item, ("text", "choices", "question"))
        texts = tuple(map(as_text, require_list("choices", choices)))
        return [InlineExample(as_text(text), question and as_text(question), texts)]
    if verb == "rank":
        query, documents = _parts(item, ("query", "documents"))
        texts = tuple(require_list("documents", documents))
        return [InlineExample(as_text(query), as_text(text)) for text in texts]
    if verb == "answer":
        question, context = _parts(item, ("question", "context"))
        return [InlineExample(as_text(context), as_text(question))]
    words = plain(item)
    if verb == "tag" and isinstance(words, (list, tuple)):
        return [InlineExample(tuple(map(as_text, words)))]
    return [InlineExample(*pair(item))]


def _parts(item: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """The parts of an item, a tuple or list, one for each of `names`, which a UserError shows; of
    ("text", "choices", "question") the question may be missing, and is None then."""
    if isinstance(item, (tuple, list)):
        if len(item) == len(names):
            return item
        if names[-1] == "question" and len(item) == 2:
            return (*item, None)
    raise wrong("text", f"{item!r:.80}", f"({', '.join(names)})")


def ranked(found: list) -> list[Ranked]:
    """The documents of a query, best first. found: the score of each, in the given order."""
    scores = np.array(found)
    documents = []
    for index in ranking.best_first(scores):
        documents.append(Ranked(int(index), float(scores[index])))
    return documents


# ---- what each word counts for


class Explanation(NamedTuple):
    """How much each word counts for an output.

    Attributes:
      words: W of them, of both texts of a pair.
      weights: float64 [W], by how much the output falls without the word; 0 for a word that was not
        read.
      is_read: bool [W], whether any of the word was read.
      first_words: the number of words of the first text.
      output: the most probable label, whose probability is explained, or "score".
      value: the output for the text.
    """

    words: tuple[str, ...]
    weights: np.ndarray
    is_read: np.ndarray
    first_words: int
    output: str
    value: float


class Explaining(Method):
    """Explains texts or pairs, one after the other."""

    def __init__(self, model: RestoredModel) -> None:
        self._model = model
        tuned = model.tuned()
        task, self._layout = tuned.task, tuned.layout
        if task.verb not in EXPLAINED:
            expected = f"one that can {' or '.join(EXPLAINED)}"
            raise wrong("model", f"one of task type {task.kind}", expected)
        self._names = task.probability_names  # of the outputs; none of a score
        self._predictor = model.predictor()

    def compute_one(self, item: Any) -> Computed:
        (example,) = examples_of("explain", item)
        row = self._model.row(example)
        texts, tokenizer = row.pairs[0], self._model.tokenizer
        words, is_read = [], []
        first_words = 0
        rows = [row]  # then without each of the words that are read
        for number, end_read in enumerate(self._ends_read(texts)):
            text = texts[number]
            for start, end in words_of(text):
                word = text[start:end]
                words.append(word)
                # Of a word that cleaning removes nothing is read, either.
                has_tokens = start < end_read and tokenizer.ids(word)
                is_read.append(bool(has_tokens))
                if has_tokens:
                    without = list(texts)
                    without[number] = text[:start] + text[end:]
                    rows.append(row._replace(pairs=(tuple(without),)))
            if number == 0:
                first_words = len(words)
        if len(rows) > 1 + _MOST_WORDS:
            found = f"{len(rows) - 1} words that are read"
            raise wrong("text", found, f"at most {_MOST_WORDS}")
        predictions, counts = self._predictor.predict(rows)
        values = np.asarray(predictions.values, np.float64)
        require_finite(values)
        self._model.note_cut(counts.is_cut[:1], self._layout.max_seq_length)
        output, index = "score", 0
        if self._names:
            index = int(values[0].argmax())
            output = self._names[index]
        if values.ndim > 1:
            values = values[:, index]
        weights = np.zeros(len(words))
        weights[is_read] = values[0] - values[1:]
        result = Explanation(
            tuple(words),
            weights,
            np.array(is_read),
            first_words,
            output,
            float(values[0]),
        )
        return Computed(result, counts.read[0], counts.total[0])

    def _ends_read(self, texts: tuple[str, str | None]) -> list[int]:
        """How many characters of a text, or of each of a pair, the network reads; the end of a long
        one is cut."""
        ends = []  # of the tokens, which are cut as their ids are
        for text in texts:
            if text is not None:
                ends.append(align(self._model.tokenizer, text).ends.tolist())
            else:
                ends.append(None)
        # Of several windows the last one ends where the text does.
        kept = encoding.fit_to_length(ends[0], ends[1], self._layout)[-1]
        last = []
        for of_text in kept:
            if of_text is None:
                continue
            last.append(of_text[-1] if of_text else 0)
        return last


def words_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words: what is between spaces; in scripts without them each letter."""
    found = []
    for match in re.finditer(r"\S+", text):
        first, between_spaces = match.start(), match[0]
        words: Iterable[tuple[int, int]] = [(0, len(between_spaces))]
        if any(map(is_unspaced, between_spaces)):
            words = find_words(between_spaces)
        for start, end in words:
            found.append((first + start, first + end))
    return found
