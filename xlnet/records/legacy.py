"""Pretraining records that the data_utils.py of the original implementation made.

A file has batches of B windows, one after another; row b of a batch continues row b of the one
before. Masks are part of the records. The settings are in the name of `record_info-*.json`.

Shape letters: B rows of a batch in the files, Q window length.
"""

from __future__ import annotations

import array
import dataclasses
import glob
import hashlib
import os
import re
import struct
from typing import Optional

import numpy as np
from google.protobuf.message import DecodeError

from xlnet import files
from xlnet.errors import UserError
from xlnet.records import tfrecord
from xlnet.records.feature_spec import Feature
from xlnet.tokenization.tokenizer import Tokenizer

_PATTERN = "record_info-*.json"
_NAME = re.compile(
    r"record_info-(?P<split>.+)-\d+-\d+\.bsz-(?P<batch_size>\d+)\.seqlen-(?P<seq_len>\d+)\."
    r"reuse-(?P<reuse_len>\d+)\.(?P<uncased>uncased\.)?(?P<direction>bi|uni)\.alpha-[^.]+\."
    r"beta-[^.]+\.(?:fnp-(?P<num_predict>\d+)\.)?json")


def features(seq_len: int) -> tuple[Feature, ...]:
    """Layout of one window of `seq_len` = Q tokens; `target`, the next tokens, is not read."""
    return (
        Feature("input", (seq_len,), "int"),
        Feature("seg_id", (seq_len,), "int"),
        Feature("is_masked", (seq_len,), "int"),     # 1: predicted, unless it is <sep> or <cls>
        Feature("label", (1,), "int"),               # 1: B continues A
    )


def is_in(directory: str) -> bool:
    """Whether a directory has records of the original implementation."""
    return bool(glob.glob(os.path.join(glob.escape(directory), _PATTERN)))


@dataclasses.dataclass(frozen=True)
class LegacyManifest:
    """Describes a directory of such records, as `Manifest` does ours.

    A stream is a row of a file, so that all files one after the other have `num_streams` = B rows
    of `windows_per_stream` windows.
    """
    vocab_size: int
    sp_model: str                # absolute path
    sp_model_sha256: str
    uncased: bool
    keep_accents: bool
    seq_len: int
    reuse_len: int
    bi_data: bool
    num_streams: int
    windows_per_stream: int
    num_predict: int             # masked tokens of a window; 0: not the same in all of them
    cores: int                   # the rows belong to so many cores, each with both directions
    files: tuple                 # of (path, int64: where its batches begin, and its end)

    @property
    def tokens(self) -> int:
        """Tokens of the text that the windows move over."""
        return self.num_streams * self.windows_per_stream * self.reuse_len

    @property
    def digest(self) -> str:
        """Of the sizes of all batches, which are hardly the same for other text."""
        return hashlib.sha256(b"".join(
            places.tobytes() for _, places in self.files)).hexdigest()

    @property
    def directions(self) -> np.ndarray:
        """int32 [B]: 1 for backward rows, the second half of each core's."""
        rows = np.arange(self.num_streams)
        half = self.num_streams // (2 * self.cores)
        return (rows // half % 2 if self.bi_data else np.zeros_like(rows)).astype(np.int32)

    @classmethod
    def read(cls, directory: str, spiece_model_file: Optional[str]) -> LegacyManifest:
        """Reads and checks the records in `directory`.

        Args:
          spiece_model_file: their SentencePiece model; None: the one named in corpus_info.json, one
            folder up.

        Raises:
          UserError: files are missing, cut off, or of different settings; no vocabulary, or one
            that does not fit.
        """
        infos = sorted(glob.glob(os.path.join(glob.escape(directory), _PATTERN)))
        named = _common_settings(infos)
        batch_size, seq_len = int(named["batch_size"]), int(named["seq_len"])
        corpus = _corpus_info(directory)
        tokenizer = Tokenizer(_vocabulary(directory, spiece_model_file, corpus),
                              bool(named["uncased"]), False)
        found = tuple(item for info in infos for item in _record_files(info, batch_size))
        if not found:
            raise UserError("%s: its files have no windows" % infos[0])
        bi_data, cores = named["direction"] == "bi", corpus.get("num_core_per_host", 1)
        if bi_data and batch_size % (2 * cores):
            raise UserError("%s: bsz is %d, expected a multiple of %d for both directions"
                            % (infos[0], batch_size, 2 * cores))
        for path, places in found:
            _check_first(path, places, seq_len, tokenizer)
        return cls(
            vocab_size=tokenizer.vocab_size, sp_model=os.path.abspath(tokenizer.path),
            sp_model_sha256=tokenizer.sha256, uncased=tokenizer.uncased,
            keep_accents=tokenizer.keep_accents, seq_len=seq_len,
            reuse_len=int(named["reuse_len"]), bi_data=bi_data, num_streams=batch_size,
            windows_per_stream=sum(len(places) - 1 for _, places in found),
            num_predict=int(named["num_predict"] or 0), cores=cores, files=found)

    def check_targets(self, num_predict: int) -> None:
        """Raises UserError if windows are known to have more masked tokens than `num_predict`."""
        if self.num_predict > num_predict:
            raise UserError("num_predict is %d, expected at least %d, which the records in %s mask "
                            "in a window" % (num_predict, self.num_predict,
                                             os.path.dirname(self.files[0][0])))


def _common_settings(infos):
    """The settings in the files' names, a dict of str; all files must have the same ones."""
    found = []
    for path in infos:
        match = _NAME.fullmatch(os.path.basename(path))
        if not match:
            raise UserError("%s: expected a name like record_info-train-0-0.bsz-16.seqlen-512."
                            "reuse-256.bi.alpha-6.beta-1.fnp-85.json" % path)
        found.append(match.groupdict())
        if found[-1] != found[0]:
            raise UserError("%s has records of other settings than %s; give each a directory"
                            % (path, infos[0]))
    return found[0]


def _corpus_info(directory):
    path = os.path.join(os.path.dirname(os.path.abspath(directory)), "corpus_info.json")
    return files.read_json(path, "corpus info") if os.path.exists(path) else {}


def _vocabulary(directory, spiece_model_file, corpus):
    """The path of the SentencePiece model."""
    path = spiece_model_file or corpus.get("sp_path")
    if not path or not (spiece_model_file or os.path.exists(path)):
        raise UserError("spiece_model_file: give the SentencePiece model of the records in %s%s" % (
            directory, ", no such file: " + path if path else ""))
    return path


def _record_files(info, batch_size):
    """`(path, places)` of each file that a record_info names, once the counts agree with it."""
    values = files.read_json(info, "record info")
    names = values.get("filenames")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names) \
            or type(values.get("num_batch")) is not int:
        raise UserError("%s: expected filenames, a list of names, and num_batch, a number" % info)
    found = []
    for name in names:
        path = os.path.join(os.path.dirname(info), os.path.basename(name))
        files.require_file(path, info)
        found.append((path, *batch_places(path, batch_size)))
    if sum(count for *_, count in found) != values["num_batch"] * batch_size \
            or any(count % batch_size for *_, count in found):
        raise UserError("%s: num_batch is %d, expected %d windows, found %s in %s" % (
            info, values["num_batch"], values["num_batch"] * batch_size,
            " + ".join(str(count) for *_, count in found),
            ", ".join(os.path.basename(path) for path, *_ in found)))
    return [(path, places) for path, places, count in found if count]


