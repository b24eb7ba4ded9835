"""Predictions of a fine-tuned model for its task, and how much each word of a text counts for one:
by how much the output falls without the word.

An item is what a method takes for one result, such as a text or a query with its documents; a `Row`
has the texts that the network reads together. Shape letters: W words, L labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.offsets import align
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    as_text,
    pair,
    require_list,
)
from xlnet.inference.settings import PredictSettings, from_keywords, plain
from xlnet.settings.fields import Settings
from xlnet.support.errors import require_finite, wrong
from xlnet.tasks import encoding, ranking
from xlnet.tasks.fields import InlineExample, Ranked, Row
from xlnet.tasks.tagging.sentences import find_words

VERBS = ("classify", "score", "choose", "rank", "answer", "tag")
EXPLAINED = ("classify", "score", "rank")  # of models with one output for a text
_MOST_WORDS = 2048  # of a text that are read: it is predicted again without each


class _PreparedItem(NamedTuple):
    """What a method takes for one result, as rows of the task.

    Attributes:
      rows: one, or one for each document of a query.
      is_ranking: whether the result is the sorted documents of a query.
    """

    rows: list[Row]
    is_ranking: bool


class Prediction(Method):
    """A method such as `Model.classify`. An item is what the method takes for one result, or an
    `InlineExample`.

    Args:
      verb: the name of the method, one of `VERBS`; None: that of the model's task. UserError if the
        model's task has another one.
      settings: those of `PredictSettings`; the threshold is the model's own if it is not given.
    """

    def __init__(
        self, model: RestoredModel, verb: str | None = None, /, **settings: Any
    ) -> None:
        self._model = model
        self._tuned = tuned = model.require_tuned(verb)
        self._threshold = tuned.settings.threshold
        threshold = from_keywords(PredictSettings, settings).threshold
        if threshold is not None:
            if not tuned.task.has_threshold:
                raise wrong("threshold", threshold, f"none for {tuned.task.name}")
            self._threshold = threshold
        self._predictor = model.predictor()
        self.at_once = model.at_once

    def prepare(self, item: Any) -> _PreparedItem:
        """The item as rows: one, or one for each document of a query."""
        verb = self._tuned.task.verb
        examples = examples_of(verb, item)
        rows = []
        for number, example in enumerate(examples):
            # Several examples are the documents of a query; errors name the document.
            place = f"document {number}: " if len(examples) > 1 else ""
            rows.append(self._model.row(example, place))
        # An `InlineExample` is a single document, whose result is its score.
        is_ranking = verb == "rank" and not isinstance(item, InlineExample)
        return _PreparedItem(rows, is_ranking)

    def compute(self, items: list[_PreparedItem]) -> list[Computed]:
        """The result of each item, in their order: what the task makes of its row, such as a
        `Label`; of a ranking the sorted documents."""
        # The rows of all items are batched together. Each was made alone, with the id "0"; here
        # their numbers are the ids.
        rows: list[Row] = []
        for item in items:
            for row in item.rows:
                rows.append(row._replace(id=str(len(rows))))
        if not rows:  # queries without documents
            return [Computed([], 0, 0)] * len(items)
        predictions, counts = self._predictor.predict(rows)
        self._model.note_cut(counts.is_cut, self._tuned.layout.max_seq_length)
        results = self._tuned.task.results(rows, predictions.values, self._threshold)
        # The results and the counts of tokens are in the order of `rows`: each item has the next
        # `len(item.rows)` of them.
        computed = []
        end = 0
        for item in items:
            begin, end = end, end + len(item.rows)
            # The results of a ranking are scores. Any other item has a single row.
            result = ranked(results[begin:end]) if item.is_ranking else results[begin]
            read, total = counts.read[begin:end].sum(), counts.total[begin:end].sum()
            computed.append(Computed(result, read, total))
        return computed


def examples_of(verb: str, item: Any) -> list[InlineExample]:
    """The examples of an item: one, but for the method "rank" one for each document of the query.
    UserError if the item is not what the method takes.

    Args:
      verb: name of the method, one of `VERBS` or "explain".
      item: what this method takes for one result, such as (question, context) for "answer"; or an
        `InlineExample`.
    """
    if isinstance(item, InlineExample):
        return [item]
    if verb == "choose":
        # `question` may be missing, and is None then.
        text, choices, question = _parts(item, ("text", "choices", "question"))
        choices = tuple(map(as_text, require_list("choices", choices)))
        text = as_text(text)
        if question is not None:
            question = as_text(question)
        return [InlineExample(text_a=text, text_b=question, choices=choices)]
    if verb == "rank":
        query, documents = _parts(item, ("query", "documents"))
        texts = require_list("documents", documents)
        # The query is the first text of each pair.
        return [InlineExample(as_text(query), as_text(text)) for text in texts]
    if verb == "answer":
        question, context = _parts(item, ("question", "context"))
        return [InlineExample(text_a=as_text(context), text_b=as_text(question))]
    # What is tagged is a text, as below, or its words: a list, or an array or column, of which
    # `plain` makes a list.
    words = plain(item)
    if verb == "tag" and isinstance(words, (list, tuple)):
        return [InlineExample(tuple(map(as_text, words)))]
    text_a, text_b = pair(item)
    return [InlineExample(text_a, text_b)]


def _parts(item: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """The parts of an item, which must be a tuple or list with a part for each of `names`;
    otherwise UserError with these names. The part "question" at the end may be missing: it is
    None."""
    if isinstance(item, (tuple, list)):
        if len(item) == len(names):
            return item
        if names[-1] == "question" and len(item) == 2:
            return (*item, None)
    raise wrong("text", f"{item!r:.80}", f"({', '.join(names)})")


def ranked(scores: list[float]) -> list[Ranked]:
    """The documents of a query, best first. scores: of each document, in the order in which the
    caller listed the documents."""
    documents = []
    for index in ranking.best_first(np.array(scores)).tolist():
        documents.append(Ranked(index, float(scores[index])))
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
    """Explains texts or pairs, one after the other: an `Explanation` for each."""

    def __init__(self, model: RestoredModel, /, **settings: Any) -> None:
        from_keywords(Settings, settings)  # it has none
        self._model = model
        tuned = model.require_tuned()
        task, self._layout = tuned.task, tuned.layout
        if task.verb not in EXPLAINED:
            expected = f"one that can {' or '.join(EXPLAINED)}"
            raise wrong("model", f"one of task type {task.kind}", expected)
        # Those of the L outputs; empty if the output is a score.
        self._label_names = task.probability_names
        self._predictor = model.predictor()

    def compute_one(self, item: Any) -> Computed:
        """The `Explanation` of a text or a pair: all rows without a word are predicted together."""
        (example,) = examples_of("explain", item)
        row = self._model.row(example)
        texts = row.pairs[0]  # the only pair: (text, second text or None)

        # The rows to predict: the row itself, then one without each word that is read.
        tokenizer = self._model.tokenizer
        words, is_read = [], []  # [W], of both texts
        first_words = 0
        rows = [row]
        # A second text that is None has no end, and is left out.
        for number, (text, end_read) in enumerate(zip(texts, self._ends_read(texts))):
            for start, end in words_of(text):
                word = text[start:end]
                words.append(word)
                # Of a word that cleaning removes nothing is read, either.
                is_word_read = start < end_read and bool(tokenizer.ids(word))
                is_read.append(is_word_read)
                if is_word_read:
                    texts_without_word = list(texts)
                    texts_without_word[number] = text[:start] + text[end:]
                    rows.append(row._replace(pairs=(tuple(texts_without_word),)))
            if number == 0:
                first_words = len(words)
        if len(rows) > 1 + _MOST_WORDS:
            found = f"{len(rows) - 1} words that are read"
            raise wrong("text", found, f"at most {_MOST_WORDS}")

        predictions, counts = self._predictor.predict(rows)
        # Of each row probabilities, [rows,L], or a score, [rows].
        values = np.asarray(predictions.values, np.float64)
        require_finite(values)
        self._model.note_cut(counts.is_cut[:1], self._layout.max_seq_length)

        # The output that is explained: the score, or the probability of the most probable label.
        output, index = "score", 0
        if self._label_names:
            index = int(values[0].argmax())
            output = self._label_names[index]
        if values.ndim > 1:
            values = values[:, index]
        weights = np.zeros(len(words))
        weights[is_read] = values[0] - values[1:]  # by how much it falls
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
        """How many characters of a text, or of each text of a pair, the network reads; the end of a
        long text is cut."""
        # The end of each token [characters]. These lists are cut as those of ids would be.
        text_a, text_b = texts
        tokenizer = self._model.tokenizer
        ends_a = align(tokenizer, text_a).ends.tolist()
        ends_b = None if text_b is None else align(tokenizer, text_b).ends.tolist()
        ends_read = []
        for ends in encoding.fit_to_length(ends_a, ends_b, self._layout):
            if ends is not None:
                ends_read.append(ends[-1] if ends else 0)  # no tokens: 0
        return ends_read


def words_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words [characters]: what is between spaces. Where that has letters of a
    script without spaces between words, each of them is a word, and each run of others."""
    spans = []
    for match in re.finditer(r"\S+", text):
        offset, between_spaces = match.start(), match[0]
        words = [(0, len(between_spaces))]
        if any(map(is_unspaced, between_spaces)):
            words = find_words(between_spaces)
        for start, end in words:
            spans.append((offset + start, offset + end))
    return spans
