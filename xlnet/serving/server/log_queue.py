"""The log of a server, written by a thread: whoever stops reading it stops no client."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import queue
import time
from collections.abc import Iterator
from typing import Any

_MOST_LINES = 1000  # that wait to be written; later ones are dropped and counted
_LONGEST_END = 1.0  # how long the end of the server waits for the last lines [s]


@contextlib.contextmanager
def written_by_thread() -> Iterator[None]:
    """Inside, the log of this library goes to a queue, and a thread gives it to its handlers.

    A pipe that nobody reads is full after 64 kB. The next line would wait for its reader, and with
    it the event loop, which answers all clients.
    """
    log, lines = logging.getLogger("xlnet"), queue.Queue[Any](_MOST_LINES)
    handlers = list(log.handlers)
    enqueuing = _Enqueuing(lines)
    log.handlers = [enqueuing]
    _Writing(lines, *handlers).start()
    try:
        yield
    finally:
        log.handlers = handlers
        # The thread is a daemon: if it still waits for a reader, it ends with the process.
        end = time.monotonic() + _LONGEST_END
        with contextlib.suppress(queue.Full):  # nobody reads it to the end
            enqueuing.note_dropped(_LONGEST_END)
        while lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)


class _Enqueuing(logging.handlers.QueueHandler):
    """Puts records into a queue, without waiting where that is full."""

    queue: Any  # a `queue.Queue`
    _dropped = 0

    def note_dropped(self, timeout: float = 0.0) -> None:
        """Puts a note of the lines that were dropped, if any were; queue.Full if there is no place
        for it within so many seconds."""
        if self._dropped:
            said = f"note: {self._dropped} lines of the log were dropped: nobody read it"
            note = logging.makeLogRecord({"levelno": logging.WARNING, "msg": said})
            self.queue.put(note, timeout=timeout)
            self._dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.note_dropped()
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1


class _Writing(logging.handlers.QueueListener):
    """Gives the records of a queue to handlers, in a thread."""

    def handle(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # its reader has ended, and will read no other line
            super().handle(record)
