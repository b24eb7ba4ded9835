"""Pretraining batches: rows, steps and epochs of the same records agree with each other."""

import numpy as np
import pytest

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.pretraining import SamplingSettings

BATCH = 2  # of 4 streams: an epoch has two rounds


class Reader:
    """Reads the batches of a folder with records; `epoch` is its number of steps."""

    def __init__(self, folder):
        self._folder, self._manifest = str(folder), Manifest.read(str(folder))
        self._tokenizer = Tokenizer(str(folder / self._manifest.sp_model))
        self.epoch = input_pipeline.steps_per_epoch(self._manifest, BATCH)
        self.sequences = self._manifest.windows_per_stream

    def __call__(self, steps, batch_size=BATCH, **changes):
        """`steps` batches, as a dict of arrays [steps,...]."""
        import tensorflow.compat.v1 as tf

        with tf.Graph().as_default(), tf.Session() as session:
            dataset = self.dataset(batch_size, **changes)
            batch = tf.data.make_one_shot_iterator(dataset).get_next()
            batches = [session.run(batch) for _ in range(steps)]
        return {name: np.stack([one[name] for one in batches]) for name in batches[0]}

    def dataset(self, batch_size=BATCH, **changes):
        return input_pipeline.pretraining_batches(
            self._folder,
            self._manifest,
            batch_size=batch_size,
            sampling=SamplingSettings(num_predict=5, perm_size=16),
            tokenizer=self._tokenizer,
            seed=3,
            **changes,
        )


@pytest.fixture(scope="module")
def read(place):
    return Reader(place / "train")


@pytest.fixture(scope="module")
def epochs(read):
    """Two epochs."""
    return read(2 * read.epoch)


def assert_equal(found, expected, names=None):
    for name in names or expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def cut(batches, part):
    return {name: value[part] for name, value in batches.items()}


def test_a_step_is_the_same_wherever_reading_starts(read, epochs):
    """Within a round, at its last sequence, at the next round's first, in the second epoch."""
    for start in (3, read.sequences - 1, read.sequences, read.epoch + 1):
        assert_equal(read(3, start_step=start), cut(epochs, slice(start, start + 3)))


def test_rows_are_rows_of_the_whole_batch(read, epochs):
    steps = read.sequences + 2
    for rows in (slice(0, 1), slice(1, 2)):
        assert_equal(read(steps, rows=rows), cut(epochs, (slice(steps), rows)))


def test_epochs_have_the_same_sequences_and_other_draws(read, epochs):
    first, second = cut(epochs, slice(read.epoch)), cut(epochs, slice(read.epoch, None))
    names = ("input_ids", "seg_ids", "direction", "label", "starts_stream")
    assert_equal(first, second, names)
    same = (first["positions"] == second["positions"]).all(axis=-1)
    assert same.mean() < 0.1, "sequences whose targets are those of the epoch before"
    assert (first["rank"] != second["rank"]).any(axis=-1).mean() > 0.9


def test_a_sequence_is_drawn_the_same_in_any_batch_size(read, epochs):
    """Streams 0 to 3: two at a time, and all side by side."""
    found = read(read.sequences, batch_size=4)
    for number in range(2):
        begin = number * read.sequences
        expected = cut(epochs, slice(begin, begin + read.sequences))
        rows = slice(BATCH * number, BATCH * (number + 1))
        assert_equal(cut(found, (slice(None), rows)), expected)


@pytest.mark.parametrize(
    "num_streams, batch, directions", ((32, 16, 2), (24, 3, 2), (8, 1, 2), (9, 3, 1))
)
def test_each_round_is_of_the_whole_text_and_both_directions(
    num_streams, batch, directions
):
    rounds = input_pipeline.rounds(num_streams, batch, directions)
    # An epoch is every stream once.
    assert sorted(rounds.ravel()) == list(range(num_streams))
    together = directions if batch % directions == 0 else 1
    distance = num_streams * together // batch
    for streams in rounds:
        assert (streams // distance == np.arange(batch) // together).all()
        backward = (streams % directions).sum()
        assert batch == 1 or abs(backward - batch * (directions - 1) / 2) < 1
