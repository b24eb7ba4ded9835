"""The job of `preparation` as an Apache Beam pipeline, for text that one machine cannot hold.

It makes the same bytes with the same functions, but Beam moves the tokens between machines, and
input and output may be on any of Beam's file systems.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import itertools
import os
import tempfile
import uuid
from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems

from xlnet import files
from xlnet.records.manifest import MANIFEST_NAME
from xlnet.settings.data import CorpusSettings
from xlnet.text import corpus, preparation, record_writer, token_store, windows
from xlnet.tokenization.tokenizer import SPIECE_NAME


def run(settings: CorpusSettings, options: Any = None) -> bool:
    """Makes the records that `settings` describe; waits for the pipeline's end.

    Records to be replaced (`overwrite`) are removed once all text is read, their manifest first.

    Args:
      options: `apache_beam.options.pipeline_options.PipelineOptions`; None runs here.

    Returns:
      False if the records had been made before.

    Raises:
      UserError: as `preparation.make_records`; errors of the workers are the runner's.
    """
    job = preparation.plan_job(settings)
    if preparation.is_finished(job):
        return False
    with beam.Pipeline(options=options) as pipeline:
        text = (pipeline
                | "chunks" >> beam.Create(list(enumerate(job.chunks)))
                | "spread" >> beam.Reshuffle()
                | "tokenize" >> beam.FlatMap(_tokenize, settings).with_outputs(
                    "made", main="tokens"))
        made = text.made | "gather counts" >> beam.combiners.ToList() | beam.Map(_in_order)
        layout = beam.pvalue.AsSingleton(
            made | "plan" >> beam.Map(lambda made: preparation.make_layout(settings, made))
            | "make room" >> beam.Map(_make_room, job))
        (text.tokens
         | "cut" >> beam.FlatMap(_cut_at_blocks, layout)
         | "gather blocks" >> beam.GroupByKey()
         | "arrange" >> beam.FlatMap(_arrange, settings.num_passes, layout)
         | "gather parts" >> beam.GroupByKey()
         | "write streams" >> beam.FlatMap(_write_streams, job, layout)
         | "gather entries" >> beam.combiners.ToList()
         | "write manifest" >> beam.Map(_write_manifest, job, layout,
                                        beam.pvalue.AsSingleton(made)))
    return True


def _in_order(numbered):
    return [value for _, value in sorted(numbered, key=lambda pair: pair[0])]


def _tokenize(numbered_chunk, settings):
    """Yields (chunk, position in it, tokens), and as "made" the chunk's (index, `Made`)."""
    chunk_index, chunk = numbered_chunk
    counts: Counter[str] = collections.Counter()
    place = 0
    for tokens in corpus.tokenize(chunk, settings, preparation.tokenizer_of(settings), counts):
        yield chunk_index, place, tokens
        place += len(tokens)
    made = token_store.Made(dict(counts), token_store.content_of(chunk))
    yield beam.pvalue.TaggedOutput("made", (chunk_index, made))


def _cut_at_blocks(tokens_of_chunk, layout):
    """Yields (block, (position in the text, tokens))."""
    chunk, place, tokens = tokens_of_chunk
    begin = int(layout.chunk_begins[chunk]) + place
    edges = layout.block_begins[layout.block_begins > begin]
    edges = edges[edges < begin + len(tokens)]
    for part in np.split(tokens, edges - begin):
        if len(part):
            yield begin // corpus.BLOCK_TOKENS, (begin, part)
            begin += len(part)


def _arrange(block_and_pieces, num_passes, layout):
    """Yields (part, (pass, position in the part, tokens)) for all parts that read a block."""
    block, pieces = block_and_pieces
    tokens = np.concatenate([part for _, part in sorted(pieces, key=lambda piece: piece[0])])
    size = layout.plan.part_len
    for pass_index in range(num_passes):
        arranged = layout.arrange(pass_index, block, tokens)
        begin = int(layout.order(pass_index)[1][block])
        end = min(begin + len(tokens), size * layout.plan.parts)
        for part in range(begin // size, -(-end // size)):
            low, high = max(begin, part * size), min(end, (part + 1) * size)
            yield part, (pass_index, low - part * size, arranged[low - begin:high - begin])


def _make_room(layout, job):
    """Removes manifests of the streams that are written next, and streams that those do not
    replace; returns the layout, which the writers wait for."""
    names = {preparation.stream_name(stream, layout.plan.num_streams)
             for stream in range(layout.plan.num_streams)}
    others = files.match(FileSystems.join(glob.escape(job.directory), preparation.STREAMS + "*"))
    for path in preparation.vouching(job) + [
            path for path in others if os.path.basename(path) not in names]:
        if FileSystems.exists(path):
            FileSystems.delete([path])
    return layout


def _write_streams(part_and_pieces, job, layout):
    """Writes the streams of a part; yields their entries in the manifest."""
    part, pieces = part_and_pieces
    pieces = sorted(pieces, key=lambda piece: piece[:2])
    texts = [np.concatenate([tokens for _, _, tokens in group])
             for _, group in itertools.groupby(pieces, key=lambda piece: piece[0])]
    vocabulary = windows.Vocabulary.of(preparation.tokenizer_of(job.settings))
    for stream in range(layout.plan.num_streams):
        if layout.plan.part(stream) == part:
            batches = record_writer.stream_records(
                job.settings, vocabulary, layout.plan, stream,
                lambda pass_index: lambda low, high: texts[pass_index][low:high])
            name = preparation.stream_name(stream, layout.plan.num_streams)
            with _replacing(FileSystems.join(job.directory, name)) as f:
                yield preparation.stream_entry(layout.plan, stream, f, batches)


def _write_manifest(entries, job, layout, made):
    """Writes the SentencePiece model and, last, the manifest."""
    manifest = preparation.make_manifest(job, layout.plan, made,
                                         sorted(entries, key=lambda entry: entry["file"]))
    with tempfile.TemporaryDirectory() as folder:
        preparation.tokenizer_of(job.settings).save(os.path.join(folder, SPIECE_NAME))
        manifest.write(folder)
        for name in sorted(os.listdir(folder), key=lambda name: name == MANIFEST_NAME):
            with open(os.path.join(folder, name), "rb") as source, \
                    _replacing(FileSystems.join(job.directory, name)) as f:
                f.write(source.read())


@contextlib.contextmanager
def _replacing(path):
    """A file of Beam's file systems that has its name only once it is complete."""
    temporary = "%s.partial-%s" % (path, uuid.uuid4().hex)
    folder = os.path.dirname(path)
    if not FileSystems.exists(folder):
        FileSystems.mkdirs(folder)
    with FileSystems.create(temporary) as f:
        yield f
    FileSystems.rename([temporary], [path])
