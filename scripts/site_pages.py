"""Pages of the site that are made from the code: mkdocs runs this (mkdocs.yml, gen-files)."""

import contextlib
import io
import os
import pathlib
import sys

import mkdocs_gen_files
from absl import flags

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "scripts")]
import notebooks  # noqa: E402

from xlnet import commands  # noqa: E402

NOTEBOOKS = ("docs/explanation/paper_figures", "examples/pretrain_tiny", "examples/spreadsheet")

# Objects whose docstrings the page of the API has, by heading.
API = {
    "load: a trained model": (
        "xlnet.serving.load.load",
        "xlnet.model_directory.model_files.LoadedModel",
        "xlnet.serving.model.Model",
    ),
    "The network": (
        "xlnet.settings.network.XLNetConfig",
        "xlnet.settings.network.RunConfig",
        "xlnet.settings.network.create_run_config",
        "xlnet.api.XLNetModel",
    ),
    "Tokenizer and errors": ("xlnet.tokenization.tokenizer.Tokenizer", "xlnet.errors.UserError"),
    "Task types": tuple(
        "xlnet.tasks.types.contract." + name for name in ("TaskType", "Reader", "Head", "Scorer")
    ),
}


def main():
    write(
        "docs/reference/programs.md",
        "# Programs and their flags",
        *(
            f"## xlnet {command.name}\n\n```text\n{help_of(command.name)}```"
            for command in commands.COMMANDS.values()
            if not command.flags
        ),
    )
    write(
        "docs/reference/api.md",
        "# Python API",
        *(
            "\n".join(["## " + title, *("::: " + name for name in names)])
            for title, names in API.items()
        ),
    )
    for path in NOTEBOOKS:
        write(path + ".md", notebooks.as_markdown(notebooks.read(pathlib.Path(path + ".ipynb"))))


def write(page, *parts):
    with mkdocs_gen_files.open(page, "w") as f:
        f.write("\n\n".join(parts) + "\n")


def help_of(name):
    """What `xlnet NAME --helpfull` prints."""
    printed, before = io.StringIO(), sys.argv
    sys.argv = ["xlnet", *name.split(), "--helpfull"]
    try:
        with contextlib.redirect_stdout(printed):
            commands.main()
    finally:
        sys.argv = before
        for flag in list(flags.FLAGS.flags_by_module_dict().get("xlnet.cli", ())):
            delattr(flags.FLAGS, flag.name)  # the next program defines its own
    return printed.getvalue()


main()
