"""What is computed when: batches of the examples of requests, and long work next to them.

All of it runs in one event loop; the model computes in threads.
"""

# Two ways to the model, both in the order of arrival:
#   ask      short examples. While a batch is computed, others wait; the next batch takes the oldest
#            and as many of the same call as fit. So batches grow with the load, without a delay.
#   alone    long work (generation, long texts), next to the batches: it begins once all such work
#            together is within a budget of memory.
# Work whose client has left is dropped: an example before its batch begins, a computation before
# its next call of the network.

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from xlnet.errors import UserError
from xlnet.serving import session

_THREADS = 64  # computations in progress; others wait for a thread


class Busy(UserError):
    """Too many examples wait."""

    http_status = 503


class _Example(NamedTuple):
    """An example of a request."""

    call: Hashable  # equal in a batch
    row: Any
    size: int
    future: asyncio.Future


def by_row(answers: Iterable[Any]) -> list:
    """The answers to the examples of a request; UserError, with the number of the example, if one
    is an error or fails with one."""
    found: list[Any] = []
    try:
        for answer in answers:
            if isinstance(answer, UserError):
                raise answer
            found.append(answer)
    except UserError as e:
        raise UserError(f"row {len(found)}: {e}") from None
    return found


class RequestBatching:
    """Computes the examples of requests: `run`, in a thread, makes a list of as many answers of
    (call, rows), with a UserError for a bad row. budget: costs of what is computed next to the
    batches, tokens²."""

    def __init__(
        self,
        run: Callable[[Any, list], list],
        *,
        max_batch: int,
        budget: int,
        max_waiting: int,
        on_batch: Callable[[], object] = lambda: None,
    ):
        self._run = run
        self._max_batch, self._budget, self._max_waiting = max_batch, budget, max_waiting
        self._on_batch = on_batch
        self._waiting: collections.deque[_Example] = collections.deque()
        self._batches: Any = None  # the task that computes them, while some wait
        self._alone = self._cost = 0  # examples in `alone`, and the cost of those begun
        self._line: collections.deque[tuple[int, asyncio.Future]] = collections.deque()
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, "compute")
        self._began: dict[object, float] = {}  # of each computation, by `time.monotonic` [s]

    @property
    def rows_waiting(self) -> int:
        return len(self._waiting) + self._alone

    @property
    def oldest(self) -> float:
        """For how long the oldest computation has been running [s]; 0: there is none."""
        began = list(self._began.values())
        return time.monotonic() - min(began) if began else 0.0

    def check_waiting(self, count: int = 1) -> None:
        """Raises Busy if `count` more examples may not wait."""
        if self.rows_waiting and self.rows_waiting + count > self._max_waiting:
            raise Busy(
                f"{self.rows_waiting} examples wait already, at most {self._max_waiting} "
                "may (--max_waiting)"
            )

    # ---- batches

    async def ask(self, call: Hashable, rows: Sequence[Any], sizes: Sequence[int]) -> list:
        """The answers to examples, whose sizes `max_batch` counts; Busy if too many wait."""
        self.check_waiting(len(rows))
        loop = asyncio.get_running_loop()
        examples = [
            _Example(call, row, size, loop.create_future()) for row, size in zip(rows, sizes)
        ]
        self._waiting.extend(examples)
        if not self._batches:
            self._batches = loop.create_task(self._work())
        try:
            return by_row([await example.future for example in examples])
        except BaseException:
            for example in examples:  # the others of a request that failed, or was left
                example.future.cancel()
            self._waiting = collections.deque(
                one for one in self._waiting if not one.future.cancelled()
            )
            raise

    async def _work(self):
        try:
            while self._waiting:
                await self._answer(self._taken())
        finally:
            self._batches = None

    def _taken(self):
        # The oldest example that waits, and those of the same call that fit next to it; one that is
        # larger than `max_batch` is a batch by itself. Nobody is passed for long: what does not fit
        # is older than all that comes, so it is first sooner or later.
        batch: list[_Example] = []
        left: collections.deque[_Example] = collections.deque()
        size = 0
        for one in self._waiting:
            if not batch or one.call == batch[0].call and size + one.size <= self._max_batch:
                batch.append(one)
                size += one.size
            else:
                left.append(one)
        self._waiting = left
        return batch

    async def _answer(self, batch):
        if all(one.future.cancelled() for one in batch):
            return
        try:
            self._on_batch()
            found = await self.compute(
                self._run,
                batch[0].call,
                [one.row for one in batch],
                is_left=lambda: all(one.future.cancelled() for one in batch),
            )
            if len(found) != len(batch):
                raise ValueError(f"{len(found)} predictions for {len(batch)} examples")
        except Exception as e:
            # One example may have made the batch fail: each is computed again, so that the error is
            # reported to its own request only.
            if len(batch) > 1:
                for one in batch:
                    await self._answer([one])
            elif not batch[0].future.cancelled():
                batch[0].future.set_exception(e)
            return
        for one, answer in zip(batch, found):
            if not one.future.cancelled():
                one.future.set_result(answer)

    # ---- next to the batches

    @contextlib.asynccontextmanager
    async def alone(self, count: int, cost: int) -> AsyncIterator[None]:
        """The block, of `count` examples one after another, the largest of this cost, begins once
        all such blocks together are within the budget; Busy if too many examples wait."""
        # They count as waiting until the end of the block: so `max_waiting` bounds long work, too.
        self.check_waiting(count)
        turn = asyncio.get_running_loop().create_future()
        self._alone += count
        self._line.append((cost, turn))
        self._begin_next()
        try:
            await turn
            yield
        finally:
            self._alone -= count
            if turn.cancelled():
                self._line = collections.deque(each for each in self._line if each[1] is not turn)
            else:
                self._cost -= cost
            self._begin_next()

    def _begin_next(self):
        # Only the first of the line may begin: small work does not pass large work that waits. What
        # is larger than the budget begins when nothing else is computed.
        while self._line and (not self._cost or self._cost + self._line[0][0] <= self._budget):
            cost, turn = self._line.popleft()
            self._cost += cost
            turn.set_result(None)

    async def compute(
        self, function: Callable, *args: Any, is_left: Callable[[], bool] = lambda: False
    ) -> Any:
        """What a function returns, called in a thread. When the task that waits for it is
        cancelled, or `is_left` says so, the function fails at its next call of the network."""
        left = threading.Event()
        context = contextvars.copy_context()
        context.run(session.IS_LEFT.set, lambda: left.is_set() or is_left())

        def timed():
            self._began[left] = time.monotonic()
            try:
                return context.run(function, *args)
            finally:
                del self._began[left]

        work = asyncio.wrap_future(self._threads.submit(timed))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The end of the function is awaited even now: its memory is in use until then.
            left.set()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()  # nobody else reads it
            raise
