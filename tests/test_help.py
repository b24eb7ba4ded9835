"""What --help shows: all flags by what they are for, and examples."""

import dataclasses
import json
import pathlib
import shlex
import sys

import pytest
from helpers import command, command_lines
from helpers.paths import ROOT

from xlnet.commands import cli, help
from xlnet.runs import task_settings
from xlnet.settings.fields import REQUIRED, HelpGroup, default_of
from xlnet.settings.finetuning import TaskSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support import files

PROGRAMS = [program for file in command_lines.all_files() for program in file.programs]


def shown(program):
    return help.text(
        program.path, program.about, program.settings, program.command, program.examples
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.path)
def test_each_flag_is_described_in_its_group(program):
    text = shown(program)
    flags = [
        line.split("=")[0][4:] for line in text.splitlines() if line.startswith("  --")
    ]
    assert flags.count("config") == 1
    assert set(program.settings) <= set(flags)
    assert all(field.metadata["help"] for field in program.settings.values())
    titles = [group.value for group in HelpGroup if f"\n{group.value}\n" in text]
    assert titles == list(help.by_help_group(program.settings))
    assert max(len(line) for line in text.splitlines() if line.startswith(" ")) <= 110


def test_help_of_a_program():
    text = command.succeed("run_classifier.py", "--helpfull").stdout
    assert text == command.succeed("run_classifier.py", "--help").stdout
    assert "\nWhat to do\n  --task_name=  a known task (cola" in text
    assert "--model_dir=required" in text and "(last, first, mean, attn)" in text
    assert text.rstrip().endswith("--output=-")


@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program.examples],
    ids=lambda program: program.path,
)
def test_the_examples_are_accepted(program, monkeypatch, capsys, tmp_path):
    """By everything before the program itself: flags, presets, the checks of all settings."""
    text = shown(program).split("Examples:\n")[1]
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
            unused=program.unused,
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
    assert (
        found.output_dir == settings.output_dir or found.output_dir == "model/records"
    )


def test_subcommands_have_help_of_their_own():
    for name, about, example in (
        ("data verify", "compares pretraining records with", " --input=records\n"),
        ("plot masks", "plots the attention masks of both", " --output=masks.png\n"),
        ("data inspect", "shows pretraining records as", " --config=model/run.json\n"),
    ):
        shown = command.succeed("xlnet " + name, "--help").stdout
        assert shown.startswith(f"xlnet {name}: {about}") and example in shown
