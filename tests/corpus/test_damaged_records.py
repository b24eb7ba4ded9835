"""Damaged records: which one it is, and that only what is asked for is read."""

import os
import re
import shutil

import pytest
from helpers.pretraining import train

from xlnet.corpus import record_files
from xlnet.corpus.manifest import Manifest
from xlnet.support.errors import UserError

STREAM = 1  # of the four


def spoil(folder, sequences):
    """Changes a byte in some sequences of a stream; its path, and where its sequences begin."""
    manifest = Manifest.read(str(folder))
    path, stream = manifest.stream_paths(str(folder))[STREAM], manifest.streams[STREAM]
    places = range(0, stream["bytes"] + 1, stream["bytes"] // stream["windows"])
    with open(path, "rb") as f:
        content = bytearray(f.read())
    for sequence in sequences:
        content[places[sequence] + 30] ^= 1
    with open(path, "wb") as f:
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
    with open(path, "rb") as f:
        f.seek(places[7])
        expected = f.read(places[1])
    record = record_files.EqualRecords(path, places[1]).read(7)
    assert record_files.frame(record) == expected
    with pytest.raises(
        UserError, match=f"^{path}: record 6: found damage, .*; make the records again"
    ):
        record_files.EqualRecords(path, places[1]).read(6)


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