def batch_places(path: str, batch_size: int) -> tuple[np.ndarray, int]:
    """Where batches begin in a TFRecord file, from the lengths in the records' headers.

    Returns:
      int64 [batches+1], the file's end the last, and the number of records.

    Raises:
      UserError: the file ends inside of a record.
    """
    places = array.array("q")
    count, place, size = 0, 0, os.path.getsize(path)
    with open(path, "rb") as f:
        while place < size:
            if count % batch_size == 0:
                places.append(place)
            f.seek(place)
            header = f.read(8)
            place += 16 + (struct.unpack("<Q", header)[0] if len(header) == 8 else 0)
            if len(header) < 8 or place > size:
                raise UserError("%s: cut off in record %d" % (path, count))
            count += 1
    return np.array([*places, size], np.int64), count


def _check_first(path, places, seq_len, tokenizer):
    """Checks the features of a file's first window, and that its ids fit the vocabulary."""
    import tensorflow as tf
    try:
        found = tf.train.Example.FromString(
            tfrecord.read_piece(path, places, 0)[0]).features.feature
    except DecodeError:
        raise UserError("%s: record 0 is not a tf.train.Example" % path) from None
    for name, (length,), _ in features(seq_len):
        values = found[name].int64_list.value if name in found else None
        if values is None or len(values) != length:
            raise UserError("%s: feature %s has %s integers, expected %d" % (
                path, name, "no" if values is None else len(values), length))
    ids = list(found["input"].int64_list.value)
    if ids[-2:] != [tokenizer.sep_id, tokenizer.cls_id] or max(ids) >= tokenizer.vocab_size:
        raise UserError("%s: record 0 ends with the ids %s and has ids to %d; %s has %d pieces, "
                        "with %s for <sep> <cls>" % (path, ids[-2:], max(ids), tokenizer.path,
                                                     tokenizer.vocab_size,
                                                     [tokenizer.sep_id, tokenizer.cls_id]))
