"""Answers on several devices: all of them at work, each example once, equal to one device's."""

import re
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.finetuning import Workspace, make_one_file, make_vocabulary, weights

from xlnet.engine import best_checkpoint
from xlnet.engine.devices import Devices, connect
from xlnet.engine.session import RestoredSession, in_parallel
from xlnet.finetuning.model import Predictor
from xlnet.settings.training import DeviceSettings
from xlnet.support.errors import UserError

ROWS = 31
RESULTS = "eval_results_train.json"
KERNEL = "model/transformer/layer_0/ff/layer_1/kernel"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A file of short and long texts, and a model of two checkpoints trained on it."""
    place = Workspace(tmp_path_factory.mktemp("evaluation"))
    make_vocabulary(place.directory / "sp.model", 37)
    make_one_file(place.directory, ROWS)
    place.succeed("--do_train=True", **arguments(place, learning_rate=0.05))
    return place


def arguments(place, **changes):
    flags = dict(eval_split="train", max_seq_length=24)
    return place.on_one_file(**{**flags, **changes})


@pytest.mark.slow
def test_three_devices_answer_as_one(place, monkeypatch):
    """31 rows of all lengths in batches of 3."""
    monkeypatch.setattr(Devices, "parallel_batches", 1)  # else batches have 2 rows
    results = []
    for devices in (1, 3):
        out = place.succeed(
            "--do_eval=True",
            "--do_predict=True",
            "--predict_file=" + place.path("all.jsonl"),
            **arguments(
                place,
                eval_batch_size=3,
                num_core_per_host=devices,
                allow_changes=True,
                predict_dir=place.path("answers"),
                eval_split="test",
            ),
        )
        lines = re.findall(r"^eval custom .*", out, re.MULTILINE)
        answers = place.predictions("answers", "predictions_custom_all.tsv")[1]
        results.append((lines, answers))
    assert len(lines) == 1 and "(31 rows)" in lines[0] and len(answers) == ROWS
    assert [answer[0] for answer in answers] == [str(number) for number in range(ROWS)]
    assert results[0][0] == results[1][0]
    assert results[0][1] == results[1][1]


@pytest.mark.slow
def test_evaluations_while_training_run_on_all_devices(place, monkeypatch):
    """And give what one device gives for the same checkpoints."""
    monkeypatch.setattr(Devices, "parallel_batches", 1)  # batches are those of training
    used, infer = [], Predictor.predict

    def watched(self, rows, advance):
        found = {copy.outputs["values"].device[-5:] for copy in self._copies}
        used.append(sorted(found))
        return infer(self, rows, advance)

    monkeypatch.setattr(Predictor, "predict", watched)
    flags = arguments(
        place,
        model_dir=place.path("on_the_way"),
        eval_batch_size=3,
        dev_file=place.path("all.jsonl"),
    )
    place.succeed(
        "--do_train=True",
        **flags,
        num_core_per_host=2,
        eval_steps=1,
        learning_rate=0.05,
        ema_decay=0.9,
    )
    assert used == 2 * [["CPU:0", "CPU:1"]]
    evaluations = place.json("on_the_way", "evaluations.json")["evaluations"]
    assert [evaluation["step"] for evaluation in evaluations] == [1, 2]
    for evaluation in evaluations:
        check_that_averages_count(place, flags, evaluation)
    assert used[2:] == 2 * [[""]]
    whole = weights(place.path("on_the_way", "model.ckpt-2"))
    assert np.abs(whole[KERNEL] - whole[KERNEL + "/average"]).max() > 1e-3


def check_that_averages_count(place, flags, evaluated):
    """The export of a checkpoint has the moving averages for weights, and the same evaluation."""
    prefix = place.path("on_the_way", f"model.ckpt-{evaluated['step']}")
    best = place.path("on_the_way", "best")
    best_checkpoint.export(prefix, best)
    whole = weights(prefix)
    for name, value in weights(best).items():
        assert np.array_equal(value, whole.get(name + "/average", whole[name]))
    place.succeed("--do_eval=True", **flags)
    kept = place.json("on_the_way", "results", RESULTS)
    assert kept["result"] == evaluated


# ---- without a run


def make_checkpoint(directory, value):
    with tf.Graph().as_default(), tf.Session() as session:
        weight = tf.get_variable("weight", initializer=float(value), use_resource=True)
        session.run(weight.initializer)
        return tf.train.Saver([weight]).save(
            session, str(directory / (f"weight-{value}"))
        )


def two_at_a_time(sizes):
    """Builds an answer that comes when two batches have asked for it, or fails."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(number):
        meeting.wait()
        sizes.append(len(number))
        return number

    def build():
        asked = tf.placeholder(tf.int64, [None])
        weight = tf.get_variable("weight", initializer=0.0, use_resource=True)
        number = tf.numpy_function(meet, [asked], tf.int64)
        values = tf.cast(number, tf.float32) * weight
        return {"index": asked}, {"index": number, "values": values}

    return build


def batches(rows):
    for begin in range(0, rows, 2):
        yield {"index": np.arange(begin, min(begin + 2, rows))}


def test_all_devices_work_and_each_batch_comes_once_in_order(tmp_path):
    devices = connect(DeviceSettings(num_core_per_host=2, device="cpu"))
    restored, sizes = RestoredSession(devices), []
    copies = restored.copies("meet", two_at_a_time(sizes))
    for rows, value in ((7, 2), (3, 5), (7, 2)):  # other files, other checkpoints
        sizes.clear()
        restored.restore(make_checkpoint(tmp_path, value))
        found = [outputs for _, outputs in in_parallel(copies, batches(rows))]
        assert sorted(sizes) == [1] + [2] * (rows // 2)
        number = np.concatenate([outputs["index"] for outputs in found])
        values = np.concatenate([outputs["values"] for outputs in found])
        assert number.tolist() == list(range(rows))
        assert np.array_equal(values, number * value)
    assert list(in_parallel(copies, batches(0))) == []
    (tmp_path / "weight-5.data-00000-of-00001").unlink()
    with pytest.raises(UserError, match="weight-5.data.*No such file"):
        restored.restore(str(tmp_path / "weight-5"))


def test_a_cpu_answers_two_halves_of_a_batch_side_by_side(tmp_path):
    """The answers wait for each other, so that they come only where two are computed at once."""
    devices, sizes = connect(DeviceSettings(device="cpu")), []
    if devices.parallel_batches != 2:
        pytest.skip("one core: nothing runs side by side")
    restored = RestoredSession(
        devices, make_checkpoint(tmp_path, 3), parallel_batches=2
    )
    copies = restored.copies("meet", two_at_a_time(sizes))
    found = list(in_parallel(copies, batches(8)))
    assert sizes == [2, 2, 2, 2]
    for batch, outputs in found:
        assert np.array_equal(outputs["values"], 3.0 * batch["index"])
