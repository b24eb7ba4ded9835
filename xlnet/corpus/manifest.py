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
_AGAIN = "regenerate the records"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Describes a directory of pretraining records: `manifest.json` in it."""

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
    windows_per_stream: (
        int  # sequences, in all passes; a stream of merged records may have more
    )
    documents: int
    sentences: int
    tokens: int  # corpus tokens, before sequences are cut
    unknown: int  # those of them that are <unk>
    dropped: int  # those that are in no sequence of a pass
    skipped: dict  # documents left out, by reason
    seed: int
    made_from: dict  # settings and input, which xlnet data make compares
    streams: tuple  # in order, dicts of `_STREAM_FIELDS`
    format_version: int = FORMAT_VERSION

    @property
    def digest(self) -> str:
        """Of the streams: the same wherever their directory is."""
        digests = [stream["sha256"] for stream in self.streams]
        content = json.dumps([self.windows_per_stream, *digests])
        return hashlib.sha256(content.encode()).hexdigest()

    def write(self, directory: str) -> None:
        """Writes `manifest.json` to the directory of the records."""
        path = os.path.join(directory, MANIFEST_NAME)
        files.write_json(path, dataclasses.asdict(self))

    @classmethod
    def read(cls, directory: str, flag: str = "record_info_dir") -> Manifest:
        """Reads and checks the manifest of `directory`; a UserError if there is none, or it
        contradicts itself or the files. `flag`: what named the directory."""
        path = os.path.join(directory, MANIFEST_NAME)
        files.require_directory(directory, flag)
        if not files.exists(path):
            found = f"no {MANIFEST_NAME} in {directory}"
            raise wrong(flag, found, "records of xlnet data make")
        values = files.read_json(path, "manifest")
        version = values.get("format_version")
        if version != FORMAT_VERSION:
            found = f"format_version {version!r}"
            raise wrong(path, found, str(FORMAT_VERSION), _AGAIN)
        _check_names(path, values, tuple(cls.__dataclass_fields__))
        for stream in values["streams"]:
            _check_names(path, stream, _STREAM_FIELDS)
        manifest = cls(**dict(values, streams=tuple(values["streams"])))
        # The files must have the sizes of the manifest.
        paths = manifest.stream_paths(directory)
        sizes: dict[str, int] = {}
        folders = {os.path.dirname(each) for each in paths}  # merged tasks have several
        for folder in folders:
            sizes.update(files.matching_sizes(os.path.join(glob.escape(folder), "*")))
        for each, stream in zip(paths, manifest.streams):
            size, expected = sizes.get(each, 0), stream["bytes"]
            if size != expected:
                raise wrong(f"{path}: {each}", f"{size} bytes", str(expected), _AGAIN)
        return manifest

    def verify(self, directory: str, flag: str = "record_info_dir") -> None:
        """Compares all files with their checksums; `flag`: what named the directory."""
        digests = {self.sp_model: self.sp_model_sha256}
        for stream in self.streams:
            digests[stream["file"]] = stream["sha256"]
        for name, digest in digests.items():
            path = os.path.join(directory, name)
            files.require_file(path, flag)
            found = files.sha256(path)
            if found != digest:
                expected = f"{digest}, as in {MANIFEST_NAME}"
                raise wrong(path, f"sha256 {found}", expected, _AGAIN)

    def stream_paths(self, directory: str) -> list[str]:
        """The files of the streams, in order, of records in `directory`."""
        directory = directory.rstrip("/") or "/"  # listings have one slash
        return [os.path.join(directory, stream["file"]) for stream in self.streams]


_STREAM_FIELDS = ("file", "direction", "windows", "bytes", "sha256")


def _check_names(path: str, values: Any, names: Sequence[str]) -> None:
    """Raises UserError unless `values` is an object of these fields."""
    if not isinstance(values, dict) or set(values) != set(names):
        expected = "an object with " + ", ".join(names)
        raise wrong(path, repr(values)[:200], expected, _AGAIN)
