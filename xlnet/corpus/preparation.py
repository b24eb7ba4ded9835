"""The job of making records: text to tokens to streams, by any number of processes.

Both steps are pure: a chunk's tokens and a stream depend on the settings and the text alone, not on
the process that makes them, nor on whether the job was killed in between. Unfinished work is in a
folder `unfinished`: the tokens of chunks, which records of other lengths can use, too, and streams.
Once all streams are complete they replace the records that were there, and the manifest, written
last, describes them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.corpus import reading, record_writer, sequences, tfrecord, tokenized
from xlnet.corpus.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest
from xlnet.corpus.processes import in_processes
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.settings.data import SEQUENCE_SPECIAL_TOKENS, CorpusSettings, InputSettings
from xlnet.support import files, lock
from xlnet.support.errors import UserError, wrong

STREAMS = "stream-*-of-*.tfrecord"  # pattern of the names of all streams
RULES = 4  # version of the rules that find sentences, documents and chunks
CONTENT = "input_content"  # in the description: the checksum of the text itself
OF_ONE_TASK = ("task", CONTENT)
# Settings that do not change the records, or are in the description in another form.
_NOT_DESCRIBED = ("input_glob", "save_dir", "sp_path", "num_workers")
# Settings that tokens depend on.
_OF_TOKENS = [field.name for field in dataclasses.fields(InputSettings)]
_OF_TOKENS = [*_OF_TOKENS[1:], "from_raw_text", "use_eod"]


@dataclasses.dataclass(frozen=True)
class Summary:
    """The result of `make_records`.

    Attributes:
      manifest: of the records.
      directory: of the records.
      seconds: None: the records had been made before.
      counts: of all chunks, as of `tokenized.tokenize`; None: the same.
    """

    manifest: Manifest
    directory: str
    seconds: Optional[float] = None
    counts: Optional[Counter[str]] = None


class RecordsJob:
    """The text of one task, and where its records go. It is sent to each process.

    Attributes:
      settings: of the records.
      tokenizer: of the vocabulary.
      texts: path of a file -> its SHA-256.
      chunks: of the text.
      directory: of the records.
      description: what the records depend on, as JSON.
    """

    def __init__(
        self,
        settings: CorpusSettings,
        tokenizer: Tokenizer,
        texts: dict[str, str],
        chunks: Sequence[reading.Chunk],
    ) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.texts, self.chunks = texts, chunks
        self.directory = settings.save_dir
        if settings.num_task > 1:
            folder = task_folder(settings.task, settings.num_task)
            self.directory = os.path.join(settings.save_dir, folder)
        described = dataclasses.asdict(settings)
        for name in _NOT_DESCRIBED:
            del described[name]
        # Names are left out: a corpus that was moved, or is mounted elsewhere, gives the same
        # records.
        content = hashlib.sha256(" ".join(texts.values()).encode()).hexdigest()
        self.description: dict[str, Any] = {
            **described,
            CONTENT: content,
            "sentence_rules": RULES,
            "sp_model_sha256": tokenizer.sha256,
            "uncased": tokenizer.uncased,
            "keep_accents": tokenizer.keep_accents,
            "format_version": FORMAT_VERSION,
        }

    @property
    def streams_folder(self) -> str:
        """The folder of streams of this description until all are complete."""
        # Its digest is in the name: streams of other settings are not taken for these.
        digest = hashlib.sha256(repr(self.description).encode()).hexdigest()
        return os.path.join(unfinished_folder(self.directory), "streams-" + digest)

    def tokens_path(self, index: int) -> str:
        """The file of the tokens of a chunk; with .json behind it, that of its counts."""
        # The same for any number of tasks.
        path, begin, end = self.chunks[index]
        values = [self.description[name] for name in _OF_TOKENS]
        vocabulary = (
            self.tokenizer.sha256,
            self.tokenizer.uncased,
            self.tokenizer.keep_accents,
        )
        form = reading.form_of(path, ""), reading.is_packed(path)
        depends_on = repr(
            (RULES, vocabulary, values, form, self.texts[path], begin, end)
        )
        name = hashlib.sha256(depends_on.encode()).hexdigest()[:32]
        return os.path.join(unfinished_folder(self.settings.save_dir), "tokens", name)


def make_records(settings: CorpusSettings) -> Summary:
    """Turns text into the record directory that `settings` describe.

    The same settings and input give the same bytes with any number of workers. A job that failed or
    was killed resumes; a finished one changes nothing.
    """
    began = time.time()
    settings = settings.resolved()
    job = plan_job(settings)
    if is_finished(job):
        return Summary(Manifest.read(job.directory), job.directory)
    with exclusive(job):
        chunk_bytes = [end - begin for _, begin, end in job.chunks]
        tokenize = functools.partial(tokenize_chunk, job)
        made = in_processes(tokenize, chunk_bytes, "reading", "B", settings.num_workers)
        counts: Counter[str] = collections.Counter()
        for each in made:
            counts.update(each)
        sizes = [each.get("tokens", 0) for each in made]
        layout = make_layout(settings, sizes, counts)
        plan = layout.plan
        windows = [plan.sequences * settings.num_passes] * plan.num_streams
        write = functools.partial(write_stream, job, layout, job.streams_folder)
        entries = in_processes(
            write, windows, "writing", " sequences", settings.num_workers
        )
        manifest = make_manifest(job, plan, counts, entries)
        _publish(job, manifest)
    return Summary(manifest, job.directory, time.time() - began, counts)


# The job.


def plan_job(settings: CorpusSettings) -> RecordsJob:
    """Checks the settings and reads the text of this task for its checksum; writes nothing."""
    paths, sizes = list_input(settings)
    chunks = reading.cut(paths, sizes)
    own = split_chunks(chunks, settings.num_task)[settings.task]
    if not own:
        raise no_text(settings, {})
    tokenizer = Tokenizer(settings.sp_path, settings.uncased, settings.keep_accents)
    own_paths = list(dict.fromkeys(chunk.path for chunk in own))
    size_of = dict(zip(paths, sizes))
    digests = in_processes(
        functools.partial(checksum, own_paths),
        [size_of[path] for path in own_paths],
        "checksums",
        "B",
        settings.num_workers,
    )
    texts = dict(zip(own_paths, digests))
    return RecordsJob(settings, tokenizer, texts, own)


def list_input(settings: CorpusSettings) -> tuple[list[str], list[int]]:
    """Checks the settings; returns the input's files and their sizes, and reads none of them."""
    settings.check()
    if os.path.isfile(settings.save_dir):
        raise UserError(
            f"save_dir: {settings.save_dir} is a file, expected a directory"
        )
    paths = reading.find_files(settings.input_glob)
    with reading.naming(reading.some_of(paths)):
        return paths, files.sizes(paths)


