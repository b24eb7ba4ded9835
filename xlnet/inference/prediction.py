"""What a fine-tuned model was trained for: items to rows, rows to predictions."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from xlnet.inference.inference import Call, Computed, Inference, row_of
from xlnet.inference.settings import PredictSettings, from_keywords
from xlnet.inference.texts import count_unknown, examples_of, ranked, texts_of
from xlnet.runs.task_settings import FineTunedTask
from xlnet.support.errors import wrong
from xlnet.tasks.task import InlineExample, Row
from xlnet.tasks.types.contract import Scorer


class _Item(NamedTuple):
    """The rows of an item, such as one for each document of a query, and its unknown tokens."""

    rows: list[Row]
    unknown: int
    is_ranking: bool


def prediction_call(
    inference: Inference, verb: Optional[str] = None, **settings: Any
) -> Call:
    """The call of a method such as `Model.classify`, of the model's own one if `verb` is None. An
    item is what the method takes, or an `InlineExample`.

    Args:
      settings: those of `PredictSettings`; of those not given the model's own hold.
    """
    tuned = inference.tuned(verb)
    chosen = from_keywords(PredictSettings, settings)
    verb = tuned.task.type.verb
    scorer, threshold = _scorer(tuned, chosen)
    predictor = inference.predictor()

    def prepare(item: Any) -> _Item:
        examples = examples_of(verb, item)
        rows: list[Row] = []
        unknown = 0
        for number, example in enumerate(examples):
            place = f"document {number}: " if len(examples) > 1 else ""
            rows.append(row_of(tuned, number, example, place))
            unknown += count_unknown(inference.tokenizer, texts_of(rows[-1]), place)
        is_ranking = verb == "rank" and not isinstance(item, InlineExample)
        return _Item(rows, unknown, is_ranking)

    # The rows of all items are batched together.
    def compute(items: list[_Item]) -> list[Computed]:
        rows: list[Row] = []
        for item in items:
            for row in item.rows:
                rows.append(row._replace(id=str(len(rows))))
        if not rows:  # queries without documents
            return [Computed([], 0, 0, 0) for _ in items]
        values, counts = predictor.values(rows)
        inference.note_cut(counts.is_cut, tuned.layout.max_seq_length)
        found = scorer.results(rows, values, threshold)
        computed: list[Computed] = []
        end = 0
        for item in items:
            begin, end = end, end + len(item.rows)
            read = int(counts.read[begin:end].sum())
            total = int(counts.total[begin:end].sum())
            if item.is_ranking:
                result = ranked(found[begin:end])
            else:
                result = found[begin]
                if hasattr(result, "tokens_read"):
                    result = result._replace(
                        tokens_read=read, tokens=total, unknown_tokens=item.unknown
                    )
            computed.append(Computed(result, read, total, item.unknown))
        return computed

    return Call(prepare, compute, predictor.at_once)


def _scorer(tuned: FineTunedTask, chosen: PredictSettings) -> tuple[Scorer, float]:
    """The scorer of the task and its threshold, or those that are given."""
    scorer, threshold = tuned.task.scorer, tuned.settings.threshold
    if chosen.threshold is not None:
        if not scorer.has_threshold:
            raise wrong("threshold", chosen.threshold, f"none for {tuned.task.name}")
        threshold = chosen.threshold
    if chosen.top_k is not None:
        if not hasattr(tuned.task.options, "n_best_size"):
            raise wrong("top_k", chosen.top_k, f"none for {tuned.task.name}")
        scorer = tuned.task.with_options(n_best_size=chosen.top_k).scorer
    return scorer, threshold
