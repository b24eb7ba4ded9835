"""Files to lines: which files, which bytes of them, what is wrong with them; layouts are those of
`text_forms`.

Files are plain text, JSON, tables or WikiExtractor's articles, or any of them with `.gz`;
`recognition` finds out which, and `text_format` says how plain text is laid out. Whatever the
form, a reader gets `Line`s: sentences, in order, the last one of each document marked.

Files are read in chunks that nobody else needs to wait for. A chunk answers for the lines (books:
paragraphs) that begin in its byte range, and where documents are drawn (`split`) for the documents
that do; what stands at its edges is found by looking one line back and as far ahead as it takes.
So the chunks of a file, one after the other, give the same lines wherever it is cut. No file, and
no line longer than `LONGEST_LINE`, is ever held whole.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import glob
import gzip
import hashlib
import io
import itertools
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.settings.data import InputSettings
from xlnet.text import recognition
from xlnet.text.recognition import JSON, RECORDS, TABLE, TEXT, Form
from xlnet.text.text_forms import LONGEST_LINE, End, blank_ends_documents, events_of, from_json

SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 8, 1 << 22      # [bytes]
LONGEST_RECORD = 1 << 24     # [bytes] a line of .jsonl is a document: the longest novels fit
HASHED_LENGTH = 1 << 23      # [characters] of a document that decide whether it is held out
OTHER_PART = "documents of the other part (split)"      # the reason of those that are left out
_BLANK = b" \t\r\n\v"         # without the form feed, which ends a book
_BLOCK, _PAGE = 1 << 16, 1 << 12                    # [bytes] read at once, at the edges
_CUT = "cut"                 # an event, as `End` is: see `_owned`


class Chunk(NamedTuple):
    """The bytes [begin, end) of a file; of one that is only read complete, all of them."""
    path: str
    begin: int
    end: int
    form: Form = Form()


class Line(NamedTuple):
    """A sentence and where it is."""
    offset: int              # of its line, paragraph or record in the (unpacked) file [bytes]
    text: str
    ends_document: bool
    begins_document: bool    # as far as its chunk shows: the end before it may be out of sight
    is_joined: bool = False  # no space stands between it and the one before


# Files and chunks.

def find_files(patterns: str, what: str = "input_glob") -> list[str]:
    """Returns the files that comma-separated names, glob patterns and directories stand for.

    A directory stands for all *.txt, *.jsonl, *.ndjson and *.gz in it and below it, hidden ones
    left out; of remote files (`gs://...`) only names and patterns are known. Sorted, each file
    once.

    Args:
      what: the flag's name, for errors.

    Raises:
      UserError: a part stands for no file.
    """
    parts = [part.strip() for part in patterns.split(",") if part.strip()]
    if not parts:
        raise UserError("%s: no file given" % what)
    found: dict[Any, str] = {}
    for part in parts:
        paths = files.match(part) if files.is_remote(part) else _local_files(part)
        if not paths:
            raise UserError("%s: %s '%s'" % (
                what, "no .txt, .jsonl, .ndjson or .gz file in directory" if os.path.isdir(part)
                else "no file matches", part))
        for path in sorted(paths):
            found.setdefault(path if files.is_remote(path) else os.path.realpath(path), path)
    return sorted(found.values())


def _local_files(pattern):
    names = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    return [path for name in names for path in _files_of(name)]


def _files_of(name):
    if os.path.isfile(name):
        return [name]
    paths = []
    for directory, below, names in os.walk(name):
        below[:] = [each for each in below if each[0] != "."]
        paths += [os.path.join(directory, each) for each in names
                  if each[0] != "." and each.lower().endswith(
                      (".txt", ".jsonl", ".ndjson", ".gz"))]
    return paths


def cut(paths: Sequence[str], chunk_bytes: Optional[int] = None,
        json_field: str = InputSettings.json_field, encoding: Optional[str] = None) -> list[Chunk]:
    """Returns the chunks of files, in order: `chunk_bytes` each, or whole files where they are
    packed, a JSON list or a table.

    Empty files have none.

    Args:
      chunk_bytes: None: the more, the larger all files are together.
      json_field: the key, or the column, that holds the text.
      encoding: of the text; None: UTF-8.

    Raises:
      UserError: a file cannot be read, or is of a form that is not read.
    """
    sizes = [_size(path) for path in paths]
    chunk_bytes = chunk_bytes or _chunk_bytes(sum(sizes))
    chunks = []
    for path, size in zip(paths, sizes):
        if not size and path.endswith(".gz"):
            raise UserError("%s: is empty, expected gzip data" % path)
        form = look(path, json_field, encoding) if size else Form()
        step = size if form.is_whole else chunk_bytes
        chunks += [Chunk(path, begin, min(begin + step, size), form)
                   for begin in range(0, size, step or 1)]
    return chunks


def look(path: str, json_field: str = InputSettings.json_field,
         encoding: Optional[str] = None) -> Form:
    """As `recognition.look`; a file that cannot be read is a `UserError`, too."""
    try:
        return recognition.look(path, json_field, encoding)
    except OSError as e:
        raise unreadable(path, e) from None


def in_words(chunks: Sequence[Chunk], settings: InputSettings) -> str:
    """What each file is read as, in one line."""
    return recognition.in_words({chunk.path: chunk.form for chunk in chunks}.items(),
                                settings.json_field, settings.text_format)


def _size(path):
    try:
        return files.size(path)
    except OSError as e:
        raise unreadable(path, e) from None


def _chunk_bytes(total):
    """A 32nd of all, of much text 32 times the square root of its size: enough chunks for many
    machines to get about as much each, few enough to keep a file of each.

    `SMALLEST_CHUNK` times a power of four, so that most text that changes its size keeps it.
    """
    step = SMALLEST_CHUNK
    while 4 * step <= min(LARGEST_CHUNK, total / 32, 32 * total ** 0.5):
        step *= 4
    return step


@dataclasses.dataclass
class Seen:
    """The bytes of a file that a reader has looked at, [low, high), and whether it met the end.

    Of a .gz file that is all of it, packed as it is.
    """
    low: int
    high: int
    end: bool = False

    def add(self, begin: int, size: int) -> None:
        """Takes note of `size` bytes read at `begin`; none there is the end."""
        self.low, self.high = min(self.low, begin), max(self.high, begin + size)
        self.end = self.end or not size


def form_is_in_name(chunk: Chunk) -> bool:
    """Whether the file's name tells its form: .jsonl, or any other one of plain text; .gz."""
    name, form = chunk.path.lower(), chunk.form
    kind = RECORDS if name.endswith((".jsonl", ".jsonl.gz")) else TEXT
    return form == Form(kind, name.endswith(".gz"))


