"""preparation: killed jobs, parts of several machines, the pipeline on Beam."""

import contextlib
import dataclasses
import gzip
import os
import pathlib
import shutil
import signal
import time

import pytest
from helpers import command
from helpers.preparation import make_documents, make_workspace

from xlnet.corpus import preparation, processes, reading
from xlnet.corpus.manifest import Manifest
from xlnet.settings.data import CorpusSettings
from xlnet.support import system
from xlnet.support.errors import UserError

CHUNK_BYTES, BLOCK_TOKENS, CELL_TOKENS = 700, 150, 200


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("preparation")))


@pytest.fixture
def small_pieces(monkeypatch):
    """So small a text has many chunks, blocks and cells."""
    monkeypatch.setattr(reading, "SMALLEST_CHUNK", CHUNK_BYTES)
    monkeypatch.setattr(reading, "LARGEST_CHUNK", CHUNK_BYTES)
    monkeypatch.setattr(preparation.sequences, "BLOCK_TOKENS", BLOCK_TOKENS)
    monkeypatch.setattr(preparation.sequences, "CELL_TOKENS", CELL_TOKENS)


@pytest.fixture
def settings(workspace, tmp_path):
    return CorpusSettings(
        input_glob=workspace.path("text.txt"),
        sp_path=workspace.path("sp.model"),
        save_dir=str(tmp_path / "out"),
        seq_len=64,
        reuse_len=24,
        num_streams=4,
        num_passes=2,
        num_workers=1,
    )


def content(directory):
    """All files below a directory but the lock: {path: bytes}."""
    below = pathlib.Path(directory)
    paths = [
        path
        for path in below.rglob("*")
        if path.is_file() and path.name != "preparation.lock"
    ]
    return {str(path.relative_to(below)): path.read_bytes() for path in paths}


def moved(settings, name, **values):
    directory = os.path.join(os.path.dirname(settings.save_dir), name)
    return dataclasses.replace(settings, save_dir=directory, **values)


def assert_as_made_at_once(settings):
    """The records of the settings are those of a run in an empty directory."""
    fresh = moved(settings, "fresh")
    preparation.make_records(fresh)
    assert content(fresh.save_dir) == content(settings.save_dir)


@contextlib.contextmanager
def stopped_after(monkeypatch, count):
    """An interrupt instead of the rename after `count` ones."""
    replace, left = os.replace, iter(range(count))

    def failing(source, target):
        if next(left, None) is None:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(os, "replace", failing)
        yield


@pytest.mark.slow
def test_a_job_stopped_anywhere_is_continued(settings, monkeypatch, small_pieces):
    monkeypatch.setattr(reading, "LARGEST_CHUNK", 4 * CHUNK_BYTES)
    expected = preparation.make_records(settings)
    assert expected.manifest.tokens > 3 * BLOCK_TOKENS
    steps, is_complete = 0, False
    while not is_complete:
        again = moved(settings, f"stopped-{steps}")
        with stopped_after(monkeypatch, steps):
            preparation.make_records(again)
            is_complete = True
        preparation.make_records(again)
        assert content(again.save_dir) == content(settings.save_dir), steps
        steps += 1
    assert steps > 15  # each of them a file that was to be finished


@pytest.mark.slow
def test_settings_that_are_refused_cost_nothing(settings, monkeypatch, small_pieces):
    """A command with longer sequences than the text leaves the streams of the one before."""
    streams, steps = [], 10
    while not streams:
        stopped = moved(settings, f"half-{steps}")
        with stopped_after(monkeypatch, steps):
            preparation.make_records(stopped)
        streams = [name for name in content(stopped.save_dir) if "stream-" in name]
        steps += 1
    with pytest.raises(UserError, match="expected at least"):
        preparation.make_records(dataclasses.replace(stopped, seq_len=300_000))
    assert set(streams) <= set(content(stopped.save_dir))


# What is finished is kept, whatever comes behind it.


def test_a_file_that_fails_costs_no_other_file(
    settings, small_pieces, monkeypatch, tmp_path
):
    names, tokenize = [], preparation.tokenized.tokenize

    def noted(chunk, *arguments):
        names.append(os.path.basename(chunk.path))
        return tokenize(chunk, *arguments)

    monkeypatch.setattr(preparation.tokenized, "tokenize", noted)
    text = make_documents(3, 30)
    for name, part in (("a.txt", text[:24]), ("b.txt", text[24:])):
        (tmp_path / name).write_text("\n\n".join(map("\n".join, part)), "utf-8")
    settings = dataclasses.replace(settings, input_glob=str(tmp_path / "*.txt"))
    good = (tmp_path / "b.txt").read_bytes()
    (tmp_path / "b.txt").write_bytes(good[:-1] + b"\xff")
    with pytest.raises(UserError, match="b.txt, line .* found byte 0xff"):
        preparation.make_records(settings)
    assert names.count("a.txt") > 5
    (tmp_path / "b.txt").write_bytes(good)
    names.clear()
    preparation.make_records(settings)
    assert set(names) == {"b.txt"}
    assert_as_made_at_once(settings)


def test_a_second_run_in_the_directory_is_refused(settings):
    folder = preparation.unfinished_folder(settings.save_dir)
    with (
        system.locked(os.path.join(folder, "preparation.lock"), "another run"),
        pytest.raises(UserError, match="^save_dir: records are made in .*out already"),
    ):
        preparation.make_records(settings)
    preparation.make_records(settings)
    assert not preparation.make_records(settings).is_new


# The same records, or others.


