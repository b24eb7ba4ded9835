"""Files to sentences: finds files, cuts them into chunks and reads the documents of each chunk.

The name of a file says its form (`form_of`); nothing looks at its content to find out. Chunks of a
file are read independently: a chunk has the documents that begin in its byte range, up to their
ends. So the chunks of a file give the same documents, one after the other, wherever it is cut.
Neither a file nor a line longer than `LONGEST_LINE` is ever held in memory.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from xlnet.corpus.sentences import split_sentences
from xlnet.corpus.tokenizer import is_text
from xlnet.settings.data import InputSettings
from xlnet.support import errors, files
from xlnet.support.errors import wrong

SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 8, 1 << 22  # [bytes]
# [bytes] some 200,000 words: beyond any paragraph, far below memory
LONGEST_LINE = 1 << 20
LONGEST_RECORD = 1 << 24  # [bytes] a line of .jsonl is a document: long novels fit
HASHED_LENGTH = 1 << 23  # [characters] of a document that decide whether it is held out
OTHER_PART = "documents of the other part (split)"  # why documents are left out
# A line that separates documents in files of other programs.
END_OF_TEXT = "<|endoftext|>"
_BLOCK = 1 << 16  # [bytes] read at once
_ROWS = 32  # of Parquet, decoded at once
_FORMS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_IN_DIRECTORIES = (".txt", ".jsonl", ".ndjson", ".gz", ".parquet")
_POINTER = b"version https://git-lfs.github.com/spec/"
_REMEDY = "copy it again, or leave it out"


class Chunk(NamedTuple):
    """The bytes [begin, end) of a file, and the documents that begin in them. A packed file is one
    chunk."""

    path: str
    begin: int
    end: int


class CorpusSentence(NamedTuple):
    """A sentence, and where it is; or, without text, the end of a document."""

    offset: int  # of its line in the (unpacked) file [bytes]; Parquet has no lines: 0
    text: str
    is_joined: bool = False  # follows the sentence before it without a space
    ends_document: bool = False


_END_OF_DOCUMENT = CorpusSentence(0, "", ends_document=True)


# Files and chunks.


def find_files(patterns: str) -> dict[str, int]:
    """Returns the sizes [bytes] of files by path, sorted by path.

    A file that has several paths, by links, is there once.

    Args:
      patterns: comma-separated names, glob patterns and directories. Of a directory these are all
        *.txt, *.jsonl, *.ndjson, *.gz and *.parquet in it and below it but hidden ones; remote
        files (`gs://...`) have names and patterns only.
    """
    paths: dict[str, str] = {}  # the first path by the file that it leads to
    sizes: dict[str, int] = {}  # by path
    for pattern in patterns.split(","):
        pattern = pattern.strip()
        if files.is_remote(pattern):
            matching = files.matching_sizes(pattern)
        else:
            matching = {}
            for path in _local_files(pattern):
                if not os.path.isfile(path):  # a pipe or a broken link
                    raise wrong("input_glob", f"{path}, which is no file", "files")
                matching[path] = os.path.getsize(path)
        if not matching:
            raise wrong("input_glob", f"no file that matches '{pattern}'", "one")
        sizes.update(matching)
        for path in sorted(matching):
            paths.setdefault(os.path.realpath(path), path)
    return {path: sizes[path] for path in sorted(paths.values())}


def _local_files(pattern: str) -> list[str]:
    """The paths of the files of a name, a glob pattern or a directory, as `find_files` says."""
    paths = []
    for match in files.matching(pattern):
        if not os.path.isdir(match):
            paths.append(match)
            continue
        for directory, folders, names in os.walk(match):
            # It goes on to the folders that are left in this list: none that is hidden.
            folders[:] = [folder for folder in folders if folder[0] != "."]
            # It would leave out those that are links, which may be circles.
            for folder in folders:
                linked = os.path.join(directory, folder)
                if os.path.islink(linked):
                    expected = "none within a folder: name the folders in it one by one"
                    raise wrong("input_glob", f"{linked}, a linked folder", expected)
            for name in names:
                if name.lower().endswith(_IN_DIRECTORIES) and name[0] != ".":
                    paths.append(os.path.join(directory, name))
    return paths


def form_of(path: str, input_format: str) -> str:
    """The form of a file: "jsonl" or "parquet" if its name says so, otherwise `input_format`."""
    name = path.lower().removesuffix(".gz")
    return _FORMS.get(os.path.splitext(name)[1], input_format)


def is_packed(path: str) -> bool:
    """Whether a file can only be read from its beginning to its end."""
    return path.lower().endswith(".gz")


def cut(sizes: Mapping[str, int]) -> list[Chunk]:
    """The chunks of files, in order; an empty file has none. sizes: of the files [bytes], by path.

    A UserError for a packed file without bytes.
    """
    chunk_bytes = chunk_size(sum(sizes.values()))
    chunks = []
    for path, size in sizes.items():
        step = chunk_bytes
        if is_packed(path):
            if not size:  # `gzip` would read it as a text of no characters
                raise wrong(path, "no bytes", "a file of gzip")
            step = size  # one chunk, as it can only be read from its beginning
        for begin in range(0, size, step):
            chunks.append(Chunk(path, begin, min(begin + step, size)))
    return chunks


def chunk_size(total: int) -> int:
    """The size [bytes] of the chunks of a text of `total` bytes."""
    # At most a 32nd of the text, and, of much text, 32 times the square root of its size: so many
    # chunks that many machines get about equal parts, and so few that each can have a file. The
    # size is a power of four, so that most edits of the text do not change it.
    step = SMALLEST_CHUNK
    while 4 * step <= min(LARGEST_CHUNK, total / 32, 32 * total**0.5):
        step *= 4
    return step


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Yields the file, open for reading bytes, which are unpacked if `is_packed`; errors while it
    is read are UserErrors."""
    with errors.reading(path, _REMEDY), files.open_binary(path, _BLOCK) as f:
        yield io.BufferedReader(gzip.GzipFile(fileobj=f)) if is_packed(path) else f


