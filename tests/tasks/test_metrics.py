"""Metrics by hand and against scikit-learn, scipy and seqeval; where they have no value, such as
without positives, they are NaN, never a number. Constant answers, the lines of an evaluation."""

import dataclasses
import json
import math
import warnings

import numpy as np
import pytest

from xlnet.engine import best_checkpoint
from xlnet.support.errors import UserError
from xlnet.tasks import evaluation
from xlnet.tasks.evaluation import constant_answer
from xlnet.tasks.known import TASK_TYPES, TASKS
from xlnet.tasks.tagging import sentences
from xlnet.tasks.task import Columns, Row, Task
from xlnet.tasks.types import contract

TWO = dataclasses.replace(
    TASKS["cola"], metrics=("auc", "f1", "matthews", "accuracy", "macro_f1", "micro_f1")
)
THREE = dataclasses.replace(
    TASKS["mnli"], metrics=("auc", "matthews", "accuracy", "macro_f1", "micro_f1")
)
MULTI = Task(
    "mine",
    Columns(("t",), (), ("l",)),
    ("a", "b"),
    ("micro_f1", "macro_f1", "accuracy", "auc"),
    type=TASK_TYPES["multi_label"],
)


def one_hot(task, ids):
    return np.eye(len(task.labels))[ids]


def undefined(found):
    return {name for name, value in found.items() if math.isnan(value)}


def test_metrics_by_hand():
    predictions, labels = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]  # tp 2, fp 1, fn 1, tn 1
    assert TASKS["mrpc"].scorer.evaluate(
        one_hot(TASKS["mrpc"], predictions), labels
    ) == {"f1": pytest.approx(2 / 3), "accuracy": pytest.approx(0.6)}
    matthews = (2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2)
    result = TASKS["cola"].scorer.evaluate(one_hot(TASKS["cola"], predictions), labels)
    assert result["matthews"] == pytest.approx(matthews)
    assert list(result) == ["matthews", "accuracy"]
    scores = TASKS["sts-b"].scorer.evaluate([1.0, 2.0, 4.0], [1.0, 2.5, 3.0])
    pearson = np.corrcoef([1, 2, 4], [1, 2.5, 3])[0, 1]
    assert scores == {"pearson": pytest.approx(pearson), "spearman": pytest.approx(1)}


def test_nan_has_no_score():
    with pytest.raises(
        UserError, match="task sts-b: found 1 of 2 predictions that are not finite"
    ):
        TASKS["sts-b"].scorer.evaluate([np.nan, 1], [1, 2])


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
    rows = [Row("", (), label) for label in (("a",), ("b",), ("b",))]
    assert constant_answer(MULTI, rows, 0.5)["accuracy"] == pytest.approx(2 / 3)


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
        assert task.scorer.labels(values, 0.35) == [*names, *names]


def test_labels_that_are_numbers_are_in_their_order():
    names = contract.sorted_names({"10", "-1", "2", "0", "1", "0.5", "-10.5"})
    assert names == ("-10.5", "-1", "0", "0.5", "1", "2", "10")
    assert contract.sorted_names({"b", "10", "-1", "a"}) == ("-1", "10", "a", "b")
    assert contract.sorted_names({"nan", "1e3", "2"}) == ("1e3", "2", "nan")


def test_table():
    labels, decisions = np.array([0, 0, 1, 1]), [0, 1, 1, 1]
    table = TASKS["rte"].scorer.table(one_hot(TASKS["rte"], decisions), labels, 0.5)
    assert [line.split() for line in table.splitlines() if line][:3] == [
        ["precision", "recall", "f1-score", "support"],
        ["entailment", "1.0000", "0.5000", "0.6667", "2"],
        ["not_entailment", "0.6667", "1.0000", "0.8000", "2"],
    ]
    # Of many labels those that are true or predicted; of several in a row each.
    many = dataclasses.replace(TASKS["cola"], labels=tuple(map(str, range(50))))
    lines = many.scorer.table(one_hot(many, [1, 2]), np.array([1, 2]), 0.5).splitlines()
    assert [line.split()[:1] for line in lines[2:4]] == [["1"], ["2"]]
    values = np.array([[0.9, 0.2], [0.6, 0.7]])
    assert "b     1.0000" in MULTI.scorer.table(values, np.array([[1, 0], [0, 1]]), 0.5)


# ---- no value


