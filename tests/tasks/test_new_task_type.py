"""A type of two inputs: trained, evaluated, predicted with, loaded and exported."""

import json
import random

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED
from own_task_type.two_towers import TwoTowers

import xlnet
from xlnet.inference import exporter
from xlnet.tasks import known
from xlnet.tasks.task import Columns

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
# It was registered as it was imported; other tests list all types.
known.TASK_TYPES.pop("two_towers", None)
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


def test_two_texts_that_are_read_apart(tmp_path, monkeypatch, caplog):
    """Trained, predicted with, loaded and exported."""
    columns = Columns(("a",), ("b",), ("label",))
    task = TwoTowers("two_towers", columns, None, TwoTowers.default_metrics)
    monkeypatch.setitem(known.TASKS, "two_towers", task)
    monkeypatch.setitem(known.TASK_TYPES, "two_towers", TwoTowers)
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
    # One line, and the other signature, as a graph has not its inputs.
    best = str(tmp_path / "model" / "best")
    exporter.export(best, str(tmp_path / "served"))
    assert "texts of task type two_towers cannot be encoded" in caplog.text
