"""The job of making records: text to tokens to streams, by any number of processes.

Both steps are pure: a chunk's tokens and a stream depend on the settings and the input alone, not
on the process that makes them, nor on whether the job was killed in between. Unfinished work is in
a folder `unfinished`: the tokens of chunks, which other settings can use, too (`token_store`), and
streams. Once all streams are complete they replace the records that were there, and the manifest,
written last, vouches for them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Callable, Optional

from xlnet import files, lock
from xlnet.errors import UserError
from xlnet.records.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest
from xlnet.settings.data import WINDOW_SPECIAL_TOKENS, CorpusSettings
from xlnet.text import advice, corpus, reading, record_writer, token_store, windows
from xlnet.text.processes import in_processes
from xlnet.text.recognition import TEXT
from xlnet.text.token_store import Made, TokenStore
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, description_path

_log = logging.getLogger(__name__)

STREAMS = "stream-*-of-*.tfrecord"  # pattern of the names of all streams
LOCK = "preparation.lock"  # in the folder of unfinished work: who makes records here
_UNFINISHED = "unfinished"
_TOKENS = "tokens"
_STREAMS = "streams-"
_CONTENT = "input_content"  # in the description: the checksum of the text itself
OF_ONE_TASK = ("task", _CONTENT)
_STALE_SECONDS = 3600  # age of an abandoned partial file
# Settings that do not change the records, or are in the description in another form.
_NOT_DESCRIBED = (
    "input_glob",
    "save_dir",
    "sp_path",
    "num_workers",
    "overwrite",
    "tokens_dir",
    "for_config",
)

# A function of (description, total, unit); its result is a context manager that yields a function
# `advance(n)`, to be called when n more units are done.
Progress = Callable[[str, int, str], AbstractContextManager[Callable[[int], object]]]


@contextlib.contextmanager
def silent(description: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """The default `progress`: a context manager that yields a function `advance(n)`."""
    yield lambda n: None


@dataclasses.dataclass(frozen=True)
class Summary:
    """The result of `make_records`."""

    manifest: Manifest
    directory: str
    seconds: Optional[float] = None  # None: the records had been made before


@dataclasses.dataclass(frozen=True)
class RecordsJob:
    """The input of one task, and where its records go."""

    settings: CorpusSettings
    directory: str
    chunks: tuple[reading.Chunk, ...]
    # What the records depend on, as JSON: of settings and file names (`describe`), of the forms of
    # the files (`describe_forms`), at last with the checksum of the text (`with_content`).
    description: dict[str, Any]

    @property
    def streams_folder(self) -> str:
        """The folder of streams of this description until all are complete."""
        # Its digest is in the name: streams of other settings are not taken for these.
        return os.path.join(
            unfinished_folder(self.directory),
            _STREAMS + hashlib.sha256(repr(self.description).encode()).hexdigest(),
        )

    def token_store(self) -> TokenStore:
        return TokenStore(
            token_directory(self.settings), self.settings, tokenizer_of(self.settings)
        )


def make_records(settings: CorpusSettings, progress: Progress = silent) -> Summary:
    """Turns text into the record directory that `settings` describe.

    The same settings and input give the same bytes with any number of workers. A job that failed or
    was killed resumes; a finished one changes nothing, unless `overwrite` is true.
    """
    began = time.time()
    job = plan_job(settings)

    # If the directory has records of these settings, only the text is compared.
    if is_finished(
        job, lambda: token_store.content_of_all(_of_chunks(_content_of, job, "comparing", progress))
    ):
        left = unfinished_folder(job.directory)
        # An earlier job may have been killed after it wrote the manifest. If instead another job
        # works here, the lock raises, and its folder is left alone.
        if os.path.isdir(left):
            with contextlib.suppress(UserError), exclusive(job):
                shutil.rmtree(left, ignore_errors=True)
        return Summary(Manifest.read(job.directory), job.directory)

    # Make tokens of the text, then streams of the tokens; publish the streams when all are
    # complete.
    with exclusive(job):
        # Only old partial files: other tasks may be writing to the same directory.
        _clear_partial(token_directory(settings), _STALE_SECONDS)
        made = _of_chunks(tokenize_chunk, job, "reading", progress)
        job = with_content(job, made)
        manifest = _write_all(job, made, progress)
        _publish(job, manifest)
    return Summary(manifest, job.directory, time.time() - began)


# The job.


def plan_job(settings: CorpusSettings) -> RecordsJob:
    """Checks the settings and finds the input of this task; writes nothing."""
    paths, sizes = list_input(settings)
    chunks = reading.cut(paths, None, settings.json_field, settings.encoding, settings.text_format)
    own = tuple(split_chunks(chunks, settings.num_task)[settings.task])
    if not own:
        raise UserError(
            f"input_glob: no text in {reading.some_of(paths)}"
            + (f" for task {settings.task} of {settings.num_task}" if chunks else "")
        )
    _log.info(reading.in_words(chunks, settings))
    advice.check(chunks, settings)
    return RecordsJob(
        settings,
        task_directory(settings),
        own,
        describe(settings, paths, sizes) | describe_forms(settings, chunks),
    )


def list_input(settings: CorpusSettings) -> tuple[list[str], list[int]]:
    """Checks the settings; returns the input's files and their sizes, and reads none of them."""
    settings.check()
    for name in ("save_dir", "tokens_dir"):
        path = getattr(settings, name)
        if path and os.path.exists(path) and not os.path.isdir(path):
            raise UserError(f"{name}: {path} is a file, expected a directory")
    tokenizer_of(settings)
    paths = reading.find_files(settings.input_glob)
    with reading.naming(reading.some_of(paths)):
        return paths, files.sizes(paths)


