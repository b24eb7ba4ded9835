"""What --help shows: ten flags first, the others by need, all with --helpfull; examples."""

import dataclasses
import json
import pathlib
import shlex
import sys

import pytest
from helpers import command, command_lines
from helpers.paths import ROOT

from xlnet import cli, files, help
from xlnet.model_directory import task_settings
from xlnet.settings.fields import REQUIRED, HelpGroup, default_of, setting
from xlnet.settings.finetuning import TaskSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings

PROGRAMS = [program for file in command_lines.all_files() for program in file.programs]
WITH_NEEDS = [program for program in PROGRAMS if program.first]


def shown(program, flag, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [program.path, flag])
    cli._show_help(
        program.path.split("/")[-1], program.about, program.groups, program.first, program.examples
    )
    return capsys.readouterr().out


def test_programs_with_many_flags_say_which_matter_first():
    assert {program.path for program in PROGRAMS if len(program.settings) > 26} <= {
        program.path for program in WITH_NEEDS
    }
    for program in WITH_NEEDS:
        assert len(set(program.first)) == 10 and set(program.first) <= set(program.settings)
        required = {
            name for name, field in program.settings.items() if default_of(field) is REQUIRED
        }
        assert required <= set(program.first), program.path


def test_each_setting_of_a_program_with_many_has_a_need():
    for program in WITH_NEEDS:
        assert HelpGroup.OTHER.value not in help.by_help_group(program.settings), program.path


@pytest.mark.parametrize("program", WITH_NEEDS, ids=lambda program: program.path)
def test_help_and_helpfull(program, monkeypatch, capsys):
    short = shown(program, "--help", monkeypatch, capsys)
    flags = [line.split("=")[0][2:] for line in short.splitlines() if line.startswith("  --")]
    assert flags == ["--" + name for name in program.first] + ["--config"]
    assert all(f" {name} " in short.replace("\n", " ") for name in program.settings)
    full = shown(program, "--helpfull", monkeypatch, capsys)
    flags = [line.split("=")[0][4:] for line in full.splitlines() if line.startswith("  --")]
    rare = help.by_help_group(program.settings).get(HelpGroup.ORIGINAL.value, [])
    assert sorted(flags + rare) == sorted([*program.settings, "config"])
    assert all(f" {name} " in full.replace("\n", " ") for name in rare)
    for text in (short, full):
        assert max(map(len, text.splitlines())) <= 100
        assert f"\nExamples:\n  {program.command} " in text and text.count("--config=") >= 1
        assert text.index("Examples:") > text.index("--config=")


@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program.examples],
    ids=lambda program: program.path,
)
def test_the_examples_are_accepted(program, monkeypatch, capsys, tmp_path):
    """By everything before the program itself: flags, presets, the checks of all settings."""
    text = shown(program, "--help", monkeypatch, capsys).split("Examples:\n")[1]
    commands = shlex.split(text.replace("\\\n", ""))
    assert commands.count(program.command.split()[0]) == len(program.examples)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "model").mkdir()
    resolved = {
        field.name: default_of(field)
        for group in (PretrainingSettings, NetworkSettings)
        for field in dataclasses.fields(group)
        if default_of(field) not in (REQUIRED, None)
    }
    (tmp_path / "model" / "run.json").write_text(
        json.dumps({"resolved": resolved | {"record_info_dir": "records"}})
    )
    (tmp_path / "pretrained").mkdir()
    monkeypatch.chdir(tmp_path)
    for example in program.examples:
        started = []
        monkeypatch.setattr(sys, "argv", [program.path, *shlex.split(example)])
        cli.run(
            lambda *settings: started.append(settings),
            *program.groups,
            no_longer_needed=program.no_longer_needed,
            **program.how,
        )
        (settings,), error = started, capsys.readouterr().err
        assert "note" not in error, error
        if isinstance(settings[0], TaskSettings) and settings[0].do_train:
            made_for(settings[0])


def made_for(settings):
    """Resolves the settings where the files next to the initial checkpoint exist."""
    for name in ("spiece.model", "xlnet_config.json", "xlnet_model.ckpt.index"):
        directory = pathlib.Path(files.directory_of(settings.init_checkpoint))
        directory.mkdir(exist_ok=True)
        (directory / name).write_text("{}")
    found, _, _ = task_settings.resolve(
        settings, NetworkSettings(), OptimizationSettings(), ["task_name"], None
    )
    assert found.output_dir == settings.output_dir or found.output_dir == "model/records"


def test_few_flags_are_shown_whole_by_their_groups(monkeypatch, capsys):
    (fill,) = [program for program in PROGRAMS if program.path == "xlnet fill"]
    text = shown(fill, "--help", monkeypatch, capsys)
    assert text == shown(fill, "--helpfull", monkeypatch, capsys)
    assert text.index("Which model, and where it runs.") < text.index("--model_dir=required")
    assert text.index("--model_dir=required") < text.index("How blanks are filled.")


def test_settings_are_grouped_by_need_in_its_order():
    @dataclasses.dataclass
    class Group:
        seed: int = setting(0, "", help_group=HelpGroup.STEPS)
        unheard_of: int = setting(0, "")
        task_name: str = setting("", "", help_group=HelpGroup.TASK)

    assert help.by_help_group(cli.settings_of([Group])) == {
        "What to do": ["task_name"],
        "Steps and batches": ["seed"],
        "Others": ["unheard_of"],
    }


def test_subcommands_of_one_program_have_help_of_their_own():
    for name, about, example in (
        ("data verify", "compares pretraining records with", " --input=records\n"),
        ("plot masks", "plots the attention masks of both", " --output=masks.png\n"),
        ("data inspect", "shows pretraining records as", " --num_windows=2\n"),
    ):
        shown = command.succeed("xlnet " + name, "--help").stdout
        assert shown.startswith(f"xlnet {name}: {about}") and example in shown
