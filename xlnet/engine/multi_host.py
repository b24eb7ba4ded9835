"""Training on several hosts: when one of them is lost, the others end too.

TensorFlow would wait for the lost host forever: interrupted sums over hosts do not recover until
the program is restarted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import distribution, private_tf
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 5
_MISSES = 3             # in a row, after which a host counts as lost
_SECONDS_FOR_AN_ANSWER = 10
_SECONDS_TO_END = 10    # for a step, when its session is closed


class Lost(UserError):
    """Another host died, was started again, or cannot be reached."""
    ends_at_once = True     # the thread that closes the session may still be in TensorFlow

    def __init__(self, host: str):
        super().__init__("lost %s; start the same command again on all hosts" % host)


def missing() -> Optional[str]:
    """The name of a host that does not answer; None if all answer."""
    for index, (name, address) in enumerate(distribution.all_hosts()):
        try:
            private_tf.check_host_answers(name, _SECONDS_FOR_AN_ANSWER)
        except tf.errors.OpError:
            return "host %d (%s)" % (index, address)
    return None


class PeerMonitor:
    """Counts how many times in a row a host did not answer."""

    def __init__(self):
        self._misses = 0

    def lost(self, is_watched: Callable[[], bool] = lambda: True) -> Optional[str]:
        """Checks once more; returns the name of a host that is lost, or None."""
        host = missing() if is_watched() else None
        self._misses = self._misses + 1 if host and is_watched() else 0
        return host if self._misses >= _MISSES else None


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits until `condition()` holds; returns False if it does not within that time.

    Raises:
      Lost: a host is.
    """
    monitor, begun = PeerMonitor(), time.time()
    next_look = begun + _SECONDS_BETWEEN_LOOKS
    while not condition():
        time.sleep(0.02)
        if time.time() > begun + seconds:
            return False
        if time.time() > next_look:
            lost, next_look = monitor.lost(), time.time() + _SECONDS_BETWEEN_LOOKS
            if lost:
                raise Lost(lost)
    return True


@contextlib.contextmanager
def together() -> Iterator[Watch]:
    """Yields a `Watch`, to be the first hook of the training inside.

    Raises:
      Lost: a host is.
    """
    watch = Watch()
    try:
        yield watch
    except tf.errors.OpError as e:
        if not watch.lost and not isinstance(e, (tf.errors.UnavailableError,
                                                 tf.errors.AbortedError)):
            raise
        raise Lost(watch.lost or missing() or "the connection to another host") from None
    finally:
        watch.stop()


class Watch(tf.train.SessionRunHook):
    """Checks that all hosts answer while the session is created and during each step, and
    interrupts these if one does not.

    Between steps it does not check: this host may be saving when others have finished.
    """

    def __init__(self):
        self._session: Optional[tf.Session] = None      # once it is made, of all hosts
        self._in_step = True
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)
        self.lost: Optional[str] = None    # the name of the lost host

    def begin(self) -> None:
        self._looking.start()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._session, self._in_step = session, False

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        self._in_step = True

    def after_run(self, run_context: tf.train.SessionRunContext,
                  run_values: tf.train.SessionRunValues) -> None:
        self._in_step = False

    def end(self, session: tf.Session) -> None:
        self.stop()

    def _look(self):
        monitor = PeerMonitor()
        while not self.lost and not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            self.lost = monitor.lost(lambda: self._in_step)
        if not self.lost:
            return
        if self._session:       # the step ends with an error; a first one may wait all the same
            threading.Thread(target=self._session.close, daemon=True).start()
        if not self._ended.wait(_SECONDS_TO_END):
            _end_program(Lost(self.lost))

    def stop(self) -> None:
        """Ends the checks. Waits for a running one: a thread that returns from TensorFlow while the
        interpreter exits would abort the program."""
        self._ended.set()
        if self._looking.is_alive():
            self._looking.join()


def _end_program(error):
    """Exits at once: other threads wait for the lost host in TensorFlow, beyond any interrupt."""
    _log.error("%s: %s", os.path.basename(sys.argv[0]), error)
    sys.stdout.flush()
    os._exit(1)
