"""What a fine-tuned model was trained for: items to rows, rows to predictions."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from xlnet.inference.inference import Call, Inference, row_of
from xlnet.inference.settings import PredictSettings, from_keywords
from xlnet.inference.texts import count_unknown, examples_of, result_of, texts_of
from xlnet.runs.task_settings import FineTunedTask
from xlnet.support.errors import wrong
from xlnet.tasks.task import Row
from xlnet.tasks.types.contract import Scorer


class _Item(NamedTuple):
    """The rows of an item, such as one for each document of a query, and its unknown tokens."""

    rows: list[Row]
    unknown: int


def prediction_call(
    inference: Inference, verb: Optional[str] = None, **settings: Any
) -> Call:
    """The call of a method such as `Model.classify`, of the model's own one if `verb` is None.

    Args:
      settings: those of `PredictSettings`; of those not given the model's own hold.
    """
    tuned = inference.tuned(verb)
    chosen = from_keywords(PredictSettings, settings)
    threshold = _threshold(tuned, chosen.threshold)
    scorer = _scorer(tuned, chosen.top_k)
    verb = tuned.task.type.verb
    predictor = inference.predictor()

    def prepare(item: Any) -> _Item:
        examples = examples_of(verb, item)
        rows: list[Row] = []
        unknown = 0
        for number, example in enumerate(examples):
            place = f"document {number}: " if len(examples) > 1 else ""
            rows.append(row_of(tuned, number, example, place))
            unknown += count_unknown(inference.tokenizer, texts_of(rows[-1]), place)
        return _Item(rows, unknown)

    # The rows of all items are batched together.
    def compute(items: list[_Item]) -> list[Any]:
        rows: list[Row] = []
        for item in items:
            for row in item.rows:
                rows.append(row._replace(id=str(len(rows))))
        if not rows:  # queries without documents
            return [result_of(verb, []) for _ in items]
        values, counts = predictor.values(rows)
        inference.note_cut(counts.is_cut, tuned.layout.max_seq_length)
        found = scorer.results(rows, values, threshold)
        results: list[Any] = []
        end = 0
        for item in items:
            begin, end = end, end + len(item.rows)
            result = result_of(verb, found[begin:end])
            if hasattr(result, "tokens_read"):
                result = result._replace(
                    tokens_read=int(counts.read[begin]),
                    tokens=int(counts.total[begin]),
                    unknown_tokens=item.unknown,
                )
            results.append(result)
        return results

    return Call(prepare, compute, predictor.at_once)


def _scorer(tuned: FineTunedTask, top_k: Optional[int]) -> Scorer:
    """The scorer of the task; for answers to questions with `top_k` best spans, if it is given."""
    if top_k is None:
        return tuned.task.scorer
    if not hasattr(tuned.task.options, "n_best_size"):
        raise wrong(
            "top_k", f"a model of {tuned.task.type.name}", "one that answers questions"
        )
    return tuned.task.with_options(n_best_size=top_k).scorer


def _threshold(tuned: FineTunedTask, given: Optional[float]) -> float:
    """The threshold that is given, or the model's own."""
    if given is None:
        return tuned.settings.predict_threshold
    if not tuned.task.scorer.has_threshold:
        raise wrong(
            "threshold", given, f"none: task {tuned.task.name} has no use for it"
        )
    return given
