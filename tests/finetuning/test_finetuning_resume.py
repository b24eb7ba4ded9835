"""Fine-tuning that is stopped, or whose checkpoint is damaged, and goes on bit for bit."""

import json
import os
import re
import shutil
import signal

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import make_workspace, weights

from xlnet.engine import progress

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A workspace with an uninterrupted run in `whole`, with dropout."""
    place = make_workspace(tmp_path_factory.mktemp("resume"))
    train(place, "whole")
    return place


def train(place, name, **changes):
    return place.succeed("--do_train=True", "--do_predict=True", **dict(dict(
        model_dir=place.path(name), train_steps=5, save_steps=2, eval_steps=3, learning_rate=0.01,
        dropout=0.2), **changes))


def check_same(place, name):
    """Checkpoints, their weights and the evaluations are those of the uninterrupted run."""
    for step in (0, 2, 3, 4, 5):
        one, other = (weights(place.path(model, "model.ckpt-%d" % step))
                      for model in (name, "whole"))
        assert set(one) == set(other)
        assert all(np.array_equal(one[variable], other[variable]) for variable in one)
    kept, expected = ((place.directory / model / "evaluations.json").read_text()
                      for model in (name, "whole"))
    assert kept == expected


@pytest.mark.parametrize("told", (1, 5))
def test_sigterm_saves_and_exits(place, monkeypatch, told):
    """Told to stop in step 1 or in the last one, before it is evaluated; no prediction follows."""

    def stop(self, step, values):
        if step == told:
            os.kill(os.getpid(), signal.SIGTERM)
    name = "stopped%d" % told
    saved = {1: {0, 2}, 5: {0, 2, 3, 4, 5}}[told]
    with monkeypatch.context() as patched:
        patched.setattr(progress.Progress, "_check", stop)
        out = train(place, name)
    assert "stopped by SIGTERM at step %d, saved" % max(saved) in out and "predicted" not in out
    assert {path.name for path in place.directory.joinpath(name).glob("*.index")} == {
        "model.ckpt-%d.index" % step for step in saved}
    out = train(place, name)
    assert ("steps       2 to 5" if told == 1 else "has all of its 5 steps") in out
    assert "predicted" in out
    check_same(place, name)


def test_a_damaged_checkpoint_is_passed_over(place):
    shutil.copytree(place.path("whole"), place.path("damaged"))
    data = place.directory / "damaged" / "model.ckpt-5.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-100])
    out = train(place, "damaged")
    assert re.search("note: checkpoint .*model.ckpt-5 cannot be read: .*; the one before it is "
                     "used", out) and "steps       4 to 5" in out
    check_same(place, "damaged")


def test_some_checkpoints_are_kept(place):
    train(place, "few", max_save=2)
    assert {path.name for path in (place.directory / "few").glob("*.index")} == {
        "model.ckpt-4.index", "model.ckpt-5.index"}


def test_settings_that_change_what_is_learned_are_refused(place):
    shutil.copytree(place.path("whole"), place.path("changed"))
    run = dict(model_dir=place.path("changed"), train_steps=6, save_steps=3, eval_steps=3,
               learning_rate=0.01)
    done = place.run("--do_train=True", **run, dropout=0.3, class_weights="balanced")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    assert "has other settings: class_weights was None, is balanced; dropout was 0.2, is 0.3; " \
        "give them" in done.stderr
    out = place.succeed("--do_train=True", "--allow_changes=True", **run, dropout=0.3)
    assert "note: settings changed: dropout was 0.2, is 0.3\n" in out
    assert "steps       5 to 6" in out


def test_what_a_run_wrote_starts_it_again(place):
    kept = place.path("whole", "finetuning.json")
    done = command.run("run_classifier.py", "--config=" + kept, "--do_predict=False")
    assert done.returncode == 0 and "has all of its 5 steps" in done.stdout, done.stderr
    done = command.run("run_classifier.py", "--config=" + kept, "--do_predict=False",
                       "--model_dir=" + place.path("again"))
    assert done.returncode == 0, done.stderr
    check_same(place, "again")


def test_evaluations_that_a_kill_cut_off_are_made_up(place):
    """Not only that of the newest checkpoint."""
    shutil.copytree(place.path("whole"), place.path("cut"))
    path = place.directory / "cut" / "evaluations.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(dict(kept, evaluations=[])))
    out = train(place, "cut")
    assert re.findall(r"^eval custom dev  step (\d)", out, re.MULTILINE) == ["3", "5"]
    check_same(place, "cut")
