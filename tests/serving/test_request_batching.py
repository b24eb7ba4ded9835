"""What is computed when: batches of what arrives together, long work next to them, in order."""

import asyncio
import threading

import pytest

from xlnet.errors import UserError
from xlnet.serving import session
from xlnet.serving.server.request_batching import Busy, RequestBatching


def batching(run, **changes):
    return RequestBatching(run, **{"max_batch": 4, "budget": 100, "max_waiting": 6, **changes})


def ask(made, *rows, call="s", sizes=None):
    return asyncio.ensure_future(made.ask(call, rows, sizes or [1] * len(rows)))


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


def test_requests_that_arrive_during_a_batch_are_the_next_one():
    sizes, go = [], threading.Semaphore(0)

    def run(call, rows):
        go.acquire()
        sizes.append(len(rows))
        if 9 in rows:
            raise ValueError("nine")
        return [10 * row for row in rows]

    async def story():
        made = batching(run)
        first = ask(made, 0)
        await until(lambda: made._began)
        others = [ask(made, i) for i in (1, 2, 9)]
        other_call = ask(made, 5, call="t")
        await until(lambda: made.rows_waiting == 4)
        with pytest.raises(Busy, match="4 examples wait already, and of 3 more at most 2 may"):
            await ask(made, 1, 2, 3)
        go.release(9)
        assert await first == [0]
        assert [await others[i] for i in (0, 1)] == [[10], [20]]
        with pytest.raises(ValueError, match="nine"):  # of its own request alone
            await others[2]
        assert await other_call == [50]

    asyncio.run(story())
    assert sizes == [1, 3, 1, 1, 1, 1]


def test_a_batch_has_a_size():
    """Of 3, 2 and 1 the first and the last are 4 together; a larger one is a batch by itself."""
    batches, go = [], threading.Event()

    def run(call, rows):
        go.wait(20)
        batches.append(rows)
        return rows

    async def story():
        made = batching(run, max_waiting=9)
        first = ask(made, "first")
        await until(lambda: made._began)
        others = [ask(made, *"abc", sizes=[3, 2, 1]), ask(made, "large", sizes=[7])]
        await until(lambda: made.rows_waiting == 4)
        go.set()
        await asyncio.gather(first, *others)

    asyncio.run(story())
    assert batches == [["first"], ["a", "c"], ["b"], ["large"]]


@pytest.mark.parametrize("count", [0, 3])
def test_other_than_one_prediction_an_example_fails_and_the_next_request_is_computed(count):
    async def story():
        made = batching(lambda call, rows: ["x"] * (count if call == "bad" else 2))
        with pytest.raises(ValueError, match=f"{count} predictions"):
            await ask(made, 1, 2, call="bad")
        assert await ask(made, 1, 2) == ["x", "x"]

    asyncio.run(story())


def test_a_bad_example_is_named_by_its_row():
    async def story():
        made = batching(lambda call, rows: [UserError("nine") if x == 9 else x for x in rows])
        with pytest.raises(UserError, match="^row 2: nine$"):
            await ask(made, 1, 2, 9)

    asyncio.run(story())


def test_long_work_counts_too():
    """Up to the limit of those that wait; at the same time up to the budget."""

    async def story():
        made, go, entered = batching(lambda call, rows: rows), asyncio.Event(), []

        async def compute(number):
            async with made.exclusive(2, 49):
                entered.append(number)
                await go.wait()

        found = [asyncio.ensure_future(compute(number)) for number in range(3)]
        await until(lambda: made.rows_waiting == 6 and len(entered) == 2)  # 3 * 49 > 100
        for refused in (made.exclusive(1, 1).__aenter__(), ask(made, 1)):
            with pytest.raises(Busy, match="6 examples wait already, and of 1 more at most 0 may"):
                await refused
        go.set()
        await asyncio.gather(*found)
        assert made.rows_waiting == 0 and entered == [0, 1, 2]
        assert await ask(made, 1) == [1]

    asyncio.run(story())


