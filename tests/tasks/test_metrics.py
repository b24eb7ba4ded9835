"""Metrics by hand and against scikit-learn, scipy and seqeval; where they have no value, such as
without positives, they are NaN, never a number. Constant answers, the lines of an evaluation."""

import dataclasses
import json
import math

import numpy as np
import pytest

from xlnet.tasks import contract, results
from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.known import TASK_TYPES, TASKS
from xlnet.tasks.results import constant_answer_metrics
from xlnet.tasks.tagging import sentences

TWO = dataclasses.replace(
    TASKS["cola"], metrics=("auc", "f1", "matthews", "accuracy", "macro_f1", "micro_f1")
)
THREE = dataclasses.replace(
    TASKS["mnli"], metrics=("auc", "matthews", "accuracy", "macro_f1", "micro_f1")
)
MULTI = TASK_TYPES["multi_label"](
    "mine",
    Columns(("t",), (), ("l",)),
    ("a", "b"),
    ("micro_f1", "macro_f1", "accuracy", "auc"),
)


def one_hot(task, ids):
    return np.eye(len(task.labels))[ids]


def evaluate(task, values, labels, threshold=0.5):
    return task.evaluate(np.array(values), np.array(labels), threshold)


def undefined(found):
    return {name for name, value in found.items() if math.isnan(value)}


def test_metrics_by_hand():
    predictions, labels = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]  # tp 2, fp 1, fn 1, tn 1
    # The F1 of the labels: 1/2 and 2/3; areas of (2/3 + 1/2) / 2.
    result = evaluate(TWO, one_hot(TWO, predictions), labels)
    assert result == {
        "auc": pytest.approx(7 / 12),
        "f1": pytest.approx(2 / 3),
        "matthews": pytest.approx((2 * 1 - 1 * 1) / 6),
        "accuracy": pytest.approx(0.6),
        "macro_f1": pytest.approx(7 / 12),
        "micro_f1": pytest.approx(0.6),
    }
    assert list(result) == list(TWO.metrics)
    scores = evaluate(TASKS["sts-b"], [1.0, 2.0, 4.0], [1.0, 2.5, 3.0])
    pearson = np.corrcoef([1, 2, 4], [1, 2.5, 3])[0, 1]
    assert scores == {"pearson": pytest.approx(pearson), "spearman": pytest.approx(1)}


def test_several_labels_by_hand():
    values = np.array([[0.9, 0.2], [0.6, 0.7], [0.1, 0.3]])
    labels = np.array([[1, 0], [0, 1], [0, 1]])
    # decided: 10, 11, 00. Label a: tp 1, fp 1; label b: tp 1, fn 1.
    assert evaluate(MULTI, values, labels) == {
        "micro_f1": pytest.approx(4 / 6),
        "macro_f1": pytest.approx(2 / 3),
        "accuracy": pytest.approx(1 / 3),
        "auc": 1.0,
    }
    found = MULTI.evaluate(values, labels, threshold=0.25)
    assert found["accuracy"] == pytest.approx(2 / 3)
    rows = [Row("", (), label) for label in (("a",), ("b",), ("b",))]
    assert constant_answer_metrics(MULTI, rows, 0.5)["accuracy"] == pytest.approx(2 / 3)


def test_the_second_label_is_the_positive_one():
    """Whatever the labels are called: for F1, AUC and the threshold alike."""
    values = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
    labels = [0, 1, 0, 1]
    for names in (("0", "1"), ("1", "2"), ("a", "b")):
        task = dataclasses.replace(TASKS["mrpc"], labels=names, metrics=("f1", "auc"))
        expected = {"f1": pytest.approx(2 / 3), "auc": 1.0}
        assert evaluate(task, values, labels) == expected
        assert evaluate(task, values, labels, 0.35)["f1"] == 1.0
        assert task.predicted_labels(values, 0.35) == [*names, *names]


def test_labels_that_are_numbers_are_in_their_order():
    names = contract.sorted_names({"10", "-1", "2", "0", "1", "0.5", "-10.5"})
    assert names == ("-10.5", "-1", "0", "0.5", "1", "2", "10")
    assert contract.sorted_names({"b", "10", "-1", "a"}) == ("-1", "10", "a", "b")
    assert contract.sorted_names({"nan", "1e3", "2"}) == ("1e3", "2", "nan")


