"""Which form a file of text has: what its first bytes declare, its name or a flag.

Parquet and .gz begin with bytes that say so. JSON lines are declared by the extension or by
--text_format; all else is plain text. What the text looks like only refuses files that are
something else, with the flag or the command that helps.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Sequence
from typing import IO, NamedTuple, Optional

from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.settings.data import InputSettings

LOOKED_AT = 1 << 16  # [bytes] of the unpacked file
_LINES_TRIED = 20  # of them
_GZIP = b"\x1f\x8b"
_OBJECT = re.compile(r'\{\s*(?:"(?:[^"\\\n]|\\.)*"\s*:|\})')
_ARRAY = re.compile(r"\[\s*" + _OBJECT.pattern)

_MARKUP = re.compile(
    r"<(!--|/?(p|div|span|table|ul|ol|h[1-6]|article|section|page|rss|tei|br)\b"
    r"[^<>\n]*>)",
    re.IGNORECASE,
)

TEXT, RECORDS, PARQUET = "text", "records", "parquet"

# Forms that are not read, and commands that make JSON lines of them; see also `encodings.foreign`.
_MADE = '; make JSON lines of it: python -c "%s"'
_ARRAY_MADE = _MADE % (
    "import json; [print(json.dumps(row)) for row in json.load(open('%s', "
    "encoding='utf-8'))]\" > \"text.jsonl"
)
_TABLE_MADE = _MADE % (
    "import pandas; pandas.read_csv('%s', sep=None, engine='python').to_json("
    "'text.jsonl', orient='records', lines=True)"
)
_BY_HAND = "; make JSON lines of it (docs/how_to/prepare_data.md, other forms)"


class Form(NamedTuple):
    """How a file is read."""

    kind: str = TEXT  # laid out as `text_format` says; RECORDS: JSON lines; PARQUET
    is_packed: bool = False  # .gz, which can only be read from its beginning to its end


def look(
    path: str,
    field: str = InputSettings.json_field,
    encoding: Optional[str] = None,
    text_format: str = InputSettings.text_format,
) -> Form:
    """The form of a file; a UserError if it is not supported, or if it looks like another one."""
    name = path.lower()
    with files.open_binary(path) as f:
        # Files that are not text, whether packed or not.
        head = f.read(LOOKED_AT)
        if head.startswith(b"PAR1"):
            return Form(PARQUET)
        f.seek(0)
        _refuse_foreign(path, f)
        # The mark of UTF-32 begins with that of UTF-16.
        for name_of_encoding, marks in (
            ("UTF-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
            ("UTF-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
        ):
            if head.startswith(marks):
                raise UserError(
                    f"{path}: {name_of_encoding}, expected UTF-8; convert it with iconv -f "
                    f"{name_of_encoding.lower()} -t utf-8"
                )
        is_packed = name.endswith(".gz") or head.startswith(_GZIP)
    if head.startswith(_GZIP):
        head = first_bytes(path)
        _refuse_foreign(path, io.BytesIO(head))
    # The layout of a text.
    text = head.decode(encodings.other_than_utf8(encoding) or "utf-8-sig", "replace")
    if len(head) == LOOKED_AT and "\n" in text:
        text = text.rpartition("\n")[0]  # the last line may be cut off
    extension = os.path.splitext(name[:-3] if name.endswith(".gz") else name)[1]
    # Declared JSON lines are not checked here: errors name their lines when these are read.
    is_list = _ARRAY.match(text.lstrip()) is not None
    if not is_list and (text_format == "jsonl" or extension in (".jsonl", ".ndjson")):
        return Form(RECORDS, is_packed)
    if extension != ".json":
        _refuse_records(path, text)
    what = _other_form(path, text, field, extension)
    if what:
        raise UserError("{}: {}; expected text or an object of JSON a line{}".format(path, *what))
    # Of .json files, those with an object a line are read: the shards of C4 have this name.
    return Form(RECORDS if extension == ".json" else TEXT, is_packed)


def first_bytes(path: str) -> bytes:
    """The first `LOOKED_AT` bytes of a file; those of what a .gz holds, as far as it is intact."""
    with files.open_binary(path) as f:
        head = f.read(LOOKED_AT)
        if not head.startswith(_GZIP):
            return head
        f.seek(0)
        unpacked = b""
        with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile):
            with gzip.GzipFile(fileobj=f) as g:
                while len(unpacked) < LOOKED_AT and (more := g.read1(LOOKED_AT - len(unpacked))):
                    unpacked += more
        return unpacked


def _refuse_foreign(path: str, file: IO[bytes]) -> None:
    """Raises UserError if an open file does not hold text or JSON."""
    what = encodings.foreign(path, file)
    if what:
        raise UserError(f"{path}: {what}; expected text, JSON lines, .gz of these or Parquet")


def _first_lines(start: str) -> list[str]:
    return [line for line in start.split("\n")[:_LINES_TRIED] if line.strip()] or [""]


def _has_records(lines: Sequence[str]) -> bool:
    """Whether lines are objects of JSON; among other lines, such a line belongs to a text."""
    # A first line without an end is longer than the bytes that were looked at.
    is_cut_off = len(lines) == 1 and _OBJECT.match(lines[0]) is not None
    return is_cut_off or 2 * sum(map(_is_object, lines)) >= len(lines)


def _refuse_records(path: str, text: str) -> None:
    """Raises UserError for JSON lines whose name and flag say that they are plain text."""
    if _has_records(_first_lines(text.lstrip())):
        raise UserError(
            f"{path}: its lines are objects of JSON, and would be read as text; give "
            "--text_format=jsonl, or a name that ends in .jsonl"
        )


def _other_form(path: str, text: str, field: str, extension: str) -> Optional[tuple[str, str]]:
    """(what a text is instead of plain text or JSON lines, how to make JSON lines of it); None if
    it is one of these."""
    # The signs are tried from the surest to the weakest: objects of JSON, markup, then tables, for
    # which prose may be mistaken.
    start = text.lstrip()
    lines = _first_lines(start)
    if _ARRAY.match(start):
        return "a list of JSON objects", _ARRAY_MADE % path
    if _has_records(lines):
        return None
    if _OBJECT.match(start) and not _is_object(lines[0]):
        return "JSON objects over several lines", f"; jq -c . '{path}' writes one a line"
    if "\r" in text[:-1] and "\n" not in text:
        return (
            "lines that end in a carriage return alone",
            f": tr '\\r' '\\n' < '{path}' > text.txt",
        )
    if re.match(r"<doc\s[^\n]*>\s*\n", start):
        return "WikiExtractor's <doc> tags", ", which WikiExtractor writes with --json"
    if _MARKUP.match(start):
        return "markup, such as HTML", "; save the text alone"
    if re.match(r"\s*= [^=\n]+ = ?\n *\n", text):
        return "WikiText, with = Titles = between its articles", _BY_HAND
    if lines[0] and (extension in (".csv", ".tsv") or _is_table(lines, field)):
        return "a table", _TABLE_MADE % path
    return None


def _is_table(lines: Sequence[str], field: str) -> bool:
    """Whether the first line names the column `field` and the others are as wide; prose has commas,
    too."""
    for delimiter in ",\t;|":
        names = lines[0].rstrip("\r").split(delimiter)
        if (
            len(names) > 1
            and field in names
            and names == list(map(str.strip, names))
            and all(line.count(delimiter) == len(names) - 1 for line in lines)
        ):
            return len(lines) > 1
    return False


def _is_object(line: str) -> bool:
    try:
        return line[:1] == "{" and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
