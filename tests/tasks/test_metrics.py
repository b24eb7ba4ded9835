"""Metrics by hand, constant answers, tables of what was confused."""

import dataclasses

import numpy as np
import pytest
from helpers import tasks

from xlnet.errors import UserError
from xlnet.tasks.evaluation import Evaluation
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.questions.answers import BestSpans, ScoredSpan
from xlnet.tasks.questions.squad import GoldAnswer
from xlnet.tasks.task import Columns, Row, Task
from xlnet.tasks.types import classification, contract, custom
from xlnet.tasks.types.contract import Predictions
from xlnet.tasks.types.known import GLUE, TASK_TYPES


def one_hot(task, ids):
    return np.eye(len(task.labels))[ids]


# --- Metrics


def test_metrics_by_hand():
    predictions, labels = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]  # tp 2, fp 1, fn 1, tn 1
    assert GLUE["mrpc"].scorer.evaluate(one_hot(GLUE["mrpc"], predictions), labels) == {
        "f1": pytest.approx(2 / 3),
        "accuracy": pytest.approx(0.6),
    }
    matthews = (2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2)
    result = GLUE["cola"].scorer.evaluate(one_hot(GLUE["cola"], predictions), labels)
    assert result["matthews"] == pytest.approx(matthews)
    assert list(result) == ["matthews", "accuracy"]


def test_metrics_of_scores_by_hand():
    scores = dataclasses.replace(GLUE["sts-b"], metrics=("pearson", "spearman", "mse", "mae"))
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
    with pytest.raises(UserError, match="task sts-b: 1 of 2 predictions are not finite"):
        GLUE["sts-b"].scorer.evaluate([np.nan, 1], [1, 2])


def test_majority_baseline():
    assert GLUE["rte"].scorer.baseline([1, 1, 0]) == {"accuracy": pytest.approx(2 / 3)}
    assert GLUE["mrpc"].scorer.baseline([1, 1, 0])["f1"] == pytest.approx(0.8)
    found = GLUE["sts-b"].scorer.baseline(np.array([1.1, 2.3, 3.7], np.float32))
    assert np.isnan([found["pearson"], found["spearman"]]).all()


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
    assert MULTI.scorer.baseline(labels)["accuracy"] == pytest.approx(2 / 3)


def test_the_threshold_of_an_evaluation_decides_the_baseline_too():
    labels = [("a",), ("a",), ("a",), (), (), (), ("b",), (), (), ()]
    rows = [Row(str(i), (("t", None),), label) for i, label in enumerate(labels)]
    at_half, at_fifth = (
        Evaluation(MULTI, None, threshold).baseline("dev", rows) for threshold in (0.5, 0.2)
    )
    assert at_half["micro_f1"] == 0  # no label has half of the rows
    # All rows are given a, which has 0.3 of them: tp 3, fp 7, fn 1.
    assert at_fifth["micro_f1"] == pytest.approx(6 / 14)


@pytest.mark.parametrize("value", (0.5, 0.2))
def test_the_baseline_of_a_type_with_thresholds_is_given_any_threshold(value, monkeypatch):
    """Also the default one: a type of one's own needs no default for it."""
    given = []

    def baseline(self, gold_labels, threshold):
        given.append(threshold)
        return {}

    monkeypatch.setattr(type(MULTI.scorer), "baseline", baseline)
    rows = [Row("0", (("t", None),), ("a",))]
    Evaluation(MULTI, None, value).baseline("dev", rows)
    assert given == [value]


def test_auc():
    task = dataclasses.replace(GLUE["cola"], metrics=("auc",))
    values = one_hot(task, [0, 0, 0]) + [[0, 0.1], [0, 0.3], [0, 0.2]]
    assert task.scorer.evaluate(values, [0, 1, 0]) == {"auc": 1}
    assert task.scorer.evaluate(values, [1, 0, 0]) == {"auc": 0}
    assert np.isnan(task.scorer.evaluate(values, [0, 0, 0])["auc"])  # no curve
    three = dataclasses.replace(GLUE["mnli"], metrics=("auc",))
    # Label 2 has no rows: the mean is that of labels 0 and 1.
    assert three.scorer.evaluate([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1]], [0, 1]) == {"auc": 1}


def test_collapse_is_noticed():
    cola, labels = GLUE["cola"], [0, 1, 1]
    assert cola.scorer.constant_prediction(one_hot(cola, [1, 1, 1]), labels) == "every row is '1'"
    assert cola.scorer.constant_prediction(one_hot(cola, [1, 0, 1]), labels) is None
    assert cola.scorer.constant_prediction(one_hot(cola, [1, 1, 1]), [1, 1, 1]) is None
    assert GLUE["sts-b"].scorer.constant_prediction([2.5, 2.501, 2.5], [0.0, 5.0, 2.0]) == (
        "all scores are about 2.50"
    )
    assert GLUE["sts-b"].scorer.constant_prediction([2.5, 3.5, 2.0], [0.0, 5.0, 2.0]) is None
    assert MULTI.scorer.constant_prediction(np.full([3, 2], 0.1), np.eye(3)[:, :2]) == (
        "every row has the labels (none)"
    )