def test_table():
    labels, decisions = np.array([0, 0, 1, 1]), [0, 1, 1, 1]
    table = TASKS["rte"].label_table(one_hot(TASKS["rte"], decisions), labels, 0.5)
    assert [line.split() for line in table.splitlines() if line][:3] == [
        ["precision", "recall", "f1-score", "support"],
        ["entailment", "1.0000", "0.5000", "0.6667", "2"],
        ["not_entailment", "0.6667", "1.0000", "0.8000", "2"],
    ]
    # Of many labels those that are true or predicted; of several in a row each.
    many = dataclasses.replace(TASKS["cola"], labels=tuple(map(str, range(50))))
    lines = many.label_table(one_hot(many, [1, 2]), np.array([1, 2]), 0.5).splitlines()
    assert [line.split()[:1] for line in lines[2:4]] == [["1"], ["2"]]
    values = np.array([[0.9, 0.2], [0.6, 0.7]])
    assert "b     1.0000" in MULTI.label_table(values, np.array([[1, 0], [0, 1]]), 0.5)


# ---- no value


CONSTANT, RISING = [2.0, 2.0, 2.0], [1.0, 2.0, 3.0]
CORRELATIONS = {"pearson", "spearman"}


@pytest.mark.parametrize(
    "task, values, labels, without",
    [
        (TWO, one_hot(TWO, [0, 0, 0]), [0, 0, 0], {"auc", "f1", "matthews"}),
        (TWO, one_hot(TWO, [0, 1, 0]), [0, 0, 0], {"auc", "matthews"}),
        (TWO, one_hot(TWO, [0, 0, 0]), [0, 1, 0], set()),
        (TWO, one_hot(TWO, [1]), [1], {"auc", "matthews"}),
        (THREE, one_hot(THREE, [0, 1, 2]), [1, 1, 1], {"auc", "matthews"}),
        (TASKS["sts-b"], CONSTANT, RISING, CORRELATIONS),
        (TASKS["sts-b"], RISING, CONSTANT, CORRELATIONS),
        (MULTI, [[0.1, 0.2]] * 2, [[0, 0]] * 2, {"micro_f1", "macro_f1", "auc"}),
        (MULTI, [[0.9, 0.2], [0.2, 0.1]], [[0, 0]] * 2, {"auc"}),
        (MULTI, [[0.9, 0.2], [0.2, 0.1]], [[1, 0], [0, 0]], set()),
    ],
)
def test_what_is_undefined(task, values, labels, without):
    found = evaluate(task, values, labels)
    assert undefined(found) == without
    if task is MULTI and not without:  # of the labels that are true or predicted
        assert found["macro_f1"] == found["micro_f1"] == 1.0


@pytest.mark.parametrize(
    "found, true, expected",
    [
        ("O O", "O O", (math.nan,) * 3),
        ("O O", "B-A O", (math.nan, 0, 0)),
        ("B-A O", "O O", (0, math.nan, 0)),
        ("B-A O", "O B-A", (0, 0, 0)),
    ],
)
def test_entities(found, true, expected):
    """Undefined where seqeval divides 0 by 0."""
    spans = [[sentences.entities_of(tags.split(), "bio2")] for tags in (found, true)]
    assert sentences.scores(*spans)[0] == pytest.approx(expected, nan_ok=True)
    table = sentences.scores(*spans)[1]
    assert "nan" not in (table or "")  # 0, as in seqeval's report


def test_an_undefined_metric_is_no_number(tmp_path, caplog):
    task = dataclasses.replace(TWO, metrics=("auc", "accuracy"))
    rows = [Row("0", (), "0"), Row("1", (), "0")]
    values = np.array([[0.9, 0.1], [0.4, 0.6]])
    predictions = contract.Predictions(values, np.ones(2))
    result = results.score(task, predictions, rows, 0.5)
    with caplog.at_level("INFO", "xlnet"):
        results.log_evaluation(task, "dev", 1, result, rows)
    line = "eval cola dev  step 1  auc undefined  accuracy 0.5000  loss 1.0000  "
    assert caplog.messages == [line + "(2 rows)"]
    results.write_evaluation(task, str(tmp_path), "dev", rows, result, values, 0.5)
    kept = json.loads((tmp_path / "eval_results_dev.json").read_text())
    assert kept["result"]["auc"] is None
    assert "support" in (tmp_path / "eval_table_dev.txt").read_text()