def checksum(paths: Sequence[str], index: int) -> str:
    """The SHA-256 of a file of text."""
    with reading.naming(paths[index]):
        return files.sha256(paths[index])


def split_chunks(
    chunks: Sequence[reading.Chunk], num_task: int
) -> list[list[reading.Chunk]]:
    """Cuts the list of chunks into `num_task` parts of about equal size in bytes."""
    # A chunk belongs to the part in which its middle is.
    total = sum(chunk.end - chunk.begin for chunk in chunks)
    done = 0
    tasks: list[list[reading.Chunk]] = [[] for _ in range(num_task)]
    for chunk in chunks:
        size = chunk.end - chunk.begin
        tasks[min(num_task - 1, (2 * done + size) * num_task // (2 * total))].append(
            chunk
        )
        done += size
    return tasks


def task_folder(task: int, num_task: int) -> str:
    """The name of the folder of one of several tasks."""
    return f"task-{task:05}-of-{num_task:05}"


def unfinished_folder(directory: str) -> str:
    """The folder of unfinished work in a directory of records."""
    return os.path.join(directory, "unfinished")


@contextlib.contextmanager
def exclusive(job: RecordsJob) -> Iterator[None]:
    """Locks the directory, unless it is in an object store, which has no locks."""
    if files.is_remote(job.directory):
        yield
        return
    path = os.path.join(unfinished_folder(job.directory), "preparation.lock")
    with lock.held(path, f"save_dir: records are made in {job.directory}"):
        yield


def is_finished(job: RecordsJob) -> bool:
    """Whether the directory has exactly these records; a UserError if it has others."""
    path = os.path.join(job.directory, MANIFEST_NAME)
    merged = os.path.join(job.settings.save_dir, MANIFEST_NAME)
    if not files.exists(path):
        if files.exists(merged):
            raise UserError(
                f"save_dir: {job.settings.save_dir} has complete records; remove it, or give "
                "another directory"
            )
        return False
    manifest = files.read_json(path, "save_dir")
    made = dict(
        manifest.get("made_from") or {}, format_version=manifest.get("format_version")
    )
    for name, value in job.description.items():
        if made.get(name) != value:
            raise UserError(
                f"save_dir: it has records of other settings or input: {name} {made.get(name)} "
                f"there, {value} now; remove it, or give another directory"
            )
    # Streams are compared by size only; `data verify` compares their checksums.
    found = files.match(os.path.join(glob.escape(job.directory), "*"))
    sizes = {os.path.basename(path): size for path, size in found.items()}
    for stream in manifest["streams"]:
        if sizes.get(stream["file"]) != stream["bytes"]:
            return False
    return SPIECE_NAME in sizes


# The two steps.


def tokenize_chunk(job: RecordsJob, index: int) -> dict[str, int]:
    """Makes the tokens of one chunk unless they exist; returns its counts."""
    path = job.tokens_path(index)
    counts_path = path + ".counts.json"  # written last
    if files.exists(counts_path):
        return files.read_json(counts_path, "tokens")
    counts: Counter[str] = collections.Counter()
    with files.writing(path) as f:
        for part in tokenized.tokenize(
            job.chunks[index], job.settings, job.tokenizer, counts
        ):
            f.write(part.astype("<u4", copy=False).tobytes())
    with files.writing(counts_path) as f:
        f.write(json.dumps(counts).encode())
    return counts


def read_tokens(job: RecordsJob, index: int, begin: int, end: int) -> np.ndarray:
    """Tokens [begin, end) of a chunk, uint32."""
    with files.open_binary(job.tokens_path(index)) as f:
        f.seek(4 * begin)
        return np.frombuffer(f.read(4 * (end - begin)), "<u4")


def make_layout(
    settings: CorpusSettings, sizes: Sequence[int], counts: Counter[str]
) -> tokenized.TokenLayout:
    """The layout of a text by the tokens of its chunks; `counts`: for the error."""
    total = sum(sizes)
    if not total:
        raise no_text(settings, counts)
    plan = sequences.plan_streams(
        total,
        settings.seq_len,
        settings.reuse_len,
        settings.num_streams,
        settings.bi_data,
    )
    return tokenized.TokenLayout(plan, sizes, settings.seed)


def no_text(settings: CorpusSettings, counts: dict[str, int]) -> UserError:
    left_out = counts.get(reading.OTHER_PART)
    reason = f"; left out, {reading.OTHER_PART}: {left_out}" if left_out else ""
    task = (
        f" for task {settings.task} of {settings.num_task}"
        if settings.num_task > 1
        else ""
    )
    return UserError(f"input_glob: no text in {settings.input_glob}{task}{reason}")


def write_stream(
    job: RecordsJob, layout: tokenized.TokenLayout, folder: str, index: int
) -> dict[str, Any]:
    """Writes one stream to a folder, unless it exists; returns its entry in the manifest."""
    plan, settings = layout.plan, job.settings
    name = stream_name(index, plan.num_streams)
    path = os.path.join(folder, name)
    if folder == job.directory or not files.exists(path):
        vocabulary = sequences.Vocabulary.of(job.tokenizer)
        encoder = record_writer.SequenceEncoder(
            vocabulary, settings.seq_len, settings.reuse_len
        )
        read = functools.partial(read_tokens, job)
        with files.writing(path) as f:
            for pass_index in range(settings.num_passes):
                cells = sequences.cells(
                    layout.part_reader(read, index, pass_index),
                    plan,
                    index,
                    settings,
                    vocabulary,
                    pass_index,
                )
                for number, cell in enumerate(cells):
                    for batch in encoder.batches(
                        cell, plan.direction(index), number == 0
                    ):
                        f.write(batch)
    size = files.size(path)
    return {
        "file": name,
        "direction": plan.direction(index),
        "windows": size // (tfrecord.first_size(path) or 1),
        "bytes": size,
        "sha256": files.sha256(path),
    }


def stream_name(stream: int, num_streams: int) -> str:
    return f"stream-{stream:05}-of-{num_streams:05}.tfrecord"


def make_manifest(
    job: RecordsJob,
    plan: sequences.StreamPlan,
    counts: Counter[str],
    streams: Sequence[dict[str, Any]],
) -> Manifest:
    """The manifest of records with these counts of all chunks and entries of streams."""
    settings, tokenizer = job.settings, job.tokenizer
    # The tokens of a part that a pass uses; those after the last sequence are dropped.
    used = (
        (plan.sequences - 1) * settings.reuse_len
        + settings.seq_len
        - SEQUENCE_SPECIAL_TOKENS
    )
    left_out = counts[reading.OTHER_PART]
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
        windows_per_stream=plan.sequences * settings.num_passes,
        documents=counts["documents"],
        sentences=counts["sentences"],
        tokens=counts["tokens"],
        unknown=counts["unknown"],
        dropped=counts["tokens"] - plan.parts * used,
        skipped={reading.OTHER_PART: left_out} if left_out else {},
        seed=settings.seed,
        made_from=job.description,
        streams=tuple(streams),
    )


