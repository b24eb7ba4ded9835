"""Files to lines: finds files, cuts them into chunks, and reports bad text.

Files are plain text or JSON lines, each with or without `.gz`, or Parquet; `recognition` says
which, `text_forms` has the layouts. Readers get `CorpusSentence`s of all of them, in order, the
last one of each document marked.

Chunks of a file are read independently. A chunk owns the lines that begin in its byte range; where
documents are selected (`split`), the documents that do. Its reader looks back to the last line that
says whether a document goes on, and ahead as far as needed. So the chunks of a file give the same
lines, one after the other, wherever it is cut. Neither a file nor a line longer than `LONGEST_LINE`
is ever held in memory.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import glob
import gzip
import hashlib
import itertools
import logging
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.settings.data import InputSettings
from xlnet.text import parquet, recognition
from xlnet.text.recognition import PARQUET, RECORDS, TEXT, Form
from xlnet.text.text_forms import LONGEST_LINE, CorpusSentence, End, events_of

_log = logging.getLogger(__name__)

SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 8, 1 << 22  # [bytes]
LONGEST_RECORD = 1 << 24  # [bytes] a line of .jsonl is a document: the longest novels fit
HASHED_LENGTH = 1 << 23  # [characters] of a document that decide whether it is held out
OTHER_PART = "documents of the other part (split)"  # why documents are left out
_BLOCK, _PAGE = 1 << 16, 1 << 12  # [bytes] read at once, at the edges
_LOOKED_BACK = 1 << 22  # [bytes] at most, over lines that are left out or have no tokens
_CUT = "cut"  # an event like `End`: a document goes on beyond the edge of the chunk, see `_owned`


class Chunk(NamedTuple):
    """The bytes [begin, end) of a file; all of them where `form.is_packed`."""

    path: str
    begin: int
    end: int
    form: Form = Form()


# Files and chunks.


def find_files(patterns: str, what: str = "input_glob") -> list[str]:
    """Returns the files that comma-separated names, glob patterns and directories name, sorted,
    each file once; `what`: the flag, for errors.

    Of a directory these are all *.txt, *.jsonl, *.ndjson, *.gz and *.parquet in it and below it
    but hidden ones; remote files (`gs://...`) have names and patterns only.
    """
    parts = _parts_of(patterns)
    if not parts:
        raise UserError(f"{what}: no file given")
    found: dict[Any, str] = {}
    for part in parts:
        paths = files.match(part) if files.is_remote(part) else _local_files(part)
        if not paths:
            raise UserError(f"{what}: {_why_none(part)}")
        for path in sorted(paths):
            found.setdefault(path if files.is_remote(path) else os.path.realpath(path), path)
    return sorted(found.values())


def _parts_of(patterns: str) -> list[str]:
    """The names in a list with commas. Names that exist may have commas themselves."""
    if os.path.exists(patterns):
        return [patterns]
    pieces = patterns.split(",")
    parts, begin = [], 0
    while begin < len(pieces):
        end = begin + 1
        # A piece that names no file may be the beginning of a name that has commas itself.
        if not files.matching(pieces[begin].strip()):
            longer = (
                end
                for end in range(begin + 2, len(pieces) + 1)
                if files.matching(",".join(pieces[begin:end]).strip())
            )
            end = next(longer, end)
        parts.append(",".join(pieces[begin:end]).strip())
        begin = end
    return [part for part in parts if part]


def _why_none(part: str) -> str:
    """A message why a name or pattern matches no file."""
    if os.path.isdir(part):
        arrows = sorted(glob.glob(os.path.join(glob.escape(part), "**", "*.arrow"), recursive=True))
        hint = f"; it has {encodings.arrow(arrows[0])}" if arrows else ""
        return f"no .txt, .jsonl, .ndjson, .gz or .parquet file in directory '{part}'{hint}"
    if os.path.exists(part):
        return f"a file is expected, which can be read twice, not '{part}'"
    return f"no file matches '{part}'"


def _local_files(pattern: str) -> list[str]:
    paths = []
    for name in files.matching(pattern):
        # A broken link is kept: reading it is an error, while leaving it out would be silent.
        if os.path.isfile(name) or not os.path.exists(name):
            paths.append(name)
        for directory, below, found in os.walk(name):  # follows no links, which may be circles
            below[:] = [each for each in below if each[0] != "."]
            paths += [
                os.path.join(directory, each)
                for each in found
                if each[0] != "."
                and each.lower().endswith((".txt", ".jsonl", ".ndjson", ".gz", ".parquet"))
            ]
    return paths


def cut(
    paths: Sequence[str],
    chunk_bytes: Optional[int] = None,
    json_field: str = InputSettings.json_field,
    encoding: Optional[str] = None,
    text_format: str = InputSettings.text_format,
) -> list[Chunk]:
    """Returns the chunks of files, in order, of `chunk_bytes` or `chunk_size`; an empty file has
    none, and a form that is not supported is a UserError."""
    sizes = []
    for path in paths:
        with naming(path):
            sizes.append(files.size(path))
    empty = [os.path.basename(path) for path, size in zip(paths, sizes) if not size]
    if empty:
        _log.info(f"note: {some_of(empty)} without text: empty")
    chunk_bytes = chunk_bytes or chunk_size(sum(sizes))
    chunks = []
    for path, size in zip(paths, sizes):
        if not size and path.lower().endswith(".gz"):
            raise UserError(f"{path}: is empty, expected gzip data")
        with naming(path):
            form = recognition.look(path, json_field, encoding, text_format) if size else Form()
        # .gz is read from its beginning only, so it is one chunk, for one process.
        step = size if form.is_packed else chunk_bytes
        chunks += [
            Chunk(path, begin, min(begin + step, size), form) for begin in range(0, size, step or 1)
        ]
    return chunks


def in_words(chunks: Sequence[Chunk], settings: InputSettings) -> str:
    """How each file is read, in one line."""
    words = {
        TEXT: f"text (text_format {settings.text_format})",
        RECORDS: f"JSON lines (field {settings.json_field})",
        PARQUET: f"Parquet (column {settings.json_field})",
    }
    names: dict[str, list[str]] = collections.defaultdict(list)
    for path, form in {chunk.path: chunk.form for chunk in chunks}.items():
        names[words[form.kind]].append(os.path.basename(path))
    return "input: " + "; ".join(f"{some_of(group)} as {how}" for how, group in names.items())


def some_of(names: Sequence[str]) -> str:
    """The name of one file; the number and the first name of several."""
    return names[0] if len(names) == 1 else f"{len(names)} files ({names[0]}, ...)"


def no_text(where: str, left_out: Mapping[str, int]) -> UserError:
    """The error of an input without text; `left_out`: lines and documents by reason."""
    reasons = "".join("; left out, {}: {}".format(*item) for item in left_out.items())
    # A hash assigns each document to one part.
    if left_out.get(OTHER_PART) == 1:
        reasons += (
            "; the text is one document; documents have a blank line between them, or what "
            "--document_separator says, or are files"
        )
    return UserError(f"input_glob: no text in {where}{reasons}")


def chunk_size(total: int) -> int:
    """The bytes of a chunk of text of `total` bytes."""
    # A 32nd of the text, or, of much text, 32 times the square root of its size: so many chunks
    # that many machines get about equal parts, and so few that each can have a file. The size is a
    # power of four, so that most edits of the text do not change it.
    step = SMALLEST_CHUNK
    while 4 * step <= min(LARGEST_CHUNK, total / 32, 32 * total**0.5):
        step *= 4
    return step


@dataclasses.dataclass
class SeenBytes:
    """The bytes [low, high) of a file that a reader has looked at, and whether it met the end.

    Of a .gz file these are all of its packed bytes.
    """

    low: int
    high: int
    end: bool = False

    def add(self, begin: int, size: int) -> None:
        """Takes note of `size` bytes read at `begin`; 0 at the end."""
        self.low, self.high = min(self.low, begin), max(self.high, begin + size)
        self.end = self.end or not size


def form_is_in_name(chunk: Chunk) -> bool:
    """Whether the name says the form: JSON lines are .jsonl, all else is plain text, .gz packed."""
    name, form = chunk.path.lower(), chunk.form
    kind = RECORDS if name.endswith((".jsonl", ".jsonl.gz")) else TEXT
    return form == Form(kind, name.endswith(".gz"))


class _File:
    """The (unpacked) bytes of a file; `seen` takes note of what is read, unless it is packed."""

    def __init__(self, path: str, form: Form, seen: Optional[SeenBytes] = None) -> None:
        self.path = path
        self.damage: Optional[str] = None  # why the bytes of a .gz end too early
        self._seen = None if form.is_packed else seen
        self._place = 0
        with naming(path):
            self._packed = files.open_binary(path, _BLOCK)
        self._file: Any = gzip.open(self._packed) if form.is_packed else self._packed

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._packed.close()

    def seek(self, offset: int) -> None:
        self._file.seek(offset)
        self._place = offset

    def read(self, size: int) -> bytes:
        """Returns up to `size` bytes; no bytes only at the end of the file."""
        return self._guarded(self._file.read1, size)

    def read_exactly(self, size: int) -> bytes:
        """Returns `size` bytes; fewer only at the end of the file."""
        return self._guarded(self._file.read, size)

    def readline(self, size: int) -> bytes:
        """Returns the rest of the line, or `size` bytes of it."""
        return self._guarded(self._file.readline, size)

    def _guarded(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            with naming(self.path):
                content = b"" if self.damage else read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            self.damage = str(e)
            return b""
        if self._seen:
            self._seen.add(self._place, len(content))
        self._place += len(content)
        return content


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Turns a failure to read the input into a `UserError` that names the file, or `path`."""
    try:
        yield
    except gzip.BadGzipFile:
        raise
    except OSError as e:
        raise UserError(f"cannot read {e.filename or path}: {e.strerror or e}") from None