class _LineFeeds(io.RawIOBase):
    """A file whose carriage returns are line feeds."""

    def __init__(self, file):
        self._file = file

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return self._file.seek(offset, whence)

    def readinto(self, buffer):
        content = self._file.read(len(buffer)).replace(b"\r", b"\n")
        buffer[:len(content)] = content
        return len(content)


class _File:
    """The (unpacked) bytes of a file; `damage` says why those of a .gz end too early.

    `seen`: takes note of what is read of a file that is not packed.
    """

    def __init__(self, path, form, seen=None):
        self.path, self.damage = path, None
        self._seen, self._place = None if form.is_packed else seen, 0
        try:
            self._packed = files.open_binary(path, _BLOCK)
            self._file: Any = gzip.open(self._packed) if form.is_packed else self._packed
            if form.ends_in_cr:
                self._file = io.BufferedReader(_LineFeeds(self._file), _BLOCK)
            if form.is_packed and not files.size(path):
                self.damage = "no bytes"        # Python's gzip takes them for no text
        except OSError as e:
            raise unreadable(path, e) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
        self._packed.close()

    def seek(self, offset):
        self._file.seek(offset)
        self._place = offset

    def read(self, size):
        """Returns up to `size` bytes, none at the end only."""
        return self._guarded(self._file.read1, size)

    def read_exactly(self, size):
        """Returns `size` bytes, fewer at the end only."""
        return self._guarded(self._file.read, size)

    def readline(self, size):
        """Returns the rest of the line, or `size` bytes of it."""
        return self._guarded(self._file.readline, size)

    def _guarded(self, read, size):
        try:
            content = b"" if self.damage else read(size)
            if self._seen:
                self._seen.add(self._place, len(content))
            self._place += len(content)
            return content
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            self.damage = str(e)
            return b""
        except OSError as e:
            raise unreadable(self.path, e) from None


def unreadable(path: str, error: OSError) -> UserError:
    """The error that says so of a file of the input."""
    return UserError("cannot read %s: %s" % (path, error.strerror or error))


