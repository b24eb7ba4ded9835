"""Bytes of a file to lines of text: UTF-8, what its first bytes say, or what the user says."""

from __future__ import annotations

import codecs
import functools
import itertools
import logging
from collections.abc import Iterator
from typing import Optional

from xlnet.errors import UserError
from xlnet.tasks import faults

_log = logging.getLogger(__name__)

# The first bytes of a file, and the encoding that they tell.
_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LOOKED_AT = 4096       # [bytes] of a file without a mark
_CHUNK = 1 << 18        # [bytes]


def lines_of(path: str, content: bytes, encoding: Optional[str] = None,
             skips: bool = False) -> list[str]:
    """Returns the lines of a file, without the empty ones at its end.

    Only a line feed ends a line: texts hold other characters that `str.splitlines` would break at.

    Args:
      encoding: its name; None: UTF-16 or UTF-32 where the file shows it, or UTF-8.
      skips: bytes that are not UTF-8 stay in their lines, as half surrogates, which are a fault of
        the row that they are in.

    Raises:
      UserError: the bytes are not of this encoding; the message says which it might be.
    """
    encoding = encoding or _shown(path, content)
    if encoding is not None:
        lines = _decoded(path, content, encoding).split("\n")
    else:
        lines = _utf8_lines(path, content, skips)
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def chunks_of(path: str, encoding: Optional[str] = None) -> Iterator[str]:
    """Yields the text of a file piece by piece; arguments and errors as for `lines_of`."""
    with open(path, "rb") as f:
        first = f.read(_CHUNK)
        decoder = codecs.getincrementaldecoder(encoding or _shown(path, first) or "utf-8-sig")()
        try:
            for content in itertools.chain([first], iter(lambda: f.read(_CHUNK), b"")):
                yield decoder.decode(content)
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            f.seek(0)
            lines_of(path, f.read(), encoding)      # raises an error that names the place


def is_text(text: str) -> bool:
    """Whether `text` can be written as UTF-8: not if it has half a surrogate pair, which is a byte
    that `lines_of` could not decode, or what JSON made of an escape."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_encoding(name: str) -> None:
    """Raises UserError unless there is an encoding of text of this name."""
    try:
        codecs.lookup(name)
        "".encode(name)
    except LookupError:
        raise UserError("encoding: unknown '%s'; expected a name such as utf-8, utf-16, cp1252, "
                        "gb18030 or shift_jis" % name) from None


def _shown(path, content):
    """The encoding that the file itself shows; None where it does not."""
    found = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if found is None:
        # ASCII in UTF-16 has a zero in each second byte; text in UTF-8 has none.
        for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            half = content[start:_LOOKED_AT:2]
            if len(half) > 1 and half.count(0) > 0.4 * len(half):
                found = name
    if found is not None:
        _note_encoding(path, found)
    return found


@functools.cache      # once for each file, however often it is read
def _note_encoding(path, name):
    _log.info("%s is read as %s", path, name.upper())


def _decoded(path, content, encoding):
    """The text of a file in an encoding that is known."""
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as e:
        raise UserError("%s: not %s: byte 0x%02x in line %d" % (
            path, encoding, content[e.start], content[:e.start].count(b"\n") + 1)) from None


def _utf8_lines(path, content, skips):
    lines, bad, good = [], [], 0
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            good += not line.isascii()
        except UnicodeDecodeError as e:
            lines.append(line.decode("utf-8", "surrogateescape"))
            bad.append(("%s:%d" % (path, number), "not UTF-8: byte 0x%02x at column %d"
                        % (line[e.start], e.start + 1)))
    if not bad:
        return lines
    # Where other lines are UTF-8 beyond ASCII, these are damaged; else it is another encoding.
    guess = _guess(content) if len(bad) > good else None
    hint = "; it looks like %s: look at it, and give --encoding=%s" % (guess, guess) if guess \
        else ""
    if not skips:
        faults.refuse([(place, text + hint) for place, text in bad])
    elif hint:
        _log.warning("note: %s: not UTF-8%s", path, hint)
    return lines


def _guess(content):
    """The likeliest one of the encodings that spreadsheets and older programs write."""
    try:
        text = content.decode("gb18030")
        beyond = [character for character in text if character > "\x7f"]
        if sum("\u4e00" <= character <= "\u9fff" for character in beyond) > 0.7 * len(beyond):
            return "gb18030"
    except UnicodeDecodeError:
        pass
    try:
        content.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return None
