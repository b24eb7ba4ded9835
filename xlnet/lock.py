"""One program at a time in a directory: a file locked with `flock`.

The package filelock leaves its files behind and, before its version 4, may lock one that another
process has just removed. The kernel releases the lock when the process ends, however it ends;
workers are spawned, not forked, and do not have it. It holds between containers, and between hosts
on file systems that share locks, such as NFS.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from typing import IO, Optional

from xlnet import files
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_GRACE = 2.0  # [s] in which a process that was killed just now is gone
_LACKING = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


@contextlib.contextmanager
def held(path: str, what: str) -> Iterator[None]:
    """Holds the lock `path`, and creates its directory if needed; a UserError, which begins with
    `what`, if another process holds it, or if the block failed and its directory is gone."""
    files.make_directory(os.path.dirname(path))
    place = DirectoryGuard(os.path.dirname(path), what.partition(":")[0])
    place.check()
    with contextlib.ExitStack() as stack:
        f = _lock(path, what)
        stack.callback(_close, f)
        try:
            try:
                f.truncate(0)
                f.write(
                    "on host {} as process {} since {}".format(
                        socket.gethostname(), os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S")
                    )
                )
                f.flush()
            except OSError as e:  # the error of an open file does not name it
                raise OSError(e.errno, e.strerror, path) from None
            yield
        except Exception:
            place.check()  # the failure may have the missing directory as its cause
            raise
        finally:
            with contextlib.suppress(OSError):
                if _is_file(f, path):
                    os.remove(path)


class DirectoryGuard:
    """A directory in which a run works, remembered at the first check; it may not exist yet."""

    def __init__(self, directory: str, flag: str):
        self._directory, self._flag = directory, flag
        self._stat: Optional[os.stat_result] = None

    def check(self) -> None:
        """Call it before each write that would create the directory again.

        Raises:
          UserError: the directory was removed or moved; perhaps there is another of its name.
        """
        try:
            now = os.stat(self._directory)
            self._stat = self._stat or now
            if os.path.samestat(now, self._stat):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise UserError(
            f"{self._flag}: {self._directory} was removed, moved or replaced while the run worked "
            "in it; nothing more is written: start again where its files are"
        ) from None


def _close(file: IO[str]) -> None:
    """Closes a file, also where a full disk does not take what is still buffered."""
    with contextlib.suppress(OSError):
        file.close()


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
        except OSError as e:
            if e.errno in _LACKING:
                _log.warning(
                    "note: the file system of %s has no locks: see that only one process "
                    "works there",
                    path,
                )
                return f
            if time.monotonic() > end:
                f.seek(0)
                owner = f.read(1000).strip()
                f.close()
                raise UserError(
                    "{} already, {}; stop it, or wait for it".format(
                        what, owner or "in another process"
                    )
                ) from None
        f.close()
        time.sleep(min(0.1, _GRACE / 4))


def _is_file(f: IO[str], path: str) -> bool:
    """Whether the path still names this open file: the previous holder removes it."""
    try:
        return os.path.samestat(os.fstat(f.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
