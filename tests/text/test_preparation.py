"""preparation: killed jobs, shares of several machines, the pipeline on Beam."""

import contextlib
import dataclasses
import gzip
import json
import multiprocessing
import os
import pathlib
import pickle
import shutil
import threading
import time

import pytest
from helpers.preparation import make_documents, make_workspace
from helpers.vocabulary import train_tiny_model

from xlnet import files, lock
from xlnet.errors import UserError
from xlnet.programs import merge_records
from xlnet.records.manifest import Manifest
from xlnet.settings.data import CorpusSettings
from xlnet.text import merging, preparation, reading

CHUNK_BYTES, BLOCK_TOKENS, CELL_TOKENS = 700, 150, 200


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("preparation")))


@pytest.fixture
def small_pieces(monkeypatch):
    """So small a text has many chunks, blocks and cells."""
    monkeypatch.setattr(reading, "SMALLEST_CHUNK", CHUNK_BYTES)
    monkeypatch.setattr(reading, "LARGEST_CHUNK", CHUNK_BYTES)
    monkeypatch.setattr(preparation.corpus, "BLOCK_TOKENS", BLOCK_TOKENS)
    monkeypatch.setattr(preparation.windows, "CELL_TOKENS", CELL_TOKENS)


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
    """All files below a directory: {name: bytes}."""
    return {
        os.path.relpath(os.path.join(folder, name), directory): open(
            os.path.join(folder, name), "rb"
        ).read()
        for folder, _, names in os.walk(directory)
        for name in names
    }


def moved(settings, name, **values):
    directory = os.path.join(os.path.dirname(settings.save_dir), name)
    return dataclasses.replace(settings, save_dir=directory, **values)


def assert_as_made_at_once(settings):
    """The records of the settings are those of a run in an empty directory."""
    fresh = moved(settings, "fresh", overwrite=False)
    preparation.make_records(fresh)
    assert content(fresh.save_dir) == content(settings.save_dir)


def make_tasks(settings):
    for task in range(settings.num_task):
        preparation.make_records(dataclasses.replace(settings, task=task))


def make_one_stream(settings, monkeypatch):
    """A run that is stopped when it has written its first stream."""
    write_stream, written = preparation.write_stream, []

    def failing(job, layout, index):
        if written:
            raise KeyboardInterrupt
        written.append(index)
        return write_stream(job, layout, index)

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "write_stream", failing)
        with pytest.raises(KeyboardInterrupt):
            preparation.make_records(settings)


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
@pytest.mark.parametrize("replaces", [False, True])
def test_a_job_stopped_anywhere_is_continued(settings, small_pieces, monkeypatch, replaces):
    """Also where it replaces other records."""
    expected = preparation.make_records(settings)
    assert expected.manifest.tokens > 3 * BLOCK_TOKENS
    older = moved(settings, "older", seed=5)
    preparation.make_records(older)
    steps, is_complete = 0, False
    while not is_complete:
        again = moved(settings, f"stopped-{steps}", overwrite=replaces)
        if replaces:
            shutil.copytree(older.save_dir, again.save_dir)
        with stopped_after(monkeypatch, steps):
            preparation.make_records(again)
            is_complete = True
        preparation.make_records(again)
        assert content(again.save_dir) == content(settings.save_dir), steps
        steps += 1
    assert steps > 20  # each of them a file that was to be finished


# What is finished is kept, whatever comes behind it.


@pytest.fixture
def tokenized(monkeypatch):
    """The (file name, begin) of the chunks of which tokens are made."""
    chunks, tokenize = [], preparation.corpus.tokenize

    def noted(chunk, *arguments):
        chunks.append((os.path.basename(chunk.path), chunk.begin))
        return tokenize(chunk, *arguments)

    monkeypatch.setattr(preparation.corpus, "tokenize", noted)
    return chunks


@pytest.fixture
def two_files(settings, tmp_path):
    """Settings for text in two files, a.txt and b.txt."""
    text = make_documents(3, 30)
    for name, part in (("a.txt", text[:24]), ("b.txt", text[24:])):
        (tmp_path / name).write_text("\n\n".join(map("\n".join, part)), encoding="utf-8")
    return dataclasses.replace(settings, input_glob=str(tmp_path / "*.txt"))


