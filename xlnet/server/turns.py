"""What is computed when: turns of the network, batches of short requests, long ones alongside."""

# Each call of the network is a turn, such as a batch of an explanation or a token of a generation.
# The next turn is that of the work that has used the network least, so a long request gives way to
# a short one after each of its calls. Short requests that wait for each other's turn are computed
# as one batch: batches grow with the load, without a delay.

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

from starlette.exceptions import HTTPException

from xlnet.inference import session
from xlnet.server import limits
from xlnet.support.errors import UserError


class Turns:
    """The network, which one thread at a time may call."""

    # Fair queueing: `used` are the seconds of each work. What is new begins at the common clock,
    # which advances by the seconds of a call, divided among all that wait: nobody saves time by
    # waiting, and who has used much is not passed for ever.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: list[tuple[Work, threading.Event]] = []
        self._clock = 0.0

    @contextlib.contextmanager
    def turn(self, work: Work) -> Iterator[None]:
        """The block, once it is the turn of this work."""
        mine = threading.Event()
        with self._lock:
            work.used = max(work.used, self._clock)
            self._waiting.append((work, mine))
            self._begin_next()
        mine.wait()
        began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                seconds = time.monotonic() - began
                work.used += seconds
                self._clock += seconds / (1 + len(self._waiting))
                self._is_busy = False
                self._begin_next()

    def _begin_next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        chosen = min(self._waiting, key=lambda one: one[0].used)
        self._waiting.remove(chosen)
        self._is_busy = True
        chosen[1].set()


class Work(session.Caller):
    """What a thread computes.

    Attributes:
      used: seconds of the network that it has used.
      is_left: whether nobody waits for its result any more.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.used = 0.0
        self.is_left = False

    def check(self) -> None:
        if self.is_left:
            raise UserError("dropped: nobody waits for it any more")

    def turn(self) -> contextlib.AbstractContextManager[object]:
        self.check()
        return self._turns.turn(self)

    def shared(self) -> session.Caller:
        return Work(self._turns)


class _Waiting(NamedTuple):
    """A short request."""

    call: Any
    rows: list
    answers: asyncio.Future[list]


class Computing:
    """Computes requests in threads. Made and used in one event loop.

    Args:
      run: function of (call, rows) that returns an answer or a UserError for each row; the calls of
        requests that may be computed together are equal.

    Attributes:
      rows: the number of rows that wait or are computed.
      searching: the context of a beam search.
      reading: that of another one that keeps tokens on the device.
    """

    def __init__(self, run: Callable[[Any, list], list]) -> None:
        self._run = run
        self.rows = 0
        self.searching = asyncio.Semaphore(limits.SEARCHING)
        self.reading = asyncio.Semaphore(limits.READING)
        self._turns = Turns()
        self._short: collections.deque[_Waiting] = collections.deque()
        self._batches: Optional[asyncio.Task[None]] = (
            None  # computes them, while some wait
        )
        self._threads = concurrent.futures.ThreadPoolExecutor(limits.MAX_THREADS)
        self._began: dict[object, float] = {}  # of each computation [s]

    def check_waiting(self, count: int = 1) -> None:
        """Raises HTTPException if so many more rows may not wait."""
        if self.rows and self.rows + count > limits.MAX_WAITING:
            raise HTTPException(
                503,
                f"{self.rows} instances wait already, at most {limits.MAX_WAITING} may; try again "
                "later",
                {"retry-after": "1"},
            )

    def check_alive(self) -> None:
        """Raises HTTPException if a computation hangs."""
        oldest = time.monotonic() - min(self._began.values(), default=float("inf"))
        if oldest > limits.MAX_SECONDS + limits.HANGING:
            raise HTTPException(
                503, f"a computation hangs: it began {oldest:.0f} s ago"
            )

    @contextlib.contextmanager
    def counted(self, count: int) -> Iterator[None]:
        """The block, in which so many rows wait or are computed."""
        self.check_waiting(count)
        self.rows += count
        try:
            yield
        finally:
            self.rows -= count

    # ---- short requests

    async def together(self, call: Any, rows: list) -> list:
        """The answers to the rows of a short request, in a batch with others."""
        loop = asyncio.get_running_loop()
        one = _Waiting(call, rows, loop.create_future())
        self._short.append(one)
        if not self._batches:
            self._batches = loop.create_task(self._answer_short())
        return await one.answers  # a request that is left cancels it

    async def _answer_short(self) -> None:
        try:
            while self._short:
                await self._answer(self._next_batch())
        finally:
            self._batches = None

    def _next_batch(self) -> list[_Waiting]:
        """The oldest request that waits, and those of the same call that fit next to it."""
        batch: list[_Waiting] = []
        others: collections.deque[_Waiting] = collections.deque()
        size = 0
        for one in self._short:
            if one.answers.cancelled():
                continue
            if (
                not batch
                or one.call == batch[0].call
                and size + len(one.rows) <= limits.MAX_BATCH
            ):
                batch.append(one)
                size += len(one.rows)
            else:
                others.append(one)
        self._short = others
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        call = batch[0].call
        rows = [row for one in batch for row in one.rows]
        try:
            answers = await self.compute(self._run, call, rows)
        except Exception as e:
            # A request may have made the batch fail: each is computed again, so that only its own
            # client gets the error.
            for one in batch:
                if len(batch) > 1:
                    await self._answer([one])
                elif not one.answers.done():
                    one.answers.set_exception(e)
            return
        for one in batch:
            own, answers = answers[: len(one.rows)], answers[len(one.rows) :]
            if not one.answers.done():
                one.answers.set_result(own)

    # ---- in a thread

    async def compute(self, function: Callable, *args: Any) -> Any:
        """What a function returns, called in a thread. When the task that waits for it is
        cancelled, the function fails at its next call of the network."""
        work = Work(self._turns)
        context = contextvars.copy_context()
        context.run(session.CALLER.set, work)

        def timed() -> Any:
            self._began[work] = time.monotonic()
            try:
                return context.run(function, *args)
            finally:
                del self._began[work]

        computing = asyncio.wrap_future(self._threads.submit(timed))
        try:
            return await asyncio.shield(computing)
        except asyncio.CancelledError:
            # The end of the function is awaited even now: its memory is in use until then.
            work.is_left = True
            await asyncio.wait([computing])
            if not computing.cancelled():
                computing.exception()  # nobody else reads it
            raise
