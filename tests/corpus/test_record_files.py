"""record_files: the bytes of sequences, checked by TensorFlow's own readers; which record is
damaged, and that only what is asked for is read."""

import os
import re
import shutil
import types

import numpy as np
import pytest
from helpers.pretraining import train
from helpers.sequences import CLS, SEP, TOKENIZER, all_segments, readings, small_text

from xlnet.corpus import record_files, sequences
from xlnet.corpus.manifest import Manifest
from xlnet.support.errors import UserError


def written(tmp_path, cell, vocabulary, seq_len, reuse_len):
    """Writes the records of a cell; returns them as TensorFlow parses them."""
    import tensorflow as tf

    layout = record_files.pretraining_features(seq_len)
    encoder = record_files.ExampleBytes(layout, vocabulary.vocab_size - 1)
    path = str(tmp_path / "sequences.tfrecord")
    with open(path, "wb") as f:
        for columns in sequences.columns(cell, seq_len, reuse_len, vocabulary):
            f.writelines(map(record_files.frame, encoder.encode(columns)))
    batch = tf.data.TFRecordDataset(path).batch(10**6).get_single_element()
    parsed = record_files.parse(layout, batch)
    assert len(record_files.EqualRecords(path)) == len(batch)
    return {name: value.numpy() for name, value in parsed.items()}


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("seq_len, reuse_len", [(32, 12), (6, 1), (60, 55)])
def test_a_sequence_is_laid_out_by_the_rule(tmp_path, direction, seq_len, reuse_len):
    reading = readings(small_text(400))[direction]
    begins, drawn = all_segments(reading, seq_len=seq_len, reuse_len=reuse_len)
    cell = sequences.Cell(reading, begins, drawn, direction, True)
    found = written(tmp_path, cell, TOKENIZER, seq_len, reuse_len)
    ids, words = reading.ids.tolist(), reading.words.astype(int).tolist()
    for i, begin in enumerate(begins):
        a_len, b = drawn.a_len[i], drawn.b_begin[i]
        b_len = seq_len - reuse_len - 3 - a_len
        a = begin + reuse_len
        assert a_len >= 1 and b_len >= 1
        assert found["input"][i].tolist() == (
            ids[begin : a + a_len] + [SEP] + ids[b : b + b_len] + [SEP, CLS]
        )
        assert found["seg_id"][i].tolist() == (
            [0] * (reuse_len + a_len + 1) + [1] * (b_len + 1) + [2]
        )
        words_of_a, words_of_b = words[a + 1 : a + a_len], words[b + 1 : b + b_len]
        assert found["word_start"][i].tolist() == (
            [1, *words[begin + 1 : a], 1, *words_of_a, 1, 1, *words_of_b, 1, 1]
        )
    assert found["label"].tolist() == drawn.label.tolist()
    assert set(found["direction"].tolist()) == {direction}
    assert found["starts_stream"].tolist() == [1] + [0] * (len(begins) - 1)


@pytest.mark.parametrize("vocab_size", [10, 129, 250000])
def test_ids_of_any_vocabulary_survive(tmp_path, vocab_size):
    vocabulary = types.SimpleNamespace(
        vocab_size=vocab_size,
        is_word_start=np.ones(vocab_size, bool),
        stands_alone=np.zeros(vocab_size, bool),
        sep_id=SEP,
        cls_id=CLS,
    )
    ids = np.random.default_rng(0).integers(5, vocab_size, 4000).astype(np.uint32)
    ids[:2] = [5, vocab_size - 1]
    reading = sequences.directed(ids, 0, vocabulary)
    begins, drawn = all_segments(reading)
    cell = sequences.Cell(reading, begins, drawn, 0, False)
    found = written(tmp_path, cell, vocabulary, 32, 12)
    assert np.array_equal(found["input"][:, :12].ravel(), ids[: 12 * len(begins)])
    assert not found["starts_stream"].any()


# Damaged records.

STREAM = 1  # of the four


def spoil(folder, sequences):
    """Changes a byte in some sequences of a stream; its path, and where its sequences begin."""
    manifest = Manifest.read(str(folder))
    path, stream = manifest.stream_paths(str(folder))[STREAM], manifest.streams[STREAM]
    places = range(0, stream["bytes"] + 1, stream["bytes"] // stream["windows"])
    with open(path, "r+b") as f:
        content = bytearray(f.read())
        for sequence in sequences:
            content[places[sequence] + 30] ^= 1
        f.seek(0)
        f.write(content)
    return path, places


@pytest.fixture
def folder(place, tmp_path):
    return shutil.copytree(place / "train", tmp_path / "train")


def test_a_sequence_is_read_by_its_place_alone(folder):
    manifest = Manifest.read(str(folder))
    manifest.verify(str(folder))
    path, places = spoil(folder, range(7))
    with pytest.raises(UserError) as error:
        manifest.verify(str(folder))
    said = f"{re.escape(str(path))}: found sha256 .*, expected .*, as in manifest.json"
    assert re.match(said, str(error.value)) and "\n" not in str(error.value)
    records = record_files.EqualRecords(path, places[1])
    with open(path, "rb") as f:
        f.seek(places[7])
        assert record_files.frame(records.read(7)) == f.read(places[1])
    with pytest.raises(UserError, match=f"^{path}: record 6: found damage"):
        records.read(6)


def test_a_file_that_lost_its_end_or_vanished_while_it_is_read(folder):
    path, places = spoil(folder, ())
    for size in (places[7] + 20, places[7]):
        os.truncate(path, size)
        with pytest.raises(UserError, match="record 7: found damage"):
            record_files.EqualRecords(path, places[1]).read(7)
    os.remove(path)
    with pytest.raises(UserError, match="cannot be read: No such"):
        record_files.EqualRecords(path, places[1]).read(0)


@pytest.mark.slow
def test_a_run_ends_at_damage_in_one_line(place, folder):
    path, _ = spoil(folder, [0])
    done = train(place, "fails", record_info_dir=folder, train_steps=4)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"train_gpu.py: {path}: record 0: found damage" in done.stderr
