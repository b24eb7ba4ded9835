"""The trainer, by train_gpu.py: evaluations that a kill cut off, one graph for all of them, changed
settings, a second run in the directory, Ctrl-C."""

import gc
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess

import pytest
import tensorflow.compat.v1 as tf
from helpers import command
from helpers.finetuning import assert_same
from helpers.pretraining import curve, start, train, wait_for_step, weights

from xlnet import lock
from xlnet.engine import progress, trainer
from xlnet.engine.estimator import Estimator
from xlnet.engine.predictor import Predictor
from xlnet.pretraining.held_out import HeldOut

RUN = dict(train_steps=6, save_steps=2, eval_steps=2, max_save=0, n_layer=1)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]


@pytest.fixture(scope="module")
def run(place):
    return dict(RUN, eval_record_info_dir=place / "heldout")


def graphs():
    """How many networks' graphs are alive."""
    gc.collect()
    return sum(
        isinstance(one, tf.Graph) and len(one.get_operations()) > 300
        for one in gc.get_objects()
        if type(one).__name__ == "Graph"
    )


@pytest.fixture(scope="module")
def whole(place, run):
    """An uninterrupted run in `whole`: for each evaluation its session, the graphs alive."""
    seen, infer = [], Predictor.__call__

    def watched(self, path, prefix):
        yield from infer(self, path, prefix)
        seen.append((self._session, len(self._session.graph.get_operations()), graphs()))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Predictor, "__call__", watched)
        done = train(place, "whole", **run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("held out: step") == 4
    return seen


def test_all_evaluations_have_one_graph_and_session(whole):
    assert len(whole) == 4 and len({id(session) for session, _, _ in whole}) == 1
    assert len({operations for _, operations, _ in whole}) == 1
    # That of training is there from the second evaluation on.
    assert len({alive for _, _, alive in whole[1:]}) == 1


class Killed(BaseException):
    """As if the process had ended."""


def test_an_evaluation_that_a_kill_cut_off_is_made_up(place, run, whole, monkeypatch):
    """Two of them: that of step 2 is taken away, that of step 4 never came to be."""
    evaluate = HeldOut.__call__

    def killed(self, step, prefix):
        if step == 4:
            raise Killed()
        return evaluate(self, step, prefix)

    with monkeypatch.context() as patched:
        patched.setattr(HeldOut, "__call__", killed)
        with pytest.raises(Killed):
            train(place, "killed", **run)
    path = place / "killed" / "evaluations.json"
    kept = json.loads(path.read_text())
    assert [one["step"] for one in kept["evaluations"]] == [0, 2]
    path.write_text(json.dumps(dict(kept, evaluations=kept["evaluations"][:1])))
    done = train(place, "killed", **run)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(?:held out: step|step|steps) +(\d)", done.stdout, re.M) == [
        "2",
        "4",
        "4",
        "5",
        "6",
        "6",
    ]  # two made up, the banner, two steps, the last
    for name in ("held_out.csv", "evaluations.json"):
        assert (place / "killed" / name).read_text() == (place / "whole" / name).read_text()
    assert (curve(place, "killed") == curve(place, "whole")).all()
    assert_same(weights(place, "killed/best"), weights(place, "whole/best"))


def test_the_next_start_removes_what_a_dead_process_left(place, run, whole, monkeypatch):
    """Killed in its last evaluation: a checkpoint beyond max_save; temporary files of any age."""
    few, evaluate = dict(run, max_save=1), HeldOut.__call__

    def killed(self, step, prefix):
        if step == 6:
            raise Killed()
        return evaluate(self, step, prefix)

    with monkeypatch.context() as patched:
        patched.setattr(HeldOut, "__call__", killed)
        with pytest.raises(Killed):
            train(place, "left", **few)
    dead = subprocess.Popen(["true"])
    dead.wait()
    for number in (dead.pid, os.getpid(), 1):
        (place / "left" / (f"run.json.partial-{number}")).write_text("{")
        (place / "left" / (f"x.partial-{number}")).mkdir()
    (place / "left" / "unfinished").mkdir()
    (place / "left" / "memory-5-0.npy").write_text("")
    done = train(place, "left", **few)
    assert done.returncode == 0 and "has all of its 6 steps" in done.stdout, done.stderr
    left = {str(path.relative_to(place / "left")) for path in (place / "left").rglob("*")}
    assert {name for name in left if "partial" in name} == {"run.json.partial-1", "x.partial-1"}
    assert {name for name in left if name.startswith(("model.ckpt", "memory", "unfinished"))} == {
        "model.ckpt-6.index",
        "model.ckpt-6.data-00000-of-00001",
        "memory-6-0.npy",
    }