def place(chunk: Chunk, offset: int) -> str:
    """Returns "PATH, line N" of an offset: reads the file up to it, so only for messages."""
    if chunk.form.kind == PARQUET:
        return chunk.path
    newlines = 0
    with _File(chunk.path, chunk.form) as f:
        while offset > 0:
            block = f.read(min(offset, _BLOCK))
            newlines += block.count(b"\n")
            offset = offset - len(block) if block else 0
    return f"{chunk.path}, line {newlines + 1}"


# A chunk's lines.


def read_chunk(
    chunk: Chunk,
    settings: InputSettings,
    skipped: Counter[str],
    seen: Optional[SeenBytes] = None,
    has_tokens: Callable[[CorpusSentence], bool] = lambda sentence: True,
) -> Iterator[CorpusSentence]:
    """Yields the sentences of a chunk.

    skipped: counts what is left out by its reason: documents of the other part and, with on_error
      "skip", bad text, which is a UserError otherwise.
    seen: takes note of the bytes that the lines depend on.
    has_tokens: whether a sentence before the chunk has any; only such a one goes on in the chunk.
    """
    form = chunk.form
    begin, end = (0, sys.maxsize) if form.is_packed else (chunk.begin, chunk.end)
    bad = _BadText(chunk, begin, end, settings, skipped)
    longest = LONGEST_RECORD if form.kind == RECORDS else LONGEST_LINE
    with contextlib.ExitStack() as stack:
        if form.kind == PARQUET:
            events = parquet.events(chunk, settings, bad, seen)
        else:
            f = stack.enter_context(_File(chunk.path, form, seen))

            def says_if_document_continues(line: tuple[int, Optional[str]]) -> bool:
                """Whether the line says if a document continues after it."""
                if line[1] is None and not bad.is_skipped:  # an error, of the chunk that has it
                    return True
                found = events_of([line], settings, bad, form)
                return any(isinstance(event, End) or has_tokens(event) for event in found)

            says = None if form.kind == RECORDS else says_if_document_continues
            texts = _texts(f, longest, bad, says)
            events = events_of(texts, settings, bad, form)
        if settings.split == "all":
            events = _owned(events, begin, end, has_tokens)
        else:
            events = _select(_whole_documents(events, begin, end), settings, skipped)
        yield from _mark_ends(events)


