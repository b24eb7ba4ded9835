"""The presets: settings of runs and architectures that come with the library, by name."""

import glob
import os

from xlnet.errors import UserError, did_you_mean

MODEL = ("model",)                      # architectures
PRETRAINING = ("pretrain",)             # settings of runs
OF_RUNS = ("pretrain", "finetune")


def find(name: str, role: str, folders: tuple[str, ...]) -> str:
    """The path of a JSON file that is given by its path or the name of a preset.

    Args:
      name: a path; a key of `names`; or a preset's path in the repository,
        "configs/finetune/sst-2.json", from any working directory.
      role: the flag, for errors.
      folders: folders of `configs/` to search.

    Returns:
      A path; a file of that path may not exist if `name` is one.

    Raises:
      UserError: `name` is neither a path nor a preset.
    """
    found = {key: path for folder in folders for short, path in names(folder).items()
             for key in (short, "configs/%s/%s.json" % (folder, short))}
    if os.path.isfile(name) or name not in found and _is_path(name):
        return name
    if name not in found:
        short = [key for folder in folders for key in names(folder)]
        raise UserError("%s: no such file or preset: %s%s" % (
            role, name, did_you_mean(name, short) or "; there are " + ", ".join(short)))
    return found[name]


def names(folder: str) -> dict[str, str]:
    """The JSON files of a folder of `configs/`: paths by name, such as "sst-2", "ablation/k7"."""
    home = os.path.join(_home(), folder)
    paths = sorted(glob.glob(os.path.join(glob.escape(home), "**", "*.json"), recursive=True))
    return {os.path.splitext(os.path.relpath(path, home))[0].replace(os.sep, "/"): path
            for path in paths}


def _home():
    """`configs/`: inside an installed package; in the repository next to the package."""
    package = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(package, "configs")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "configs")


def _is_path(name):
    return os.sep in name or "/" in name or name.endswith(".json")
