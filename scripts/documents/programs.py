"""The programs, as their own command lines know them: nothing is said of them anywhere else."""

import contextlib
import dataclasses
import pathlib
import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from place import ROOT

from xlnet import cli


class Program(NamedTuple):
    """A program, or one verb of a program of several.

    path: in the repository. command: as it is typed.
    groups: classes of settings. no_longer_needed: the authors' flags that have lost their meaning.
    """
    path: str
    command: str
    about: str
    groups: Sequence[type]
    no_longer_needed: Mapping[str, str]
    examples: Sequence[str]
    first: Sequence[str]

    @property
    def settings(self) -> "dict[str, dataclasses.Field]":
        """The settings by name, each once, as flags are made of them."""
        return cli.settings_of(self.groups)

    def anchor(self, name: str) -> str:
        """The name that a setting has on the page of the file."""
        verb = self.command.partition(self.path)[2].strip()
        return "-".join([verb, name]) if verb else name


class File(NamedTuple):
    """A file that users start.

    about: the first paragraph of its docstring, more: the others.
    programs: one, or as many as there are verbs.
    """
    path: str
    about: str
    more: str
    programs: Sequence[Program]


def all_files() -> "list[File]":
    """The files that users start: those at the root, then those in `scripts/`, by name."""
    paths = sorted(ROOT.glob("*.py")) + sorted((ROOT / "scripts").glob("*.py"))
    files = [_file(path) for path in paths]
    return [file for file in files if file.programs]


def _file(path: pathlib.Path) -> File:
    name = path.relative_to(ROOT).as_posix()
    found = []

    def run(main, *groups, no_longer_needed=(), about="", examples=(), first=()):
        found.append(Program(name, "python " + name, about, groups, dict(no_longer_needed),
                             examples, first))

    def run_verb(verbs, about=""):
        found.extend(Program(name, "python %s %s" % (name, word), verb.about, (verb.group,), {},
                             verb.examples, ()) for word, verb in verbs.items())

    text = path.read_text(encoding="utf-8")
    docstring = text.split('"""')[1].strip() if '"""' in text else ""
    if re.search(r"\bcli\.run|^from .* import run$", text, re.MULTILINE):
        with _in_the_place_of_the_command_line(run, run_verb, path.parent):
            runpy.run_path(str(path), run_name="__main__")
    elif "__main__" in text:    # it is copied elsewhere, and so has no flags of ours
        run(None, about=docstring)
    about, _, more = docstring.partition("\n\n")
    about = re.sub(r" ?`[^`]*--help`[^.]*\.", "", " ".join(about.split()))
    return File(name, about, more, found)


@contextlib.contextmanager
def _in_the_place_of_the_command_line(run, run_verb, folder):
    before = cli.run, cli.run_verb, list(sys.path)
    cli.run, cli.run_verb = run, run_verb
    sys.path[:0] = [str(folder), str(ROOT)]
    try:
        yield
    finally:
        cli.run, cli.run_verb, sys.path[:] = before


def console_commands() -> "list[tuple[str, str, str]]":
    """Name, module and function of each command that an installed package has."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = re.search(r"^\[project\.scripts\]\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r'^([\w-]+) *= *"([\w.]+):(\w+)"', section[1] if section else "",
                      re.MULTILINE)
