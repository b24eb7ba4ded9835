"""Writes records of the original data_utils.py as records of this library.

A row of the original's batches becomes a text stream: its sequences of all files in order, with
`starts_stream` at the first of each file, where the original begins with an empty memory. The
original's masks are not kept: targets are sampled while training; --mask_mode=legacy has its rule.
"""

import dataclasses
import glob
import os
import re

import numpy as np
import repository  # finds the library and recipes

from xlnet.commands import cli
from xlnet.corpus import record_files, sequences
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.record_files import ExampleBytes, Feature
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.settings.fields import required, setting
from xlnet.support import files, system
from xlnet.support.errors import wrong

# record_info-train-0-0.bsz-16.seqlen-512.reuse-256.bi.alpha-6.beta-1.fnp-85.json
NAME = re.compile(
    r"record_info-.+\.bsz-(?P<batch_size>\d+)\.seqlen-(?P<seq_len>\d+)\."
    r"reuse-(?P<reuse_len>\d+)\.(?P<uncased>uncased\.)?(?P<direction>bi|uni)\..*json"
)


@dataclasses.dataclass(frozen=True)
class ImportSettings:
    """import_records.py: from where, to where."""

    input: str = required(
        "directory with record_info-*.json and *.tfrecords of the original"
    )
    spiece_model_file: str = required("their SentencePiece model")
    output: str = required("directory to write, new or empty")
    num_core_per_host: int = setting(
        1,
        "as the records were made: half of the rows of each core are read backward",
        minimum=1,
    )


def main(settings):
    system.import_tensorflow()
    named, arrays, passes = read(settings.input)
    tokenizer = Tokenizer(settings.spiece_model_file, bool(named["uncased"]), False)
    count, rows, seq_len = arrays["input"].shape
    last = arrays["input"][..., -2:]
    ends = (last == [tokenizer.sep_id, tokenizer.cls_id]).all()
    if not ends or arrays["input"].max() >= tokenizer.vocab_size:
        vocabulary = f"the vocabulary of the records in {settings.input}"
        raise wrong("spiece_model_file", settings.spiece_model_file, vocabulary)
    bi_data = named["direction"] == "bi"
    directions = np.zeros(rows, int)
    if bi_data:
        directions = directions_of(rows, settings.num_core_per_host)
    with files.new_directory(settings.output) as directory:
        tokenizer.save(os.path.join(directory, SPIECE_NAME))
        streams = write(directory, arrays, passes, tokenizer, directions)
        Manifest(
            vocab_size=tokenizer.vocab_size,
            sp_model=SPIECE_NAME,
            sp_model_sha256=tokenizer.sha256,
            uncased=tokenizer.uncased,
            keep_accents=False,
            seq_len=seq_len,
            reuse_len=int(named["reuse_len"]),
            bi_data=bi_data,
            num_streams=rows,
            num_passes=1,
            windows_per_stream=count,
            documents=0,
            sentences=0,
            tokens=rows * count * int(named["reuse_len"]),
            unknown=0,
            dropped=0,
            skipped={},
            seed=0,
            made_from={"imported": os.path.abspath(settings.input)},
            streams=tuple(streams),
        ).write(directory)
    print(f"records: {settings.output}, {rows} streams of {count} windows")


def read(directory):
    """The sequences of all files, one batch after the other.

    Returns:
      The settings in the files' names, dict of str; arrays [batches,B,...] by feature; the numbers
      of the batches that begin a file.
    """
    import tensorflow as tf

    named, parts, passes = None, [], [0]
    pattern = os.path.join(glob.escape(directory), "record_info-*.json")
    for info in sorted(glob.glob(pattern)):
        found = NAME.fullmatch(os.path.basename(info))
        if not found or named not in (None, found.groupdict()):
            raise wrong(
                info, "its name", "the same settings in all names, as the original"
            )
        named = found.groupdict()
        seq_len, batch_size = int(named["seq_len"]), int(named["batch_size"])
        layout = [
            Feature("input", (seq_len,), "int"),
            Feature("seg_id", (seq_len,), "int"),
            Feature("is_masked", (seq_len,), "int"),
            Feature("label", (1,), "int"),
        ]
        values = files.read_json(info, "record info")
        names = map(os.path.basename, values["filenames"])
        paths = [os.path.join(directory, name) for name in names]
        serialized = [data.numpy() for data in tf.data.TFRecordDataset(paths)]
        if len(serialized) != values["num_batch"] * batch_size:
            expected = f"{values['num_batch'] * batch_size} windows"
            raise wrong(info, len(serialized), expected)
        part = {}
        for name, value in record_files.parse(layout, serialized).items():
            part[name] = value.numpy().reshape(-1, batch_size, *value.shape[1:])
        parts.append(part)
        passes.append(passes[-1] + values["num_batch"])
    if not parts:
        raise wrong("input", directory, "record_info-*.json")
    arrays = {}
    for name in parts[0]:
        arrays[name] = np.concatenate([part[name] for part in parts])
    return named, arrays, passes[:-1]


def directions_of(rows, cores):
    """int [rows], 1 backward: the second half of the rows of each core."""
    if rows % (2 * cores):
        expected = f"half of a divisor of the {rows} rows"
        raise wrong("num_core_per_host", cores, expected)
    return np.arange(rows) // (rows // (2 * cores)) % 2


def word_starts(rows, direction, tokenizer):
    """The positions at which words begin, in reading order, in sequences [W,Q] of one direction:
    bool [W,Q]."""
    words = []
    for row in rows.astype(np.uint32):
        in_order = row[::-1] if direction else row
        words.append(sequences.read(in_order, direction, tokenizer).words)
    return np.stack(words)


def write(directory, arrays, passes, tokenizer, directions):
    """Writes a file for each row; returns what the manifest has about each.

    directions: of the rows, int [B]. Ours alternate from stream to stream.
    """
    count, rows, seq_len = arrays["input"].shape
    layout = record_files.pretraining_features(seq_len)
    encoder = ExampleBytes(layout, tokenizer.vocab_size - 1)
    streams = []
    # The first forward row, the first backward one, the second forward one, ...
    order = np.arange(rows)
    if directions.any():
        both = np.flatnonzero(directions == 0), np.flatnonzero(directions == 1)
        order = np.stack(both, axis=1).ravel()
    for stream, row in enumerate(order):
        direction, found = int(directions[row]), arrays["input"][:, row]
        words = word_starts(found, direction, tokenizer)
        features = {
            "input": found,
            "seg_id": arrays["seg_id"][:, row],
            "label": arrays["label"][:, row, 0],
            "word_start": words.astype(int),
            "direction": np.full(count, direction),
            "starts_stream": np.isin(np.arange(count), passes).astype(int),
        }
        name = f"stream-{stream:05}-of-{rows:05}.tfrecord"
        path = os.path.join(directory, name)
        with open(path, "wb") as f:
            f.writelines(map(record_files.frame, encoder.encode(features)))
        streams.append(
            {
                "file": name,
                "direction": direction,
                "windows": count,
                "bytes": os.path.getsize(path),
                "sha256": files.sha256(path),
            }
        )
    return streams


if __name__ == "__main__":
    with cli.command(ImportSettings, about=__doc__) as settings:
        main(*settings)
