"""What a fine-tuned model was trained for: items to rows, rows to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.inference.inference import (
    Call,
    Computed,
    Inference,
    as_text,
    pair,
    plain,
    require_list,
)
from xlnet.inference.settings import PredictSettings, from_keywords
from xlnet.runs.task_settings import FineTunedTask
from xlnet.support.errors import wrong
from xlnet.tasks import ranking, results
from xlnet.tasks.task import InlineExample, Row
from xlnet.tasks.types.contract import Scorer

VERBS = ("classify", "score", "choose", "rank", "answer", "tag")


def prediction_call(
    inference: Inference, verb: Optional[str] = None, **settings: Any
) -> Call:
    """The call of a method such as `Model.classify`, of the model's own one if `verb` is None. An
    item is what the method takes, or an `InlineExample`.

    Args:
      settings: those of `PredictSettings`; of those not given the model's own hold.
    """
    tuned = inference.tuned(verb)
    verb = tuned.task.type.verb
    scorer, threshold = _scorer(tuned, from_keywords(PredictSettings, settings))
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
        found = scorer.results(rows, values, threshold)
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


def _scorer(tuned: FineTunedTask, chosen: PredictSettings) -> tuple[Scorer, float]:
    """The scorer of the task and its threshold, or those that are given."""
    task, threshold = tuned.task, tuned.settings.threshold
    if chosen.threshold is not None:
        if not task.scorer.has_threshold:
            raise wrong("threshold", chosen.threshold, f"none for {task.name}")
        threshold = chosen.threshold
    if chosen.top_k is None:
        return task.scorer, threshold
    if not hasattr(task.type.options, "n_best_size"):
        raise wrong("top_k", chosen.top_k, f"none for {task.name}")
    return task.with_options(n_best_size=chosen.top_k).scorer, threshold


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


def ranked(found: list) -> list[results.Ranked]:
    """The documents of a query by their scores, best first."""
    scores = np.array(found)
    documents = []
    for index in ranking.best_first(scores):
        documents.append(results.Ranked(int(index), float(scores[index])))
    return documents
