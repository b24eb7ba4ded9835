"""Files to lines: the only place that knows what input files look like.

Files are plain text, `.jsonl` (a document a line), or either with `.gz`; `text_format` says how
plain text is laid out. Whatever the form, a reader gets `Line`s: sentences, in order, the last one
of each document marked.

Files are read in chunks that nobody else needs to wait for. A chunk answers for the lines (books:
paragraphs) that begin in its byte range; what stands at its edges is found by looking one line
back and as far ahead as it takes. So the chunks of a file, one after the other, give the same
lines wherever it is cut. No file, and no line longer than `LONGEST_LINE`, is ever held whole.
"""

import collections
import contextlib
import glob
import gzip
import hashlib
import itertools
import json
import os
import re
import sys
import zlib

from xlnet import files
from xlnet.errors import UserError
from xlnet.sentences import split_sentences

Chunk = collections.namedtuple("Chunk", "path begin end")          # [bytes]
# `offset`: where in the (unpacked) file its line, paragraph or record begins [bytes].
Line = collections.namedtuple("Line", "path offset text ends_document")

LONGEST_LINE = 1 << 20       # [bytes] some 200,000 words: beyond any paragraph, far below memory
LONGEST_RECORD = 1 << 24     # [bytes] a line of .jsonl is a document: the longest novels fit
LONGEST_HELD_OUT = 1 << 23   # [characters] longer documents are trained on
_BLOCK = 1 << 16
_END, _CUT = "end", "cut"    # events between sentences: see `_owned`


# Files and chunks.

