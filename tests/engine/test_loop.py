"""The loop, by train_gpu.py: evaluations that a kill or a signal cut off, changed settings, a
second run in the directory, Ctrl-C."""

import contextlib
import json
import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.finetuning import assert_same
from helpers.pretraining import complete, curve, train, weights

from xlnet.engine import checkpoint, loop, progress
from xlnet.pretraining import held_out
from xlnet.pretraining.held_out import HeldOut

RUN = dict(train_steps=6, save_steps=2, eval_steps=2, max_save=0, n_layer=1)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]


@pytest.fixture(scope="module")
def run(place):
    return dict(RUN, eval_record_info_dir=place / "heldout")


@pytest.fixture(scope="module")
def whole(place, run):
    """An uninterrupted run in `whole`."""
    done = complete(place, "whole", **run)
    assert done.stdout.count("held out: step") == 4


def check_same(place, name):
    """A run is the uninterrupted one."""
    found, expected = (place / each / "evaluations.json" for each in (name, "whole"))
    assert found.read_text() == expected.read_text()
    assert (curve(place, name) == curve(place, "whole")).all()
    assert_same(weights(place, f"{name}/best"), weights(place, "whole/best"))


def test_a_run_that_another_process_began_meanwhile_resumes(
    place, run, whole, monkeypatch
):
    """Between `resolve`, which finds no checkpoint, and the lock."""
    resume = loop._resume

    def raced(*arguments):
        shutil.copytree(place / "whole", place / "raced", dirs_exist_ok=True)
        checkpoint.remove(str(place / "raced" / "model.ckpt-6"))
        return resume(*arguments)

    monkeypatch.setattr(loop, "_resume", raced)
    initial = place / "whole" / "best"
    done = complete(place, "raced", **run, init_checkpoint=initial)
    assert "started from" not in done.stdout
    assert_same(weights(place, "raced"), weights(place, "whole"))


class Killed(BaseException):
    """As if the process had ended."""


def test_an_evaluation_that_a_kill_cut_off_is_made_up(place, run, whole, monkeypatch):
    """Also that of the last step, beside files that the process left unfinished."""
    evaluate = HeldOut.evaluate_step
    for name, at, said in (
        ("killed", 4, ["4", "4", "5", "6", "6"]),
        ("late", 6, ["6"]),
    ):

        def killed(self, step, prefix, at=at):
            if step == at:
                raise Killed()
            return evaluate(self, step, prefix)

        with monkeypatch.context() as patched:
            patched.setattr(HeldOut, "evaluate_step", killed)
            with pytest.raises(Killed):
                train(place, name, **run)
        (place / name / "unfinished").mkdir()
        (place / name / "memory-5-0.npy").write_text("")
        done = complete(place, name, **run)
        # The evaluation that is made up, the banner, steps, the last evaluation.
        steps = re.findall(r"^(?:held out: step|step|steps) +(\d)", done.stdout, re.M)
        assert steps == said
        check_same(place, name)
        left = {path.name for path in (place / name).iterdir()}
        assert not left & {"unfinished", "memory-5-0.npy"}


def test_a_run_that_goes_back_has_no_best_of_later_steps(place, run, whole):
    """As after a damaged checkpoint is removed, which its error asks for."""
    shutil.copytree(place / "whole", place / "back")
    (place / "back" / "checkpoint").unlink()
    for step in (4, 6):
        for path in (place / "back").glob(f"*-{step}*"):
            path.unlink()
    complete(place, "back", **dict(run, train_steps=2))
    assert list((place / "whole" / "best").glob("*-6.index"))
    assert not list((place / "back" / "best").glob("*-6.index"))
    # What a command leaves out is that of the run.
    left_out = dict.fromkeys(
        "model_config_path train_batch_size mem_len perm_size num_predict save_steps "
        "warmup_steps learning_rate".split()
    )
    complete(place, "back", **dict(run, **left_out))
    check_same(place, "back")


def test_settings_that_change_what_is_learned_are_refused(place, run, whole):
    shutil.copytree(place / "whole", place / "changed")
    more = dict(run, train_steps=8, log_steps=2, num_core_per_host=2)
    before = (place / "changed" / "run.json").read_text()
    dropout = "dropout was 0.1, is 0.3"
    records = "the held-out records (--eval_record_info_dir) have other content"
    for changes, said in (
        (dict(dropout=0.3, clip=2.0), f"{dropout}; clip was 1.0, is 2.0"),
        (dict(eval_record_info_dir=place / "train"), records),
    ):
        done = train(place, "changed", **dict(more, **changes))
        assert done.returncode == 1 and len(done.errors) == 1
        assert f"changed: found other settings: {said}, expected those" in done.stderr
    assert (place / "changed" / "run.json").read_text() == before
    done = complete(place, "changed", **dict(more, dropout=0.3, allow_changes=True))
    assert f"note: settings changed: {dropout}\n" in done.stdout
    kept = json.loads((place / "changed" / "run.json").read_text())
    assert kept["resolved"]["dropout"] == 0.3
    assert "allow_changes" not in kept["resolved"]


@pytest.mark.parametrize("step", (0, 2))
def test_a_signal_ends_an_evaluation(place, run, whole, monkeypatch, step):
    """After its first batch; it is made when the run resumes."""
    name, evaluate, read = f"cut_{step}", HeldOut.evaluate_step, []

    def add(sequences):
        read.append(sequences)
        os.kill(os.getpid(), signal.SIGTERM)

    def signalled(self, at, prefix):
        if at == step:
            shown = contextlib.nullcontext(add)
            patched.setattr(held_out, "progress", lambda *described: shown)
        return evaluate(self, at, prefix)

    with monkeypatch.context() as patched:
        patched.setattr(HeldOut, "evaluate_step", signalled)
        done = train(place, name, **run)
    assert done.returncode == 75 and len(read) == 1, done.stderr
    assert "stopped by SIGTERM; run the same command again" in done.stderr
    done = complete(place, name, **run)
    assert re.search(r"^held out: step (\d)", done.stdout, re.M)[1] == str(step)
    check_same(place, name)


def test_outside_the_main_thread_signals_are_left_alone():
    """Where a program trains in a thread of its own."""
    before = signal.getsignal(signal.SIGTERM)

    def enter():
        with loop.StopSignal():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(enter).result() is before
    assert enter() is not before and signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_saves_and_goes_on(place, run, whole, monkeypatch):
    add = progress.Progress.add

    def interrupt(self, step, values, seconds):
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        add(self, step, values, seconds)

    # Tests may run without it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(progress.Progress, "add", interrupt)
            done = train(place, "interrupted", **run)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.returncode == 75
    assert "stopped by SIGINT at step 4, saved" in done.stderr
    assert train(place, "interrupted", **run).returncode == 0
    check_same(place, "interrupted")
