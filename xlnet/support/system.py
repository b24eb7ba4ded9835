"""A process and its system: imports of TensorFlow and of modules of a user, cores, locks of
directories."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.metadata
import importlib.util
import logging
import math
import os
import pathlib
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_log = logging.getLogger(__name__)


def import_tensorflow() -> None:
    """Imports TensorFlow without what its libraries write to stderr.

    From 2.18 on they write lines that TF_CPP_MIN_LOG_LEVEL does not stop. What Python writes is
    shown, and so is everything if the user has set that variable to less than 3.
    """
    if "tensorflow" in sys.modules:
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(_without_keras())
        if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") >= "3":
            # C++ writes to file descriptor 2, stderr, which becomes the null device here. What
            # Python prints goes to `shown`, a copy of the real one. When the block ends, the stack
            # undoes this in reverse order: `dup2` makes 2 the real one again.
            shown = stack.enter_context(os.fdopen(os.dup(2), "w"))
            stack.callback(os.dup2, shown.fileno(), 2)
            stack.enter_context(contextlib.redirect_stderr(shown))
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, 2)
            os.close(null_device)
        import tensorflow  # noqa: F401


def _tensorflow_version() -> tuple[int, ...]:
    """(major, minor) of TensorFlow; (0,), less than any version, for a build under another name."""
    try:
        version = importlib.metadata.version("tensorflow")
    except importlib.metadata.PackageNotFoundError:
        return (0,)
    return tuple(map(int, version.split(".")[:2]))


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """Keeps TensorFlow from importing Keras 3, and scikit-learn and SciPy with it: 1.2 s of each
    start.

    While TF_USE_LEGACY_KERAS is set, which is documented, TensorFlow looks for tf_keras instead.
    The variable is removed afterwards, so that `tf.keras` is Keras 3, imported when it is used.
    """
    name = "TF_USE_LEGACY_KERAS"
    # Left alone: versions that do not import Keras 3, a choice of the user, and an installed
    # tf_keras, which would be imported in its place.
    if (
        _tensorflow_version() < (2, 16)
        or name in os.environ
        or importlib.util.find_spec("tf_keras")
    ):
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


# ---- a module of a user, which registers task types, objectives or factorization orders


def import_own_module(module: str | None) -> dict[str, Any]:
    """Imports the module of --own_module and returns its variables by name.

    The directory of a file is searched for what the file imports, and stays in `sys.path`.

    Args:
      module: FILE.py, or the name of an installed module; None: there is none, so {} is returned.

    Raises:
      UserError: there is no such file, it raises an error, another module has its name, or it was
        changed after it had been imported: Python imports it once, and what it has registered may
        be in use.
    """
    if not module:
        return {}
    flag = "own_module"
    name, is_file = module, module.endswith(".py")
    if is_file:
        files.require_file(module, flag)
        directory, name = os.path.split(os.path.abspath(module.removesuffix(".py")))
        if directory not in sys.path:
            sys.path.insert(0, directory)
    try:
        imported = importlib.import_module(name)
    except Exception as e:
        raise UserError(
            f"{flag}: {module} cannot be imported: {type(e).__name__}: {e}"
        ) from e
    if is_file:
        # A directory that has the name, and a module that is built into Python, have no file; then
        # the null device is compared, which differs from any file.
        file = getattr(imported, "__file__", None) or os.devnull
        if not os.path.samefile(module, file):
            another = f"another module {name}, {imported}"
            raise wrong(flag, another, f"{module}, under a name of its own")
        # The first import keeps the digest of the file as a variable of the module, which Python
        # has until the process ends.
        digest = files.sha256(module)
        digest_at_import = vars(imported).setdefault("__sha256__", digest)
        if digest_at_import != digest:
            changed = f"{module}, changed since this process imported it"
            raise wrong(flag, changed, "a new process; in a notebook, a restart")
    return vars(imported)


# ---- the cores of a job or a container

# The CPU time that a container has, as by Docker's --cpus: quota and period [µs], or "max" for no
# quota. Their ratio is a number of cores.
_QUOTA = "/sys/fs/cgroup/cpu.max"


def available_cores() -> int:
    """How many cores this process may use, by its affinity and the quota of its container."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        quota, period = map(int, pathlib.Path(_QUOTA).read_text().split())
    except (OSError, ValueError):  # no such file, or "max"
        return count
    return min(count, math.ceil(quota / period))


# ---- one program at a time in a directory: a file locked with `flock`
#
# The kernel releases the lock when the process ends, however it ends; workers are spawned, not
# forked, and do not have it. It is effective between containers, and between hosts on file systems
# that share locks, such as NFS.


@contextlib.contextmanager
def locked(path: str, meaning: str) -> Iterator[None]:
    """Holds a lock while the block runs.

    Args:
      path: the file to lock, which is made, with its directory, and is not removed here.
      meaning: what it means that the lock is held, with which errors begin, such as "model_dir: a
        run trains in X".

    Raises:
      UserError: another process holds the lock.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # Mode "a+" makes the file if needed, and keeps what its holder has written.
    with open(path, "a+", encoding="utf-8", errors="replace") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            f.seek(0)
            owner = f.read(1000)  # as below: "on host a as process 7 since ..."
            raise UserError(
                f"{meaning} already, {owner}; stop it, or wait for it"
            ) from None
        except OSError:
            _log.warning("note: the file system of %s has no locks", path)
        f.truncate(0)  # an earlier holder has left its line
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        host, process = socket.gethostname(), os.getpid()
        f.write(f"on host {host} as process {process} since {now}")
        f.flush()
        yield