def test_collapse_of_a_type_of_ones_own_is_noticed():
    """By what its `decide` returns; a type that predicts something else may say it itself."""

    class Scorer(contract.Scorer):
        def texts(self, values, threshold):
            return ["{} {}".format(*row) for row in values]

    scorer = Scorer(GLUE["rte"])
    labels = np.array([[0, 1], [1, 1], [1, 0]])
    constant = np.array([[1.0, 2.0], [1.0, 2.00001], [1.0, 2.0]])
    assert scorer.constant_prediction(constant, labels) == "every row is '1.0 2.0'"
    assert scorer.constant_prediction(constant, labels[[0, 0, 0]]) is None
    assert scorer.constant_prediction(constant + [[0], [0], [0.1]], labels) is None
    assert scorer.constant_prediction(np.array(["a", "a", "a"]), labels) is None


def test_answering_no_question_is_noticed():
    columns = Columns(("context",), ("question",), ("answers",))
    task = Task("own", columns, None, ("f1",), TASK_TYPES["spans"])
    rows = [
        Row("0", (("It rains.", "What?"),), (GoldAnswer("It", 0),)),
        Row("1", (("It rains.", "Who?"),), ()),
    ]
    says_none = [BestSpans([ScoredSpan(0, 2, 0.0, 0.0)], 9.0) for _ in rows]
    answers = [BestSpans([ScoredSpan(0, 2, 0.0, 0.0)], -9.0), says_none[1]]
    gold = task.scorer.gold_labels(rows)
    assert "no answer" in task.scorer.constant_prediction(says_none, gold)
    assert task.scorer.constant_prediction(answers, gold) is None
    none_right = task.scorer.gold_labels([rows[1], rows[1]])
    assert task.scorer.constant_prediction(says_none, none_right) is None


def test_labels_that_are_numbers_are_in_their_order():
    names = classification.sorted_names({"10", "-1", "2", "0", "1"})
    assert names == ("-1", "0", "1", "2", "10")
    assert classification.sorted_names({"0.5", "-10.5", "1", "10"}) == ("-10.5", "0.5", "1", "10")
    assert classification.sorted_names({"b", "10", "-1", "a"}) == ("-1", "10", "a", "b")
    assert classification.sorted_names({"nan", "1e3", "2"}) == ("1e3", "2", "nan")


def test_collapse_is_judged_at_the_threshold_of_predictions():
    predictions = Predictions(np.array([[0.9, 0.1], [0.7, 0.3]]), np.ones(2))
    for task, labels in ((GLUE["cola"], "01"), (MULTI, (("a",), ("b",)))):
        rows = [Row("", (), label) for label in labels]
        assert "collapsed" not in Evaluation(task, "", 0.2).score(predictions, rows)
        assert "collapsed" in Evaluation(task, "", 0.5).score(predictions, rows)


def test_a_probability_at_its_threshold_is_a_label_as_in_an_exported_model():
    values = np.full([1, 2], 0.7, np.float32)
    assert MULTI.scorer.decide(values, 0.7).tolist() == [[1, 1]]
    assert GLUE["cola"].scorer.decide(values, 0.7).tolist() == [1]


def test_table():
    task, labels, predictions = GLUE["rte"], np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    table = split_metrics.class_table(task, predictions, labels).splitlines()
    assert [line.split() for line in table if line][:3] == [
        ["precision", "recall", "f1-score", "support"],
        ["entailment", "1.0000", "0.5000", "0.6667", "2"],
        ["not_entailment", "0.6667", "1.0000", "0.8000", "2"],
    ]


# --- scikit-learn's functions

PROBABILITIES = np.array([[0.9, 0.1], [0.6, 0.4], [0.55, 0.45], [0.8, 0.2], [0.3, 0.7]], np.float32)
TWO_LABELS = np.array([0, 1, 1, 0, 1])


def sklearn_metric(name, values, labels, task="rte"):
    return split_metrics.own(f"sklearn.metrics:{name}")(
        GLUE[task], values.argmax(1), np.asarray(labels), values
    )


def test_functions_of_probabilities_get_probabilities():
    """Decisions have an AUC of 2/3 and a log loss of 24 here."""
    from sklearn import metrics

    second = PROBABILITIES[:, 1]
    assert sklearn_metric("roc_auc_score", PROBABILITIES, TWO_LABELS) == 1.0
    assert sklearn_metric("average_precision_score", PROBABILITIES, TWO_LABELS) == 1.0
    found = sklearn_metric("log_loss:min", PROBABILITIES, TWO_LABELS)
    assert found == pytest.approx(-np.log(PROBABILITIES[range(5), TWO_LABELS]).mean())
    found = sklearn_metric("brier_score_loss:min", PROBABILITIES, TWO_LABELS)
    assert found == pytest.approx(np.square(second - TWO_LABELS).mean())
    # Functions of labels get labels as before.
    decisions = PROBABILITIES.argmax(1)
    assert sklearn_metric("f1_score", PROBABILITIES, TWO_LABELS) == metrics.f1_score(
        TWO_LABELS, decisions
    )


