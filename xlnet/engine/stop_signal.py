"""Signals that stop a run: at once where nothing is lost, else after a step, on all hosts."""

from __future__ import annotations

import signal
import threading
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import devices
from xlnet.support.errors import Unfinished

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
_ASKED = "stop_asked"  # the graph's collection of the variable of each host


def seen_by_all_hosts() -> tf.Tensor:
    """The tensor of a step, float32 [], that is above 0 on all hosts once a signal has come to one
    of them. Called in the graph of each replica."""
    # Several hosts must stop in the same step, so all must see the same number: a signal sets a
    # variable of this host, and the next step takes its mean over all hosts.
    asked = devices.local_variable("stop_asked_here", [])
    tf.add_to_collection(_ASKED, asked)
    (mean,) = devices.mean_over_replicas([asked.read_value()])
    return tf.identity(mean)


class StopSignal:
    """SIGTERM, SIGINT (Ctrl-C), or SIGUSR1 and SIGUSR2 of batch systems, within a `with` block. A
    second Ctrl-C ends the program at once.

    A signal that was ignored when the program started stays ignored: shells start background jobs
    with SIGINT ignored.

    Args:
      ends_at_once: whether a signal raises `Unfinished`, as in work that starts again with the
        same command; else it is noted.
    """

    def __init__(self, ends_at_once: bool = False) -> None:
        self._ends_at_once = ends_at_once
        self._received: Optional[int] = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        # Only the main thread may set handlers.
        if threading.current_thread() is threading.main_thread():
            for signum in _SIGNALS:
                if signal.getsignal(signum) != signal.SIG_IGN:
                    self._before[signum] = signal.signal(signum, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    @property
    def is_received(self) -> bool:
        """Whether a signal came to this host."""
        return self._received is not None

    @property
    def name(self) -> str:
        """The signal that stopped the run; SIGTERM if it came to another host."""
        return signal.Signals(self._received or signal.SIGTERM).name

    def _receive(self, signum: int, frame: Any) -> None:
        self._received = signum
        # A second Ctrl-C has Python's own meaning.
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._ends_at_once:
            raise Unfinished(f"stopped by {self.name}; run the same command again")

    def pass_on(self, session: tf.Session) -> None:
        """Tells the other hosts of a signal. Call it before each step."""
        if self._received:
            for part in devices.local_parts(tf.get_collection(_ASKED)[0]):
                devices.set_value(session, part, 1.0)
