"""Batches of fine-tuning examples: each example once, about equally long, whatever the padding."""

import numpy as np
import pytest
from helpers.vocabulary import train_tiny_model

from xlnet.batches import input_pipeline
from xlnet.records import feature_spec
from xlnet.tasks import encoding
from xlnet.tasks.encoding import Example, Layout
from xlnet.tokenization import Tokenizer

LENGTH, ROWS = 40, 46


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("batches")
    tokenizer = Tokenizer(train_tiny_model(directory / "tiny.model"))
    lengths = np.random.RandomState(0).permutation(ROWS) % 12
    examples = [Example((("the cat " * (1 + length), None),), 0) for length in lengths.tolist()]
    return encoding.write_records(str(directory), "x", examples, tokenizer, Layout(LENGTH),
                                  label_names=("no", "yes")).path


def read(path, count=None, **how):
    """The first `count` batches, dicts of arrays."""
    import tensorflow.compat.v1 as tf
    with tf.Graph().as_default(), tf.Session() as session:
        batches = input_pipeline.finetuning_batches(
            path, feature_spec.finetuning_features(LENGTH), row_length=LENGTH, num_examples=ROWS,
            **how)
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


def test_every_example_is_evaluated_once(path):
    batches = read(path, batch_size=4)
    assert sorted(sum(numbers(batches), [])) == list(range(ROWS))
    assert [len(batch["index"]) for batch in batches] == [4] * 11 + [2]
    for batch in batches:
        tokens = (1 - batch["input_mask"]).sum(axis=1)
        assert batch["input_ids"].shape[1] == -(-tokens.max() // 8) * 8
    widths = [batch["input_ids"].shape[1] for batch in batches]
    assert widths == sorted(widths) and widths[0] < widths[-1] <= LENGTH


def test_padding_does_not_choose_the_examples(path):
    for how in (dict(), dict(shuffle_seed=3)):
        short, fixed = (read(path, 20, batch_size=4, multiple=multiple, **how)
                        for multiple in (8, LENGTH))
        assert numbers(short) == numbers(fixed)
        assert {batch["input_ids"].shape[1] for batch in fixed} == {LENGTH}
        for a, b in zip(short, fixed):
            width = a["input_ids"].shape[1]
            for name in ("input_ids", "input_mask", "segment_ids"):
                assert np.array_equal(a[name], b[name][:, LENGTH - width:])
            assert b["input_mask"][:, :LENGTH - width].all()


def test_training_sees_every_example_in_each_epoch(path):
    seen = sum(numbers(read(path, ROWS, batch_size=4, shuffle_seed=3)), [])     # four epochs
    assert len(seen) == 4 * ROWS
    # Batches are made of pools of 44 examples, so what an epoch has seen is off by a pool at most.
    counts = np.bincount(seen, minlength=ROWS)
    assert counts.min() >= 3 and counts.max() <= 5
    assert seen != sum(numbers(read(path, ROWS, batch_size=4, shuffle_seed=4)), [])


def test_a_resumed_run_gets_the_batches_it_missed(path):
    whole = numbers(read(path, 30, batch_size=4, shuffle_seed=3))
    for start in (1, 11, 12, 23):
        assert numbers(read(path, 30 - start, batch_size=4, shuffle_seed=3,
                            start_step=start)) == whole[start:]


def test_replicas_take_a_batch_in_parts(path):
    import tensorflow.compat.v1 as tf
    whole = numbers(read(path, 3, batch_size=4, shuffle_seed=3))
    with tf.Graph().as_default(), tf.Session() as session:
        parts = input_pipeline.for_replicas(input_pipeline.finetuning_batches(
            path, feature_spec.finetuning_features(LENGTH), row_length=LENGTH, num_examples=ROWS,
            batch_size=4, shuffle_seed=3), 2)
        part = tf.data.make_one_shot_iterator(parts).get_next()["index"]
        assert sum((session.run(part).tolist() for _ in range(6)), []) == sum(whole, [])
