"""The settings that a run leaves: compared by other hosts, and under every name of a value.

`test_resumed_settings` has the table of what is compared on resume."""

import dataclasses
import json

import pytest

from xlnet.errors import UserError
from xlnet.model_directory.run_settings import SavedRunSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings

RUN = PretrainingSettings(record_info_dir="r", model_dir="m", eval_record_info_dir="e")
RECORDS = dict(record_info_dir="1", eval_record_info_dir="2")


def settings_of(
    directory, *, contents=RECORDS, evaluates=True, precision=None, bfloat16=None, **changes
):
    return SavedRunSettings(
        str(directory),
        "run",
        (
            dataclasses.replace(RUN, **changes),
            NetworkSettings(precision=precision, use_bfloat16=bfloat16),
            OptimizationSettings(),
        ),
        evaluates=evaluates,
        contents=contents,
    )


def begun(directory, **values):
    """A run in `directory` that has a checkpoint and an evaluation."""
    for name, content in (
        ("run.json", settings_of(directory, **values).values),
        ("evaluations.json", {}),
        ("model.ckpt-1.index", {}),
    ):
        (directory / name).write_text(json.dumps(content))
    return directory


@pytest.mark.parametrize(
    "kept, precision",
    [(dict(), "fp32"), (dict(precision="fp32"), None), (dict(bfloat16=True), "bf16")],
)
def test_a_precision_is_the_same_by_any_name(tmp_path, kept, precision):
    run = begun(tmp_path, **kept)
    settings_of(run, precision=precision).check(None, None)
    with pytest.raises(UserError, match="precision was %s, is fp16;" % (precision or "fp32")):
        settings_of(run, precision="fp16").check(None, None)


def test_records_are_known_by_their_digests(tmp_path):
    run = begun(tmp_path)
    settings_of(run, record_info_dir="moved", eval_record_info_dir="moved").check(None, None)
    for name in RECORDS:
        other = settings_of(run, contents=dict(RECORDS, **{name: "3"}))
        with pytest.raises(
            UserError, match=f"other settings: {name} was (.), is \\1 with other content;"
        ):
            other.check(None, None)
    settings_of(run, contents=dict(RECORDS, eval_record_info_dir="3"), evaluates=False).check(
        None, None
    )


def test_other_hosts_have_the_settings_of_the_first(tmp_path):
    run = begun(tmp_path)
    settings_of(run, model_dir="mounted/elsewhere", log_steps=7).check_host()
    with pytest.raises(UserError, match="eval_record_info_dir is held, not e;"):
        settings_of(
            run,
            contents=dict(RECORDS, eval_record_info_dir="3"),
            eval_record_info_dir="held",
            evaluates=False,
        ).check_host()
    with pytest.raises(
        UserError,
        match="this host has other settings than the first one: "
        "save_steps is 7, not 1000; give all hosts the same command",
    ):
        settings_of(run, save_steps=7).check_host()


def test_a_best_model_without_its_run_is_not_replaced(tmp_path):
    (tmp_path / "best").mkdir()
    for name in ("checkpoint", "model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"):
        (tmp_path / "best" / name).write_text('model_checkpoint_path: "model.ckpt-1"')
    kept = settings_of(tmp_path)
    with pytest.raises(UserError, match="best has a model, but .* has no run"):
        kept.check(None, None)
    (tmp_path / "evaluations.json").write_text("{}")
    kept.check(None, None)