def place(path: str, offset: int) -> str:
    """Returns "PATH, line N" of an offset [bytes] in the unpacked file, of which it reads all up to
    the offset: only for messages."""
    newlines = 0
    with _opened(path) as f:
        remaining = offset
        # The file may have become shorter: then its last line is returned.
        while remaining and (block := f.read(min(remaining, _BLOCK))):
            newlines += block.count(b"\n")
            remaining -= len(block)
    return f"{path}, line {newlines + 1}"


# A chunk's sentences.


def read_chunk(
    chunk: Chunk, settings: InputSettings, counts: Counter[str]
) -> Iterator[CorpusSentence]:
    """Yields the sentences of the documents that begin in a chunk; after each document the sentence
    without text that ends it.

    Args:
      chunk: of a file.
      settings: how it is read.
      counts: gets under `OTHER_PART` the number of documents that `settings.split` leaves out.
    """
    form = form_of(chunk.path, settings.input_format)
    if is_packed(chunk.path):
        # The chunk is the complete file, but it is read by offsets in the unpacked text.
        chunk = chunk._replace(end=sys.maxsize)
    if form == "parquet":
        sentences = _from_parquet(chunk, settings)
    elif form == "jsonl":
        sentences = _from_json_lines(chunk, settings)
    else:
        sentences = _from_text(chunk, settings)
    if settings.split == "all":
        return sentences
    return _of_split(sentences, settings, counts)


def _from_text(chunk: Chunk, settings: InputSettings) -> Iterator[CorpusSentence]:
    """Yields the sentences of a chunk's documents from a file that has a sentence or a paragraph a
    line, a blank line between documents."""
    # A document begins behind a blank line, or with the file. It belongs to the chunk in which the
    # blank line begins. Blank lines in a row end documents without a sentence, which count as none.
    is_of_chunk = not chunk.begin  # the document that is read
    for offset, line in _lines(chunk, LONGEST_LINE):
        text = line.strip()
        if not text:
            if is_of_chunk:
                yield _END_OF_DOCUMENT
            is_of_chunk = offset < chunk.end
        elif is_of_chunk and text == END_OF_TEXT:
            expected = "a blank line between documents"
            raise wrong(place(chunk.path, offset), repr(text), expected)
        elif is_of_chunk and settings.input_format == "paragraphs":
            yield from _sentences(offset, text)
        elif is_of_chunk:
            yield CorpusSentence(offset, text)
        # The chunk's last document may end behind the chunk.
        if offset >= chunk.end and not is_of_chunk:
            return
    yield _END_OF_DOCUMENT  # the end of the file ends it, too


def _from_json_lines(chunk: Chunk, settings: InputSettings) -> Iterator[CorpusSentence]:
    """Yields the sentences of a chunk's documents from a file that has a JSON object a line, a
    document each; newlines in its text end sentences, too."""
    for offset, line in _lines(chunk, LONGEST_RECORD):
        if offset >= chunk.end:
            return
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            record = None
        text = record.get(settings.text_a_column) if isinstance(record, dict) else None
        if not isinstance(text, str) or not is_text(text):
            where, found = place(chunk.path, offset), repr(line[:60])
            expected = f"an object of JSON with a text '{settings.text_a_column}'"
            raise wrong(where, found, expected, "--text_a_column")
        yield from _document(offset, text)


