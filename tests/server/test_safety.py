"""A model directory from a stranger is read, never run; nothing outside of it is touched."""

import ast
import dataclasses
import json
import os
import shutil

import pytest
from helpers.models import make_model
from helpers.paths import ROOT

from xlnet.inference import exporter
from xlnet.runs import model_files
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.support.errors import UserError

# What runs or builds whatever stands in a file or a text.
_RUNS = {"eval", "exec", "compile", "__import__"}
_UNPACKS = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "yaml"}


def test_nothing_is_unpickled_or_evaluated():
    files = [
        *(ROOT / "xlnet").rglob("*.py"),
        *(ROOT / "scripts").glob("*.py"),
        *ROOT.glob("*.py"),
    ]
    assert len(files) > 100
    for path in files:
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                is_cell = (
                    name == "scripts/notebooks.py"
                )  # runs the cells of our notebooks
                assert node.func.id not in _RUNS or is_cell, (name, node.lineno)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert not getattr(node.value, "value", True), (name, node.value.lineno)
            imported = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            unpacks = _UNPACKS & {each.partition(".")[0] for each in imported}
            # Beam's steps hand each other files that their own run wrote.
            is_of_run = name == "xlnet/corpus/beam.py"
            assert not unpacks or is_of_run, (name, imported)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("made") / "model", "classification")


@pytest.fixture
def model(made, tmp_path):
    """(a directory, that of a model in it, beside a file that it has no business with)"""
    (tmp_path / "secret").write_text("secret")
    return tmp_path, shutil.copytree(made, str(tmp_path / "model"))


def change_task(model, **changes):
    path = os.path.join(model, "run.json")
    with open(path, encoding="utf-8") as f:
        stored = json.load(f)
    stored["resolved"].update(changes.pop("resolved", {}))
    stored["task"].update(changes)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(stored, f)


def tree(directory):
    return sorted(str(path) for path in directory.rglob("*"))


def test_no_setting_that_a_model_keeps_is_a_path():
    for group in (ClassifierSettings, TaggerSettings, SpanSettings):
        kept = [
            field.name
            for field in dataclasses.fields(group)
            if field.metadata["belongs_to"] == "model"
        ]
        assert len(kept) > 5
        paths = [
            field.name
            for field in dataclasses.fields(group)
            if field.name.endswith(("_dir", "_file", "_path", "_output", "_checkpoint"))
        ]
        assert "model_dir" in paths and not set(paths) & set(kept)


@pytest.mark.parametrize("outside", ("../secret", "{}/secret"))
def test_paths_in_run_json_lead_nowhere(model, outside):
    directory, path = model
    outside = outside.format(directory)
    change_task(
        path,
        resolved=dict.fromkeys(
            (
                "spiece_model_file",
                "model_config_path",
                "output_dir",
                "predict_dir",
                "init_checkpoint",
                "data_dir",
                "model_dir",
                "predict_file",
                "config",
            ),
            outside,
        ),
        spiece_model_file=outside,
        checkpoint=outside,
    )
    before = tree(directory)
    found = model_files.read(path)
    assert (found.tokenizer.path, found.prefix) == (
        os.path.join(path, "spiece.model"),
        os.path.join(path, "model.ckpt-1"),
    )
    settings = found.tuned.settings
    assert (settings.model_dir, settings.data_dir, settings.output_dir) == (
        path,
        "",
        "",
    )
    assert settings.predict_dir is None
    assert settings.model_config_path == os.path.join(path, "xlnet_config.json")
    assert tree(directory) == before


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(task="../secret", resolved=dict(task_name="../secret")), "unknown task"),
        (dict(task="/etc", resolved=dict(task_name="/etc")), "unknown task"),
        (dict(head="../../secret"), "head"),
        (dict(kind="../secret"), "task type ../secret, which no module has registered"),
        (
            dict(kind="levels", module="os.py"),
            "task type levels, which no module has registered",
        ),
        (dict(labels=[["../secret"]]), "expected a list of names"),
    ],
)
def test_names_in_run_json_are_names(model, changes, said):
    directory, path = model
    change_task(path, **changes)
    before = tree(directory)
    with pytest.raises(UserError, match=said):
        exporter.export(model_files.read(path), str(directory / "served"))
    assert tree(directory) == before
