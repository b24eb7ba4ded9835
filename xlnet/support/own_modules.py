"""Modules of a user, named by flags, that register own parts: task types, objectives, orders."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from xlnet.support import files
from xlnet.support.errors import UserError, wrong


def load(module: str | None) -> dict[str, Any]:
    """Imports FILE.py or the name of an installed module, that of --own_module; returns its
    variables, {} without a module. The directory of FILE.py is searched for what it imports, and
    stays in `sys.path`.

    Raises:
      UserError: there is no such file, it raises an error, another module has its name, or it was
        changed after it had been imported: Python imports it once, and its parts may be in use.
    """
    if not module:
        return {}
    flag = "own_module"
    name, is_file = module, module.endswith(".py")
    if is_file:
        files.require_file(module, flag)
        directory, name = os.path.split(os.path.abspath(module[: -len(".py")]))
        if directory not in sys.path:
            sys.path.insert(0, directory)
    try:
        found = importlib.import_module(name)
    except Exception as e:
        raise UserError(
            f"{flag}: {module} cannot be imported: {type(e).__name__}: {e}"
        ) from e
    if is_file:
        if not os.path.samefile(module, found.__file__ or os.devnull):
            another = f"another module {name}, {found.__file__}"
            raise wrong(flag, another, f"{module}, under a name of its own")
        # What was imported is remembered in the module itself, which Python keeps.
        digest = files.sha256(module)
        imported = vars(found).setdefault("__sha256__", digest)
        if imported != digest:
            changed = f"{module}, changed since this process imported it"
            raise wrong(flag, changed, "a new process; in a notebook, a restart")
    return vars(found)
