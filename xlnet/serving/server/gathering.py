"""Batches of the examples of requests that arrive at about the same time."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

Arrays = Mapping[str, np.ndarray]         # [B, ...] by name


class Busy(Exception):
    """Too many examples wait."""


class _Part(NamedTuple):
    """Examples of a request that are computed together."""
    key: Any                 # call and shapes of an example; equal in a batch
    arrays: Arrays
    size: int                # examples
    tokens: int              # of the longest example
    arrived: float           # [s]
    future: concurrent.futures.Future


class Gathering:
    """Runs a function on the examples of several requests at once, within one budget.

    A thread takes the oldest part that waits, and as many others of the same key as fit: those that
    arrive while a batch is computed are the next one. If fewer examples than fit wait, it waits for
    more. A request above the budget is split into parts.

    Args:
      run: function from (call, arrays [B, ...] by name) to a list of B answers.
      max_batch: examples of a batch, unless one request has more.
      budget: examples x tokens² of a batch, to which the memory of attention is proportional.
      wait: time to wait for more examples, from the arrival of the oldest one [s].
      max_waiting: examples that may wait.
      on_batch: called before each batch.

    Attributes:
      answered: time of the last answer, by `time.monotonic` [s].
    """

    def __init__(self, run: Callable[[Any, Arrays], list], *, max_batch: int, budget: int,
                 wait: float, max_waiting: int, on_batch: Callable[[], object] = lambda: None):
        self._run = run
        self._max_batch, self._budget = max_batch, budget
        self._wait = wait
        self._max_waiting = max_waiting
        self._on_batch = on_batch
        self._waiting: collections.deque[_Part] = collections.deque()
        self._alone = self._alone_cost = 0      # examples, and tokens², that `alone` counts
        self._changed = threading.Condition()
        self._is_closed = False
        self.answered = float("-inf")
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    @property
    def rows_waiting(self) -> int:
        with self._changed:
            return self._count() + self._alone

    def ask(self, call: Hashable, arrays: Arrays, tokens: np.ndarray,
            timeout: float | None = None) -> list:
        """The answers to B examples.

        Args:
          call: first argument of `run`.
          arrays: [B, ...] by name.
          tokens: of each example, int [B].
          timeout: for each part of the request [s]; None: no limit.

        Raises:
          Busy: too many examples wait.
          TimeoutError: there is no answer in time.
        """
        key = call, tuple((name, value.shape[1:]) for name, value in arrays.items())
        now = time.monotonic()
        parts = [_Part(key, {name: value[begin:end] for name, value in arrays.items()},
                       end - begin, int(tokens[begin:end].max()), now, concurrent.futures.Future())
                 for begin, end in self._slices(tokens)]
        with self._changed:
            self._admit(len(tokens))
            self._waiting.extend(parts)
            self._changed.notify_all()
        try:
            return [answer for part in parts for answer in part.future.result(timeout)]
        finally:                        # the other parts of a request that failed are not computed
            for part in parts:
                part.future.cancel()

    @contextlib.contextmanager
    def alone(self, count: int, tokens: int) -> Iterator[None]:
        """Counts examples that the caller computes one after another, next to the batches.

        They count as waiting until the end of the block. It begins once all such blocks together
        are within the budget.

        Args:
          count: examples.
          tokens: of the longest one.

        Raises:
          Busy: too many examples wait.
        """
        cost = tokens ** 2
        with self._changed:
            self._admit(count)
            self._alone += count
            self._changed.wait_for(
                lambda: not self._alone_cost or self._alone_cost + cost <= self._budget)
            self._alone_cost += cost
        try:
            yield
        finally:
            with self._changed:
                self._alone -= count
                self._alone_cost -= cost
                self._changed.notify_all()

    def _admit(self, count):
        waiting = self._count() + self._alone
        if self._is_closed or waiting and waiting + count > self._max_waiting:
            raise Busy("%d examples wait already, at most %d may" % (waiting, self._max_waiting))

    def close(self) -> None:
        """Answers the waiting examples and accepts no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def fits(self, count: int, tokens: int) -> bool:
        """Whether `count` examples of `tokens` tokens are within the budget."""
        return count * tokens ** 2 <= self._budget

    def _slices(self, tokens):
        """Yields (begin, end) of the parts of a request."""
        begin = 0
        for end in range(1, len(tokens)):
            if not self.fits(end + 1 - begin, int(tokens[begin:end + 1].max())):
                yield begin, end
                begin = end
        yield begin, len(tokens)

    def _count(self):
        return sum(part.size for part in self._waiting)

    def _work(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                until = self._waiting[0].arrived + self._wait
                self._changed.wait_for(
                    lambda: self._count() >= self._max_batch or self._is_closed,
                    timeout=max(until - time.monotonic(), 0))
                batch = self._taken()
            self._answer([part for part in batch if part.future.set_running_or_notify_cancel()])

    def _taken(self):
        """Takes the oldest part, and those of the same key that fit, from those that wait."""
        batch: list[_Part] = []
        left: collections.deque[_Part] = collections.deque()
        count = tokens = 0
        for part in self._waiting:
            most = max(tokens, part.tokens)
            if not batch or (
                    part.key == batch[0].key and count + part.size <= self._max_batch
                    and self.fits(count + part.size, most)):
                batch.append(part)
                count, tokens = count + part.size, most
            else:
                left.append(part)
        self._waiting = left
        return batch

    def _answer(self, batch):
        if not batch:
            return
        call = batch[0].key[0]
        try:
            self._on_batch()
            arrays = {name: np.concatenate([part.arrays[name] for part in batch])
                      for name in batch[0].arrays}
            found, count = self._run(call, arrays), sum(part.size for part in batch)
            if len(found) != count:
                raise ValueError("%d predictions for %d examples" % (len(found), count))
        except Exception as e:          # reported to its own request only
            if len(batch) == 1:
                batch[0].future.set_exception(e)
            else:
                for part in batch:
                    self._answer([part])
            return
        self.answered = time.monotonic()
        answers = iter(found)
        for part in batch:
            part.future.set_result([next(answers) for _ in range(part.size)])