def test_settings_that_change_what_is_learned_are_refused(place, run, whole):
    shutil.copytree(place / "whole", place / "changed")
    more = dict(run, train_steps=8, log_steps=2, num_core_per_host=2)
    before = (place / "changed" / "run.json").read_text()
    for changes, said in (
        (
            dict(dropout=0.3, learning_rate=0.02),
            "dropout was 0.1, is 0.3; learning_rate was 0.01, is 0.02",
        ),
        (
            dict(eval_record_info_dir=place / "train"),
            "the held-out records (--eval_record_info_dir) have other content",
        ),
    ):
        done = train(place, "changed", **dict(more, **changes))
        assert done.returncode == 1 and len(done.errors) == 1
        assert (
            f"changed has other settings: {said}; leave them out or give them as they "
            "were, or give another model_dir, or --allow_changes=True" in done.stderr
        )
    assert (place / "changed" / "run.json").read_text() == before
    done = train(place, "changed", **dict(more, dropout=0.3, allow_changes=True))
    assert done.returncode == 0, done.stderr
    assert "note: settings changed: dropout was 0.1, is 0.3\n" in done.stdout
    kept = json.loads((place / "changed" / "run.json").read_text())
    assert kept["resolved"]["dropout"] == 0.3
    assert kept["resolved"]["eval_record_info_dir"] == str(place / "heldout")
    assert "allow_changes" not in kept["resolved"]


def test_what_is_left_out_is_that_of_the_run(place, run, whole):
    """A command that names the directory and more steps resumes with all else as it was."""
    shutil.copytree(place / "whole", place / "longer")
    left_out = dict.fromkeys(
        "model_config_path train_batch_size mem_len perm_size num_predict log_steps save_steps "
        "warmup_steps learning_rate".split()
    )
    done = train(place, "longer", train_steps=7, **left_out)
    assert done.returncode == 0, done.stderr
    kept, before = (
        json.loads((place / name / "run.json").read_text())["resolved"]
        for name in ("longer", "whole")
    )
    different = {name for name in before if kept.get(name) != before[name]}
    assert different == {"model_dir", "train_steps", "log_steps"}


def test_the_best_is_of_the_steps_that_the_run_kept(place, run, whole):
    """Its last checkpoint is gone, and it resumes with settings that learn nothing."""
    shutil.copytree(place / "whole", place / "back")
    for path in place.glob("back/model.ckpt-6.*"):
        path.unlink()
    dropped = weights(place, "back/best")
    done = train(place, "back", **dict(run, learning_rate=1e-9, allow_changes=True))
    assert done.returncode == 0, done.stderr
    kept = json.loads((place / "back" / "evaluations.json").read_text())["evaluations"]
    best = min(kept, key=lambda one: one["loss"])
    assert weights(place, "back/best")["global_step"] == best["step"]
    assert dropped["global_step"] == 6
    assert_same(weights(place, "back/dropped-best-6"), dropped)


def test_a_run_that_brings_nothing_says_that_there_is_no_best(place, run):
    """All evaluations have the loss of the initial weights, which are not saved."""
    for rate, is_said in ((1e-30, True), (1e-2, False)):
        shutil.rmtree(place / "nothing", ignore_errors=True)
        done = train(place, "nothing", **dict(run, train_steps=2, learning_rate=rate))
        assert done.returncode == 0, done.stderr
        assert (place / "nothing" / "best").exists() != is_said
        assert ("so there is no best/" in done.stdout) == is_said


def test_a_run_that_resumes_keeps_the_weights_that_it_began_with(place, run, whole):
    """In its document; other ones, which would not be used, are refused."""
    first, other = str(place / "whole" / "model.ckpt-2"), str(place / "whole" / "best")
    shutil.rmtree(place / "begun", ignore_errors=True)
    for steps, given in enumerate((first, None, first, other), 2):
        done = train(place, "begun", train_steps=steps, n_layer=1, init_checkpoint=given)
        assert done.returncode == (given == other), done.stderr
        kept = json.loads((place / "begun" / "run.json").read_text())["resolved"]
        assert kept["init_checkpoint"] == first
    assert f"init_checkpoint was {first}, is {other};" in done.stderr


def test_what_a_run_wrote_starts_it_again(place, run, whole, tmp_path):
    """Its devices and its architecture are in it."""
    kept = json.loads((place / "whole" / "run.json").read_text())["resolved"]
    assert (kept["num_core_per_host"], kept["n_layer"]) == (1, 1)
    path = shutil.copy(place / "whole" / "run.json", tmp_path / "kept.json")
    shutil.rmtree(place / "again", ignore_errors=True)
    done = command.run(
        "train_gpu.py",
        f"--config={path}",
        "--model_dir={}".format(place / "again"),
        "--eval_steps=0",
    )
    assert done.returncode == 0, done.stderr
    assert (curve(place, "again") == curve(place, "whole")).all()
    done = command.run("train_gpu.py", "--config={}".format(place / "again" / "run.json"))
    assert done.returncode == 0 and "has all of its 6 steps" in done.stdout


