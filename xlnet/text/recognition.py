"""Which form a file of text has: its first bytes decide, and its name where they do not."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import re
import zlib
from typing import NamedTuple, Optional

from xlnet import encodings, files, tables
from xlnet.errors import UserError
from xlnet.settings.data import InputSettings

_LOOKED_AT = 1 << 16         # [bytes] of the unpacked file
_LINES_TRIED = 20            # of them
_GZIP = b"\x1f\x8b"
_UNREAD = {b"\x28\xb5\x2f\xfd": "packed with zstd",
           b"BZh": "packed with bzip2", b"\xfd7zXZ": "packed with xz", b"PK\x03\x04": "a zip file"}
_OBJECT = re.compile(r'\{\s*(?:"(?:[^"\\\n]|\\.)*"\s*:|\})')
_ARRAY = re.compile(r"\[\s*" + _OBJECT.pattern)

TEXT, RECORDS, JSON, TABLE, ARTICLES = "text", "records", "json", "table", "articles"
PARQUET = "parquet"


class Form(NamedTuple):
    """How a file is read.

    Attributes:
      kind: TEXT, laid out as `text_format` says; RECORDS, JSON lines; JSON, a list of objects, or
        objects over several lines; TABLE, CSV with a line of column names; ARTICLES, as of
        WikiExtractor, `<doc ...>` and `</doc>` lines around each document; PARQUET.
      is_packed: whether it is a .gz file.
      ends_in_cr: whether lines end in a carriage return alone.
      delimiter: between the cells of a TABLE.
      is_quoted: whether cells of a TABLE have quotation marks where they need them.
    """
    kind: str = TEXT
    is_packed: bool = False
    ends_in_cr: bool = False
    delimiter: str = ""
    is_quoted: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the file can only be read from its beginning to its end."""
        return self.is_packed or self.kind in (JSON, TABLE)


def look(path: str, field: str = InputSettings.json_field, encoding: Optional[str] = None) -> Form:
    """The form of a file, from its first bytes.

    Args:
      field: the key, or the column, that holds the text.
      encoding: of the text; None: UTF-8.

    Raises:
      UserError: the form is not supported, or a table lacks the column.
      OSError: the file cannot be read.
    """
    name = path.lower()
    with files.open_binary(path) as f:
        head = f.read(_LOOKED_AT)
        if head.startswith(b"PAR1"):
            return Form(PARQUET)
        for start, what in _UNREAD.items():
            if head.startswith(start):
                raise UserError("%s: %s; expected text, JSON, CSV or .gz of these; unpack it" % (
                    path, what))
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError("%s: UTF-16, expected UTF-8; convert it with iconv -f utf-16 -t utf-8"
                            % path)
        is_packed = name.endswith(".gz") or head.startswith(_GZIP)
        if head.startswith(_GZIP):
            f.seek(0)
            with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile):
                head = gzip.GzipFile(fileobj=f).read(_LOOKED_AT)
    ends_in_cr = b"\r" in head[:-1] and b"\n" not in head
    text = head.decode(encodings.other_than_utf8(encoding) or "utf-8-sig", "replace")
    text = text.replace("\r", "\n") if ends_in_cr else text
    extension = os.path.splitext(name[:-3] if name.endswith(".gz") else name)[1]
    is_cut = len(head) == _LOOKED_AT
    is_quoted, _ = tables.is_quoted(text.split("\n")[:-1 if is_cut else None], is_cut)
    delimiter = _delimiter(path, text, field, extension, is_cut, is_quoted)
    kind = TABLE if delimiter else _kind(text.lstrip(), extension)
    return Form(kind, is_packed, ends_in_cr, delimiter or "", delimiter != "\t" or is_quoted)


def _kind(text, extension):
    lines = [line for line in text.split("\n")[:_LINES_TRIED] if line.strip()] or [""]
    if _ARRAY.match(text):
        return JSON
    are_objects = list(map(_is_object, lines))
    # Among other lines, a line of JSON belongs to a text.
    if 2 * sum(are_objects) >= len(lines) or extension in (".jsonl", ".ndjson"):
        return RECORDS
    if _OBJECT.match(text) and not are_objects[0]:    # over several lines, or a long one
        return JSON if len(lines) > 1 else RECORDS
    if re.match(r"<doc\s[^\n]*>\s*\n", text):
        return ARTICLES
    return RECORDS if extension == ".json" else TEXT


def _is_object(line):
    try:
        return line[:1] == "{" and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _delimiter(path, text, field, extension, is_cut, is_quoted) -> Optional[str]:
    """The delimiter with which the first line names the column `field`; None if it is not a table.

    Prose has commas, too: unless the file's name is that of a table, all rows must be as wide as
    the first one.
    """
    is_named = extension in (".csv", ".tsv")
    for delimiter in "\t,;|" if extension == ".tsv" else ",\t;|":
        with contextlib.suppress(csv.Error):
            rows = csv.reader(io.StringIO(text.rstrip(" \r\n")), **tables.dialect(
                delimiter, delimiter != "\t" or is_quoted))
            names = next(rows, [])
            if is_named and field in map(str.strip, names) or field in names and _has_width(
                    names, list(itertools.islice(rows, _LINES_TRIED)), is_cut):
                if list(map(str.strip, names)).count(field) > 1:
                    raise UserError("%s, line 1: several columns '%s' (json_field), expected one"
                                    % (path, field))
                return delimiter
    if is_named and text.strip() and _kind(text.lstrip(), "") == TEXT:
        raise UserError("%s: no column '%s' (json_field); the first line is '%.200s'; name the "
                        "column with --json_field, or rename a file that is no table to .txt" % (
                            path, field, text.split("\n")[0].strip()))
    return None


def _has_width(names, rows, is_cut):
    """Whether rows have a cell for each of several names; is_cut: the last may be incomplete."""
    return len(names) > 1 and bool(rows) and names == list(map(str.strip, names)) and all(
        len(row) == len(names) for row in (rows[:-1] if is_cut else rows))
