"""The description of a directory of pretraining records, `manifest.json`."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

from xlnet.support import files
from xlnet.support.errors import wrong

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 4
_REMEDY = "regenerate the records"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Describes a directory of pretraining records: the content of its `manifest.json`.

    Names in the file with `windows` count sequences.
    """

    vocab_size: int
    sp_model: str  # file name of the SentencePiece model, in the same directory
    sp_model_sha256: str
    uncased: bool  # how text was cleaned, as in `tokenizer.preprocess_text`
    keep_accents: bool
    seq_len: int
    reuse_len: int
    bi_data: bool
    num_streams: int
    num_passes: int
    # sequences, in all passes; a stream of merged records may have more
    windows_per_stream: int
    documents: int
    sentences: int
    tokens: int  # corpus tokens, before sequences are cut
    unknown: int  # those of them that are <unk>
    dropped: int  # those that are in no sequence of a pass in one direction
    skipped: dict  # numbers of documents left out, by reason
    seed: int
    # Settings and checksums of the input: xlnet data make keeps records that were made from its own
    made_from: dict
    # In order, dicts of file (relative to the directory), direction (0 forward, 1 backward),
    # windows (sequences), bytes (size of the file) and sha256.
    streams: tuple
    format_version: int = FORMAT_VERSION

    @property
    def digest(self) -> str:
        """SHA-256 of the content of the streams: the same wherever their directory is."""
        digests = [stream["sha256"] for stream in self.streams]
        content = json.dumps([self.windows_per_stream, *digests])
        return hashlib.sha256(content.encode()).hexdigest()

    def write(self, directory: str) -> None:
        """Writes `manifest.json` to the directory of the records."""
        path = os.path.join(directory, MANIFEST_NAME)
        files.write_json(path, dataclasses.asdict(self))

    @classmethod
    def read(cls, directory: str, flag: str = "record_info_dir") -> Manifest:
        """Returns the manifest of `directory`; a UserError if there is none, if it has another form
        than this version writes, or if the files have other sizes.

        flag: the flag whose value is `directory`, for errors.
        """
        path = os.path.join(directory, MANIFEST_NAME)
        files.require_directory(directory, flag)
        if not files.exists(path):
            found = f"no {MANIFEST_NAME} in {directory}"
            raise wrong(flag, found, "records of xlnet data make")
        values = files.read_json(path, "manifest")
        version = values.get("format_version")
        if version != FORMAT_VERSION:
            found = f"format_version {version!r}"
            raise wrong(path, found, str(FORMAT_VERSION), _REMEDY)
        _check_names(path, values, tuple(cls.__dataclass_fields__))
        for stream in values["streams"]:
            _check_names(path, stream, _STREAM_FIELDS)
        manifest = cls(**dict(values, streams=tuple(values["streams"])))
        # The files must have the sizes of the manifest. A folder is listed at once, as remote files
        # are slow to look up one by one.
        stream_paths = manifest.stream_paths(directory)
        sizes: dict[str, int] = {}  # [bytes], by path
        # Merged records have a folder for each task.
        for folder in {os.path.dirname(stream_path) for stream_path in stream_paths}:
            sizes.update(files.matching_sizes(os.path.join(glob.escape(folder), "*")))
        for stream_path, stream in zip(stream_paths, manifest.streams):
            size, expected = sizes.get(stream_path, 0), stream["bytes"]
            if size != expected:
                where = f"{path}: {stream_path}"
                raise wrong(where, f"{size} bytes", str(expected), _REMEDY)
        return manifest

    def verify(self, directory: str) -> None:
        """Raises UserError unless all files in `directory`, the value of the flag `input`, have the
        checksums of the manifest."""
        digests = {self.sp_model: self.sp_model_sha256}  # by file name
        for stream in self.streams:
            digests[stream["file"]] = stream["sha256"]
        for name, digest in digests.items():
            path = os.path.join(directory, name)
            files.require_file(path, "input")
            found = files.sha256(path)
            if found != digest:
                expected = f"{digest}, as in {MANIFEST_NAME}"
                raise wrong(path, f"sha256 {found}", expected, _REMEDY)

    def stream_paths(self, directory: str) -> list[str]:
        """The files of the streams, in order, of records in `directory`."""
        # With one slash behind the directory, as in listings of files. The root is the slash alone.
        directory = directory.rstrip("/") or "/"
        return [os.path.join(directory, stream["file"]) for stream in self.streams]


_STREAM_FIELDS = ("file", "direction", "windows", "bytes", "sha256")


def _check_names(path: str, values: Any, names: Sequence[str]) -> None:
    """Raises UserError unless `values` is an object of these fields."""
    if not isinstance(values, dict) or set(values) != set(names):
        expected = "an object with " + ", ".join(names)
        raise wrong(path, repr(values)[:200], expected, _REMEDY)
