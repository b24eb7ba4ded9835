"""What a fine-tuned model was trained for: items to rows, rows to predictions."""

from __future__ import annotations

import itertools
from typing import Any, Optional, Union

from xlnet.errors import UserError
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.serving.batched_calls import BatchedCall, Computed
from xlnet.serving.inference import Inference, row_of
from xlnet.serving.settings import PredictSettings, from_keywords
from xlnet.serving.texts import METHODS, with_own_names
from xlnet.tasks.task import Row
from xlnet.tasks.types.contract import Scorer


def prediction_call(
    inference: Inference, verb: Optional[str] = None, **settings: Any
) -> BatchedCall:
    """The call of a method of `METHODS`, of the model's own one if `verb` is None.

    Args:
      settings: those of `PredictSettings`; of those not given the model's own hold.
    """
    tuned = inference.tuned(verb)
    chosen = from_keywords(PredictSettings, settings)
    _check_threshold(tuned, chosen.threshold)
    threshold = chosen.threshold
    if threshold is None:
        threshold = tuned.settings.predict_threshold
    scorer = tuned.task.scorer
    if chosen.top_k is not None:
        # Of answers to questions: another number of best spans than in the prediction files.
        if not hasattr(tuned.task.options, "n_best_size"):
            raise UserError(
                f"top_k: the model was trained for {tuned.task.type.name}, which has no best spans"
            )
        scorer = tuned.task.with_options(n_best_size=chosen.top_k).scorer
    method = METHODS[tuned.task.type.verb]
    numbers = itertools.count()

    # An item may be several rows, as the documents of a query; all rows together are batched.
    def prepare(item: Any) -> list[Row]:
        examples = method.rows(with_own_names(item, tuned.task.columns))
        rows = []
        for number, example in enumerate(examples):
            place = f"document {number}: " if len(examples) > 1 else ""
            rows.append(row_of(tuned, next(numbers), example, place))
        return rows

    # An item of 1,000 documents is computed in as many steps as 1,000 texts are.
    def compute(items: list[list[Row]]) -> list[Union[Computed, UserError]]:
        rows = [row for rows_of_item in items for row in rows_of_item]
        results: list[Any] = []
        tokens_read: list[int] = []
        tokens: list[int] = []
        for begin in range(0, len(rows), inference.at_once):
            some = rows[begin : begin + inference.at_once]
            values, counts = inference.values(tuned, some)
            inference.note_cut(counts.is_cut, tuned.layout.max_seq_length)
            results += _results(scorer, some, values, threshold)
            tokens_read += counts.read.tolist()
            tokens += counts.total.tolist()
        computed: list[Union[Computed, UserError]] = []
        end = 0
        for rows_of_item in items:
            begin, end = end, end + len(rows_of_item)
            errors = [each for each in results[begin:end] if isinstance(each, UserError)]
            if errors:
                computed.append(errors[0])
                continue
            computed.append(
                Computed(
                    method.result(results[begin:end]),
                    sum(tokens_read[begin:end]),
                    sum(tokens[begin:end]),
                )
            )
        return computed

    return BatchedCall(prepare, compute, inference.at_once)


def _results(scorer: Scorer, rows: list[Row], values: Any, threshold: float) -> list[Any]:
    """The results of rows; of a row whose predictions are not finite numbers its UserError, as the
    rows next to it may be those of other callers."""
    try:
        return scorer.results(rows, values, threshold)
    except UserError as e:
        if len(rows) == 1:
            return [e]
    return [
        _results(scorer, [row], values[number : number + 1], threshold)[0]
        for number, row in enumerate(rows)
    ]


def _check_threshold(tuned: FineTunedTask, threshold: Optional[float]) -> None:
    if threshold is None or tuned.task.scorer.has_threshold:
        return
    labels = "no labels"
    if tuned.task.labels:
        labels = f"{len(tuned.task.labels)} labels, of which the likeliest one is predicted"
    raise UserError(
        f"threshold: the task {tuned.task.name} has {labels}, for which there is no threshold"
    )