def split_chunks(chunks: Sequence[reading.Chunk], num_task: int) -> list[list[reading.Chunk]]:
    """Cuts the list of chunks into `num_task` parts of about equal size in bytes."""
    # A chunk belongs to the part in which its middle is.
    total = sum(chunk.end - chunk.begin for chunk in chunks)
    done = 0
    tasks: list[list[reading.Chunk]] = [[] for _ in range(num_task)]
    for chunk in chunks:
        size = chunk.end - chunk.begin
        tasks[min(num_task - 1, (2 * done + size) * num_task // (2 * total))].append(chunk)
        done += size
    return tasks


def task_directory(settings: CorpusSettings) -> str:
    """`save_dir`, or the folder of this task in it."""
    if settings.num_task == 1:
        return settings.save_dir
    return os.path.join(settings.save_dir, task_folder(settings.task, settings.num_task))


def task_folder(task: int, num_task: int) -> str:
    """The name of the folder of one of several tasks."""
    return f"task-{task:05}-of-{num_task:05}"


def unfinished_folder(directory: str) -> str:
    """The folder of unfinished work in a directory of records."""
    return os.path.join(directory, _UNFINISHED)


def token_directory(settings: CorpusSettings) -> str:
    """Where tokens are kept; by default the same for any number of tasks."""
    return settings.tokens_dir or os.path.join(unfinished_folder(settings.save_dir), _TOKENS)


def describe(
    settings: CorpusSettings, paths: Sequence[str], sizes: Sequence[int]
) -> dict[str, Any]:
    """What the records depend on, as JSON, as far as it is known without reading the text."""
    tokenizer = tokenizer_of(settings)
    # Names without directories: a corpus that was moved, or is mounted elsewhere, gives the same
    # records.
    named = [(os.path.basename(path), size) for path, size in zip(paths, sizes)]
    found = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name not in _NOT_DESCRIBED
    }
    found["input"] = "{} files, {} bytes, checksum of names and sizes {}".format(
        len(named), sum(sizes), hashlib.sha256(repr(named).encode("utf-8")).hexdigest()[:16]
    )
    return dict(
        found,
        sp_model_sha256=tokenizer.sha256,
        uncased=tokenizer.uncased,
        keep_accents=tokenizer.keep_accents,
        format_version=FORMAT_VERSION,
    )


def describe_forms(settings: CorpusSettings, chunks: Sequence[reading.Chunk]) -> dict[str, Any]:
    """What else the records depend on: the forms of the files, as far as their names do not say
    them, and the rules that find sentences in running text."""
    found: dict[str, Any] = {}
    if not all(reading.form_is_in_name(chunk) for chunk in chunks):
        # A name of bytes that are not UTF-8 is no JSON.
        words = reading.in_words(chunks, settings)
        found["input_forms"] = words.encode("utf-8", "backslashreplace").decode("utf-8")
    if settings.text_format != "lines" or any(chunk.form.kind != TEXT for chunk in chunks):
        found["sentence_rules"] = token_store.RULES  # of sentences found in running text
    return found


def with_content(job: RecordsJob, made: Sequence[Made]) -> RecordsJob:
    """The job whose description includes the text."""
    return dataclasses.replace(
        job,
        description=dict(
            job.description, **{_CONTENT: token_store.content_of_all(each.content for each in made)}
        ),
    )


# Records that exist already.


def is_finished(job: RecordsJob, content: Optional[Callable[[], str]] = None) -> bool:
    """Whether the directory has exactly these records; a UserError if it has others, or no records
    and another vocabulary, which the one of the records would replace.

    content: reads the text and returns its checksum; None: compare the files' names and sizes.
    """
    path = os.path.join(job.directory, MANIFEST_NAME)
    if job.settings.overwrite:
        return False
    if not files.exists(path):
        used = tokenizer_of(job.settings)
        if other := another_vocabulary(job.directory, used):
            raise UserError(
                f"save_dir: {other} is another vocabulary than sp_path {used.path}, which the "
                "records would bring; give another directory or --overwrite=True"
            )
        return False
    manifest = files.read_json(path, "save_dir")
    check_same(manifest, job.description)
    if content:
        check_same(manifest, {_CONTENT: content()})
    # Streams are compared by size only; `data verify` compares their checksums.
    found = files.match(os.path.join(glob.escape(job.directory), "*"))
    sizes = {os.path.basename(path): size for path, size in found.items()}
    has_vocabulary = {SPIECE_NAME, description_path(SPIECE_NAME)} <= set(sizes)
    return has_vocabulary and all(
        sizes.get(stream["file"]) == stream["bytes"] for stream in manifest.get("streams", ())
    )


def another_vocabulary(directory: str, used: Tokenizer) -> Optional[str]:
    """Path of a vocabulary that is not the one of the records, which would replace it; or None."""
    path = os.path.join(directory, SPIECE_NAME)
    return path if files.exists(path) and files.sha256(path) != used.sha256 else None


def check_same(manifest: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises UserError if a manifest describes other records than `wanted` says."""
    made = dict(manifest.get("made_from") or {}, format_version=manifest.get("format_version"))
    different = "; ".join(
        f"{name} {made.get(name)} there, {value} now"
        for name, value in wanted.items()
        if made.get(name) != value
    )
    if different:
        raise UserError(
            f"save_dir: it has records of other settings or input: {different}; give another "
            "directory or --overwrite=True"
        )


def _content_of(job: RecordsJob, index: int) -> str:
    return token_store.content_of(job.chunks[index])


# Folders.


@contextlib.contextmanager
def exclusive(job: RecordsJob) -> Iterator[None]:
    """Locks the directory; a job that fails leaves no empty folder."""
    folder = unfinished_folder(job.directory)
    try:
        with contextlib.ExitStack() as holding:
            with _write_errors_named(folder):
                holding.enter_context(
                    lock.held(
                        os.path.join(folder, LOCK), f"save_dir: records are made in {job.directory}"
                    )
                )
            yield
    except BaseException:
        _remove_empty_folders(job)
        raise


@contextlib.contextmanager
def _write_errors_named(path: str) -> Iterator[None]:
    """Turns a failure to write into a `UserError` that names the file."""
    try:
        yield
    except OSError as e:
        raise UserError(
            f"save_dir: cannot write to {path}: {e.strerror or e}; finished work is kept: run the "
            "same command again to resume"
        ) from None


def _clear_partial(directory: str, age: float = 0.0) -> None:
    """Removes the partial files of killed processes."""
    for partial in glob.glob(os.path.join(glob.escape(directory), "*.partial-*")):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - os.path.getmtime(partial) >= age:
                os.remove(partial)


def _remove_empty_folders(job: RecordsJob) -> None:
    """Removes the folders of a job that has made nothing."""
    own = [folder for folder, *_ in os.walk(unfinished_folder(job.directory), topdown=False)]
    for folder in (
        token_directory(job.settings),
        *own,
        job.directory,
        unfinished_folder(job.settings.save_dir),
        job.settings.save_dir,
    ):
        with contextlib.suppress(OSError):  # it is not empty
            os.rmdir(folder)


# The two steps.


def _of_chunks(
    function: Callable[[RecordsJob, int], Any],
    job: RecordsJob,
    description: str,
    progress: Progress,
) -> list[Any]:
    """`[function(job, index) for index in range(len(job.chunks))]`."""
    sizes = [chunk.end - chunk.begin for chunk in job.chunks]
    results: list[Any] = [None] * len(sizes)
    with progress(description, sum(sizes), "B") as advance:
        for index, results[index] in in_processes(
            functools.partial(function, job), range(len(sizes)), job.settings.num_workers
        ):
            advance(sizes[index])
    return results


def tokenize_chunk(job: RecordsJob, index: int) -> Made:
    """Makes the tokens of one chunk unless they exist."""
    with _write_errors_named(token_directory(job.settings)):
        return job.token_store().tokenize(job.chunks[index])


def _write_all(job: RecordsJob, made: Sequence[Made], progress: Progress) -> Manifest:
    """Writes all streams; returns the manifest."""
    counts: Counter[str] = collections.Counter()
    for each in made:
        counts.update(each.counts)
    layout = make_layout(job.settings, [each.tokens for each in made], counts)
    plan = layout.plan
    for folder in glob.glob(
        os.path.join(glob.escape(unfinished_folder(job.directory)), _STREAMS + "*")
    ):
        if folder != job.streams_folder:  # begun with other settings or text
            shutil.rmtree(folder)
    streams: list[dict[str, Any]] = [{}] * plan.num_streams
    with progress(
        "writing", plan.num_streams * plan.windows * job.settings.num_passes, " windows"
    ) as advance:
        for index, entry in in_processes(
            functools.partial(write_stream, job, layout),
            range(plan.num_streams),
            job.settings.num_workers,
        ):
            streams[index] = entry
            advance(entry["windows"])
    return make_manifest(job, plan, counts, streams)


def make_layout(
    settings: CorpusSettings, sizes: Sequence[int], counts: Counter[str]
) -> corpus.TokenLayout:
    """The `corpus.TokenLayout` of a text by the tokens of its chunks; `counts`: for the error."""
    if not sum(sizes):
        raise reading.no_text(
            settings.input_glob,
            {reason: count for reason, count in counts.items() if reason not in corpus.COUNTS},
        )
    plan = windows.plan_streams(
        sum(sizes), settings.seq_len, settings.reuse_len, settings.num_streams, settings.bi_data
    )
    return corpus.TokenLayout(plan, sizes, settings.seed)


def write_stream(
    job: RecordsJob, layout: corpus.TokenLayout, index: int, folder: str = ""
) -> dict[str, Any]:
    """Writes one stream, to `folder` or to the unfinished work, unless it exists; returns its entry
    in the manifest."""
    # The stream may be complete already, as unfinished work or among the records.
    plan, settings = layout.plan, job.settings
    name = stream_name(index, plan.num_streams)
    path, published = (
        os.path.join(folder or job.streams_folder, name),
        os.path.join(job.directory, name),
    )
    done = os.path.join(job.streams_folder, name + ".json")
    if files.exists(done):
        entry = files.read_json(done, "save_dir")
        is_unfinished_work = path != published and files.exists(path)
        # A job that was killed while it published has moved some streams.
        is_published = files.exists(published) and files.sha256(published) == entry["sha256"]
        if is_unfinished_work or is_published:
            return entry

    # Write the windows of all passes, then the entry, which says that the stream is complete.
    store = job.token_store()
    batches = record_writer.stream_records(
        settings,
        windows.Vocabulary.of(tokenizer_of(settings)),
        plan,
        index,
        functools.partial(
            layout.part_reader,
            lambda chunk, begin, end: store.read(job.chunks[chunk], begin, end),
            index,
        ),
    )
    digest, size, count = hashlib.sha256(), 0, 0
    with _write_errors_named(path), files.writing(path) as f:
        for batch, num_windows in batches:
            f.write(batch)
            digest.update(batch)
            size += len(batch)
            count += num_windows
    entry = {
        "file": name,
        "direction": plan.direction(index),
        "windows": count,
        "bytes": size,
        "sha256": digest.hexdigest(),
    }
    with _write_errors_named(done), files.writing(done) as f:
        f.write(json.dumps(entry).encode("utf-8"))
    return entry


def stream_name(stream: int, num_streams: int) -> str:
    return f"stream-{stream:05}-of-{num_streams:05}.tfrecord"


def make_manifest(
    job: RecordsJob,
    plan: windows.StreamPlan,
    counts: Counter[str],
    streams: Sequence[dict[str, Any]],
) -> Manifest:
    """Returns the manifest of records with these counts of all chunks and entries of streams."""
    settings, tokenizer, counts = job.settings, tokenizer_of(job.settings), counts.copy()
    found = {name: counts.pop(name, 0) for name in corpus.COUNTS}
    # The tokens of a part that a pass uses; those after the last window are dropped.
    used = (plan.windows - 1) * settings.reuse_len + settings.seq_len - WINDOW_SPECIAL_TOKENS
    return Manifest(
        vocab_size=tokenizer.vocab_size,
        sp_model=SPIECE_NAME,
        sp_model_sha256=tokenizer.sha256,
        uncased=tokenizer.uncased,
        keep_accents=tokenizer.keep_accents,
        seq_len=settings.seq_len,
        reuse_len=settings.reuse_len,
        bi_data=settings.bi_data,
        num_streams=plan.num_streams,
        num_passes=settings.num_passes,
        windows_per_stream=plan.windows * settings.num_passes,
        seed=settings.seed,
        dropped=found["tokens"] - plan.parts * used,
        skipped=dict(sorted(counts.items())),
        streams=tuple(streams),
        made_from=job.description,
        **found,
    )


def vouching(job: RecordsJob) -> list[str]:
    """The manifests that list streams of the job's directory; they are removed before the streams
    are replaced."""
    own, merged = (
        os.path.join(folder, MANIFEST_NAME) for folder in (job.directory, job.settings.save_dir)
    )
    is_merged = own != merged and lists(merged, os.path.basename(job.directory) + "/")
    return [own, merged] if is_merged else [own]


def lists(path: str, start: str) -> bool:
    """Whether the file `path` is a manifest with streams whose names begin with `start`."""
    try:
        streams = files.read_json(path, "save_dir")["streams"]
        return any(stream["file"].startswith(start) for stream in streams)
    except (UserError, KeyError, TypeError, AttributeError):
        return False


def _publish(job: RecordsJob, manifest: Manifest) -> None:
    """Replaces the records that are there by the streams and their manifest."""
    # The manifest is removed first and written last. If the job is killed meanwhile, each stream is
    # either still unfinished work or already among the records, and the job resumes.
    with _write_errors_named(job.directory):
        for path in vouching(job):
            with contextlib.suppress(FileNotFoundError):  # tasks may end at the same time
                os.remove(path)
        names = [stream["file"] for stream in manifest.streams]
        _clear_partial(job.directory)
        for path in glob.glob(os.path.join(glob.escape(job.directory), STREAMS)):
            if os.path.basename(path) not in names:
                os.remove(path)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                files.sync_and_rename(
                    os.path.join(job.streams_folder, name), os.path.join(job.directory, name)
                )
        tokenizer_of(job.settings).save(os.path.join(job.directory, SPIECE_NAME))
        manifest.write(job.directory)
    # This removes the job's own folder only: tokens that several tasks share are kept until the
    # tasks are merged, as the number of tasks may still change.
    shutil.rmtree(unfinished_folder(job.directory), ignore_errors=True)


def tokenizer_of(settings: CorpusSettings) -> Tokenizer:
    """The `Tokenizer` of the settings, loaded once in each process, and again if its file was
    replaced: processes of notebooks and clusters live longer than a vocabulary."""
    path = settings.sp_path
    version = None
    if os.path.exists(path):
        status = os.stat(path)
        version = status.st_mtime_ns, status.st_size
    return _load_tokenizer(path, version, settings.uncased, settings.keep_accents)


@functools.lru_cache(maxsize=1)
def _load_tokenizer(
    path: str, version: object, uncased: Optional[bool], keep_accents: Optional[bool]
) -> Tokenizer:
    return Tokenizer(path, uncased, keep_accents)
