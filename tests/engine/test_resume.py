"""Runs that are killed, stopped, damaged or go wrong, and resume as if nothing had happened."""

import random
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.finetuning import assert_same
from helpers.pretraining import complete, curve, start, train, wait_for_step, weights

from xlnet.corpus import input_pipeline

pytestmark = pytest.mark.slow

RUN = dict(train_steps=40, save_steps=6, max_save=0, eval_steps=20, n_layer=1)


@pytest.fixture(scope="module")
def whole(place):
    """An uninterrupted run, dropout and memories on; model directory."""
    complete(place, "whole", **RUN)
    return place


def check_same(place, model_dir, tolerance=0.0):
    """Losses, gradient norms and weights are those of the uninterrupted run."""
    found, expected = curve(place, model_dir), curve(place, "whole")
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    assert_same(weights(place, model_dir), weights(place, "whole"), tolerance)


@pytest.fixture(scope="module")
def killed(whole):
    """A run that got SIGKILL at some moment after a random step."""
    process = start(whole, "killed", {"PYTHONUNBUFFERED": "1"}, **RUN)
    printed = wait_for_step(process, random.randint(7, 35))
    process.kill()
    rest, _ = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL, printed + rest
    assert (whole / "killed" / "model.ckpt-6.index").exists()
    shutil.copytree(whole / "killed", whole / "killed_for_two")
    return whole


def test_a_killed_run_goes_on_bit_for_bit(killed):
    done = complete(killed, "killed", **RUN)
    assert not re.search(r"^steps +0 ", done.stdout, re.MULTILINE)
    check_same(killed, "killed")
    assert not (killed / "killed" / "unfinished").exists()


def test_a_killed_run_goes_on_with_other_devices(killed):
    done = complete(killed, "killed_for_two", num_core_per_host=2, **RUN)
    assert "as 2 replicas" in done.stdout
    check_same(killed, "killed_for_two", tolerance=1e-5)


def test_a_damaged_checkpoint_is_one_line(whole):
    folder = shutil.copytree(whole / "whole", whole / "damaged")
    (folder / "model.ckpt-40.data-00000-of-00001").write_bytes(b"")
    done = train(whole, "damaged", **dict(RUN, train_steps=42))
    assert done.returncode == 1 and len(done.errors) == 1
    assert "model.ckpt-40" in done.stderr
    for path in folder.glob("*-40*"):
        path.unlink()
    done = train(whole, "damaged", **RUN)
    assert re.search(r"^steps +36 to 40", done.stdout, re.MULTILINE)
    check_same(whole, "damaged")


def test_a_run_whose_loss_is_nan_stops_and_resumes(whole, monkeypatch):
    """The batch of step 8 is NaN, once: the last checkpoint is that of step 6."""
    starts, real = [], input_pipeline.pretraining_batches

    def spoiled_once(*arguments, **named):
        starts.append(named["start_step"])
        batches = real(*arguments, **named)
        if len(starts) > 1:
            return batches

        def spoiled(step, batch):
            factor = tf.where(tf.equal(step, 8), np.nan, 1.0)
            return dict(batch, weights=batch["weights"] * tf.cast(factor, tf.float32))

        return batches.enumerate(start=1).map(spoiled)

    monkeypatch.setattr(input_pipeline, "pretraining_batches", spoiled_once)
    done = train(whole, "spoiled", **RUN)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "loss: found nan at step 8" in done.stderr
    assert "the newest checkpoint is of step 6" in done.stderr
    complete(whole, "spoiled", **RUN)
    assert starts == [0, 6]
    check_same(whole, "spoiled")
