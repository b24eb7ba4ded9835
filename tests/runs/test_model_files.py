"""What a model directory says of itself, and that nothing outside of it is read."""

import json
import shutil

import pytest
from helpers.finetuning import make_vocabulary, weights
from helpers.paths import RELEASED

import xlnet
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.runs import model_files
from xlnet.support.errors import UserError


@pytest.fixture
def model(model_of, tmp_path):
    """A model directory as a run leaves it."""
    return shutil.copytree(model_of("classification"), tmp_path / "model")


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
    assert found.prefix == str(model / "model.ckpt-1")
    assert (found.config.n_layer, found.tokenizer.vocab_size) == (1, 37)
    task, settings = found.tuned.task, found.tuned.settings
    assert task.labels == ("animal", "plant", "stone")
    assert task.columns.text_a == ("first",)
    assert settings.max_seq_length == 24 and settings.do_predict
    assert task.scope(settings.cls_scope) == "classification_custom"


def test_the_best_checkpoint_is_taken_or_the_newest(model):
    tuned = model_files.read(str(model)).tuned
    shutil.copytree(model, model / "best")
    for path in (model / "best").glob("model.ckpt-1.*"):
        path.rename(path.with_name(path.name.replace("-1.", "-3.")))
    checkpoint.write_state_file(str(model / "best"))
    assert model_files.read(str(model)).prefix == str(model / "best" / "model.ckpt-3")
    for path in (model / "latest", model / "model.ckpt-1"):
        found = model_files.read(str(path))
        assert (found.prefix, found.tuned) == (str(model / "model.ckpt-1"), tuned)


def test_a_released_checkpoint_with_its_config_and_vocabulary(tmp_path):
    vocabulary = tmp_path / "sp.model"
    make_vocabulary(vocabulary, 37)
    found = model_files.read(str(RELEASED), spiece_model_file=str(vocabulary))
    assert found.tuned is None and found.prefix == str(RELEASED / "xlnet_model.ckpt")
    for path in RELEASED.glob("xlnet_model.ckpt.*"):
        shutil.copy(path, tmp_path)
    prefix = str(tmp_path / "xlnet_model.ckpt")
    said = "model: found no xlnet_config.json .*; --model_config_path"
    with pytest.raises(UserError, match=said):
        model_files.read(prefix)
    found = model_files.read(
        prefix,
        spiece_model_file=str(vocabulary),
        model_config_path=str(RELEASED / "xlnet_config.json"),
    )
    assert found.prefix == prefix


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(task=dict(labels=[])), "labels: found .*, expected a list of names"),
        (
            dict(task=dict(kind=["spans"])),
            r"task type \['spans'\], which no module has registered.*spans, tagging",
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
    prefix = str(model / "model.ckpt-1")
    kept = {name: each for name, each in weights(prefix).items() if "logit" not in name}
    checkpoint.write_arrays(prefix, kept)
    said = "model.ckpt-1: found no model/classification_custom/logit/bias, expected all"
    with pytest.raises(UserError, match=said):
        xlnet.load(str(model), device="cpu")


def test_there_has_to_be_a_model(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match=f"model_dir: found no checkpoint .*{path}"):
            model_files.read(str(path))
