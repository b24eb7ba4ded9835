"""The programs, as their own command lines know them."""

import contextlib
import dataclasses
import inspect
import pathlib
import re
import runpy
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from helpers.paths import ROOT
from xlnet.commands import cli
from xlnet.commands import main as commands


class Program(NamedTuple):
    """A program.

    path: in the repository. command: as it is typed.
    groups: classes of settings. how: the other arguments of `cli.command`.
    """

    path: str
    command: str
    about: str
    groups: Sequence[type]
    how: Mapping[str, object] = {}

    @property
    def settings(self) -> "dict[str, dataclasses.Field]":
        """The settings by name, each once, as flags are made of them."""
        return cli.settings_of(self.groups)

    @property
    def examples(self) -> "list[list[str]]":
        """The arguments of each example in the help of a subcommand."""
        if not self.command.startswith("xlnet "):
            return []
        text = self.about.partition("Examples:\n")[2].replace("\\\n", "")
        found = []
        for line in text.splitlines():
            if line.strip().startswith("xlnet "):
                words = shlex.split(line)
                found.append(words[len(self.command.split()) :])
        return found


class File(NamedTuple):
    """A file that users start.

    about: the first paragraph of its docstring, more: the others.
    programs: one; none if the file is not a program.
    """

    path: str
    about: str
    more: str
    programs: Sequence[Program]


def all_files() -> "list[File]":
    """What users start: files at the root and in `scripts/`, then the subcommands of `xlnet` that
    have no file, in the order of `xlnet --help`."""
    paths = sorted(ROOT.glob("*.py")) + sorted((ROOT / "scripts").glob("*.py"))
    files = [file for file in map(_file, paths) if file.programs]
    return files + [_command(command) for command in commands.COMMANDS.values()]


def _file(path: pathlib.Path) -> File:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    docstring = text.split('"""')[1].strip() if '"""' in text else ""
    found: list[Program] = []
    if re.search(
        r"\bcli\.command|^from xlnet\.commands\S* import \w+$", text, re.MULTILINE
    ):
        found = _programs(
            name,
            "python " + name,
            path.parent,
            lambda: runpy.run_path(str(path), run_name="__main__"),
        )
    elif "__main__" in text:  # it is copied elsewhere, and so has no flags of ours
        found = [Program(name, "python " + name, docstring, ())]
    about, _, more = docstring.partition("\n\n")
    about = re.sub(r" ?`[^`]*--help`[^.]*\.", "", " ".join(about.split()))
    return File(name, about, more, found)


def _command(command: commands.Command) -> File:
    name = "xlnet " + command.name
    return File(name, command.about, "", _programs(name, name, ROOT, command.run))


def _programs(path, command, folder, start):
    """The program that `start` runs."""
    found = []

    def noted(*groups, about, **how):
        about = inspect.cleandoc(about or "")
        found.append(Program(path, command, about, groups, how))
        raise _NotRunError

    with _in_the_place_of_the_command_line(noted, folder):
        with contextlib.suppress(_NotRunError):
            start()
    return found


class _NotRunError(Exception):
    """A program was found."""


@contextlib.contextmanager
def _in_the_place_of_the_command_line(noted, folder):
    before = cli.command, list(sys.path)
    cli.command = noted
    sys.path[:0] = [str(folder), str(ROOT)]
    try:
        yield
    finally:
        cli.command, sys.path[:] = before
