"""Selection and training options, from the command line."""

import math
import re
from itertools import compress

import numpy as np
import pytest
from helpers import official
from helpers.finetuning import (
    TOPICS,
    assert_same,
    make_one_file,
    make_workspace,
    weights,
)
from helpers.networks import sizes

from xlnet.finetuning import model, verdict
from xlnet.model import heads, kernels
from xlnet.runs import model_files
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.support.errors import UserError
from xlnet.tasks.contract import LossOptions, balanced_weights, mean_over_records
from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.known import TASK_TYPES, TASKS

pytestmark = pytest.mark.usefixtures("quick_start")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One file of one's own in JSON lines, long texts among them, beside a workspace's files."""
    place = make_workspace(tmp_path_factory.mktemp("finetuning"))
    make_one_file(place.directory, 30)
    return place


@pytest.fixture(scope="module")
def selected(place):
    """What a run printed that was evaluated on the way, its lowest layer frozen."""
    return place.succeed(
        "--do_train=True",
        **place.on_one_file(
            learning_rate=0.05,
            eval_steps=2,
            train_steps=None,
            epochs=0.8,
            freeze_layers=1,
            weight_decay=0.1,
            class_weights="balanced",
            label_smoothing=0.1,
            warmup_steps=1,
        ),
    )


@pytest.mark.slow
def test_the_best_checkpoint_is_complete(place, selected):
    held_out = r"custom: (\d+) examples; (\d+) more of the file"
    rows, dev = map(int, re.search(held_out, selected).groups())
    assert rows + dev == 30 and dev
    assert re.search(r"\nsteps +0 to 4, 1 of warm-up, ", selected)
    # All rows of "animal" have one text, which is held out.
    assert re.search(r"\nlabels +plant: 10, stone: 10, animal: 0\n", selected)
    kept = place.json("model", "evaluations.json")
    assert [one["step"] for one in kept["evaluations"]] == [2, 4]
    assert kept["metric"] == "accuracy"
    best = max(kept["evaluations"], key=lambda one: one["accuracy"])["step"]
    names = {path.name for path in (place.directory / "model" / "best").iterdir()}
    assert names == {
        f"model.ckpt-{best}.index",
        f"model.ckpt-{best}.data-00000-of-00001",
        "checkpoint",
        "xlnet_config.json",
        "spiece.model",
        "spiece.model.json",
        "run.json",
    }
    whole = weights(place.path("model", f"model.ckpt-{best}"))
    exported = weights(place.path("model", "best"))
    assert set(exported) == {name for name in whole if "Adam" not in name} < set(whole)
    assert all(np.array_equal(whole[name], exported[name]) for name in exported)


@pytest.mark.slow
def test_what_is_not_given_follows_from_the_rows(place):
    """It is kept with the run, and the run is evaluated and saved once an epoch."""
    out = place.succeed(
        "--do_train=True",
        **place.on_one_file(
            model_dir=place.path("derived"),
            epochs=2,
            train_steps=None,
            eval_steps=None,
            max_save=None,
            train_batch_size=None,
            learning_rate=None,
        ),
    )
    rows = int(re.search(r"task +custom: (\d+) examples", out).group(1))
    resolved = place.json("derived", "run.json")["resolved"]
    assert (resolved["train_batch_size"], resolved["learning_rate"]) == (8, 2e-3)
    steps, epoch = round(2 * rows / 8), math.ceil(rows / 8)
    warmup = round(0.1 * steps)
    assert re.search(rf"\nsteps +0 to {steps}, {warmup} of warm-up, of 8 = ", out)
    assert re.search(r"\nrate +0.002\n", out)
    kept = place.json("derived", "evaluations.json")
    assert [one["step"] for one in kept["evaluations"]] == [epoch, steps]
    assert out.count("verdict: ") in (1, 2, 3) and "verdict: dev: accuracy" in out


@pytest.mark.slow
def test_an_evaluation_of_another_file_knows_the_training(place, selected, monkeypatch):
    seen = []
    monkeypatch.setattr(verdict, "verdict", lambda each: seen.append(each) or [])
    place.succeed(
        "--do_eval=True",
        **place.on_one_file(data_dir=None, dev_file=place.path("all.jsonl")),
    )
    assert seen[0].class_weights == "balanced" and len(seen[0].rows) == 30


@pytest.mark.slow
def test_frozen_layers_keep_their_weights(place, selected):
    early, late = (
        weights(place.path("model", f"model.ckpt-{step}")) for step in (2, 4)
    )
    frozen = (
        "model/transformer/layer_0/",
        "model/transformer/word_embedding/lookup_table",
        "model/transformer/r_",
        "model/transformer/seg_embed",
    )
    for name, value in early.items():
        if not name.startswith("model/") or "Adam" in name:
            continue
        stays = name.startswith(frozen)
        assert np.array_equal(value, late[name]) == stays, name
        assert (name + "/Adam" in early) != stays
    # Of 13 weights, none of Adam.
    assert sum(name.startswith(frozen[0]) for name in early) == 13


@pytest.mark.slow
def test_replicas_and_micro_batches_change_nothing(place):
    """Without dropout, whose noise depends on where a row is."""
    flags = place.on_one_file(learning_rate=0.01, dropout=0, dropatt=0, train_steps=3)
    for name, changes in (
        ("one", {}),
        ("parts", dict(num_core_per_host=2, grad_accum_steps=2, recompute=True)),
    ):
        out = place.succeed(
            "--do_train=True", **dict(flags, model_dir=place.path(name), **changes)
        )
    assert "4 = 1 x 2 replicas x 2 micro-batches" in out
    assert re.search(r"\nprecision +fp32, recomputing\n", out)
    assert_same(weights(place.path("parts")), weights(place.path("one")), atol=1e-5)


def test_windows_add_up_in_the_order_of_rows():
    def batch(numbers, index):
        values = np.array(numbers)
        return dict(values=values[:, None], loss=values, index=np.array(index))

    parts = [batch([2.0, 4.0], [3, 1]), batch([6.0, 8.0], [0, 2])]
    outputs, windows = model.in_order(parts), np.array([1, 3])
    values = TASKS["sts-b"].join(outputs, windows)
    np.testing.assert_allclose(values, [[6], [14 / 3]], rtol=1e-6)
    np.testing.assert_allclose(
        mean_over_records(outputs["loss"], windows), [6, 14 / 3], rtol=1e-6
    )
    assert outputs["loss"].tolist() == [6, 4, 8, 2]


def goodness(evaluation):
    return evaluation["micro_f1"], -evaluation["loss"]


@pytest.mark.slow
def test_a_run_stops_early_and_its_best_is_kept(place):
    """Its learning rate is so high that it soon gets worse."""
    flags = place.on_one_file(
        model_dir=place.path("early"),
        train_steps=8,
        eval_steps=1,
        label_column="tags",
        learning_rate=1,
        patience=1,
    )
    what = "--do_train=True", "--do_eval=True", "--multi_label=True"
    out = place.succeed(*what, **flags)
    found = place.json("early", "evaluations.json")["evaluations"]
    assert len(found) < 8
    # Each evaluation but the one that stopped it was the best so far.
    assert sorted(found[:-1], key=goodness) == found[:-1]
    assert goodness(found[-1]) <= goodness(found[-2])
    assert f"stopped early at step {len(found)}: no better micro_f1" in out
    # --do_eval has the predictions of the best checkpoint from training: it says nothing twice.
    best = found[-2]
    line = "eval custom dev  step {step}  micro_f1 {micro_f1:.4f}".format(**best)
    assert out.count(line) == 1
    kept = place.json("early", "results", "eval_results_dev.json")
    assert kept["result"]["step"] == best["step"]
    again = place.succeed(
        *("--do_train=True", "--multi_label=True", "--do_predict=True"),
        predict_file=place.path("all.jsonl"),
        **flags,
    )
    assert f"was stopped early, at step {len(found)}" in again
    # The threshold of the best checkpoint decides whatever predicts with it.
    assert kept["predict_threshold"] == best["threshold"] != 0.5
    for name in ("early", "early/best"):
        loaded = model_files.read(place.path(name))
        assert loaded.tuned.settings.threshold == best["threshold"]
    # A training with the settings of this one chooses again.
    assert "predict_threshold" not in loaded.document.resolved
    written = "early", "results", "predictions_custom_all.tsv"
    _, lines, found = place.predictions(*written)
    for line, probabilities in zip(lines, found.astype(np.float32)):
        named = compress(TOPICS, probabilities >= np.float32(best["threshold"]))
        assert line[1] == ",".join(named)


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(freeze_layers=3), "freeze_layers: found 3, expected at most 2"),
        (
            dict(class_weights="animal:2"),
            "class_weights=animal:2: value should be one of <balanced>",
        ),
        (dict(patience=2), "patience: found no --eval_steps, expected"),
        (dict(epochs=0, train_steps=None), "epochs: found 0.0, expected"),
        (dict(epochs=1), "epochs: found train_steps, too"),
        (dict(metric="recall"), "metric of task custom: found recall, expected"),
        (dict(patience=1, eval_steps=None, dev_share=0), "patience: found no file dev"),
        (dict(do_eval=True, dev_share=0), "task custom: found no split 'dev'"),
        (dict(predict_file="none.csv", do_predict=True), "no such file: none.csv"),
        (dict(predict_file="a.csv"), "predict_file: found no do_predict, expected"),
        (dict(output="p.csv"), "output: found no do_predict, expected"),
        (
            dict(output=__file__, predict_file=__file__, do_predict=True),
            "py, which is an input",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(place, changes, message):
    model_dir = place.directory / "no"
    check_refused(place, message, **place.on_one_file(model_dir=model_dir, **changes))


def check_refused(place, message, **changes):
    """Before training."""
    done = place.run("--do_train=True", **changes)
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done
    assert message in done.stderr and not changes["model_dir"].exists()


@pytest.mark.parametrize(
    "task, changes, message",
    [
        ("sst-2", dict(patience=1), "patience: found no file dev to evaluate on"),
        ("mnli", dict(do_predict=True, output="no.tsv"), "output: found one file, exp"),
    ],
)
def test_too_few_and_too_many_files_are_refused(
    place, tmp_path, task, changes, message
):
    official.make(task, tmp_path / "data")
    (tmp_path / "data" / "dev.tsv").unlink(missing_ok=True)
    files = dict(data_dir=tmp_path / "data", model_dir=tmp_path / "no", eval_steps=None)
    check_refused(place, message, task_name=task, **files, **changes)


# ---- without a run


def test_every_dropout_of_a_step_has_its_own_seed(graph, monkeypatch, tmp_path):
    """Also that of the summary. The layers are functions, whose dropouts
    fold in a further number."""
    import tensorflow.compat.v1 as tf

    from xlnet.model import parameters

    seeds = []

    def noted(rate, seed, first_row):
        seeds.append(seed)
        return kernels.Dropout(rate, seed, first_row)

    monkeypatch.setattr(parameters, "Dropout", noted)
    config = XLNetConfig(**sizes(layers=1, width=4, heads=1, inner=4), n_token=9)
    settings = ClassifierSettings(model_dir="", task_name="cola", max_seq_length=3)
    trained = model.TaskModel(
        config,
        FineTunedTask(TASKS["cola"], settings),
        NetworkSettings(dropout=0.5, dropatt=0.5),
    )
    features = dict(
        input_ids=tf.ones([2, 3], tf.int32),
        segment_ids=tf.zeros([2, 3], tf.int32),
        input_mask=tf.zeros([2, 3]),
        label_ids=tf.zeros([2], tf.int32),
    )
    trained.training_loss(features, tf.constant([7], tf.uint64), LossOptions())
    used = [
        seed
        for seed in seeds
        if seed.graph is graph and not graph._is_function(seed.name)
    ]
    with tf.Session() as session:
        values = [int(value[0]) for value in session.run(used)]
    assert len(values) >= 3 and len(set(values)) == len(values)


def test_balanced_class_weights():
    task, rows = TASKS["cola"], [Row("", (), label) for label in "0001"]
    found = balanced_weights(task, rows)
    assert found == pytest.approx([4 / 6, 2])
    with pytest.raises(UserError, match="found task sts-b, expected a classification"):
        balanced_weights(TASKS["sts-b"], rows)
    # Where a row has several labels, those with a label weigh as much as those without.
    task = TASK_TYPES["multi_label"]("custom", Columns(), ("a", "b"), ())
    rows = [Row("", (), label) for label in (("a",), ("a", "b"), ("a",), ())]
    assert balanced_weights(task, rows) == pytest.approx([1 / 3, 3])


def test_training_loss(graph):
    import tensorflow.compat.v1 as tf

    logits = np.array([[2.0, 0.0], [0.0, 1.0]], np.float32)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    features = {"label_ids": tf.constant([0, 0])}

    def loss(*options):
        value = TASKS["cola"].loss(
            heads.HeadBuilder, tf.constant(logits), features, LossOptions(*options)
        )
        with tf.Session() as session:
            return session.run(value).mean()

    assert loss() == pytest.approx(-log_p[:, 0].mean())
    assert loss(0.0, [3.0, 9.0]) == pytest.approx(-3 * log_p[:, 0].mean())
    assert loss(0.2) == pytest.approx(-(0.9 * log_p[:, 0] + 0.1 * log_p[:, 1]).mean())


def test_weights_of_positives(graph):
    import tensorflow.compat.v1 as tf

    logits = np.array([[2.0, 0.5], [0.0, -1.0]], np.float32)
    gold = np.array([[1.0, 0.0], [1.0, 1.0]], np.float32)
    p = 1 / (1 + np.exp(-logits))
    expected = -(gold * [3, 0.5] * np.log(p) + (1 - gold) * np.log(1 - p))
    task = TASK_TYPES["multi_label"]("custom", Columns(), ("a", "b"), ())
    loss = task.loss(
        heads.HeadBuilder,
        tf.constant(logits),
        {"label_ids": tf.constant(gold)},
        LossOptions(0.0, [3.0, 0.5]),
    )
    with tf.Session() as session:
        found = session.run(loss)
    assert found == pytest.approx(expected.mean(axis=1), rel=1e-5)