def clear(job: RecordsJob, names: Sequence[str]) -> None:
    """Removes the manifests of the records that are there, then the streams not in `names`."""
    # A merged manifest, which lists streams of this task, goes first, too.
    for directory in (job.settings.save_dir, job.directory):
        files.remove([os.path.join(directory, MANIFEST_NAME)])
    for pattern in (STREAMS, "*.partial-*"):
        for path in files.match(os.path.join(glob.escape(job.directory), pattern)):
            if os.path.basename(path) not in names:
                files.remove([path])


def _publish(job: RecordsJob, manifest: Manifest) -> None:
    """Replaces the records that are there by the streams and their manifest."""
    # The manifest is removed first and written last. If the job is killed meanwhile, it resumes.
    names = [stream["file"] for stream in manifest.streams]
    clear(job, names)
    for name in names:
        files.sync_and_rename(
            os.path.join(job.streams_folder, name), os.path.join(job.directory, name)
        )
    job.tokenizer.save(os.path.join(job.directory, SPIECE_NAME))
    manifest.write(job.directory)
    # This removes the job's own folder only: tokens that several tasks share are kept until the
    # tasks are merged, as the number of tasks may still change.
    shutil.rmtree(unfinished_folder(job.directory), ignore_errors=True)


# The records of several machines, joined to one data set.


