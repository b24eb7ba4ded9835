"""Modules of a user, named by flags, that register own parts: task types, objectives, orders."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from xlnet import files
from xlnet.errors import UserError


def load(module: str, flag: str) -> ModuleType:
    """Imports FILE.py or the name of an installed module.

    Raises:
      UserError: there is no such file, it raises an error, or another module has its name.
    """
    name = module
    if module.endswith(".py"):
        files.require_file(module, flag)
        directory, name = os.path.split(os.path.abspath(module[: -len(".py")]))
        if directory not in sys.path:  # where worker processes find it, too
            sys.path.insert(0, directory)
    try:
        found = importlib.import_module(name)
    except Exception as e:
        raise UserError(f"{flag}: {module} cannot be imported: {type(e).__name__}: {e}") from e
    if module.endswith(".py") and not os.path.samefile(module, found.__file__ or os.devnull):
        raise UserError(
            f"{flag}: there is another module {name}, {found.__file__}; rename {module}"
        )
    return found
