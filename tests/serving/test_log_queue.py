"""A reader of the server's log that stalls, ends or is slow."""

import logging
import threading
import time

import pytest

from xlnet.serving.server import log_queue

_log = logging.getLogger("xlnet.of_this_test")


class Stalling(logging.Handler):
    """Writes nothing until it may."""

    def __init__(self):
        super().__init__()
        self.lines, self.has_begun, self.may_write = [], threading.Event(), threading.Event()

    def emit(self, record):
        self.has_begun.set()
        self.may_write.wait()
        self.lines.append((record.levelno, record.getMessage()))


@pytest.fixture
def stalling(monkeypatch):
    handler = Stalling()
    log = logging.getLogger("xlnet")
    monkeypatch.setattr(log, "handlers", [handler])
    monkeypatch.setattr(log, "level", logging.INFO)
    yield handler
    handler.may_write.set()


def test_lines_are_in_order_and_complete_at_the_end(stalling):
    stalling.may_write.set()
    with log_queue.written_by_thread():
        for number in range(200):
            _log.log(logging.WARNING if number % 2 else logging.INFO, "line %d", number)
    assert stalling.lines == [
        (logging.WARNING if number % 2 else logging.INFO, f"line {number}") for number in range(200)
    ]
    assert logging.getLogger("xlnet").handlers == [stalling]


def test_lines_that_nobody_reads_are_dropped_and_counted(stalling, monkeypatch):
    monkeypatch.setattr(log_queue, "_MOST_LINES", 10)
    with log_queue.written_by_thread():
        _log.info("line 0")
        assert stalling.has_begun.wait(timeout=30)  # the thread holds line 0; the queue is empty
        for number in range(1, 50):  # none of them waits
            _log.info("line %d", number)
        stalling.may_write.set()
        while len(stalling.lines) < 11:  # line 0 and the 10 that had a place
            time.sleep(0.001)
        _log.info("the last one")
    assert [line for _, line in stalling.lines] == [
        *[f"line {number}" for number in range(11)],
        "note: 39 lines of the log were dropped: nobody read it",
        "the last one",
    ]


def test_lines_that_were_dropped_just_before_the_end_are_counted(stalling, monkeypatch):
    """The note was written with the next line, of which there was none."""
    monkeypatch.setattr(log_queue, "_MOST_LINES", 10)
    with log_queue.written_by_thread():
        _log.info("line 0")
        assert stalling.has_begun.wait(timeout=30)
        for number in range(1, 50):
            _log.info("line %d", number)
        threading.Timer(0.1, stalling.may_write.set).start()
    assert [line for _, line in stalling.lines] == [
        *[f"line {number}" for number in range(11)],
        "note: 39 lines of the log were dropped: nobody read it",
    ]


def test_the_end_does_not_wait_for_a_reader_that_has_stalled(stalling, monkeypatch):
    monkeypatch.setattr(log_queue, "_LONGEST_END", 0.1)
    with log_queue.written_by_thread():
        _log.info("a line")
    assert not stalling.lines


def test_a_reader_that_has_ended(stalling, monkeypatch):
    """Its pipe is broken; other lines go to another stream, and are written."""

    def emit(record):
        if record.levelno < logging.WARNING:
            raise BrokenPipeError
        stalling.lines.append((record.levelno, record.getMessage()))

    monkeypatch.setattr(stalling, "emit", emit)
    with log_queue.written_by_thread():
        _log.info("a line")
        _log.warning("another one")
    assert stalling.lines == [(logging.WARNING, "another one")]
