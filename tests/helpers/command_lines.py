"""The programs, as their own command lines know them."""

import contextlib
import runpy
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from unittest import mock

from helpers.paths import ROOT
from xlnet.commands import cli
from xlnet.commands import main as commands


class Program(NamedTuple):
    """A file of the repository or "xlnet" with its subcommand, and what it gives `cli.command`."""

    name: str
    about: str
    groups: Sequence[type]
    how: Mapping[str, object]

    @property
    def settings(self):
        """The settings by name, each once, as flags are made of them."""
        return cli.fields_of(self.groups)

    @property
    def examples(self):
        """The arguments of each example in the help."""
        text = self.about.partition("Examples:\n")[2].replace("\\\n", "")
        name, lines = self.name.split(), map(shlex.split, text.splitlines())
        return [words[len(name) :] for words in lines if words[: len(name)] == name]


def all_programs():
    """The files that users start, then the subcommands of `xlnet`."""
    found = []
    for path in (*sorted(ROOT.glob("*.py")), ROOT / "scripts" / "run_sample.py"):
        start = lambda: runpy.run_path(str(path), run_name="__main__")
        found.append(_program(path.relative_to(ROOT).as_posix(), start))
    for command in commands.COMMANDS.values():
        found.append(_program("xlnet " + command.name, command.run))
    return found


class _NotRunError(Exception):
    """A program was found."""


def _program(name, start):
    """The program that `start` runs."""
    found = []

    def noted(*groups, about, **how):
        found.append(Program(name, about or "", groups, how))
        raise _NotRunError

    with mock.patch.object(cli, "command", noted), contextlib.suppress(_NotRunError):
        start()
    (program,) = found
    return program
