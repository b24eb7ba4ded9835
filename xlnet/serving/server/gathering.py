"""Batches of the examples of requests that arrive at about the same time."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from xlnet.errors import UserError

Arrays = Mapping[str, np.ndarray]         # [B, ...] by name


class Busy(UserError):
    """Too many examples wait."""
    http_status = 503


class _Example(NamedTuple):
    """An example of a request."""
    key: Any                 # call and shapes; equal in a batch
    arrays: Arrays           # [1, ...]
    tokens: int
    future: concurrent.futures.Future


def by_row(answers: Iterable[Any]) -> list:
    """The answers to the examples of a request.

    Raises:
      UserError: one is an error, or fails with one; it is named by the number of its example.
    """
    found: list[Any] = []
    try:
        for answer in answers:
            if isinstance(answer, UserError):
                raise answer
            found.append(answer)
    except UserError as e:
        raise UserError("row %d: %s" % (len(found), e)) from None
    return found


class Gathering:
    """Runs a function on the examples of several requests at once, within one budget.

    A thread takes the oldest example that waits, and as many others of the same key as fit: those
    that arrive while a batch is computed are the next one.

    Args:
      run: function from (call, arrays [B, ...] by name) to a list of B answers; that of a bad
        example is its UserError.
      max_batch: most examples of a batch.
      budget: examples x tokens² of a batch, to which the memory of attention is proportional.
      max_waiting: examples that may wait.
      on_batch: called before each batch.

    Attributes:
      answered: time of the last answer, by `time.monotonic` [s].
    """

    def __init__(self, run: Callable[[Any, Arrays], list], *, max_batch: int, budget: int,
                 max_waiting: int, on_batch: Callable[[], object] = lambda: None):
        self._run = run
        self._max_batch, self._budget = max_batch, budget
        self._max_waiting = max_waiting
        self._on_batch = on_batch
        self._waiting: collections.deque[_Example] = collections.deque()
        self._alone = self._alone_cost = 0      # examples, and tokens², that `alone` counts
        self._changed = threading.Condition()
        self._is_closed = False
        self.answered = float("-inf")
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    @property
    def rows_waiting(self) -> int:
        with self._changed:
            return len(self._waiting) + self._alone

    def ask(self, call: Hashable, arrays: Arrays, tokens: np.ndarray,
            timeout: float | None = None) -> list:
        """The answers to B examples.

        Args:
          call: first argument of `run`.
          arrays: [B, ...] by name.
          tokens: of each example, int [B].
          timeout: for each example [s]; None: no limit.

        Raises:
          Busy: too many examples wait.
          TimeoutError: there is no answer in time.
          UserError: an example is bad.
        """
        key = call, tuple((name, value.shape[1:]) for name, value in arrays.items())
        examples = [_Example(key, {name: value[i:i + 1] for name, value in arrays.items()},
                             int(size), concurrent.futures.Future())
                    for i, size in enumerate(tokens)]
        with self._changed:
            self._admit(len(examples))
            self._waiting.extend(examples)
            self._changed.notify_all()
        try:
            return by_row(example.future.result(timeout) for example in examples)
        finally:                    # the other examples of a request that failed are not computed
            for example in examples:
                example.future.cancel()

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
        waiting = len(self._waiting) + self._alone
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

    def _work(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                batch = self._taken()
            self._answer([one for one in batch if one.future.set_running_or_notify_cancel()])

    def _taken(self):
        """Takes the oldest example, and those of the same key that fit, from those that wait."""
        batch: list[_Example] = []
        left: collections.deque[_Example] = collections.deque()
        longest = 0
        for one in self._waiting:
            most = max(longest, one.tokens)
            if not batch or (one.key == batch[0].key and len(batch) < self._max_batch
                             and self.fits(len(batch) + 1, most)):
                batch.append(one)
                longest = most
            else:
                left.append(one)
        self._waiting = left
        return batch

    def _answer(self, batch):
        if not batch:
            return
        call, _ = batch[0].key
        try:
            self._on_batch()
            found = self._run(call, {
                name: np.concatenate([one.arrays[name] for one in batch])
                for name in batch[0].arrays})
            if len(found) != len(batch):
                raise ValueError("%d predictions for %d examples" % (len(found), len(batch)))
        except Exception as e:          # reported to its own request only
            if len(batch) == 1:
                batch[0].future.set_exception(e)
            else:
                for one in batch:
                    self._answer([one])
            return
        self.answered = time.monotonic()
        for one, answer in zip(batch, found):
            one.future.set_result(answer)
