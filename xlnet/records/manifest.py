"""What a directory of pretraining records is: `manifest.json`, read and checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from xlnet import files
from xlnet.errors import UserError

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 3      # 2: punctuation belonged to the word before it
READABLE_VERSIONS = (2, FORMAT_VERSION)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a directory of pretraining records is; `manifest.json` beside the record files.

    `streams` lists, in order, dicts of `file`, `direction`, `windows`, `bytes`, `sha256`. All
    streams have `windows_per_stream` windows.
    """
    vocab_size: int
    sp_model: str                # file name of the SentencePiece model, in the same directory
    sp_model_sha256: str
    uncased: bool                # how text was cleaned, as in `tokenization.clean_text`
    keep_accents: bool
    seq_len: int
    reuse_len: int
    bi_data: bool
    num_streams: int
    num_passes: int
    windows_per_stream: int
    documents: int
    sentences: int
    tokens: int                  # corpus tokens, before windows are cut
    unknown: int                 # those of them that are <unk>
    dropped: int                 # those that are in no window of a pass
    skipped: dict                # lines left out, by reason
    seed: int
    made_from: dict              # settings and input, as data_utils.py compares them
    streams: tuple
    format_version: int = FORMAT_VERSION

    def write(self, directory: str) -> None:
        files.write_json(os.path.join(directory, MANIFEST_NAME), dataclasses.asdict(self))

    @classmethod
    def read(cls, directory: str) -> Manifest:
        """Reads and checks the manifest of `directory`: version, fields, sizes of the files."""
        path = os.path.join(directory, MANIFEST_NAME)
        if not os.path.exists(path):
            raise UserError("record_info_dir: no %s in %s, nor the reference's record_info-*.json; "
                            "make the records with data_utils.py" % (MANIFEST_NAME, directory))
        values = files.read_json(path, "manifest")
        if values.get("format_version") not in READABLE_VERSIONS:
            raise UserError("%s: format_version is %r, this program reads %s; regenerate the "
                            "records" % (path, values.get("format_version"),
                                         " and ".join(map(str, READABLE_VERSIONS))))
        names = {field.name for field in dataclasses.fields(cls)}
        if set(values) != names:
            raise UserError("%s: missing fields %s, unexpected fields %s" % (
                path, sorted(names - set(values)), sorted(set(values) - names)))
        for stream in values["streams"]:
            file = os.path.join(directory, stream["file"])
            size = os.path.getsize(file) if os.path.exists(file) else None
            if size != stream["bytes"]:
                raise UserError("%s: %s has %s bytes, expected %d; regenerate the records" % (
                    path, stream["file"], "no" if size is None else size, stream["bytes"]))
        return cls(**dict(values, streams=tuple(values["streams"]),
                          made_from=in_todays_units(values["made_from"])))

    def stream_paths(self, directory: str) -> list[str]:
        return [os.path.join(directory, stream["file"]) for stream in self.streams]


def in_todays_units(made_from: Mapping[str, Any]) -> dict[str, Any]:
    """`made_from` of records of whose settings the held-out share was still a percentage, too."""
    values = dict(made_from)
    if "heldout_percent" in values:
        values["heldout_share"] = values.pop("heldout_percent") / 100
    return values