def spoil(path):
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")


def read_error(path, monkeypatch):
    def failing(name, *arguments):
        if name == str(path) and arguments:  # a chunk is read, rather than looked at
            raise OSError(5, "Input/output error")
        return open_binary(name, *arguments)

    open_binary = files.open_binary
    monkeypatch.setattr(files, "open_binary", failing)


@pytest.mark.parametrize(
    "fail, message",
    [
        (lambda path, monkeypatch: spoil(path), "b.txt, line .* not UTF-8: byte 0xff"),
        (read_error, "cannot read .*b.txt: Input/output error"),
    ],
)
def test_a_file_that_fails_costs_no_other_file(
    two_files, small_pieces, tokenized, tmp_path, monkeypatch, fail, message
):
    good = (tmp_path / "b.txt").read_bytes()
    with monkeypatch.context() as patched:
        fail(tmp_path / "b.txt", patched)
        with pytest.raises(UserError, match=message):
            preparation.make_records(two_files)
    kept = {chunk for chunk in tokenized if chunk[0] == "a.txt"}
    assert len(kept) > 5
    (tmp_path / "b.txt").write_bytes(good)
    tokenized.clear()
    preparation.make_records(two_files)
    assert {name for name, _ in tokenized} == {"b.txt"}
    assert_as_made_at_once(two_files)


def test_tokens_are_used_again_for_other_records(settings, small_pieces, tokenized):
    """Too few tokens for so many streams: the next try, whatever its windows, begins with them."""
    with pytest.raises(UserError, match="too few for num_streams=400"):
        preparation.make_records(dataclasses.replace(settings, num_streams=400))
    assert tokenized
    tokenized.clear()
    for number, changes in enumerate(
        (dict(seq_len=32, reuse_len=16), dict(num_streams=2, num_passes=1, seed=4))
    ):
        other = moved(settings, f"other-{number}", **changes)
        shutil.copytree(settings.save_dir, other.save_dir)
        preparation.make_records(other)
        assert tokenized == [] and "manifest.json" in os.listdir(other.save_dir)


def test_tokens_of_a_directory_of_their_own_stay(settings, small_pieces, tokenized, tmp_path):
    kept = dataclasses.replace(settings, tokens_dir=str(tmp_path / "tokens"))
    preparation.make_records(kept)
    assert tokenized and os.listdir(kept.tokens_dir)
    tokenized.clear()
    other = moved(kept, "other", seq_len=32, reuse_len=16, num_passes=1)
    preparation.make_records(other)
    assert tokenized == []
    alone = moved(other, "alone", tokens_dir=None)
    preparation.make_records(alone)
    assert tokenized and content(alone.save_dir) == content(other.save_dir)


def test_tokens_are_used_again_for_another_number_of_tasks(settings, small_pieces, tokenized):
    settings = dataclasses.replace(settings, num_streams=2)
    shared = moved(settings, "shared", num_task=2)
    make_tasks(shared)
    tokenized.clear()
    make_tasks(dataclasses.replace(shared, num_task=3))
    assert tokenized == []
    for task in range(2):
        shutil.rmtree(os.path.join(shared.save_dir, f"task-0000{task}-of-00002"))
    merging.merge(shared.save_dir)
    assert not os.path.exists(os.path.join(shared.save_dir, "unfinished"))


def test_streams_begun_with_other_settings_are_written_again(
    settings, small_pieces, monkeypatch, tokenized
):
    make_one_stream(settings, monkeypatch)
    tokenized.clear()
    other = dataclasses.replace(settings, seed=3)
    preparation.make_records(other)
    assert tokenized == []
    assert_as_made_at_once(other)


