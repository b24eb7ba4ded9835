"""The job of making records: text to token chunks to streams, by any number of processes.

Both steps are pure: what a chunk or a stream becomes depends on the settings and the input alone.
So it does not matter which process makes it, or whether it was made before the job was killed.
What is not finished stands in a folder of its own; only whole files bear final names, and the
manifest, written last, vouches for all of them.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import glob
import hashlib
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, Callable, Optional

from xlnet import files
from xlnet.config import WINDOW_SPECIAL_TOKENS, CorpusSettings
from xlnet.errors import UserError
from xlnet.records.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest, in_todays_units
from xlnet.text import corpus, reading, record_writer, windows
from xlnet.tokenization import SPIECE_NAME, Tokenizer

CHUNK_BYTES = 8 << 20
CHUNKS_PER_TASK = 16             # at least, so that machines get about as much each
_UNFINISHED = "unfinished"
# Settings that do not change what is made, or stand in the description in another form.
_NOT_DESCRIBED = ("input_glob", "save_dir", "sp_path", "num_workers", "overwrite", "bsz_per_host")


# Of a description, a total and a unit: a context that yields a function `advance(n)`.
Progress = Callable[[str, int, str], AbstractContextManager[Callable[[int], object]]]


@contextlib.contextmanager
def silent(description: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """The default `progress`: a context manager that yields a function `advance(n)`."""
    yield lambda n: None


@dataclasses.dataclass(frozen=True)
class Summary:
    """What `make_records` did. `seconds` is None where all had been made before."""
    manifest: Manifest
    directory: str
    seconds: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Job:
    """One task's share of the input, and where its records go.

    `chunks`: tuple of `reading.Chunk`. `description`: what the records depend on, as JSON.
    """
    settings: CorpusSettings
    directory: str
    chunks: tuple[reading.Chunk, ...]
    description: dict[str, Any]

    @property
    def unfinished(self) -> str:
        return os.path.join(self.directory, _UNFINISHED)


def make_records(settings: CorpusSettings, progress: Progress = silent) -> Summary:
    """Turns text into the record directory that `settings` (`CorpusSettings`) describe.

    The same settings and input give the same bytes, whatever the number of workers. A job that was
    killed is continued; one that is finished is left as it is.

    Raises:
      UserError: settings that do not fit together, unreadable or too little text, a directory that
        holds records of other settings or input.
    """
    began = time.time()
    job = plan_job(settings)
    if is_finished(job):
        return Summary(Manifest.read(job.directory), job.directory)
    _begin(job)
    try:
        manifest = _write_all(job, _tokenize_all(job, progress), progress)
    except UserError:            # other input or settings are needed: what is there fits neither
        _abandon(job)
        raise
    tokenizer_of(settings).save(os.path.join(job.directory, SPIECE_NAME))
    _clear_partial(job.directory)
    manifest.write(job.directory)
    shutil.rmtree(job.unfinished, ignore_errors=True)
    return Summary(manifest, job.directory, time.time() - began)


# What is to be done.

def plan_job(settings: CorpusSettings) -> Job:
    """Checks the settings, finds the input, and takes this task's share of it; writes nothing."""
    settings.check()
    if os.path.exists(settings.save_dir) and not os.path.isdir(settings.save_dir):
        raise UserError("save_dir: %s is a file, expected a directory" % settings.save_dir)
    tokenizer = tokenizer_of(settings)
    paths = reading.find_files(settings.input_glob)
    chunks = cut(paths, settings.num_task)
    share = tuple(split_chunks(chunks, settings.num_task)[settings.task])
    if not share:
        raise UserError("input_glob: no text in %s for task %d of %d" % (
            _some(paths), settings.task, settings.num_task) if chunks else
            "input_glob: no text in %s" % _some(paths))
    return Job(settings, task_directory(settings), share, _describe(settings, tokenizer, paths))


def cut(paths: Sequence[str], num_task: int) -> list[reading.Chunk]:
    """Returns the `reading.Chunk`s of the input."""
    total = sum(chunk.end for chunk in reading.cut(paths, sys.maxsize))
    most = CHUNK_BYTES if num_task == 1 else total // (CHUNKS_PER_TASK * num_task) + 1
    return reading.cut(paths, min(CHUNK_BYTES, most))


