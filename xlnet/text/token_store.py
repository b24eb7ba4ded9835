"""Tokenized chunks on disk: kept when a job fails, and used by later jobs that need the same ones.

A chunk's tokens are a file of uint32 (see `windows`); a second file, written last, describes them.
Their name is a hash of all that they depend on except for the text: the settings, the vocabulary,
the chunk. Whether the text is still the same is decided by checksums of its bytes, not by times or
sizes of files. The tokens have a checksum, too, against damage on the disk.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings, InputSettings
from xlnet.text import corpus, parquet, reading
from xlnet.text.reading import Chunk
from xlnet.text.recognition import PARQUET
from xlnet.tokenization.tokenizer import Tokenizer

RULES = 3  # version of the rules that find sentences
_MARKS = 2  # version of the rules that mark where documents begin at the edges of chunks
_SETTINGS = [
    field.name for field in dataclasses.fields(InputSettings) if field.name != "input_glob"
] + ["from_raw_text", "use_eod"]
_BLOCK = 1 << 20  # [bytes]


@dataclasses.dataclass(frozen=True)
class Made:
    """A chunk whose tokens have been made."""

    counts: dict[str, int]  # `corpus.COUNTS`, and the lines that were left out by their reasons
    content: str  # checksum of the chunk's bytes

    @property
    def tokens(self) -> int:
        return self.counts.get("tokens", 0)


class TokenStore:
    """The tokens of chunks in a directory that any number of processes and jobs may share."""

    def __init__(self, directory: str, settings: CorpusSettings, tokenizer: Tokenizer) -> None:
        self._directory = directory
        self._settings = settings
        self._tokenizer = tokenizer
        self._depends_on = repr(
            (
                (RULES, _MARKS),
                tokenizer.sha256,
                tokenizer.uncased,
                tokenizer.keep_accents,
                [(name, getattr(settings, name)) for name in _SETTINGS],
            )
        )

    def tokenize(self, chunk: Chunk) -> Made:
        """Makes the tokens of a chunk unless they exist; raises as `corpus.tokenize` does."""
        return self._find(chunk) or self._make(chunk)

    def _find(self, chunk: Chunk) -> Optional[Made]:
        """The `Made` of existing tokens; None if there are none, of another text, or damaged."""
        path = self._path(chunk)
        if not files.exists(path) or not files.exists(path + ".json"):
            return None
        try:
            found = files.read_json(path + ".json", "tokens")
            # The text of the chunk, the text that its reader saw around it, and the stored tokens
            # must all be as they were.
            seen = reading.SeenBytes(**found["seen"])
            is_same = (
                content_of(chunk) == found["content"]
                and _text_around(chunk, seen) == found["around"]
                and _checksum(path, [(0, files.size(path))]) == found["tokens"]
            )
            return Made(found["counts"], found["content"]) if is_same else None
        except (UserError, OSError, KeyError, TypeError):
            return None

    def _make(self, chunk: Chunk) -> Made:
        counts: Counter[str] = collections.Counter()
        seen = reading.SeenBytes(chunk.begin, chunk.end)
        path = self._path(chunk)
        # The description is removed before the tokens are written and written after them, so that
        # it never describes other tokens.
        files.remove([path + ".json"])
        digest = hashlib.blake2b(digest_size=16)
        with files.writing(path, is_lasting=False) as f:
            for tokens in corpus.tokenize(chunk, self._settings, self._tokenizer, counts, seen):
                content = tokens.astype("<u4", copy=False).tobytes()
                digest.update(content)
                f.write(content)
        made = Made(dict(counts), content_of(chunk))
        with files.writing(path + ".json", is_lasting=False) as f:
            f.write(
                json.dumps(
                    dict(
                        dataclasses.asdict(made),
                        seen=dataclasses.asdict(seen),
                        around=_text_around(chunk, seen),
                        tokens=digest.hexdigest(),
                    )
                ).encode("utf-8")
            )
        return made

    def read(self, chunk: Chunk, begin: int, end: int) -> np.ndarray:
        """Tokens [begin, end) of a chunk, uint32."""
        path = self._path(chunk)
        with reading.naming(path), files.open_binary(path) as f:
            f.seek(4 * begin)
            return np.frombuffer(f.read(4 * (end - begin)), "<u4")

    def _path(self, chunk: Chunk) -> str:
        # Links are resolved, so that a file has the same tokens by every name.
        path = chunk.path if files.is_remote(chunk.path) else os.path.realpath(chunk.path)
        where = repr((self._depends_on, path, *chunk[1:]))
        return os.path.join(self._directory, hashlib.sha256(where.encode("utf-8")).hexdigest()[:32])


def content_of(chunk: Chunk) -> str:
    """The checksum of a chunk's bytes; of Parquet together with the footer, which says what the
    bytes mean."""
    with reading.naming(chunk.path):
        more = [parquet.footer(chunk.path)] if chunk.form.kind == PARQUET else []
    return _checksum(chunk.path, [(chunk.begin, chunk.end), *more])


def content_of_all(made: Iterable[str]) -> str:
    """The checksum of a text from those of its chunks."""
    return hashlib.sha256(json.dumps(list(made)).encode("utf-8")).hexdigest()[:32]


def _text_around(chunk: Chunk, seen: reading.SeenBytes) -> str:
    """The checksum of what a reader has seen around the chunk, including the file's end."""
    with reading.naming(chunk.path):
        size: Any = files.size(chunk.path) if seen.end else None
    return _checksum(chunk.path, [(seen.low, chunk.begin), (chunk.end, seen.high)], repr(size))


def _checksum(path: str, ranges: Iterable[tuple[int, int]], more: str = "") -> str:
    """The checksum of the bytes [begin, end) of a file, and of `more`."""
    digest = hashlib.blake2b(more.encode("utf-8"), digest_size=16)
    with reading.naming(path), files.open_binary(path) as f:
        for begin, end in ranges:
            f.seek(begin)
            while begin < end:
                block = f.read(min(_BLOCK, end - begin))
                digest.update(block or b"cut off")
                begin += len(block) or end - begin
    return digest.hexdigest()