def place(chunk: Chunk, offset: int) -> str:
    """Returns "PATH, line N" of an offset: reads the file up to it, so only for messages."""
    if chunk.form.kind == JSON:
        return "%s, item %d" % (chunk.path, offset)
    newlines = 0
    with _File(chunk.path, chunk.form) as f:
        while offset > 0:
            block = f.read(min(offset, _BLOCK))
            newlines += block.count(b"\n")
            offset = offset - len(block) if block else 0
    return "%s, line %d" % (chunk.path, newlines + 1)


# A chunk's lines.

def read_chunk(chunk: Chunk, settings: InputSettings, skipped: Counter[str],
               seen: Optional[Seen] = None) -> Iterator[Line]:
    """Yields the lines of a chunk, those that are blank left out.

    Args:
      settings: has `text_format json_field encoding on_error split heldout_share`
        (`CorpusSettings`).
      skipped: a Counter; what is left out is counted in it by its reason: documents of the other
        part and, with on_error "skip", bad text.
      seen: takes note of the bytes that the lines depend on.

    Raises:
      UserError: bad text with on_error "fail", named by file and line; an unreadable file.
    """
    form = chunk.form
    begin, end = (0, sys.maxsize) if form.is_whole else (chunk.begin, chunk.end)
    faults = _Faults(chunk, begin, end, settings, skipped)
    longest = LONGEST_RECORD if form.kind in (RECORDS, TABLE) else LONGEST_LINE
    with _File(chunk.path, form, seen) as f:
        if form.kind == JSON:
            events = from_json(f, settings, faults)
        else:
            # A document begins where the one before ends, maybe in a chunk of blank lines.
            may_be_blank = begin > 0 and (settings.split == "all" or not blank_ends_documents(
                settings, form))
            texts = _texts(f, longest, faults, may_be_blank, stand_alone=form.kind == RECORDS)
            events = events_of(texts, settings, faults, form)
        events = _owned(events, begin, end) if settings.split == "all" else _select(
            _whole_documents(events, begin, end), settings, skipped)
        yield from _mark_ends(events)


class _Faults:
    """What is wrong with the text of a chunk: refused, or counted and left out.

    A fault belongs to the chunk in which its line begins; others that meet it pass over it.
    """

    def __init__(self, chunk, begin, end, settings, skipped):
        self.chunk, self.begin, self.end = chunk, begin, end
        is_utf8 = codecs.lookup(settings.encoding or "utf-8").name in ("utf-8", "utf-8-sig")
        self.encoding = None if is_utf8 else settings.encoding
        self._skip = settings.on_error == "skip"
        self._skipped = skipped

    def add(self, offset, reason, detail):
        if not self.begin <= offset < self.end:
            return
        if not self._skip:
            raise UserError("%s: %s" % (place(self.chunk, offset), detail)) from None
        self._skipped[reason] += 1


def _texts(f, longest, faults, may_be_blank, stand_alone):
    """Yields (offset, text) of every line, text None where it is bad: one before the chunk if
    there is one, the chunk's, and those behind it to the file's end.

    may_be_blank: nothing behind a chunk of blank lines alone is asked for. stand_alone: lines do
    not depend on others, so that neither those before the chunk nor those behind it are.
    """
    begin = 0
    if faults.begin:
        before = None if stand_alone else _line_before(f, faults.begin, longest)
        begin = faults.begin - 1 if before is None else before
        if before is None:                   # or so long that it is bad
            yield begin, None
            f.seek(begin)
            begin += _skip_line(f, faults.end - begin)
            if begin >= faults.end:
                return
        f.seek(begin)
    for offset, block in _blocks(f, begin, longest, faults):
        if (may_be_blank or stand_alone) and offset >= faults.end:
            return
        may_be_blank = may_be_blank and not block.strip(_BLANK)
        lines = block.split(b"\n")           # bytes: split at \n only, never at U+0085
        if not lines[-1]:
            lines.pop()
        offsets = list(itertools.accumulate([offset] + [len(line) + 1 for line in lines[:-1]]))
        yield from zip(offsets, _decode(block, lines, offsets, longest, faults))


def _blocks(f, offset, longest, faults):
    """Yields (offset, bytes): some whole lines each, the last cut off if longer than `longest`."""
    def read():
        return f.read(min(_BLOCK, max(faults.end - offset, _PAGE)))

    block = read()
    while block:
        if not block.endswith(b"\n"):
            block += f.readline(longest + 1)
        if f.damage:
            block = block[:block.rfind(b"\n") + 1]
        yield offset, block
        offset += len(block)
        if not f.damage and not block.endswith(b"\n"):
            offset += _skip_line(f, sys.maxsize)
        block = read()
    if f.damage:
        faults.add(offset, "damaged .gz", "the .gz file is damaged or cut off here (%s)" % f.damage)