class _BadText:
    """What happens to bad text of a chunk: it is an error, or is counted and left out."""

    def __init__(
        self,
        chunk: Chunk,
        chunk_begin: int,
        chunk_end: int,
        settings: InputSettings,
        skipped: Counter[str],
    ) -> None:
        self.chunk = chunk
        self.chunk_begin, self.chunk_end = chunk_begin, chunk_end  # those of `chunk` or the file's
        self.encoding = encodings.other_than_utf8(settings.encoding)
        self.is_skipped = settings.on_error == "skip"
        self._skipped = skipped
        self.row: Optional[int] = None  # of a table

    def add(self, offset: int, reason: str, detail: str) -> None:
        if not self.is_skipped:
            self.refuse(offset, detail)
        elif self.is_own(offset):
            self._skipped[reason] += 1

    def refuse(self, offset: int, detail: str) -> None:
        if self.is_own(offset):
            row = "" if self.row is None else f"row {self.row}: "
            raise UserError(f"{place(self.chunk, offset)}: {row}{detail}") from None

    def is_own(self, offset: int) -> bool:
        """Whether the line begins in this chunk. Readers of other chunks may meet the line, too,
        and leave its error to this one."""
        return self.chunk_begin <= offset < self.chunk_end


def _texts(
    f: _File,
    longest: int,
    bad: _BadText,
    says_if_document_continues: Optional[Callable[[tuple[int, Optional[str]]], bool]],
) -> Iterator[tuple[int, Optional[str]]]:
    """Yields (offset, text) of the lines that the reader of a chunk needs; text None: a bad line.

    These are the lines before the chunk from the last one on that says if a document continues
    after it, the lines of the chunk, and those after it to the end of the file, of which the caller
    takes as many as it needs.

    Args:
      longest: a longer line is bad [bytes].
      says_if_document_continues: whether a line says it; None: each line stands alone, and only the
        chunk's are read.
    """
    begin = 0
    if bad.chunk_begin:
        # Where the line ends that reaches into the chunk, or up to it.
        line_end = bad.chunk_begin - 1
        f.seek(line_end)
        line_end += _skip_line(f, bad.chunk_end - line_end)
        # A chunk inside of a long line has no lines: only the chunk after it looks back over it.
        if line_end >= bad.chunk_end:
            return
        begin = line_end
        if says_if_document_continues:
            begin = _line_before(f, bad.chunk_begin)
            earliest = max(bad.chunk_begin - _LOOKED_BACK, 0)
            while begin > earliest:
                if says_if_document_continues((begin, _line_at(f, begin, longest, bad))):
                    break
                begin = _line_before(f, begin)
        f.seek(begin)
    for offset, block in _blocks(f, begin, longest, bad):
        if not says_if_document_continues and offset >= bad.chunk_end:
            return
        lines = block.split(b"\n")  # bytes: split at \n only, never at U+0085
        if not lines[-1]:
            lines.pop()
        offsets = list(itertools.accumulate([offset] + [len(line) + 1 for line in lines[:-1]]))
        yield from zip(offsets, _decode(block, lines, offsets, longest, bad))


