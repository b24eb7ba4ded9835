"""Metrics where they have no value: one class, no positives, constant predictions, no relevant
document; against scikit-learn, scipy and seqeval's formulas. Undefined is NaN, never a number."""

import dataclasses
import json
import math
import warnings

import numpy as np
import pytest

from xlnet.engine import best_checkpoint
from xlnet.tasks.evaluation import Evaluation
from xlnet.tasks.known import TASK_TYPES, TASKS
from xlnet.tasks.tagging import sentences
from xlnet.tasks.task import Columns, Row, Task
from xlnet.tasks.types.contract import Predictions

TWO = dataclasses.replace(
    TASKS["cola"], metrics=("auc", "f1", "matthews", "accuracy", "macro_f1", "micro_f1")
)
THREE = dataclasses.replace(
    TASKS["mnli"], metrics=("auc", "matthews", "accuracy", "macro_f1", "micro_f1")
)
SCORES = dataclasses.replace(
    TASKS["sts-b"], metrics=("pearson", "spearman", "mse", "mae")
)
MULTI = Task(
    "mine",
    Columns(("t",), (), ("l",)),
    ("a", "b"),
    ("micro_f1", "macro_f1", "accuracy", "auc"),
    type=TASK_TYPES["multi_label"],
)


def by_scikit_learn(task, values, labels):
    """The metrics as scikit-learn has them if it may say that a value is undefined."""
    from sklearn import metrics

    decisions, labels = values.argmax(axis=1), np.asarray(labels)
    names = range(len(task.labels))
    areas = [
        metrics.roc_auc_score(labels == id, values[:, id])
        for id in ([1] if len(names) == 2 else names)
        if 0 < (labels == id).sum() < len(labels)
    ]
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
    "task, decisions, labels, undefined",
    [
        (TWO, [0, 0, 0], [0, 0, 0], {"auc", "f1", "matthews"}),
        (TWO, [0, 1, 0], [0, 0, 0], {"auc", "matthews"}),
        (TWO, [1, 1, 1], [1, 1, 1], {"auc", "matthews"}),
        (TWO, [0, 0, 0], [0, 1, 0], set()),
        (TWO, [1], [1], {"auc", "matthews"}),
        (THREE, [0, 1, 2], [1, 1, 1], {"auc", "matthews"}),
        (THREE, [1, 1, 1], [0, 1, 0], set()),
        (THREE, [0, 0, 1], [0, 1, 0], set()),
    ],
)
def test_labels(task, decisions, labels, undefined):
    values = np.eye(len(task.labels))[decisions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = by_scikit_learn(task, values, labels)
    found = task.scorer.evaluate(values, labels)
    assert found == pytest.approx(expected, nan_ok=True)
    assert {name for name, value in found.items() if math.isnan(value)} == undefined


@pytest.mark.parametrize(
    "predictions, labels",
    [
        ([2, 2, 2], [1, 2, 3]),
        ([1, 2, 3], [2, 2, 2]),
        ([1, 2, 3], [1, 2, 3]),
        ([2, 2], [2, 2]),
    ],
)
def test_scores(predictions, labels):
    from scipy import stats

    scores = [np.array(each, np.float32) for each in (predictions, labels)]
    found = SCORES.scorer.evaluate(*scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, measure in (
            ("pearson", stats.pearsonr),
            ("spearman", stats.spearmanr),
        ):
            assert found[name] == pytest.approx(measure(*scores)[0], nan_ok=True)
    assert found["mse"] == np.square(scores[0] - scores[1]).mean()
    assert math.isnan(SCORES.scorer.evaluate(scores[0][:1], scores[1][:1])["pearson"])


@pytest.mark.parametrize(
    "values, labels, undefined",
    [
        ([[0.1, 0.2], [0.2, 0.1]], [[0, 0], [0, 0]], {"micro_f1", "macro_f1", "auc"}),
        ([[0.9, 0.2], [0.2, 0.1]], [[0, 0], [0, 0]], {"auc"}),
        ([[0.9, 0.2], [0.2, 0.1]], [[1, 0], [0, 0]], set()),
    ],
)
def test_any_number_of_labels(values, labels, undefined):
    from sklearn import metrics

    found = MULTI.scorer.evaluate(np.array(values), np.array(labels))
    assert {name for name, value in found.items() if math.isnan(value)} == undefined
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["micro_f1"] == pytest.approx(
            metrics.f1_score(
                labels, np.array(values) > 0.5, average="micro", zero_division=math.nan
            ),
            nan_ok=True,
        )


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
    assert sentences.ratios(*spans) == pytest.approx(expected, nan_ok=True)
    table = sentences.table(*spans)
    assert "nan" not in (table or "")  # 0, as in seqeval's report


# ---- what becomes of it


def test_an_undefined_metric_says_why_once_and_is_no_number(tmp_path, caplog):
    task = dataclasses.replace(TWO, metrics=("auc", "accuracy"))
    evaluation, rows = (
        Evaluation(task, str(tmp_path), 0.5),
        [Row("0", (), "0"), Row("1", (), "0")],
    )
    predictions = Predictions(np.array([[0.9, 0.1], [0.4, 0.6]]), np.ones(2))
    with caplog.at_level("INFO", "xlnet"):
        for step in (1, 2):
            result = evaluation.score(predictions, rows)
            evaluation.report("dev", f"step {step}", result, rows)
    assert (
        caplog.messages[0]
        == "note: eval cola dev: auc is undefined: the gold labels are all "
        "the same; it chooses no checkpoint"
    )
    assert caplog.messages[1:] == [
        f"eval cola dev  step {step}  auc undefined  accuracy 0.5000  loss 1.0000  (2 rows)"
        for step in (1, 2)
    ]
    evaluation.keep_results("dev", rows, {}, [dict(step=1, **result)], None, {})
    kept = json.loads((tmp_path / "eval_results_dev.json").read_text())
    assert kept["checkpoints"][0]["auc"] is None and kept["best_step"] is None


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
