"""What a model directory says of itself, and that nothing outside of it is read."""

import json
import shutil

import pytest
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED

import xlnet
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.runs import model_files, run_document, task_settings
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.support.errors import UserError
from xlnet.tasks import known


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "sp.model"
    make_vocabulary(path, 37)
    return str(path)


@pytest.fixture
def model(tmp_path, vocabulary):
    """A model directory as a run leaves it, its weights those of the released one."""
    directory = tmp_path / "model"
    directory.mkdir()
    settings = ClassifierSettings(
        model_dir=str(directory),
        task_name="custom",
        text_a_column="first",
        max_seq_length=24,
        long_document="sliding",
        do_predict=True,
        predict_file="-",
    )
    task = known.resolve_task(settings, {"labels": ["no", "yes"]})
    tokenizer = Tokenizer(vocabulary)
    config = XLNetConfig(json_path=str(RELEASED / "xlnet_config.json"))
    document = task_settings.document_of(settings, NetworkSettings(), task, tokenizer)
    run_document.write(str(directory), document, config, tokenizer)
    for end in ("index", "data-00000-of-00001"):
        shutil.copy(
            RELEASED / ("xlnet_model.ckpt." + end), directory / ("model.ckpt-5." + end)
        )
    checkpoint.write_state_file(str(directory))
    return directory


def test_the_best_weights_are_read_as_they_were_trained(permuted, tmp_path):
    """Where the run went on with other settings."""
    folder = shutil.copytree(permuted.folder, tmp_path / "m")
    best_checkpoint.export(str(folder / "model.ckpt-4"), str(folder / "best"))
    document = json.loads((folder / "run.json").read_text())
    document["resolved"].update(objective="causal", clamp_len=3)
    (folder / "run.json").write_text(json.dumps(document))
    best, newest = (model_files.read(str(path)) for path in (folder, folder / "latest"))
    assert (best.objective, best.network.clamp_len) == ("permutation", 20)
    assert (newest.objective, newest.network.clamp_len) == ("causal", 3)


def test_a_directory_is_all_that_is_needed(model):
    found = model_files.read(str(model))
    assert found.prefix == str(model / "model.ckpt-5")
    assert (found.config.n_layer, found.tokenizer.vocab_size) == (2, 37)
    assert found.tuned.task.labels == (
        "no",
        "yes",
    ) and found.tuned.task.columns.text_a == ("first",)
    assert found.tuned.settings.max_seq_length == 24 and found.tuned.settings.do_predict
    assert found.tuned.scope == "classification_custom"


def test_the_best_checkpoint_is_taken_or_the_newest(model):
    shutil.copytree(model, model / "best")
    for path in (model / "best").glob("model.ckpt-5.*"):
        path.rename(path.with_name(path.name.replace("-5.", "-3.")))
    checkpoint.write_state_file(str(model / "best"))
    assert model_files.read(str(model)).prefix == str(model / "best" / "model.ckpt-3")
    newest = model_files.read(str(model / "latest"))
    assert newest.prefix == str(model / "model.ckpt-5")


def test_a_prefix_of_a_fine_tuned_model_has_its_task(model):
    for path in (model / "latest", model / "model.ckpt-5"):
        found = model_files.read(str(path))
        assert found.prefix == str(model / "model.ckpt-5")
        assert found.tuned == model_files.read(str(model)).tuned


def test_a_released_checkpoint_with_its_config_and_vocabulary(vocabulary, tmp_path):
    found = model_files.read(str(RELEASED), spiece_model_file=vocabulary)
    assert found.tuned is None and found.prefix == str(RELEASED / "xlnet_model.ckpt")
    for path in RELEASED.glob("xlnet_model.ckpt.*"):
        shutil.copy(path, tmp_path)
    prefix = str(tmp_path / "xlnet_model.ckpt")
    with pytest.raises(
        UserError, match="model: found no xlnet_config.json .*; --model_config_path"
    ):
        model_files.read(prefix)
    found = model_files.read(
        prefix,
        spiece_model_file=vocabulary,
        model_config_path=str(RELEASED / "xlnet_config.json"),
    )
    assert found.prefix == prefix


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            dict(task=dict(kind="leveled")),
            "task type leveled, which no module has registered.*spans, tagging",
        ),
        (dict(task=dict(labels=[])), "labels: found .*, expected a list of names"),
        (
            dict(task=dict(kind=["spans"])),
            r"task type \['spans'\], which no module has registered",
        ),
        (
            dict(text=dict(spiece_sha256="0")),
            "found another vocabulary, expected that of the weights in",
        ),
        (
            dict(resolved=dict(max_seq_length="many")),
            "max_seq_length: found 'many', expected an integer",
        ),
    ],
)
def test_what_no_program_has_written_is_refused(model, changes, said):
    path = model / "run.json"
    document = json.loads(path.read_text())
    for section, values in changes.items():
        document[section].update(values)
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match=said):
        model_files.read(str(model))


def test_a_checkpoint_without_the_output_layer_is_refused(model):
    with pytest.raises(
        UserError,
        match="model.ckpt-5: found no model/classification_custom/logit/bias, expected all",
    ):
        xlnet.load(str(model), device="cpu")


def test_there_has_to_be_a_model(tmp_path):
    with pytest.raises(UserError, match="model_dir: found no checkpoint"):
        model_files.read(str(tmp_path))
    with pytest.raises(UserError, match="model_dir: found no checkpoint .*none"):
        model_files.read(str(tmp_path / "none"))
