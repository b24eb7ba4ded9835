"""What is computed when: one queue of calls of the network, and batches of short requests."""

# Each call of the network waits in one queue, such as a batch of an explanation or a token of a
# generation: a long request gives way to those that wait after each of its calls. Requests of the
# same call that wait are computed as one batch: batches grow with the load.

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from xlnet.server import limits


class Dropped(Exception):
    """Nobody waits for the result any more."""


class Turns:
    """The network, which one thread calls, in the order in which others ask for it.

    Attributes:
      of_thread: `waiting`, the futures of those who wait for what a thread computes.
    """

    def __init__(self) -> None:
        self.of_thread = threading.local()
        self._network = concurrent.futures.ThreadPoolExecutor(1)

    def call(self, function: Callable[[], Any]) -> Any:
        """What the function returns, called when it is its turn; `Dropped` if nobody waits for what
        this thread computes."""
        waiting = getattr(self.of_thread, "waiting", ())
        if waiting and all(future.cancelled() for future in waiting):
            raise Dropped
        return self._network.submit(function).result()


class _Waiting(NamedTuple):
    """A request that waits for its answers, one for each row."""

    rows: list
    answers: asyncio.Future[list]


class Computing:
    """Computes requests in threads. Made and used in one event loop.

    Args:
      run: function of (call, rows) that returns an answer or a UserError for each row.
      turns: those of the network.

    Attributes:
      rows: the number of rows that wait or are computed.
      reading: the context of requests that keep tokens on the device.
    """

    def __init__(self, run: Callable[[Any, list], list], turns: Turns) -> None:
        self._run, self._turns = run, turns
        self.rows = 0
        self.reading = asyncio.Semaphore(limits.READING)
        self._one_batch = asyncio.Semaphore(1)  # of short requests: batches grow
        self._gathered: dict[str, list[_Waiting]] = {}  # by name, see `answers`
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = concurrent.futures.ThreadPoolExecutor(limits.MAX_THREADS)

    @contextlib.contextmanager
    def counted(self, count: int) -> Iterator[None]:
        """A block in which `count` more rows wait or are computed. HTTPException 503 if there are
        then more than `limits.MAX_WAITING`; where no other rows wait, any number is accepted."""
        if self.rows and self.rows + count > limits.MAX_WAITING:
            raise HTTPException(
                503,
                f"{self.rows} instances wait already, at most {limits.MAX_WAITING} may; try again "
                "later",
                {"retry-after": "1"},
            )
        self.rows += count
        try:
            yield
        finally:
            self.rows -= count

    async def answers(self, call: Any, rows: list) -> list:
        """The answers to the rows of a request. One that is cancelled ends before its next call of
        the network.

        Args:
          call: its `served_model.Call`.
          rows: its instances, checked.
        """
        one = _Waiting(rows, asyncio.get_running_loop().create_future())
        batch = call.batch(rows)
        name = batch or str(id(one))
        self._gathered.setdefault(name, []).append(one)
        if len(self._gathered[name]) == 1:
            answering = self._answer(call, name, batch is not None)
            task = asyncio.ensure_future(answering)
            self._tasks.add(task)  # the event loop has a weak reference
            task.add_done_callback(self._tasks.discard)
        return await one.answers

    async def _answer(self, call: Any, name: str, is_batch: bool) -> None:
        """Answers the requests that are gathered under a name, and those that join them before the
        computation begins.

        Args:
          call: theirs.
          name: as of `Call.batch`, or one of its own.
          is_batch: whether others may join.
        """
        turn: Any = contextlib.AsyncExitStack()  # at once
        if call.keeps_tokens:
            turn = self.reading
            # Prompts are continued by many calls of the network, each of which costs about as much
            # for twenty of them as for one: others are waited for.
            if is_batch:
                await asyncio.sleep(limits.GATHER_SECONDS)
        elif is_batch:
            turn = self._one_batch
        answers: list = []
        error: Exception | None = None
        async with turn:
            # Others have joined until now.
            gathered = self._gathered.pop(name)
            waiting = [one for one in gathered if not one.answers.cancelled()]
            rows = [row for one in waiting for row in one.rows]
            try:
                if waiting:
                    futures = [one.answers for one in waiting]
                    answers = await self.compute(futures, self._run, call, rows)
            except Exception as e:
                error = e
        for one in waiting:
            own, answers = answers[: len(one.rows)], answers[len(one.rows) :]
            if one.answers.done():  # it is left
                continue
            if error:
                one.answers.set_exception(error)
            else:
                one.answers.set_result(own)

    async def compute(
        self, waiting: Sequence[asyncio.Future[Any]], function: Callable, *args: Any
    ) -> Any:
        """What a function returns, called in a thread; it raises `Dropped` at its next call of the
        network once these futures, which wait for it, are cancelled."""

        def run() -> Any:
            self._turns.of_thread.waiting = waiting
            return function(*args)

        return await asyncio.wrap_future(self._threads.submit(run))
