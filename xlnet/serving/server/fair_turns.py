"""Who calls the network next: turns by what each has used, not in the order of arrival."""

# Long work is many calls of the network: a batch of an explanation, a token of a generation. Each
# call is a turn. It goes to the signature that has used the network for the least time, and of its
# requests to the one that has; so a long request has as much of the network as a short one that
# waits beside it, and no more.
#
# This is fair queueing: each account has a clock of the seconds that it used. What becomes active
# begins at the common clock, which advances by the seconds of a call, divided among all that are
# active: nobody saves time by waiting, and who has used much is not passed for ever. Only who
# pauses between two calls keeps a little of what it did not use: it would never catch up otherwise.

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Optional

from xlnet.errors import UserError
from xlnet.serving import session

_CREDIT = 0.5  # what an account that pauses keeps, at most [s]
_LONG = 256  # a call of so many tokens has other turns than a shorter one


class _Clocks:
    """The seconds that accounts have used, as far as they are active."""

    def __init__(self) -> None:
        self._common = 0.0
        self._used: dict[Hashable, float] = {}
        self._active: dict[Hashable, int] = {}  # calls that wait or run

    def enter(self, account: Hashable) -> None:
        self._active[account] = self._active.get(account, 0) + 1
        used = self._used.get(account, self._common)
        self._used[account] = max(used, self._common - _CREDIT)

    def leave(self, account: Hashable, seconds: float) -> None:
        self._used[account] += seconds
        self._common += seconds / len(self._active)
        self._active[account] -= 1
        if not self._active[account]:
            del self._active[account]
        # Accounts that have paused for long are forgotten.
        for each in list(self._used):
            if each not in self._active and self._used[each] < self._common - _CREDIT:
                del self._used[each]

    def used(self, account: Hashable) -> float:
        return self._used[account]


class _Line:
    """Calls one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: list[tuple[str, Hashable, threading.Event]] = []
        self._signatures = _Clocks()
        self._requests: dict[str, _Clocks] = {}

    @contextlib.contextmanager
    def turn(self, signature: str, request: Hashable) -> Iterator[None]:
        """The block, once it is the turn of a request."""
        mine = threading.Event()
        with self._lock:
            requests = self._requests.setdefault(signature, _Clocks())
            self._signatures.enter(signature)
            requests.enter(request)
            self._waiting.append((signature, request, mine))
            self._begin_next()
        mine.wait()
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            with self._lock:
                self._signatures.leave(signature, seconds)
                requests.leave(request, seconds)
                self._is_busy = False
                self._begin_next()

    def _begin_next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        chosen = min(
            self._waiting,
            key=lambda one: (
                self._signatures.used(one[0]),
                self._requests[one[0]].used(one[1]),
            ),
        )
        self._waiting.remove(chosen)
        self._is_busy = True
        chosen[2].set()


class FairTurns:
    """The turns of all requests. A call of many tokens runs next to a short one, which would wait
    for seconds on a slow device: so each kind has a line of its own."""

    def __init__(self) -> None:
        self._short, self._long = _Line(), _Line()

    def turn(
        self, signature: str, request: Hashable, tokens: int
    ) -> contextlib.AbstractContextManager[None]:
        """The context of a call of the network with so many tokens."""
        line = self._long if tokens >= _LONG else self._short
        return line.turn(signature, request)


class Request(session.Caller):
    """A request whose work a thread computes.

    Attributes:
      is_left: set when nobody waits for its answer any more.
      is_left_too: says so, of a batch.
    """

    def __init__(
        self, turns: FairTurns, signature: str, account: Optional[Hashable] = None
    ) -> None:
        self._turns, self._signature = turns, signature
        self._account = self if account is None else account
        self.is_left = threading.Event()
        self.is_left_too: Callable[[], bool] = lambda: False

    def turn(self, tokens: int) -> contextlib.AbstractContextManager[object]:
        if self.is_left.is_set() or self.is_left_too():
            raise UserError("dropped: nobody waits for it any more")
        if not tokens:
            return contextlib.nullcontext()
        return self._turns.turn(self._signature, self._account, tokens)

    def shared(self, account: Hashable) -> session.Caller:
        return Request(self._turns, self._signature, account)
