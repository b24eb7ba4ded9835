"""Turns of the network: who has used it least is next. Short requests are computed together."""

import asyncio
import threading
import time

import pytest
from helpers.serving import wait_until
from starlette.exceptions import HTTPException

from xlnet.inference import session
from xlnet.server import limits
from xlnet.server.turns import Computing, Turns, Work
from xlnet.support.errors import UserError


def worker(turns, name, seconds, count, done):
    work = Work(turns)

    def run():
        for _ in range(count):
            with work.turn():
                time.sleep(seconds)
                done.append(name)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def order(*workers):
    """The names of the workers in the order of their turns, which begin while the network is
    used."""
    turns, done = Turns(), []
    with Work(turns).turn():
        threads = [worker(turns, *each, done) for each in workers]
        wait_until(lambda: len(turns._waiting) == len(workers))
    for thread in threads:
        thread.join()
    return done


def test_requests_share_the_time_of_the_network():
    """Of a long and a short one, whose turns take as long, each has every second."""
    done = order(("a", 0.01, 6), ("b", 0.01, 3))
    assert sorted(done[:6]) == ["a"] * 3 + ["b"] * 3 and done[6:] == ["a"] * 3
    # Time counts, not turns.
    done = order(("long", 0.08, 3), ("short", 0.02, 8))
    assert done[:8].count("short") >= 5


def test_who_comes_again_and_again_does_not_pass_a_long_one_for_ever():
    """Each new request begins at the common clock, not at zero."""
    turns, done = Turns(), []
    long = worker(turns, "long", 0.02, 3, done)
    end = time.monotonic() + 20
    while long.is_alive() and time.monotonic() < end:
        threads = [worker(turns, "new", 0.005, 1, done) for _ in range(2)]
        for thread in threads:
            thread.join()
    assert not long.is_alive() and done.count("long") == 3


def test_a_call_that_fails_gives_its_turn_back():
    turns = Turns()
    with pytest.raises(ValueError), Work(turns).turn():
        raise ValueError
    with Work(turns).turn():
        pass


# ---- requests


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


def test_requests_that_arrive_during_a_batch_are_the_next_one():
    """As far as they have the same call and fit; an error is that of its own request alone."""
    batches, go = [], threading.Semaphore(0)

    def run(call, rows):
        batches.append(len(rows))
        go.acquire()
        if 9 in rows:
            raise ValueError("nine")
        return [10 * row for row in rows]

    async def story():
        computing = Computing(run)
        first = asyncio.ensure_future(computing.together("s", [0]))
        await until(lambda: batches)
        others = [
            asyncio.ensure_future(computing.together("s", [i])) for i in (1, 2, 9)
        ]
        large = asyncio.ensure_future(computing.together("s", [3] * limits.MAX_BATCH))
        other_call = asyncio.ensure_future(computing.together("t", [5]))
        left = asyncio.ensure_future(computing.together("s", [6]))
        await asyncio.sleep(0.1)
        left.cancel()
        go.release(99)
        assert await first == [0]
        assert [await others[i] for i in (0, 1)] == [[10], [20]]
        with pytest.raises(ValueError, match="nine"):
            await others[2]
        assert await large == [30] * limits.MAX_BATCH and await other_call == [50]

    asyncio.run(story())
    assert batches == [1, 3, 1, 1, 1, limits.MAX_BATCH, 1]


def test_no_more_wait_than_the_limit():
    async def story():
        computing = Computing(lambda call, rows: rows)
        with computing.counted(2 * limits.MAX_WAITING):  # when nothing else waits
            with pytest.raises(
                HTTPException, match="instances wait already, at most 1024 may"
            ):
                computing.check_waiting()
        computing.check_waiting()

    asyncio.run(story())


def test_what_nobody_waits_for_ends_before_its_next_call():
    begun, dropped = threading.Event(), []

    def long():
        begun.set()
        try:
            while True:
                with session.caller().turn():
                    time.sleep(0.01)
        except UserError as e:
            dropped.append(str(e))
            raise

    async def story():
        computing = Computing(None)
        task = asyncio.ensure_future(computing.compute(long))
        await until(begun.is_set)
        computing.check_alive()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert dropped == ["dropped: nobody waits for it any more"]

    asyncio.run(story())


def test_a_computation_that_hangs_is_known(monkeypatch):
    go = threading.Event()

    async def story():
        computing = Computing(None)
        task = asyncio.ensure_future(computing.compute(go.wait))
        await until(lambda: computing._began)
        monkeypatch.setattr(limits, "HANGING", -1000)
        with pytest.raises(HTTPException, match="a computation hangs"):
            computing.check_alive()
        go.set()
        await task
        computing.check_alive()

    asyncio.run(story())
