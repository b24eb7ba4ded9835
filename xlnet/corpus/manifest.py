"""The description of a directory of pretraining records, `manifest.json`."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from xlnet.corpus import tfrecord
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 4
_AGAIN = "regenerate the records"
# The types of the fields below in JSON.
_TYPES = {"int": int, "str": str, "bool": bool, "dict": dict, "tuple": list}


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Describes a directory of pretraining records: `manifest.json` in it."""

    vocab_size: int
    sp_model: str  # file name of the SentencePiece model, in the same directory
    sp_model_sha256: str
    uncased: bool  # how text was cleaned, as in `tokenizer.clean_text`
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
        return hashlib.sha256(
            json.dumps(
                [
                    self.windows_per_stream,
                    *(stream["sha256"] for stream in self.streams),
                ]
            ).encode()
        ).hexdigest()

    def write(self, directory: str) -> None:
        """Writes the manifest, a line for each stream: 170 bytes, 11 MB for 65,536 of them."""
        values = dataclasses.asdict(self)
        lines = json.dumps(dict(values, streams=[]), indent=2, ensure_ascii=False)
        streams = ",\n    ".join(json.dumps(stream) for stream in self.streams)
        files.write_text(
            os.path.join(directory, MANIFEST_NAME),
            lines.replace('"streams": []', f'"streams": [\n    {streams}\n  ]') + "\n",
        )

    @classmethod
    def read(cls, directory: str, flag: str = "record_info_dir") -> Manifest:
        """Reads and checks the manifest of `directory`; a UserError if there is none, or it
        contradicts itself or the files. `flag`: what named the directory."""
        path = os.path.join(directory, MANIFEST_NAME)
        if not files.is_remote(directory):
            files.require_directory(directory, flag)
        if not files.exists(path):
            raise UserError(
                f"{flag}: no {MANIFEST_NAME} in {directory}; make the records with xlnet data make"
            )
        # The version, then all fields, then the files.
        values = files.read_json(path, "manifest")
        version = values.get("format_version")
        if version != FORMAT_VERSION:
            raise wrong(
                path, f"format_version {version!r}", f"{FORMAT_VERSION}", _AGAIN
            )
        _check_fields(path, values, _FIELDS)
        for number, stream in enumerate(values["streams"]):
            _check_fields(f"{path}: streams[{number}]", stream, _STREAM_FIELDS)
        manifest = cls(**dict(values, streams=tuple(values["streams"])))
        for name in [
            manifest.sp_model,
            *(stream["file"] for stream in manifest.streams),
        ]:
            files.require_inside(
                os.path.join(directory, name), directory, "the records'"
            )
        manifest._check_sizes(directory, path)
        return manifest

    def _check_sizes(self, directory: str, path: str) -> None:
        """Compares the sizes of all files with a listing: there may be 65,536."""
        directory = directory.rstrip("/") or "/"  # listings have one slash
        found: dict[str, int] = {}
        # Streams of merged tasks are in several folders.
        folders = {os.path.dirname(path) for path in self.stream_paths(directory)}
        for folder in folders:
            found.update(files.match(os.path.join(glob.escape(folder), "*")))
        for file, stream in zip(self.stream_paths(directory), self.streams):
            size = found.get(file, 0)
            if size != stream["bytes"]:
                raise wrong(
                    f"{path}: {file}", f"{size} bytes", f"{stream['bytes']}", _AGAIN
                )

    def verify(self, directory: str, flag: str = "record_info_dir") -> None:
        """Compares all files with their checksums; a UserError names the first damaged record.
        flag: what named the directory."""
        self._compare(directory, flag, self.sp_model, self.sp_model_sha256)
        for stream in self.streams:
            self._compare(directory, flag, stream["file"], stream["sha256"])

    def _compare(self, directory: str, flag: str, name: str, expected: str) -> None:
        """Raises UserError, with the first damaged record, unless a file has this checksum."""
        path = os.path.join(directory, name)
        files.require_file(path, flag)
        found = files.sha256(path)
        if found != expected:
            damaged = None if name == self.sp_model else tfrecord.first_damaged(path)
            where = path if damaged is None else f"{path}: record {damaged} is damaged"
            raise wrong(
                where, f"sha256 {found}", f"{expected}, as in {MANIFEST_NAME}", _AGAIN
            )

    def stream_paths(self, directory: str) -> list[str]:
        return [os.path.join(directory, stream["file"]) for stream in self.streams]


_FIELDS = {each.name: _TYPES[str(each.type)] for each in dataclasses.fields(Manifest)}
_STREAM_FIELDS = {
    "file": str,
    "direction": int,
    "windows": int,
    "bytes": int,
    "sha256": str,
}


def _check_fields(where: str, values: Any, types: Mapping[str, type]) -> None:
    """Raises UserError unless `values` is a dict of these keys and types."""
    if not isinstance(values, dict) or set(values) != set(types):
        raise wrong(
            where, repr(values)[:200], "an object with " + ", ".join(types), _AGAIN
        )
    # Exactly the type: to isinstance, JSON's true is an int.
    for name, kind in types.items():
        if type(values[name]) is not kind:
            raise wrong(
                where, f"{name} {values[name]!r:.80}", f"{kind.__name__}", _AGAIN
            )
