"""Metrics by hand, constant answers, tables of what was confused."""

import dataclasses

import numpy as np
import pytest

from xlnet.support.errors import UserError
from xlnet.tasks.evaluation import constant_answer
from xlnet.tasks.known import TASK_TYPES, TASKS
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.task import Columns, Task
from xlnet.tasks.types import contract


def one_hot(task, ids):
    return np.eye(len(task.labels))[ids]


# --- Metrics


def test_metrics_by_hand():
    predictions, labels = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]  # tp 2, fp 1, fn 1, tn 1
    assert TASKS["mrpc"].scorer.evaluate(
        one_hot(TASKS["mrpc"], predictions), labels
    ) == {"f1": pytest.approx(2 / 3), "accuracy": pytest.approx(0.6)}
    matthews = (2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2)
    result = TASKS["cola"].scorer.evaluate(one_hot(TASKS["cola"], predictions), labels)
    assert result["matthews"] == pytest.approx(matthews)
    assert list(result) == ["matthews", "accuracy"]


def test_metrics_of_scores_by_hand():
    scores = dataclasses.replace(
        TASKS["sts-b"], metrics=("pearson", "spearman", "mse", "mae")
    )
    result = scores.scorer.evaluate([1.0, 2.0, 4.0], [1.0, 2.5, 3.0])
    assert result == pytest.approx(
        {
            "pearson": np.corrcoef([1, 2, 4], [1, 2.5, 3])[0, 1],
            "spearman": 1,
            "mse": 1.25 / 3,
            "mae": 1.5 / 3,
        }
    )
    assert list(result) == list(scores.metrics) and not scores.lower_is_better
    assert dataclasses.replace(scores, metrics=("mse",)).lower_is_better
    scores.scorer.check_metric("mae")


def test_nan_has_no_score():
    with pytest.raises(
        UserError, match="task sts-b: 1 of 2 predictions are not finite"
    ):
        TASKS["sts-b"].scorer.evaluate([np.nan, 1], [1, 2])


MULTI = Task(
    "mine",
    Columns(("t",), (), ("l",)),
    ("a", "b"),
    ("micro_f1", "macro_f1", "accuracy", "auc"),
    type=TASK_TYPES["multi_label"],
)


def test_several_labels_by_hand():
    values, labels = (
        np.array([[0.9, 0.2], [0.6, 0.7], [0.1, 0.3]]),
        np.array([[1, 0], [0, 1], [0, 1]]),
    )
    # decided: 10, 11, 00. Label a: tp 1, fp 1; label b: tp 1, fn 1.
    assert MULTI.scorer.evaluate(values, labels) == {
        "micro_f1": pytest.approx(4 / 6),
        "macro_f1": pytest.approx(2 / 3),
        "accuracy": pytest.approx(1 / 3),
        "auc": 1.0,
    }
    found = MULTI.scorer.evaluate(values, labels, threshold=0.25)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert constant_answer(MULTI, labels, 0.5)["accuracy"] == pytest.approx(2 / 3)


def test_the_second_label_is_the_positive_one():
    """Whatever the labels are called: for F1, AUC and the threshold alike."""
    values, labels = (
        np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]),
        [0, 1, 0, 1],
    )
    for names in (("0", "1"), ("1", "2"), ("a", "b")):
        task = dataclasses.replace(TASKS["mrpc"], labels=names, metrics=("f1", "auc"))
        assert task.scorer.evaluate(values, labels) == {
            "f1": pytest.approx(2 / 3),
            "auc": 1.0,
        }
        assert task.scorer.evaluate(values, labels, 0.35)["f1"] == 1.0
        assert list(task.scorer.texts(values, 0.35)) == [*names, *names]


def test_labels_that_are_numbers_are_in_their_order():
    names = contract.sorted_names({"10", "-1", "2", "0", "1"})
    assert names == ("-1", "0", "1", "2", "10")
    assert contract.sorted_names({"0.5", "-10.5", "1", "10"}) == (
        "-10.5",
        "0.5",
        "1",
        "10",
    )
    assert contract.sorted_names({"b", "10", "-1", "a"}) == ("-1", "10", "a", "b")
    assert contract.sorted_names({"nan", "1e3", "2"}) == ("1e3", "2", "nan")


def test_table():
    task, labels, predictions = (
        TASKS["rte"],
        np.array([0, 0, 1, 1]),
        np.array([0, 1, 1, 1]),
    )
    table = split_metrics.class_table(task.labels, predictions, labels).splitlines()
    assert [line.split() for line in table if line][:3] == [
        ["precision", "recall", "f1-score", "support"],
        ["entailment", "1.0000", "0.5000", "0.6667", "2"],
        ["not_entailment", "0.6667", "1.0000", "0.8000", "2"],
    ]


def test_confusions_are_counted_with_a_line_for_each_true_label():
    text = split_metrics.confusion_table(
        ["a", "bb"], np.array([0, 1, 1]), np.array([0, 0, 1])
    )
    assert [line.split() for line in text.splitlines()] == [
        ["true", "a", "bb", "<-", "predicted"],
        ["a", "1", "1"],
        ["bb", "0", "1"],
    ]
    many = dataclasses.replace(TASKS["cola"], labels=tuple(map(str, range(50))))
    table = many.scorer.table(one_hot(many, [1, 2]), np.array([1, 2]), 0.5)
    assert "predicted" not in table
