"""The job of `preparation` as an Apache Beam pipeline, for text that one machine cannot hold.

    ranges of text -> tokens in files -> GroupByKey -> plan -> streams in files -> manifest

Text, tokens and records are files that all workers reach; the runner itself moves no text, only
ranges and counts. So no key holds more than about 200 bytes for each chunk or stream (at most 50 MB
for 1 TB of text), a worker needs no more memory than a process of data_utils.py, and finished work
is kept if the pipeline fails. Beam's features are those that all runners have: a chain of Create,
ParDo and GroupByKey, without side inputs and outputs by tag.
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
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from xlnet import files
from xlnet.errors import UserError
from xlnet.records.manifest import MANIFEST_NAME
from xlnet.settings.data import CorpusSettings
from xlnet.text import corpus, preparation, reading
from xlnet.text.preparation import RecordsJob
from xlnet.text.recognition import Form
from xlnet.text.token_store import Made, content_of
from xlnet.tokenization.tokenizer import SPIECE_NAME

_LEAST_BYTES = 1 << 23  # of text in an element, unless there is little
_FEWEST, _MOST = 16, 1024  # elements of text, and of streams
_DONE = ".done"  # the last step has ended
_RESUME = "finished work is kept: run the same command again to resume"


def run(settings: CorpusSettings, options: Any = None) -> bool:
    """Makes the records that `settings` describe, and waits for the pipeline's end; False if they
    had been made before. `options`: Beam's `PipelineOptions`; None runs here."""
    if settings.num_task > 1:
        raise UserError(
            f"num_task is {settings.num_task}: Beam divides the text among its workers; leave it 1"
        )
    # This process lists the files and reads none of them.
    paths, sizes = preparation.list_input(settings)
    if not sum(sizes):
        raise UserError(f"input_glob: no text in {reading.some_of(paths)}")
    job = RecordsJob(settings, settings.save_dir, (), preparation.describe(settings, paths, sizes))
    is_finished = preparation.is_finished(job)
    # Object stores have no locks.
    with contextlib.nullcontext() if files.is_remote(job.directory) else preparation.exclusive(job):
        source = _write(
            job,
            "input",
            {
                "settings": dataclasses.asdict(settings),
                "description": job.description,
                "chunk_bytes": reading.chunk_size(sum(sizes)),
                "files": list(zip(paths, sizes)),
            },
        )
        most = max(_FEWEST, min(_MOST, sum(sizes) // _LEAST_BYTES))
        files.remove([source + _DONE])
        try:
            with beam.Pipeline(options=options) as pipeline:
                found = (
                    pipeline
                    | "text" >> beam.Create(_ranges(sum(sizes), most))
                    | "read" >> beam.Map(_read, source, is_finished)
                    | "gather chunks" >> beam.GroupByKey()
                )
                if is_finished:  # the text may be another one of the same size
                    _ = found | "compare" >> beam.Map(_compare, source)
                else:
                    _ = (
                        found
                        | "plan" >> beam.FlatMap(_plan, source)
                        | "spread streams" >> beam.GroupByKey()
                        | "write streams" >> beam.FlatMap(_write_streams)
                        | "gather streams" >> beam.GroupByKey()
                        | "write manifest" >> beam.Map(_write_manifest)
                    )
        except Exception as e:
            files.remove([source])
            raise _in_one_line(e) from e

        # A runner that loses its cluster may end without an error, as Dask's does. So the last step
        # leaves a file.
        is_done = files.exists(source + _DONE)
        files.remove([source, source + _DONE])
        if not is_done:
            raise UserError(
                "the pipeline ended before its last step, perhaps as its cluster ended; " + _RESUME
            )
        folder = preparation.unfinished_folder(job.directory)
        if files.is_remote(folder):
            files.remove(files.match(folder + "/**"))
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return not is_finished


def _ranges(size: int, most: int) -> list[tuple[int, int]]:
    edges = sorted({size * index // most for index in range(most + 1)})
    return list(zip(edges[:-1], edges[1:]))


def _in_one_line(error: Exception) -> UserError:
    """The `UserError` of a failed pipeline: that of a worker, or what the runner says."""
    text = re.sub(r" \[while running .*", "", str(error)).strip()  # Beam adds the step
    said = re.search(r"UserError: (.+)", text)
    if isinstance(error, UserError) or said:
        return UserError(said[1] if said else text)
    return UserError(
        "the pipeline failed: {}: {}; {}".format(
            type(error).__name__, (text or "no reason").splitlines()[0], _RESUME
        )
    )


# Files that the steps share, in the folder of unfinished work, so that the runner need not move
# their content. Their names have a digest of the content: a worker's process, which keeps what it
# has loaded (`lru_cache`), may serve several pipelines.


def _write(job: RecordsJob, name: str, values: dict[str, Any]) -> str:
    content = json.dumps(values).encode("utf-8")
    path = os.path.join(
        preparation.unfinished_folder(job.directory),
        f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.json",
    )
    with files.writing(path) as f:
        f.write(content)
    return path


@functools.lru_cache(maxsize=2)
def _load(path: str) -> dict[str, Any]:
    try:
        return files.read_json(path, "save_dir")
    except UserError as e:
        raise UserError(f"{e}; all workers must reach save_dir by this name") from None


@functools.lru_cache(maxsize=2)
def _load_plan(path: str) -> tuple[RecordsJob, corpus.TokenLayout, Counter[str]]:
    """(job, layout, counts) of a file that `_plan` wrote."""
    plan = _load(path)
    settings = CorpusSettings(**plan["settings"])
    chunks = tuple(
        reading.Chunk(plan["paths"][path], begin, end, Form(*plan["forms"][form]))
        for path, form, begin, end, _ in plan["chunks"]
    )
    counts = collections.Counter(plan["counts"])
    layout = preparation.make_layout(settings, [tokens for *_, tokens in plan["chunks"]], counts)
    return RecordsJob(settings, settings.save_dir, chunks, plan["description"]), layout, counts


# The steps.


def _read(text: tuple[int, int], source: str, is_compared: bool) -> tuple[int, tuple]:
    """Makes the tokens of a range of the text, unless they exist or are only compared; returns
    key 0 and (where the range begins, [chunk, tokens, checksum] of each chunk, counts of all)."""
    job_of = _load(source)
    settings = CorpusSettings(**job_of["settings"])
    low, high = text
    chunks, file_begin = [], 0
    counts: Counter[str] = collections.Counter()
    job = RecordsJob(settings, settings.save_dir, (), job_of["description"])
    for path, size in job_of["files"]:
        # The range is one of all files laid end to end; a chunk belongs to it if it begins there.
        if file_begin < high and low < file_begin + max(size, 1):
            for chunk in reading.cut(
                [path],
                job_of["chunk_bytes"],
                settings.json_field,
                settings.encoding,
                settings.text_format,
            ):
                if low <= file_begin + chunk.begin < high:
                    own = dataclasses.replace(job, chunks=(chunk,))
                    made = (
                        Made({}, content_of(chunk))
                        if is_compared
                        else preparation.tokenize_chunk(own, 0)
                    )
                    chunks.append((chunk, made.tokens, made.content))
                    counts.update(made.counts)
        file_begin += size
    return 0, (low, chunks, counts)


def _gathered(values: Iterable[tuple], source: str) -> tuple[RecordsJob, list[int], Counter[str]]:
    """(the job with all chunks and the text in its description, tokens of each chunk, counts)."""
    job_of, rows = _load(source), []
    counts: Counter[str] = collections.Counter()
    for _, chunks, found in sorted(values, key=lambda value: value[0]):
        rows += chunks
        counts.update(found)
    settings, chunks = CorpusSettings(**job_of["settings"]), tuple(row[0] for row in rows)
    job = RecordsJob(
        settings,
        settings.save_dir,
        chunks,
        job_of["description"] | preparation.describe_forms(settings, chunks),
    )
    return (
        preparation.with_content(job, [Made({}, row[2]) for row in rows]),
        [row[1] for row in rows],
        counts,
    )


def _compare(keyed: tuple[int, Iterable[tuple]], source: str) -> None:
    """Raises UserError if the finished records are of another text."""
    job, _, _ = _gathered(keyed[1], source)
    path = os.path.join(job.directory, MANIFEST_NAME)
    preparation.check_same(files.read_json(path, "save_dir"), job.description)
    _mark_done(source)


def _plan(keyed: tuple[int, Iterable[tuple]], source: str) -> Iterator[tuple[int, tuple]]:
    """Writes the plan; yields ranges of streams, each with a key of its own."""
    job, sizes, counts = _gathered(keyed[1], source)
    plan = preparation.make_layout(job.settings, sizes, counts).plan
    paths = list(dict.fromkeys(chunk.path for chunk in job.chunks))
    forms = list(dict.fromkeys(chunk.form for chunk in job.chunks))
    path_of, form_of = (
        {value: index for index, value in enumerate(values)} for values in (paths, forms)
    )
    path = _write(
        job,
        "plan",
        {
            "settings": dataclasses.asdict(job.settings),
            "description": job.description,
            "counts": counts,
            "source": source,
            "paths": paths,
            "forms": forms,
            "chunks": [
                (path_of[chunk.path], form_of[chunk.form], chunk.begin, chunk.end, tokens)
                for chunk, tokens in zip(job.chunks, sizes)
            ],
        },
    )
    # Make room for the streams: the manifest is removed first, then streams that the new ones do
    # not replace by their names.
    names = {
        preparation.stream_name(stream, plan.num_streams) for stream in range(plan.num_streams)
    }
    others = files.match(os.path.join(glob.escape(job.directory), preparation.STREAMS))
    files.remove(preparation.vouching(job))
    files.remove(other for other in others if os.path.basename(other) not in names)
    for key, streams in enumerate(_ranges(plan.num_streams, _MOST)):
        yield key, (path, streams)


def _write_streams(keyed: tuple[int, Iterable[tuple]]) -> Iterator[tuple[int, tuple]]:
    """Writes a range of streams under their final names, each once it is complete; yields key 0 and
    (the plan, their entries in the manifest)."""
    for path, (low, high) in keyed[1]:
        job, layout, _ = _load_plan(path)
        yield (
            0,
            (
                path,
                [
                    preparation.write_stream(job, layout, stream, job.directory)
                    for stream in range(low, high)
                ],
            ),
        )


def _write_manifest(keyed: tuple[int, Iterable[tuple]]) -> None:
    """Removes what killed workers left; writes the SentencePiece model and, last, the manifest."""
    values = list(keyed[1])
    job, layout, counts = _load_plan(values[0][0])
    entries = sorted(
        (entry for _, part in values for entry in part), key=lambda entry: entry["file"]
    )
    manifest = preparation.make_manifest(job, layout.plan, counts, entries)
    files.remove(files.match(os.path.join(glob.escape(job.directory), "*.partial-*")))
    with tempfile.TemporaryDirectory() as folder:
        preparation.tokenizer_of(job.settings).save(os.path.join(folder, SPIECE_NAME))
        manifest.write(folder)
        for name in sorted(os.listdir(folder), key=lambda name: name == MANIFEST_NAME):
            with (
                open(os.path.join(folder, name), "rb") as made,
                files.writing(os.path.join(job.directory, name)) as f,
            ):
                shutil.copyfileobj(made, f)
    _mark_done(_load(values[0][0])["source"])


def _mark_done(source: str) -> None:
    with files.writing(source + _DONE):
        pass
