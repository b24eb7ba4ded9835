"""Turns of the network: who has used it least is next, and nobody is passed for ever."""

import threading
import time

import pytest

from xlnet.serving.server.fair_turns import FairTurns

SHORT, LONG = 1, 4096  # tokens


def worker(turns, name, signature, seconds, count, done, tokens=SHORT):
    def work():
        for _ in range(count):
            with turns.turn(signature, name, tokens):
                time.sleep(seconds)
                done.append(name)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def order(turns, *workers):
    """The names of the workers in the order of their turns, which begin while the line is held."""
    done = []
    with turns.turn("first", object(), SHORT):
        threads = [worker(turns, *each, done) for each in workers]
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    return done


def test_requests_of_a_signature_share_its_time():
    """Of a long and a short one, whose turns take as long, each has every second."""
    done = order(FairTurns(), ("a", "s", 0.01, 6), ("b", "s", 0.01, 3))
    assert sorted(done[:6]) == ["a"] * 3 + ["b"] * 3 and done[6:] == ["a"] * 3


def test_time_counts_not_turns():
    """Each of them always waits: two threads take turn about."""
    workers = [("long", "s", 0.08, 3)] * 2 + [("short", "s", 0.02, 8)] * 2
    done = order(FairTurns(), *workers)
    assert done[:10].count("short") >= 7


def test_signatures_share_equally_however_many_requests_one_has():
    others = [(f"b{number}", "busy", 0.01, 3) for number in range(4)]
    done = order(FairTurns(), *others, ("light", "light", 0.01, 3))
    assert "light" in done[:2] and done[:6].count("light") >= 2


def test_who_comes_again_and_again_does_not_pass_a_long_one_for_ever():
    """Each new request begins at the common clock, not at zero."""
    turns, done = FairTurns(), []
    long = worker(turns, "long", "s", 0.02, 3, done)
    end = time.monotonic() + 20
    while long.is_alive() and time.monotonic() < end:
        threads = [worker(turns, "new", "s", 0.005, 1, done) for _ in range(2)]
        for thread in threads:
            thread.join()
    assert not long.is_alive() and done.count("long") == 3


def test_a_short_call_does_not_wait_for_a_long_one():
    turns = FairTurns()
    with turns.turn("s", object(), LONG):
        done = []
        thread = worker(turns, "short", "s", 0, 1, done)
        thread.join(10)
        assert done == ["short"]


def test_a_call_that_fails_gives_its_turn_back():
    turns = FairTurns()
    with pytest.raises(ValueError), turns.turn("s", "a", SHORT):
        raise ValueError
    with turns.turn("s", "a", SHORT):
        pass
