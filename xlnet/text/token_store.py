"""Tokenized chunks on disk: kept when a job fails, used again by whoever needs the same ones.

A chunk's tokens are a file, uint32, which say in their upper bits where sentences and documents
begin (see `windows`). Beside it, written last, stands a file of what is known of them. Their name
stands for all that they depend on but the text: the settings, the vocabulary, the chunk. Whether
the text is still the one that they were made from, its bytes tell, and nothing else: neither the
time of a file nor its size. The tokens have a checksum of their own, so that what a disk made of
them since is seen.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings, InputSettings
from xlnet.text import corpus, reading
from xlnet.text.reading import Chunk
from xlnet.tokenization.tokenizer import Tokenizer

_RULES = 3                   # of making tokens from text; other ones need other tokens
_SETTINGS = [field.name for field in dataclasses.fields(InputSettings)
             if field.name != "input_glob"] + ["from_raw_text", "use_eod"]
_BLOCK = 1 << 20             # [bytes]


@dataclasses.dataclass(frozen=True)
class Made:
    """What is known of a chunk whose tokens have been made.

    `counts`: `corpus.COUNTS`, and what was left out by its reason. `content`: checksum of the
    chunk's bytes.
    """
    counts: dict[str, int]
    content: str

    @property
    def tokens(self) -> int:
        return self.counts.get("tokens", 0)


class TokenStore:
    """The tokens of chunks in a directory, by settings and vocabulary.

    Any number of processes and jobs may share it.
    """

    def __init__(self, directory: str, settings: CorpusSettings, tokenizer: Tokenizer) -> None:
        self._directory = directory
        self._settings = settings
        self._tokenizer = tokenizer
        self._depends_on = repr((
            _RULES, tokenizer.sha256, tokenizer.uncased, tokenizer.keep_accents,
            [(name, getattr(settings, name)) for name in _SETTINGS]))

    def tokenize(self, chunk: Chunk) -> Made:
        """Makes the tokens of a chunk, unless they are there.

        Raises:
          UserError: as `corpus.tokenize`.
        """
        return self._find(chunk) or self._make(chunk)

    def _find(self, chunk):
        """What is known of tokens that are there; None where they are not, or of another text, or
        damaged."""
        path = self._path(chunk)
        if not os.path.exists(path) or not os.path.exists(path + ".json"):
            return None
        try:
            found = files.read_json(path + ".json", "tokens")
            same = (content_of(chunk) == found["content"]
                    and _around(chunk, reading.Seen(**found["seen"])) == found["around"]
                    and _checksum_of_all(path) == found["tokens"])
            return Made(found["counts"], found["content"]) if same else None
        except (UserError, KeyError, TypeError):
            return None

    def _make(self, chunk):
        counts: Counter[str] = collections.Counter()
        seen = reading.Seen(chunk.begin, chunk.end)
        path = self._path(chunk)
        with contextlib.suppress(FileNotFoundError):     # it would vouch for other tokens
            os.remove(path + ".json")
        with files.replacing(path, is_lasting=False) as temporary, open(temporary, "wb") as f:
            for tokens in corpus.tokenize(chunk, self._settings, self._tokenizer, counts, seen):
                f.write(tokens.astype("<u4", copy=False).tobytes())
        made = Made(dict(counts), content_of(chunk))
        files.write_json(path + ".json", dict(
            dataclasses.asdict(made), seen=dataclasses.asdict(seen), around=_around(chunk, seen),
            tokens=_checksum_of_all(path)), is_lasting=False)
        return made

    def read(self, chunk: Chunk, begin: int, end: int) -> np.ndarray:
        """Tokens [begin, end) of a chunk, uint32."""
        return np.fromfile(self._path(chunk), "<u4", end - begin, offset=4 * begin)

    def _path(self, chunk):
        path = chunk.path if files.is_remote(chunk.path) else os.path.realpath(chunk.path)
        where = repr((self._depends_on, path, *chunk[1:]))
        return os.path.join(self._directory,
                            hashlib.sha256(where.encode("utf-8")).hexdigest()[:32])


def content_of(chunk: Chunk) -> str:
    """The checksum of a chunk's bytes."""
    return _checksum(chunk.path, [(chunk.begin, chunk.end)])


def content_of_all(made: Iterable[str]) -> str:
    """The checksum of a text, of those of its chunks in their order."""
    return hashlib.sha256(json.dumps(list(made)).encode("utf-8")).hexdigest()[:32]


def _around(chunk, seen):
    """The checksum of what a reader has seen beside the chunk, the file's end included."""
    size: Any = files.size(chunk.path) if seen.end else None
    return _checksum(chunk.path, [(seen.low, chunk.begin), (chunk.end, seen.high)], repr(size))


def _checksum_of_all(path):
    return _checksum(path, [(0, files.size(path))])


def _checksum(path, ranges, more=""):
    digest = hashlib.blake2b(more.encode("utf-8"), digest_size=16)
    try:
        with files.open_binary(path) as f:
            for begin, end in ranges:
                f.seek(begin)
                while begin < end:
                    block = f.read(min(_BLOCK, end - begin))
                    digest.update(block or b"cut off")
                    begin += len(block) or end - begin
    except OSError as e:
        raise reading.unreadable(path, e) from None
    return digest.hexdigest()
