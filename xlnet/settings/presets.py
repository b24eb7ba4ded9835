"""The presets: settings of runs and architectures that come with the library, by name."""

import os
from typing import Any

from xlnet.support import files
from xlnet.support.errors import wrong


def read(name: str, role: str, table: str) -> dict[str, Any]:
    """The settings of a JSON file, which takes precedence, or of a preset.

    name: the path of the file, or the name of a preset.
    role: the flag, for errors.
    table: where to search, as of `all_of`.
    """
    if os.path.isfile(name) or files.is_remote(name):
        values = files.read_json(name, role)
        return values.get("resolved", values)  # those of a run.json, or a preset
    found = all_of(table)
    if name not in found:
        expected = f"a file, or one of the presets {', '.join(found)}"
        raise wrong(role, f"'{name}'", expected)
    return found[name]


def all_of(table: str) -> dict[str, Any]:
    """The presets by name of a file of `configs/`: "model", architectures; "pretrain" or
    "finetune", runs."""
    # The folder is inside an installed package; in the repository it is next to the package.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    home = os.path.join(package, "configs")
    if not os.path.isdir(home):
        home = os.path.join(os.path.dirname(package), "configs")
    return files.read_json(os.path.join(home, table + ".json"), "presets")
