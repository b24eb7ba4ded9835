"""Pages of the site that are made from the code: mkdocs runs this (mkdocs.yml, gen-files)."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import inspect
import os
import pathlib
import sys
import textwrap
from collections.abc import Iterator, Sequence
from unittest import mock

import mkdocs_gen_files

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "scripts")]
import notebooks  # noqa: E402

from xlnet.commands import cli  # noqa: E402
from xlnet.commands import main as commands  # noqa: E402
from xlnet.settings import fields  # noqa: E402

NOTEBOOKS = (
    "docs/explanation/paper_figures",
    "examples/pretrain_tiny",
    "examples/spreadsheet",
)

# Objects whose docstrings the page of the API has, by heading.
API = {
    "load: a trained model": (
        "xlnet.inference.load.load",
        "xlnet.runs.model_files.LoadedModel",
        "xlnet.inference.model.Model",
    ),
    "The network": (
        "xlnet.settings.network.XLNetConfig",
        "xlnet.settings.network.RunConfig",
        "xlnet.settings.network.create_run_config",
        "xlnet.api.XLNetModel",
    ),
    "Tokenizer and errors": (
        "xlnet.corpus.tokenizer.Tokenizer",
        "xlnet.support.errors.UserError",
    ),
    "Task types": (
        "xlnet.tasks.fields.TaskFields",
        "xlnet.tasks.contract.Task",
    ),
}


def main() -> None:
    write("docs/reference/programs.md", *pages_of_programs())
    sections = ["# Python API"]
    for title, names in API.items():
        sections.append("\n::: ".join(["## " + title, *names]))
    write("docs/reference/api.md", *sections)
    for path in NOTEBOOKS:
        notebook = path + ".ipynb"
        content = notebooks.as_markdown(notebooks.read(pathlib.Path(notebook)))
        write(path + ".md", content, source=notebook)


def write(page: str, *parts: str, source: str = "scripts/site_pages.py") -> None:
    """Adds a page that is made of `source`, the file that "Edit this page" opens."""
    mkdocs_gen_files.set_edit_path(page, source)
    with mkdocs_gen_files.open(page, "w") as f:
        f.write("\n\n".join(parts) + "\n")


def pages_of_programs() -> Iterator[str]:
    """The page of all programs: a section for each, with a heading for each flag."""
    # The headings of the flags are for links and for the search; as a list they would be long.
    yield "---\nhide: [toc]\n---"
    yield "# Programs and their flags"
    known = list(commands.COMMANDS.values())
    lines = []
    for command in known:
        link = f"[`xlnet {command.name}`](#{anchor(command.name)})"
        lines.append(f"- {link}: {command.about}")
    yield "\n".join(lines)
    for command in known:
        about, groups = program_of(command)
        yield f"## xlnet {command.name} {{#{anchor(command.name)}}}"
        about, _, examples = inspect.cleandoc(about).partition("\n\nExamples:\n")
        yield html.escape(" ".join(about.split()))
        if examples:
            yield f"```text\n{textwrap.dedent(examples)}\n```"
        settings = cli.fields_of(groups)
        for group, names in cli.by_help_group(settings).items():
            yield f"### {group} {{#{anchor(command.name)}-{group.lower().replace(' ', '-')}}}"
            for name in names:
                yield from section_of(command.name, settings[name])


def section_of(command: str, field: dataclasses.Field[object]) -> Iterator[str]:
    """The heading of a flag and what it means."""
    yield f"#### `--{field.name}` <small>{command}</small> {{#{anchor(command, field.name)}}}"
    parts = [html.escape(" ".join(field.metadata["help"].split()))]
    default = field.default
    if default is fields.REQUIRED:
        parts.append("required")
    elif default == "":
        parts.append("default empty")
    elif default is not None:
        parts.append(f"default `{default}`")
    if field.metadata["choices"]:
        parts.append(
            "one of " + ", ".join(f"`{each}`" for each in field.metadata["choices"])
        )
    if field.metadata["aliases"]:
        parts.append(
            "also " + ", ".join(f"`--{each}`" for each in field.metadata["aliases"])
        )
    yield "; ".join(parts)


def anchor(command: str, flag: str = "") -> str:
    """The place of a program, or of one of its flags, on the page."""
    return command.replace(" ", "-") + (f"--{flag}" if flag else "")


def program_of(command: commands.Command) -> tuple[str, Sequence[type]]:
    """(the purpose of a program with examples, its groups of settings).

    They are the arguments of its `command` of `xlnet.commands.cli`, whose block is not run.
    """
    found = []

    def remember(*groups: type, about: str | None, **others: object) -> object:
        found.append((about or "", groups))
        raise InterruptedError

    with mock.patch.object(cli, "command", remember):
        with contextlib.suppress(InterruptedError):
            command.run()
    return found[0]


main()
