"""The import of TensorFlow without its log lines, and without Keras."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator


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
            # The file descriptor is redirected, as C++ writes to it. What Python prints goes to a
            # copy of it, which is shown.
            shown = stack.enter_context(os.fdopen(os.dup(2), "w"))
            stack.callback(os.dup2, shown.fileno(), 2)
            stack.enter_context(contextlib.redirect_stderr(shown))
            dropped = os.open(os.devnull, os.O_WRONLY)
            os.dup2(dropped, 2)
            os.close(dropped)
        import tensorflow  # noqa: F401


def _version() -> tuple[int, ...]:
    """Major and minor number of TensorFlow; (0,) for a build under another name."""
    try:
        return tuple(map(int, importlib.metadata.version("tensorflow").split(".")[:2]))
    except importlib.metadata.PackageNotFoundError:
        return (0,)


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """Keeps TensorFlow from importing Keras 3, scikit-learn and SciPy with it: 1.2 s of each start.

    It looks for tf_keras instead, if this documented variable is set while it is imported. Without
    it afterwards, `tf.keras` is Keras 3, which is imported when it is used.
    """
    name = "TF_USE_LEGACY_KERAS"
    if (
        _version() < (2, 16)
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
