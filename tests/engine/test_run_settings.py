"""Kept settings: a run resumes with those that an earlier version wrote, and with others that do
not change what it learns."""

import dataclasses
import json

import pytest
from helpers.paths import GOLDEN

from xlnet.engine.run_settings import KeptSettings
from xlnet.errors import UserError
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings

EARLIER = json.loads((GOLDEN / "run_settings.json").read_text())
TASK = dict(model_dir="m", task_name="custom", do_train=True)
RUNS = {
    "train_gpu.py": PretrainingSettings(record_info_dir="r", model_dir="m",
                                        eval_record_info_dir="e"),
    "run_classifier.py": ClassifierSettings(**TASK, dev_file="dev.csv"),
    "run_tagger.py": TaggerSettings(**TASK, dev_file="dev.txt"),
    "run_squad.py": SpanSettings(**TASK),
}


def check(directory, program="train_gpu.py", dropout=0.1, evaluates=True, kept=None, ema_decay=0.,
          precision=None, about=None, **changes):
    """Resumes a run of an earlier version that has a checkpoint and an evaluation; returns its
    `KeptSettings`."""
    for name, content in (("run.json", dict(EARLIER[program], **(kept or {}))),
                          ("evaluations.json", {}),
                          ("model.ckpt-1.index", {})):
        (directory / name).write_text(json.dumps(content))
    settings = KeptSettings(str(directory), "run", (
        dataclasses.replace(RUNS[program], **changes),
        NetworkSettings(dropout=dropout, precision=precision),
        OptimizationSettings(warmup_ratio=0.1, ema_decay=ema_decay), DeviceSettings()),
        evaluates=evaluates, more={"about": about or {}})
    settings.check(None, None)      # there is no network or vocabulary to compare
    return settings


@pytest.mark.parametrize("program", RUNS)
def test_settings_of_an_earlier_version_resume(program, tmp_path):
    check(tmp_path, program)
    check(tmp_path, program, model_dir="other", save_steps=7, grad_accum_steps=4)
    with pytest.raises(UserError, match="other settings: .*dropout was 0.1, is 0.3"):
        check(tmp_path, program, dropout=0.3)
    check(tmp_path, program, kept=dict(average_decay=0.9), ema_decay=0.9)
    with pytest.raises(UserError, match="ema_decay was 0.9, is 0.5"):
        check(tmp_path, program, kept=dict(average_decay=0.9), ema_decay=0.5)


def test_questions_that_were_evaluated_as_predict_file_resume(tmp_path):
    check(tmp_path, "run_squad.py", kept=dict(predict_file="dev.json"), dev_file="./dev.json")
    with pytest.raises(UserError, match="dev_file was None, is dev.json"):
        check(tmp_path, "run_squad.py", kept=dict(predict_file="b.json"), dev_file="dev.json")


@pytest.mark.parametrize("kept, precision", [
    (dict(), "fp32"), (dict(precision="fp32"), None), (dict(use_bfloat16=True), "bf16")])
def test_a_precision_is_the_same_by_any_name(tmp_path, kept, precision):
    check(tmp_path, kept=kept, precision=precision)
    with pytest.raises(UserError, match="precision was %s, is fp16;" % (precision or "fp32")):
        check(tmp_path, kept=kept, precision="fp16")


def test_records_are_known_by_their_digests(tmp_path):
    digests = dict(record_info_dir="1", eval_record_info_dir="2")
    check(tmp_path, about=digests)      # an earlier version has kept none
    kept = dict(kept={"about": digests})
    check(tmp_path, about=digests, record_info_dir="moved", eval_record_info_dir="moved", **kept)
    for name in digests:
        other = dict(digests, **{name: "3"})
        with pytest.raises(UserError, match="other settings: %s was (.), is \\1 with other content;"
                           % name):
            check(tmp_path, about=other, **kept)
    check(tmp_path, about=other, evaluates=False, **kept)


def test_other_hosts_have_the_settings_of_the_first(tmp_path):
    check(tmp_path, model_dir="mounted/elsewhere", log_steps=7).check_host()
    with pytest.raises(UserError, match="eval_record_info_dir is held, not e;"):
        check(tmp_path, kept=dict(eval_record_info_dir="e"), eval_record_info_dir="held",
              evaluates=False).check_host()
    host = check(tmp_path, save_steps=7)
    with pytest.raises(UserError, match="this host has other settings than the first one: "
                       "save_steps is 7, not 1000; give all hosts the same command"):
        host.check_host()


def test_a_loss_that_is_gone_does_not_resume(tmp_path):
    with pytest.raises(UserError, match="tagged_pieces was all, is first"):
        check(tmp_path, "run_tagger.py", kept=dict(tagged_pieces="all"))


def test_the_best_of_several_trials_of_an_earlier_version_is_kept(tmp_path):
    """They left no run in its directory, so that a new one would replace it."""
    (tmp_path / "best").mkdir()
    for name in ("checkpoint", "model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"):
        (tmp_path / "best" / name).write_text('model_checkpoint_path: "model.ckpt-1"')
    kept = KeptSettings(str(tmp_path), "run", (RUNS["run_classifier.py"],), evaluates=True)
    with pytest.raises(UserError, match="best has a model, but .* has no run"):
        kept.check(None, None)
    (tmp_path / "evaluations.json").write_text("{}")
    kept.check(None, None)


@pytest.mark.parametrize("program, changes", [
    ("train_gpu.py", dict(eval_record_info_dir="f")), ("run_classifier.py", dict(dev_file="d")),
    ("run_tagger.py", dict(eval_split="test"))])
def test_what_evaluations_depend_on_is_compared_where_there_are_some(program, changes, tmp_path):
    check(tmp_path, program, evaluates=False, **changes)
    with pytest.raises(UserError, match="other settings: %s was" % next(iter(changes))):
        check(tmp_path, program, **changes)
