"""The document of a run: read, written, compared by other hosts, and under every name of a value.

`test_resumed_settings` has the table of what is compared on resume."""

import dataclasses
import json

import pytest

from xlnet.errors import UserError
from xlnet.model_directory import run_document
from xlnet.model_directory.run_document import RunDocument
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings

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
        read=contents,
    )


@pytest.mark.parametrize(
    "kept, given, is_refused",
    [
        (dict(), dict(precision="fp32"), False),
        (dict(precision="fp32"), dict(), False),
        (dict(bfloat16=True), dict(precision="bf16"), False),
        (dict(bfloat16=True), dict(bfloat16=True), False),
        (dict(precision="bf16"), dict(bfloat16=True), False),
        (dict(precision="bf16"), dict(), False),
        (dict(precision="bf16"), dict(bfloat16=False), True),
        (dict(bfloat16=True), dict(precision="fp16"), True),
    ],
)
def test_a_precision_is_the_same_by_any_name(tmp_path, kept, given, is_refused):
    names = {"use_bfloat16" if name == "bfloat16" else name for name in given}
    run = document_of(tmp_path, **kept)
    (_, network, _), different = run_document.inherit(
        groups_of(**given), names, run, is_training=True
    )
    assert bool(different) == is_refused
    if is_refused:
        now = given.get("precision", "fp32")
        assert different == [f"precision was bf16, is {now}"]
    elif "bf16" in run.resolved["precision"]:
        assert network.run_config(is_training=True).precision == "bf16"


def test_of_two_names_of_a_length_the_given_one_counts(tmp_path):
    """What a run has by the other name is not inherited."""
    run = dataclasses.replace(document_of(tmp_path), resolved=dict(warmup_steps=7))
    for given, expected in ((("warmup_ratio",), 0), ((), 7)):
        (optimization,), _ = run_document.inherit(
            (OptimizationSettings(),), given, run, is_training=True
        )
        assert optimization.warmup_steps == expected


def test_records_are_known_by_their_digests(tmp_path):
    (tmp_path / "evaluations.json").write_text("{}")
    run = document_of(tmp_path)
    moved = document_of(tmp_path, record_info_dir="moved", eval_record_info_dir="moved")
    assert run_document.differences(run, moved) == []
    for name in RECORDS:
        other = document_of(tmp_path, contents=dict(RECORDS, **{name: "3"}))
        was = run.resolved[name]
        assert run_document.differences(run, other) == [
            f"{name} was {was}, is {was} with other content"
        ]
    (tmp_path / "evaluations.json").unlink()
    assert run_document.differences(run, other) == []  # held-out ones of nothing


def test_other_hosts_have_the_settings_of_the_first(tmp_path):
    run_document.write(str(tmp_path), document_of(tmp_path))

    def check(**changes):
        contents = changes.pop("contents", RECORDS)
        now = document_of(tmp_path, contents, **changes)
        run_document.check_host(now, groups_of(**changes))

    check(model_dir="mounted/elsewhere", log_steps=7)
    with pytest.raises(UserError, match="eval_record_info_dir is held, not e;"):
        check(contents=dict(RECORDS, eval_record_info_dir="3"), eval_record_info_dir="held")
    with pytest.raises(UserError, match="objective_module is own.py, not None;"):
        check(contents=dict(RECORDS, objective_module="3"), objective_module="own.py")
    with pytest.raises(
        UserError,
        match="this host has other settings than the first one: "
        "save_steps is 7, not 1000; give all hosts the same command",
    ):
        check(save_steps=7)


def test_a_best_model_without_its_run_is_not_replaced(tmp_path):
    (tmp_path / "best").mkdir()
    for name in ("checkpoint", "model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"):
        (tmp_path / "best" / name).write_text('model_checkpoint_path: "model.ckpt-1"')
    with pytest.raises(UserError, match="best has a model, but .* has no run"):
        run_document.check_resumed(document_of(tmp_path), None, None, allow_changes=False)
    (tmp_path / "evaluations.json").write_text("{}")
    run_document.check_resumed(document_of(tmp_path), None, None, allow_changes=False)


