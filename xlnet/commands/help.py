"""The text of `--help`: all flags of a program, by what they are for."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from xlnet.settings.fields import REQUIRED, HelpGroup, default_of

WIDTH = 100

Fields = Mapping[str, "dataclasses.Field[Any]"]

CONFIG = (
    "JSON file of settings, names without dashes, or the name of a preset (configs/); "
    'flags override it, "about" is a comment'
)


def by_help_group(fields: Fields) -> dict[str, list[str]]:
    """The names of settings by the title of their group; groups without settings are left out."""
    groups: dict[HelpGroup, list[str]] = {group: [] for group in HelpGroup}
    for name, field in fields.items():
        groups[field.metadata["help_group"] or HelpGroup.OTHER].append(name)
    return {group.value: names for group, names in groups.items() if names}


def text(
    program: str, about: str, fields: Fields, command: str, examples: Sequence[str]
) -> str:
    """The help of a program.

    Args:
      program: its name.
      about: what it does.
      fields: its settings by name.
      command: what starts it.
      examples: command lines, without `command`.
    """
    lines = [f"{program}: {about[:1].lower()}{about[1:]}".strip(), ""]
    for title, names in by_help_group(fields).items():
        lines.append(title)
        for name in names:
            lines += _flag(fields[name])
        lines.append("")
    lines += _wrapped(f"--config=  {CONFIG}")
    if examples:
        lines += ["", "Examples:", commands(command, examples)]
    return "\n".join(lines)


def _flag(field: "dataclasses.Field[Any]") -> list[str]:
    """The lines of a flag: name, default, help, choices, other names."""
    default, choices = default_of(field), field.metadata["choices"]
    meaning = field.metadata["help"]
    if choices:
        meaning += " ({})".format(", ".join(choices))
    if field.metadata["aliases"]:
        meaning += "; also called " + ", ".join(
            "--" + name for name in field.metadata["aliases"]
        )
    shown = "" if default is None else "required" if default is REQUIRED else default
    return _wrapped(f"--{field.name}={shown}  {meaning}")


def commands(command: str, examples: Sequence[str]) -> str:
    """Command lines to copy: the command that starts the program, with each of the examples."""
    found = []
    for example in examples:
        lines = _wrapped(
            f"{command} {example}", break_on_hyphens=False, break_long_words=False
        )
        found.append(" \\\n".join(lines))
    return "\n".join(found)


def _wrapped(line: str, **how: Any) -> list[str]:
    return textwrap.wrap(
        line, WIDTH - 4, initial_indent="  ", subsequent_indent=" " * 6, **how
    )
