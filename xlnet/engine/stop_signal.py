"""Signals that stop a run: at once where nothing is lost, else after a step, on all hosts."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.engine.devices import local_parts
from xlnet.errors import Unfinished

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class Interrupted(BaseException):
    """A signal came during work that need not finish."""


@contextlib.contextmanager
def ended_by_signals(work: str) -> Iterator[None]:
    """The signals that stop a run end the work inside, which starts again with the same command.

    Args:
      work: what it is, for the error, such as "the evaluation".

    Raises:
      Unfinished: one has come.
    """

    def end(signum: int, frame: Any) -> None:
        raise Interrupted(signal.Signals(signum).name)  # no handler on its way up catches it

    before = {}
    # only the main thread may set handlers
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            if signal.getsignal(signum) != signal.SIG_IGN:
                before[signum] = signal.signal(signum, end)
    try:
        yield
    except Interrupted as e:
        raise Unfinished(f"stopped by {e} in {work}; run the same command again") from None
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


class StopSignal:
    """SIGTERM, SIGINT (Ctrl-C), or SIGUSR1 and SIGUSR2 of batch systems on any host, seen by all
    hosts in the same step through a number that each step sums. A second Ctrl-C ends the program
    at once.

    A signal that was ignored when the program started stays ignored: shells start background jobs
    with SIGINT ignored.
    """

    def __init__(self) -> None:
        self._asked: Optional[int] = None
        self._before: dict[int, Any] = {}
        self._may_interrupt = False

    def begin(self) -> tf.Tensor:
        """Handles signals from now on. Call it when the graph is complete.

        Returns:
          The tensor to fetch in each step: 0 until a signal has come to any host.
        """
        step = train_step.step_of_graph()
        # Several hosts must stop in the same step, so all must see the same number: a signal sets a
        # variable of this host, and the next step sums that over all hosts.
        self._raise = tf.group(
            *[part.assign(1.0, read_value=False) for part in local_parts(step.stop_asked)]
        )
        # Only the main thread may set handlers.
        if threading.current_thread() is threading.main_thread():
            self._before = {
                signum: signal.signal(signum, self._ask)
                for signum in _SIGNALS
                if signal.getsignal(signum) != signal.SIG_IGN
            }
        return step.stop

    @property
    def is_asked(self) -> bool:
        """Whether a signal came to this host."""
        return self._asked is not None

    @property
    def name(self) -> str:
        """The signal that stopped the run; SIGTERM if it came to another host."""
        return signal.Signals(self._asked or signal.SIGTERM).name

    def _ask(self, signum: int, frame: Any) -> None:
        self._asked = signum
        # A second Ctrl-C has Python's own meaning.
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
        if self._may_interrupt:
            self._may_interrupt = False
            raise Interrupted()

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """A signal interrupts the work inside.

        Raises:
          Interrupted: one has come, perhaps before.
        """
        if self._asked:
            raise Interrupted()
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def pass_on(self, session: tf.Session) -> None:
        """Tells the other hosts of a signal. Call it before each step."""
        # The signal is part of the sums of the step, which all hosts make together.
        if self._asked:
            session.run(self._raise)

    def end(self) -> None:
        """Gives signals back to those who handled them before."""
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
