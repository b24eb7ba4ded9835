"""A model directory from a stranger is read, never run; nothing outside of it is touched."""

import ast
import dataclasses
import json
import os
import pathlib
import shutil

import pytest
from helpers.paths import ROOT

from xlnet.inference import exporter
from xlnet.runs import model_files
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.support.errors import UserError

# What runs or builds whatever stands in a file or a text.
_RUNS = {"eval", "exec", "compile", "__import__"}
_OF_PATHS = ("_dir", "_file", "_path", "_output", "_checkpoint")  # ends of names
_UNPACKS = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "yaml"}


def test_nothing_is_unpickled_or_evaluated():
    files = list(ROOT.glob("*.py"))
    for folder in ("scripts", "xlnet"):
        files += (ROOT / folder).rglob("*.py")
    assert len(files) > 100
    for path in files:
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                # This one runs the cells of our notebooks.
                is_cell = name == "scripts/notebooks.py"
                assert node.func.id not in _RUNS or is_cell, (name, node.lineno)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert not getattr(node.value, "value", True), (name, node.value.lineno)
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            unpacks = _UNPACKS & {each.partition(".")[0] for each in imported}
            # Beam's steps hand each other files that their own run wrote.
            is_of_run = name == "xlnet/corpus/beam.py"
            assert not unpacks or is_of_run, (name, imported)


@pytest.fixture
def model(model_of, tmp_path):
    """(a directory, that of a model in it, beside a file that it has no business with)"""
    (tmp_path / "secret").write_text("secret")
    copied = shutil.copytree(model_of("classification"), tmp_path / "model")
    return tmp_path, str(copied)


def change_task(model, task, resolved):
    path = pathlib.Path(model, "run.json")
    stored = json.loads(path.read_text())
    stored["task"].update(task)
    stored["resolved"].update(resolved)
    path.write_text(json.dumps(stored))


def tree(directory):
    return sorted(str(path) for path in directory.rglob("*"))


def test_no_setting_that_a_model_keeps_is_a_path():
    for group in (ClassifierSettings, TaggerSettings, SpanSettings):
        kept, paths = set(), set()
        for field in dataclasses.fields(group):
            if field.metadata["belongs_to"] == "model":
                kept.add(field.name)
            if field.name.endswith(_OF_PATHS):
                paths.add(field.name)
        assert len(kept) > 5 and "model_dir" in paths and not paths & kept


@pytest.mark.parametrize("outside", ("../secret", "{}/secret"))
def test_paths_in_run_json_lead_nowhere(model, outside):
    directory, path = model
    outside = outside.format(directory)
    names = "spiece_model_file model_config_path output_dir predict_dir init_checkpoint"
    names += " data_dir model_dir predict_file config"
    resolved = dict.fromkeys(names.split(), outside)
    change_task(path, dict(spiece_model_file=outside, checkpoint=outside), resolved)
    before = tree(directory)
    found = model_files.read(path)
    assert found.tokenizer.path == os.path.join(path, "spiece.model")
    assert found.prefix == os.path.join(path, "model.ckpt-1")
    settings = found.tuned.settings
    assert settings.model_dir == path
    assert settings.data_dir == settings.output_dir == ""
    assert settings.predict_dir is None
    assert settings.model_config_path == os.path.join(path, "xlnet_config.json")
    assert tree(directory) == before


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(task="../secret"), "unknown task"),
        (dict(head="../../secret"), "head"),
        (dict(kind="levels", module="os.py"), "which no module has registered"),
        (dict(labels=[["../secret"]]), "expected a list of names"),
    ],
)
def test_names_in_run_json_are_names(model, changes, said):
    directory, path = model
    resolved = dict(task_name=changes["task"]) if "task" in changes else {}
    change_task(path, changes, resolved)
    before = tree(directory)
    with pytest.raises(UserError, match=said):
        exporter.export(model_files.read(path), str(directory / "served"))
    assert tree(directory) == before
