"""Texts and files from anywhere: laws over what hypothesis draws, and what long ones take.

With more examples: XLNET_TEST_EXAMPLES=10000.
"""

import os

import pytest
from helpers import hostile
from helpers.hostile import LAWS, READERS, SHAPES

EXAMPLES = int(os.environ.get("XLNET_TEST_EXAMPLES", "25"))
SIZE = 64_000               # characters
SOON = 10.                  # CPU seconds; some tenths on an idle machine


@pytest.fixture(scope="module")
def place():
    made = hostile.Place()
    yield made
    made.close()


@pytest.mark.parametrize("name", LAWS)
def test_the_law_holds(name, place):
    hostile.try_law(name, place, EXAMPLES)


def test_a_broken_law_is_seen(place, monkeypatch):
    monkeypatch.setattr(hostile, "clean_text", lambda text, *how: text.strip())
    with pytest.raises(AssertionError):
        hostile.try_law("cleaning", place, 200)


@pytest.mark.parametrize("name", READERS)
def test_a_long_text_is_read_soon(name, place):
    """A step for each pair of characters would take minutes."""
    read = READERS[name](place)
    took = {kind: hostile.seconds(read, shape(SIZE)) for kind, shape in SHAPES.items()}
    assert max(took.values()) < SOON, took


def test_a_bomb_takes_no_memory(place):
    """20 MB in 20 kB."""
    assert hostile.peak_of_bomb(place, 20) < 6e6
