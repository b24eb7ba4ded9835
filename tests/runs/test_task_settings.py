"""Which settings a task goes by: what was given and what its model keeps."""

import dataclasses
import json
import shutil
from contextlib import nullcontext

import pytest

from xlnet.runs import run_document, task_settings
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support.errors import MissingFlag, UserError
from xlnet.tasks import known

PAIRS = dict(
    task_name="custom",
    text_a_column="first",
    text_b_column="second",
    label_column="kind",
    id_column="name",
    multi_label=True,
    max_seq_length=256,
    metric="auc",
    predict_threshold=0.3,
)


def settings_of(directory, **values):
    """The settings of a command line, and the names that stood there."""
    what = dict(model_dir=str(directory), do_predict=True, predict_file="new.tsv")
    values = {**what, **values}
    return ClassifierSettings(**values), frozenset(values)


def resolve(settings, given):
    """The settings of a run on the model in its directory, if there is one."""
    run = task_settings.finetuned_document(settings.model_dir)
    found, _, _ = task_settings.inherited_settings(
        settings, NetworkSettings(), OptimizationSettings(), given, run
    )
    return found


def make_model(directory, task, resolved=None):
    directory.mkdir(exist_ok=True)
    for name in ("model.ckpt-2.index", "spiece.model", "xlnet_config.json"):
        (directory / name).write_text("")
    document = dict(format=1, program="xlnet classify", task=task)
    document["resolved"] = resolved or {}
    (directory / "run.json").write_text(json.dumps(document))


def edit(directory, resolved=None, **task):
    """Changes the document of a model."""
    path = directory / "run.json"
    document = json.loads(path.read_text())
    document["task"].update(task)
    document["resolved"].update(resolved or {})
    path.write_text(json.dumps(document))


@pytest.fixture
def model(tmp_path):
    """A model that keeps `PAIRS`."""
    directory = tmp_path / "model"
    resolved = run_document.values_of((settings_of(directory, **PAIRS)[0],))
    make_model(directory, dict(task="custom", kind="multi_label"), resolved)
    return directory


def test_what_is_left_out_is_the_models(model):
    found = resolve(*settings_of(model))
    assert {name: getattr(found, name) for name in PAIRS} == PAIRS
    assert found.spiece_model_file == str(model / "spiece.model")
    assert found.model_config_path == str(model / "xlnet_config.json")
    assert (found.predict_file, found.data_dir, found.output_dir) == ("new.tsv", "", "")


def test_a_threshold_that_was_given_goes_before_the_chosen_one(model):
    edit(model, threshold=0.4)
    assert resolve(*settings_of(model)).predict_threshold == 0.3
    document = json.loads((model / "run.json").read_text())
    del document["resolved"]["predict_threshold"]
    (model / "run.json").write_text(json.dumps(document))
    assert resolve(*settings_of(model)).predict_threshold == 0.4


def test_a_threshold_is_that_of_the_best_weights(model):
    """The document of a run that goes on has none: a training chooses again."""
    shutil.copytree(model, model / "best")
    edit(model / "best", threshold=0.4)
    document = json.loads((model / "run.json").read_text())
    del document["resolved"]["predict_threshold"]
    (model / "run.json").write_text(json.dumps(document))
    assert resolve(*settings_of(model)).predict_threshold == 0.4


def test_the_form_of_a_file_is_not_kept_by_a_model(tmp_path):
    """A run keeps it for its own files."""
    declared = dict(delimiter=";", quoting="none", header="none", encoding="cp1252")
    columns = dict(task_name="custom", text_a_column="2", label_column="1")
    of_files = dict(data_dir=str(tmp_path / "d"), on_error="skip")
    trained, _ = settings_of(tmp_path, **columns, **declared, **of_files)
    task = dict(task="custom", labels=["x", "y"], kind="classification")
    make_model(tmp_path, task, run_document.values_of((trained,)))
    of_own = dict(do_predict=False, predict_file=None, do_eval=True)
    for what, expected in (
        ({}, ("", None, "fail")),
        # Rows that the training skipped are skipped again.
        (of_own, (str(tmp_path / "d"), ";", "skip")),
        (dict(of_own, data_dir="other"), ("other", None, "fail")),
    ):
        found = resolve(*settings_of(tmp_path, **what))
        assert found.text_a_column == "2"
        assert (found.data_dir, found.delimiter, found.on_error) == expected
    # In one command, another file would be read in the form of the run's.
    with pytest.raises(UserError, match="^predict_file: found .*the form of this file"):
        resolve(*settings_of(tmp_path, do_eval=True))
    resolve(*settings_of(tmp_path, do_eval=True, **declared))


def test_a_model_of_another_program_is_refused(model):
    edit(model, kind="tagging")
    with pytest.raises(UserError, match="run.json, trained with xlnet tag"):
        resolve(*settings_of(model))


