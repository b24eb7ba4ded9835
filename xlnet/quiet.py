"""The import of TensorFlow without its log lines."""

from __future__ import annotations

import contextlib
import os
import sys


def import_tensorflow() -> None:
    """Imports TensorFlow without what its libraries write to stderr.

    From 2.18 on they write lines that TF_CPP_MIN_LOG_LEVEL does not stop. What Python writes is
    shown, and so is everything if the user has set that variable to less than 3.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") < "3" or "tensorflow" in sys.modules:
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):      # stderr may be closed
            shown = stack.enter_context(os.fdopen(os.dup(2), "w"))
            stack.callback(os.dup2, shown.fileno(), 2)
            stack.enter_context(contextlib.redirect_stderr(shown))
            dropped = os.open(os.devnull, os.O_WRONLY)
            os.dup2(dropped, 2)
            os.close(dropped)
        import tensorflow  # noqa: F401
