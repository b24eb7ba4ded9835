"""Batches of fine-tuning examples: each example once, about equally long, whatever the padding."""

import numpy as np
import pytest
from helpers.tasks import write_records
from helpers.vocabulary import train_tiny_model

from xlnet.corpus import input_pipeline, record_files
from xlnet.corpus.record_files import ExampleBytes, Feature
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.tasks.encoding import Layout
from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.known import TASK_TYPES

LENGTH, ROWS = 40, 46
CLASS = (Feature("label_ids", (), "int"),)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer(train_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.model"))


@pytest.fixture(scope="module")
def path(tokenizer, tmp_path_factory):
    lengths = np.random.RandomState(0).permutation(ROWS) % 12
    rows = [Row("", (("the cat " * (1 + length), None),), "0") for length in lengths]
    directory = tmp_path_factory.mktemp("batches")
    return write_records(directory, rows, tokenizer, Layout(LENGTH))


def read(path, count, *, length=LENGTH, choices=1, replicas=1, **how):
    """The first `count` batches, dicts of arrays."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        batches = input_pipeline.finetuning_batches(
            path,
            record_files.finetuning_features(length, CLASS, choices),
            row_length=length,
            **how,
        )
        parts = input_pipeline.for_replicas(batches, replicas)
        batch = tf.data.make_one_shot_iterator(parts).get_next()
        return [session.run(batch) for _ in range(count)]


def numbers(batches):
    return [batch["index"].tolist() for batch in batches]


def check_padding(path, choices=1):
    """Batches with little padding have the examples of those with all of it."""
    how = dict(choices=choices, batch_size=4, shuffle_seed=3)
    short = read(path, 20, multiple=8, **how)
    fixed = read(path, 20, multiple=LENGTH, **how)
    assert numbers(short) == numbers(fixed)
    assert {batch["input_ids"].shape[1] for batch in fixed} == {choices * LENGTH}
    for a, b in zip(short, fixed):
        width = a["input_ids"].shape[1] // choices
        for name in ("input_ids", "input_mask", "segment_ids"):
            a[name] = a[name].reshape(4, choices, width)
            b[name] = b[name].reshape(4, choices, LENGTH)
            assert np.array_equal(a[name], b[name][..., LENGTH - width :])
        tokens = (1 - a["input_mask"]).sum(axis=2)
        assert width == -(-tokens.max() // 8) * 8
        assert b["input_mask"][..., : LENGTH - width].all()


def test_padding_does_not_choose_the_examples(path, tokenizer, tmp_path):
    check_padding(path)
    rows = []
    for number in range(ROWS):
        choices = "the cat " * (1 + number % 12), "a mat " * (1 + number % 7)
        rows.append(Row("", tuple((choice, None) for choice in choices), "0"))
    task = TASK_TYPES["multiple_choice"]("mine", Columns(), ("0", "1"), ())
    made = write_records(tmp_path, rows, tokenizer, Layout(LENGTH), task)
    check_padding(made, choices=2)


def test_training_sees_every_example_in_each_epoch(path):
    four_epochs = read(path, ROWS, batch_size=4, shuffle_seed=3)
    seen = sum(numbers(four_epochs), [])
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
        how = dict(batch_size=4, shuffle_seed=3, start_step=start)
        assert numbers(read(path, 30 - start, **how)) == whole[start:]


def test_a_file_of_any_size_is_shuffled_whole(tmp_path):
    """A sorted file of 130,000 rows: every stretch of it is in every stretch of an epoch."""
    rows, length = 130000, 4
    layout = record_files.finetuning_features(length, CLASS, 1)
    empty = {}
    for feature in layout:
        dtype = int if feature.dtype == "int" else float
        empty[feature.name] = np.zeros((1, *feature.shape), dtype)
    record = record_files.frame(ExampleBytes(layout, largest=1).encode(empty)[0])
    path = tmp_path / "sorted.tfrecord"
    path.write_bytes(record * rows)
    how = dict(length=length, batch_size=1000, shuffle_seed=1)
    seen = np.concatenate(numbers(read(str(path), 128, **how)))
    assert len(np.unique(seen)) == len(seen) == 128000
    for stretch in seen.reshape(4, -1):
        # 32,000 rows fall evenly into 10 parts: 3,200 each, standard deviation 46.
        counts = np.bincount(stretch // (rows // 10), minlength=10)
        assert abs(counts - 3200).max() < 300


def test_replicas_take_a_batch_in_parts(path):
    how = dict(batch_size=4, shuffle_seed=3)
    parts = numbers(read(path, 6, replicas=2, **how))
    assert {len(part) for part in parts} == {2}
    assert sum(parts, []) == sum(numbers(read(path, 3, **how)), [])