def test_bad_text_leaves_no_directory(settings, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\xff\n")
    with pytest.raises(UserError, match="bad.txt, line 2"):
        preparation.make_records(dataclasses.replace(settings, input_glob=str(bad)))
    assert not os.path.exists(settings.save_dir)


def test_a_second_run_in_the_directory_is_refused_and_harms_nothing(
    settings, small_pieces, monkeypatch
):
    make_one_stream(settings, monkeypatch)
    before = content(settings.save_dir)
    path = os.path.join(preparation.unfinished_folder(settings.save_dir), preparation.LOCK)
    with (
        lock.held(path, "another run"),
        pytest.raises(
            UserError, match=f"^save_dir: records are made in {settings.save_dir} already, on host "
        ),
    ):
        preparation.make_records(settings)
    assert content(settings.save_dir) == before
    preparation.make_records(settings)
    assert_as_made_at_once(settings)


# The same records, or others.


@pytest.fixture
def editable(settings, tmp_path):
    """Settings for a copy of the text, and a function that edits it to the same size and time."""
    path = tmp_path / "text.txt"
    shutil.copy(settings.input_glob, path)

    def edit():
        path.write_bytes(path.read_bytes().replace(b"a", b"o", 40))
        os.utime(path, (1, 1))

    return dataclasses.replace(settings, input_glob=str(path)), edit


def test_text_edited_to_the_same_size_is_other_text(editable):
    settings, edit = editable
    preparation.make_records(settings)
    before = content(settings.save_dir)
    os.utime(settings.input_glob, (1, 1))
    assert preparation.make_records(settings).seconds is None
    edit()
    with pytest.raises(UserError, match="of other settings or input: input_content "):
        preparation.make_records(settings)
    assert content(settings.save_dir) == before
    preparation.make_records(dataclasses.replace(settings, overwrite=True))
    assert before != content(settings.save_dir)
    assert_as_made_at_once(settings)


def test_records_of_sentences_found_by_older_rules_are_other_records(settings):
    settings = dataclasses.replace(settings, text_format="paragraphs")
    preparation.make_records(settings)
    path = os.path.join(settings.save_dir, "manifest.json")
    manifest = files.read_json(path, "manifest")
    assert manifest["made_from"].pop("sentence_rules") == preparation.token_store.RULES
    files.write_json(path, manifest)
    with pytest.raises(UserError, match="of other settings or input: sentence_rules "):
        preparation.make_records(settings)


def test_text_edited_while_a_run_is_unfinished_is_read_again(editable, small_pieces, monkeypatch):
    settings, edit = editable
    make_one_stream(settings, monkeypatch)
    edit()
    preparation.make_records(settings)
    assert_as_made_at_once(settings)


def test_what_a_run_killed_after_its_manifest_left_is_removed(settings, monkeypatch):
    directory = settings.save_dir
    remove = shutil.rmtree

    def killed(path, **how):
        if path == preparation.unfinished_folder(directory):
            raise KeyboardInterrupt
        remove(path, **how)

    with monkeypatch.context() as patched:
        patched.setattr(preparation.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            preparation.make_records(settings)
    assert os.path.isdir(preparation.unfinished_folder(directory))
    before = content(directory)
    assert preparation.make_records(settings).seconds is None
    assert not os.path.exists(preparation.unfinished_folder(directory))
    Manifest.read(directory).verify(directory)
    assert {name: value for name, value in before.items() if "unfinished" not in name} == content(
        directory
    )


@pytest.mark.parametrize("values", [{"seed": 5}, {"num_task": 2}])
def test_streams_lost_while_a_job_published_are_written_again(settings, monkeypatch, values):
    """Killed at its third file, perhaps in the place of other records."""
    preparation.make_records(settings)
    job = dataclasses.replace(settings, overwrite=True, **values)
    directory, put = preparation.task_directory(job), files.sync_and_rename
    published = []

    def killed(source, target):
        if target.startswith(os.path.join(directory, "stream-")):
            published.append(target)
            if len(published) == 3:
                raise KeyboardInterrupt
        put(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(files, "sync_and_rename", killed)
        with pytest.raises(KeyboardInterrupt):
            preparation.make_records(job)
    os.remove(published[0])
    spoil(pathlib.Path(published[1]))
    preparation.make_records(job)
    Manifest.read(directory).verify(directory)


def test_records_with_a_lost_file_are_made_again(settings, small_pieces):
    first = os.path.join(settings.save_dir, preparation.stream_name(0, 4))
    preparation.make_records(settings)
    before = content(settings.save_dir)
    for lost in (os.path.basename(first), "spiece.model", "spiece.model.json"):
        os.remove(os.path.join(settings.save_dir, lost))
        preparation.make_records(settings)
        assert content(settings.save_dir) == before, lost
    os.truncate(first, 99)
    preparation.make_records(settings)
    assert content(settings.save_dir) == before
    spoil(pathlib.Path(first))  # seen by `data verify` alone
    assert preparation.make_records(settings).seconds is None
    preparation.make_records(dataclasses.replace(settings, overwrite=True))
    assert content(settings.save_dir) == before


def test_another_vocabulary_in_the_directory_is_not_replaced(settings):
    vocabulary = pathlib.Path(settings.save_dir, "spiece.model")
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes(b"of somebody")
    with pytest.raises(UserError, match="spiece.model is another vocabulary than sp_path "):
        preparation.make_records(settings)
    assert vocabulary.read_bytes() == b"of somebody"
    assert [path.name for path in vocabulary.parent.iterdir()] == ["spiece.model"]
    preparation.make_records(dataclasses.replace(settings, overwrite=True))
    assert preparation.make_records(settings).seconds is None


def test_a_vocabulary_that_was_trained_again_is_read_again(settings, workspace, tmp_path):
    """In a process that has made records with the one before."""
    path = shutil.copy(workspace.path("sp.model"), tmp_path)
    settings = dataclasses.replace(settings, sp_path=path, num_workers=1)
    first = preparation.make_records(settings).manifest
    shutil.copy(train_tiny_model(tmp_path / "other.model"), path)
    second = moved(settings, "second")
    made = preparation.make_records(second).manifest
    assert made.sp_model_sha256 != first.sp_model_sha256
    made.verify(second.save_dir)


def test_a_vocabulary_that_changes_while_records_are_made_is_an_error(
    settings, workspace, tmp_path, monkeypatch
):
    path = shutil.copy(workspace.path("sp.model"), tmp_path)
    settings = dataclasses.replace(settings, sp_path=path)
    publish = preparation._publish

    def changed(job, manifest):
        shutil.copy(train_tiny_model(tmp_path / "other.model"), path)
        tokenizer = preparation.Tokenizer(workspace.path("sp.model"))
        tokenizer.path = path
        monkeypatch.setattr(preparation, "tokenizer_of", lambda settings: tokenizer)
        publish(job, manifest)

    monkeypatch.setattr(preparation, "_publish", changed)
    with pytest.raises(UserError, match="sp.model: it was replaced by another one since"):
        preparation.make_records(settings)
    assert not os.path.exists(os.path.join(settings.save_dir, "manifest.json"))


def test_a_name_that_is_not_utf_8_can_be_read(settings, workspace, tmp_path):
    """Also where its form is not in its name, and so is part of the manifest."""
    folder = tmp_path / "text"
    folder.mkdir()
    name = os.fsdecode(b"caf\xe9.json")
    rows = [json.dumps({"text": " ".join(document)}) for document in make_documents(0, 40)]
    (folder / name).write_text("\n".join(rows))
    settings = dataclasses.replace(settings, input_glob=str(folder / "*.json"))
    preparation.make_records(settings)
    assert preparation.make_records(settings).seconds is None
    Manifest.read(settings.save_dir).verify(settings.save_dir)


def test_overwrite_replaces_records_once_the_new_ones_are_complete(
    settings, small_pieces, monkeypatch
):
    preparation.make_records(settings)
    before = content(settings.save_dir)
    other = dataclasses.replace(settings, overwrite=True, seed=5, num_streams=2)
    make_one_stream(other, monkeypatch)
    assert {
        name: bytes
        for name, bytes in content(settings.save_dir).items()
        if not name.startswith("unfinished")
    } == before
    preparation.make_records(other)
    assert content(settings.save_dir) != before
    assert_as_made_at_once(other)


@pytest.mark.slow
def test_a_killed_worker_is_named_and_costs_nothing_that_is_finished(
    settings, small_pieces, tokenized
):
    """Killed as by a machine that is short of memory: while the streams are begun."""

    def kill_one():
        while len(multiprocessing.active_children()) < 2:
            time.sleep(0.002)
        time.sleep(0.1)  # a pool of which one dies while another is being started never ends
        multiprocessing.active_children()[0].kill()

    @contextlib.contextmanager
    def killing(description, total, unit):
        if description == "writing":
            threading.Thread(target=kill_one).start()
        yield lambda n: None

    with pytest.raises(UserError, match="a worker process was killed, perhaps for want of memory"):
        preparation.make_records(dataclasses.replace(settings, num_workers=2), killing)
    preparation.make_records(settings)
    assert tokenized == []  # the workers' tokens are used
    assert_as_made_at_once(settings)


# Several machines.


def test_a_merge_does_not_vouch_for_tasks_that_are_made_again(settings, small_pieces, monkeypatch):
    """Their streams have the sizes of those before. It goes before the first one is replaced."""
    shared = moved(settings, "shared", num_task=2)
    make_tasks(shared)
    merging.merge(shared.save_dir)
    preparation.make_records(shared)  # there already
    assert Manifest.read(shared.save_dir)
    put, folder = files.sync_and_rename, preparation.task_directory(shared)

    def failing(source, target):
        if os.path.dirname(target) == folder:
            raise KeyboardInterrupt
        put(source, target)

    other = dataclasses.replace(shared, seed=7, overwrite=True)
    with monkeypatch.context() as patched:
        patched.setattr(files, "sync_and_rename", failing)
        with pytest.raises(KeyboardInterrupt):
            preparation.make_records(other)
    with pytest.raises(UserError, match=f"no manifest.json in {shared.save_dir}"):
        Manifest.read(shared.save_dir)
    make_tasks(other)
    merging.merge(shared.save_dir).verify(shared.save_dir)


def test_tasks_and_their_merge_leave_records_beside_them_as_they_are(settings, small_pieces):
    """Those of a run without tasks."""
    preparation.make_records(settings)
    make_tasks(dataclasses.replace(settings, num_task=2))
    with pytest.raises(UserError, match="out/manifest.json is of other records"):
        merging.merge(settings.save_dir)
    Manifest.read(settings.save_dir).verify(settings.save_dir)


def test_a_merge_removes_what_a_killed_one_left(settings, small_pieces):
    shared = moved(settings, "shared", num_task=2)
    make_tasks(shared)
    number_of_no_process = 1 << 23
    for name in ("manifest.json", "spiece.model", "spiece.model.json"):
        pathlib.Path(shared.save_dir, f"{name}.partial-{number_of_no_process}").write_text("half")
    merging.merge(shared.save_dir)
    assert not list(pathlib.Path(shared.save_dir).glob("*.partial-*"))


def test_a_merge_counts_what_it_cuts(settings, workspace, tmp_path, capsys):
    """The tasks have a .gz file each, one of a fifth of the other's text."""
    with open(workspace.path("text.txt"), "rb") as f:
        text = f.read()
    for name, part in (("a", text), ("b", text[: len(text) // 5])):
        (tmp_path / (name + ".txt.gz")).write_bytes(gzip.compress(part, 0))
    make_tasks(
        dataclasses.replace(settings, input_glob=str(tmp_path / "*.gz"), num_task=2, num_streams=2)
    )
    merge_records.main(merge_records.MergeSettings(settings.save_dir))
    merged = Manifest.read(settings.save_dir)
    windows = [stream["windows"] for stream in merged.streams]
    kept = merged.num_streams * merged.windows_per_stream / sum(windows)
    assert 1 - merged.dropped / merged.tokens == pytest.approx(kept, abs=0.05) and kept < 0.4
    assert capsys.readouterr().err.startswith("note: the tasks have unequal amounts of text.")


def test_merging_checks_that_all_belongs_together(settings, small_pieces):
    shared = moved(settings, "shared", num_task=2)
    os.makedirs(shared.save_dir)
    with pytest.raises(UserError, match="no task-"):
        merging.merge(shared.save_dir)
    preparation.make_records(shared)
    with pytest.raises(UserError, match="task 1 of 2 is missing"):
        merging.merge(shared.save_dir)
    preparation.make_records(dataclasses.replace(shared, task=1, seed=1))
    with pytest.raises(UserError, match="seed 0 in .*task-00000-of-00002, 1 in .*task-00001"):
        merging.merge(shared.save_dir)
    preparation.make_records(dataclasses.replace(shared, task=1, overwrite=True))
    first = os.path.join(shared.save_dir, "task-00000-of-00002")
    shutil.copytree(first, first + ".bak")
    with pytest.raises(UserError, match=r"00002.bak has the records of task-00000-of-00002; move"):
        merging.merge(shared.save_dir)


@pytest.mark.parametrize("num_task", [1, 2, 3, 7])
def test_shares_are_runs_of_about_equal_size(num_task):
    chunks = [reading.Chunk("a", 100 * i, 100 * i + 100) for i in range(50)]
    chunks += [reading.Chunk("b", 0, 30), reading.Chunk("c.gz", 0, 250)]
    shares = preparation.split_chunks(chunks, num_task)
    assert len(shares) == num_task and sum(shares, []) == chunks
    sizes = [sum(chunk.end - chunk.begin for chunk in share) for share in shares]
    assert max(sizes) - min(sizes) <= 350


@pytest.mark.parametrize("total", [50e6, 150e6, 1e9, 20e9])
def test_what_a_merge_of_32_tasks_cuts_is_little(total):
    """All tasks are cut to the shortest."""
    total = int(total)
    step = reading.chunk_size(total)
    chunks = [reading.Chunk("a", at, min(at + step, total)) for at in range(0, total, step)]
    shares = preparation.split_chunks(chunks, 32)
    shortest = min(sum(chunk.end - chunk.begin for chunk in share) for share in shares)
    assert 32 * shortest > 0.9 * total


# Beam: in an environment that has it.


@pytest.fixture
def beam():
    return pytest.importorskip(
        "xlnet.text.beam", reason="Apache Beam is an extra: pip install '.[beam]'"
    )


@pytest.mark.slow
def test_beam_makes_the_same_files(beam, settings, small_pieces):
    preparation.make_records(settings)
    on_beam = moved(settings, "beam")
    assert beam.run(on_beam)
    assert content(on_beam.save_dir) == content(settings.save_dir)
    assert Manifest.read(on_beam.save_dir).num_passes == 2
    assert not beam.run(on_beam)
    os.remove(os.path.join(on_beam.save_dir, preparation.stream_name(1, 4)))
    assert beam.run(on_beam)
    assert content(on_beam.save_dir) == content(settings.save_dir)
    with pytest.raises(UserError, match="has records of other settings or input: seed 0 there, 1"):
        beam.run(dataclasses.replace(on_beam, seed=1))


@pytest.mark.slow
def test_beam_reads_the_declared_form(beam, settings, small_pieces, tmp_path):
    """JSON lines whose name does not say so."""
    path = tmp_path / "text.txt"
    path.write_text("".join(json.dumps({"text": f"rokmi {n}. kamat."}) + "\n" for n in range(40)))
    settings = dataclasses.replace(settings, input_glob=str(path), text_format="jsonl")
    beam.run(settings)
    made = content(settings.save_dir)
    alone = dataclasses.replace(settings, save_dir=str(tmp_path / "alone"))
    preparation.make_records(alone)
    assert made == content(alone.save_dir)


@pytest.mark.slow
def test_beam_removes_the_manifest_before_it_replaces_records(
    beam, settings, small_pieces, monkeypatch
):
    """A pipeline that fails at its last step; then one that does not."""
    preparation.make_records(settings)
    other = dataclasses.replace(settings, seed=5, num_streams=2, overwrite=True)

    def failing(*_):
        raise RuntimeError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(beam, "_write_manifest", failing)
        with pytest.raises(Exception, match="lost"):
            beam.run(other)
    found = content(settings.save_dir)
    assert sorted(name for name in found if not name.startswith("unfinished/")) == [
        "spiece.model",
        "spiece.model.json",
    ] + [preparation.stream_name(stream, 2) for stream in range(2)]
    damaged = os.path.join(settings.save_dir, preparation.stream_name(0, 2))
    with open(damaged, "r+b") as f:  # of the same size: its digest tells
        f.seek(100)
        f.write(b"other")
    made_again = []
    with monkeypatch.context() as patched:
        write_stream = preparation.record_writer.stream_records
        patched.setattr(
            preparation.record_writer,
            "stream_records",
            lambda *arguments: made_again.append(arguments[3]) or write_stream(*arguments),
        )
        assert beam.run(other)
    assert made_again == [0]
    assert_as_made_at_once(other)


def test_beam_divides_the_text_itself(beam, settings):
    with pytest.raises(UserError, match="^num_task is 2: Beam divides the text among its workers"):
        beam.run(dataclasses.replace(settings, num_task=2))


def test_beam_finds_text_edited_to_the_same_size(beam, editable):
    settings, edit = editable
    assert beam.run(settings) and not beam.run(settings)
    before = content(settings.save_dir)
    edit()
    with pytest.raises(
        UserError,
        match="^save_dir: it has records of other settings or input: "
        "input_content .* there, .* now; give another directory",
    ):
        beam.run(settings)
    assert content(settings.save_dir) == before


def test_a_runner_that_ends_without_its_work_is_noticed(beam, settings, monkeypatch):
    """As Dask's does when its cluster is gone; also where finished records are compared."""
    create = beam.beam.Create
    for is_finished in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(beam.beam, "Create", lambda _: create([]))  # no step is called
            with pytest.raises(
                UserError,
                match="^the pipeline ended before its last step, perhaps "
                "as its cluster ended; finished work is kept: run the same",
            ):
                beam.run(settings)
        assert beam.run(settings) != is_finished


def test_beam_s_own_process_reads_no_text(beam, settings, small_pieces, tmp_path, monkeypatch):
    """Nor does the runner move any: what it gets is small, whatever the length of the text."""
    with monkeypatch.context() as patched:
        for module, name in ((reading, "cut"), (reading.recognition, "look")):
            patched.setattr(module, name, lambda *_: pytest.fail("reads"))

        def pipeline(options):
            raise RuntimeError("made")

        patched.setattr(beam.beam, "Pipeline", pipeline)
        with pytest.raises(UserError, match="the pipeline failed: RuntimeError: made"):
            beam.run(settings)
    log = tmp_path / "sizes"  # the steps run as copies of these functions
    for step in ("_read", "_plan", "_write_streams"):
        made = getattr(beam, step)

        def measured(*arguments, made=made):
            found = made(*arguments)
            found = found if isinstance(found, tuple) else list(found)
            with open(log, "a") as f:
                f.write(f"{len(pickle.dumps(found))}\n")
            return found

        monkeypatch.setattr(beam, step, measured)
    assert beam.run(settings)
    sizes = list(map(int, log.read_text().split()))
    chunks = os.path.getsize(settings.input_glob) // CHUNK_BYTES + 1
    assert len(sizes) > 3 and sum(sizes) < 500 * len(sizes) + 200 * (chunks + 2 * 4)


def test_beam_keeps_records_until_the_text_is_read(beam, settings, small_pieces, tmp_path):
    preparation.make_records(settings)
    before = content(settings.save_dir)
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(Exception, match="not UTF-8"):
        beam.run(
            dataclasses.replace(settings, input_glob=str(tmp_path / "bad.txt"), overwrite=True)
        )
    assert content(settings.save_dir) == before


def test_beam_reads_and_writes_remote_files(beam, settings, small_pieces):
    """A file system that Beam alone knows, by its scheme."""
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
            found = [
                result.metadata_list for result in local.match(self, list(map(below, patterns)))
            ]
            root = below("box://")
            return [
                MatchResult(
                    pattern,
                    [FileMetadata(m.path.replace(root, "box://"), m.size_in_bytes) for m in part],
                )
                for pattern, part in zip(patterns, found)
            ]

        def delete(self, paths):
            for path in map(below, paths):
                os.remove(path)

        def rename(self, sources, targets):
            local.rename(self, list(map(below, sources)), list(map(below, targets)))

    def moved_below(method):
        return lambda self, path, *arguments, **how: method(self, below(path), *arguments, **how)

    for name in ("create", "open", "exists", "mkdirs"):
        setattr(Box, name, moved_below(getattr(local, name)))
    with (
        open(settings.input_glob, "rb") as f,
        open(below("box://a.txt"), "wb") as plain,
        gzip.open(below("box://b.txt.gz"), "wb") as packed,
    ):
        text = f.read()
        plain.write(text)
        packed.write(text)
    remote = dataclasses.replace(
        settings, input_glob="box://*.txt,box://*.gz", save_dir="box://remote"
    )
    assert beam.run(remote) and not beam.run(remote)
    here = below("box://a.txt") + "," + below("box://b.txt.gz")
    preparation.make_records(dataclasses.replace(settings, input_glob=here))
    assert content(below("box://remote")) == content(settings.save_dir)
