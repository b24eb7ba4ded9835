"""One run in a model directory at a time: a file that says who trains there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any, Optional

from xlnet.errors import UserError

NAME = "training.lock"


@contextlib.contextmanager
def held(model_dir: str) -> Iterator[None]:
    """Keeps other runs out of `model_dir`, which is made if need be.

    The lock of a process of this host that is gone, a killed run's, is taken over, and so is one
    that a kill left half-written. Whether one of another host is gone cannot be known.

    Raises:
      UserError: another run trains there.
    """
    os.makedirs(model_dir, exist_ok=True)
    path = os.path.join(model_dir, NAME)
    _take(path)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _take(path):
    for _ in range(2):      # the second time without the lock of a dead process
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            owner = _read(path) or _read_again(path)
            if owner is not None and not _is_dead(owner):
                break
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            continue
        with open(descriptor, "w", encoding="utf-8") as f:
            json.dump({"host": socket.gethostname(), "pid": os.getpid(),
                       "start": time.strftime("%Y-%m-%d %H:%M:%S"),
                       "process_start": _process_start(os.getpid())}, f)
        return
    owner = owner or {}
    raise UserError(
        "model_dir: a run trains in %s already, on host %s as process %s since %s; if it is gone, "
        "remove %s" % (os.path.dirname(path), owner.get("host", "unknown"),
                       owner.get("pid", "unknown"), owner.get("start", "unknown"), path))


def _read_again(path, seconds=1.) -> Optional[dict[str, Any]]:
    """Who holds a lock that could not be read: its owner may have been about to write it."""
    time.sleep(seconds)
    return _read(path)


def _read(path) -> Optional[dict[str, Any]]:
    """Who holds the lock; None if that is not written, or the lock is gone."""
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (ValueError, FileNotFoundError):
        return None


def _is_dead(owner) -> bool:
    """Whether the process is known to be gone; its number may have gone to another since."""
    if owner["host"] != socket.gethostname():
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return owner["process_start"] != _process_start(owner["pid"])


def _process_start(pid) -> Optional[str]:
    """When a process began, in the kernel's clock; None where that cannot be told."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[19]
    except OSError:
        return None
