"""Turns of the network, in the order of the calls. Short requests are computed together."""

import asyncio
import threading
import time
from typing import NamedTuple, Optional

import pytest
from helpers.serving import wait_until

from xlnet.server import limits
from xlnet.server.turns import Computing, Turns


def test_a_long_work_gives_way_after_each_call():
    """What waits is next, whoever has called before."""
    turns, done = Turns(), []

    def worker(name, count):
        for _ in range(count):
            turns.call(lambda: (time.sleep(0.02), done.append(name)))

    long = threading.Thread(target=worker, args=["long", 6])
    long.start()
    wait_until(lambda: done)
    worker("short", 2)
    long.join()
    assert done.index("short") <= 2 and done[-2:] == ["long"] * 2


def test_a_call_that_fails_leaves_the_network_to_others():
    turns = Turns()
    with pytest.raises(ZeroDivisionError):
        turns.call(lambda: 1 / 0)
    assert turns.call(lambda: 3) == 3


# ---- requests


class Call(NamedTuple):
    """As of the server: requests of the same name are computed together."""

    name: Optional[str]
    keeps_tokens: bool = False

    def batch_name(self, rows):
        return self.name


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


def test_requests_that_arrive_during_a_batch_are_the_next_one():
    """As far as they have the same call."""
    batches, go = [], threading.Semaphore(0)

    def run(call, rows):
        batches.append(len(rows))
        go.acquire()
        if 9 in rows:
            raise ValueError("nine")
        return [10 * row for row in rows]

    async def story():
        computing = Computing(run, Turns())

        def asked(call, rows):
            return asyncio.ensure_future(computing.answers(Call(call), rows))

        first = asked("s", [0])
        await until(lambda: batches)
        others = [asked("s", [number]) for number in (1, 2)]
        large = asked("s", [3] * limits.MAX_BATCH)
        other_call, left = asked("t", [9]), asked("s", [6])
        await asyncio.sleep(0.1)
        left.cancel()
        go.release(99)
        assert await first == [0]
        assert [await each for each in others] == [[10], [20]]
        with pytest.raises(ValueError, match="nine"):
            await other_call
        assert await large == [30] * limits.MAX_BATCH

    asyncio.run(story())
    assert sorted(batches) == [1, 1, 2 + limits.MAX_BATCH]


def test_prompts_that_arrive_together_are_continued_together(monkeypatch):
    """Twenty clients generated fewer tokens a second together than one after the other; and a long
    generation does not hold the next one up."""
    monkeypatch.setattr(limits, "GATHER_SECONDS", 0.2)
    batches, go = [], threading.Event()

    def run(call, rows):
        batches.append(len(rows))
        go.wait()
        return rows

    async def story():
        computing = Computing(run, Turns())

        def asked(rows):
            return asyncio.ensure_future(computing.answers(Call("g", True), rows))

        first = [asked([number]) for number in range(20)]
        await until(lambda: batches)
        second = asked([20])
        await until(lambda: len(batches) == 2)
        go.set()
        assert [await each for each in [*first, second]] == [[n] for n in range(21)]

    asyncio.run(story())
    assert batches == [20, 1]