# ---- the file


def test_a_document_is_read_as_it_was_written(tmp_path):
    document = dataclasses.replace(
        document_of(tmp_path), asked={"seed": 0}, task={"labels": ["a"]}, huggingface={"d": 1}
    )
    run_document.write(str(tmp_path), document)
    assert run_document.read(str(tmp_path)) == document
    assert run_document.read(str(tmp_path / "none")) is None
    stored = json.loads((tmp_path / "run.json").read_text())
    assert stored["format"] == run_document.FORMAT and "." in stored["version"]


def test_what_is_replaced_is_kept_as_history(tmp_path):
    first = document_of(tmp_path, seed=1)
    run_document.write(str(tmp_path), first)
    before = (tmp_path / "run.json").read_bytes()
    # The same command, however it was given, changes nothing.
    run_document.write(str(tmp_path), dataclasses.replace(first, asked={"seed": 1}))
    assert (tmp_path / "run.json").read_bytes() == before
    for seed in (2, 3):
        run_document.write(str(tmp_path), document_of(tmp_path, seed=seed))
    found = run_document.read(str(tmp_path))
    assert found.resolved["seed"] == 3
    assert [one["resolved"]["seed"] for one in found.history] == [1, 2]
    assert found.history[0]["read"] == RECORDS and found.history[0]["until_step"] == 0


def test_what_a_run_was_evaluated_on_is_kept_where_it_resumes_without(tmp_path):
    """Otherwise a third command could add evaluations of other records."""
    run_document.write(str(tmp_path), document_of(tmp_path))
    (tmp_path / "evaluations.json").write_text("{}")
    without = document_of(tmp_path, {"record_info_dir": "1"}, eval_record_info_dir=None)
    run_document.write(str(tmp_path), without)
    found = run_document.read(str(tmp_path))
    assert found.read == RECORDS and "eval_record_info_dir" not in found.resolved
    assert not run_document.differences(found, document_of(tmp_path))
    run_document.check_host(without, groups_of(eval_record_info_dir=None))
    others = document_of(tmp_path, dict(RECORDS, eval_record_info_dir="3"))
    assert run_document.differences(found, others) == [
        "eval_record_info_dir was e, is e with other content"
    ]


def test_a_document_to_share_has_no_paths(tmp_path):
    document = RunDocument(
        str(tmp_path / "run.json"),
        "xlnet classify",
        dict(data_dir="/home/me", metric="/home/me/own.py:score:min", device="cpu", dropout=0.1),
        asked=dict(data_dir="/home/me"),
        history=[dict(asked=dict(data_dir="/home/me"))],
    )
    shared = run_document.to_share(document)
    assert shared.resolved == dict(metric="own.py:score:min", dropout=0.1)
    assert shared.program == "xlnet classify" and not (shared.asked or shared.history)


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(format=2), "format is 2, expected 1: another version"),
        (dict(format=None), "format is None, expected 1"),
        (dict(resolved=[]), r"resolved is \[\], expected dict"),
        (dict(task="custom"), "task is 'custom', expected dict"),
        (dict(history={}), "history is {}, expected list"),
        (dict(program=7), "program is 7, expected str"),
        (dict(read={"splits": 7}), "read.splits is 7, expected dict"),
    ],
)
def test_what_no_program_has_written_is_refused(tmp_path, changes, said):
    path = tmp_path / "run.json"
    run_document.write(str(tmp_path), document_of(tmp_path))
    path.write_text(json.dumps(dict(json.loads(path.read_text()), **changes)))
    with pytest.raises(UserError, match=said):
        run_document.read(str(tmp_path))
    path.write_text('{"format": 1, "program": null}')
    with pytest.raises(UserError, match="it has no resolved"):
        run_document.read(str(tmp_path))


def test_a_value_of_another_type_is_not_inherited(tmp_path):
    run = dataclasses.replace(document_of(tmp_path), resolved={"seed": "x"})
    with pytest.raises(UserError, match="run.json: seed is 'x', expected an integer"):
        run_document.inherit((RUN,), (), run, is_training=True)
