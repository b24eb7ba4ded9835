"""The best checkpoint: which one it is, and that its directory is whole at every moment."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from xlnet.engine import best_checkpoint, checkpoint


def make_checkpoint(directory, step, value):
    """Makes a run's directory with a checkpoint of one weight; returns its prefix."""
    directory.mkdir(exist_ok=True)
    (directory / "run.json").write_text("{}")
    prefix = str(directory / f"model.ckpt-{step}")
    arrays = {"model/w": np.full([3], value, "f4"), "global_step": np.array(step)}
    checkpoint.write_arrays(prefix, arrays)
    return prefix


def value_of(directory):
    """What a reader finds in `best/`: a whole checkpoint with its description; None: nothing."""
    prefix = checkpoint.newest(str(directory))
    if prefix is None:
        return None
    values = tf.train.load_checkpoint(prefix).get_tensor("model/w")
    assert len(set(values)) == 1 and (directory / "run.json").read_text() == "{}"
    return float(values[0])


class Killed(BaseException):
    """As if the process had ended: nothing of the program catches it."""


def killing(operation, left):
    """The file operation, while there are some left of those that a run makes."""

    def run(*arguments, **named):
        if next(left, None) is None:
            raise Killed()
        return operation(*arguments, **named)

    return run


def test_selection_begins_anew_with_another_metric(tmp_path):
    first = best_checkpoint.BestCheckpoint(str(tmp_path), "f1")
    first.add(1, {"f1": 0.5, "auc": 1.0}, None)
    assert best_checkpoint.BestCheckpoint(str(tmp_path), "auc").best() is None
    assert best_checkpoint.BestCheckpoint(str(tmp_path), "f1").best()["step"] == 1


@pytest.mark.parametrize("step", (7, 5), ids=("another step", "the same step"))
def test_best_is_whole_wherever_a_run_is_killed(tmp_path, monkeypatch, step):
    """The weights of before or the new ones, or none while weights of one name are replaced; the
    next export tidies up."""
    old = make_checkpoint(tmp_path / "old", 5, 1)
    new = make_checkpoint(tmp_path / "new", step, 2)
    best, found = tmp_path / "best", []
    for number in range(100):
        shutil.rmtree(best, ignore_errors=True)
        best_checkpoint.export(old, str(best))
        assert value_of(best) == 1
        with monkeypatch.context() as patched:
            left = iter(range(number))
            for module, names in (
                (os, ("replace", "rename", "remove", "unlink", "rmdir", "makedirs")),
                (shutil, ("copyfile", "rmtree", "copytree")),
                (checkpoint, ("write_arrays",)),
            ):
                for name in names:
                    watched = killing(getattr(module, name), left)
                    patched.setattr(module, name, watched)
            try:
                best_checkpoint.export(new, str(best))
                break
            except Killed:
                pass
        found.append(value_of(best))
        best_checkpoint.export(new, str(best))
        assert value_of(best) == 2
        files = {"checkpoint", "run.json", f"model.ckpt-{step}.index"}
        files.add(f"model.ckpt-{step}.data-00000-of-00001")
        assert {path.name for path in best.iterdir()} == files
    assert 3 < number < 100 and set(found) <= {1, 2, None}
    assert None not in found or step == 5


def test_files_that_the_source_lacks_go_from_the_copy(tmp_path):
    """Those of an earlier export would be read as those of these weights."""
    prefix = make_checkpoint(tmp_path / "from", 3, 1.0)
    best_checkpoint.export(prefix, str(tmp_path / "to"))
    assert value_of(tmp_path / "to") == 1.0
    (tmp_path / "from" / "run.json").unlink()
    best_checkpoint.export(prefix, str(tmp_path / "to"))
    assert not (tmp_path / "to" / "run.json").exists()


def test_the_best_weights_have_the_threshold_that_was_chosen_with_them(tmp_path):
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    for step, score, threshold in ((1, 0.5, 0.3), (2, 0.7, 0.4), (3, 0.6, 0.6)):
        prefix = make_checkpoint(tmp_path, step, step)
        (tmp_path / "run.json").write_text('{"task": {"kind": "multi_label"}}')
        chosen.add(step, {"score": score, "threshold": threshold}, prefix)
    kept = json.loads((tmp_path / "best" / "run.json").read_text())
    assert kept["task"] == {"kind": "multi_label", "threshold": 0.4}
    chosen.roll_back_evaluations(1)
    chosen.roll_back_best(1)
    kept = json.loads((tmp_path / "best" / "run.json").read_text())
    assert kept["task"]["threshold"] == 0.3


def test_ties_go_to_the_lower_loss_then_to_the_earlier(tmp_path):
    for lower_is_better, other in ((False, 0.7), (True, 0.3)):
        folder = tmp_path / str(lower_is_better)
        folder.mkdir()
        how = dict(lower_is_better=lower_is_better)
        chosen = best_checkpoint.BestCheckpoint(str(folder), "score", **how)
        values = ((0.5, 2.0), (other, 2.0), (other, 1.0), (other, 1.0))
        for step, (score, loss) in enumerate(values, 1):
            chosen.add(step, {"score": score, "loss": loss}, None)
        assert chosen.best()["step"] == 3
        again = best_checkpoint.BestCheckpoint(str(folder), "score")
        assert again.evaluations == chosen.evaluations
        again.roll_back_evaluations(2)
        assert again.is_evaluated(2) and not again.is_evaluated(3)
        assert [one["step"] for one in again.evaluations] == [1, 2]


def test_values_that_are_not_finite_choose_nothing(tmp_path):
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score", patience=2)
    chosen.add(1, {"score": float("nan"), "loss": 1.0}, None)
    chosen.add(2, {"score": 0.9, "loss": float("nan")}, None)
    assert chosen.best() is None and not chosen.stops_early()
    for step, score in ((3, 0.5), (4, 0.4), (5, 0.5)):
        chosen.add(step, {"score": score}, None)
    assert chosen.best()["step"] == 3 and chosen.stops_early()


def test_an_evaluation_that_is_interrupted_is_made_again(tmp_path, monkeypatch):
    prefix = make_checkpoint(tmp_path, 2, 2)
    for place, name in (
        (best_checkpoint, "export"),
        (best_checkpoint.files, "write_json"),
    ):
        chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(place, name, killing(None, iter(())))
            chosen.add(2, {"score": 0.7}, prefix)
        assert not best_checkpoint.BestCheckpoint(str(tmp_path), "score").evaluations
    chosen.add(2, {"score": 0.7}, prefix)
    assert best_checkpoint.BestCheckpoint(str(tmp_path), "score").is_evaluated(2)
