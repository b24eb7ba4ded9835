"""run_classifier.py from the command line: trains, continues, evaluates, predicts, refuses."""

import json
import re
import shutil
import tempfile

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import TOPICS, make_vocabulary, make_workspace, weights
from helpers.paths import RELEASED

from xlnet.engine import best_checkpoint

pytestmark = pytest.mark.usefixtures("quick_start")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = make_workspace(tmp_path_factory.mktemp("run_classifier"))
    make_vocabulary(place.directory / "small.model", 36)
    return place


@pytest.fixture(scope="module")
def trained(place):
    """What training printed: two long steps on own files from random weights."""
    return place.succeed("--do_train=True", "--save_steps=1", learning_rate=0.05)


# ---- training


def test_training_leaves_a_directory_that_is_complete(place, trained):
    files = {path.name for path in (place.directory / "model").iterdir()}
    expected = {"model.ckpt-1.index", "model.ckpt-2.index", "spiece.model"}
    assert expected | {"xlnet_config.json", "run.json"} <= files
    document = json.loads((place.directory / "model" / "run.json").read_text())
    described = document["task"]
    assert described["labels"] == ["animal", "plant", "stone"]
    assert (described["task"], described["head"]) == ("custom", "classification_custom")
    assert document["text"]["uncased"] is False
    assert described["dev_share"] == 0.0 and len(document["read"]["train"]) == 1
    for line in (
        "task +custom: 21 examples",
        "steps +0 to 2",
        "start +random weights",
        r"step 2/2  loss +\d",
    ):
        assert re.search("^" + line, trained, re.MULTILINE), line


@pytest.mark.slow
def test_a_released_checkpoint_is_where_training_starts(place):
    out = place.succeed(
        "--do_train=True",
        model_dir=place.path("warm"),
        init_checkpoint=str(RELEASED),
        train_steps=1,
        warmup_steps=1,  # the rate of the first step is 0
    )
    released = weights(RELEASED / "xlnet_model.ckpt")
    started = weights(place.path("warm", "model.ckpt-1"))
    of_pretraining = {"model/lm_loss/bias", "model/transformer/mask_emb/mask_emb"}
    shared = set(released) - of_pretraining - {"global_step"}
    assert f"started from {RELEASED}/xlnet_model.ckpt: {len(shared)} of " in out
    assert re.search("not in the checkpoint, .*classification_custom/logit/kernel", out)
    for name in shared:
        assert np.array_equal(released[name], started[name]), name


# ---- evaluation and prediction


def test_an_evaluation_is_logged_and_kept(place, trained):
    """Of the best checkpoint, whatever the original's flag says."""
    out = place.succeed("--do_eval=True", "--eval_all_ckpt=True")
    path = place.directory / "model" / "results" / "eval_results_dev.json"
    kept = json.loads(path.read_text())
    one = kept["result"]
    names = ("accuracy", "macro_f1", "auc", "loss")
    numbers = "  ".join(f"{name} {one[name]:.4f}" for name in names)
    line = f"eval custom dev  step {one['step']}  {numbers}  (7 rows)"
    assert line in out.splitlines()
    assert kept["rows"] == 7 and one["step"] in (1, 2)


def test_metrics_are_those_of_the_predictions(place, trained):
    out = place.succeed("--do_eval=True", "--do_predict=True", "--predict_split=dev")
    header, lines, probabilities = place.predictions(
        "model", "results", "predictions_custom_dev.tsv"
    )
    assert header == ["id", "label", "p_animal", "p_plant", "p_stone", "gold"]
    truth = [list(TOPICS)[i % 3] for i in range(7)]
    assert [line[-1] for line in lines] == truth
    labels = list(TOPICS)
    predicted = [labels[i] for i in probabilities.argmax(axis=1)]
    assert [line[1] for line in lines] == predicted
    right = np.mean(np.array(predicted) == truth)
    loss = -np.mean(np.log(probabilities[range(7), [*map(labels.index, truth)]]))
    assert f"eval custom dev  step 2  accuracy {right:.4f}" in out
    assert abs(float(re.search(r"step 2 .*loss (\S+)", out).group(1)) - loss) < 1e-4


@pytest.mark.slow
def test_a_model_copied_elsewhere_needs_nothing_but_a_file(
    place, trained, tmp_path, monkeypatch
):
    """Neither task nor columns, vocabulary, architecture or directories; nothing is left behind."""
    flags = dict(do_predict=True, predict_file=place.path("own", "test.tsv"))
    place.succeed(**flags, predict_dir=tmp_path / "expected")
    best_checkpoint.export(place.path("model", "model.ckpt-2"), str(tmp_path / "best"))
    shutil.move(tmp_path / "best", tmp_path / "elsewhere")
    before = sorted(path.name for path in (tmp_path / "elsewhere").iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Batches of the same size, on which the last bit depends on some processors.
    flags.update(model_dir=tmp_path / "elsewhere", output="-", eval_batch_size=2)
    done = command.succeed("run_classifier.py", **flags)
    expected = (tmp_path / "expected" / "predictions_custom_test.tsv").read_text()
    assert done.stdout == expected
    assert "predicted custom test  step 2  (5 rows): -" in done.stderr
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "expected"]


