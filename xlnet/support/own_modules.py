"""Modules of a user, named by flags, that register own parts: task types, objectives, orders."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_imported: dict[str, str] = {}  # SHA-256 of the files by their paths


def require_unchanged(module: str, flag: str) -> None:
    """Raises UserError if a file was changed since this process imported it: Python imports it
    once, and what it registered may be in use."""
    digest = _imported.get(os.path.realpath(module))
    if digest is not None and os.path.exists(module) and files.sha256(module) != digest:
        raise UserError(
            f"{flag}: {module} was changed since this process imported it; start a new process "
            "(in a notebook, restart it: reloading the module is not enough)"
        )


def digest_of(path: str) -> str:
    """SHA-256 of a module's file, as this process has imported it or first asked for it: the file
    may be edited while its code runs."""
    return _imported.setdefault(os.path.realpath(path), files.sha256(path))


def load(module: str, flag: str) -> ModuleType:
    """Imports FILE.py or the name of an installed module.

    Raises:
      UserError: there is no such file, it raises an error, another module has its name, or it was
        changed after it had been imported.
    """
    name, is_file = module, module.endswith(".py")
    if is_file:
        files.require_file(module, flag)
        require_unchanged(module, flag)
        digest = files.sha256(module)
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
        _imported.setdefault(os.path.realpath(module), digest)
    return found
