"""The presets: settings of runs and architectures that come with the library, by name."""

import glob
import os
from typing import Any

from xlnet.support import files
from xlnet.support.errors import UserError, did_you_mean

MODEL = ("model",)  # architectures
PRETRAINING = ("pretrain",)  # settings of runs
OF_RUNS = ("pretrain", "finetune")

_BASE = "-base"  # the end of the names for XLNet-Base; those without it are for Large


def read(name: str, role: str, folders: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The settings of a JSON file, given by its path or the name of a preset, and its path.

    name: a path, which takes precedence; a key of `names`; or a preset's path in the repository,
      "configs/pretrain/tiny.json", from any working directory.
    role: the flag, for errors.
    folders: folders of `configs/`, or tables there, to search.
    """
    if os.path.isfile(name):
        values = files.read_json(name, role)
        return values.get("resolved", values), name  # those of a run.json, or a preset
    known = []
    for folder in folders:
        short = name
        if name.startswith(f"configs/{folder}/"):
            short = os.path.splitext(name[len(f"configs/{folder}/") :])[0]
        found = names(folder)
        known += list(found)
        if short in found:
            return _preset(short, found[short], role), found[short]
    if "/" in name or name.endswith(".json"):
        files.require_file(name, role)  # raises, unless it is remote
        return files.read_json(name, role), name
    raise UserError(
        "{}: no such file or preset: {}{}".format(
            role, name, did_you_mean(name, known) or "; there are " + ", ".join(known)
        )
    )


def _preset(name: str, path: str, role: str) -> dict[str, Any]:
    values = files.read_json(path, role)
    if os.path.dirname(path) != _home():
        return values
    # A table has settings of each task, and more of either size of the network.
    task, size = (
        (name[: -len(_BASE)], "base") if name.endswith(_BASE) else (name, "large")
    )
    of_task = values[task]
    both = {
        key: value for key, value in of_task.items() if key not in ("base", "large")
    }
    about = "; ".join(
        part["about"] for part in (both, of_task[size]) if "about" in part
    )
    return {"task_name": task, **both, **of_task[size], "about": about}


def names(folder: str) -> dict[str, str]:
    """The presets of a folder of `configs/`, or of the table `configs/<folder>.json`: paths of
    their files by name, such as "sst-2", "ablation/k7"."""
    home = os.path.join(_home(), folder)
    found = {}
    if os.path.isfile(home + ".json"):
        for task in files.read_json(home + ".json", "presets"):
            found[task] = found[task + _BASE] = home + ".json"
        return found
    for path in sorted(
        glob.glob(os.path.join(glob.escape(home), "**", "*.json"), recursive=True)
    ):
        found[os.path.splitext(os.path.relpath(path, home))[0].replace(os.sep, "/")] = (
            path
        )
    return found


def _home() -> str:
    """`configs/`: inside an installed package; in the repository next to the package."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "configs")
    if os.path.isdir(inside):
        return inside
    return os.path.join(os.path.dirname(package), "configs")
