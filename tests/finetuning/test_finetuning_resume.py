"""Fine-tuning that is stopped, or whose checkpoint is damaged, and goes on bit for bit."""

import os
import re
import signal

import pytest
from helpers import command
from helpers.finetuning import assert_same, make_workspace, weights

from xlnet.engine import progress
from xlnet.tasks import results

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A workspace with an uninterrupted run in `whole`, with dropout."""
    place = make_workspace(tmp_path_factory.mktemp("resume"))
    train(place, "whole")
    return place


def train(place, name, **changes):
    done = run(place, name, **changes)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(place, name, **changes):
    flags = dict(
        model_dir=place.path(name),
        train_steps=5,
        save_steps=2,
        eval_steps=3,
        learning_rate=0.01,
        log_steps=4,
        dropout=0.2,
    )
    return place.run("--do_train=True", "--do_predict=True", **{**flags, **changes})


def check_same(place, name):
    """Checkpoints, their weights and the evaluations are those of the uninterrupted run."""
    for step in (2, 3, 4, 5):
        found = weights(place.path(name, f"model.ckpt-{step}"))
        assert_same(found, weights(place.path("whole", f"model.ckpt-{step}")))
    kept = place.json(name, "evaluations.json")
    assert kept == place.json("whole", "evaluations.json")


def test_a_finished_run_evaluates_another_file_as_another(place):
    """The results of its own dev file stay."""
    other = place.path("own", "train.tsv")
    train(place, "whole", do_eval=True, dev_file=other)
    results_of = place.directory / "whole" / "results"
    names = {path.name for path in results_of.glob("eval_results_*")}
    assert names == {"eval_results_file_train.json"}


def test_rows_that_are_held_out_stay_out_of_the_training(place):
    """A dev file that is named later would let the run train on them."""
    one_file = dict(
        data_dir=None,
        train_file=place.path("own", "train.tsv"),
        model_dir=place.path("held"),
    )
    place.succeed("--do_train=True", **one_file)
    one_file["dev_file"] = place.path("own", "dev.tsv")
    # A finished run does not train, and evaluates it.
    place.succeed("--do_train=True", "--do_eval=True", **one_file)
    done = place.run("--do_train=True", **one_file, train_steps=4)
    assert done.returncode == 1 and "the rows that are held out of them" in done.stderr


def test_the_schedule_follows_the_number_of_steps(place):
    """Where it was not given; the paths of a run are absolute."""
    flags = dict(model_dir=os.path.relpath(place.path("longer")))
    for steps, warmup in ((4, 0), (30, 3), (31, 3)):
        out = place.succeed("--do_train=True", **flags, train_steps=steps)
        assert f" to {steps}, {warmup} of warm-up" in out
    resolved = place.json("longer", "run.json")["resolved"]
    assert "warmup_steps" not in resolved
    assert resolved["model_config_path"] == place.path("longer", "xlnet_config.json")


@pytest.mark.parametrize("told", (1, 5))
def test_sigterm_saves_and_exits(place, monkeypatch, told):
    """Told to stop in step 1 or in the last one, before it is evaluated; no prediction follows."""

    add = progress.Progress.add

    def stop(self, step, values, seconds):
        add(self, step, values, seconds)
        if step == told:
            os.kill(os.getpid(), signal.SIGTERM)

    name = f"stopped{told}"
    saved = {1: {2}, 5: {2, 3, 4, 5}}[told]
    with monkeypatch.context() as patched:
        patched.setattr(progress.Progress, "add", stop)
        done = run(place, name)
    assert done.returncode == 75 and "predicted" not in done.stdout
    assert f"stopped by SIGTERM at step {max(saved)}, saved" in done.stderr
    assert {path.name for path in place.directory.joinpath(name).glob("*.index")} == {
        f"model.ckpt-{step}.index" for step in saved
    }
    out = train(place, name)
    resumes = r"^steps +2 to 5" if told == 1 else "has all of its 5 steps"
    assert re.search(resumes, out, re.M)
    assert "predicted" in out
    check_same(place, name)


@pytest.mark.parametrize("number", (signal.SIGUSR1, signal.SIGINT))
def test_a_signal_in_the_prediction_after_training_is_not_the_end(
    place, monkeypatch, number
):
    """All steps are done, but not all that the command was to do: it is to be started again."""

    def stop(*arguments, **named):
        os.kill(os.getpid(), number)

    name = f"predicting{number}"
    outside = signal.getsignal(number)
    # Tests may run with Ctrl-C ignored, as a shell's background jobs do.
    before = signal.default_int_handler if number == signal.SIGINT else outside
    signal.signal(number, before)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(results, "write_predictions", stop)
            done = run(place, name)
        assert done.returncode == 75 and signal.getsignal(number) == before
    finally:
        signal.signal(number, outside)
    (line,) = done.errors
    assert f"stopped by {signal.Signals(number).name}" in line
    assert "predicted" in train(place, name)


def test_what_a_run_wrote_starts_it_again(place):
    kept = place.path("whole", "run.json")
    again = "run_classifier.py", "--config=" + kept, "--do_predict=False"
    assert "has all of its 5 steps" in command.succeed(*again).stdout
    command.succeed(*again, model_dir=place.path("again"))
    check_same(place, "again")
