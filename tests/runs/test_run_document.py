"""The document of a run: read, written, compared by other hosts, and under every name of a value.

`test_resumed_settings` has the table of what is compared on resume."""

import dataclasses
import json

import pytest
from helpers.vocabulary import train_tiny_model

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.runs import run_document
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support.errors import UserError

RUN = PretrainingSettings(record_info_dir="r", model_dir="m", eval_record_info_dir="e")
RECORDS = dict(record_info_dir="1", eval_record_info_dir="2")


def groups_of(precision=None, bfloat16=None, **changes):
    return (
        dataclasses.replace(RUN, **changes),
        NetworkSettings(precision=precision, use_bfloat16=bfloat16),
        OptimizationSettings(),
    )


def document_of(directory, contents=RECORDS, **changes):
    return RunDocument(
        str(directory / "run.json"),
        "xlnet pretrain",
        run_document.values_of(groups_of(**changes)),
        digests=contents,
    )


@pytest.mark.parametrize(
    "kept, given, is_refused",
    [
        (dict(), dict(precision="fp32"), False),
        (dict(precision="fp32"), dict(), False),
        (dict(bfloat16=True), dict(precision="bf16"), False),
        (dict(precision="bf16"), dict(bfloat16=True), False),
        (dict(precision="bf16"), dict(bfloat16=False), True),
        (dict(bfloat16=True), dict(precision="fp16"), True),
    ],
)
def test_a_precision_is_the_same_by_any_name(tmp_path, kept, given, is_refused):
    names = {"use_bfloat16" if name == "bfloat16" else name for name in given}
    run = document_of(tmp_path, **kept)
    (_, network, _), different = run_document.inherit(
        groups_of(**given), names, run, of_run=True
    )
    assert bool(different) == is_refused
    if is_refused:
        now = given.get("precision", "fp32")
        assert different == [f"precision was bf16, is {now}"]
    elif "bf16" in run.resolved["precision"]:
        assert network.run_config(is_training=True).precision == "bf16"


def test_records_are_known_by_their_digests(tmp_path):
    run = document_of(tmp_path)
    moved = document_of(tmp_path, record_info_dir="moved", eval_record_info_dir="moved")
    assert run_document.differences(run, moved) == []
    for name in RECORDS:
        (said,) = run_document.differences(
            run, document_of(tmp_path, dict(RECORDS, **{name: "3"}))
        )
        assert f"records (--{name}) have other content" in said


def test_other_hosts_have_the_settings_of_the_first(tmp_path):
    run_document.write(str(tmp_path), document_of(tmp_path))

    def check(contents=RECORDS, **changes):
        run_document.check_host(document_of(tmp_path, contents, **changes))

    check(model_dir="mounted/elsewhere", eval_record_info_dir="there", log_steps=7)
    with pytest.raises(UserError, match="the held-out records .* have other content,"):
        check(dict(RECORDS, eval_record_info_dir="3"))
    said = "this host: found save_steps is 7, not 1000, expected the same command"
    with pytest.raises(UserError, match=said):
        check(save_steps=7)


def test_checkpoints_without_a_document_are_not_resumed(tmp_path):
    """The settings of their run would be the defaults, without a word."""
    (tmp_path / "model.ckpt-1.index").write_text("")
    now, tokenizer = document_of(tmp_path), train_tiny_model(tmp_path / "t.model")
    with pytest.raises(UserError, match="found checkpoints, and no run.json of"):
        run_document.check_resumed(now, None, Tokenizer(tokenizer), True)


def test_a_best_model_without_checkpoints_is_not_replaced(tmp_path):
    (tmp_path / "best").mkdir()
    for name in (
        "checkpoint",
        "model.ckpt-1.index",
        "model.ckpt-1.data-00000-of-00001",
    ):
        (tmp_path / "best" / name).write_text('model_checkpoint_path: "model.ckpt-1"')
    now = document_of(tmp_path)
    with pytest.raises(UserError, match="a model in .*best, and no checkpoint"):
        run_document.check_resumed(now, None, None, allow_changes=False)


# ---- the file


def test_a_document_is_read_as_it_was_written(tmp_path):
    document = dataclasses.replace(document_of(tmp_path), task={"labels": ["a"]})
    run_document.write(str(tmp_path), document)
    assert run_document.read(str(tmp_path)) == document
    assert run_document.read(str(tmp_path / "none")) is None
    stored = json.loads((tmp_path / "run.json").read_text())
    assert stored["format"] == run_document.FORMAT and "." in stored["version"]


def test_files_of_a_run_are_found_from_any_directory(tmp_path, monkeypatch):
    """Those of a task together: a file that is given is not joined by another run's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c,d.csv").write_text("")  # one file
    files = dict(data_dir="d,e", train_file="a.csv,gs://b.csv", dev_file="c,d.csv")
    trained = ClassifierSettings(model_dir="m", do_train=True, **files)
    resolved = run_document.values_of((trained, OptimizationSettings()))
    run = RunDocument(str(tmp_path / "run.json"), "xlnet classify", resolved)
    assert resolved["train_file"] == f"{tmp_path}/a.csv,gs://b.csv"
    new = ClassifierSettings(model_dir="m", do_train=True)
    (found,), _ = run_document.inherit((new,), (), run, of_run=True)
    assert found.data_dir == f"{tmp_path}/d,e"
    assert found.dev_file == f"{tmp_path}/c,d.csv"
    other = dataclasses.replace(new, train_file="x.csv")
    (found,), different = run_document.inherit(
        (other,), ["train_file"], run, of_run=True
    )
    assert (found.data_dir, found.train_file, found.dev_file) == ("", "x.csv", None)
    assert not different  # their content is compared


def test_a_document_to_share_has_no_paths(tmp_path):
    resolved = dict(
        data_dir="/home/me",
        metric="accuracy,/home/me/own.py:score",
        device="cpu",
        d_model=8,
    )
    document = RunDocument(str(tmp_path / "run.json"), "xlnet classify", resolved)
    shared = run_document.without_run_settings(document)
    assert shared.resolved == dict(metric="accuracy,own.py:score", d_model=8)
    assert shared.program == "xlnet classify"


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(format=2), "format: found 2, expected 1"),
        (dict(task="custom"), "task: found 'custom', expected dict"),
        (dict(program=7), "program: found 7, expected str"),
    ],
)
def test_what_no_program_has_written_is_refused(tmp_path, changes, said):
    path = tmp_path / "run.json"
    run_document.write(str(tmp_path), document_of(tmp_path))
    path.write_text(json.dumps(dict(json.loads(path.read_text()), **changes)))
    with pytest.raises(UserError, match=said):
        run_document.read(str(tmp_path))
    path.write_text('{"format": 1, "program": null}')
    with pytest.raises(UserError, match="expected program and resolved"):
        run_document.read(str(tmp_path))
