"""The presets: settings of runs and architectures that come with the library, by name."""

import glob
import os
from typing import Any

from xlnet.support import files
from xlnet.support.errors import wrong


def read(name: str, role: str, folder: str) -> dict[str, Any]:
    """The settings of a JSON file, which takes precedence, or of a preset.

    name: the path of the file, or a key of `names`.
    role: the flag, for errors.
    folder: the part of `configs/` to search: "model", architectures, "pretrain" or "finetune".
    """
    if os.path.isfile(name) or files.is_remote(name):
        values = files.read_json(name, role)
        return values.get("resolved", values)  # those of a run.json, or a preset
    found = names(folder)
    if name not in found:
        expected = f"a file, or one of the presets {', '.join(found)}"
        raise wrong(role, f"'{name}'", expected)
    values = files.read_json(found[name], role)
    # a table has the presets by name
    return values[name] if os.path.basename(found[name]) == f"{folder}.json" else values


def names(folder: str) -> dict[str, str]:
    """The presets of a folder of `configs/`, or of the table `configs/<folder>.json`: paths of
    their files by name, such as "sst-2", "ablation/k7"."""
    home = os.path.join(_home(), folder)
    if os.path.isfile(home + ".json"):
        return dict.fromkeys(files.read_json(home + ".json", "presets"), home + ".json")
    found = {}
    pattern = os.path.join(glob.escape(home), "**", "*.json")
    for path in sorted(glob.glob(pattern, recursive=True)):
        found[os.path.relpath(path, home)[: -len(".json")]] = path
    return found


def _home() -> str:
    """`configs/`: inside an installed package; in the repository next to the package."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "configs")
    if os.path.isdir(inside):
        return inside
    return os.path.join(os.path.dirname(package), "configs")
