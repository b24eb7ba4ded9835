"""The best checkpoint: which one it is, and that its directory is whole at every moment."""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from xlnet.engine import best_checkpoint, checkpoint


def make_checkpoint(directory, step, value):
    directory.mkdir(exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        weight = tf.get_variable(
            "model/w", initializer=tf.fill([3], float(value)), use_resource=True
        )
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        return tf.train.Saver([weight, tf.train.get_global_step()]).save(
            session, str(directory / "model.ckpt"), global_step=step
        )


def value_of(directory):
    """What a reader finds in `best/`: a whole checkpoint with its description, or an error."""
    reader = tf.train.load_checkpoint(checkpoint.resolve(str(directory)))
    values = reader.get_tensor("model/w")
    assert len(set(values)) == 1 and (directory / "run.json").read_text() == "{}"
    return float(values[0])


class Killed(BaseException):
    """As if the process had ended: nothing of the program catches it."""


def kill_at(monkeypatch, number):
    """Makes the file operation `number` (0: the first) of those that follow the last one."""
    done = []

    def watched(operation):
        def run(*arguments, **named):
            if len(done) >= number:
                raise Killed()
            done.append(operation)
            return operation(*arguments, **named)

        return run

    for module, names in (
        (os, ("replace", "rename", "remove", "unlink", "rmdir", "makedirs")),
        (shutil, ("copyfile", "rmtree", "copytree")),
        (checkpoint, ("write_arrays",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, watched(getattr(module, name)))


def test_evaluations_without_the_metric_are_dropped(tmp_path, caplog):
    best_checkpoint.BestCheckpoint(str(tmp_path), "f1").add(1, {"f1": 0.5, "loss": 1.0}, None)
    other = best_checkpoint.BestCheckpoint(str(tmp_path), "auc")
    assert other.best() is None and not caplog.text  # the change of the metric may be refused
    other.set_dropped_aside(1)
    assert "1 of 1 evaluations have no auc and are dropped" in caplog.text
    assert best_checkpoint.BestCheckpoint(str(tmp_path), "f1").best()["step"] == 1


@pytest.mark.parametrize("step", (7, 5), ids=("another step", "the same step"))
def test_best_is_whole_wherever_a_run_is_killed(tmp_path, monkeypatch, step):
    """The weights of before or the new ones, never none; the next export tidies up."""
    old = make_checkpoint(tmp_path / "old", 5, 1)
    new = make_checkpoint(tmp_path / "new", step, 2)
    for folder in ("old", "new"):
        (tmp_path / folder / "run.json").write_text("{}")
    best, found = tmp_path / "best", []
    for number in range(100):
        shutil.rmtree(best, ignore_errors=True)
        best_checkpoint.export(old, str(best))
        assert value_of(best) == 1
        with monkeypatch.context() as patched:
            kill_at(patched, number)
            try:
                best_checkpoint.export(new, str(best))
                break
            except Killed:
                pass
        found.append(value_of(best))
        best_checkpoint.export(new, str(best))
        assert value_of(best) == 2 and {path.name for path in best.iterdir()} == {
            "checkpoint",
            "run.json",
            f"model.ckpt-{step}.index",
            f"model.ckpt-{step}.data-00000-of-00001",
        }
    assert 3 < number < 100 and found == sorted(found) and set(found) == {1, 2}


@pytest.mark.parametrize(
    "lower_is_better, metric, best",
    (
        (False, (0.5, 0.7, 0.7, 0.7), 3),
        (True, (0.5, 0.3, 0.3, 0.3), 3),
        (False, (0.5, 0.5, 0.5, 0.5), 3),
    ),
)
def test_ties_go_to_the_lower_loss_then_to_the_earlier(tmp_path, lower_is_better, metric, best):
    chosen = best_checkpoint.BestCheckpoint(
        str(tmp_path), "score", lower_is_better=lower_is_better, table="scores.tsv"
    )
    for step, score, loss in zip((1, 2, 3, 4), metric, (2.0, 2.0, 1.0, 1.0)):
        assert not chosen.add(step, {"score": score, "loss": loss}, None)
    assert chosen.best()["step"] == best
    again = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    assert again.evaluations == chosen.evaluations
    assert (tmp_path / "scores.tsv").read_text().split("\n")[:2] == [
        "step,score",
        f"1,{metric[0]:.6f}",
    ]
    again.go_back_to(2)
    assert [one["step"] for one in again.evaluations] == [1, 2] and again.lacks(4, 2, 9)


def test_an_evaluation_that_is_interrupted_is_made_again(tmp_path, monkeypatch):
    """Otherwise the next save could remove the checkpoint, which is in no `best/`."""
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    prefix = make_checkpoint(tmp_path, 2, 2)
    for place, name in ((best_checkpoint, "export"), (best_checkpoint.files, "write_json")):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, lambda *arguments: (_ for _ in ()).throw(Killed()))
            with pytest.raises(Killed):
                chosen.add(2, {"score": 0.7}, prefix)
        assert chosen.lacks(2, 2, 9)
    assert chosen.add(2, {"score": 0.7}, prefix) and not chosen.lacks(2, 2, 9)


def test_the_best_weights_of_dropped_steps_are_set_aside(tmp_path, caplog):
    """The run resumes before them: what `best/` has is always what the evaluations say."""
    caplog.set_level("INFO")
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    (tmp_path / "run.json").write_text("{}")
    for step, score in ((2, 0.7), (4, 0.6), (6, 0.9)):
        chosen.add(step, {"score": score}, make_checkpoint(tmp_path, step, step))
    chosen.set_dropped_aside(6)  # nothing was dropped
    assert value_of(tmp_path / "best") == 6 and not caplog.messages
    for path in tmp_path.glob("model.ckpt-6.*"):
        path.unlink()

    again = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    again.go_back_to(4)
    again.set_dropped_aside(4)
    assert value_of(tmp_path / "best") == 2 and value_of(tmp_path / "dropped-best-6") == 6
    assert str(tmp_path / "dropped-best-6") in caplog.messages[-1]
    assert not again.add(6, {"score": 0.65}, make_checkpoint(tmp_path, 6, 7))
    assert value_of(tmp_path / "best") == 2
    assert again.add(8, {"score": 0.8}, make_checkpoint(tmp_path, 8, 8))
    assert value_of(tmp_path / "best") == 8
    # Once more, where no evaluated checkpoint is left.
    again.go_back_to(1)
    again.set_dropped_aside(1)
    assert not (tmp_path / "best").exists() and value_of(tmp_path / "dropped-best-8") == 8


def test_another_metric_chooses_among_the_weights_that_are_there(tmp_path, caplog):
    """The best step by the new one, of which no weights were left, kept all later ones away."""
    (tmp_path / "run.json").write_text("{}")
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    for step, score, auc in ((2, 0.1, 0.9), (4, 0.8, 0.3), (6, 0.2, 0.6), (8, 0.3, 0.5)):
        prefix = make_checkpoint(tmp_path, step, step)
        chosen.add(step, {"score": score, "auc": auc}, prefix)
    for step in (2, 4):
        for path in tmp_path.glob(f"model.ckpt-{step}.*"):
            path.unlink()
    assert value_of(tmp_path / "best") == 4

    again = best_checkpoint.BestCheckpoint(str(tmp_path), "auc")
    again.go_back_to(8)
    again.set_dropped_aside(8)
    assert "1 of 4 evaluations are dropped" in caplog.text
    assert again.best()["step"] == 6 and value_of(tmp_path / "best") == 6
    assert again.add(10, {"score": 0.0, "auc": 0.7}, make_checkpoint(tmp_path, 10, 10))
    assert value_of(tmp_path / "best") == 10
    # Where it is the metric of before, nothing is chosen again.
    caplog.clear()
    best_checkpoint.BestCheckpoint(str(tmp_path), "auc").set_dropped_aside(10)
    assert value_of(tmp_path / "best") == 10 and not caplog.text


@pytest.mark.parametrize("lower_is_better", [False, True], ids=["file", "direction"])
def test_another_metric_of_the_same_name_chooses_by_its_own_numbers(
    tmp_path, caplog, lower_is_better
):
    """`best/` kept the worst weights, or numbers of two functions were compared."""
    (tmp_path / "run.json").write_text("{}")
    before = {"definition": "one:score"}
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score", **before)
    for step, score in ((2, 0.8), (4, 0.3)):
        chosen.add(step, {"score": score}, make_checkpoint(tmp_path, step, step))
    assert not best_checkpoint.BestCheckpoint(str(tmp_path), "score", **before).has_other_metric

    now = {"definition": "one:score:min" if lower_is_better else "two:score"}
    again = best_checkpoint.BestCheckpoint(
        str(tmp_path), "score", lower_is_better=lower_is_better, **now
    )
    again.go_back_to(4)
    again.set_dropped_aside(4)
    assert "2 of 2 evaluations are by another metric of the name score and are" in caplog.text
    assert again.lacks(2, every=2, last=4) and again.lacks(4, every=2, last=4)
    assert again.add(4, {"score": 0.3}, str(tmp_path / "model.ckpt-4"))
    assert value_of(tmp_path / "best") == 4


def test_no_weights_replace_dropped_ones_that_are_worse_than_the_initial_ones(tmp_path):
    """Those of pretraining are evaluated as step 0, and not saved."""
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    (tmp_path / "run.json").write_text("{}")
    chosen.add(0, {"score": 0.8}, None)
    for step, score in ((2, 0.7), (4, 0.9)):
        chosen.add(step, {"score": score}, make_checkpoint(tmp_path, step, step))
    again = best_checkpoint.BestCheckpoint(str(tmp_path), "score")
    again.go_back_to(2)
    again.set_dropped_aside(2)
    assert not (tmp_path / "best").exists() and value_of(tmp_path / "dropped-best-4") == 4


def test_evaluations_of_dropped_steps_are_not_those_of_the_steps_that_replace_them(tmp_path):
    """A run goes back from step 6 to 4, saves step 6 again and is killed before its evaluation."""
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "f1", table="f1.csv")
    for step in (2, 4, 6):
        chosen.add(step, {"f1": step / 10, "loss": 1.0}, None)
    resumed = best_checkpoint.BestCheckpoint(str(tmp_path), "f1", table="f1.csv")
    resumed.go_back_to(4)
    resumed.set_dropped_aside(4)
    again = best_checkpoint.BestCheckpoint(str(tmp_path), "f1", table="f1.csv")
    again.go_back_to(6)
    assert again.lacks(6, every=2, last=6)
    assert [row.split(",")[0] for row in (tmp_path / "f1.csv").read_text().split()[1:]] == [
        "2",
        "4",
    ]


@pytest.mark.parametrize("lower_is_better", (False, True))
def test_what_is_not_finite_is_never_the_best(tmp_path, lower_is_better):
    chosen = best_checkpoint.BestCheckpoint(str(tmp_path), "score", lower_is_better=lower_is_better)
    for step, (score, loss) in enumerate(((np.nan, 1.0), (0.5, 1.0), (0.5, np.nan), (np.nan, 0.1))):
        chosen.add(step, {"score": score, "loss": loss}, None)
    assert chosen.best()["step"] == 1


def test_an_exported_checkpoint_can_be_exported_again(tmp_path):
    best_checkpoint.export(make_checkpoint(tmp_path / "run", 4, 3), str(tmp_path / "one"))
    best_checkpoint.export(
        checkpoint.named_by_state_file(str(tmp_path / "one"))[1], str(tmp_path / "two")
    )
    readers = [tf.train.load_checkpoint(str(tmp_path / name)) for name in ("one", "two")]
    for name in readers[0].get_variable_to_shape_map():
        np.testing.assert_array_equal(*(reader.get_tensor(name) for reader in readers))
    assert checkpoint.named_by_state_file(str(tmp_path / "two"))[0] == 4
    assert checkpoint.named_by_state_file(str(tmp_path / "nowhere")) is None
