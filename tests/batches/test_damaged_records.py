"""Damaged records: which one it is, what is read in its place, and that only what is asked for is
read."""

import os
import re
import shutil

import numpy as np
import pytest
from helpers.pretraining import curve, train

from xlnet.errors import UserError
from xlnet.records import tfrecord
from xlnet.records.manifest import Manifest
from xlnet.records.window_reader import WindowReader

STREAM = 1          # of the four


def spoil(folder, *windows):
    """Changes a byte in some windows of a stream; the path of its file, where its windows begin."""
    manifest = Manifest.read(str(folder))
    path, stream = manifest.stream_paths(str(folder))[STREAM], manifest.streams[STREAM]
    places = range(0, stream["bytes"] + 1, stream["bytes"] // stream["windows"])
    with open(path, "rb") as f:
        content = bytearray(f.read())
    for window in windows:
        content[places[window] + 30] ^= 1
    with open(path, "wb") as f:
        f.write(content)
    return path, places


@pytest.fixture
def folder(place, tmp_path):
    return shutil.copytree(place / "train", tmp_path / "train")


def test_a_window_is_read_by_its_place_alone(folder, monkeypatch):
    path, places = spoil(folder)
    read, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda *arguments: read.append(arguments[1:]) or pread(
        *arguments))
    record, = WindowReader().read(path, places, 7)
    size = places[1]
    assert read == [(size, 7 * size)]
    with open(path, "rb") as f:
        assert tfrecord.frame(record) == f.read()[7 * size:8 * size]


def test_the_next_whole_window_stands_in(folder, caplog):
    path, places = spoil(folder, 3, 4, 5)
    whole = WindowReader().read(path, places, 6)
    reader = WindowReader(skips_damaged=True)
    for window in (3, 4, 5, 3):
        assert reader.read(path, places, window) == whole
    assert caplog.messages == ["note: %s: record %d is damaged and skipped, %d so far"
                               % (path, window, i + 1) for i, window in enumerate((3, 4, 5))]
    with pytest.raises(UserError, match="^%s: record 3 is damaged; regenerate the records, or give "
                       "--on_error=skip to read the next intact one instead$" % path):
        WindowReader().read(path, places, 3)
    last = len(places) - 2
    spoil(folder, last)
    assert reader.read(path, places, last) == reader.read(path, places, last - 1)


def test_nothing_left(folder):
    path, places = spoil(folder)
    with open(path, "r+b") as f:
        f.write(bytes(places[-1]))
    with pytest.raises(UserError, match="all records are damaged"):
        WindowReader(skips_damaged=True).read(path, places, 0)
    os.remove(path)
    with pytest.raises(UserError, match="cannot be read: No such file"):
        WindowReader(skips_damaged=True).read(path, places, 0)


def test_many_files_need_few_open_ones(folder):
    """Those that were closed are opened again."""
    path, places = spoil(folder)
    reader, before = WindowReader(), len(os.listdir("/proc/self/fd"))
    for i in range(600):
        other = "%s-%d" % (path, i)
        os.link(path, other)
        assert reader.read(other, places, 0)
    assert len(os.listdir("/proc/self/fd")) <= before + 256
    del reader
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.slow
def test_a_run_skips_damage_and_goes_on_behind_it(place, folder):
    """The first window of a stream and one in it; started again behind them, nothing is said."""
    path, _ = spoil(folder, 0, 2)
    run = dict(record_info_dir=folder, train_steps=4, save_steps=2)
    done = train(place, "fails", **run)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "train_gpu.py: %s: record 0 is damaged; regenerate the records, or" % path in done.stderr
    done = train(place, "skips", on_error="skip", **run)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"record (\d) is damaged and skipped, (\d) so far", done.stderr) == [
        ("0", "1"), ("2", "2")]
    assert np.isfinite(curve(place, "skips")).all()
    done = train(place, "skips", **dict(run, train_steps=5))
    assert done.returncode == 0 and not done.stderr, done.stderr
