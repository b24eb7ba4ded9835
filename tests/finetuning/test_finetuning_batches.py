"""Batches of fine-tuning examples: each example once, about equally long, whatever the padding."""

import numpy as np
import pytest
from helpers.tasks import write_records
from helpers.vocabulary import train_tiny_model

from xlnet.corpus import input_pipeline, record_files
from xlnet.corpus.record_files import ExampleBytes, Feature
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.support.errors import UserError
from xlnet.tasks.encoding import Layout
from xlnet.tasks.task import Row

LENGTH, ROWS = 40, 46
CLASS = (Feature("label_ids", (), "int"),)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("batches")
    tokenizer = Tokenizer(train_tiny_model(directory / "tiny.model"))
    lengths = np.random.RandomState(0).permutation(ROWS) % 12
    rows = [Row("", (("the cat " * (1 + length), None),), "0") for length in lengths]
    return write_records(directory, rows, tokenizer, Layout(LENGTH))


def read(path, count=None, **how):
    """The first `count` batches, dicts of arrays."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        batches = input_pipeline.finetuning_batches(
            path,
            record_files.finetuning_features(LENGTH, CLASS, 1),
            row_length=LENGTH,
            **how,
        )
        batch = tf.data.make_one_shot_iterator(batches).get_next()
        found = []
        while count is None or len(found) < count:
            try:
                found.append(session.run(batch))
            except tf.errors.OutOfRangeError:
                break
    return found


def numbers(batches):
    return [batch["index"].tolist() for batch in batches]


def test_padding_does_not_choose_the_examples(path):
    short = read(path, 20, batch_size=4, multiple=8, shuffle_seed=3)
    fixed = read(path, 20, batch_size=4, multiple=LENGTH, shuffle_seed=3)
    assert numbers(short) == numbers(fixed)
    assert {batch["input_ids"].shape[1] for batch in fixed} == {LENGTH}
    for a, b in zip(short, fixed):
        width = a["input_ids"].shape[1]
        tokens = (1 - a["input_mask"]).sum(axis=1)
        assert width == -(-tokens.max() // 8) * 8
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert np.array_equal(a[name], b[name][:, LENGTH - width :])
        assert b["input_mask"][:, : LENGTH - width].all()


def test_training_sees_every_example_in_each_epoch(path):
    seen = sum(
        numbers(read(path, ROWS, batch_size=4, shuffle_seed=3)), []
    )  # four epochs
    assert len(seen) == 4 * ROWS
    # Batches are made of pools of 44 examples, so what an epoch has seen is off by a pool at most.
    counts = np.bincount(seen, minlength=ROWS)
    assert counts.min() >= 3 and counts.max() <= 5
    assert seen != sum(numbers(read(path, ROWS, batch_size=4, shuffle_seed=4)), [])


@pytest.mark.parametrize("batch_size", [1, 16, 23, ROWS])
def test_no_batch_has_an_example_twice(path, batch_size):
    """Not where a pool has the end of an epoch and the start of the next either."""
    seen = numbers(read(path, 100, batch_size=batch_size, shuffle_seed=3))
    assert all(len(set(batch)) == batch_size for batch in seen)
    counts = np.bincount(sum(seen, []), minlength=ROWS)
    assert counts.max() - counts.min() <= 2


def test_a_batch_larger_than_the_file_has_all_of_it(path):
    (first,) = numbers(read(path, 1, batch_size=ROWS + 10, shuffle_seed=3))
    assert len(first) == ROWS + 10 and set(first) == set(range(ROWS))


def test_a_resumed_run_gets_the_batches_it_missed(path):
    whole = numbers(read(path, 30, batch_size=4, shuffle_seed=3))
    for start in (1, 11, 12, 23, 29):
        assert (
            numbers(
                read(path, 30 - start, batch_size=4, shuffle_seed=3, start_step=start)
            )
            == whole[start:]
        )


def test_a_file_of_any_size_is_shuffled_whole(tmp_path):
    """A sorted file of 130,000 rows: every stretch of it is in every stretch of an epoch."""
    import tensorflow.compat.v1 as tf

    rows, length, batch_size = 130000, 4, 1000
    layout = record_files.finetuning_features(length, CLASS, 1)
    empty = {f.name: np.zeros((1, *f.shape)) for f in layout if f.dtype == "float"}
    empty.update(
        {f.name: np.zeros((1, *f.shape), int) for f in layout if f.dtype == "int"}
    )
    record = record_files.frame(ExampleBytes(layout, largest=1).encode(empty)[0])
    path = str(tmp_path / "sorted.tfrecord")
    with open(path, "wb") as f:
        f.write(record * rows)
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.data.make_one_shot_iterator(
            input_pipeline.finetuning_batches(
                path,
                layout,
                row_length=length,
                batch_size=batch_size,
                shuffle_seed=1,
            )
        ).get_next()["index"]
        seen = np.concatenate([session.run(batch) for _ in range(128)])
    assert len(np.unique(seen)) == len(seen) == 128000
    for stretch in seen.reshape(4, -1):
        # 32,000 rows fall evenly into 10 parts: 3,200 each, standard deviation 46.
        counts = np.bincount(stretch // (rows // 10), minlength=10)
        assert abs(counts - 3200).max() < 300


def test_a_file_that_was_cut_or_damaged_is_named(path, tmp_path):
    with open(path, "rb") as f:
        whole = f.read()
    cut, damaged = tmp_path / "cut.tfrecord", tmp_path / "damaged.tfrecord"
    cut.write_bytes(whole[:-100])
    with pytest.raises(
        UserError, match=r"cut.tfrecord: found \d+ bytes, expected records of"
    ):
        len(record_files.EqualRecords(str(cut)))
    size = len(whole) // ROWS
    damaged.write_bytes(whole[: 3 * size + 50] + b"?" + whole[3 * size + 51 :])
    records = record_files.EqualRecords(str(damaged))
    assert len(records) == ROWS and records.read(2) == records.read(2) != records.read(
        45
    )
    with pytest.raises(UserError, match="damaged.tfrecord: record 3: found damage"):
        records.read(3)


def test_replicas_take_a_batch_in_parts(path):
    import tensorflow.compat.v1 as tf

    whole = numbers(read(path, 3, batch_size=4, shuffle_seed=3))
    with tf.Graph().as_default(), tf.Session() as session:
        parts = input_pipeline.for_replicas(
            input_pipeline.finetuning_batches(
                path,
                record_files.finetuning_features(LENGTH, CLASS, 1),
                row_length=LENGTH,
                batch_size=4,
                shuffle_seed=3,
            ),
            2,
        )
        part = tf.data.make_one_shot_iterator(parts).get_next()["index"]
        assert sum((session.run(part).tolist() for _ in range(6)), []) == sum(whole, [])