def _decode(block, lines, offsets, longest, faults):
    """Returns the texts of the lines of a block: at once if all are good, else one by one."""
    if max(map(len, lines), default=0) <= longest:
        with contextlib.suppress(UnicodeDecodeError):
            text = block.decode(_codec(faults, offsets[0]))
            if "\0" not in text:
                return text.split("\n")
    return [_decode_line(line, offset, longest, faults) for line, offset in zip(lines, offsets)]


def _decode_line(line, offset, longest, faults):
    """Returns the text of a line, None with a fault where it is bad."""
    if len(line) > longest:
        return faults.add(offset, "line too long", "a line of more than %d bytes; expected a "
                          "sentence, a paragraph or a record a line" % longest)
    try:
        text = line.decode(_codec(faults, offset))
    except UnicodeDecodeError as e:
        name = faults.encoding or "UTF-8"
        return faults.add(offset, "not " + name, "not %s: byte 0x%02x at column %d%s" % (
            name, e.object[e.start], e.start + 1, "" if faults.encoding else _hint(faults, offset)))
    if "\0" in text:
        return faults.add(offset, "NUL byte", "a NUL byte at column %d; expected plain UTF-8 text"
                          % (text.index("\0") + 1))
    return text


def _codec(faults, offset):
    return faults.encoding or ("utf-8" if offset else "utf-8-sig")


def _hint(faults, offset):
    """Which encodings the lines from `offset` on may be of, for an error."""
    with _File(faults.chunk.path, faults.chunk.form) as f:
        f.seek(offset)
        lines = f.read_exactly(_BLOCK).split(b"\n")
    return encodings.hint(b"\n".join(line for line in lines[:-1] or lines if not line.isascii()))


def _line_before(f, position, longest):
    """Where the line that holds the byte before `position` begins; None if it is too long."""
    low = position - 1                       # that byte may be the line's own end
    while low > 0:
        high, low = low, max(0, low - _PAGE)
        f.seek(low)
        found = f.read_exactly(high - low).rfind(b"\n")
        if found >= 0:
            return low + found + 1
        if position - low > longest + 1:
            return None
    return 0


def _skip_line(f, most):
    """Reads up to the end of the line, or at least `most` bytes; returns how many."""
    size, raw = 0, None
    while size < most and raw != b"" and not (raw or b"").endswith(b"\n"):
        raw = f.readline(_BLOCK)
        size += len(raw)
    return size


# From events to lines.

def _owned(events, begin, end):
    """Yields the sentences that begin in the chunk, an `End` where a document ends, _CUT where one
    comes from before the chunk or goes on behind it."""
    if begin:
        yield _CUT
    for event in events:
        if isinstance(event, End):
            yield event
            if event.offset >= end:             # what follows is of other documents
                return
        elif event.offset < begin:
            yield _CUT
        elif event.offset < end:
            yield event
        else:
            yield _CUT
            return
    yield End(end)


def _whole_documents(events, begin, end):
    """Yields the sentences of the documents that begin in the chunk, wherever they end, an `End`
    behind each.

    A document begins where the one before it ends, the first one with the file. So each belongs to
    one chunk, and no chunk holds back a document to know whether it is whole.
    """
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


def _select(events, settings, skipped):
    """Leaves the documents of one part, and counts the others.

    The first `HASHED_LENGTH` characters of a document decide, so that no more of it is held.
    """
    head, size, is_wanted = [], 0, None
    for event in events:
        is_end = isinstance(event, End)
        if is_wanted is None:
            if not is_end:
                head.append(event)
                size += len(event.text)
            if size >= HASHED_LENGTH or is_end and head:
                is_wanted = (settings.split == "heldout") == _is_held_out(
                    head, settings.heldout_share)
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


def _is_held_out(head, share):
    """Draws the part from the text alone: the same wherever and whenever it is read."""
    digest = hashlib.blake2b(digest_size=8)
    for sentence in head:
        digest.update(sentence.text.encode("utf-8") + b"\n")
    return int.from_bytes(digest.digest(), "big") < share * 2 ** 64


def _mark_ends(events):
    """Yields a `Line` for each sentence: the events around it say whether it begins or ends a
    document."""
    held, held_begins, begins = None, False, True
    for event in events:
        is_end = isinstance(event, End)
        if held:
            yield Line(held.offset, held.text, is_end, held_begins, held.is_joined)
        if is_end or event is _CUT:
            held, begins = None, is_end
        else:
            held, held_begins, begins = event, begins, False
