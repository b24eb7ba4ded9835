"""Presets: known settings, the memory and devices that they state; flags override them."""

import pytest
from helpers import command

from xlnet.commands import cli
from xlnet.settings.fields import check_value, presets_of
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks import known

PRESETS = presets_of("finetune")
PRESETS.pop("tiny")  # for any task
GROUPS = (ClassifierSettings, TaggerSettings, SpanSettings)
FIELDS = cli.fields_of([*GROUPS, NetworkSettings, OptimizationSettings])


def test_presets():
    for key, preset in PRESETS.items():
        for name, value in preset.items():
            if name != "about":
                check_value(FIELDS[name], value, key)
        task = preset["task_name"]
        assert key in (task, task + "-base") and preset["about"]
        if task == known.CUSTOM:  # how long it is depends on the file
            assert preset["epochs"] and "train_steps" not in preset
            continue
        steps = preset["train_steps"]
        assert 0 < preset.get("warmup_steps", 1) < steps
        assert steps % preset["save_steps"] == 0 or "eval_steps" in preset
    for name, preset in presets_of("pretrain").items():
        if not name.startswith("ablation/"):
            assert preset["model_config_path"] in presets_of("model")


def test_the_programs_take_the_presets(tmp_path, monkeypatch):
    """Their settings fit each other: what is missing is the data."""
    monkeypatch.chdir(tmp_path)
    for name, preset in PRESETS.items():
        task, program = preset["task_name"], "xlnet classify"
        if task != known.CUSTOM:
            program = known.find_task(task).program
        line = refused(name, "--do_train=True", program=program)
        assert "data_dir: found no such file or directory" in line, name


# learning_rate, train_steps, warmup_steps, train_batch_size, as the authors published them
PUBLISHED = {
    "sts-b": (5e-5, 1200, 120, 32),
    "imdb": (2e-5, 4000, 500, 32),
    "race": (2e-5, 12000, 1000, 32),
    "squad2": (3e-5, 8000, 1000, 48),
    "rte": (3e-5, 800, 200, 32),
}


def test_published_settings():
    names = ("learning_rate", "train_steps", "warmup_steps", "train_batch_size")
    for task, published in PUBLISHED.items():
        preset = PRESETS[task]
        assert tuple(preset[name] for name in names) == published
        assert "published it" in preset["about"]
    assert PRESETS["squad2"]["lr_layer_decay_rate"] == 0.75


def refused(config, *flags, program="run_classifier.py"):
    """The line of a program that has a preset, and no data."""
    others = "--model_dir=m --data_dir=d --output_dir=o --spiece_model_file=s".split()
    others += [f"--config={config}", "--model_config_path=c"]
    return command.refused(program, *others, *flags)


@pytest.mark.parametrize(
    "content, flags, message",
    [
        ('{"task_name": "rte", "do_train": true}', [], "no such file or directory: d"),
        ("{}", ["--do_train"], "data_dir: found no such file or directory: d"),
        ('{"task": "rte"}', [], "found 'task', expected settings"),
        ('{"train_step": 5}', [], "found 'train_step', expected settings"),
        ('{"train_steps": "5"}', [], "train_steps: found '5'"),
        ("{", [], "not valid JSON"),
    ],
)
def test_a_preset_is_read_before_flags(tmp_path, monkeypatch, content, flags, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preset.json").write_text(content)
    assert message in refused("preset.json", *flags)
