"""Windows of questions, cut in the graph, are those of `question_windows`."""

import random

import pytest
import tensorflow.compat.v1 as tf

from xlnet.tasks.features.question_windows import windows_of

pytestmark = pytest.mark.slow

pytest.importorskip("tensorflow_text", reason="raw text in the graph needs tensorflow-text")


def test_windows():
    """Windows and what of them has most context, ties too; of a book in time that is linear."""
    from xlnet.serving.export import graph_questions
    draw = random.Random(0)
    with tf.Graph().as_default(), tf.Session() as session:
        count, room = (tf.placeholder(tf.int64, [None]) for _ in range(2))
        for stride in (1, 7, 128):
            counts = [0, 1, 40, 250_000 if stride > 1 else 50, *draw.choices(range(900), k=30)]
            rooms = [20, 20, 20, 300, *draw.choices((15, 100, 384), k=30)]
            found = session.run(graph_questions._windows(count, room, stride),
                                {count: counts, room: rooms})
            expected = [(row, *window) for row, one in enumerate(zip(counts, rooms))
                        for window in windows_of(*one, stride)]
            assert list(zip(*(each.tolist() for each in found))) == expected