def merge(save_dir: str) -> Manifest:
    """Joins the records of all tasks in `save_dir` to one data set; returns its manifest."""
    files.require_directory(save_dir, "input")
    folders = sorted(glob.glob(os.path.join(glob.escape(save_dir), "task-*-of-*")))
    if not folders:
        raise wrong(
            f"input: {save_dir}", "nothing", "task-00000-of-00002, ...; --num_task"
        )
    manifests = [Manifest.read(folder, "input") for folder in folders]
    first, found = manifests[0], [os.path.basename(folder) for folder in folders]
    # No task may be missing or occur twice, and all must have equal settings.
    count = first.made_from["num_task"]
    expected = [task_folder(task, count) for task in range(count)]
    if found != expected:
        raise wrong(f"input: {save_dir}", ", ".join(found), ", ".join(expected))
    made_from = _common(folders, manifests)

    # All streams are shortened to the length of the shortest one, which costs little, as the tasks
    # have about equal amounts of text. What is cut off counts as dropped.
    streams = []
    counts: Any = Counter()
    skipped: Counter[str] = Counter()
    shortest = min(manifest.windows_per_stream for manifest in manifests)
    for folder, manifest in zip(found, manifests):
        for stream in manifest.streams:
            streams.append(dict(stream, file=folder + "/" + stream["file"]))
        cut = (manifest.windows_per_stream - shortest) * manifest.num_streams
        # A sequence adds `reuse_len` tokens; each pass, and each direction, reads all tokens.
        counts["dropped"] += (
            cut * first.reuse_len // (first.num_passes * (1 + first.bi_data))
        )
        skipped.update(manifest.skipped)
        for name in (*tokenized.COUNTS, "dropped"):
            counts[name] += getattr(manifest, name)
    merged = dataclasses.replace(
        first,
        num_streams=len(streams),
        streams=tuple(streams),
        windows_per_stream=shortest,
        skipped=dict(skipped),
        made_from=made_from,
        **counts,
    )
    for name in (SPIECE_NAME, MANIFEST_NAME):
        # Of merges that were killed.
        files.remove_unfinished(os.path.join(save_dir, name))
    Tokenizer(os.path.join(folders[0], SPIECE_NAME)).save(
        os.path.join(save_dir, SPIECE_NAME)
    )
    merged.write(save_dir)
    # Tokens are kept only until here: another number of tasks would have used them, too.
    shutil.rmtree(unfinished_folder(save_dir), ignore_errors=True)
    return merged


def _common(folders: Sequence[str], manifests: Sequence[Manifest]) -> dict[str, Any]:
    """What the records of all tasks were made from; a UserError unless it is the same."""
    common = dict(manifests[0].made_from)
    for name in OF_ONE_TASK:
        del common[name]
    for folder, manifest in zip(folders, manifests):
        for name, value in common.items():
            other = manifest.made_from.get(name)
            if other != value:
                raise wrong(
                    f"input: {folder}",
                    f"{name} {other}",
                    f"{value}, as in {folders[0]}",
                )
    return common
