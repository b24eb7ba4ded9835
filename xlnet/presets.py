"""The presets: settings of runs and architectures that come with the library, by name."""

import glob
import os
from typing import Any

from xlnet import files
from xlnet.errors import UserError, did_you_mean

MODEL = ("model",)  # architectures
PRETRAINING = ("pretrain",)  # settings of runs
OF_RUNS = ("pretrain", "finetune")

_BASE = "-base"  # the end of the names for XLNet-Base; those without it are for Large


def read(name: str, role: str, folders: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The settings of a JSON file, given by its path or the name of a preset, and its path.

    name: a path; a key of `names`; or a preset's path in the repository,
      "configs/pretrain/tiny.json", from any working directory.
    role: the flag, for errors.
    folders: folders of `configs/`, or tables there, to search.
    """
    found = {
        key: path
        for folder in folders
        for short, path in names(folder).items()
        for key in (short, f"configs/{folder}/{short}.json")
    }
    # A file takes precedence over a preset of the same name, and a preset over a path that does not
    # exist.
    if os.path.isfile(name) or name not in found and _is_path(name):
        found_there = files.read_json(name, role)
        return found_there.get("resolved", found_there), name  # those of a run.json, or a preset
    if name not in found:
        short = [key for folder in folders for key in names(folder)]
        raise UserError(
            "{}: no such file or preset: {}{}".format(
                role, name, did_you_mean(name, short) or "; there are " + ", ".join(short)
            )
        )
    values = files.read_json(found[name], role)
    if os.path.dirname(found[name]) == _home():  # a table
        task, size = (name[: -len(_BASE)], "base") if name.endswith(_BASE) else (name, "large")
        both = {key: value for key, value in values[task].items() if key not in ("base", "large")}
        about = "; ".join(part["about"] for part in (both, values[task][size]) if "about" in part)
        values = {"task_name": task, **both, **values[task][size], "about": about}
    return values, found[name]


def names(folder: str) -> dict[str, str]:
    """The presets of a folder of `configs/`, or of the table `configs/<folder>.json`: paths of
    their files by name, such as "sst-2", "ablation/k7"."""
    home = os.path.join(_home(), folder)
    if os.path.isfile(home + ".json"):
        return {
            task + size: home + ".json"
            for task in files.read_json(home + ".json", "presets")
            for size in ("", _BASE)
        }
    paths = sorted(glob.glob(os.path.join(glob.escape(home), "**", "*.json"), recursive=True))
    return {
        os.path.splitext(os.path.relpath(path, home))[0].replace(os.sep, "/"): path
        for path in paths
    }


def _home() -> str:
    """`configs/`: inside an installed package; in the repository next to the package."""
    package = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(package, "configs")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "configs")


def _is_path(name: str) -> bool:
    return os.sep in name or "/" in name or name.endswith(".json")