def _blocks(f: _File, offset: int, longest: int, bad: _BadText) -> Iterator[tuple[int, bytes]]:
    """Yields (offset, bytes) of blocks of complete lines; the last line of a block is cut off if it
    is longer than `longest`."""

    def read() -> bytes:
        return f.read(min(_BLOCK, max(bad.chunk_end - offset, _PAGE)))

    block = read()
    while block:
        if not block.endswith(b"\n"):
            block += f.readline(longest + 1)
        if f.damage:
            block = block[: block.rfind(b"\n") + 1]
        yield offset, block
        offset += len(block)
        if not f.damage and not block.endswith(b"\n"):
            offset += _skip_line(f, sys.maxsize)
        block = read()
    if f.damage:
        bad.add(offset, "damaged .gz", f"the .gz file is damaged or cut off here ({f.damage})")


def _decode(
    block: bytes, lines: Sequence[bytes], offsets: Sequence[int], longest: int, bad: _BadText
) -> Sequence[Optional[str]]:
    """The texts of the lines of a block: decoded at once if all are good, else one by one."""
    if max(map(len, lines), default=0) <= longest:
        with contextlib.suppress(UnicodeDecodeError):
            text = block.decode(_codec(bad, offsets[0]))
            if "\0" not in text:
                return text.split("\n")
    return [_decode_line(line, offset, longest, bad) for line, offset in zip(lines, offsets)]


def _decode_line(line: bytes, offset: int, longest: int, bad: _BadText) -> Optional[str]:
    """The text of a line; None, after it was reported, if it is bad."""
    if len(line) > longest:
        bad.add(
            offset,
            "line too long",
            f"a line of more than {longest} bytes; expected a sentence, a paragraph or a record a "
            "line",
        )
        return None
    try:
        text = line.decode(_codec(bad, offset))
    except UnicodeDecodeError as e:
        name = bad.encoding or "UTF-8"
        is_said = not (bad.encoding or bad.is_skipped) and bad.is_own(offset)
        hint = _hint(bad, offset) if is_said else ""
        byte, column = e.object[e.start], e.start + 1
        bad.add(offset, f"not {name}", f"not {name}: byte 0x{byte:02x} at column {column}{hint}")
        return None
    if "\0" in text:
        column = text.index("\0") + 1
        bad.add(offset, "NUL byte", f"a NUL byte at column {column}; expected plain UTF-8 text")
        return None
    return text


def _codec(bad: _BadText, offset: int) -> str:
    return bad.encoding or ("utf-8" if offset else "utf-8-sig")


def _hint(bad: _BadText, offset: int) -> str:
    """Which encodings the lines from `offset` on may have, for an error."""
    with _File(bad.chunk.path, bad.chunk.form) as f:
        f.seek(offset)
        lines = f.read_exactly(_BLOCK).split(b"\n")
    return encodings.hint(b"\n".join(line for line in lines[:-1] or lines if not line.isascii()))