def test_functions_of_probabilities_of_several_labels():
    values = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.5, 0.1]], np.float32)
    # One label is in no row of the split.
    found = sklearn_metric("log_loss:min", values, [0, 1, 1], "mnli")
    assert found == pytest.approx(np.log(2))
    labels = [0, 1, 2]
    with pytest.raises(UserError, match="roc_auc_score.*multi_class"):
        sklearn_metric("roc_auc_score", values, labels, "mnli")
    from sklearn import metrics

    expected = metrics.roc_auc_score(labels, values, multi_class="ovr")
    assert sklearn_metric("roc_auc_ovr", values, labels, "mnli") == pytest.approx(expected)
    assert sklearn_metric("neg_log_loss", values, labels, "mnli") == pytest.approx(
        -metrics.log_loss(labels, values)
    )


def test_an_average_over_labels_has_those_that_a_split_lacks():
    """With two of three labels it was refused as the curve of one."""
    values = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.5, 0.1]], np.float32)
    assert sklearn_metric("average_precision_score", values, [0, 1, 2], "mnli") == pytest.approx(
        (1 + 1 / 2 + 1 / 3) / 3
    )
    found = sklearn_metric("average_precision_score", values, [0, 1, 1], "mnli")
    assert found == pytest.approx((1 + 1 + 0) / 3)


@pytest.mark.parametrize("name", ["f1_score", "roc_auc_score"])
def test_a_function_for_fewer_labels_is_refused_before_training(name):
    """It gave a number where a file lacked the other labels, and failed at a prediction of one."""
    with pytest.raises(UserError, match=f"metric: 'sklearn.metrics:{name}': .*multi"):
        split_metrics.check(GLUE["mnli"], f"sklearn.metrics:{name}")
    for right in ("f1_macro", "log_loss:min", "average_precision_score", "cohen_kappa_score"):
        split_metrics.check(GLUE["mnli"], f"sklearn.metrics:{right}")
    split_metrics.check(GLUE["rte"], f"sklearn.metrics:{name}")


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("max_error:min root_mean_squared_log_error:min r2_score", "roc_auc_score f1_score"),
        ("f1_score roc_auc_score log_loss:min hamming_loss:min", "f1_samples ndcg_score"),
    ],
    ids=["scores", "one of several labels"],
)
def test_a_function_of_other_labels_or_scores_is_refused_before_training(tmp_path, right, wrong):
    """Training ended at its first evaluation."""
    task = GLUE["sts-b"]
    if "f1_samples" in wrong:
        tasks.write(tmp_path, "train.csv", "text_a,label", "a,x", "b,")
        flags = {"multi_label": True, "label_separator": ";", "dev_share": 0.0}
        task = custom.resolve_task(tasks.settings(tmp_path, **flags))
        assert task.labels == ("x",)
    for name in right.split():
        split_metrics.check(task, f"sklearn.metrics:{name}")
    for name in wrong.split():
        with pytest.raises(UserError, match=f"metric: 'sklearn.metrics:{name}': "):
            split_metrics.check(task, f"sklearn.metrics:{name}")


@pytest.mark.parametrize(
    "name, remedy",
    (
        ("log_loss", "metric=sklearn.metrics:log_loss:min"),
        ("zero_one_loss", "metric=sklearn.metrics:zero_one_loss:min"),
        ("roc_auc_score:min", "metric=sklearn.metrics:roc_auc_score"),
        ("neg_log_loss:min", "metric=sklearn.metrics:neg_log_loss"),
        ("hinge_loss:min", "margins"),
        ("roc_auk", "no attribute 'roc_auk'"),
    ),
)
def test_functions_of_scikit_learn_that_cannot_select_checkpoints(name, remedy):
    with pytest.raises(UserError, match=f"{name}.*{remedy}"):
        split_metrics.own(f"sklearn.metrics:{name}")


def test_an_imported_function_of_scikit_learn_is_that_of_scikit_learn(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from sklearn.metrics import roc_auc_score\n")
    values = (GLUE["rte"], PROBABILITIES.argmax(1), TWO_LABELS, PROBABILITIES)
    assert split_metrics.own(f"{path}:roc_auc_score")(*values) == 1.0
    path.write_text(
        "from sklearn import metrics\n"
        "f2 = metrics.make_scorer(metrics.fbeta_score, beta=2)\n"
        "loss = metrics.make_scorer(\n"
        "    metrics.log_loss, greater_is_better=False, response_method='predict_proba'\n)\n"
    )
    assert 0 < split_metrics.own(f"{path}:f2")(*values) < 1
    expected = sklearn_metric("log_loss:min", PROBABILITIES, TWO_LABELS)
    assert split_metrics.own(f"{path}:loss")(*values) == -expected


def test_scores_of_a_regression_have_no_probabilities():
    metric = split_metrics.own("sklearn.metrics:roc_auc_score")
    scores = np.array([0.5, 0.7])
    with pytest.raises(UserError, match="probability of each label"):
        metric(GLUE["sts-b"], scores, np.array([0.0, 1.0]), scores)
