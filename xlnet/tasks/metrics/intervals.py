"""Confidence intervals of metrics: how little a small file says about a model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.task import Row, Task

SMALL = 200  # rows up to which there is a bootstrap
_SMALL_PROPORTION = 1000  # the same for a proportion, whose interval costs nothing
_SAMPLES = 200  # of the bootstrap


def wilson(right: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a proportion (https://doi.org/10.1080/01621459.1927.10502953)."""
    from scipy import stats

    found = stats.binomtest(right, count).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def interval(
    task: Task, values: Any, rows: Sequence[Row], threshold: float, value: float
) -> Optional[tuple[float, float]]:
    """The 95 % interval of the task's main metric, which has `value`; None for many rows, for a
    user's own metric, if it is undefined, or if all samples have one value, as of one query or of a
    perfect score.

    Accuracy has Wilson's. Others have the percentiles of a bootstrap over rows, or over queries
    where a task has some, as the rows of a query are not independent.
    """
    # Without an interval, or with one that costs nothing.
    name = task.metrics[0]
    if not math.isfinite(value) or name in task.own_metrics:
        return None
    if task.scorer.metrics.get(name) is split_metrics.accuracy and len(rows) <= _SMALL_PROPORTION:
        return wilson(round(value * len(rows)), len(rows))
    if not 1 < len(rows) <= SMALL:
        return None

    # A sample is scored by the scale of the complete split, not by its own.
    if task.type.with_scale:
        task = task.type.with_scale(task, rows)
    scorer = dataclasses.replace(task, metrics=(name,)).scorer

    # What is sampled: rows, or queries with all of their rows.
    units: dict[Any, list[int]] = {}  # query, or number of a row -> numbers of rows
    for index, row in enumerate(rows):
        units.setdefault(index if row.query is None else row.query, []).append(index)
    groups = list(units.values())

    # Each sample has as many units as there are, drawn with replacement. The seed is fixed, so that
    # a result is repeatable.
    random = np.random.default_rng(0)
    scores = []
    for _ in range(_SAMPLES):
        drawn = random.integers(len(groups), size=len(groups))
        indices, sample = _sample(rows, [groups[number] for number in drawn])
        if isinstance(values, list):
            sampled_values: Any = [values[index] for index in indices]
        else:
            sampled_values = np.asarray(values)[indices]
        score = scorer.evaluate(sampled_values, scorer.gold_labels(sample), threshold)[name]
        if math.isfinite(score):
            scores.append(score)
    if not scores:
        return None
    low, high = np.percentile(scores, [2.5, 97.5])
    return (float(low), float(high)) if low < high else None


def _sample(rows: Sequence[Row], groups: Sequence[Sequence[int]]) -> tuple[list[int], list[Row]]:
    """(the numbers of the rows of these groups, the rows)."""
    indices: list[int] = []
    sample: list[Row] = []
    for copy, group in enumerate(groups):
        for index in group:
            row = rows[index]
            if row.query is not None:  # a query that is drawn twice counts as two queries
                row = row._replace(query=f"{copy} {row.query}")
            indices.append(index)
            sample.append(row)
    return indices, sample
