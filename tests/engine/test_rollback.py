"""A run that goes wrong: where it goes back to, what it passes over, when it is given up."""

import json
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.pretraining import curve, train

from xlnet.engine import checkpoint, rollback, selection

# The learning rate rises until the loss explodes, by itself.
RISING = dict(train_steps=40, warmup_steps=40, learning_rate=3., clip=1e9, save_steps=3, max_save=0)


@pytest.fixture(scope="module")
def hopeless(place):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rollback, "MOST_IN_A_ROW", 3)       # less to wait for
        done = train(place, "hopeless", on_nan="rollback", **RISING)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    return done


def test_each_rollback_goes_further_back(place, hopeless):
    """The weights are spoiled some steps before the loss shows it."""
    found = [tuple(map(int, numbers)) for numbers in re.findall(
        r"^note: .* at step (\d+); newest.*; back to step (\d+), (\d+) batches are skipped$",
        hopeless.stdout, re.M)]
    wrong, back, skipped = zip(*found)
    assert len(found) == 3 and list(back) == [
        back[0] - 3 * i for i in range(len(back))]
    assert all((step - 1) // RISING["save_steps"] * RISING["save_steps"] <= wrong[0]
               for step in wrong), "no checkpoint is past the place"
    assert "; going back did not help, 3 times in a row" in hopeless.stderr
    # Each batch is taken once: what is passed over is what was trained on in vain.
    taken = wrong[0]
    for step, number, count, next_wrong in zip(back, range(9), skipped, wrong[1:]):
        assert step + count == taken, number
        taken += next_wrong - step
    kept = json.loads((place / "hopeless" / "skipped_data.json").read_text())["skips"]
    assert kept == [[back[-1], skipped[-1]]]


def test_what_was_dropped_is_gone(place, hopeless):
    """The same command goes on from where the last rollback led."""
    steps = [step for step, _ in checkpoint.all_prefixes(str(place / "hopeless"))]
    rows = curve(place, "hopeless")[:, 0]
    assert rows.tolist() == list(range(1, len(rows) + 1)) and max(steps) <= len(rows)


def save(directory, *steps):
    """Checkpoints of these steps."""
    for step in steps:
        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("model/w", initializer=tf.fill([3], float(step)), use_resource=True)
            assign = tf.assign(tf.train.get_or_create_global_step(), step)
            session.run(tf.global_variables_initializer())
            session.run(assign)
            checkpoint.write(tf.train.Saver(), session, str(directory), step)


def test_a_run_that_got_past_the_place_begins_anew(tmp_path):
    save(tmp_path, 3, 6, 9)
    backs = rollback.Rollbacks(str(tmp_path))
    assert [backs.go_back(10), backs.batch(9)] == [9, 10]
    assert [backs.go_back(11), backs.batch(6)] == [6, 12]     # 10, then 9 + 2 more with one skipped
    save(tmp_path, 9, 12)
    assert [backs.go_back(13), backs.batch(12)] == [12, 19]
    assert [backs.go_back(13), backs.go_back(12), backs.go_back(5)] == [9, 6, 3]
    assert backs.go_back(4) is None and rollback.Rollbacks(str(tmp_path)).batch(2) == 2


def test_a_run_without_checkpoints_begins_again(tmp_path):
    backs = rollback.Rollbacks(str(tmp_path))
    assert [backs.go_back(2) for _ in range(rollback.MOST_IN_A_ROW + 1)] == [0] * 5 + [None]
    assert backs.batch(0) == 10


def test_the_best_of_what_is_left_takes_the_place_of_the_best(tmp_path):
    save(tmp_path, 3, 6)
    choice = selection.Selection(str(tmp_path), "loss", lower_is_better=True)
    for step, loss in ((3, 2.), (6, 1.)):
        choice.add(step, {"loss": loss}, dict(checkpoint.all_prefixes(str(tmp_path)))[step])
    for left, expected in ((6, 6.), (3, 3.)):
        choice.go_back_to(left)
        choice.export_again(dict(checkpoint.all_prefixes(str(tmp_path))))
        best = tf.train.load_checkpoint(str(tmp_path / selection.BEST))
        np.testing.assert_array_equal(best.get_tensor("model/w"), [expected] * 3)
