"""One program at a time in a directory: a file locked with `flock`.

The kernel releases the lock when the process ends, however it ends; workers are spawned, not
forked, and do not have it. It holds between containers, and between hosts on file systems that
share locks, such as NFS.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from typing import IO

from xlnet.support.errors import UserError

_log = logging.getLogger(__name__)

_GRACE = 2.0  # [s] in which a process that was killed just now is gone


@contextlib.contextmanager
def held(path: str, what: str) -> Iterator[None]:
    """Holds the lock `path`, and creates its directory if needed; a UserError, which begins with
    `what`, if another process holds it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _lock(path, what) as f:
        try:
            f.truncate(0)
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            f.write(
                f"on host {socket.gethostname()} as process {os.getpid()} since {now}"
            )
            f.flush()
            yield
        finally:
            if _is_file(f, path):
                os.remove(path)


def _lock(path: str, what: str) -> IO[str]:
    """The locked file, open."""
    # The previous holder removes the file as it ends. So the file that is locked here may no longer
    # have its name; then the file of that name is opened and locked instead. A holder that was
    # killed may need a moment to end, for which this waits.
    end = time.monotonic() + _GRACE
    while True:
        f = open(path, "a+", encoding="utf-8", errors="replace")
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file(f, path):
                return f
        except BlockingIOError:
            if time.monotonic() > end:
                f.seek(0)
                owner = f.read(1000).strip()
                f.close()
                raise UserError(
                    f"{what} already, {owner}; stop it, or wait for it"
                ) from None
        except OSError:
            _log.warning("note: the file system of %s has no locks", path)
            return f
        f.close()
        time.sleep(min(0.1, _GRACE / 4))


def _is_file(f: IO[str], path: str) -> bool:
    """Whether the path still names this open file: the previous holder removes it."""
    try:
        return os.path.samestat(os.fstat(f.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