def test_data_that_end_too_early_are_an_error(place, run, monkeypatch):
    """As of several replicas, of which one has a damaged record: the run ended with status 0."""
    real = Estimator.train

    def with_two_batches(self, input_fn, actions, **how):
        real(self, lambda: input_fn().take(2), actions, **how)

    monkeypatch.setattr(Estimator, "train", with_two_batches)
    done = train(place, "ends_early", **run)
    assert done.returncode == 1 and len(done.errors) == 1
    assert "the data ended at step 2 of 6" in done.errors[0]


def test_a_second_run_in_the_directory_is_refused(place, run, whole):
    with lock.held(str(place / "busy" / trainer.LOCK), "held"):
        done = train(place, "busy", **run)
    assert done.returncode == 1 and done.stderr.startswith(
        (
            "train_gpu.py: model_dir: a run trains in {} already, on host {} as process {} since "
        ).format(place / "busy", socket.gethostname(), os.getpid())
    )
    assert len(done.stderr.splitlines()) == 1 and not list((place / "busy").iterdir())
    assert not (place / "whole" / trainer.LOCK).exists()


def test_a_signal_cuts_an_evaluation_off(place, run, whole, monkeypatch):
    """That of step 2, behind its first batch; made up later, though one checkpoint is kept."""
    answered, one_by_one = [], Predictor._side_by_side

    def signalled(self):
        for batch in one_by_one(self):
            answered.append(batch)
            yield batch
            if (place / "cut" / "model.ckpt-2.index").exists():
                os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(Predictor, "_side_by_side", signalled)
        done = train(place, "cut", **dict(run, max_save=1))
    assert done.returncode == 75, done.stderr
    batches = len(answered) - 1  # of the evaluation of step 0
    assert batches > 1 and "stopped by SIGTERM at step 3, saved" in done.stderr
    assert re.findall(r"^(?:held out: step|step) +(\d)", done.stdout, re.M) == ["0", "1", "2", "3"]
    done = train(place, "cut", **dict(run, max_save=1))
    assert re.findall(r"^held out: step (\d)", done.stdout, re.M) == ["2", "4", "6"]
    for name in ("held_out.csv", "evaluations.json"):
        assert (place / "cut" / name).read_text() == (place / "whole" / name).read_text()
    assert [path.name for path in (place / "cut").glob("model.ckpt-*.index")] == [
        "model.ckpt-6.index"
    ]


def test_a_signal_in_the_first_evaluation_ends_the_run_at_once(place, run, whole, monkeypatch):
    """Nothing is there to save; the same command begins again."""
    one_by_one = Predictor._side_by_side

    def signalled(self):
        for batch in one_by_one(self):
            os.kill(os.getpid(), signal.SIGTERM)
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(Predictor, "_side_by_side", signalled)
        done = train(place, "at_once", **run)
    assert done.returncode == 75, done.stderr
    assert "stopped by SIGTERM in the evaluation before the first step" in done.stderr
    assert not list((place / "at_once").glob("model.ckpt*"))
    assert train(place, "at_once", **run).returncode == 0
    for name in ("held_out.csv", "evaluations.json"):
        assert (place / "at_once" / name).read_text() == (place / "whole" / name).read_text()
    assert (curve(place, "at_once") == curve(place, "whole")).all()


def test_a_checkpoint_beyond_the_limit_of_file_size_is_an_error(place):
    """TensorFlow's error is of the class that means the end of the data elsewhere."""
    wide = json.loads((place / "tiny.json").read_text())
    (place / "wide.json").write_text(json.dumps(dict(wide, d_inner=16384, n_layer=1)))
    process = start(
        place,
        "too_large",
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000)),
        model_config_path=place / "wide.json",
        train_steps=4,
        save_steps=2,
    )
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 1, printed
    line = printed.splitlines()[-1]
    assert re.fullmatch(
        r"train_gpu.py: {}/\S+: File too large".format(re.escape(str(place / "too_large"))),
        line,
    ), printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("name", ("SIGUSR1", "SIGUSR2"))
def test_signals_of_batch_systems_save_and_end_the_run(place, run, whole, name):
    """SLURM's --signal, and what its tools send before a job's time is over."""
    process = start(place, name, {"PYTHONUNBUFFERED": "1"}, **dict(run, train_steps=20000))
    printed = wait_for_step(process, 3)
    process.send_signal(getattr(signal, name))
    printed += process.communicate(timeout=100)[0]
    assert process.returncode == 75, printed
    step = int(re.search(rf"stopped by {name} at step (\d+), saved", printed).group(1))
    assert (place / name / (f"model.ckpt-{step}.index")).exists()


def test_ctrl_c_saves_and_goes_on(place, run, whole, monkeypatch):
    def interrupt(self, step, values):
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run without it
    try:
        with monkeypatch.context() as patched:
            patched.setattr(progress.Progress, "_check", interrupt)
            done = train(place, "interrupted", **run)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.returncode == 75
    assert "stopped by SIGINT at step 4, saved" in done.stderr
    assert train(place, "interrupted", **run).returncode == 0
    assert (curve(place, "interrupted") == curve(place, "whole")).all()
