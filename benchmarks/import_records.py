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
from xlnet.corpus import feature_spec, sequences, tfrecord
from xlnet.corpus.feature_spec import ExampleBytes, Feature
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.settings.fields import required, setting
from xlnet.support import files, quiet
from xlnet.support.errors import UserError

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
    quiet.import_tensorflow()
    named, arrays, passes = read(settings.input)
    tokenizer = Tokenizer(settings.spiece_model_file, bool(named["uncased"]), False)
    if (
        arrays["input"].max() >= tokenizer.vocab_size
        or not (arrays["input"][..., -2:] == [tokenizer.sep_id, tokenizer.cls_id]).all()
    ):
        raise UserError(
            f"{settings.input}: {settings.spiece_model_file} is not the vocabulary of the records"
        )
    bi_data = named["direction"] == "bi"
    with files.new_directory(settings.output) as directory:
        tokenizer.save(os.path.join(directory, SPIECE_NAME))
        streams = list(
            write(
                directory,
                arrays,
                passes,
                tokenizer,
                bi_data
                and directions_of(arrays["input"].shape[1], settings.num_core_per_host),
            )
        )
        count, rows, seq_len = arrays["input"].shape
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
    for info in sorted(
        glob.glob(os.path.join(glob.escape(directory), "record_info-*.json"))
    ):
        found = NAME.fullmatch(os.path.basename(info))
        if not found or named not in (None, found.groupdict()):
            raise UserError(
                f"{info}: expected a name with the settings, the same in all files, like "
                "record_info-train-0-0.bsz-16.seqlen-512.reuse-256.bi.alpha-6.beta-1."
                "fnp-85.json"
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
        paths = [
            os.path.join(directory, os.path.basename(name))
            for name in values["filenames"]
        ]
        serialized = [data.numpy() for data in tf.data.TFRecordDataset(paths)]
        if len(serialized) != values["num_batch"] * batch_size:
            raise UserError(
                "{}: expected {} windows, found {}".format(
                    info, values["num_batch"] * batch_size, len(serialized)
                )
            )
        parts.append(
            {
                name: value.numpy().reshape(-1, batch_size, *value.shape[1:])
                for name, value in feature_spec.parse(layout, serialized).items()
            }
        )
        passes.append(passes[-1] + values["num_batch"])
    if not parts:
        raise UserError(f"input: no record_info-*.json in {directory}")
    return (
        named,
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        passes[:-1],
    )


def directions_of(rows, cores):
    """int [rows], 1 backward: the second half of the rows of each core."""
    if rows % (2 * cores):
        raise UserError(
            f"num_core_per_host is {cores}: bsz is {rows}, expected a multiple of {2 * cores}"
        )
    return np.arange(rows) // (rows // (2 * cores)) % 2


def word_starts(rows, direction, tokenizer):
    """The positions at which words begin, in reading order, in sequences [W,Q] of one direction:
    bool [W,Q]."""
    vocabulary = sequences.Vocabulary.of(tokenizer)
    return np.stack(
        [
            sequences.read(
                (row[::-1] if direction else row).astype(np.uint32),
                direction,
                vocabulary,
            ).words
            for row in rows
        ]
    )


def write(directory, arrays, passes, tokenizer, directions):
    """Writes a file for each row; yields what the manifest has about it.

    directions: of the rows; False: all forward. Ours alternate from stream to stream.
    """
    count, rows, seq_len = arrays["input"].shape
    order = (
        np.arange(rows)
        if directions is False
        else np.stack(
            [np.flatnonzero(directions == each) for each in (0, 1)], axis=1
        ).ravel()
    )
    encoder = ExampleBytes(
        feature_spec.pretraining_features(seq_len), tokenizer.vocab_size - 1
    )
    for stream, row in enumerate(order):
        direction = 0 if directions is False else int(directions[row])
        found = {name: arrays[name][:, row] for name in ("input", "seg_id")}
        records = encoder.encode(
            {
                **found,
                "label": arrays["label"][:, row, 0],
                "word_start": word_starts(found["input"], direction, tokenizer).astype(
                    int
                ),
                "direction": np.full(count, direction),
                "starts_stream": np.isin(np.arange(count), passes).astype(int),
            }
        )
        name = f"stream-{stream:05}-of-{rows:05}.tfrecord"
        path = os.path.join(directory, name)
        with open(path, "wb") as f:
            f.writelines(map(tfrecord.frame, records))
        yield {
            "file": name,
            "direction": direction,
            "windows": count,
            "bytes": os.path.getsize(path),
            "sha256": files.sha256(path),
        }


if __name__ == "__main__":
    cli.run(
        main,
        ImportSettings,
        about=__doc__ or "",
    )
