"""What a fine-tuned model was trained for, and how much each word of a text counts for that: the
output without each of the words.

Shape letters: W words, L labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.offsets import Aligned, align
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.inference.inference import (
    Call,
    Computed,
    Inference,
    as_text,
    example_of,
    pair,
    plain,
    require_list,
)
from xlnet.inference.settings import PredictSettings, from_keywords
from xlnet.runs.task_settings import FineTunedTask
from xlnet.support.errors import wrong
from xlnet.tasks import encoding, ranking
from xlnet.tasks.contract import Task
from xlnet.tasks.tagging.sentences import find_words
from xlnet.tasks.task import InlineExample, Ranked, Row

VERBS = ("classify", "score", "choose", "rank", "answer", "tag")
EXPLAINED = ("classify", "score", "rank")  # of models with one output for a text
_MOST_WORDS = 2048  # of a text that are read: it is predicted again without each


def prediction_call(
    inference: Inference, verb: str | None = None, **settings: Any
) -> Call:
    """The call of a method such as `Model.classify`, of the model's own one if `verb` is None. An
    item is what the method takes, or an `InlineExample`.

    Args:
      settings: those of `PredictSettings`; of those not given the model's own hold.
    """
    tuned = inference.tuned(verb)
    verb = tuned.task.verb
    task, threshold = _task(tuned, from_keywords(PredictSettings, settings))
    predictor = inference.predictor()

    def prepare(item: Any) -> tuple[list[Row], int, bool]:
        """The rows of an item, such as one for each document of a query, how many of their tokens
        are unknown, and whether they are ranked."""
        examples = examples_of(verb, item)
        rows: list[Row] = []
        unknown = 0
        for number, example in enumerate(examples):
            place = f"document {number}: " if len(examples) > 1 else ""
            row, its_unknown = inference.row(example, place)
            rows.append(row)
            unknown += its_unknown
        return rows, unknown, verb == "rank" and not isinstance(item, InlineExample)

    # The rows of all items are batched together.
    def compute(items: list[tuple[list[Row], int, bool]]) -> list[Computed]:
        rows: list[Row] = []
        for its_rows, _, _ in items:
            for row in its_rows:
                rows.append(row._replace(id=str(len(rows))))
        if not rows:  # queries without documents
            return [Computed([], 0, 0, 0) for _ in items]
        values, counts = predictor.values(rows)
        inference.note_cut(counts.is_cut, tuned.layout.max_seq_length)
        found = task.results(rows, values, threshold)
        computed: list[Computed] = []
        end = 0
        for its_rows, unknown, is_ranking in items:
            begin, end = end, end + len(its_rows)
            result = ranked(found[begin:end]) if is_ranking else found[begin]
            read = int(counts.read[begin:end].sum())
            total = int(counts.total[begin:end].sum())
            computed.append(Computed(result, read, total, unknown))
        return computed

    return Call(compute, predictor.at_once, prepare)


def _task(tuned: FineTunedTask, chosen: PredictSettings) -> tuple[Task, float]:
    """The task and its threshold, or those that are given."""
    task, threshold = tuned.task, tuned.settings.threshold
    if chosen.threshold is not None:
        if not task.has_threshold:
            raise wrong("threshold", chosen.threshold, f"none for {task.name}")
        threshold = chosen.threshold
    if chosen.top_k is None:
        return task, threshold
    if not hasattr(task.options, "n_best_size"):
        raise wrong("top_k", chosen.top_k, f"none for {task.name}")
    return task.with_options(n_best_size=chosen.top_k), threshold


def examples_of(verb: str, item: Any) -> list[InlineExample]:
    """The examples of an item of a method, such as one for each document of a query."""
    if isinstance(item, InlineExample):
        return [item]
    if verb == "choose":
        text, choices, question = _parts(item, ("text", "choices", "question"))
        texts = tuple(map(as_text, require_list("choices", choices)))
        return [InlineExample(as_text(text), question and as_text(question), texts)]
    if verb == "rank":
        query, documents = _parts(item, ("query", "documents"))
        examples = []
        for document in require_list("documents", documents):
            examples.append(InlineExample(as_text(query), as_text(document)))
        return examples
    if verb == "answer":
        question, context = _parts(item, ("question", "context"))
        return [InlineExample(as_text(context), as_text(question))]
    words = plain(item)
    if verb == "tag" and isinstance(words, (list, tuple)):
        return [InlineExample(tuple(map(as_text, words)))]
    return [InlineExample(*pair(item))]


def _parts(item: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """The parts of an item that is a tuple; the question of a choice may be missing."""
    if isinstance(item, (tuple, list)):
        if len(item) == len(names):
            return item
        if names[-1] == "question" and len(item) == 2:
            return (*item, None)
    raise wrong("text", f"{item!r:.80}", f"({', '.join(names)})")


def ranked(found: list) -> list[Ranked]:
    """The documents of a query by their scores, best first."""
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
      output: the label whose probability is explained, or "score".
      value: the output for the text.
    """

    words: tuple[str, ...]
    weights: np.ndarray
    is_read: np.ndarray
    first_words: int
    output: str
    value: float


def explanation_call(inference: Inference, label: str | None = None) -> Call:
    """The call that explains texts or pairs, one after the other.

    Args:
      label: the label whose probability is explained; the most probable one if not given.
    """
    tuned = inference.tuned()
    if tuned.task.verb not in EXPLAINED:
        expected = f"one that can {' or '.join(EXPLAINED)}"
        raise wrong("model", f"one of task type {tuned.task.kind}", expected)
    names = list(tuned.task.probabilities)  # of the outputs; none of a score
    if label is not None and label not in names:
        expected = f"one of {', '.join(names)}" if names else "none: it has one score"
        raise wrong("label", repr(label), expected)
    predictor = inference.predictor()

    def compute(items: list) -> list[Computed]:
        row, unknown = inference.row(example_of(items[0], tuned.task))
        first, second = row.pairs[0]
        texts = [first] if second is None else [first, second]
        aligned = [align(inference.tokenizer, text) for text in texts]
        read = characters_read(texts, aligned, tuned.layout)
        words: list[str] = []
        is_read: list[bool] = []
        rows = [row]  # then without each of the words that are read
        for number, text in enumerate(texts):
            for start, end in words_of(text):
                words.append(text[start:end])
                is_read.append(bool(read[number][start:end].any()))
                if is_read[-1]:
                    shorter = text[:start] + text[end:]
                    pair = (first, shorter) if number else (shorter, second)
                    rows.append(row._replace(pairs=(pair,)))
        if len(rows) > 1 + _MOST_WORDS:
            found = f"{len(rows) - 1} words that are read"
            raise wrong("text", found, f"at most {_MOST_WORDS}")
        outputs, counts = predictor.values(rows)
        values = np.asarray(outputs, np.float64)
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
    texts: Sequence[str], aligned: Sequence[Aligned], layout: encoding.Layout
) -> list[np.ndarray]:
    """Which characters of a text, or of both of a pair, are of tokens that the network reads: bool
    [characters] of each."""
    # The numbers of the tokens are cut as their ids are.
    numbers = [list(range(len(each.ids))) for each in aligned]
    second = numbers[1] if len(texts) > 1 else None
    windows = encoding.fit_to_length(numbers[0], second, layout)
    found = []
    for position, tokens in enumerate(aligned):
        is_read = np.zeros(len(texts[position]), bool)
        for window in windows:
            for number in window[position]:
                is_read[tokens.starts[number] : tokens.ends[number]] = True
        found.append(is_read)
    return found
