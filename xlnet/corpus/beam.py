"""The job of `preparation` as an Apache Beam pipeline, for text that one machine cannot hold.

    files -> checksums -> GroupByKey -> chunks -> tokens in files -> GroupByKey -> plan
          -> streams in files -> GroupByKey -> manifest

Text, tokens and records are files that all workers reach; the runner itself moves no text, only
ranges and counts. So no key holds more than some hundred bytes for each file, chunk or stream, a
worker needs no more memory than a process of data_utils.py, and finished tokens are kept if the
pipeline fails. Beam's features are those that all runners have: a chain of Create, ParDo and
GroupByKey, without side inputs and outputs by tag.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from xlnet.corpus import preparation, reading, tokenized
from xlnet.corpus.manifest import MANIFEST_NAME
from xlnet.corpus.preparation import RecordsJob
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.settings.data import CorpusSettings
from xlnet.support import files
from xlnet.support.errors import UserError

_LEAST_BYTES = 1 << 25  # of text in an element, unless there is little
_FEWEST, _MOST = 16, 1024  # elements of text, and of streams
_RESUME = "finished work is kept: run the same command again to resume"


def run(settings: CorpusSettings, options: Any = None) -> bool:
    """Makes the records that `settings` describe, and waits for the pipeline's end.

    Args:
      settings: of the records.
      options: Beam's `PipelineOptions`; None runs here.

    Returns:
      False if the records had been made before.
    """
    settings = settings.resolved()
    if settings.num_task > 1:
        raise UserError(
            f"num_task is {settings.num_task}: Beam divides the text among its workers; leave it 1"
        )
    # This process lists the files and reads none of them.
    paths, sizes = preparation.list_input(settings)
    if not sum(sizes):
        raise preparation.no_text(settings, {})
    job = RecordsJob(settings, Tokenizer(settings.sp_path), {}, ())
    folder = preparation.unfinished_folder(settings.save_dir)
    with preparation.exclusive(job):
        values = {
            "settings": dataclasses.asdict(settings),
            "paths": paths,
            "sizes": sizes,
        }
        _write(folder, "input", values)
        done = os.path.join(folder, "done.json")
        files.remove([done])
        count = max(_FEWEST, min(_MOST, sum(sizes) // _LEAST_BYTES))
        try:
            with beam.Pipeline(options=options) as pipeline:
                _ = (
                    pipeline
                    | "files" >> beam.Create(range(len(paths)))
                    | "checksums" >> beam.Map(_checksum, folder)
                    | "gather files" >> beam.GroupByKey()
                    | "compare" >> beam.FlatMap(_begin, folder, count)
                    | "spread chunks" >> beam.GroupByKey()
                    | "tokenize" >> beam.FlatMap(_tokenize, folder)
                    | "gather chunks" >> beam.GroupByKey()
                    | "plan" >> beam.FlatMap(_plan, folder)
                    | "spread streams" >> beam.GroupByKey()
                    | "write streams" >> beam.FlatMap(_write_streams, folder)
                    | "gather streams" >> beam.GroupByKey()
                    | "write manifest" >> beam.Map(_write_manifest, folder)
                )
        except Exception as e:
            raise _in_one_line(e) from e
        # A runner that loses its cluster may end without an error, as Dask's does. So the last step
        # leaves a file.
        if not files.exists(done):
            raise UserError(
                "the pipeline ended before its last step, perhaps as its cluster ended; "
                + _RESUME
            )
        is_made = _read(folder, "done")["is_made"]
        if files.is_remote(folder):
            files.remove(files.match(folder + "/**"))
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return is_made


def _in_one_line(error: Exception) -> UserError:
    """The `UserError` of a failed pipeline: that of a worker, or what the runner says."""
    text = re.sub(r" \[while running .*", "", str(error)).strip()  # Beam adds the step
    said = re.search(r"UserError: (.+)", text)
    if isinstance(error, UserError) or said:
        return UserError(said[1] if said else text)
    reason = (text or "no reason").splitlines()[0]
    return UserError(
        f"the pipeline failed: {type(error).__name__}: {reason}; {_RESUME}"
    )


# Files that the steps share, in the folder of unfinished work, so that the runner need not move
# their content.


def _write(folder: str, name: str, values: dict[str, Any]) -> None:
    with files.writing(os.path.join(folder, name + ".json")) as f:
        f.write(json.dumps(values).encode("utf-8"))


def _read(folder: str, name: str) -> dict[str, Any]:
    try:
        return files.read_json(os.path.join(folder, name + ".json"), "save_dir")
    except UserError as e:
        raise UserError(f"{e}; all workers must reach save_dir by this name") from None


def _read_job(folder: str) -> RecordsJob:
    """The job, once the checksums of the text are known."""
    values = _read(folder, "input")
    settings = CorpusSettings(**values["settings"])
    tokenizer = Tokenizer(settings.sp_path, settings.uncased, settings.keep_accents)
    texts = dict(zip(values["paths"], _read(folder, "checksums")["sha256"]))
    chunks = reading.cut(values["paths"], values["sizes"])
    return RecordsJob(settings, tokenizer, texts, chunks)


def _read_plan(
    folder: str, job: RecordsJob
) -> tuple[tokenized.TokenLayout, Counter[str]]:
    plan = _read(folder, "plan")
    counts = Counter(plan["counts"])
    return preparation.make_layout(job.settings, plan["tokens"], counts), counts


def _ranges(size: int, most: int) -> Iterator[tuple[int, range]]:
    """Yields at most `most` ranges of `size` elements, each with a key of its own."""
    count = min(size, most)
    for key in range(count):
        yield key, range(size * key // count, size * (key + 1) // count)


# The steps. A step gets (key, values) from a GroupByKey; a key of 0 gathers all in one worker.


def _checksum(index: int, folder: str) -> tuple[int, tuple]:
    return 0, (index, preparation.checksum(_read(folder, "input")["paths"], index))


def _begin(
    keyed: tuple[int, Iterable[tuple]], folder: str, count: int
) -> Iterator[tuple[int, range]]:
    """Yields ranges of chunks; none if the records are there."""
    _write(folder, "checksums", {"sha256": [digest for _, digest in sorted(keyed[1])]})
    job = _read_job(folder)
    if preparation.is_finished(job):
        _write(folder, "done", {"is_made": False})
    else:
        yield from _ranges(len(job.chunks), count)


def _tokenize(
    keyed: tuple[int, Iterable[range]], folder: str
) -> Iterator[tuple[int, tuple]]:
    """Makes the tokens of a range of chunks; yields key 0 and (first chunk, counts of each)."""
    job = _read_job(folder)
    for chunks in keyed[1]:
        made = [preparation.tokenize_chunk(job, index) for index in chunks]
        yield 0, (chunks.start, made)


def _plan(
    keyed: tuple[int, Iterable[tuple]], folder: str
) -> Iterator[tuple[int, range]]:
    """Writes the plan, and makes room for the streams; yields ranges of streams."""
    job = _read_job(folder)
    sizes = []
    counts: Counter[str] = Counter()
    for _, made in sorted(keyed[1], key=lambda value: value[0]):
        for each in made:
            sizes.append(each.get("tokens", 0))
            counts.update(each)
    plan = preparation.make_layout(job.settings, sizes, counts).plan
    _write(folder, "plan", {"tokens": sizes, "counts": counts})
    streams = range(plan.num_streams)
    preparation.clear(
        job, [preparation.stream_name(each, plan.num_streams) for each in streams]
    )
    yield from _ranges(plan.num_streams, _MOST)


def _write_streams(
    keyed: tuple[int, Iterable[range]], folder: str
) -> Iterator[tuple[int, list]]:
    """Writes a range of streams under their final names, as object stores cannot rename; yields key
    0 and their entries in the manifest."""
    job = _read_job(folder)
    layout, _ = _read_plan(folder, job)
    write = functools.partial(preparation.write_stream, job, layout, job.directory)
    for streams in keyed[1]:
        yield 0, [write(stream) for stream in streams]


def _write_manifest(keyed: tuple[int, Iterable[list]], folder: str) -> None:
    """Writes the SentencePiece model and, last, the manifest."""
    job = _read_job(folder)
    layout, counts = _read_plan(folder, job)
    entries = sorted(
        (entry for part in keyed[1] for entry in part), key=lambda each: each["file"]
    )
    manifest = preparation.make_manifest(job, layout.plan, counts, entries)
    # Of killed workers.
    files.remove(files.match(os.path.join(job.directory, "*.partial-*")))
    with tempfile.TemporaryDirectory() as local:
        job.tokenizer.save(os.path.join(local, SPIECE_NAME))
        manifest.write(local)
        for name in sorted(os.listdir(local), key=lambda name: name == MANIFEST_NAME):
            with (
                open(os.path.join(local, name), "rb") as made,
                files.writing(os.path.join(job.directory, name)) as f,
            ):
                shutil.copyfileobj(made, f)
    _write(folder, "done", {"is_made": True})