def test_text_edited_to_the_same_size_is_other_text(settings, tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    shutil.copy(settings.input_glob, path)
    settings = dataclasses.replace(settings, input_glob=str(path))

    def edit():
        path.write_bytes(path.read_bytes().replace(b"a", b"o", 40))
        os.utime(path, (1, 1))

    preparation.make_records(settings)
    before = content(settings.save_dir)
    os.utime(settings.input_glob, (1, 1))
    assert not preparation.make_records(settings).is_new
    edit()
    with pytest.raises(UserError, match="found another text, expected the text of"):
        preparation.make_records(settings)
    assert content(settings.save_dir) == before
    shutil.rmtree(settings.save_dir)
    with stopped_after(monkeypatch, 30):  # and again while a run is unfinished
        preparation.make_records(settings)
    edit()
    preparation.make_records(settings)
    assert before != content(settings.save_dir)
    assert_as_made_at_once(settings)


def test_text_that_is_read_in_another_form_is_other_text(settings, tmp_path):
    (tmp_path / "text.txt").write_text('{"text": "Telok sol. Kamat mi."}\n' * 40)
    path = str(tmp_path / "text.*")
    settings = dataclasses.replace(settings, input_glob=path, num_streams=2)
    preparation.make_records(settings)
    (tmp_path / "text.txt").rename(tmp_path / "text.jsonl")
    with pytest.raises(UserError, match="found another text, expected the text of"):
        preparation.make_records(settings)


def end_at_once(number):
    time.sleep(1)  # a pool of which one dies while another is being started never ends
    signal.raise_signal(number)


@pytest.mark.slow
def test_a_killed_worker_is_named():
    """Killed as by a machine that is short of memory."""
    kills = [signal.SIGKILL] * 2
    with pytest.raises(UserError, match="a worker process was killed"):
        processes.in_processes(end_at_once, kills, [1, 1], "killing", "", 2)


# Several machines.


def test_tasks_are_merged(settings, small_pieces):
    shared = moved(settings, "shared", num_task=2, num_streams=2)
    os.makedirs(shared.save_dir)
    with pytest.raises(UserError, match="found nothing, expected task-00000-of-00002"):
        preparation.merge(shared.save_dir)
    preparation.make_records(shared)
    with pytest.raises(UserError, match="expected task-00000-of-00002, task-00001-"):
        preparation.merge(shared.save_dir)
    preparation.make_records(dataclasses.replace(shared, task=1, seed=1))
    with pytest.raises(UserError, match="task-00001-of-00002: found seed 1, expected"):
        preparation.merge(shared.save_dir)
    shutil.rmtree(os.path.join(shared.save_dir, "task-00001-of-00002"))
    preparation.make_records(dataclasses.replace(shared, task=1))
    done = command.succeed("xlnet data merge", input=shared.save_dir)
    assert "streams 4 x " in done.stdout
    merged = Manifest.read(shared.save_dir)
    merged.verify(shared.save_dir)
    assert merged.documents == 12
    # Tasks that are there already stay; others would replace what the merged manifest lists.
    assert not preparation.make_records(shared).is_new
    with pytest.raises(UserError, match="found complete records in .*shared"):
        preparation.make_records(dataclasses.replace(shared, num_task=3))


def test_tasks_of_other_files_are_not_merged(settings, tmp_path):
    """A file that is added moves the bytes at which tasks are divided."""
    for name in "ab":
        shutil.copy(settings.input_glob, tmp_path / f"{name}.txt")
    path = str(tmp_path / "a.txt")
    one = dataclasses.replace(settings, input_glob=path, num_task=2, num_streams=2)
    both = dataclasses.replace(one, input_glob=str(tmp_path / "*.txt"), task=1)
    preparation.make_records(one)
    with pytest.raises(UserError, match="found another text, expected the text of"):
        preparation.make_records(dataclasses.replace(both, task=0))
    preparation.make_records(both)
    with pytest.raises(UserError, match="found another text, expected the text of"):
        preparation.merge(settings.save_dir)


def test_a_merge_counts_what_it_cuts(settings, workspace, tmp_path):
    """The tasks have a .gz file each, one of a fifth of the other's text."""
    with open(workspace.path("text.txt"), "rb") as f:
        text = f.read()
    for name, part in (("a", text), ("b", text[: len(text) // 5])):
        (tmp_path / (name + ".txt.gz")).write_bytes(gzip.compress(part, 0))
    for task in range(2):
        shared = dict(input_glob=str(tmp_path / "*.gz"), num_task=2, num_streams=2)
        preparation.make_records(dataclasses.replace(settings, task=task, **shared))
    done = command.succeed("xlnet data merge", input=settings.save_dir)
    merged = Manifest.read(settings.save_dir)
    lengths = [stream["windows"] for stream in merged.streams]
    kept = merged.num_streams * merged.windows_per_stream / sum(lengths)
    dropped = merged.dropped / merged.tokens
    assert 1 - dropped == pytest.approx(kept, abs=0.05) and kept < 0.4
    assert (
        f", {merged.dropped} tokens dropped in each pass and direction" in done.stdout
    )


@pytest.mark.slow
def test_a_runner_that_ends_without_its_work_is_noticed(settings, monkeypatch):
    """As Dask's does when its cluster is gone."""
    beam = pytest.importorskip("xlnet.corpus.beam", reason="Apache Beam is an extra")
    create = beam.beam.Create
    with monkeypatch.context() as patched:
        patched.setattr(beam.beam, "Create", lambda _: create([]))  # no step is called
        with pytest.raises(UserError, match="^the pipeline ended before its work did"):
            beam.make_records(settings)
    assert beam.make_records(settings).is_new
