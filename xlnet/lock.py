"""One program at a time in a directory: a file locked with `flock`.

The package filelock leaves its files behind and, before its version 4, may lock one that another
process has just removed. The kernel releases the lock when the process ends, however it ends. It
holds between containers, and between hosts on file systems that share locks, such as NFS.
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

from xlnet import files
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_GRACE = 2.         # [s] in which a process that was killed just now is gone
_LACKING = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
_held: set[int] = set()     # descriptors


def _leave_to_parent():
    """A forked process also has the lock, and would keep it after its parent ends."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextlib.contextmanager
def held(path: str, what: str) -> Iterator[None]:
    """Holds the lock `path`, and creates its directory if needed.

    Args:
      what: start of the error, such as "model_dir: a run trains in DIRECTORY".

    Raises:
      UserError: another process holds the lock.
    """
    files.make_directory(os.path.dirname(path))
    descriptor = _lock(path, what)
    _held.add(descriptor)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, ("on host %s as process %d since %s" % (
            socket.gethostname(), os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S"))).encode())
        yield
    finally:
        if descriptor in _held:         # not in a forked process
            with contextlib.suppress(OSError):
                if _is_file(descriptor, path):
                    os.remove(path)
            _held.remove(descriptor)
            os.close(descriptor)


def _lock(path, what):
    """The descriptor of the locked file."""
    end = time.monotonic() + _GRACE
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file(descriptor, path):
                return descriptor
        except OSError as e:
            if e.errno in _LACKING:
                _log.warning("note: the file system of %s has no locks: see that only one process "
                             "works there", path)
                return descriptor
            if time.monotonic() > end:
                owner = os.read(descriptor, 1000).decode("utf-8", "replace").strip()
                os.close(descriptor)
                raise UserError("%s already, %s; stop it, or wait for it" % (
                    what, owner or "in another process")) from None
        os.close(descriptor)
        time.sleep(min(0.1, _GRACE / 4))


def _is_file(descriptor, path):
    """Whether the path still names this file: the previous holder removes it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
