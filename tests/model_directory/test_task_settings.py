"""Which settings a task goes by: what was given and what its model keeps."""

import dataclasses
import json

import pytest

from xlnet.errors import MissingFlag, UserError
from xlnet.model_directory import task_settings
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings
from xlnet.tasks.files import parsing

PAIRS = dict(
    task_name="custom",
    text_a_column="first",
    text_b_column="second",
    label_column="kind",
    id_column="name",
    multi_label=True,
    label_separator=";",
    max_seq_length=256,
    long_document="memory",
    metric="auc",
    predict_threshold=0.3,
)


def settings_of(directory, **values):
    """The settings of a command line, and the names that stood there."""
    values = dict(dict(model_dir=str(directory), do_predict=True, predict_file="new.tsv"), **values)
    return ClassifierSettings(**values), frozenset(values)


def make_model(directory, described):
    directory.mkdir(exist_ok=True)
    (directory / "task.json").write_text(json.dumps(described))
    for name in ("model.ckpt-2.index", "spiece.model", "xlnet_config.json"):
        (directory / name).write_text("")


@pytest.fixture
def model(tmp_path):
    """A model that keeps `PAIRS`."""
    trained, _ = settings_of(tmp_path / "model", **PAIRS)
    make_model(
        tmp_path / "model", dict(task="custom", settings=task_settings.kept_by_model(trained))
    )
    return tmp_path / "model"


def test_what_is_left_out_is_the_models(model):
    found = task_settings.resolve(*settings_of(model))
    assert {name: getattr(found, name) for name in PAIRS} == PAIRS
    assert found.spiece_model_file == str(model / "spiece.model")
    assert found.model_config_path == str(model / "xlnet_config.json")
    assert (found.predict_file, found.data_dir, found.output_dir) == ("new.tsv", "", "")


DECLARED = dict(
    input_format="csv",
    delimiter=";",
    quoting="none",
    header="none",
    encoding="cp1252",
    label_form="names",
    decimal=",",
)


def test_what_was_declared_of_files_holds_when_predicting_until_a_flag_says_otherwise(tmp_path):
    columns = dict(task_name="custom", text_a_column="2", label_column="1")
    trained, _ = settings_of(tmp_path / "model", **columns, **DECLARED)
    described = dict(task="custom", settings=task_settings.kept_by_model(trained))
    make_model(tmp_path / "model", dict(described, labels=["x", "y"], kind="classification"))
    (tmp_path / "new.csv").write_bytes('x;"\xfcber\ny;b\n'.encode("cp1252"))

    def texts(path, **flags):
        settings = task_settings.resolve(*settings_of(tmp_path / "model", **flags))
        rows = parsing.read_to_predict(task_settings.task_of_run(settings), str(path))
        return [row.pairs[0][0] for row in rows]

    found = task_settings.resolve(*settings_of(tmp_path / "model"))
    assert {name: getattr(found, name) for name in DECLARED} == DECLARED
    assert texts(tmp_path / "new.csv") == ['"\xfcber', "b"]
    # Another file is of another form.
    (tmp_path / "new.csv").write_text('text,n\n"a, b",1\n')
    other = dict(delimiter=",", quoting="standard", header="names", encoding="utf-8")
    assert texts(tmp_path / "new.csv", text_a_column="text", **other) == ["a, b"]
    # Its name and the model do not agree.
    (tmp_path / "new.tsv").write_text("x\ta\n")
    with pytest.raises(UserError, match="new.tsv: .*--predict_form=tsv or --predict_form=csv"):
        texts(tmp_path / "new.tsv")


def test_a_model_of_another_program_is_refused(model):
    described = json.loads((model / "task.json").read_text())
    (model / "task.json").write_text(json.dumps(dict(described, kind="tagging")))
    with pytest.raises(UserError, match="task.json was trained with xlnet tag"):
        task_settings.resolve(*settings_of(model))


@pytest.mark.parametrize("named", ["", "model.ckpt-2", "latest"])
def test_a_new_model_takes_what_lies_beside_the_checkpoint_it_starts_from(model, tmp_path, named):
    found = task_settings.resolve(
        *settings_of(
            tmp_path / "new",
            task_name="rte",
            do_train=True,
            do_predict=False,
            data_dir="d",
            output_dir="o",
            init_checkpoint=str(model / named),
        )
    )
    assert found.spiece_model_file == str(model / "spiece.model")
    assert found.model_config_path == str(model / "xlnet_config.json")
    assert found.max_seq_length == settings_of(tmp_path)[0].max_seq_length