def _line_at(f: _File, begin: int, longest: int, bad: _BadText) -> Optional[str]:
    """The text of the line at `begin`; None if it is bad."""
    f.seek(begin)
    return _decode_line(f.readline(longest + 1).removesuffix(b"\n"), begin, longest, bad)


def _line_before(f: _File, position: int) -> int:
    """Where the line of the byte before `position` begins."""
    low = position - 1  # that byte may be the line's own end
    while low > 0:
        high, low = low, max(0, low - _PAGE)
        f.seek(low)
        found = f.read_exactly(high - low).rfind(b"\n")
        if found >= 0:
            return low + found + 1
    return 0


def _skip_line(f: _File, most: int) -> int:
    """Reads up to the end of the line, or at least `most` bytes; returns how many."""
    size, raw = 0, None
    while size < most and raw != b"" and not (raw or b"").endswith(b"\n"):
        raw = f.readline(_BLOCK)
        size += len(raw)
    return size


# From events to lines.


def _owned(
    events: Iterable[Any], begin: int, end: int, has_tokens: Callable[[CorpusSentence], bool]
) -> Iterator[Any]:
    """Yields the sentences that begin in the chunk, an `End` where a document ends, _CUT where one
    begins before the chunk or continues after it."""
    # Example: the lines are a b "" c d, and the chunk has b, the blank line and c. It yields
    # _CUT b End c _CUT: b does not begin its document, which has a, and c does not end its
    # document, which has d.
    if begin:
        yield _CUT
    for event in events:
        if isinstance(event, End):
            yield event
            if event.offset >= end:  # what follows is of other documents
                return
        elif event.offset < begin:
            # Without tokens it is as if the sentence were not there.
            if has_tokens(event):
                yield _CUT
        elif event.offset < end:
            yield event
        else:
            yield _CUT
            return
    yield End(end)


def _whole_documents(events: Iterable[Any], begin: int, end: int) -> Iterator[Any]:
    """Yields the sentences of the documents that begin in the chunk, and an `End` after each."""
    # A document begins where the one before it ends, or with the file, and belongs to the chunk in
    # which it begins. So its sentences can be yielded before its end is known.
    is_owned = begin == 0
    for event in events:
        if isinstance(event, End):
            if is_owned:
                yield event
            is_owned = begin <= event.offset < end
        elif is_owned:
            yield event
        if event.offset >= end and not is_owned:
            return
    if is_owned:
        yield End(end)


def _select(events: Iterable[Any], settings: InputSettings, skipped: Counter[str]) -> Iterator[Any]:
    """Yields the documents of one part, and counts the others."""
    # The first `HASHED_LENGTH` characters of a document decide: no more of it is kept in memory.
    head: list[Any] = []
    size = 0
    is_wanted: Optional[bool] = None  # None: not decided yet
    for event in events:
        is_end = isinstance(event, End)
        if is_wanted is None:
            if not is_end:
                head.append(event)
                size += len(event.text)
            if size >= HASHED_LENGTH or is_end and head:
                is_held_out = _is_held_out(head, settings.heldout_share)
                is_wanted = is_held_out == (settings.split == "heldout")
                if is_wanted:
                    yield from head
                else:
                    skipped[OTHER_PART] += 1
        elif is_wanted and not is_end:
            yield event
        if is_end:
            if is_wanted:
                yield event
            head, size, is_wanted = [], 0, None


def _is_held_out(head: Iterable[CorpusSentence], share: float) -> bool:
    """Whether a hash of the text holds the document out: the same wherever it is read."""
    digest = hashlib.blake2b(digest_size=8)
    for sentence in head:
        digest.update(sentence.text.encode("utf-8") + b"\n")
    return int.from_bytes(digest.digest(), "big") < share * 2**64


def _mark_ends(events: Iterable[Any]) -> Iterator[CorpusSentence]:
    """Yields the sentences; the events around each say whether it begins or ends a document."""
    # A sentence is held back until the next event says whether its document ends there. The last
    # event is always an `End` or _CUT, so none stays held.
    held: Any = None
    held_begins, begins = False, True
    for event in events:
        is_end = isinstance(event, End)
        if held:
            # Most sentences neither begin nor end a document, as they say already.
            is_inner = not (is_end or held_begins)
            yield (
                held
                if is_inner
                else held._replace(ends_document=is_end, begins_document=held_begins)
            )
        if is_end or event is _CUT:
            held, begins = None, is_end
        else:
            held, held_begins, begins = event, begins, False