def _from_parquet(chunk: Chunk, settings: InputSettings) -> Iterator[CorpusSentence]:
    """Yields the sentences of a chunk's documents from a Parquet file: a row is a document, its
    text in the column `text_a_column`."""
    try:
        from pyarrow import parquet
    except ImportError:
        remedy = "pip install pyarrow"
        raise wrong(chunk.path, "no pyarrow", "it for Parquet", remedy) from None
    column, file_size = settings.text_a_column, files.size(chunk.path)
    # pre_buffer would load complete row groups ahead, of which one may have gigabytes.
    with (
        errors.reading(chunk.path, _REMEDY),
        files.open_binary(chunk.path) as f,
        parquet.ParquetFile(f, buffer_size=_BLOCK, pre_buffer=False) as stored,
    ):
        names = stored.schema_arrow.names
        if names.count(column) != 1:
            found = "the columns " + ", ".join(names)
            raise wrong(chunk.path, found, f"one '{column}'", "--text_a_column")
        row = 0  # number of the row in the file, from 1, for errors
        for group in range(stored.num_row_groups):
            # Group i of n, each with the same share of the bytes, belongs to the chunk that has its
            # first byte, wherever its bytes really are.
            group_begin = file_size * group // stored.num_row_groups
            if not chunk.begin <= group_begin < chunk.end:
                row += stored.metadata.row_group(group).num_rows
                continue
            # Without threads, as there may be a process for each core already.
            for batch in stored.iter_batches(
                batch_size=_ROWS,
                row_groups=[group],
                columns=[column],
                use_threads=False,
            ):
                for text in batch.column(0).to_pylist():
                    row += 1
                    if not isinstance(text, str):
                        where, found = f"{chunk.path}, row {row}", f"{text!r:.60}"
                        raise wrong(where, found, f"text in '{column}'")
                    yield from _document(0, text)  # rows have no offset


def _document(offset: int, text: str) -> Iterator[CorpusSentence]:
    """Yields the sentences of a document of running text, then its end. offset: of the line in the
    file that has the document [bytes]."""
    for line in text.split("\n"):
        yield from _sentences(offset, line)
    yield _END_OF_DOCUMENT


def _sentences(offset: int, text: str) -> Iterator[CorpusSentence]:
    """Yields the sentences of a line of running text; offset: of the line in the file [bytes]."""
    for sentence, is_joined in split_sentences(text):
        yield CorpusSentence(offset, sentence, is_joined)


def _lines(chunk: Chunk, longest: int) -> Iterator[tuple[int, str]]:
    """Yields (offset, text) of the lines from the first that begins in a chunk to the file's end.
    The offset is that of the line [bytes], the text has its newline.

    Args:
      chunk: of a file.
      longest: a longer line is a UserError [bytes].
    """
    with _opened(chunk.path) as f:
        offset = 0
        if chunk.begin:
            # The rest of the line that has the byte before the chunk, maybe only its newline,
            # belongs to the chunk before, which raises the error if it is too long.
            f.seek(chunk.begin - 1)
            offset = chunk.begin - 1 + len(f.readline(longest + 1))
        # One byte more than allowed shows a line that is too long. b"": the file's end.
        for raw in iter(lambda: f.readline(longest + 1), b""):
            if not offset and raw.startswith(_POINTER):
                expected = "the file; run git lfs pull"
                raise wrong(chunk.path, "a Git LFS pointer", expected)
            if len(raw) > longest:
                found = f"a line of more than {longest} bytes"
                expected = "a sentence, a paragraph or a record a line"
                raise wrong(place(chunk.path, offset), found, expected)
            try:
                text = raw.decode()
            except UnicodeDecodeError as e:
                found = f"byte 0x{raw[e.start]:02x} at column {e.start + 1}"
                where = place(chunk.path, offset)
                raise wrong(where, found, "UTF-8", "iconv converts files") from None
            if "\0" in text:
                raise wrong(place(chunk.path, offset), "a NUL character", "text")
            if not offset:  # the mark that some programs put before UTF-8
                text = text.removeprefix("\ufeff")
            yield offset, text
            offset += len(raw)


def _of_split(
    sentences: Iterator[CorpusSentence],
    settings: InputSettings,
    counts: Counter[str],
) -> Iterator[CorpusSentence]:
    """Yields the sentences of the documents that belong to `settings.split`, "train" or "heldout";
    counts the other documents under `OTHER_PART`."""
    # A hash of the first `HASHED_LENGTH` characters of a document decides: so it is in the same
    # split wherever it is read, and no more of it is kept in memory.
    head: list[CorpusSentence] = []  # the sentences that are hashed
    head_length = 0  # [characters]
    is_wanted: bool | None = None  # the document that is read; None: not decided yet
    for sentence in sentences:
        if is_wanted is None:
            head.append(sentence)
            head_length += len(sentence.text)
            if head_length < HASHED_LENGTH and not sentence.ends_document:
                continue
            digest = hashlib.blake2b(digest_size=8)
            for hashed in head:
                if hashed.text:
                    digest.update(hashed.text.encode("utf-8") + b"\n")
            number = int.from_bytes(digest.digest(), "big")  # below 2**64
            is_held_out = number < settings.heldout_share * 2**64
            is_wanted = is_held_out == (settings.split == "heldout")
            if is_wanted:
                yield from head
            elif head_length:  # documents without text are not counted
                counts[OTHER_PART] += 1
        elif is_wanted:
            yield sentence
        if sentence.ends_document:
            head, head_length, is_wanted = [], 0, None
