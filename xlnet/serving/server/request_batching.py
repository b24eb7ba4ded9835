"""What is computed when: batches of the examples of requests, and long work next to them.

All of it is coordinated in one event loop; the model computes in threads.
"""

# Two ways to the model:
#   ask      short examples. While a batch is computed, others wait; the next batch takes the oldest
#            and as many of the same call as fit. So batches grow with the load, without a delay.
#   alone    long work (generation, explanations, long texts), next to the batches, in threads of
#            each signature. Of what keeps much in memory as much begins as fits into a budget.
# Each call of the network is a turn of `FairTurns`, whichever way led to it.
# Work whose client has left is dropped: an example before its batch begins, a computation before
# its next call of the network.

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from typing import Any, NamedTuple, Optional

from xlnet.errors import UserError
from xlnet.serving import session
from xlnet.serving.server.fair_turns import FairTurns, Request

_THREADS = 8  # for batches and parsing
_LONG_THREADS = 64  # for long work of each signature; others wait for a thread
_MOST_COPIES = 4  # requests of a signature that read with a copy of the graph each
_SMALL = 8  # work that takes less than the budget divided by this does not wait for larger work


class Busy(UserError):
    """Too many examples wait."""

    http_status = 503


class _Memory:
    """Work that begins once all of it together is within a budget, in the order of arrival."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self.used = 0
        self.line: collections.deque[tuple[int, asyncio.Future]] = collections.deque()

    @contextlib.asynccontextmanager
    async def hold(self, cost: int) -> AsyncIterator[None]:
        turn = asyncio.get_running_loop().create_future()
        self.line.append((cost, turn))
        self._begin_next()
        try:
            await turn
            yield
        finally:
            if turn.cancelled():
                self.line = collections.deque(each for each in self.line if each[1] is not turn)
            else:
                self.used -= cost
            self._begin_next()

    def _begin_next(self) -> None:
        while self.line:
            cost, turn = self.line[0]
            # What is larger than the budget begins when nothing else is computed.
            if self.used and self.used + cost > self._budget and not turn.cancelled():
                return
            self.line.popleft()
            if not turn.cancelled():  # or its task is about to learn that it is cancelled
                self.used += cost
                turn.set_result(None)


class _Example(NamedTuple):
    """An example of a request."""

    call: Hashable  # equal in a batch
    row: Any
    size: int
    future: asyncio.Future


def by_row(answers: list) -> list:
    """The answers to the examples of a request; UserError, with the number of the example, if one
    is an error."""
    for number, answer in enumerate(answers):
        if isinstance(answer, UserError):
            raise UserError(f"row {number}: {answer}")
    return answers


class RequestBatching:
    """Computes the examples of requests.

    Args:
      run: function of (call, rows) that makes a list of as many answers, with a UserError for a bad
        row; called in a thread. `call` has an attribute `signature`, unless it is a str.
      max_batch: sum of the sizes of a batch.
      budget: of the costs of long work that is computed at the same time, tokens²: of small work,
        and again of larger work, so that neither waits for the other.
      max_waiting: examples that wait or are computed next to the batches.
      on_batch: called with (call, number of examples) of each batch.
    """

    def __init__(
        self,
        run: Callable[[Any, list], list],
        *,
        max_batch: int,
        budget: int,
        max_waiting: int,
        on_batch: Callable[[Any, int], object] = lambda call, count: None,
    ) -> None:
        self._run = run
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._on_batch = on_batch
        self._waiting: collections.deque[_Example] = collections.deque()
        self._batches: Any = None  # the task that computes them, while some wait
        self._alone = 0  # examples in `alone`
        self._small_cost = budget // _SMALL
        self._small, self._large = _Memory(budget), _Memory(budget)
        self._copies: dict[str, _Memory] = {}  # by signature
        self._turns = FairTurns()
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, "compute")
        self._long_threads: dict[str, concurrent.futures.ThreadPoolExecutor] = {}  # by signature
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
        waiting = self.rows_waiting
        if waiting and waiting + count > self._max_waiting:
            raise Busy(
                f"{waiting} examples wait already, and of {count} more at most "
                f"{max(self._max_waiting - waiting, 0)} may (--max_waiting={self._max_waiting}); "
                "try again later"
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

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._taken())
        finally:
            self._batches = None

    def _taken(self) -> list[_Example]:
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

    async def _answer(self, batch: Sequence[_Example]) -> None:
        if all(one.future.cancelled() for one in batch):
            return
        try:
            self._on_batch(batch[0].call, len(batch))
            found = await self.compute(
                self._run,
                batch[0].call,
                [one.row for one in batch],
                signature=getattr(batch[0].call, "signature", "text"),
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
    async def exclusive(
        self, count: int, cost: int, graph_of_signature: Optional[str] = None
    ) -> AsyncIterator[None]:
        """The block, of `count` examples one after another; Busy if too many examples wait.

        Args:
          cost: what the largest of them keeps in memory; 0 for work whose calls of the network keep
            nothing.
          graph_of_signature: the signature, of work that reads with a copy of the graph of its own;
            None: it has none.
        """
        # They count as waiting until the end of the block: so `max_waiting` bounds long work, too.
        self.check_waiting(count)
        self._alone += count
        memory = self._small if cost <= self._small_cost else self._large
        try:
            # A copy takes seconds and tens of MB, and stays. More of them would compute no faster.
            async with contextlib.AsyncExitStack() as held:
                if graph_of_signature is not None:
                    copies = self._copies.setdefault(graph_of_signature, _Memory(_MOST_COPIES))
                    await held.enter_async_context(copies.hold(1))
                await held.enter_async_context(memory.hold(cost))
                yield
        finally:
            self._alone -= count

    async def compute(
        self,
        function: Callable,
        *args: Any,
        signature: str,
        is_left: Callable[[], bool] = lambda: False,
        request: Optional[Request] = None,
        is_long: bool = False,
    ) -> Any:
        """What a function returns, called in a thread. When the task that waits for it is
        cancelled, or `is_left` says so, the function fails at its next call of the network.

        Args:
          request: whose work it is, for work in several parts; None: a request of its own.
          is_long: it has a thread of those for long work.
        """
        work_of = request or Request(self._turns, signature)
        work_of.is_left_too = is_left
        context = contextvars.copy_context()
        context.run(session.CALLER.set, work_of)
        began = object()

        def timed() -> Any:
            self._began[began] = time.monotonic()
            try:
                return context.run(function, *args)
            finally:
                del self._began[began]

        threads = self._threads_of(signature) if is_long else self._threads
        work = asyncio.wrap_future(threads.submit(timed))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The end of the function is awaited even now: its memory is in use until then.
            work_of.is_left.set()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()  # nobody else reads it
            raise

    def _threads_of(self, signature: str) -> concurrent.futures.ThreadPoolExecutor:
        if signature not in self._long_threads:
            made = concurrent.futures.ThreadPoolExecutor(_LONG_THREADS, signature)
            self._long_threads[signature] = made
        return self._long_threads[signature]

    def request(self, signature: str) -> Request:
        """A request whose parts are computed one by one."""
        return Request(self._turns, signature)
