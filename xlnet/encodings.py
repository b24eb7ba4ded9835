"""What the bytes of a file are: the encodings that they may have, or not text that is read here."""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
import zipfile
from typing import IO, Any, Optional

from xlnet.errors import UserError

# Common encodings before UTF-8; of equally likely ones the earlier is proposed first. Others, such
# as Latin-1 and Shift JIS, are subsets of these.
_COMMON = (
    "cp1252",
    "gb18030",
    "cp1251",
    "cp932",
    "big5",
    "cp949",
    "cp1250",
    "euc_jp",
    "cp1254",
    "cp1253",
    "cp1255",
    "cp1256",
    "cp1257",
    "cp874",
    "cp1258",
    "koi8_r",
    "koi8_u",
    "iso8859_2",
    "iso8859_5",
    "iso8859_6",
    "iso8859_7",
    "cp866",
    "cp850",
    "cp852",
    "cp437",
    "mac_roman",
    "mac_cyrillic",
)
_LOOKED_AT = 1 << 16  # [bytes]
_WORD = re.compile(rb"[^\s,;\"]*[\x80-\xff][^\s,;\"]*")
_SAMPLE = 40  # [characters]

# How Arrow files begin: those for random access, and streams, as datasets' save_to_disk writes.
_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_START = 1024  # [bytes]
# How files begin that are not read here, what they are, and what to do.
_FOREIGN = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), what)
    for pattern, what in (
        (LFS_POINTER, "a Git LFS pointer, not the file; run git lfs pull where it is from"),
        (rb"BZh\d1AY&SY", "packed with bzip2; unpack it"),
        (rb"\x28\xb5\x2f\xfd", "packed with zstd; unpack it"),
        (rb"\xfd7zXZ", "packed with xz; unpack it"),
        (rb"7z\xbc\xaf|Rar!\x1a", "a 7z or RAR file; unpack it"),
        (rb".{257}ustar", "a tar file; unpack it"),
        (rb"%PDF-", "a PDF document; save its text"),
        (rb"\{\\rtf", "an RTF document; save it as plain text"),
        (
            rb"(<\?xml.*)?<mediawiki",
            "a dump of MediaWiki (XML); extract its text, as WikiExtractor does with --json, which "
            "writes JSON lines",
        ),
        (
            rb"(<(\?xml|!--).*)?<(!doctype html|html|head|body)[\s>]",
            "an HTML page, perhaps of an error in place of the file; save the text alone",
        ),
        (rb"<\?xml", "XML; save the text alone, as JSON lines"),
    )
)
_ZIPPED = (
    ("xl/", "a spreadsheet (.xlsx)"),
    ("content.xml", "a spreadsheet (.ods)"),
    ("word/", "a Word document; save its text"),
)
_PANDAS = "python -c \"import pandas; pandas.read_excel('%s').to_csv('%s.csv', index=False)\""


def check(name: str) -> None:
    """Raises UserError unless this is the name of a text encoding."""
    try:
        codecs.lookup(name)
        "".encode(name)
    except LookupError:
        raise UserError(
            f"encoding: unknown '{name}'; expected a name such as utf-8, utf-16, cp1252, "
            "gb18030 or shift_jis"
        ) from None


def composed(name: str) -> str:
    """The name of a column or field in Unicode's composed form. macOS and some exports write ü as
    u and a combining mark, which looks the same."""
    return unicodedata.normalize("NFC", name)


def other_than_utf8(name: Optional[str]) -> Optional[str]:
    """The name of an encoding; None if it is UTF-8, where a byte order mark is never text."""
    is_utf8 = codecs.lookup(name or "utf-8").name in ("utf-8", "utf-8-sig")
    return None if is_utf8 else name


def foreign(path: str, file: IO[bytes]) -> Optional[str]:
    """What a file is if it is not text, JSON, a table or Parquet, and what to do; None for others.
    The file is open at its beginning."""
    start: Any = file.read(_START)
    if start.startswith(_ARROW):
        return arrow(path)
    # XML and HTML may be UTF-16, and are decoded to be recognized.
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        start = start.decode("utf-16", "ignore").encode()
    # A zip file may be a spreadsheet, a document, or an archive of files.
    if start.startswith(b"PK\x03\x04"):
        file.seek(0)
        try:
            names = zipfile.ZipFile(file).namelist()
        except (zipfile.BadZipFile, OSError):
            names = []
        for beginning, what in _ZIPPED:
            if any(name.startswith(beginning) for name in names):
                return spreadsheet(path, what) if "spreadsheet" in what else what
        return (
            spreadsheet(path, "a damaged spreadsheet")
            if path.lower().endswith((".xlsx", ".ods"))
            else "a zip file; unpack it"
        )
    if start.startswith(b"\xd0\xcf\x11\xe0"):  # of Office before 2007
        return spreadsheet(path, "a spreadsheet (.xls)")
    start = start.removeprefix(codecs.BOM_UTF8).lstrip()
    return next((what for pattern, what in _FOREIGN if pattern.match(start)), None)


def arrow(path: str) -> str:
    """What to do with an Arrow file."""
    return (
        "an Arrow file, as datasets' save_to_disk writes it; make Parquet of it: python -c "
        f"\"import datasets; datasets.Dataset.from_file('{path}').to_parquet("
        f"'{os.path.splitext(path)[0]}.parquet')\""
    )


def spreadsheet(path: str, what: str) -> str:
    """What to do with a spreadsheet."""
    name = os.path.splitext(path)[0]
    return (
        "{}; save it as CSV, UTF-8; expected CSV, TSV, JSON lines or Parquet, or convert it: "
        "{}".format(what, _PANDAS % (path, name if name + ".csv" != path else name + "_sheet"))
    )


def hint(content: bytes) -> str:
    """ "; give --encoding=cp1252 (schön) ...", to be added to an error about lines that are not
    UTF-8; "" if no encoding is likely."""
    import charset_normalizer

    content = content[:_LOOKED_AT]
    found = charset_normalizer.from_bytes(content, cp_isolation=list(_COMMON)).best()
    # Several encodings may give the same text; the most common one of these is named.
    text = str(found)
    same = [name for name in _COMMON if found and content.decode(name, "replace") == text]
    if not same:
        return ""
    word = next(iter(_WORD.findall(content)), b"").decode(same[0], "replace")
    return f"; if {word[:_SAMPLE]!r} reads right, give --encoding={same[0]}"