def find_files(patterns, what="input_glob"):
    """Returns the files that comma-separated names, glob patterns and directories stand for.

    A directory stands for all *.txt, *.jsonl and *.gz in it and below it, hidden ones left out;
    of remote files (`gs://...`) only names and patterns are known. Sorted, each file once.

    Args:
      what: the flag's name, for errors.

    Raises:
      UserError: a part stands for no file.
    """
    parts = [part.strip() for part in patterns.split(",") if part.strip()]
    if not parts:
        raise UserError("%s: no file given" % what)
    found = {}
    for part in parts:
        paths = files.match(part) if files.is_remote(part) else _local_files(part)
        if not paths:
            raise UserError("%s: %s '%s'" % (
                what, "no .txt, .jsonl or .gz file in directory" if os.path.isdir(part)
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
                  if each[0] != "." and each.lower().endswith((".txt", ".jsonl", ".gz"))]
    return paths


def cut(paths, chunk_bytes):
    """Returns the chunks of files, in order: `chunk_bytes` of plain ones each, `.gz` files whole.

    Empty files have none.
    """
    chunks = []
    for path in paths:
        try:
            size = files.size(path)
        except OSError as e:
            raise _unreadable(path, e) from None
        step = size if _is_gzip(path) else chunk_bytes
        chunks += [Chunk(path, begin, min(begin + step, size))
                   for begin in range(0, size, step or 1)]
    return chunks


def _is_gzip(path):
    return path.lower().endswith(".gz")


def _is_jsonl(path):
    return path.lower().endswith((".jsonl", ".jsonl.gz"))


class _File:
    """The (unpacked) bytes of a file; `damage` says why those of a .gz end too early."""

    def __init__(self, path):
        self.path, self.damage = path, None
        try:
            self._packed = files.open_binary(path, _BLOCK)
            self._file = gzip.open(self._packed) if _is_gzip(path) else self._packed
        except OSError as e:
            raise _unreadable(path, e) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
        self._packed.close()

    def seek(self, offset):
        self._file.seek(offset)

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
            return b"" if self.damage else read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            self.damage = str(e)
            return b""
        except OSError as e:
            raise _unreadable(self.path, e) from None


def _unreadable(path, error):
    return UserError("cannot read %s: %s" % (path, error.strerror or error))


def place(line):
    """Returns "PATH, line N" for a `Line`: reads the file up to it, so only for messages."""
    return _place(line.path, line.offset)


def _place(path, offset):
    newlines = 0
    with _File(path) as f:
        while offset > 0:
            block = f.read(min(offset, _BLOCK))
            newlines += block.count(b"\n")
            offset = offset - len(block) if block else 0
    return "%s, line %d" % (path, newlines + 1)


# A chunk's lines.

def check_settings(settings):
    """Raises UserError for input settings that do not fit together."""
    if not 0 < settings.heldout_percent < 100:
        raise UserError("heldout_percent is %r, expected 0 < heldout_percent < 100"
                        % settings.heldout_percent)
    if not settings.json_field:
        raise UserError("json_field is empty, expected the name of the text's field")


def read_chunk(chunk, settings, skipped):
    """Yields the lines of a chunk, those that are blank left out.

    Args:
      settings: has `text_format json_field on_error split heldout_percent` (`CorpusSettings`).
      skipped: a Counter; with on_error "skip", what is left out is counted in it by its reason.

    Raises:
      UserError: bad text with on_error "fail", named by file and line; an unreadable file.
    """
    begin, end = (0, sys.maxsize) if _is_gzip(chunk.path) else (chunk.begin, chunk.end)
    faults = _Faults(chunk.path, begin, end, settings.on_error, skipped)
    longest = LONGEST_RECORD if _is_jsonl(chunk.path) else LONGEST_LINE
    with _File(chunk.path) as f:
        texts = _texts(f, longest, faults)
        events = _owned(_events(texts, settings, faults), begin, end)
        if settings.split != "all":
            events = _select(events, settings.split, settings.heldout_percent / 100)
        yield from _mark_ends(chunk.path, events)


class _Faults:
    """What is wrong with the text of a chunk: refused, or counted and left out.

    A fault belongs to the chunk in which its line begins; others that meet it pass over it.
    """

    def __init__(self, path, begin, end, on_error, skipped):
        self.path, self.begin, self.end = path, begin, end
        self._skip = on_error == "skip"
        self._skipped = skipped

    def add(self, offset, reason, detail):
        if not self.begin <= offset < self.end:
            return
        if not self._skip:
            raise UserError("%s: %s" % (_place(self.path, offset), detail)) from None
        self._skipped[reason] += 1


def _texts(f, longest, faults):
    """Yields (offset, text) of every line, text None where it is bad: one before the chunk if
    there is one, the chunk's, and those behind it to the file's end."""
    begin = 0
    if faults.begin:
        begin = _line_before(f, faults.begin, longest)
        if begin is None:                    # so long that it is bad
            begin = faults.begin - 1
            yield begin, None
            f.seek(begin)
            begin += _skip_line(f, faults.end - begin)
            if begin >= faults.end:
                return
        f.seek(begin)
    for offset, block in _blocks(f, begin, longest, faults):
        lines = block.split(b"\n")           # bytes: split at \n only, never at U+0085
        if not lines[-1]:
            lines.pop()
        offsets = list(itertools.accumulate([offset] + [len(line) + 1 for line in lines[:-1]]))
        yield from zip(offsets, _decode(block, lines, offsets, longest, faults))


def _blocks(f, offset, longest, faults):
    """Yields (offset, bytes): some whole lines each, the last cut off if longer than `longest`."""
    block = f.read(_BLOCK)
    while block:
        if not block.endswith(b"\n"):
            block += f.readline(longest + 1)
        if f.damage:
            block = block[:block.rfind(b"\n") + 1]
        yield offset, block
        offset += len(block)
        if not f.damage and not block.endswith(b"\n"):
            offset += _skip_line(f, sys.maxsize)
        block = f.read(_BLOCK)
    if f.damage:
        faults.add(offset, "damaged .gz", "the .gz file is damaged or cut off here (%s)" % f.damage)


def _decode(block, lines, offsets, longest, faults):
    """Returns the texts of the lines of a block: at once if all are good, else one by one."""
    if max(map(len, lines), default=0) <= longest:
        with contextlib.suppress(UnicodeDecodeError):
            text = block.decode("utf-8" if offsets[0] else "utf-8-sig")
            if "\0" not in text:
                return text.split("\n")
    return [_decode_line(line, offset, longest, faults) for line, offset in zip(lines, offsets)]


def _decode_line(line, offset, longest, faults):
    """Returns the text of a line, None with a fault where it is bad."""
    if len(line) > longest:
        return faults.add(offset, "line too long", "a line of more than %d bytes; expected a "
                          "sentence, a paragraph or a record a line" % longest)
    try:
        text = line.decode("utf-8" if offset else "utf-8-sig")
    except UnicodeDecodeError as e:
        return faults.add(offset, "not UTF-8", "not UTF-8: byte 0x%02x at column %d; convert the "
                          "file first" % (e.object[e.start], e.start + 1))
    if "\0" in text:
        return faults.add(offset, "NUL byte", "a NUL byte at column %d; expected plain UTF-8 text"
                          % (text.index("\0") + 1))
    return text


def _line_before(f, position, longest):
    """Where the line that holds the byte before `position` begins; None if it is too long."""
    low = position - 1                       # that byte may be the line's own end
    while low > 0:
        high, low = low, max(0, low - 4096)
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


# Events: (offset, text) for a sentence, _END between documents.

def _events(texts, settings, faults):
    if _is_jsonl(faults.path):
        return _from_records(texts, settings.json_field, faults)
    if settings.text_format == "lines":
        return _from_lines(texts)
    if settings.text_format == "paragraphs":
        return _from_paragraphs(texts)
    if settings.text_format == "wikitext":
        return _from_wikitext(texts, faults)
    return _from_book(texts, faults)


def _from_lines(texts):
    """A sentence a line, a blank line between documents."""
    for offset, text in texts:
        if text is None:
            continue
        text = text.strip()
        yield (offset, text) if text else _END


def _from_paragraphs(texts):
    """A paragraph a line, a blank line between documents."""
    for event in _from_lines(texts):
        if event is _END:
            yield _END
        else:
            for sentence in split_sentences(event[1]):
                yield event[0], sentence


def _from_records(texts, field, faults):
    """A JSON object a line, a document each; newlines in its text end sentences too."""
    for offset, text in texts:
        if text is None or text.isspace() or not text:
            continue
        document = _field_of(text, field, offset, faults)
        yield _END
        if document is not None:
            for line in document.split("\n"):
                for sentence in split_sentences(line):
                    yield offset, sentence
        yield _END


def _field_of(text, field, offset, faults):
    """The text of a record, None with a fault where it has none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as e:
        return faults.add(offset, "not JSON", "not JSON: %s" % (
            "%s at column %d" % (e.msg, e.colno) if isinstance(e, json.JSONDecodeError)
            else "a number too long or lists too deep"))
    if not isinstance(record, dict) or field not in record:
        found = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        return faults.add(offset, "no field '%s'" % field,
                          "no field '%s'; expected a JSON object with it (json_field), found %.200s"
                          % (field, found or "none"))
    document = record[field]
    if not isinstance(document, str):
        return faults.add(offset, "field '%s' is not text" % field,
                          "field '%s' is %s, expected text" % (field, type(document).__name__))
    if "\0" in document:
        return faults.add(offset, "NUL byte", "a NUL character in field '%s'" % field)
    if re.search("[\ud800-\udfff]", document):
        return faults.add(offset, "not UTF-8", "half of a surrogate pair in field '%s'" % field)
    if any(len(line) > LONGEST_LINE for line in document.split("\n")):
        return faults.add(offset, "line too long", "a line of more than %d characters in field '%s'"
                          % (LONGEST_LINE, field))
    return document


_ESCAPE = re.compile(r" @([-,.])@ ")


def _from_wikitext(texts, faults):
    """WikiText: a paragraph a line; ` = Title = ` between blank lines begins a document.

    Headings of sections, ` = = Name = = `, are sentences of their own, as titles are: text that
    follows speaks of them. Their marks, and those of ` @-@ `, are taken away.
    """
    after_blank = faults.begin == 0
    for offset, text, before_blank in _with_next(texts):
        depth = _heading_depth(text) if text and after_blank and before_blank else 0
        if depth == 1:
            yield _END
        if depth:
            yield offset, _ESCAPE.sub(r"\1", text[2 * depth:-2 * depth].strip())
        elif text:
            for sentence in split_sentences(_ESCAPE.sub(r"\1", text)):
                yield offset, sentence
        after_blank = text == ""


def _heading_depth(text):
    """How many = stand on both sides of a heading: 1 for a title; 0 if it is none."""
    words = text.split(" ")
    left = next((i for i, word in enumerate(words) if word != "="), 0)
    right = next((i for i, word in enumerate(reversed(words)) if word != "="), 0)
    return left if left == right else 0


def _with_next(texts):
    """Yields (offset, stripped text, whether a blank line or the file's end follows)."""
    held = None
    for offset, text in texts:
        text = text if text is None else text.strip()
        if held:
            yield (*held, text == "")
        held = offset, text
    if held:
        yield (*held, True)


def _from_book(texts, faults):
    """Hard-wrapped paragraphs between blank lines; a file or a form feed's part is a document."""
    for offset, text in _paragraphs(texts, faults):
        if text is None:
            yield _END
        else:
            for sentence in split_sentences(text):
                yield offset, sentence


def _paragraphs(texts, faults):
    """Yields (offset, text) of each paragraph, joined, and (offset, None) for a form feed.

    A paragraph begins at its first line that is not blank, be that bad or good: what is before a
    chunk's own lines decides whether its first line begins one.
    """
    first, lines, size = None, [], 0
    for offset, text in _book_lines(texts):
        if text in ("", "\f"):
            if lines:
                yield first, _join(lines)
            first, lines, size = None, [], 0
            if text:
                yield offset, None
            continue
        first = offset if first is None else first
        if first < faults.begin and offset >= faults.end:
            return                           # a paragraph from before the chunk goes on beyond it
        is_fine, size = size <= LONGEST_LINE, size + len(text or "")
        if size <= LONGEST_LINE:
            lines.append(text or "")
        elif is_fine:
            lines = []
            faults.add(first, "paragraph too long", "a paragraph of more than %d characters, "
                       "expected blank lines between paragraphs (text_format=book)" % LONGEST_LINE)
    if lines:
        yield first, _join(lines)


def _book_lines(texts):
    """Yields (offset, stripped text), a form feed as a line "\\f" of its own; bad lines as None."""
    for offset, text in texts:
        if text is None:
            yield offset, None
            continue
        for number, part in enumerate(text.split("\f")):
            if number:
                yield offset, "\f"
            yield offset, part.strip()


_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")


def _join(lines):
    """Joins hard-wrapped lines: with a blank, but not behind a hyphen or between CJK characters."""
    joined = []
    for line in filter(None, lines):
        if joined and not _joins_without_blank(joined[-1][-1], line[0]):
            joined.append(" ")
        joined.append(line)
    return "".join(joined)


def _joins_without_blank(last, first):
    return last in "-—" or bool(_CJK.match(last) and _CJK.match(first))


# From events to lines.

def _owned(events, begin, end):
    """Yields the sentences that begin in the chunk, _END where a document ends, _CUT where one
    comes from before the chunk or goes on behind it."""
    if begin:
        yield _CUT
    for event in events:
        if event is _END:
            yield _END
        elif event[0] < begin:
            yield _CUT
        elif event[0] < end:
            yield event
        else:
            yield _CUT
            return
    yield _END


def _select(events, split, share):
    """Leaves the sentences of one part: whole documents, by a hash of their text.

    A document that a chunk's edge cuts, or of more than `LONGEST_HELD_OUT` characters, is trained
    on: no chunk knows all of it, and so the chunks agree without asking, and never is one
    document in both parts.
    """
    document, size, is_cut = [], 0, False
    for event in events:
        if event is _END or event is _CUT:
            is_cut = is_cut or event is _CUT
            if (split == "heldout") == (not is_cut and _is_held_out(document, share)):
                yield from document
            document, size, is_cut = [], 0, event is _CUT
            yield event
            continue
        document.append(event)
        size += len(event[1])
        if size > LONGEST_HELD_OUT:
            is_cut = True
            if split == "train":
                yield from document
            document = []


def _is_held_out(document, share):
    """Draws the part from the text alone: the same wherever and whenever it is read."""
    digest = hashlib.blake2b(digest_size=8)
    for _, text in document:
        digest.update(text.encode("utf-8") + b"\n")
    return int.from_bytes(digest.digest(), "big") < share * 2 ** 64


def _mark_ends(path, events):
    """Yields a `Line` for each sentence: the event that follows says whether it ends a document."""
    held = None
    for event in events:
        if held:
            yield Line(path, held[0], held[1], event is _END)
        held = None if event is _END or event is _CUT else event
