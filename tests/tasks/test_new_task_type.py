"""A new task type is one short file: trained, evaluated, selected and predicted with."""

import dataclasses
import json
import pickle
import random

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import make_vocabulary, weights
from helpers.paths import RELEASED, ROOT
from own_task_type.ordinal import ORDINAL
from own_task_type.two_towers import TWO_TOWERS, TowersHead, TowersReader

import xlnet
from xlnet.inference.export import exporter
from xlnet.tasks.task import Columns, Task
from xlnet.tasks.types import known
from xlnet.tasks.types.contract import Head

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
for _each in (
    ORDINAL,
    TWO_TOWERS,
):  # registered as they were imported; others list all types
    known.TASK_TYPES.pop(_each.name, None)
WORDS = ("kamat", "telok", "solkit", "laskit", "nokle")  # of the grades from 1 to 5
STARS = Task(
    "stars",
    Columns(("text",), (), ("stars",)),
    tuple("12345"),
    ORDINAL.default_metrics,
    ORDINAL,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ordinal")
    rng = random.Random(0)
    for split, count in (("train", 80), ("dev", 20), ("test", 10)):
        grades = [rng.randrange(5) for _ in range(count)]
        lines = [
            "{} {}\t{}".format(
                " ".join(3 * [WORDS[grade]]), rng.choice(["ka", "mi"]), grade + 1
            )
            for grade in grades
        ]
        (directory / (split + ".tsv")).write_text(
            "\n".join(["text\tstars", *lines]) + "\n"
        )
    make_vocabulary(directory / "sp.model", 37)
    return directory


def run(place, *arguments, **changes):
    flags = dict(
        task_name="stars",
        data_dir=place,
        output_dir=place / "records",
        max_seq_length=16,
        model_dir=place / "model",
        train_batch_size=16,
        spiece_model_file=place / "sp.model",
        dropout=0,
        dropatt=0,
        save_steps=1000,
        learning_rate=0.01,
        warmup_steps=10,
        train_steps=90,
        eval_steps=30,
        model_config_path=RELEASED / "xlnet_config.json",
    )
    return command.run(
        "run_classifier.py",
        *arguments,
        *("--{}={}".format(*item) for item in dict(flags, **changes).items()),
    )


@pytest.mark.parametrize("name", known.TASK_TYPES)
def test_worker_processes_get_a_reader(name):
    task = dataclasses.replace(STARS, type=known.TASK_TYPES[name])
    reader = pickle.loads(pickle.dumps(task.reader.encode)).__self__
    assert (type(reader), reader.task) == (task.type.reader, task)


def test_a_new_task_type_takes_one_short_file():
    for path in (ROOT / "examples" / "own_task_type").glob("*.py"):
        code = path.read_text().split('"""', 2)[2]
        assert len([line for line in code.splitlines() if line.strip()]) <= 40


def test_a_new_task_type_is_trained_evaluated_selected_and_predicted_with(
    place, monkeypatch
):
    monkeypatch.setitem(known.TASKS, "stars", STARS)
    done = run(place, "--do_train=True", "--do_eval=True", "--do_predict=True")
    assert done.returncode == 0, done.stderr
    assert "stars: 80 rows, labels 1, 2, 3, 4, 5" in done.stdout
    model = place / "model"
    kept = json.loads((model / "evaluations.json").read_text())
    assert kept["metric"] == "closeness"
    assert [one["step"] for one in kept["evaluations"]] == [30, 60, 90]
    best = max(kept["evaluations"], key=lambda one: (one["closeness"], -one["loss"]))
    results = json.loads((model / "eval_results_dev.json").read_text())
    assert results["best_step"] == best["step"]
    assert best["closeness"] > 0.5
    assert weights(model / "best")["model/ordinal_stars/logit/kernel"].shape == (16, 4)
    assert (
        json.loads((model / "best" / "run.json").read_text())["task"]["kind"]
        == "ordinal"
    )
    header, *lines = [
        line.split("\t")
        for line in (model / "predictions_stars_test.tsv").read_text().splitlines()
    ]
    assert header == ["id", "level", "gold"]
    assert [line[1] for line in lines].count("1") < len(lines) == 10

    monkeypatch.setitem(known.TASK_TYPES, "ordinal", ORDINAL)
    texts = [
        line.split("\t")[0]
        for line in (place / "test.tsv").read_text().splitlines()[1:]
    ]
    with xlnet.load(str(model / "best"), device="cpu") as loaded:
        assert loaded.classify(texts) == [line[1] for line in lines]


def test_errors_of_a_new_task_type_are_listed_as_others(place, tmp_path, monkeypatch):
    monkeypatch.setitem(known.TASKS, "stars", STARS)
    (tmp_path / "train.tsv").write_text("text\tstars\nkamat\t6\n")
    done = run(
        place, "--do_train=True", data_dir=tmp_path, model_dir=tmp_path / "model"
    )
    assert done.returncode == 1
    assert "train.tsv:2: unknown label '6' (labels: 1, 2, 3, 4, 5)" in done.stderr


class Untranslated(TowersHead):
    """One that says nothing of a graph."""

    graph_features = Head.graph_features


class Prefixed(TowersReader):
    """One whose texts are not those of the file."""

    def parse_pairs(self, text_a, text_b, choices):
        return (("query: " + text_a, None), (text_b, None)), None


def test_two_texts_that_are_read_apart(tmp_path, monkeypatch, caplog):
    """Trained, predicted with, loaded and exported, to raw text as well."""
    task = Task(
        "alike",
        Columns(("a",), ("b",), ("label",)),
        None,
        TWO_TOWERS.default_metrics,
        TWO_TOWERS,
    )
    for each in (
        TWO_TOWERS,
        dataclasses.replace(
            TWO_TOWERS, name="prefixed", reader=Prefixed, head=Untranslated
        ),
    ):
        monkeypatch.setitem(
            known.TASKS, each.name, dataclasses.replace(task, name=each.name, type=each)
        )
        monkeypatch.setitem(known.TASK_TYPES, each.name, each)
    rng = random.Random(0)
    for split, count in (("train", 60), ("dev", 20), ("test", 8)):
        pairs = [rng.choices(WORDS[:3], k=2) for _ in range(count)]
        (tmp_path / (split + ".tsv")).write_text(
            "a\tb\tlabel\n"
            + "".join(
                f"{one} ka\t{other} mi\t{int(one == other)}\n" for one, other in pairs
            )
        )
    make_vocabulary(tmp_path / "sp.model", 37)
    done = run(
        tmp_path,
        "--do_train=True",
        "--do_eval=True",
        "--do_predict=True",
        train_steps=60,
        eval_steps=30,
        task_name="two_towers",
    )
    assert done.returncode == 0, done.stderr
    best = json.loads((tmp_path / "model" / "eval_results_dev.json").read_text())
    assert best["checkpoints"][0]["spearman"] > 0.5
    cosines = [
        float(line.split("\t")[1])
        for line in (tmp_path / "model" / "predictions_two_towers_test.tsv")
        .read_text()
        .splitlines()[1:]
    ]
    texts = [
        tuple(line.split("\t")[:2])
        for line in (tmp_path / "test.tsv").read_text().splitlines()[1:]
    ]
    with xlnet.load(str(tmp_path / "model" / "best"), device="cpu") as loaded:
        np.testing.assert_allclose(loaded.score(texts), cosines, atol=2e-6)
    pytest.importorskip("tensorflow_text")
    import tensorflow as tf

    signature = tf.saved_model.load(
        exporter.export(str(tmp_path / "model" / "best"), str(tmp_path / "served"))
    ).signatures["text"]
    found = signature(
        **{
            name: tf.constant(list(column))
            for name, column in zip(("text_a", "text_b"), zip(*texts))
        }
    )
    np.testing.assert_allclose(found["score"], cosines, atol=2e-6)
    # One line, and the other signature, where the texts are changed.
    described = tmp_path / "model" / "best" / "run.json"
    described.write_text(described.read_text().replace("two_towers", "prefixed"))
    exporter.export(str(tmp_path / "model" / "best"), str(tmp_path / "ids"))
    assert (
        "no signature text: texts of task type prefixed cannot be encoded"
        in caplog.text
    )
