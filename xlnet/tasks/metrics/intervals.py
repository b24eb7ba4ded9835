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
    # Samples are scored by the scale of the complete split.
    task = task.type.fixed(task, rows) if task.type.fixed else task
    scorer = dataclasses.replace(task, metrics=(name,)).scorer
    # What is sampled: rows, or queries with all of their rows.
    units: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        units.setdefault(index if row.query is None else row.query, []).append(index)
    # As many units as there are, with replacement; the seed is fixed, so a result is repeatable.
    groups, random, found = list(units.values()), np.random.default_rng(0), []
    for _ in range(_SAMPLES):
        chosen = [
            (copy, index)
            for copy, group in enumerate(random.integers(len(groups), size=len(groups)))
            for index in groups[group]
        ]
        # A query that is chosen twice is two queries.
        sample = [
            rows[index]
            if rows[index].query is None
            else rows[index]._replace(query=f"{copy} {rows[index].query}")
            for copy, index in chosen
        ]
        numbers = [index for _, index in chosen]
        mine = (
            [values[index] for index in numbers]
            if isinstance(values, list)
            else np.asarray(values)[numbers]
        )
        score = scorer.evaluate(mine, scorer.gold_labels(sample), threshold)[name]
        if math.isfinite(score):
            found.append(score)
    low, high = np.percentile(found, [2.5, 97.5]) if found else (value, value)
    return (float(low), float(high)) if low < high else None