# ---- what is refused

TRAIN, EVAL = "--do_train=True", "--do_eval=True"


@pytest.mark.parametrize(
    "arguments, changes, message",
    [
        ([], {}, "found nothing to do, expected --do_train"),
        ([TRAIN], dict(data_dir="nowhere"), "data_dir: found no such file or direct"),
        ([TRAIN, EVAL], dict(data_dir="strange-dev"), "dev.tsv:3: unknown label 'wat"),
        (
            [TRAIN, "--label_column=score"],
            dict(task_name="sts-b", data_dir="sts"),
            "label_column: found 'score', expected none",
        ),
        ([TRAIN], dict(spiece_model_file="small.model"), "36, the pieces of small.mo"),
        ([TRAIN], dict(model_config_path="none.json"), "found 'none.json', expected a"),
        (
            [TRAIN],
            dict(model_config_path="wide.json", init_checkpoint=str(RELEASED)),
            "found d_inner 24, expected 32",
        ),
        (
            [TRAIN],
            dict(init_checkpoint="none.ckpt"),
            "t: found no checkpoint none.ckpt",
        ),
        ([TRAIN], dict(num_core_per_host=8), "found 4, expected a multiple of 8 repl"),
        ([TRAIN], dict(output_dir="sp.model"), "output_dir: found the file sp.model"),
        ([EVAL], {}, "no checkpoint in refused"),
        (["--do_predict=True"], {}, "no checkpoint in refused"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    place, faulty, monkeypatch, arguments, changes, message
):
    monkeypatch.chdir(place.directory)
    names = dict(model_dir="refused", output_dir="no-records")
    done = place.run(*arguments, **{**names, **changes})
    (line,) = done.stderr.splitlines()
    assert done.returncode == (1 if arguments else 2)  # 2: wrong by its flags alone
    assert line.startswith("run_classifier.py: ") and message in line
    assert not (place.directory / "refused").exists()
    assert not (place.directory / "no-records").exists()


@pytest.fixture(scope="module")
def faulty(place):
    """Files that are refused."""
    shutil.copytree(place.path("own"), place.path("strange-dev"))
    lines = (place.directory / "own" / "dev.tsv").read_text().split("\n")
    lines[2] = lines[2].rpartition("\t")[0] + "\twater"
    (place.directory / "strange-dev" / "dev.tsv").write_text("\n".join(lines))
    config = json.loads((RELEASED / "xlnet_config.json").read_text())
    (place.directory / "wide.json").write_text(json.dumps(dict(config, d_inner=32)))


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(uncased=True), "uncased: found True, expected False"),
        (
            dict(summary_type="mean", allow_changes=True),
            "found summary_type last, expected summary_type mean",
        ),
        (dict(task_name="sts-b", data_dir="sts"), "task: found custom, expected sts-b"),
        (dict(is_regression=True, allow_changes=True), "kind regression"),
        (dict(model_config_path="wide.json"), "found d_inner 24, expected 32"),
    ],
)
@pytest.mark.parametrize("what", [TRAIN, EVAL])
def test_a_model_directory_is_kept_for_its_task(
    place, trained, faulty, monkeypatch, what, changes, message
):
    monkeypatch.chdir(place.directory)
    before = sorted((place.directory / "model").iterdir())
    done = place.run(what, train_steps=9, **changes)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and message in line
    assert sorted((place.directory / "model").iterdir()) == before


def test_a_damaged_checkpoint_is_named(place, trained, tmp_path):
    results = shutil.ignore_patterns("eval_results*")
    shutil.copytree(place.path("model"), tmp_path / "model", ignore=results)
    (tmp_path / "model" / "model.ckpt-2.data-00000-of-00001").unlink()
    done = place.run(EVAL, model_dir=tmp_path / "model")
    assert done.returncode == 1 and len(done.errors) == 1, done
    assert "model.ckpt-2" in done.stderr
    assert not (tmp_path / "model" / "results" / "eval_results_dev.json").exists()


@pytest.mark.slow
def test_a_directory_of_other_checkpoints_is_not_trained_in(place):
    shutil.copytree(RELEASED, place.path("other"))
    for path in list((place.directory / "other").glob("xlnet_model.ckpt.*")):
        path.rename(str(path).replace("xlnet_model.ckpt", "model.ckpt-5"))
    done = place.run(TRAIN, model_dir=place.path("other"))
    assert done.returncode == 1 and "--init_checkpoint to start from" in done.stderr
