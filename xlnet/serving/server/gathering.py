"""Requests that arrive together, answered together."""

from __future__ import annotations

import collections
import concurrent.futures
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Arrays = Mapping[str, np.ndarray]         # [rows, ...] by name


class Busy(Exception):
    """More rows wait than may."""


class _Request(NamedTuple):
    key: Any                 # of those that may be in one batch: signature and shapes of a row
    arrays: Arrays
    rows: int
    arrived: float           # [s]
    future: concurrent.futures.Future


class Gathering:
    """Runs a function on the rows of several requests at once.

    One thread takes what waits: the oldest request, and those like it, as many as fit, so that all
    that arrive while a batch is computed are the next one. Only where it finds fewer rows than fit
    does it wait for more, `wait` seconds from the oldest one's arrival.

    Args:
      run: function from (signature, arrays [rows, ...] by name) to such arrays.
      max_rows: rows of a batch, unless a single request has more.
      wait: for more rows [s].
      max_waiting: rows that may wait.
    """

    def __init__(self, run: Callable[[str, Arrays], Arrays], *, max_rows: int, wait: float,
                 max_waiting: int):
        self._run = run
        self._max_rows = max_rows
        self._wait = wait
        self._max_waiting = max_waiting
        self._waiting: collections.deque[_Request] = collections.deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self.batches = 0            # computed
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    @property
    def rows_waiting(self) -> int:
        with self._changed:
            return self._count()

    def ask(self, signature: str, arrays: Arrays) -> Arrays:
        """The answers to some rows, once they are there.

        Raises:
          Busy: too many rows wait. What `run` raises.
        """
        count = len(next(iter(arrays.values())))
        key = signature, tuple((name, value.shape[1:]) for name, value in arrays.items())
        request = _Request(key, arrays, count, time.monotonic(), concurrent.futures.Future())
        with self._changed:
            if self._is_closed or self._count() and self._count() + count > self._max_waiting:
                raise Busy("%d rows wait already, at most %d may" % (
                    self._count(), self._max_waiting))
            self._waiting.append(request)
            self._changed.notify()
        return request.future.result()

    def close(self) -> None:
        """Answers what waits, and takes no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _count(self):
        return sum(request.rows for request in self._waiting)

    def _work(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                until = self._waiting[0].arrived + self._wait
                self._changed.wait_for(
                    lambda: self._count() >= self._max_rows or self._is_closed,
                    timeout=max(until - time.monotonic(), 0))
                batch = self._taken()
            self._answer(batch)

    def _taken(self):
        """The oldest request and those like it that fit, taken from those that wait."""
        batch: list[_Request] = []
        left: collections.deque[_Request] = collections.deque()
        rows = 0
        for request in self._waiting:
            if not batch or (request.key == batch[0].key
                             and rows + request.rows <= self._max_rows):
                batch.append(request)
                rows += request.rows
            else:
                left.append(request)
        self._waiting = left
        return batch

    def _answer(self, batch):
        signature = batch[0].key[0]
        arrays = {name: np.concatenate([request.arrays[name] for request in batch])
                  for name in batch[0].arrays}
        self.batches += 1
        try:
            answers = self._run(signature, arrays)
        except Exception as e:          # told to the one who asked, and to nobody else
            if len(batch) == 1:
                batch[0].future.set_exception(e)
            else:
                for request in batch:
                    self._answer([request])
            return
        first = 0
        for request in batch:
            request.future.set_result({name: value[first:first + request.rows]
                                       for name, value in answers.items()})
            first += request.rows
