"""What is computed when: one queue of calls of the network, and batches of short requests."""

# Each call of the network waits in one queue, such as a batch of an explanation or a token of a
# generation: a long request gives way to those that wait after each of its calls. Waiting requests
# with the same signature and parameters are computed as one batch: batches grow with the load.
# Waiting is done in the event loop, computing in threads, and the network is called in one thread.

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
    """The queue of calls of the network: one thread runs them, in the order in which other threads
    ask for them.

    Attributes:
      thread_local: has a `waiting` of its own in each thread: the futures of the requests that wait
        for what the thread computes.
    """

    def __init__(self) -> None:
        self.thread_local = threading.local()
        self._network = concurrent.futures.ThreadPoolExecutor(1)

    def call(self, function: Callable[[], Any]) -> Any:
        """The result of `function`, which calls the network, after the calls that are in the queue;
        `Dropped` if no request waits any more for what this thread computes."""
        # () in a thread of no request
        waiting = getattr(self.thread_local, "waiting", ())
        if waiting and all(future.cancelled() for future in waiting):
            raise Dropped
        return self._network.submit(function).result()


class _Request(NamedTuple):
    """A request that waits.

    Attributes:
      rows: its rows.
      answers: gets a list, an answer for each row; cancelled when the client has left.
    """

    rows: list
    answers: asyncio.Future[list]


class Computing:
    """Computes requests in threads. It belongs to the event loop in which it is made.

    Args:
      run: function of (call, rows) that returns an answer or a UserError for each row, such as
        `ServedModel.run`.
      turns: the queue in which `run` calls the network.

    Attributes:
      rows: the number of rows that wait or are computed.
      keeping_tokens: held by each computation that keeps tokens on the device (`keeps_tokens`).
    """

    def __init__(self, run: Callable[[Any, list], list], turns: Turns) -> None:
        self._run, self._turns = run, turns
        self.rows = 0
        self.keeping_tokens = asyncio.Semaphore(limits.MAX_KEEPING_TOKENS)
        # One batch of short requests is computed at a time, so that the next one grows meanwhile.
        self._one_batch = asyncio.Semaphore(1)
        self._gathered: dict[str, list[_Request]] = {}  # those that wait, by batch
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = concurrent.futures.ThreadPoolExecutor(limits.MAX_THREADS)

    @contextlib.contextmanager
    def admit(self, count: int) -> Iterator[None]:
        """A context manager in which `rows` includes `count` more. HTTPException 503 if there are
        then more than `limits.MAX_WAITING`; where no others wait, any number is accepted."""
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
        """The answers to the rows of a request, in their order. If the task that waits for them is
        cancelled, the computation ends before its next call of the network, unless other requests
        wait for it, too.

        Args:
          call: the `served_model.Call` of the request.
          rows: its checked instances.
        """
        request = _Request(rows, asyncio.get_running_loop().create_future())
        batch_name = call.batch_name(rows)
        name = batch_name or str(id(request))  # a request that is computed alone
        self._gathered.setdefault(name, []).append(request)
        # The first request of a batch starts its task. Others join until the computation begins.
        if len(self._gathered[name]) == 1:
            answering = self._answer_gathered(call, name, batch_name is not None)
            task = asyncio.ensure_future(answering)
            self._tasks.add(task)  # the event loop has a weak reference alone
            task.add_done_callback(self._tasks.discard)
        # If the task that awaits this future is cancelled, so is the future.
        return await request.answers

    async def _answer_gathered(self, call: Any, name: str, is_batch: bool) -> None:
        """Waits until a computation may begin, and answers the requests that are gathered then.

        Args:
          call: that of all these requests.
          name: their key of `_gathered`.
          is_batch: whether others may join the first one.
        """
        turn: Any = contextlib.AsyncExitStack()  # entered without waiting
        if call.keeps_tokens:
            turn = self.keeping_tokens
            # Prompts are continued by many calls of the network, each of which costs about as much
            # for twenty of them as for one: others are waited for.
            if is_batch:
                await asyncio.sleep(limits.GATHER_SECONDS)
        elif is_batch:
            turn = self._one_batch
        answers: list = []
        error: Exception | None = None
        async with turn:
            # From here on, requests of this name are gathered for the next batch.
            gathered = self._gathered.pop(name)
            # Futures are cancelled if clients have left; a computation is for those that remain.
            waiting = [one for one in gathered if not one.answers.cancelled()]
            rows = []
            for request in waiting:
                rows += request.rows
            try:
                if waiting:
                    futures = [one.answers for one in waiting]
                    answers = await self.compute(futures, self._run, call, rows)
            except Exception as e:
                error = e
        # Each request gets the answers to its own rows, or the error of all.
        begin = 0
        for request in waiting:
            end = begin + len(request.rows)
            if not request.answers.done():  # not cancelled meanwhile
                if error:
                    request.answers.set_exception(error)
                else:
                    request.answers.set_result(answers[begin:end])
            begin = end

    async def compute(
        self, waiting: Sequence[asyncio.Future[Any]], function: Callable, *args: Any
    ) -> Any:
        """The result of `function(*args)`, which runs in a thread. Once all the futures `waiting`
        are cancelled, it raises `Dropped` at its next call of the network."""

        def run() -> Any:
            self._turns.thread_local.waiting = waiting
            return function(*args)

        return await asyncio.wrap_future(self._threads.submit(run))
