"""preparation: killed jobs, shares of several machines, the pipeline on Beam."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from helpers.paths import ROOT
from helpers.preparation import SHAPE, make_documents, make_workspace

from xlnet import config
from xlnet.errors import UserError
from xlnet.records.manifest import Manifest
from xlnet.text import merging, preparation, reading

CHUNK_BYTES, BLOCK_TOKENS, CELL_TOKENS = 700, 150, 200
NO_BEAM = "Apache Beam is an extra: pip install '.[beam]'"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("preparation")))


@pytest.fixture
def small_pieces(monkeypatch):
    """So small a text has many chunks, blocks and cells."""
    monkeypatch.setattr(preparation, "CHUNK_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(preparation.corpus, "BLOCK_TOKENS", BLOCK_TOKENS)
    monkeypatch.setattr(preparation.windows, "CELL_TOKENS", CELL_TOKENS)


@pytest.fixture
def settings(workspace, tmp_path):
    return config.CorpusSettings(
        input_glob=workspace.path("text.txt"), sp_path=workspace.path("sp.model"),
        save_dir=str(tmp_path / "out"), seq_len=64, reuse_len=24, num_streams=4, num_passes=2,
        num_workers=1)


def content(directory):
    """All files below a directory: {name: bytes}."""
    return {os.path.relpath(os.path.join(folder, name), directory):
            open(os.path.join(folder, name), "rb").read()
            for folder, _, names in os.walk(directory) for name in names}


def moved(settings, name, **values):
    directory = os.path.join(os.path.dirname(settings.save_dir), name)
    return dataclasses.replace(settings, save_dir=directory, **values)


def test_a_job_stopped_anywhere_is_continued(settings, small_pieces, monkeypatch):
    expected = preparation.make_records(settings)
    assert expected.manifest.tokens > 3 * BLOCK_TOKENS
    replace = os.replace
    steps = 0
    while True:
        again = moved(settings, "stopped-%d" % steps)
        left = iter(range(steps))

        def failing(source, target):
            if next(left, None) is None:
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(os, "replace", failing)
        try:
            preparation.make_records(again)
            break
        except KeyboardInterrupt:
            pass
        finally:
            monkeypatch.setattr(os, "replace", replace)
        finished = [name for name in content(again.save_dir) if name.startswith("stream-")]
        assert all(content(again.save_dir)[name] == content(settings.save_dir)[name]
                   for name in finished)
        preparation.make_records(again)
        assert content(again.save_dir) == content(settings.save_dir)
        steps += 1
    assert steps > 20                        # each of them a file that was to be finished


def test_a_killed_process_leaves_nothing_that_matters(workspace, tmp_path):
    """SIGKILL, workers included, at random moments after each bit of progress, then the rest."""
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join("\n".join(d) for d in make_documents(1, 4000)), encoding="utf-8")
    command = [sys.executable, os.path.join(ROOT, "data_utils.py"), "--input_glob=%s" % text,
               "--sp_path=" + workspace.path("sp.model"), "--num_streams=8", "--num_workers=2",
               *SHAPE]
    subprocess.run([*command, "--save_dir=%s" % (tmp_path / "whole")], check=True,
                   capture_output=True)
    rng, killed = random.Random(0), tmp_path / "killed"

    def finished_files():
        return sum(".partial-" not in path.name for path in killed.rglob("*"))
    for _ in range(4):
        before = finished_files()
        process = subprocess.Popen([*command, "--save_dir=%s" % killed],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while finished_files() <= before:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stderr.close()
    subprocess.run([*command, "--save_dir=%s" % killed], check=True, capture_output=True)
    time.sleep(1)                            # orphaned workers notice and end
    assert content(killed) == content(tmp_path / "whole")


def test_unfinished_records_of_other_settings_are_refused(settings, monkeypatch):
    monkeypatch.setattr(preparation, "write_stream", None)
    with pytest.raises(TypeError):
        preparation.make_records(settings)
    monkeypatch.undo()
    other = dataclasses.replace(settings, seed=3)
    with pytest.raises(UserError, match="unfinished records of other .* seed 0 there, 3 now"):
        preparation.make_records(other)
    preparation.make_records(dataclasses.replace(other, overwrite=True))
    assert not os.path.exists(os.path.join(settings.save_dir, "unfinished"))


def test_bad_text_leaves_no_directory(settings, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\xff\n")
    with pytest.raises(UserError, match="bad.txt, line 2"):
        preparation.make_records(dataclasses.replace(settings, input_glob=str(bad)))
    assert not os.path.exists(settings.save_dir)


# Several machines.

def test_tasks_share_the_input_and_are_merged(settings, small_pieces):
    shared = moved(settings, "shared", num_task=3)
    made = [preparation.make_records(dataclasses.replace(shared, task=task)) for task in range(3)]
    merged = merging.merge(shared.save_dir)
    whole = preparation.make_records(settings).manifest
    assert merged == Manifest.read(shared.save_dir)
    assert merged.num_streams == 3 * whole.num_streams
    for name in ("tokens", "documents", "sentences", "unknown"):
        assert getattr(merged, name) == getattr(whole, name) == sum(
            getattr(summary.manifest, name) for summary in made), name
    assert merged.windows_per_stream == min(s.manifest.windows_per_stream for s in made)
    assert all(os.path.exists(path) for path in merged.stream_paths(shared.save_dir))
    assert os.path.exists(os.path.join(shared.save_dir, merged.sp_model))


def test_merging_checks_that_all_belongs_together(settings, small_pieces):
    shared = moved(settings, "shared", num_task=2)
    with pytest.raises(UserError, match="no task-"):
        merging.merge(shared.save_dir)
    preparation.make_records(shared)
    with pytest.raises(UserError, match="task 1 of 2 is missing"):
        merging.merge(shared.save_dir)
    preparation.make_records(dataclasses.replace(shared, task=1, seed=1))
    with pytest.raises(UserError, match="seed 0 in .*task-00000-of-00002, 1 in .*task-00001"):
        merging.merge(shared.save_dir)


def test_tasks_too_uneven_are_refused(settings, small_pieces):
    shared = moved(settings, "shared", num_task=2)
    preparation.make_records(shared)
    preparation.make_records(dataclasses.replace(shared, task=1, num_streams=2))
    path = os.path.join(shared.save_dir, "task-00001-of-00002", "manifest.json")
    with open(path, encoding="utf-8") as f:
        manifest = json.load(f)
    manifest["made_from"]["num_streams"] = 4             # as if its text were twice as long
    with open(path, "w", encoding="utf-8") as f:
        json.dump(manifest, f)
    with pytest.raises(UserError, match=r"task-00000-of-00002 have \d+ .*\d+ % would be left"):
        merging.merge(shared.save_dir)


@pytest.mark.parametrize("num_task", [1, 2, 3, 7])
def test_shares_are_runs_of_about_equal_size(num_task):
    chunks = [reading.Chunk("a", 100 * i, 100 * i + 100) for i in range(50)]
    chunks += [reading.Chunk("b", 0, 30), reading.Chunk("c.gz", 0, 250)]
    shares = preparation.split_chunks(chunks, num_task)
    assert len(shares) == num_task and sum(shares, []) == chunks
    sizes = [sum(chunk.end - chunk.begin for chunk in share) for share in shares]
    assert max(sizes) - min(sizes) <= 350


# Beam: in an environment that has it.

def test_beam_makes_the_same_files(settings, small_pieces):
    beam = pytest.importorskip("xlnet.text.beam", reason=NO_BEAM)
    preparation.make_records(settings)
    on_beam = moved(settings, "beam")
    assert beam.run(on_beam)
    assert content(on_beam.save_dir) == content(settings.save_dir)
    assert json.loads(content(on_beam.save_dir)["manifest.json"])["num_passes"] == 2
    assert not beam.run(on_beam)
    with pytest.raises(UserError, match="has records of other settings or input: seed 0 there, 1"):
        beam.run(dataclasses.replace(on_beam, seed=1))


def test_beam_reads_and_writes_remote_files(settings, small_pieces):
    """A file system that Beam alone knows, by its scheme."""
    beam = pytest.importorskip("xlnet.text.beam", reason=NO_BEAM)
    import gzip

    from apache_beam.io.filesystem import FileMetadata, MatchResult
    from apache_beam.io.localfilesystem import LocalFileSystem
    local = LocalFileSystem

    def below(path):
        return path.replace("box://", os.path.dirname(settings.save_dir) + "/")

    class Box(LocalFileSystem):
        @classmethod
        def scheme(cls):
            return "box"

        def match(self, patterns, limits=None):
            found = [result.metadata_list
                     for result in local.match(self, list(map(below, patterns)))]
            root = below("box://")
            return [MatchResult(pattern, [FileMetadata(m.path.replace(root, "box://"),
                                                       m.size_in_bytes) for m in part])
                    for pattern, part in zip(patterns, found)]

        def create(self, path, *arguments, **how):
            return local.create(self, below(path), *arguments, **how)

        def open(self, path, *arguments, **how):
            return local.open(self, below(path), *arguments, **how)

        def exists(self, path):
            return local.exists(self, below(path))

        def mkdirs(self, path):
            local.mkdirs(self, below(path))

        def rename(self, sources, targets):
            local.rename(self, list(map(below, sources)), list(map(below, targets)))

    with open(settings.input_glob, "rb") as f, open(below("box://a.txt"), "wb") as plain, \
            gzip.open(below("box://b.txt.gz"), "wb") as packed:
        text = f.read()
        plain.write(text)
        packed.write(text)
    remote = dataclasses.replace(settings, input_glob="box://*.txt,box://*.gz",
                                 save_dir="box://remote")
    assert beam.run(remote) and not beam.run(remote)
    here = below("box://a.txt") + "," + below("box://b.txt.gz")
    preparation.make_records(dataclasses.replace(settings, input_glob=here))
    assert content(below("box://remote")) == content(settings.save_dir)