def split_chunks(chunks: Sequence[reading.Chunk], num_task: int) -> list[list[reading.Chunk]]:
    """Cuts the list of chunks into `num_task` runs of about as many bytes each."""
    total = sum(chunk.end - chunk.begin for chunk in chunks)
    done = 0
    shares: list[list[reading.Chunk]] = [[] for _ in range(num_task)]
    for chunk in chunks:
        size = chunk.end - chunk.begin
        shares[min(num_task - 1, (2 * done + size) * num_task // (2 * total))].append(chunk)
        done += size
    return shares


def task_directory(settings: CorpusSettings) -> str:
    """`save_dir`, or this task's own folder in it."""
    if settings.num_task == 1:
        return settings.save_dir
    return os.path.join(settings.save_dir, "task-%05d-of-%05d" % (settings.task, settings.num_task))


def _describe(settings, tokenizer, paths):
    described = {name: value for name, value in dataclasses.asdict(settings).items()
                 if name not in _NOT_DESCRIBED}
    described["num_streams"] = settings.num_streams or settings.bsz_per_host or 0
    sizes = [(os.path.basename(path), files.size(path)) for path in paths]
    described["input"] = "%d files, %d bytes, checksum of names and sizes %s" % (
        len(sizes), sum(size for _, size in sizes),
        hashlib.sha256(repr(sizes).encode("utf-8")).hexdigest()[:16])
    return dict(described, sp_model_sha256=tokenizer.sha256, uncased=tokenizer.uncased,
                keep_accents=tokenizer.keep_accents, format_version=FORMAT_VERSION)


def _some(paths):
    return paths[0] if len(paths) == 1 else "%d files (%s, ...)" % (len(paths), paths[0])


# What is there already.

def is_finished(job: Job) -> bool:
    """Whether the directory has these very records; refuses one that has others."""
    path = os.path.join(job.directory, MANIFEST_NAME)
    if job.settings.overwrite or not files.exists(path):
        return False
    manifest = files.read_json(path, "save_dir")
    made = dict(in_todays_units(manifest.get("made_from") or {}),
                format_version=manifest.get("format_version"))
    _refuse_difference(made, job.description, "has records")
    return True


def _refuse_difference(made, wanted, what):
    """Raises UserError that shows where the descriptions `made` and `wanted` differ, if they do."""
    different = ["%s %s there, %s now" % (name, made.get(name), value)
                 for name, value in wanted.items() if made.get(name) != value]
    if different:
        raise UserError("save_dir: it %s of other settings or input: %s; give another directory or "
                        "--overwrite=True" % (what, "; ".join(different)))


def _begin(job):
    """Makes the directory, or sees that what stands unfinished in it belongs to this job."""
    path = os.path.join(job.unfinished, "made_from.json")
    try:
        if job.settings.overwrite:
            clear(job.directory)
        elif os.path.exists(path):
            _refuse_difference(in_todays_units(files.read_json(path, "save_dir")),
                               job.description, "has unfinished records")
        for folder in (job.directory, job.unfinished):
            os.makedirs(folder, exist_ok=True)
            _clear_partial(folder)
        files.write_json(path, job.description)
    except OSError as e:
        raise UserError("save_dir: cannot write to %s: %s" % (job.directory, e.strerror)) from None


def _clear_partial(directory):
    """Removes what killed processes were writing; some may be ending just now."""
    for partial in glob.glob(os.path.join(glob.escape(directory), "*.partial-*")):
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)


def clear(directory: str) -> None:
    """Removes the records in `directory`: first the manifest that vouches for them."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(directory, MANIFEST_NAME))
    shutil.rmtree(os.path.join(directory, _UNFINISHED), ignore_errors=True)
    for path in glob.glob(os.path.join(glob.escape(directory), "stream-*-of-*.tfrecord*")):
        os.remove(path)


def _abandon(job):
    clear(job.directory)
    with contextlib.suppress(OSError):       # it holds something else
        os.rmdir(job.directory)


# The two steps.

def _tokenize_all(job, progress):
    """Tokenizes all chunks; returns their counts, a list of dicts."""
    total = sum(chunk.end - chunk.begin for chunk in job.chunks)
    counts: list[dict[str, int]] = [{}] * len(job.chunks)
    with progress("reading", total, "B") as advance:
        for index, result in _in_processes(tokenize_chunk, job, range(len(job.chunks))):
            counts[index] = result
            advance(job.chunks[index].end - job.chunks[index].begin)
    return counts


def tokenize_chunk(job: Job, index: int) -> dict[str, int]:
    """Writes the tokens of one chunk, unless that was done before; returns the counts, a dict."""
    done = os.path.join(job.unfinished, "chunk-%06d.json" % index)
    if not os.path.exists(done):
        counts: Counter[str] = collections.Counter()
        tokens = corpus.tokenize(job.chunks[index], job.settings, tokenizer_of(job.settings),
                                 counts)
        corpus.TokenStore(job.unfinished).write(index, tokens)
        files.write_json(done, counts)
    return files.read_json(done, "save_dir")


def _write_all(job, chunk_counts, progress):
    """Writes all streams; returns the manifest."""
    layout = make_layout(job.settings, chunk_counts)
    plan = layout.plan
    streams: list[dict[str, Any]] = [{}] * plan.num_streams
    with progress("writing", plan.num_streams * plan.windows * job.settings.num_passes,
                  " windows") as advance:
        for index, entry in _in_processes(write_stream, job, range(plan.num_streams), layout):
            streams[index] = entry
            advance(entry["windows"])
    return make_manifest(job, plan, chunk_counts, streams)


def make_layout(settings: CorpusSettings, chunk_counts: Sequence[Mapping[str,
                int]]) -> corpus.Layout:
    """The `corpus.Layout` of a text of which all chunks have been counted."""
    sizes = [counts.get("tokens", 0) for counts in chunk_counts]
    if not sum(sizes):
        raise UserError("input_glob: no text in %s" % settings.input_glob)
    plan = windows.plan_streams(sum(sizes), settings.seq_len, settings.reuse_len,
                                settings.num_streams or settings.bsz_per_host or 0,
                                settings.bi_data)
    return corpus.Layout(plan, sizes, settings.seed)


def write_stream(job: Job, index: int, layout: corpus.Layout) -> dict[str, Any]:
    """Writes one stream, unless that was done before; returns its entry in the manifest."""
    done = os.path.join(job.unfinished, "stream-%06d.json" % index)
    if not os.path.exists(done):
        store = corpus.TokenStore(job.unfinished)
        path = os.path.join(job.directory, stream_name(index, layout.plan.num_streams))
        with files.replacing(path) as temporary, open(temporary, "wb") as f:
            entry = stream_entry(layout.plan, index, f, record_writer.stream_records(
                job.settings, windows.Vocabulary.of(tokenizer_of(job.settings)), layout.plan,
                index, functools.partial(layout.part_reader, store, index)))
        files.write_json(done, entry)
    return files.read_json(done, "save_dir")


def stream_name(stream: int, num_streams: int) -> str:
    return "stream-%05d-of-%05d.tfrecord" % (stream, num_streams)


def stream_entry(plan: windows.StreamPlan, stream: int, f: IO[bytes],
                 batches: Iterable[tuple[bytearray, int]]) -> dict[str, Any]:
    """Writes a stream's records to the open file `f`; returns what the manifest says of it."""
    digest, size, count = hashlib.sha256(), 0, 0
    for batch, num_windows in batches:
        f.write(batch)
        digest.update(batch)
        size += len(batch)
        count += num_windows
    return {"file": stream_name(stream, plan.num_streams), "direction": plan.direction(stream),
            "windows": count, "bytes": size, "sha256": digest.hexdigest()}


def make_manifest(job: Job, plan: windows.StreamPlan, chunk_counts: Sequence[Mapping[str, int]],
                  streams: Sequence[dict[str, Any]]) -> Manifest:
    """Returns the manifest of records whose chunks are counted and whose `streams` (entries) are
    written."""
    settings, tokenizer = job.settings, tokenizer_of(job.settings)
    counts: Counter[str] = sum(map(collections.Counter, chunk_counts), collections.Counter())
    found = {name: counts.pop(name, 0) for name in corpus.COUNTS}
    return Manifest(
        vocab_size=tokenizer.vocab_size, sp_model=SPIECE_NAME, sp_model_sha256=tokenizer.sha256,
        uncased=tokenizer.uncased, keep_accents=tokenizer.keep_accents, seq_len=settings.seq_len,
        reuse_len=settings.reuse_len, bi_data=settings.bi_data, num_streams=plan.num_streams,
        num_passes=settings.num_passes, windows_per_stream=plan.windows * settings.num_passes,
        seed=settings.seed, dropped=dropped_tokens(settings, plan, found["tokens"]),
        skipped=dict(sorted(counts.items())), streams=tuple(streams), made_from=job.description,
        **found)


def dropped_tokens(settings: CorpusSettings, plan: windows.StreamPlan, num_tokens: int) -> int:
    """Tokens at the ends of parts that are in no window of a pass."""
    used = (plan.windows - 1) * settings.reuse_len + settings.seq_len - WINDOW_SPECIAL_TOKENS
    return num_tokens - plan.parts * used


# Processes.

def _in_processes(function, job, indices, *arguments):
    """Yields (index, function(job, index, *arguments)) for all indices, in any order."""
    count = min(job.settings.num_workers or os.cpu_count() or 1, len(indices))
    if count == 1:
        for index in indices:
            yield index, function(job, index, *arguments)
        return
    pool = concurrent.futures.ProcessPoolExecutor(count, initializer=_start_worker,
                                                  initargs=(os.getpid(),))
    try:
        futures = {pool.submit(function, job, index, *arguments): index for index in indices}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(parent):
    """Leaves interrupts to the parent, and ends when the parent does, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


@functools.lru_cache(maxsize=1)
def _load_tokenizer(path, uncased, keep_accents):
    return Tokenizer(path, uncased, keep_accents)


def tokenizer_of(settings: CorpusSettings) -> Tokenizer:
    """The `Tokenizer` of the settings, loaded once in each process."""
    return _load_tokenizer(settings.sp_path, settings.uncased, settings.keep_accents)
