"""One program at a time in a directory: a file that says who works there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Optional

from xlnet import files
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_BEAT = 20.         # [s] between the signs of life of who holds a lock
_SILENCE = 90.      # [s] without one, after which a process of another host is taken to be gone
_SETTLED = 1.       # [s] in which others that take over the same lock, or write it, are done


@contextlib.contextmanager
def held(path: str, what: str) -> Iterator[None]:
    """Holds the lock `path`, whose directory is made if need be, and shows all the while that this
    process lives.

    The lock of a process that is gone, a killed run's, is taken over, and so is one that a kill
    left half-written. Of another host's that is found out by waiting for a sign of life.

    Args:
      what: who is refused, and why, such as "model_dir: a run trains in DIRECTORY".

    Raises:
      UserError: another process holds it.
    """
    files.make_directory(os.path.dirname(path))
    pid = os.getpid()
    own = {"host": socket.gethostname(), "pid": pid, "process_start": _process_start(pid),
           "start": time.strftime("%Y-%m-%d %H:%M:%S")}
    _take(path, own, what)
    is_over = threading.Event()
    beating = threading.Thread(target=_beat, args=(path, own, is_over), daemon=True)
    beating.start()
    try:
        yield
    finally:
        is_over.set()
        beating.join()
        if _read(path) == own:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


def _take(path, own, what):
    while True:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            owner = _read(path) or _read_again(path)
            if owner and not _is_gone(path, owner):
                raise UserError(
                    "%s already, on host %s as process %s since %s; if it is gone, remove %s"
                    % (what, owner["host"], owner["pid"], owner["start"], path)) from None
            if os.path.exists(path) and _take_over(path, own):
                return
        else:
            _write(descriptor, own)
            return


def _write(file, own):
    with open(file, "w", encoding="utf-8") as f:
        json.dump(own, f)


def _take_over(path, own):
    """Puts our lock in the place of one whose owner is gone; returns False where another process
    did that, too, and was the last."""
    ours = "%s.%s-%d" % (path, own["host"], own["pid"])
    _write(ours, own)
    os.replace(ours, path)
    time.sleep(_SETTLED)
    return _read(path) == own


def _beat(path, own, is_over):
    while not is_over.wait(_BEAT):
        # Somebody removed it by hand, or a shared folder is away for a moment.
        with contextlib.suppress(OSError):
            if _read(path) not in (own, None):
                _log.warning("note: another process took over %s, as this one was not heard of for "
                             "%d s; stop one of them", path, _SILENCE)
                return
            os.utime(path)


def _read_again(path) -> Optional[dict[str, Any]]:
    """Who holds a lock that could not be read: its owner may have been about to write it."""
    time.sleep(_SETTLED)
    return _read(path)


def _read(path) -> Optional[dict[str, Any]]:
    """Who holds the lock; None if that is not written, or the lock is gone."""
    try:
        with open(path, encoding="utf-8") as f:
            owner = json.load(f)
        return owner if {"host", "pid", "start", "process_start"} <= set(owner) else None
    except (ValueError, TypeError, FileNotFoundError):
        return None


def _is_gone(path, owner) -> bool:
    """Whether the process is gone; its number may have gone to another since."""
    if owner["host"] != socket.gethostname():
        return _is_silent(path, owner)
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return owner["process_start"] != _process_start(owner["pid"])


def _is_silent(path, owner) -> bool:
    """Waits for a sign of life: the clocks of two hosts may differ, so that times say nothing."""
    _log.info("note: %s was written on host %s; whether that process lives shows in %d s", path,
              owner["host"], _SILENCE)
    with contextlib.suppress(FileNotFoundError):
        last, end = os.stat(path).st_mtime_ns, time.monotonic() + _SILENCE
        while time.monotonic() < end:
            time.sleep(min(1., _SILENCE / 10))
            if os.stat(path).st_mtime_ns != last:
                return False
    return True


def _process_start(pid) -> Optional[str]:
    """When a process began, in the kernel's clock; None where that cannot be told."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[19]
    except OSError:
        return None
