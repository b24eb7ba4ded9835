"""What --help shows: all flags by what they are for, and examples."""

import dataclasses
import json
import sys

import pytest
from helpers import command, command_lines
from helpers.paths import ROOT

from xlnet.commands import cli
from xlnet.settings.fields import REQUIRED, HelpGroup
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings

PROGRAMS = command_lines.all_programs()


def test_each_flag_is_described_in_its_group():
    for program in PROGRAMS:
        groups = cli.by_help_group(program.settings)
        assert sorted(sum(groups.values(), [])) == sorted(program.settings)
        order = [each.value for each in HelpGroup]
        assert list(groups) == sorted(groups, key=order.index)
        for field in program.settings.values():
            assert field.metadata["help"], field


def test_settings_that_a_user_can_give_stay_few():
    names = set()
    for program in PROGRAMS:
        if program.name.startswith("xlnet "):
            names |= set(program.settings)
    assert len(names) <= 145, len(names)


def test_help_of_a_program():
    text = command.succeed("run_classifier.py", "--helpfull").stdout
    assert text == command.succeed("run_classifier.py", "--help").stdout
    assert "\nWhat to do:\n  --[no]do_eval: evaluate on eval_split\n" in text
    assert "--model_dir: (required) " in text and "<last|first|mean|attn>: " in text
    assert text.count("--config: ") == 1
    for name in ("use_tpu", "num_hosts", "fused_attention", "iterations"):
        assert f"--{name}" not in text
    masks = command.succeed("xlnet plot masks", "--help").stdout
    assert masks.startswith("xlnet plot masks: plots the attention masks of both")


@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program.examples],
    ids=lambda program: program.name,
)
def test_the_examples_are_accepted(program, monkeypatch, capsys, tmp_path):
    """By everything before the program itself: flags, presets, the checks of all settings."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "model").mkdir()
    resolved = {"record_info_dir": "records"}
    for group in (PretrainingSettings, NetworkSettings):
        for field in dataclasses.fields(group):
            if field.default not in (REQUIRED, None):
                resolved.setdefault(field.name, field.default)
    (tmp_path / "model" / "run.json").write_text(json.dumps({"resolved": resolved}))
    monkeypatch.chdir(tmp_path)
    for example in program.examples:
        started = []
        monkeypatch.setattr(sys, "argv", [program.name, *example])
        with cli.command(*program.groups, about="", **program.how) as line:
            started.append(line)
        error = capsys.readouterr().err
        assert len(started) == 1 and "note" not in error, error