def test_best_alone_is_a_model_too(model, tmp_path):
    (tmp_path / "all").mkdir()
    model.rename(tmp_path / "all" / "best")
    assert task_settings.home_of(str(tmp_path / "all")) == str(tmp_path / "all" / "best")
    assert task_settings.resolve(*settings_of(tmp_path / "all")).max_seq_length == 256
    assert task_settings.home_of(str(tmp_path)) is None


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("multi_label", False, "multi_label is False, but %s says True"),
        ("max_seq_length", 128, "max_seq_length is 128, but %s says 256"),
        ("long_document", "truncate", "long_document is truncate, but %s says memory"),
        ("text_b_column", None, "text_b_column is not given, but %s says second"),
        ("metric", "accuracy", "metric is accuracy, but %s says auc"),
        ("predict_threshold", 0.5, "predict_threshold is 0.5, but %s says 0.3"),
    ],
)
@pytest.mark.parametrize("what", [{}, dict(do_train=True, data_dir="x", output_dir="y")])
def test_what_contradicts_is_refused(model, caplog, name, value, said, what):
    """A value that was given, be it the default."""
    asked = settings_of(model, **{name: value}, **what)
    path = str(model / "task.json")
    with pytest.raises(UserError) as raised:
        task_settings.resolve(*asked)
    assert str(raised.value) == said % path + (
        "; leave out what the model keeps, or give --allow_changes=True"
    )
    caplog.set_level("INFO", "xlnet")
    found = task_settings.resolve(dataclasses.replace(asked[0], allow_changes=True), asked[1])
    assert getattr(found, name) == value and found.text_a_column == "first"
    assert caplog.messages == ["note: " + said.replace("but ", "") % path]


def test_what_is_said_again_is_no_contradiction(model):
    assert task_settings.resolve(*settings_of(model, **PAIRS)).max_seq_length == 256


def test_another_task_is_left_to_be_refused_where_tasks_are_compared(model):
    """But AX is answered by a model of MNLI."""
    assert (
        task_settings.resolve(
            *settings_of(model, task_name="rte", spiece_model_file="x", model_config_path="y")
        ).text_b_column
        is None
    )
    described = json.loads((model / "task.json").read_text())
    described["settings"]["task_name"] = described["task"] = "mnli"
    (model / "task.json").write_text(json.dumps(described))
    found = task_settings.resolve(*settings_of(model, task_name="AX"))
    assert (found.task_name, found.max_seq_length) == ("AX", 256)


def test_whether_a_known_task_has_scores_says_the_task(model):
    """The settings that its run wrote may well say is_regression False: nobody gave it."""
    described = json.loads((model / "task.json").read_text())
    described["settings"].update(task_name="sts-b", is_regression=True)
    (model / "task.json").write_text(json.dumps(dict(described, task="sts-b")))
    found = task_settings.resolve(*settings_of(model, task_name="sts-b", is_regression=False))
    assert found.max_seq_length == 256


@pytest.mark.parametrize(
    "what, missing",
    [
        (dict(predict_file=None), "data_dir"),
        (dict(do_eval=True), "data_dir"),
        (dict(do_train=True), "data_dir"),
    ],
)
def test_what_no_model_keeps_has_to_be_given(model, what, missing):
    with pytest.raises(MissingFlag, match=f"^flag --{missing} is required: directory"):
        task_settings.resolve(*settings_of(model, **what))


def test_records_are_in_the_model_directory_unless_they_are_elsewhere(model):
    def of(**values):
        return task_settings.resolve(*settings_of(model, **values)).output_dir

    assert of(do_train=True, data_dir="x") == str(model / "records")
    assert of(do_train=True, data_dir="x", output_dir="o") == "o" and of() == ""


def test_a_run_resumes_without_its_initial_checkpoint(model):
    found = task_settings.resolve(
        *settings_of(model, do_train=True, data_dir="x", init_checkpoint="gone/latest")
    )
    assert found.init_checkpoint == "gone/latest"


def test_without_a_model_there_is_nothing_to_predict_with(tmp_path):
    with pytest.raises(UserError, match="no checkpoint in"):
        task_settings.resolve(*settings_of(tmp_path))
    with pytest.raises(MissingFlag, match="^flag --task_name is required: a known task"):
        task_settings.resolve(*settings_of(tmp_path, do_train=True))


@pytest.mark.parametrize("share", [0.2, 0.0])
def test_the_fraction_that_training_held_out_stays(tmp_path, share):
    make_model(tmp_path, dict(dev_share=share, kind="spans"))
    for what in ("do_train", "do_eval"):
        settings = SpanSettings(
            model_dir=str(tmp_path), train_file=__file__, seed=5, **{what: True}
        )
        assert task_settings.task_of_run(settings).files.dev_share == share
        other = dataclasses.replace(settings, dev_share=0.3)
        assert task_settings.task_of_run(other).files.dev_share == 0.3
        with pytest.raises(UserError, match=f"held out as dev is {share:g} in "):
            task_settings.check(str(tmp_path), dict(kind="spans", dev_share=0.3), other)
        task_settings.check(
            str(tmp_path),
            dict(kind="spans", dev_share=0.3),
            dataclasses.replace(other, allow_changes=True),
        )
