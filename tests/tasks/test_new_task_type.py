"""A type of two inputs: trained, evaluated, predicted with, loaded and exported."""

import dataclasses
import json
import random

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED
from own_task_type.two_towers import TWO_TOWERS, TowersHead, TowersReader

import xlnet
from xlnet.inference import exporter
from xlnet.tasks import known
from xlnet.tasks.task import Columns, Task
from xlnet.tasks.types.contract import Head

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
# It was registered as it was imported; other tests list all types.
known.TASK_TYPES.pop(TWO_TOWERS.name, None)
WORDS = ("kamat", "telok", "solkit")


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
    return command.run("run_classifier.py", *arguments, **dict(flags, **changes))


class Untranslated(TowersHead):
    """One that says nothing of a graph."""

    graph_features = Head.graph_features


class Prefixed(TowersReader):
    """One whose texts are not those of the file."""

    def parse_pairs(self, text_a, text_b, choices):
        return ("query: " + text_a, None), (text_b, None)


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
        pairs = [rng.choices(WORDS, k=2) for _ in range(count)]
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
    best = json.loads(
        (tmp_path / "model" / "results" / "eval_results_dev.json").read_text()
    )
    assert best["checkpoints"][0]["spearman"] > 0.5
    cosines = [
        float(line.split("\t")[1])
        for line in (tmp_path / "model" / "results" / "predictions_two_towers_test.tsv")
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
