"""The texts of `--help` and `--helpfull`; flags are in groups."""

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xlnet.settings.fields import REQUIRED, HelpGroup, default_of

WIDTH = 100

Fields = Mapping[str, "dataclasses.Field[Any]"]


def by_help_group(fields: Fields) -> dict[str, list[str]]:
    """The names of settings by the title of their group; groups without settings are left out."""
    groups: dict[HelpGroup, list[str]] = {group: [] for group in HelpGroup}
    for name, field in fields.items():
        groups[field.metadata["help_group"] or HelpGroup.OTHER].append(name)
    return {group.value: names for group, names in groups.items() if names}


def short(about: str, fields: Fields, first: Sequence[str], config: str) -> str:
    """The help of the most important flags, `first`, and the names of all others."""
    lines = [about.strip(), ""] + ["The flags that matter first:"]
    for name in first:
        lines += flag(fields[name])
    lines += [
        "",
        *_wrapped("--config=", config),
        "",
        f"All {len(fields)}, by need; --helpfull says what they mean:",
    ]
    for title, names in by_help_group(fields).items():
        lines += _listed([f"{title}:", *names])
    return "\n".join(lines)


def full(about: str, fields: Fields, groups: Sequence[type], config: str) -> str:
    """The help of all flags, by need or, if classes of settings are given, by class."""
    if not groups:
        parts = by_help_group(fields)
    else:
        # Settings are listed by class; a setting that two classes share is listed under the first
        # one.
        parts, seen = {}, set()
        for group in groups:
            names = [field.name for field in dataclasses.fields(group) if field.name not in seen]
            seen |= set(names)
            parts[" ".join((group.__doc__ or "").split())] = sorted(
                names, key=lambda name: default_of(fields[name]) is not REQUIRED
            )
    lines = [about.strip(), ""]
    for title, names in parts.items():
        lines.append(title)
        # Flags that only old command lines use are named, not explained.
        if title == HelpGroup.ORIGINAL.value:
            lines += _listed(names)
        else:
            lines += [line for name in names for line in flag(fields[name])]
        lines.append("")
    return "\n".join(lines + _wrapped("--config=", config))


def flag(field: "dataclasses.Field[Any]") -> list[str]:
    """The lines of a flag: name, default, help, choices, other names."""
    default, choices = default_of(field), field.metadata["choices"]
    meaning = field.metadata["help"]
    if choices:
        meaning += " ({})".format(", ".join(choices))
    if field.metadata["aliases"]:
        meaning += "; also called " + ", ".join("--" + name for name in field.metadata["aliases"])
    return _wrapped("--{}={}".format(field.name, "" if default is None else default), meaning)


def _listed(words: Iterable[str]) -> list[str]:
    return textwrap.wrap(
        " ".join(words),
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent=" " * 6,
        break_on_hyphens=False,
    )


def _wrapped(name: str, meaning: str) -> list[str]:
    return textwrap.wrap(
        meaning, WIDTH - 4, initial_indent=f"  {name}  ", subsequent_indent=" " * 6
    )


def commands(command: str, examples: Sequence[str]) -> str:
    """Command lines to copy: the command that starts the program, with each of the examples."""
    return "\n".join(
        " \\\n".join(
            textwrap.wrap(
                f"{command} {example}",
                WIDTH - 4,
                initial_indent="  ",
                subsequent_indent=" " * 6,
                break_on_hyphens=False,
                break_long_words=False,
            )
        )
        for example in examples
    )
