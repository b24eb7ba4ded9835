"""The verdict separates the ways in which a training fails, and names one setting for each."""

import dataclasses

import numpy as np
import pytest
from helpers.tasks import settings, write

from xlnet.finetuning.verdict import MOST_LINES, Evidence, verdict
from xlnet.settings.finetuning import TaggerSettings
from xlnet.tasks import known
from xlnet.tasks.fields import Row
from xlnet.tasks.results import best_threshold

STEPS = 100


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A task of two labels, one of three labels in a row, and one of scores."""
    directory = tmp_path_factory.mktemp("tasks")
    write(directory, "two.csv", "text_a,label", "x,a", "y,b", "z,a")
    write(directory, "many.csv", "text_a,label", 'x,"a,b"', "y,c", "z,a")
    write(directory, "score.csv", "text_a,label", "x,1", "y,2", "z,3")
    flags = {"two": {}, "many": {"multi_label": True}, "score": {"is_regression": True}}
    found = {}
    for name, changes in flags.items():
        asked = settings(directory / f"{name}.csv", **changes)
        found[name] = known.resolve_task(asked)
    return found


def curve(losses, rate=1e-3):
    return [
        dict(step=(i + 1) * STEPS / len(losses), loss=loss, learning_rate=rate)
        for i, loss in enumerate(losses)
    ]


def seen_of(task, labels, values, losses, *, rate=1e-3, threshold=0.5, **changes):
    """The evidence of a run: rows with these labels, and what was predicted."""
    rows = [Row(str(i), ((f"t{i}", None),), each) for i, each in enumerate(labels)]
    gold, values = task.gold(rows), np.array(values, np.float32)
    seen = Evidence(
        task=task,
        split="dev",
        rows=rows,
        train_rows=rows,
        values=values,
        threshold=threshold,
        result=task.evaluate(values, gold, threshold),
        evaluations=[dict(step=50, loss=0.5), dict(step=100, loss=0.4)],
        best_step=100,
        curve=curve(losses, rate),
        class_weights=None,
        is_pretrained=True,
        width=768,
    )
    return seen._replace(**changes)


def two(probabilities):
    return [[1 - each, each] for each in probabilities]


HALF = ["a", "b"] * 20
LEARNED, STUCK = np.linspace(0.7, 0.1, 20), np.full(20, 0.69)
RIGHT, ALL_A = two([0.1, 0.9] * 20), two([0.3, 0.31] * 20)


def test_a_start_that_knows_no_language_is_named(tasks):
    seen = seen_of(tasks["two"], HALF, RIGHT, LEARNED)
    _, random = verdict(seen._replace(is_pretrained=False))
    _, small = verdict(seen._replace(width=128))
    assert random.startswith("from random weights:")
    assert small.startswith("a network of width 128 knows little")
    assert len(verdict(seen._replace(width=128, train_rows=()))) == 1


def test_nothing_to_complain_about(tasks):
    [line] = verdict(seen_of(tasks["two"], HALF, RIGHT, LEARNED))
    expected = "dev: accuracy 1.0000 (0.91 to 1.00, at 95 % with 40 rows)"
    assert line == f"{expected}, of the constant answer 0.5000"
    scores = np.arange(40.0)
    noisy = scores + np.random.default_rng(0).normal(size=40)
    [line] = verdict(seen_of(tasks["score"], scores, noisy, np.linspace(100, 1, 20)))
    assert line.startswith("dev: pearson 0.99")


@pytest.mark.parametrize(
    "losses, values, changes, flag",
    [
        # The loss has not moved: never a lower rate, whatever was predicted.
        (STUCK, ALL_A, dict(rate=1e-5), "too low a rate; --learning_rate=3e-05"),
        (STUCK, ALL_A, {}, "too few steps; --train_steps=300"),
        (STUCK[:4], two([0.4] * 40), {}, "too few steps; --train_steps=300"),
        # It fell, but not below what the frequencies of the labels give.
        (np.linspace(0.9, 0.69, 20), ALL_A, {}, "--train_steps=300"),
        (np.linspace(1.21, 1.33, 20), ALL_A, {}, "loss rose, from 1.2100 to 1.3268: "),
        ([0.7, 0.4, 0.3, 0.9, 0.8], ALL_A, {}, "--learning_rate=0.0003"),
        (LEARNED, ALL_A, {}, "--predict_threshold=0.3"),
        (LEARNED, two([0.3] * 40), {}, "--dev_share=0.2"),
    ],
)
def test_why_it_has_not_learned(tasks, losses, values, changes, flag):
    first, second = verdict(seen_of(tasks["two"], HALF, values, losses, **changes))
    assert first.startswith("dev: accuracy 0.5000 (")
    assert flag in second


def test_a_rare_label_that_is_never_predicted(tasks):
    labels = ["a"] * 18 + ["b", "b"]
    seen = seen_of(tasks["two"], labels, two([0.1] * 20), LEARNED)
    assert verdict(seen)[1] == "never predicted: b; --class_weights=balanced"


def test_overfitted(tasks):
    rises = [dict(step=10), dict(step=20, loss=0.6), dict(step=100, loss=1.4)]
    values = two([0.6, 0.4, 0.4, 0.6] * 10)
    seen = seen_of(tasks["two"], HALF, values, LEARNED, evaluations=rises)
    assert "overfitted" in verdict(seen)[1] and "--train_steps=20" in verdict(seen)[1]
    # Not where the best checkpoint is late and good.
    seen = seen_of(tasks["two"], HALF, RIGHT, LEARNED, evaluations=rises)
    assert len(verdict(seen)) == 1
    # Rows of test are not held out of the train file.
    seen = seen_of(tasks["two"], HALF, values, LEARNED, split="test")
    assert "--train_steps=300" in verdict(seen)[1]
    # Not told apart from the constant answer, for another reason.
    seen = seen_of(tasks["two"], HALF, values, LEARNED)
    assert "--dev_share=0.2" in verdict(seen)[1]
    task = tasks["two"].with_files(dev_share=0.0)
    assert "--train_steps=300" in verdict(seen._replace(task=task))[1]


def test_a_label_that_dev_lacks(tasks):
    task = dataclasses.replace(tasks["two"], labels=("a", "b", "c"))
    values = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]] * 20
    lines = verdict(seen_of(task, HALF, values, LEARNED))
    assert lines[1] == "dev has no row of 1 labels (c); --dev_file with some"


def test_several_labels(tasks):
    labels = [("a", "b"), ("c",), ("a",), ("b", "c")] * 10
    gold = tasks["many"].gold([Row("", (), each) for each in labels])
    values = 0.1 + 0.2 * gold
    seen = seen_of(tasks["many"], labels, values, np.linspace(0.7, 0.2, 20))
    line = verdict(seen)[1]
    assert "never predicted: a, b, c; the labels are told apart (AUC 1.00)" in line
    assert "--predict_threshold=0." in line
    chosen = best_threshold(values, gold)
    assert chosen == pytest.approx(0.2)
    seen = seen_of(tasks["many"], labels, values, LEARNED, threshold=chosen)
    [line] = verdict(seen)
    assert line.startswith("dev: micro_f1 1.0000") and "constant answer 0.66" in line


def test_many_rare_labels(tasks, monkeypatch):
    monkeypatch.setattr("xlnet.finetuning.verdict._SAMPLES", 5)  # each of 16 AUCs
    task = dataclasses.replace(tasks["many"], labels=tuple("abcdefghijklmnop"))
    labels = [(each,) for each in task.labels] * 3
    seen = seen_of(task, labels, np.full([48, 16], 0.06), np.full(20, 0.23))
    assert "--class_weights=balanced" in verdict(seen)[1]
    seen = seen._replace(class_weights="balanced")
    assert "--train_steps=300" in verdict(seen)[1]


def test_without_rows_or_a_curve(tasks):
    seen = seen_of(tasks["two"], HALF, RIGHT, STUCK, rows=(), train_rows=())
    assert "hardly moved" in verdict(seen)[0]
    seen = seen_of(tasks["two"], HALF, RIGHT, LEARNED, rows=())
    assert verdict(seen) == ["the training loss fell, and no rows were evaluated"]
    seen = seen_of(tasks["two"], HALF, ALL_A, LEARNED, curve=(), evaluations=())
    assert len(verdict(seen)) == 2 <= MOST_LINES


def test_predictions_that_are_no_numbers(tasks, tmp_path):
    """Of tags and answers: the metric alone."""
    path = tmp_path / "train.txt"
    write(tmp_path, path.name, "He B-PER", "sleeps O", "", "Bo B-PER", "")
    task = known.resolve_task(settings(path, TaggerSettings))
    rows, values = task.read(str(path), True), [["a", "b"], ["c"]]
    seen = seen_of(tasks["two"], HALF, RIGHT, LEARNED, evaluations=[])
    seen = seen._replace(task=task, rows=rows, train_rows=rows, values=values)
    for f1, count in ((0.9, 1), (0.0, 2)):
        lines = verdict(seen._replace(result={"f1": f1}))
        assert lines[0] == f"dev: f1 {f1:.4f}" and len(lines) == count