def by_scikit_learn(task, values, labels):
    """The metrics as scikit-learn has them if it may say that a value is undefined."""
    from sklearn import metrics

    decisions, labels = values.argmax(axis=1), np.asarray(labels)
    names = range(len(task.labels))
    areas = []
    for id in [1] if len(names) == 2 else names:
        if 0 < (labels == id).sum() < len(labels):
            areas.append(metrics.roc_auc_score(labels == id, values[:, id]))
    found = {
        "auc": np.mean(areas) if areas else math.nan,
        "matthews": metrics.matthews_corrcoef(labels, decisions)
        if len(set(labels)) > 1
        else math.nan,  # scikit-learn says 0, of 0 / 0
        "accuracy": metrics.accuracy_score(labels, decisions),
    }
    for average in ("macro", "micro"):
        found[average + "_f1"] = metrics.f1_score(
            labels, decisions, average=average, zero_division=math.nan
        )
    if len(names) == 2:
        found["f1"] = metrics.f1_score(labels, decisions, zero_division=math.nan)
    return {name: found[name] for name in task.metrics}


@pytest.mark.parametrize(
    "task, decisions, labels, without",
    [
        (TWO, [0, 0, 0], [0, 0, 0], {"auc", "f1", "matthews"}),
        (TWO, [0, 1, 0], [0, 0, 0], {"auc", "matthews"}),
        (TWO, [0, 0, 0], [0, 1, 0], set()),
        (TWO, [1], [1], {"auc", "matthews"}),
        (THREE, [0, 1, 2], [1, 1, 1], {"auc", "matthews"}),
        (THREE, [0, 0, 1], [0, 1, 0], set()),
    ],
)
def test_labels(task, decisions, labels, without):
    values = np.eye(len(task.labels))[decisions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = by_scikit_learn(task, values, labels)
    found = task.scorer.evaluate(values, labels)
    assert found == pytest.approx(expected, nan_ok=True)
    assert undefined(found) == without


@pytest.mark.parametrize(
    "predictions, labels",
    [([2, 2, 2], [1, 2, 3]), ([1, 2, 3], [2, 2, 2]), ([1, 2, 3], [1, 2, 3])],
)
def test_scores(predictions, labels):
    from scipy import stats

    scores = [np.array(each, np.float32) for each in (predictions, labels)]
    found = TASKS["sts-b"].scorer.evaluate(*scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["pearson"] == pytest.approx(stats.pearsonr(*scores)[0], nan_ok=1)
        assert found["spearman"] == pytest.approx(stats.spearmanr(*scores)[0], nan_ok=1)


@pytest.mark.parametrize(
    "values, labels, without",
    [
        ([[0.1, 0.2], [0.2, 0.1]], [[0, 0], [0, 0]], {"micro_f1", "macro_f1", "auc"}),
        ([[0.9, 0.2], [0.2, 0.1]], [[0, 0], [0, 0]], {"auc"}),
        ([[0.9, 0.2], [0.2, 0.1]], [[1, 0], [0, 0]], set()),
    ],
)
def test_any_number_of_labels(values, labels, without):
    found = MULTI.scorer.evaluate(np.array(values), np.array(labels))
    assert undefined(found) == without
    if not without:  # of the labels that are true or predicted
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
    spans = [[sentences.spans(tags.split(), "bio2")] for tags in (found, true)]
    assert sentences.scores(*spans)[0] == pytest.approx(expected, nan_ok=True)
    table = sentences.scores(*spans)[1]
    assert "nan" not in (table or "")  # 0, as in seqeval's report


def test_an_undefined_metric_is_no_number(tmp_path, caplog):
    task = dataclasses.replace(TWO, metrics=("auc", "accuracy"))
    rows = [Row("0", (), "0"), Row("1", (), "0")]
    values = np.array([[0.9, 0.1], [0.4, 0.6]])
    predictions = contract.Predictions(values, np.ones(2))
    result = evaluation.score(task, predictions, rows, 0.5)
    with caplog.at_level("INFO", "xlnet"):
        evaluation.report(task, "dev", 1, result, rows)
    line = (
        "eval cola dev  step 1  auc undefined  accuracy 0.5000  loss 1.0000  (2 rows)"
    )
    assert caplog.messages == [line]
    results = [dict(step=1, **result)]
    evaluation.keep(task, str(tmp_path), "dev", rows, results, None, values, 0.5)
    kept = json.loads((tmp_path / "eval_results_dev.json").read_text())
    assert kept["checkpoints"][0]["auc"] is None and kept["best_step"] is None
    assert "support" in (tmp_path / "eval_table_dev.txt").read_text()


def test_an_undefined_metric_chooses_nothing(tmp_path):
    for step, score in ((1, math.nan), (2, 0.5), (3, math.nan)):
        chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "auc", patience=1)
        assert (chosen.best() or {"step": 0})["step"] == (0 if step < 3 else 2)
        assert not chosen.is_over()
        chosen.add(step, {"auc": score, "loss": 1.0}, None)
    assert chosen.best()["step"] == 2
    assert chosen.is_over()
    stored = json.loads((tmp_path / "evaluations.json").read_text())["evaluations"]
    assert [one["auc"] for one in stored] == [None, 0.5, None]
