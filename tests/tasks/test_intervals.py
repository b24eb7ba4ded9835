"""Confidence intervals of metrics: Wilson's of proportions, and the bootstrap of others."""

import dataclasses

import numpy as np
import pytest

from xlnet.tasks.files.squad_files import GoldAnswer
from xlnet.tasks.metrics import intervals
from xlnet.tasks.output.span_answers import BestSpans, ScoredSpan
from xlnet.tasks.task import Row
from xlnet.tasks.types.known import GLUE, TASKS


@pytest.mark.parametrize(
    "right, count, low, high",
    [
        # By the formula of Wikipedia, "Binomial proportion confidence interval".
        (12, 12, 0.757506, 1.0),
        (0, 12, 0.0, 0.242494),
        (9, 10, 0.595850, 0.982124),
        (50, 100, 0.403832, 0.596168),
    ],
)
def test_wilson(right, count, low, high):
    assert intervals.wilson(right, count) == (
        pytest.approx(low, abs=1e-6),
        pytest.approx(high, abs=1e-6),
    )


def rows_of(labels):
    return [Row(str(i), (("x", "y"),), label) for i, label in enumerate(labels)]


def test_a_dozen_right_predictions_say_little():
    rows = rows_of(["entailment"] * 12)
    values = np.tile([0.9, 0.1], (12, 1))
    assert intervals.interval(GLUE["rte"], values, rows, 0.5, 1.0) == intervals.wilson(12, 12)
    many = rows_of(["entailment"] * 1001)
    assert intervals.interval(GLUE["rte"], np.tile([0.9, 0.1], (1001, 1)), many, 0.5, 1.0) is None
    assert intervals.interval(GLUE["rte"], values, rows, 0.5, float("nan")) is None


def test_a_metric_of_ones_own_has_none_whatever_its_name_is():
    """Its numbers need not be a proportion."""
    task = dataclasses.replace(GLUE["rte"], own_metrics={"accuracy": "mine.py:accuracy"})
    values = np.tile([0.9, 0.1], (12, 1))
    assert intervals.interval(task, values, rows_of(["entailment"] * 12), 0.5, 85.0) is None


def test_a_bootstrap_has_the_spread_of_new_samples():
    """Of a mean, where it is known."""
    random = np.random.default_rng(1)
    task = dataclasses.replace(GLUE["sts-b"], metrics=("mae",))
    true = random.random(200) * 5
    values = true + random.normal(size=200)
    value = float(np.mean(np.abs(values - true)))
    low, high = intervals.interval(task, values, rows_of(true.tolist()), 0.5, value)
    spread = np.std(np.abs(values - true)) / np.sqrt(200)
    assert low < value < high and (high - low) / (2 * 1.96 * spread) == pytest.approx(1, abs=0.25)
    assert (low, high) == intervals.interval(task, values, rows_of(true.tolist()), 0.5, value)


def test_samples_without_a_spread_are_no_interval():
    """Of a perfect score they say that it is sure, which it is not."""
    task = dataclasses.replace(GLUE["rte"], metrics=("macro_f1",))
    rows = rows_of(["entailment", "not_entailment"] * 3)
    values = np.tile([[0.9, 0.1], [0.2, 0.8]], (3, 1))
    assert intervals.interval(task, values, rows, 0.5, 1.0) is None
    values[0] = 0.4, 0.6
    low, high = intervals.interval(task, values, rows, 0.5, 0.8285714)
    assert low < 0.83 < high


def test_the_rows_of_a_query_stay_together():
    """One query says nothing of others; of several, the interval is that of their means."""
    rows = [Row(f"d{i}", (("q", "t"),), float(i == 0), f"q{q}") for q in range(6) for i in range(3)]
    values = np.array([3.0, 2.0, 1.0] * 3 + [1.0, 2.0, 3.0] * 3)
    task = TASKS["ranking"]
    assert intervals.interval(task, values, rows[:3], 0.5, 1.0) is None
    mean = task.scorer.evaluate(values, task.scorer.gold_labels(rows))[task.metrics[0]]
    low, high = intervals.interval(task, values, rows, 0.5, mean)
    assert 0.5 <= low < mean < high <= 1


def test_samples_are_measured_by_the_scale_of_the_complete_file():
    """The highest label for ERR, and the rule of questions, are not those of each sample."""
    rows = [Row("d", (("q", "t"),), label, f"q{label}") for label in (1.0, 1.0, 1.0, 3.0)]
    rows = [row._replace(query=f"q{i}") for i, row in enumerate(rows)]
    task = dataclasses.replace(TASKS["ranking"], metrics=("err@1",))
    values = np.ones(4)
    each = [1 / 8, 1 / 8, 1 / 8, 7 / 8]
    assert task.scorer.evaluate(values, task.scorer.gold_labels(rows))["err@1"] == np.mean(each)
    low, high = intervals.interval(task, values, rows, 0.5, np.mean(each))
    assert low == 1 / 8 < high <= 7 / 8  # all documents of a sample may have label 1

    # The answer "a" has no word; version 2.0 of SQuAD's script takes it for none.
    context = "a b"
    questions = [
        Row(str(i), ((context, "?"),), (GoldAnswer("a", 0),), context + str(i)) for i in range(6)
    ] + [Row("none", ((context, "?"),), (), "none")]
    found = [BestSpans([ScoredSpan(0, 1, 0.0, 0.0)], -9.0)] * 6 + [BestSpans([], 9.0)]
    task = TASKS["squad2"].with_options(scoring=None)
    assert task.scorer.evaluate(found, task.scorer.gold_labels(questions))["f1"] == 100
    assert intervals.interval(task, found, questions, 0.5, 100.0) is None  # no sample is below
