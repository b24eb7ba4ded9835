"""Directories of 1.0 and of the versions before `run.json`: `earlier/` has the files that those
programs wrote, with shorter paths."""

import json
import pathlib
import shutil

import pytest
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED

from xlnet.engine import best_checkpoint, checkpoint
from xlnet.errors import UserError
from xlnet.model_directory import earlier, model_files, run_document
from xlnet.model_directory.run_document import RunDocument
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tokenization.tokenizer import Tokenizer

FILES = pathlib.Path(__file__).parent / "earlier"
CLASSIFIED = ("1.0/classified", "1.1.dev/classified")


def of(name):
    return run_document.read(str(FILES / name))


def stored(name):
    return json.loads((FILES / name).read_text())


def test_a_pretraining_run():
    run = of("1.0/pretrained")
    before = stored("1.0/pretrained/pretraining.json")
    about = before.pop("about")
    assert (run.program, run.task, run.huggingface) == ("xlnet pretrain", None, None)
    assert run.resolved == dict(before, precision="fp32")
    assert (run.resolved["clamp_len"], run.resolved["dropout"]) == (20, 0.2)
    assert run.text == {"spiece_sha256": about.pop("spiece.model")}
    assert run.read == about and set(about) == {"record_info_dir", "eval_record_info_dir"}
    (past,) = run.history
    assert (past["until_step"], past["resolved"]["dropout"]) == (4, 0.1)
    assert set(past) == {"until", "until_step", "asked", "resolved", "read"}


@pytest.mark.parametrize("name", CLASSIFIED)
def test_a_fine_tuning_run(name):
    run, task = of(name), stored(name + "/task.json")
    settings = stored(name + "/finetuning.json")
    assert run.program == "xlnet classify" and run.huggingface is None
    assert run.task["labels"] == ["animal", "plant", "stone"] and run.task["dev_share"] == 0.3
    assert run.task["head"] == "classification_custom" and run.task["columns"] == task["columns"]
    assert not {"settings", "clamp_len", "uncased", "train_sha256"} & set(run.task)
    assert run.text == {name: task[name] for name in ("spiece_sha256", "uncased", "keep_accents")}
    assert run.read["train"] == task["train_sha256"]
    assert run.read.get("splits") == task.get("files_sha256")
    assert {"dev", "metric"} <= set(run.read)
    kept = {key: value for key, value in task["settings"].items() if value is not None}
    assert kept.items() <= run.resolved.items()
    expected = dict(settings, clamp_len=-1, precision="fp32")
    del expected["about"]
    assert expected.items() <= run.resolved.items()
    # Of `best/` the run is known, too.
    best = of(name + "/best")
    assert (best.task, best.resolved) == (run.task, run.resolved)
    assert best.path.endswith("best/task.json")


def test_whether_a_known_task_has_scores_was_no_setting_of_its_run():
    run = of("1.0/scored")
    assert stored("1.0/scored/task.json")["settings"]["is_regression"] is True
    assert "is_regression" not in run.resolved and run.task["is_regression"] is True


@pytest.mark.parametrize(
    "name, clamp_len, kind", [("converted", 9, "classification"), ("weights", -1, None)]
)
def test_converted_models(name, clamp_len, kind):
    """No run has written their settings: only what belongs to the model is known."""
    run = of("1.0/" + name)
    assert run.program is None and run.resolved["clamp_len"] == clamp_len
    assert run.huggingface == stored(f"1.0/{name}/huggingface_config.json")
    assert (run.task and run.task["kind"]) == kind
    (optimization,), different = run_document.inherit(
        (OptimizationSettings(learning_rate=0.5),), {"learning_rate"}, run, is_training=True
    )
    assert not different and optimization.learning_rate == 0.5


def test_a_run_resumes_with_its_settings():
    run = of("1.0/pretrained")
    groups = (PretrainingSettings(record_info_dir="r", mem_len=9), NetworkSettings())
    (settings, network), different = run_document.inherit(
        groups, {"record_info_dir", "mem_len"}, run, is_training=True
    )
    assert different == ["mem_len was 8, is 9"]
    assert (settings.perm_size, network.dropout, network.clamp_len) == (16, 0.2, 20)


@pytest.fixture(params=CLASSIFIED)
def model(request, tmp_path):
    """A model directory of an earlier version, with weights of this one."""
    directory = tmp_path / "model"
    shutil.copytree(FILES / request.param, directory)
    make_vocabulary(tmp_path / "sp.model", 37)
    tokenizer = Tokenizer(str(tmp_path / "sp.model"))
    tokenizer.save(str(directory / "spiece.model"))
    shutil.copy(RELEASED / "xlnet_config.json", directory)
    for path in directory.rglob("task.json"):  # the vocabulary, which is made here
        task = dict(json.loads(path.read_text()), spiece_sha256=tokenizer.sha256)
        path.write_text(json.dumps(task))
    for end in ("index", "data-00000-of-00001"):
        shutil.copy(RELEASED / ("xlnet_model.ckpt." + end), directory / ("model.ckpt-2." + end))
    checkpoint.write_state_file(str(directory))
    return directory


def test_a_model_is_read(model, caplog):
    caplog.set_level("INFO", "xlnet")
    before = sorted(model.rglob("*"))
    found = model_files.read(str(model))
    assert found.tuned.task.labels == ("animal", "plant", "stone")
    assert found.tuned.settings.text_b_column == "second" and found.max_seq_length == 16
    assert sorted(model.rglob("*")) == before
    assert caplog.messages == [
        f"note: {model} has no run.json; its task.json, finetuning.json of an earlier version "
        "is read"
    ]


def test_a_run_that_resumes_replaces_the_files(model):
    """By one that says the same, and, if it has other settings, keeps those as history."""
    run, best = (run_document.read(str(each)) for each in (model, model / "best"))
    same = RunDocument("", *(getattr(run, name) for name in ("program", "resolved")))
    run_document.write(str(model), run)
    assert run_document.read(str(model)).history == []
    assert {path.name for path in model.glob("*.json")} == {
        "run.json",
        "spiece.model.json",
        "xlnet_config.json",
    }
    assert [path.name for path in (model / "best").iterdir()] == ["run.json"]
    assert run_document.read(str(model / "best")).resolved == best.resolved
    run_document.write(str(model), same)  # without the task
    (past,) = run_document.read(str(model)).history
    assert past["resolved"] == run.resolved


def test_the_best_checkpoint_has_the_files_of_its_run(model):
    """Before the run has written its document, and afterwards."""
    best = model / "best"
    best_checkpoint.export(str(model / "model.ckpt-2"), str(best))
    assert {"task.json", "finetuning.json"} <= {path.name for path in best.iterdir()}
    run_document.write(str(model), run_document.read(str(model)))
    best_checkpoint.export(str(model / "model.ckpt-2"), str(best))
    assert {path.name for path in best.glob("*.json")} == {
        "run.json",
        "spiece.model.json",
        "xlnet_config.json",
    }


def test_what_no_program_has_written_is_refused(tmp_path):
    (tmp_path / "task.json").write_text('{"settings": [1]}')
    with pytest.raises(UserError, match="task.json is not as a program of ours writes it: "):
        earlier.read(str(tmp_path))