@pytest.mark.parametrize("named", ["", "model.ckpt-2", "latest"])
def test_a_new_model_takes_what_lies_beside_the_checkpoint_it_starts_from(
    model, tmp_path, named
):
    start = dict(do_train=True, init_checkpoint=str(model / named))
    found = resolve(*settings_of(tmp_path, task_name="rte", data_dir="d", **start))
    assert found.spiece_model_file == str(model / "spiece.model")
    assert found.model_config_path == str(model / "xlnet_config.json")
    assert found.max_seq_length == settings_of(tmp_path)[0].max_seq_length


def test_best_alone_is_a_model_too(model, tmp_path):
    (tmp_path / "all").mkdir()
    model.rename(tmp_path / "all" / "best")
    assert resolve(*settings_of(tmp_path / "all")).max_seq_length == 256
    assert task_settings.finetuned_document(str(tmp_path)) is None


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("max_seq_length", 128, "max_seq_length was 256, is 128"),
        ("text_b_column", None, "text_b_column was second, is not given"),
        ("metric", "accuracy", "metric was auc, is accuracy"),
    ],
)
def test_what_contradicts_is_refused(model, caplog, name, value, said):
    """A value that was given, be it the default. In prediction it is the user's choice."""
    asked = settings_of(model, **{name: value})
    assert getattr(resolve(*asked), name) == value
    train = dict(do_train=True, data_dir="x", output_dir="y")
    asked = settings_of(model, **{name: value}, **train)
    with pytest.raises(UserError) as raised:
        resolve(*asked)
    assert str(raised.value) == (
        f"model_dir: the run in {model}: found other settings: {said}, expected those of "
        "the run, or another model_dir; --allow_changes"
    )
    caplog.set_level("INFO", "xlnet")
    found = resolve(dataclasses.replace(asked[0], allow_changes=True), asked[1])
    assert getattr(found, name) == value and found.text_a_column == "first"
    assert caplog.messages == ["note: settings changed: " + said]


def test_what_belongs_to_training_counts_in_training_alone(model):
    edit(model, resolved=dict(freeze_layers=1, seed=7))
    assert resolve(*settings_of(model, freeze_layers=0)).freeze_layers == 0
    assert resolve(*settings_of(model)).seed == 0
    train = dict(do_train=True, data_dir="x", output_dir="y")
    with pytest.raises(UserError, match="freeze_layers was 1, is 0, expected"):
        resolve(*settings_of(model, freeze_layers=0, **train))
    assert resolve(*settings_of(model, **train)).seed == 7


def test_another_task_is_refused(model):
    """But AX is answered by a model of MNLI."""
    with pytest.raises(UserError, match="run.json: task: found custom, expected rte"):
        resolve(*settings_of(model, task_name="rte"))
    edit(model, resolved=dict(task_name="mnli"), task="mnli")
    found = resolve(*settings_of(model, task_name="AX"))
    assert (found.task_name, found.max_seq_length) == ("AX", 256)


def test_what_no_model_keeps_has_to_be_given(model):
    for what in (dict(predict_file=None), dict(do_eval=True), dict(do_train=True)):
        with pytest.raises(MissingFlag, match="^flag --data_dir is required: direct"):
            resolve(*settings_of(model, **what))


def test_a_run_resumes_without_its_initial_checkpoint(model):
    edit(model, resolved=dict(init_checkpoint="/gone/latest"))
    train = dict(do_train=True, data_dir="x")
    for given in {}, dict(init_checkpoint="/gone/latest"):
        found = resolve(*settings_of(model, **train, **given))
        assert found.init_checkpoint == "/gone/latest"
    said = "init_checkpoint was /gone/latest, is /other, e"
    with pytest.raises(UserError, match=said):
        resolve(*settings_of(model, **train, init_checkpoint="/other"))


def test_without_a_model_there_is_nothing_to_predict_with(tmp_path):
    with pytest.raises(UserError, match="no checkpoint in"):
        resolve(*settings_of(tmp_path))
    said = "^flag --spiece_model_file is required: Sent"
    with pytest.raises(MissingFlag, match=said):
        resolve(*settings_of(tmp_path, do_train=True))


@pytest.mark.parametrize(
    "kind, flags, labels, is_refused",
    [
        ("classification", {}, "ABCD", True),
        ("classification", {}, "CAB", True),
        ("multiple_choice", dict(choice_columns="one"), "ABCD", False),
        ("multiple_choice", dict(choice_columns="one"), "123", False),
    ],
)
def test_a_start_from_other_labels_needs_an_output_layer_for_them(
    tmp_path, caplog, kind, flags, labels, is_refused
):
    """The answers of a multiple choice share one score: a layer for three fits four."""
    init = str(tmp_path / "init")
    settings, _ = settings_of(
        tmp_path, task_name="custom", init_checkpoint=init, **flags
    )
    before, now = [
        known.resolve_task(settings, dict(kind=kind, labels=[*names]))
        for names in ("ABC", labels)
    ]
    make_model(tmp_path / "init", task_settings.describe_task(settings, before))
    with pytest.raises(UserError, match="cls_scope") if is_refused else nullcontext():
        task_settings.check_initial_labels(settings, now)
    assert caplog.text == ""
