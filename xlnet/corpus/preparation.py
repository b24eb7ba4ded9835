"""The job of making records: text to tokens to streams, by any number of processes or workers.

Both steps are pure: a chunk's tokens and a stream depend on the settings and the text alone, not on
the process that makes them, nor on whether the job was killed in between. What is finished is kept:
the tokens of chunks in a folder `unfinished`, streams under their final names, as object stores
cannot rename. The manifest, written last, makes records of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus import reading, record_files, sequences, tokenized
from xlnet.corpus.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest
from xlnet.corpus.processes import in_processes
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.settings.data import SEQUENCE_SPECIAL_TOKENS, CorpusSettings
from xlnet.support import files, system
from xlnet.support.errors import wrong

RULES = 4  # version of the rules that find sentences, documents and chunks
# Of the entries of `RecordsJob.description` those in which the tasks of a data set differ.
_OF_ONE_TASK = ("task", "input_content")
# Settings that do not change the records, or are in the description in another form.
_NOT_DESCRIBED = ("input_glob", "save_dir", "sp_path", "num_workers")
# Checksums in the description, and of what they are.
_CHECKSUMS = {
    "sp_model_sha256": "vocabulary",
    "input_files": "text",
    "input_content": "text",
}


class Summary(NamedTuple):
    """The result of `make_records` and of `merge`."""

    manifest: Manifest
    directory: str  # of the records
    is_new: bool  # False: these records had been made before


def make_records(settings: CorpusSettings, map_parts: Any = in_processes) -> Summary:
    """Turns text into the record directory that `settings` describe; returns its manifest and path.

    The same settings and input give the same bytes with any number of workers. A job that failed or
    was killed resumes; a finished one changes nothing.

    Args:
      settings: of the records.
      map_parts: returns work(part) of all parts of the work; `processes.in_processes`, or the same
        on a cluster (`beam`).

    Raises:
      UserError: something in the settings or the text is wrong; `save_dir` has records of others,
        or another process makes records there.
    """
    settings = settings.resolved()
    settings.check()
    directory = settings.save_dir
    if os.path.isfile(directory):
        raise wrong("save_dir", f"the file {directory}", "a directory")
    if settings.num_task > 1:
        name = _task_folder(settings.task, settings.num_task)
        directory = os.path.join(directory, name)
    file_sizes = reading.find_files(settings.input_glob)  # [bytes], by path
    chunks = _chunks_of_task(reading.cut(file_sizes), settings)
    tokenizer = Tokenizer(settings.sp_path, settings.uncased, settings.keep_accents)

    folder = unfinished_folder(directory)
    lock: Any = contextlib.nullcontext()  # object stores have no locks
    if not files.is_remote(directory):
        path = os.path.join(folder, "preparation.lock")
        lock = system.locked(path, f"save_dir: records are made in {directory}")
    with lock:
        # The text itself decides whether these records are there, or a part of the work. Names are
        # left out: a corpus that was moved, or is mounted elsewhere, gives the same records.
        paths = list(dict.fromkeys(chunk.path for chunk in chunks))  # each once
        sizes = [file_sizes[path] for path in paths]
        workers = settings.num_workers
        digests = map_parts(files.sha256, paths, sizes, "checksums", "B", workers)
        description = dataclasses.asdict(settings)
        for name in _NOT_DESCRIBED:
            del description[name]
        # Which bytes a task reads, and as what, follows from the forms and sizes of all files.
        all_files = []
        for path, size in file_sizes.items():
            form = reading.form_of(path, settings.input_format)
            if size:
                all_files.append((form, reading.is_packed(path), size))
        description.update(
            input_files=hashlib.sha256(repr(all_files).encode()).hexdigest(),
            input_content=hashlib.sha256(" ".join(digests).encode()).hexdigest(),
            sentence_rules=RULES,
            sp_model_sha256=tokenizer.sha256,
            uncased=tokenizer.uncased,
            keep_accents=tokenizer.keep_accents,
            format_version=FORMAT_VERSION,
        )
        digest_of = dict(zip(paths, digests))
        job = RecordsJob(settings, tokenizer, chunks, digest_of, directory, description)
        finished = _finished_manifest(job)
        manifest = finished or _write_records(job, map_parts)
        files.remove_matching(folder, "*")
        shutil.rmtree(folder, ignore_errors=True)  # object stores have no folders
    return Summary(manifest, directory, is_new=finished is None)


def _task_folder(task: int, num_task: int) -> str:
    """The name of the folder of a task, from 0, of `num_task` tasks."""
    return f"task-{task:05}-of-{num_task:05}"


def unfinished_folder(directory: str) -> str:
    """The folder of unfinished work in a directory of records."""
    return os.path.join(directory, "unfinished")


def _chunks_of_task(
    chunks: Sequence[reading.Chunk], settings: CorpusSettings
) -> list[reading.Chunk]:
    """The chunks of the text that the task `settings.task`, from 0, of `settings.num_task` reads:
    neighbours, of about as many bytes as those of any other task."""
    # The bytes are divided into `num_task` equal parts; a chunk belongs to the task in whose part
    # its middle is. Doubled, middles are integers.
    total = sum(chunk.end - chunk.begin for chunk in chunks)
    begin = 0  # of the chunk, in the bytes of all
    of_task = []
    for chunk in chunks:
        end = begin + chunk.end - chunk.begin
        doubled_middle = begin + end
        if doubled_middle * settings.num_task // (2 * total) == settings.task:
            of_task.append(chunk)
        begin = end
    return of_task


@dataclasses.dataclass(frozen=True)
class RecordsJob:
    """The text of one task, and where its records go. It is sent to each process.

    Attributes:
      settings: of the records.
      tokenizer: of the vocabulary.
      chunks: of the task's text, in order.
      digests: SHA-256 of each file, by path.
      directory: of the records.
      description: what the records depend on, as values of JSON by name: settings and checksums.
    """

    settings: CorpusSettings
    tokenizer: Tokenizer
    chunks: Sequence[reading.Chunk]
    digests: dict[str, str]
    directory: str
    description: dict[str, Any]

    def tokens_path(self, chunk: reading.Chunk) -> str:
        """The path of the file of the tokens of a chunk."""
        # Named by what the tokens depend on, with the checksum of the chunk's file in place of that
        # of all files: tokens are still found after another file has changed.
        described = dict(self.description, input_content=self.digests[chunk.path])
        del described["input_files"]
        depends_on = repr((described, *chunk))
        name = "tokens-" + hashlib.sha256(depends_on.encode()).hexdigest()[:32]
        return os.path.join(unfinished_folder(self.directory), name)

    def tokenize(self, chunk: reading.Chunk) -> dict[str, int]:
        """Writes the tokens of one chunk to a file unless it exists; returns counts by name: those
        of `tokenized.COUNTS`, and `reading.OTHER_PART`, of the documents that `settings.split`
        leaves out. A count of 0 may be missing."""
        path = self.tokens_path(chunk)
        counts_path = path + ".json"  # written last: it shows that both are complete
        if files.exists(counts_path):
            return files.read_json(counts_path, "tokens")
        counts: Counter[str] = Counter()
        arrays = tokenized.tokenize(chunk, self.settings, self.tokenizer, counts)
        # Without waiting for the disk: with a thousand small files that takes as long as the work.
        with files.writing(path, is_lasting=False) as f:
            for tokens in arrays:
                f.write(tokens.astype("<u4", copy=False).tobytes())
        with files.writing(counts_path, is_lasting=False) as f:
            f.write(json.dumps(counts).encode())
        return counts

    def read_tokens(self, chunk_index: int, begin: int, end: int) -> np.ndarray:
        """Tokens [begin, end) of a chunk, uint32, from the file that `tokenize` has written;
        chunk_index: in `chunks`."""
        with files.open_binary(self.tokens_path(self.chunks[chunk_index])) as f:
            f.seek(4 * begin)  # a token has 4 bytes
            return np.frombuffer(f.read(4 * (end - begin)), "<u4")

    def write_stream(
        self, plan: sequences.StreamPlan, chunk_tokens: Sequence[int], stream: int
    ) -> dict[str, Any]:
        """Writes the record file of a stream, unless it exists; returns its entry in
        `Manifest.streams`.

        Args:
          plan: of all streams.
          chunk_tokens: the number of tokens of each chunk.
          stream: its number in the plan, from 0.
        """
        settings, tokenizer = self.settings, self.tokenizer
        seq_len, reuse_len = settings.seq_len, settings.reuse_len
        name = f"stream-{stream:05}-of-{plan.num_streams:05}.tfrecord"
        path = os.path.join(self.directory, name)
        if not files.exists(path):
            layout = record_files.pretraining_features(seq_len)
            encoder = record_files.ExampleBytes(layout, tokenizer.vocab_size - 1)
            with files.writing(path) as f:
                # In each pass the stream reads its part of the text. The sequences of a cell, and
                # the parts of a cell that are encoded at once, bound the memory.
                for pass_number in range(settings.num_passes):
                    text = sequences.TextOfPass(
                        self.read_tokens, chunk_tokens, settings.seed, pass_number
                    )
                    cells = sequences.cells(text, plan, stream, settings, tokenizer)
                    for cell in cells:
                        parts = sequences.columns(cell, seq_len, reuse_len, tokenizer)
                        for columns in parts:
                            examples = encoder.encode(columns)
                            f.writelines(map(record_files.frame, examples))
        return {
            "file": name,
            "direction": plan.direction(stream),
            "windows": plan.sequences * settings.num_passes,
            "bytes": files.size(path),
            "sha256": files.sha256(path),
        }


def _finished_manifest(job: RecordsJob) -> Manifest | None:
    """The manifest if the job's directory has its complete records, None if it has none; a
    UserError if it has those of another job."""
    if files.exists(os.path.join(job.directory, MANIFEST_NAME)):
        manifest = Manifest.read(job.directory, "save_dir")
        source = "this command; remove it, or give another directory"
        where = f"save_dir: the records in {job.directory}"
        _require_same(where, manifest, job.description, source)
        return manifest
    # With several tasks, each has a folder in save_dir, which itself may have complete records.
    if files.exists(os.path.join(job.settings.save_dir, MANIFEST_NAME)):
        found = f"complete records in {job.settings.save_dir}"
        raise wrong("save_dir", found, "another directory; or remove it")
    return None


def _require_same(
    where: str, manifest: Manifest, expected: Mapping[str, Any], source: str
) -> None:
    """Raises UserError unless records were made from the expected settings and input.

    Args:
      where: what the error begins with.
      manifest: of the records.
      expected: the entries that `manifest.made_from` should have.
      source: what the expected entries belong to, in words.
    """
    for name, value in expected.items():
        made_from = manifest.made_from.get(name)
        if made_from == value:
            continue
        if name in _CHECKSUMS:  # the error names the file, not its checksum
            content = _CHECKSUMS[name]
            raise wrong(where, f"another {content}", f"the {content} of {source}")
        raise wrong(where, f"{name} {made_from}", f"{value}, as in {source}")


def _write_records(job: RecordsJob, map_parts: Any) -> Manifest:
    """Makes tokens of the text, then streams of the tokens; writes the manifest and returns it.
    Files that are finished already are kept. map_parts: as in `make_records`."""
    settings, tokenizer = job.settings, job.tokenizer
    # Text to tokens, a file for each chunk.
    sizes = [chunk.end - chunk.begin for chunk in job.chunks]
    workers = settings.num_workers
    by_chunk = map_parts(job.tokenize, job.chunks, sizes, "reading", "B", workers)
    counts: Any = Counter()  # of all chunks
    for of_chunk in by_chunk:
        counts.update(of_chunk)
    left_out = counts.pop(reading.OTHER_PART, 0)
    if not counts["tokens"]:
        found = f"no text in {settings.input_glob}"
        if left_out:
            found += f"; left out, {reading.OTHER_PART}: {left_out}"
        expected = f"text for each of num_task={settings.num_task}"
        raise wrong("input_glob", found, expected)

    # Tokens to streams, a file for each. Streams of a job that was killed are kept if they are of
    # the same settings and files.
    plan = sequences.plan_streams(counts["tokens"], settings)
    path = os.path.join(unfinished_folder(job.directory), "streams.json")
    described = {**job.description, "files": list(job.digests)}
    if not files.exists(path) or files.read_json(path, "save_dir") != described:
        files.remove_matching(job.directory, "stream-*.tfrecord")
        files.write_json(path, described)
    stream_length = plan.sequences * settings.num_passes  # [sequences]
    streams = range(plan.num_streams)
    lengths = [stream_length] * plan.num_streams
    chunk_tokens = [of_chunk.get("tokens", 0) for of_chunk in by_chunk]
    write = functools.partial(job.write_stream, plan, chunk_tokens)
    entries = map_parts(write, streams, lengths, "writing", " sequences", workers)

    # The tokens of a part of the text that a pass uses; those after its last sequence are dropped.
    text_of_sequence = settings.seq_len - SEQUENCE_SPECIAL_TOKENS
    used = (plan.sequences - 1) * settings.reuse_len + text_of_sequence
    manifest = Manifest(
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
        windows_per_stream=stream_length,
        dropped=counts["tokens"] - plan.parts * used,
        skipped={reading.OTHER_PART: left_out} if left_out else {},
        seed=settings.seed,
        made_from=job.description,
        streams=tuple(entries),
        **counts,  # by `tokenized.COUNTS`
    )
    tokenizer.save(os.path.join(job.directory, SPIECE_NAME))
    manifest.write(job.directory)
    files.remove_matching(job.directory, "*.partial-*")  # of workers that were killed
    return manifest


# The records of several machines, joined to one data set.


def merge(save_dir: str) -> Summary:
    """Joins the records of all tasks in `save_dir` to one data set: writes its manifest, whose
    streams stay in the folders of the tasks."""
    where = f"input: {save_dir}"
    files.require_directory(save_dir, "input")
    folders = sorted(glob.glob(os.path.join(glob.escape(save_dir), "task-*-of-*")))
    if not folders:
        raise wrong(where, "nothing", "task-00000-of-00002, ...; --num_task")
    manifests = [Manifest.read(folder, "input") for folder in folders]
    folder_names = [os.path.basename(folder) for folder in folders]
    # No task may be missing or occur twice, and all must have equal settings.
    first = manifests[0]
    num_task = first.made_from["num_task"]
    expected = [_task_folder(task, num_task) for task in range(num_task)]
    if folder_names != expected:
        raise wrong(where, ", ".join(folder_names), ", ".join(expected))
    made_from = dict(first.made_from)
    for name in _OF_ONE_TASK:
        del made_from[name]

    # All streams are read up to the length of the shortest one, which costs little, as the tasks
    # have about equal amounts of text. The sequences after it count as dropped.
    streams = []
    counts: Any = Counter()
    skipped: Counter[str] = Counter()
    shortest = min(manifest.windows_per_stream for manifest in manifests)
    for folder_name, folder, manifest in zip(folder_names, folders, manifests):
        _require_same(f"input: {folder}", manifest, made_from, folders[0])
        for stream in manifest.streams:
            streams.append(dict(stream, file=folder_name + "/" + stream["file"]))
        # A dropped sequence has `reuse_len` tokens that no sequence before it has. Each pass reads
        # all tokens, with `bi_data` in both directions; a token counts as dropped once.
        num_dropped = (manifest.windows_per_stream - shortest) * manifest.num_streams
        readings = first.num_passes * (1 + first.bi_data)
        counts["dropped"] += num_dropped * first.reuse_len // readings
        skipped.update(manifest.skipped)
        for count_name in (*tokenized.COUNTS, "dropped"):
            counts[count_name] += getattr(manifest, count_name)
    merged = dataclasses.replace(
        first,
        num_streams=len(streams),
        streams=tuple(streams),
        windows_per_stream=shortest,
        skipped=dict(skipped),
        made_from=made_from,
        **counts,
    )
    tokenizer = Tokenizer(os.path.join(folders[0], SPIECE_NAME))
    tokenizer.save(os.path.join(save_dir, SPIECE_NAME))
    merged.write(save_dir)
    return Summary(merged, save_dir, is_new=True)
