"""The files of a trained model: found by name, and never outside of its directory.

A model directory may come from anybody. Only files with the names below are read, and they cannot
lead elsewhere: a symbolic link out of the directory is refused, and so is a file `checkpoint` that
points elsewhere (`checkpoint.newest`). Nothing is written.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.models import resolved
from xlnet.settings.network import CONFIG_NAME
from xlnet.settings.pretraining import PRETRAINING_NAME
from xlnet.settings.training import BEST
from xlnet.tokenization.tokenizer import SPIECE_NAME, description_path

_READ = re.compile("|".join((*map(re.escape, (
    resolved.TASK_NAME, CONFIG_NAME, SPIECE_NAME, description_path(SPIECE_NAME), "checkpoint",
    PRETRAINING_NAME + ".json", BEST)), r".*\.ckpt.*")))


class ModelFiles(NamedTuple):
    """Where the files of a model are.

    Attributes:
      prefix: of the checkpoint.
      home: directory of the other files.
      is_tuned: whether there is a `task.json`, which says what the model was trained for.
    """
    prefix: str
    home: str
    is_tuned: bool


def find(path: str, use_checkpoint: str = "best") -> ModelFiles:
    """The files of a model.

    Args:
      path: a model directory, a directory with a released checkpoint, or a checkpoint prefix.
      use_checkpoint: "best": that of `best/` if it is there, or else the newest; "newest".

    Raises:
      UserError: there is no checkpoint, or a file leads out of the directory.
    """
    if not os.path.isdir(path):
        prefix = checkpoint.resolve(path, "model_dir")
        check_inside(os.path.dirname(prefix) or ".")
        return ModelFiles(prefix, os.path.dirname(prefix) or ".", False)
    check_inside(path)
    check_inside(os.path.join(path, BEST), path)
    home = resolved.home_of(path)
    chosen = best_checkpoint.chosen(path, use_checkpoint)
    prefix = chosen[1] if chosen else checkpoint.resolve(path, "model_dir")
    return ModelFiles(prefix, home or path, home is not None)


def check_inside(directory: str, root: Optional[str] = None) -> None:
    """Raises UserError if a model's file in `directory` is a symbolic link out of `root`.

    Args:
      directory: one that does not exist has no such file.
      root: `directory` itself if not given.
    """
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if _READ.fullmatch(name):
            files.require_inside(os.path.join(directory, name), root or directory, "the model's")