def test_large_work_is_not_passed_by_what_came_later():
    """Small ones kept it waiting for as long as they came, as each still fitted."""

    async def story():
        made, entered = batching(lambda call, rows: rows, max_waiting=100), []

        async def compute(name, cost):
            async with made.exclusive(1, cost):
                entered.append(name)
                await asyncio.sleep(0.01)

        work = []
        for number in range(20):
            work += [asyncio.ensure_future(compute(f"small {number}", 20))]
            if number == 3:
                work.append(asyncio.ensure_future(compute("large", 100)))
            await asyncio.sleep(0.002)
        await asyncio.gather(*work)
        assert entered.index("large") == 4

    asyncio.run(story())


def test_work_that_is_left_ends_at_the_next_call_of_the_network():
    ended = []

    def long():
        try:
            while True:
                with session.caller().turn(1):
                    pass
        finally:
            ended.append(True)

    async def story():
        made = batching(lambda call, rows: long())
        waits = asyncio.ensure_future(made.compute(long, signature="s", is_long=True))
        await until(lambda: made._began)
        waits.cancel()
        await asyncio.wait([waits])
        assert ended == [True] and not made.oldest
        batch = ask(made, 1, 2)
        await until(lambda: made._began)
        never = ask(made, 3)
        never.cancel()
        batch.cancel()
        await until(lambda: not made._began)
        assert ended == [True] * 2
        with session.caller().turn(1):  # in this thread nothing was left
            pass

    asyncio.run(story())


def test_a_place_in_the_line_is_given_up():
    async def story():
        made, go = batching(lambda call, rows: rows), asyncio.Event()

        async def compute(cost):
            async with made.exclusive(1, cost):
                await go.wait()

        first, second, third = (asyncio.ensure_future(compute(cost)) for cost in (60, 60, 40))
        await until(lambda: made.rows_waiting == 3)
        second.cancel()
        await until(lambda: made.rows_waiting == 2 and made._large.used == 100)
        first.cancel()
        await until(lambda: made._large.used == 40)
        go.set()
        await third
        assert (made.rows_waiting, made._large.used, len(made._large.line)) == (0, 0, 0)

    asyncio.run(story())


def test_small_work_does_not_wait_for_large_work():
    """32 beams of 700 tokens kept a filling of one word waiting for 10 s."""

    async def story():
        made, go = batching(lambda call, rows: rows), asyncio.Event()

        async def large():
            async with made.exclusive(1, 100):
                await go.wait()

        works = [asyncio.ensure_future(large()) for _ in range(2)]
        await until(lambda: made._large.used == 100)
        async with made.exclusive(1, 12):
            pass
        go.set()
        await asyncio.gather(*works)

    asyncio.run(story())


def test_few_requests_of_a_signature_have_a_copy_of_the_graph():
    """Sixteen at once built sixteen copies, seconds and tens of MB each."""

    async def story():
        made, go = batching(lambda call, rows: rows, max_waiting=9), asyncio.Event()
        begun = []

        async def reads(number):
            async with made.exclusive(1, 1, "fill"):
                begun.append(number)
                await go.wait()

        works = [asyncio.ensure_future(reads(number)) for number in range(7)]
        await until(lambda: len(begun) == 4)
        async with made.exclusive(1, 1, "attention"), made.exclusive(1, 1):
            assert begun == [0, 1, 2, 3]
        works[4].cancel()  # one that waits gives its place up
        works[0].cancel()  # one that reads frees its own
        await until(lambda: begun == [0, 1, 2, 3, 5])
        go.set()
        await asyncio.gather(*works[1:4], *works[5:])
        assert begun == [0, 1, 2, 3, 5, 6]

    asyncio.run(story())


def test_who_leaves_the_line_while_another_one_ends():
    """The one that ended failed, and the memory of the one that left was never given back."""

    async def story():
        made = batching(lambda call, rows: rows)

        async def work():
            async with made.exclusive(1, 100):
                await asyncio.sleep(60)

        first, second = (asyncio.ensure_future(work()) for _ in range(2))
        await until(lambda: made._large.used == 100)
        first.cancel()
        second.cancel()
        ended = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * 2
        assert made._large.used == 0 and not made._large.line

    asyncio.run(story())
